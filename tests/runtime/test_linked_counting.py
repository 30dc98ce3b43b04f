"""AGG with conditions between neighbours is counted by a counter for each event, and gives what enumeration gives."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import ensue
from ensue.language import parse_query
from ensue.planning.aggregates import Method
from ensue.runtime.engine import Engine
from ensue.testing.harness import describe_rows
from ensue.testing.random_queries import POINT_SCHEMA

from .agreement import push_pieces
from .tallying import expected_rows, methods_for, to_rows
from .test_engine_cutting import cut
from .test_sharing import random_events

TYPES = dict(zip("ABCDE", "ABCAB", strict=True))
AGGREGATES = ("COUNT(*)", "COUNT(*), SUM(b.x)", "AVG(a.y)", "MIN(a.x), MAX(b.y)", "COUNT(b.x)")


def random_linked(rng: random.Random) -> str:
    size = rng.randint(2, 4)
    names = "abcd"[:size]
    items = ", ".join(f"{rng.choice('ABC')} {name}" for name in names)
    conditions = []
    for left, right in pairwise(names):
        if rng.random() < 0.6 or left == "a":
            attribute = rng.choice(("x", "x", "y", "s")) if rng.random() < 0.9 else "ts"
            operator = rng.choice(("=", "!=")) if attribute == "s" else rng.choice(("<", "<=", ">", ">=", "!="))
            pair = (left, right) if rng.random() < 0.7 else (right, left)
            conditions.append(f"{pair[0]}.{attribute} {operator} {pair[1]}.{attribute}")
    if rng.random() < 0.3:
        conditions.append(f"{rng.choice(names)}.x > 0")
    key = rng.choice(("", "", "GROUP BY k", "PARTITION BY k", "tie"))
    if key == "tie":
        conditions.append(" = ".join(f"{name}.k" for name in names))
        key = rng.choice(("", "GROUP BY a.k"))
    within = rng.choice((f"WITHIN {rng.randint(2, 15)}",) * 5 + ("",))
    change = rng.choice(("", "", "EMIT ON CHANGE"))
    return f"PATTERN SEQ({items}) WHERE {' AND '.join(conditions)} {within} AGG {rng.choice(AGGREGATES)} {key} {change}"


def test_linked_is_enumeration() -> None:
    counted = Counter[str]()
    for seed in range(150):
        rng = random.Random(seed)
        query = parse_query(random_linked(rng))
        events = [{**e, "type": TYPES[e["type"]], "s": rng.choice("uv")} for e in random_events(rng)]
        expected = expected_rows(query, events, POINT_SCHEMA)
        method = methods_for(query, POINT_SCHEMA)[0]
        engine = Engine(query, POINT_SCHEMA)
        whole = seed % 3
        found = [engine.push_sorted(events)] if whole else push_pieces(engine, events, cut(rng, len(events)))
        difference = describe_rows(to_rows(found), expected)
        assert not difference, "\n".join([f"seed {seed}", str(query), *map(str, events), *difference])
        counted[method.name] += 1
        counted["rows"] += len(expected)
    assert counted["LINKED"] > 130 and counted["rows"] > 300, counted


def rising(count: int) -> list[dict[str, Any]]:
    return [{"type": "ABCD"[n % 4], "ts": n, "x": n * 7 % 50, "k": n % 2} for n in range(count)]


def test_a_snapshot_holds_the_events() -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 40 AGG COUNT(*), SUM(a.x)"
    events = rising(300)
    engine, found = ensue.compile(query), []
    for start in range(0, 300, 70):
        found.append(engine.push(events[start : start + 70]))
        after = ensue.compile(query)
        after.restore(engine.snapshot())
        engine = after
    rows = to_rows([*found, engine.flush()])
    assert rows == to_rows([ensue.run(events, query, plan=Method.DETECTION)])
    assert max(row["count"] for row in rows) > 20


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("SEQ(A a, B b, C c) WHERE a.x < c.x", "the condition a.x < c.x cannot be decided"),
        ("SEQ(A a, B+ b[], C c) WHERE b.x < c.x", "the condition b.x < c.x, beside a list, an absence or OR,"),
        ("SEQ(A a, !N n, C c) WHERE a.x < c.x", "the condition a.x < c.x, beside a list, an absence or OR,"),
        ("SEQ(A a, B b) WHERE a.x + 1 < b.x", "the condition a.x + 1 < b.x cannot be decided"),
    ],
)
def test_what_counters_cannot_tell(pattern: str, why: str) -> None:
    assert f"warning: {why}" in ensue.compile(f"PATTERN {pattern} WITHIN 9 AGG COUNT(*)").explain()
