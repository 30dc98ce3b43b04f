"""The canonical layout of a text, and where its comments go."""

from __future__ import annotations

import pytest

from ensue.errors import QuerySyntaxError
from ensue.language import format_text

CASES = {
    "clauses in order": (
        "pattern seq(A a,B b) return a.x within 10 seconds where a.x<b.x",
        "PATTERN SEQ(A a, B b)\nWHERE a.x < b.x\nWITHIN 10s\nRETURN a.x\n",
    ),
    "several queries": (
        "query one pattern A a;query two pattern B b",
        "QUERY one\nPATTERN A a;\n\nQUERY two\nPATTERN B b;\n",
    ),
    "comments above": (
        "-- of the query\n\n/* and\n   more */ PATTERN A a\n   -- of the window\n   WITHIN 5s",
        "-- of the query\n/* and\n   more */\nPATTERN A a\n-- of the window\nWITHIN 5s\n",
    ),
    "comments beside": (
        "PATTERN A a --one\nWITHIN 5s /* two */ WHERE a.x = 1 -- three",
        "PATTERN A a  --one\nWHERE a.x = 1  -- three\nWITHIN 5s  /* two */\n",
    ),
    "two comments in one clause": (
        "PATTERN SEQ(A a, -- one\n B b) -- two\nWITHIN 5s",
        "-- one\n-- two\nPATTERN SEQ(A a, B b)\nWITHIN 5s\n",
    ),
    "a comment after the semicolon": (
        "PATTERN A a; -- of A\n-- of B\nPATTERN B b;\n-- the end",
        "PATTERN A a;  -- of A\n\n-- of B\nPATTERN B b;\n\n-- the end\n",
    ),
    "a clause that says the default": (
        "PATTERN A a\n-- why\nUSING ANY",
        "-- why\nPATTERN A a\n",
    ),
    "only comments": ("  -- nothing here  \r\n", "-- nothing here\n"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_layout(text: str, expected: str) -> None:
    assert format_text(text) == expected
    assert format_text(expected) == expected


def test_a_wrong_text_is_not_laid_out() -> None:
    with pytest.raises(QuerySyntaxError):
        format_text("PATTERN SEQ(")
