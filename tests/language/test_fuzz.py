"""Whatever the text, there is a query or an error that explains itself; never anything else."""

from __future__ import annotations

import random

import pytest

from ensue.errors import EnsueError, QuerySyntaxError
from ensue.language import format_text, parse
from ensue.pattern.check import check

SEEDS = [
    "QUERY q PATTERN SEQ(A a, B+ b[], NOT C c, D{2,3} d) WHERE <a.x < b.x AND b[i].x > b[i-1].x> [WITHIN 10s]",
    "PATTERN A;B;C WHERE A.k = B.k = C.k AND NOT (A.x IN (1, 'it''s', NULL) OR B.y BETWEEN -1 AND 1e3) USING NEXT;",
    "PATTERN <AND(A a, OR(B b, C c))> PARTITION BY k, `odd name` WITHIN 5 EVENTS RETURN a.x AS y, SUM(b.x), FIRST(b).x",
    "PATTERN SEQ(A a, B b) AGG COUNT(*) AS n, AVG(b.x) GROUP BY k, a.v EMIT ON CHANGE WITHIN 1 hour -- a comment\n",
    "/* c */ PATTERN A a WHERE a.name LIKE '%x_' AND coalesce(a.x, -(1)) % 2 != round(a.y, 2) / .5 WITHIN UNBOUNDED",
]
FRAGMENTS = [
    "PATTERN",
    "WHERE",
    "WITHIN",
    "USING",
    "RETURN",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NULL",
    "TRUE",
    "AS",
    "QUERY",
    "PARTITION",
    "GROUP",
    "BY",
    "EMIT",
    "ON",
    "CHANGE",
    "AGG",
    "SEQ(",
    "COUNT(*)",
    "COUNT",
    "SUM(",
    "FIRST(",
    "abs(",
    "EVENTS",
    "UNBOUNDED",
    "ANY",
    "a",
    "a.x",
    "b[i].x",
    "b[i-1].x",
    "b[]",
    "A",
    "B+",
    "C*",
    "D?",
    "E{2}",
    "E{1,}",
    "1",
    "-1",
    "2.5e3",
    "10s",
    "'x'",
    "`n`",
    '"m"',
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "<=",
    "<>",
    "=",
    "!=",
    ";",
    ",",
    ".",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "~",
    "¬",
    "∧",
    "∨",
    "--",
    "/*",
    "*/",
    "'",
    "`",
    '"',
    "$",
    "&",
    "\\",
    "\n",
    "\x00",
    "é",
    "ſeq",
    "�",
]


def mutate(text: str, random_: random.Random) -> str:
    for _ in range(random_.randint(1, 4)):
        place = random_.randrange(len(text) + 1)
        other = random_.randrange(len(text) + 1)
        low, high = min(place, other), max(place, other)
        match random_.randrange(5):
            case 0:
                text = text[:place] + random_.choice(FRAGMENTS) + text[place:]
            case 1:
                text = text[:place] + text[place + random_.randint(1, 5) :]
            case 2:
                text = text[:place] + " " + text[low:high][:30] + " " + text[place:]
            case 3:
                text = text[:place] + chr(random_.randrange(32, 0x250)) + text[place + 1 :]
            case _:
                words = text.split(" ")
                random_.shuffle(words)
                text = " ".join(words) if random_.random() < 0.2 else text[:high]
    return text


@pytest.mark.fuzz
def test_nothing_but_errors_of_ours() -> None:
    random_ = random.Random(20240501)
    read = refused = 0
    for k in range(20_000):
        if k % 4 == 0:
            text = " ".join(random_.choices(FRAGMENTS, k=random_.randint(1, 25)))
        else:
            text = mutate(random_.choice(SEEDS), random_)
        try:
            queries = parse(text)
        except QuerySyntaxError as error:
            refused += 1
            assert error.source == text
            assert error.span is not None
            assert 0 <= error.span.start <= error.span.end <= len(text)
            assert error.message in str(error)
            continue
        read += 1
        laid_out = format_text(text)
        assert parse(laid_out) == queries
        assert format_text(laid_out) == laid_out
        for query in queries:
            try:
                check(query)
            except EnsueError as error:
                assert str(error)
    assert read > 500
    assert refused > 5000
