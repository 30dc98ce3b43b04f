"""Random cases are valid, repeatable, and hold every feature; Hypothesis draws the same kind."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue.events.schema import Schema
from ensue.pattern.check import check
from ensue.pattern.expressions import Aggregate, At, Attribute, InList, IsNull, Like, Logical, Not, conjuncts_of, walk
from ensue.pattern.query import And, CountWindow, Item, Or, Pattern, Policy, Query, Seq, TimeWindow
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import INTERVAL_SCHEMA, Shape, random_case
from ensue.testing.strategies import cases, queries, streams


def nodes(pattern: Pattern) -> list[Pattern]:
    if isinstance(pattern, Item):
        return [pattern]
    return [pattern, *(node for part in pattern.items for node in nodes(part))]


def features(query: Query, schema: Schema) -> set[str]:
    found = {type(node).__name__ for node in nodes(query.pattern)} - {"Item"} | {query.policy.value}
    found |= {"negation" for item in query.items if item.negated}
    found |= {"kleene" for item in query.items if item.quantifier is not None}
    found |= {"nested" for node in nodes(query.pattern)[1:] if not isinstance(node, Item)}
    found |= {f"partition by {len(query.partition_by)}", type(query.within).__name__}
    if schema.begin is not None:
        found.add("interval")
    for conjunct in conjuncts_of(query.where):
        for part in walk(conjunct):
            found.add(f"{type(part).__name__}")
            if isinstance(part, Attribute):
                found.add(f"{part.at.value}")
    return found


def test_seeded_cases() -> None:
    seen: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    for seed in range(2_000):
        query, events, schema = random_case(random.Random(seed))
        check(query, schema)
        assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
        own = features(query, schema)
        seen.update(own)
        if find_matches(events, query, schema):
            matched.update(own)
    wanted = {"ANY", "NEXT", "STRICT", "negation", "kleene", "nested", "interval", "NoneType", "partition by 2"}
    wanted |= {kind.__name__ for kind in (Seq, And, Or, TimeWindow, CountWindow, Aggregate, InList, IsNull, Like, Not)}
    wanted |= {Logical.__name__, *(at.value for at in At)}
    assert wanted <= seen.keys()
    assert min(matched[name] for name in wanted) >= 5, matched


def test_a_seed_gives_one_case() -> None:
    first, again, other = (random_case(random.Random(seed)) for seed in (11, 11, 12))
    assert first[0] == again[0]
    assert repr(first[1]) == repr(again[1])
    assert first[0] != other[0]


def test_shapes_are_kept() -> None:
    shape = Shape(
        policies=(Policy.ANY,), conjunction=False, disjunction=False, nesting=False, kleene=0, negation=0,
        conditions=0, windows=("count",), partitions=(("k",),), intervals=1, variables=3, events=5, unsorted=1,
    )  # fmt: skip
    shuffled = 0
    for seed in range(200):
        query, events, schema = random_case(random.Random(seed), shape)
        assert isinstance(query.pattern, Seq)
        assert all(isinstance(i, Item) and not i.negated and i.quantifier is None for i in query.pattern.items)
        assert len(query.items) <= 3
        assert query.where is None
        assert isinstance(query.within, CountWindow)
        assert query.partition_by == ("k",)
        assert schema is INTERVAL_SCHEMA
        assert len(events) <= 5
        shuffled += [e["ts"] for e in events] != sorted(e["ts"] for e in events)
    assert shuffled > 20


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@QUICK
@given(queries())
def test_drawn_queries_are_valid(query: Query) -> None:
    check(query)


@QUICK
@given(cases())
def test_drawn_cases_run(case: tuple[Query, list[dict[str, Any]], Schema]) -> None:
    query, events, schema = case
    check(query, schema)
    for match in find_matches(events, query, schema):
        assert match.begin <= match.end


@QUICK
@given(st.data())
def test_drawn_streams(data: st.DataObject) -> None:
    events = data.draw(streams(schema=INTERVAL_SCHEMA))
    assert all(event["start"] <= event["ts"] for event in events)
