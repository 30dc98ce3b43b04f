"""Events pushed one by one as dicts: the same matches as in batches, by the quick way where there is one."""

from __future__ import annotations

import random

import pytest

import ensue
import ensue.errors
from ensue.runtime.engine import Engine
from ensue.testing.harness import assert_same
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import random_case

from .agreement import time_order, to_oracle


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_one_by_one_equals_the_oracle(first: int) -> None:
    """Random queries, most of which take the way of batches for some of their types."""
    for seed in range(first, first + 100):
        query, events, schema = random_case(random.Random(seed))
        order = time_order(events, schema)
        engine = Engine(query, schema)
        found = []
        for place in order:
            found.append(engine.push_event(events[place]))
        found.append(engine.flush())
        assert_same(to_oracle(ensue.Matches.concat(found), order), find_matches(events, query, schema), query=query)


PLAIN = {
    "sequence": "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y AND a.s = c.s WITHIN 20",
    "filters": "PATTERN SEQ(A a, B b) WHERE a.x >= 2 AND b.y < 1.5 AND a.k = b.k WITHIN 20",
    "absence": "PATTERN SEQ(A a, !B b) WHERE a.k = b.k WITHIN 10",
    "partition": "PATTERN SEQ(A a, B+ b[], C c) PARTITION BY s WITHIN 12",
    "count": "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 5 EVENTS",
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_queries_take_the_quick_way(name: str) -> None:
    """Long streams with nulls and odd values among plain ones, and types that the query does not name."""
    rng = random.Random(name)
    events = [
        {
            "type": rng.choice("ABCDE"),
            "ts": n // 2,
            "x": rng.choice([1, 2, 3, None]),
            "y": rng.choice([0.5, 1.0, 2.5, None, float("nan")]),
            "k": rng.randrange(3),
            "s": rng.choice(["p", "q", "r"]),
        }
        for n in range(2_000)
    ]
    whole = ensue.compile(PLAIN[name])
    expected = ensue.Matches.concat([whole.push(events), whole.flush()])
    single = ensue.compile(PLAIN[name])
    found = [single.push(events[:50])]
    found += [single.push_event(event) for event in events[50:]]
    found.append(single.flush())
    assert any(path is not None for path in single._paths.values())
    assert len(expected) > 0
    ids = sorted(match["match_id"] for match in ensue.Matches.concat(found))
    assert ids == sorted(match["match_id"] for match in expected)
    assert single.counts == whole.counts


def test_what_is_not_plain_is_set_aside_as_in_batches() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10")
    engine.push([{"type": "A", "ts": 5, "x": 1}])
    assert len(engine.push_event({"type": "B", "ts": 4, "x": 2})) == 0
    assert len(engine.push_event({"type": "B", "ts": None, "x": 2})) == 0
    assert len(engine.push_event({"type": "B", "ts": 6, "x": "two"})) == 0
    assert len(engine.push_event({"type": "B", "ts": 6, "x": 2**70})) == 0
    assert len(engine.push_event({"type": None, "ts": 6, "x": 2})) == 0
    assert len(engine.push_event({"type": "B", "ts": 7, "x": 2})) == 1
    counts = engine.counts
    assert (counts.received, counts.processed, counts.late, counts.rejected) == (7, 2, 1, 4)


def test_a_stream_needs_a_window() -> None:
    with pytest.raises(ensue.errors.QueryTypeError, match="has no window"):
        ensue.compile("PATTERN SEQ(A a, B b)")
    ensue.compile("PATTERN SEQ(A a, B b) WITHIN UNBOUNDED")
    assert len(ensue.run([{"type": "A", "ts": 1}, {"type": "B", "ts": 2}], "PATTERN SEQ(A a, B b)")) == 1
