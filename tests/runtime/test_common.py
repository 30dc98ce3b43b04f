"""Queries that look at the same events: these are stored once, and every query finds what it finds alone."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.events.schema import DType, Schema
from ensue.language import parse
from ensue.pattern.expressions import Duration
from ensue.pattern.query import Query, TimeWindow
from ensue.planning.common import common_leaves
from ensue.runtime.adapting import Adapter
from ensue.runtime.engine import Engine
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import random_case
from tests.runtime.agreement import time_order, to_oracle
from tests.runtime.test_adapting import drifting, random_plan

TOGETHER = 200


def random_set(seed: int) -> tuple[list[Query], list[dict[str, Any]], Schema]:
    """A random query, the same with another window, two more over the same columns, and a stream."""
    rng = random.Random(seed)
    query, events, schema = random_case(rng)
    queries = [query]
    if isinstance(query.within, TimeWindow):
        queries.append(replace(query, within=TimeWindow(Duration(rng.randrange(1, 12), None))))
    else:
        queries.append(query)
    for _ in range(20):
        other, more, columns = random_case(rng)
        if columns == schema and len(queries) < 4:
            queries.append(other)
            events = events if len(events) > 8 else [*events, *more[:4]]
    return [replace(q, name=f"q{k}") for k, q in enumerate(queries)], sorted(events, key=lambda e: e["ts"]), schema


def run_together(seed: int) -> int:
    """Run a random set in one engine in every manner; the number of common leaves."""
    rng = random.Random(seed)
    queries, events, schema = random_set(seed)
    adapt = rng.choice([None, "static"])

    def make() -> Engine:
        return Engine(queries, schema, adapt=adapt)  # type: ignore[arg-type]

    engine = make()
    results = []
    place = 0
    while place < len(events):
        size = rng.randrange(1, 6)
        if rng.random() < 0.4:
            results += [engine.push_event(event) for event in events[place : place + size]]
        else:
            results.append(engine.push(events[place : place + size]))
        place += size
        if rng.random() < 0.2:
            engine._tidy()
        if rng.random() < 0.2:
            fresh = make()
            fresh.restore(engine.snapshot())
            engine = fresh
        chosen = rng.choice(queries)
        if adapt is not None and Adapter.fits(chosen) and engine.schema is not None:
            engine.replace_plan(chosen.name or "", random_plan(rng, chosen), rng.choice(["replay", "side by side"]))
    results.append(engine.flush())
    for query in queries:
        found = to_oracle([r[query.name] for r in results if query.name in r.names], time_order(events, schema))
        expected = find_matches(events, query, schema)
        assert Counter(map(str, found)) == Counter(map(str, expected)), f"seed {seed}: {query}"
    return len(engine._common.leaves)


@pytest.mark.fuzz
def test_queries_together_find_what_each_finds_alone() -> None:
    shared = sum(run_together(seed) > 0 for seed in range(TOGETHER))
    assert shared > TOGETHER // 3


STOCKS = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.FLOAT, "k": DType.INT, "s": DType.STRING})
THREE = """
QUERY near PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20;
QUERY far PATTERN SEQ(A a, !C c, B b, D d) WHERE a.x < b.x AND c.s = a.s AND b.x < d.x WITHIN 200;
QUERY own PATTERN SEQ(A a, B b) WHERE a.k > 1 AND a.x < b.x PARTITION BY s WITHIN 50
"""


def make_events(count: int) -> pa.Table:
    rng = random.Random(3)
    rows = [
        {
            "type": rng.choice("ABCD"),
            "ts": place,
            "x": rng.random(),
            "k": rng.randrange(20),
            "s": f"s{rng.randrange(30)}{place // 5000}",
        }
        for place in range(count)
    ]
    return pa.Table.from_pylist(rows)


def test_what_is_common() -> None:
    """The same type and filter, and the same key; the columns of all, kept as long as the longest window."""
    found = {leaf.key.type: leaf for leaf in common_leaves(parse(THREE), STOCKS)}
    assert set(found) == {"A", "B"}
    names = {kind: [str(column.expression.name) for column in leaf.columns] for kind, leaf in found.items()}
    assert names == {"A": ["x", "s"], "B": ["x"]}
    assert all(leaf.queries == ("near", "far") and leaf.keep == 200 for leaf in found.values())
    apart = "PATTERN SEQ(A a, B b) WITHIN 9 EVENTS; PATTERN SEQ(A a, B b) WITHIN 9 USING NEXT; PATTERN A a"
    assert common_leaves(parse(apart), STOCKS) == ()


def test_common_leaves_grow_shrink_and_are_released() -> None:
    events = make_events(30_000)
    together = ensue.compile(THREE)
    alone = [ensue.compile(text) for text in THREE.split(";")]
    found: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    sizes = [1, 20_000, 3, 4_000, 2_000, 3_996]
    start = 0
    held = 0
    for size in sizes:
        part = events.slice(start, size)
        found.update(together.push(part).to_arrow()["match_id"].to_pylist())
        held = max(held, max(table.capacity for table in together._common.tables))
        for engine in alone:
            expected.update(engine.push(part).to_arrow()["match_id"].to_pylist())
        start += size
    for place in range(start, start + 20):  # nothing but one type: the others are released
        together.push([{"type": "A", "ts": 1_000 * place, "x": 0.5, "k": 1, "s": "s"}])
    together._tidy()
    assert start == events.num_rows
    assert found == expected
    assert sum(found.values()) > 10_000
    assert held > 1_024
    assert [table.tail <= 1 for table in together._common.tables] == [True, True]
    assert all(table.capacity <= 1024 for table in together._common.tables)


def test_lists_of_shared_events() -> None:
    """What is looked through for a list grows with the leaf that it comes from."""
    listed = [f"QUERY q{k} PATTERN SEQ(A a, B{{2}} b[], C c) WHERE c.k = {k} AND c.x > 0.9 WITHIN 600" for k in (1, 2)]
    together = ensue.compile(";".join(listed))
    alone = [ensue.compile(text) for text in listed]
    events = [{"type": "A", "ts": 0, "x": 0.0, "k": 0, "s": ""}]
    events += [{"type": "B", "ts": place, "x": 0.0, "k": 0, "s": ""} for place in range(1, 300)]
    events += [{"type": "C", "ts": 300, "x": 1.0, "k": 1, "s": ""}, {"type": "C", "ts": 301, "x": 1.0, "k": 2, "s": ""}]
    found = [len(together.push(events[start : start + 100])) for start in range(0, len(events), 100)]
    assert sum(found) == sum(len(engine.push(events)) for engine in alone) == 2 * (299 * 298 // 2)


def test_events_are_stored_once() -> None:
    """Ten queries over the same events hold them once, and each one's own part is small."""
    ten = ";".join(f"QUERY q{k} PATTERN SEQ(A a, B b) WHERE a.x < b.x AND b.k = {k} WITHIN 5000" for k in range(10))
    events = make_events(20_000)
    together = ensue.compile(ten)
    together.push(events)
    alone = [ensue.compile(text) for text in ten.split(";")]
    for engine in alone:
        engine.push(events)
    own = [sum(state.arena.nbytes for _, state in engine._pairs()) for engine in (together, *alone)]
    assert [leaf.key.type for leaf in together._common.leaves] == ["A"]
    assert own[0] + together._common.nbytes < sum(own[1:]) / 3


def test_a_snapshot_of_shared_events_says_nothing_of_memory() -> None:
    events = make_events(2_000)
    first, second = ensue.compile(THREE), ensue.compile(THREE)
    for engine in (first, second):
        engine.push(events)
    assert first.snapshot() == second.snapshot()


def test_single_events_are_counted_for_plans() -> None:
    """An engine that gets events one by one checks its plans as often as one that gets batches."""
    events = drifting(6_000).to_pylist()
    queries = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND a.x > 0.9 WITHIN 500; PATTERN SEQ(A a, B b) WITHIN 9"
    adapt = ensue.Adaptation(every=1_000)
    single, batches = ensue.compile(queries, adapt=adapt), ensue.compile(queries, adapt=adapt)
    found = [match for event in events for match in single.push_event(event)]
    expected = [match for start in range(0, 6_000, 500) for match in batches.push(events[start : start + 500])]
    assert Counter(m["match_id"] for m in found) == Counter(m["match_id"] for m in expected)
    assert [(entry.at, entry.new) for entry in single.journal] == [(entry.at, entry.new) for entry in batches.journal]
    assert len(single.journal) > 1
