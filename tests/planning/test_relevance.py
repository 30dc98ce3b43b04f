"""What can matter to queries: events by their types and local conditions, and columns."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import ensue
from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.expressions import Attribute
from ensue.pattern.format import format_expression
from ensue.pattern.query import Policy, Query, Return
from ensue.planning.conditions import EVENT
from ensue.planning.relevance import Alternatives, needed_columns, relevant_events
from ensue.testing.evaluation import holds
from ensue.testing.random_queries import random_case
from ensue.testing.values import Unreadable, read_event

COLUMNS = Schema(
    {
        "x": DType.FLOAT,
        "type": DType.STRING,
        "since": DType.INT,
        "k": DType.STRING,
        "ts": DType.INT,
        "end": DType.INT,
        "y": DType.INT,
    },
    begin="since",
)


def shown(*texts: str) -> dict[str, list[list[str]]] | None:
    """The alternatives of each type, as text."""
    found = relevant_events([parse_query(text) for text in texts])
    if found is None:
        return None
    return {kind: [[format_expression(c) for c in one] for one in ways] for kind, ways in found.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PATTERN SEQ(A a, B b)", {"A": [[]], "B": [[]]}),
        (
            "PATTERN SEQ(A a, B b) WHERE a.x > 1 AND a.k = b.k AND b.y IN (1, 2) AND a.y < 3",
            {"A": [["_.x > 1", "_.y < 3"]], "B": [["_.y IN (1, 2)"]]},
        ),
        ("PATTERN SEQ(A a, A b) WHERE a.x > 1 AND b.x < 0", {"A": [["_.x > 1"], ["_.x < 0"]]}),
        ("PATTERN SEQ(A a, A b) WHERE a.x > 1", {"A": [[]]}),  # whatever can be b
        ("PATTERN SEQ(A a, A b) WHERE a.x > 1 AND b.x > 1", {"A": [["_.x > 1"]]}),
        ("PATTERN A a WHERE 1 < a.x < 3 AND a.x > 1", {"A": [["1 < _.x", "_.x < 3", "_.x > 1"]]}),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 OR b.x > 1", {"A": [[]], "B": [[]]}),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 OR a.y = 2", {"A": [["_.x > 1 OR _.y = 2"]], "B": [[]]}),
        ("PATTERN SEQ(A a, B b) WHERE 1 = 2", {"A": [[]], "B": [[]]}),
        (
            "PATTERN SEQ(A a, !N n, B b) WHERE n.x > 1 AND n.k = a.k WITHIN 5",
            {"A": [[]], "N": [["_.x > 1"]], "B": [[]]},
        ),
        (
            "PATTERN OR(SEQ(A a, B b), SEQ(A c, D d)) WHERE a.x = 1 AND c.x = 2",
            {"A": [["_.x = 1"], ["_.x = 2"]], "B": [[]], "D": [[]]},
        ),
        ("PATTERN A+ a[] WHERE a.x > 1", {"A": [["_.x > 1"]]}),
        ("PATTERN A+ a[] WHERE a[i].x > 1", {"A": [["_.x > 1"]]}),
        ("PATTERN A+ a[] WHERE a[i].x > a[i-1].x AND a[i-1].x > 2", {"A": [[]]}),
        ("PATTERN A+ a[] WHERE FIRST(a).x > 1 AND LAST(a).x > 2", {"A": [[]]}),
        ("PATTERN A+ a[] WHERE SUM(a.x) > 1 AND COUNT(a) > 2 AND a.x > AVG(a.x)", {"A": [[]]}),
        ("PATTERN SEQ(A* a[], B b) WHERE a.x > 1 OR COUNT(a) > 2", {"A": [[]], "B": [[]]}),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 3 EVENTS", {"A": [[]], "B": [[]]}),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 3 USING NEXT", {"A": [["_.x > 1"]], "B": [[]]}),
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1 USING STRICT", None),
    ],
)
def test_one_query(text: str, expected: dict[str, list[list[str]]] | None) -> None:
    assert shown(text) == expected


def test_queries_side_by_side() -> None:
    first, second = "PATTERN SEQ(A a, B b) WHERE a.x > 1 AND b.x > 1", "PATTERN SEQ(B b, C c) WHERE b.y > 2"
    assert shown(first, second) == {"A": [["_.x > 1"]], "B": [["_.x > 1"], ["_.y > 2"]], "C": [[]]}
    assert shown(first, "PATTERN B b WITHIN 2 EVENTS") == {"A": [["_.x > 1"]], "B": [[]]}
    assert shown(first, "PATTERN SEQ(C c, D d) USING STRICT") is None
    assert shown() == {}


def test_events_that_cannot_matter_can_be_left_out() -> None:
    left_out = 0
    for seed in range(250):
        query, events, schema = random_case(random.Random(seed))
        found = relevant_events([query])
        if found is None:
            assert query.policy is Policy.STRICT
            continue
        kept = [row for row in events if _can_matter(row, found, schema)]
        left_out += len(events) - len(kept)
        assert _run(kept, query, schema) == _run(events, query, schema), f"seed {seed}: {query}"
    assert left_out > 200


def test_columns_that_are_not_needed_can_be_left_out() -> None:
    left_out = 0
    for seed in range(150):
        query, events, schema = random_case(random.Random(seed))
        variable = next(item.variable for item in query.items if not item.negated)
        query = replace(query, returns=(Return(Attribute(variable, "x"), "r"),))
        needed = needed_columns(query, schema)
        assert needed is not None
        left_out += len(schema.columns) - len(needed)
        short = [{name: row[name] for name in needed if name in row} for row in events]
        fewer = replace(schema, columns={name: schema.columns[name] for name in needed})
        assert _run(short, query, fewer) == _run(events, query, schema), f"seed {seed}: {query}"
    assert left_out > 100


def _can_matter(row: dict[str, Any], found: Mapping[str, Alternatives], schema: Schema) -> bool:
    try:
        event = read_event(0, row, schema)
    except Unreadable:
        return True
    return any(all(holds(c, {EVENT: event}, schema) for c in one) for one in found.get(event.type, ()))


def _run(events: list[dict[str, Any]], query: Query, schema: Schema) -> list[tuple[str, str]]:
    matches = ensue.run(events, query, schema=schema)
    return sorted((match["match_id"], str(match["detected_at"])) for match in matches)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PATTERN SEQ(A a, B b) WHERE a.x > 1", None),
        ("PATTERN A a RETURN 1 AS one", ("type", "since", "ts")),
        ("PATTERN A a WHERE a.x > 1 PARTITION BY k RETURN a.y", ("x", "type", "since", "k", "ts", "y")),
        ("PATTERN SEQ(A+ a[], B b) WHERE SUM(a.x) > 1 AND b.ts > 2 RETURN COUNT(a)", ("x", "type", "since", "ts")),
        ("PATTERN SEQ(A a, !N n, B b) WHERE n.y = a.y RETURN a.ts", ("type", "since", "ts", "y")),
        ("PATTERN A+ a[] RETURN FIRST(a).k AS first, MAX(a.y) AS most", ("type", "since", "k", "ts", "y")),
        ("PATTERN A a RETURN a.end, a.begin", ("type", "since", "ts")),  # `end` is the event's, not the column
    ],
)
def test_needed_columns(text: str, expected: tuple[str, ...] | None) -> None:
    assert needed_columns(parse_query(text), COLUMNS) == expected
