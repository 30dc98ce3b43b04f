"""What a wrong text is answered with: the whole message, with line, column, caret and hint."""

from __future__ import annotations

import pytest

from ensue.errors import QuerySyntaxError
from ensue.language import Limits, parse, parse_query

CASES = {
    "nothing": (
        "",
        """
line 1, column 1: there is no query in the text
  ⏎
  ^
hint: a query starts with PATTERN, such as `PATTERN SEQ(A a, B b) WITHIN 10s`
""",
    ),
    "no PATTERN": (
        "SEQ(A a, B b) WITHIN 10s",
        """
line 1, column 1: expected PATTERN or QUERY, found `SEQ`
  SEQ(A a, B b) WITHIN 10s
  ^^^
hint: a query starts with PATTERN
""",
    ),
    "PATTERN misspelt": (
        "PATERN SEQ(A a, B b)",
        """
line 1, column 1: expected PATTERN or QUERY, found `PATERN`
  PATERN SEQ(A a, B b)
  ^^^^^^
hint: did you mean `PATTERN`?
""",
    ),
    "a clause misspelt": (
        "PATTERN SEQ(A a, B b)\nWITHNI 10s",
        """
line 2, column 1: expected `;`, a clause such as WHERE or WITHIN or the end of the query, found `WITHNI`
  WITHNI 10s
  ^^^^^^
hint: did you mean `WITHIN`?
""",
    ),
    "a clause misspelt, read as a variable": (
        "PATTERN A WITHNI 10s",
        """
line 1, column 11: expected a clause, found `WITHNI`
  PATTERN A WITHNI 10s
            ^^^^^^
hint: did you mean `WITHIN`?
""",
    ),
    "a clause misspelt after a condition": (
        "PATTERN A a WHERE a.x = 1 RETRUN a.x",
        """
line 1, column 27: expected an operator, a clause such as WHERE or WITHIN or the end of the query, found `RETRUN`
  PATTERN A a WHERE a.x = 1 RETRUN a.x
                            ^^^^^^
hint: did you mean `RETURN`?
""",
    ),
    "BY forgotten": (
        "PATTERN A a PARTITION k",
        """
line 1, column 13: expected `;`, a clause such as WHERE or WITHIN or the end of the query, found `PARTITION`
  PATTERN A a PARTITION k
              ^^^^^^^^^
hint: did you mean `PARTITION BY`?
""",
    ),
    "an operator misspelt": (
        "PATTERN SEQQ(A a, B b)",
        """
line 1, column 9: `SEQQ` is not an operator of patterns
  PATTERN SEQQ(A a, B b)
          ^^^^
hint: did you mean `SEQ`?
""",
    ),
    "AND misspelt": (
        "PATTERN A a WHERE a.x = 1 ADN a.y = 2",
        """
line 1, column 27: expected an operator, a clause such as WHERE or WITHIN or the end of the query, found `ADN`
  PATTERN A a WHERE a.x = 1 ADN a.y = 2
                            ^^^
hint: did you mean `AND`?
""",
    ),
    "a function misspelt": (
        "PATTERN A a WHERE lenght(a.x) = 1",
        """
line 1, column 19: unknown function `lenght`
  PATTERN A a WHERE lenght(a.x) = 1
                    ^^^^^^
hint: did you mean `length`?
""",
    ),
    "a text in double quotes": (
        'PATTERN A a WHERE a.x = "it\'s" AND a.y = 1',
        """
line 1, column 25: `it's` alone is not a value
  PATTERN A a WHERE a.x = "it's" AND a.y = 1
                          ^^^^^^
hint: a text is written in single quotes: 'it''s'
""",
    ),
    "a variable alone": (
        "PATTERN A a WHERE a = 1",
        """
line 1, column 19: `a` alone is not a value
  PATTERN A a WHERE a = 1
                    ^
hint: write `a.` and the name of an attribute
""",
    ),
    "a unit misspelt": (
        "PATTERN A a WITHIN 10 secnds",
        """
line 1, column 23: `secnds` is not a unit of time
  PATTERN A a WITHIN 10 secnds
                        ^^^^^^
hint: did you mean `seconds`?
""",
    ),
    "the text ends": (
        "PATTERN A a WHERE a.x =  \n",
        """
line 1, column 24: expected a value, but the text ends here
  PATTERN A a WHERE a.x =  ⏎
                         ^
""",
    ),
    "a parenthesis not closed": (
        "PATTERN SEQ(A a, B b WHERE a.x = 1",
        """
line 1, column 22: expected `)` or `,`, found `WHERE`
  PATTERN SEQ(A a, B b WHERE a.x = 1
                       ^^^^^
hint: a `)` is missing before it
""",
    ),
    "a parenthesis too many": (
        "PATTERN A a WHERE (a.x = 1)) WITHIN 5s",
        """
line 1, column 28: expected a clause such as WHERE or WITHIN or the end of the query, found `)`
  PATTERN A a WHERE (a.x = 1)) WITHIN 5s
                             ^
""",
    ),
    "a wrap not closed": (
        "PATTERN A a WHERE <a.x = 1",
        """
line 1, column 27: expected the closing `>`, but the text ends here
  PATTERN A a WHERE <a.x = 1
                            ^
hint: the `<` that opens the clause's body needs its `>`
""",
    ),
    "a clause twice": (
        "PATTERN A a WHERE a.x = 1 WHERE a.y = 2",
        """
line 1, column 27: there are two WHERE clauses in this query
  PATTERN A a WHERE a.x = 1 WHERE a.y = 2
                            ^^^^^
hint: join their conditions with AND
""",
    ),
    "two queries without a semicolon": (
        "PATTERN A a WITHIN 5s\nPATTERN B b",
        """
line 2, column 1: expected a clause such as WHERE or WITHIN or the end of the query, found `PATTERN`
  PATTERN B b
  ^^^^^^^
hint: a `;` stands between two queries
""",
    ),
    "a negated group": (
        "PATTERN SEQ(A a, NOT AND(B b, C c))",
        """
line 1, column 18: only a single event type can be negated
  PATTERN SEQ(A a, NOT AND(B b, C c))
                   ^^^^^^^^^^^^^^^^^
hint: write NOT before each event type that must be absent
""",
    ),
    "a quantified group": (
        "PATTERN SEQ(A a, AND(B b, C c)+)",
        """
line 1, column 31: expected `)` or `,`, found `+`
  PATTERN SEQ(A a, AND(B b, C c)+)
                                ^
hint: a quantifier stands after an event type, not after a group
""",
    ),
    "a list of a single event": (
        "PATTERN SEQ(A a, B b[])",
        """
line 1, column 20: `b[]` is a list of events, but `B` takes a single one
  PATTERN SEQ(A a, B b[])
                     ^^^
hint: write `B+ b[]`, or `B b`
""",
    ),
    "a place in a list": (
        "PATTERN B+ b[] WHERE b[1].x = 1",
        """
line 1, column 24: `[1]` is not a place in a list; the places are `[i]` and `[i-1]`
  PATTERN B+ b[] WHERE b[1].x = 1
                         ^
hint: the first and last event of the list are `FIRST(b)` and `LAST(b)`
""",
    ),
    "SUM of nothing": (
        "PATTERN B+ b[] WHERE SUM(b) = 1",
        """
line 1, column 22: SUM needs an attribute: found `SUM(b)`
  PATTERN B+ b[] WHERE SUM(b) = 1
                       ^^^^^^
hint: write `SUM(b.attribute)`
""",
    ),
    "AGG COUNT of a variable": (
        "PATTERN SEQ(A a, B b) AGG COUNT(b)",
        """
line 1, column 27: COUNT over matches needs an attribute: found `COUNT(b)`
  PATTERN SEQ(A a, B b) AGG COUNT(b)
                            ^^^^^^^^
hint: write `COUNT(b.attribute)`, or `COUNT(*)`
""",
    ),
    "an unknown policy": (
        "PATTERN A a USING NEXTT",
        """
line 1, column 19: expected ANY, NEXT or STRICT, found `NEXTT`
  PATTERN A a USING NEXTT
                    ^^^^^
hint: did you mean `NEXT`?
""",
    ),
    "a text not closed": (
        "PATTERN A a WHERE a.x = 'abc",
        """
line 1, column 25: this text in quotes is not closed
  PATTERN A a WHERE a.x = 'abc
                          ^
hint: add `'` at its end
""",
    ),
    "a name not closed": (
        "PATTERN `A a",
        """
line 1, column 9: this quoted name is not closed
  PATTERN `A a
          ^
hint: add ``` at its end
""",
    ),
    "a comment not closed": (
        "PATTERN A a /* WHERE",
        """
line 1, column 13: this comment is not closed
  PATTERN A a /* WHERE
              ^^
hint: add `*/` at its end
""",
    ),
    "a foreign sign": (
        "PATTERN A$ a",
        """
line 1, column 10: the character `$` has no meaning here
  PATTERN A$ a
           ^
hint: a name with other signs than letters, digits and `_` is written in back quotes
""",
    ),
    "&& for AND": (
        "PATTERN A a WHERE a.x = 1 && a.y = 1",
        """
line 1, column 27: `&` has no meaning here
  PATTERN A a WHERE a.x = 1 && a.y = 1
                            ^
hint: write `AND`
""",
    ),
    "half an event": (
        "PATTERN A a WITHIN 1.5 EVENTS",
        """
line 1, column 20: expected a whole number, found `1.5`
  PATTERN A a WITHIN 1.5 EVENTS
                     ^^^
""",
    ),
    "an event type that is a number": (
        "PATTERN 158324 a",
        """
line 1, column 9: expected an event type, SEQ, AND or OR, found `158324`
  PATTERN 158324 a
          ^^^^^^
hint: a name that is not a word is written in back quotes: `158324`
""",
    ),
    "a name forgotten": (
        "PATTERN A a RETURN a.x AS WITHIN 5s",
        """
line 1, column 27: expected a name, found `WITHIN`
  PATTERN A a RETURN a.x AS WITHIN 5s
                            ^^^^^^
hint: `WITHIN` is a keyword; as a name it is written in back quotes
""",
    ),
    "in the second query": (
        "PATTERN A a;\n-- next\nPATTERN B b WHERE b.x = = 5;",
        """
line 3, column 25: expected a value, found `=`
  PATTERN B b WHERE b.x = = 5;
                          ^
hint: comparisons are = != < <= > >=
""",
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse_query(text)
    assert str(caught.value) == message.strip("\n").replace("⏎", "")


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        ("PATTERN A" + " " * 100_000, Limits(), "the limit is 100,000 characters"),
        ("PATTERN A a WHERE " + "(" * 101 + "a.x = 1" + ")" * 101, Limits(), "limit of 100 levels"),
        ("PATTERN A a WHERE " + "NOT " * 5000 + "a.x = 1", Limits(), "limit of 100 levels"),
        ("PATTERN A a WHERE a.x = " + "- " * 20_000 + "1", Limits(), "limit of 100 levels"),
        ("PATTERN A a WHERE a.x = 1" + " + 1" * 20_000, Limits(), "limit of 100 levels"),
        ("PATTERN A a WHERE a.x IN (" + "1, " * 10_000 + "1)", Limits(), "more parts than the limit of 10,000"),
        ("PATTERN SEQ(" + ", ".join(f"A a{k}" for k in range(65)) + ")", Limits(), "limit of 64 items"),
        ("PATTERN " + "SEQ(" * 20_000, Limits(), "limit of 100 levels"),
        ("PATTERN A a WHERE a.x = " + "9" * 5000, Limits(), "limit of 1000 characters"),
        ("PATTERN A a WITHIN " + "9" * 5000 + "s", Limits(), "limit of 1000 characters"),
        ("PATTERN SEQ(A a, B b, C c)", Limits(items=2), "limit of 2 items"),
        ("PATTERN A a", Limits(characters=5), "the limit is 5 characters"),
    ],
)
def test_limits(text: str, limits: Limits, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text, limits)
    assert message in caught.value.message
    assert caught.value.span is not None
    str(caught.value)


def test_what_is_just_within_the_limits() -> None:
    assert len(parse_query("PATTERN SEQ(" + ", ".join(f"A a{k}" for k in range(64)) + ")").items) == 64
    parse_query("PATTERN A a WHERE " + "(" * 100 + "a.x = 1" + ")" * 100)
    parse_query("PATTERN A a WHERE " + " AND ".join(["a.x = 1"] * 3000))
    assert parse(";" * 50_000) == ()
    assert len(parse("PATTERN A" + ";" * 50_000 + "PATTERN B")) == 2
