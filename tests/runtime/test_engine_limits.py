"""Limits raise or shed, state is released, and what overflows a buffer is neither lost nor doubled."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import LimitError, PlanError
from ensue.options import Options
from ensue.planning.plan import Plan, left_deep
from ensue.runtime.engine import Engine

PAIR = "QUERY pairs PATTERN SEQ(A a, B b) WITHIN 1000"
STORED = Plan((left_deep("abc", stored=True),))


def make_events(kinds: str, start: int = 0, step: int = 1) -> list[dict[str, Any]]:
    return [{"type": kind, "ts": start + step * place} for place, kind in enumerate(kinds)]


def make_table(types: Any, ts: Any, **columns: Any) -> pa.Table:
    return pa.table({"type": pa.array(types), "ts": pa.array(ts, pa.int64()), **columns})


# -- limits that raise -----------------------------------------------------------------------------------------------


def test_max_matches_raises() -> None:
    events = make_events("A" * 30 + "B")
    assert len(ensue.run(events, PAIR, options=Options(max_matches=30))) == 30
    with pytest.raises(LimitError, match=r"`pairs`.*29 matches \(max_matches\).*(WITHIN|max_matches)"):
        ensue.run(events, PAIR, options=Options(max_matches=29))


def test_max_matches_counts_each_query_and_each_call_alone() -> None:
    queries = f"{PAIR}; QUERY others PATTERN SEQ(A a, C c) WITHIN 1000"
    engine = ensue.compile(queries, options=Options(max_matches=5))
    engine.push(make_events("AAAAA"))
    for ts, kind in enumerate("BCBCB", start=10):
        assert len(engine.push([{"type": kind, "ts": ts}])) == 5
    assert engine.counts.matches == 25
    with pytest.raises(LimitError, match="`others`"):
        engine.push(make_events("CC", start=20))


def test_max_matches_raises_for_matches_that_waited() -> None:
    engine = ensue.compile("QUERY quiet PATTERN SEQ(A a, !B b) WITHIN 100", options=Options(max_matches=3))
    engine.push(make_events("AAAA"))
    with pytest.raises(LimitError, match=r"`quiet`.*max_matches"):
        engine.push([{"type": "C", "ts": 500}])


def test_max_partial_matches_raises() -> None:
    query = "QUERY triples PATTERN SEQ(A a, B b, C c) WITHIN 1000000"
    engine = ensue.compile(query, plan=STORED, options=Options(max_partial_matches=1_000))
    engine.push(make_events("A" * 10 + "B" * 10))  # 100 pairs
    with pytest.raises(LimitError, match=r"`triples`.*1,000 partial matches \(max_partial_matches\)"):
        engine.push(make_events("A" * 100 + "B" * 100, start=20))
    lazy = ensue.compile(query, options=Options(max_partial_matches=1_000), plan=Plan((left_deep("cba"),)))
    lazy.push(make_events("A" * 10 + "B" * 10))
    lazy.push(make_events("A" * 100 + "B" * 100, start=20))  # stores events only: nothing to limit


def test_max_partial_matches_holds_for_runs_and_waiting_matches() -> None:
    options = Options(max_partial_matches=500)
    with pytest.raises(LimitError, match=r"`runs`.*max_partial_matches"):
        ensue.run(
            make_events("A" * 3_000), "QUERY runs PATTERN SEQ(A a, B b) WITHIN 100000 USING NEXT", options=options
        )
    with pytest.raises(LimitError, match=r"`quiet`.*max_partial_matches"):
        ensue.run(make_events("A" * 3_000), "QUERY quiet PATTERN SEQ(A a, !B b) WITHIN 100000", options=options)


def test_a_limit_is_not_passed_by_far() -> None:
    """The limit is looked at where a store must grow: at most twice what was allowed is ever held."""
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 1000000"
    engine = ensue.compile(query, plan=STORED, options=Options(max_partial_matches=2_000))
    with pytest.raises(LimitError):
        for start in range(0, 100_000, 20):
            engine.push(make_events("A" * 10 + "B" * 10, start=start))
    assert sum(e.partial_matches(s) for e, s in engine._pairs()) <= 4_000


def test_memory_budget_raises() -> None:
    engine = ensue.compile(PAIR.replace("1000", "10000000"), options=Options(memory_budget=2_000_000))
    with pytest.raises(LimitError, match=r"2,000,000 of memory_budget.*(WITHIN|memory_budget)"):
        for start in range(0, 10_000_000, 10_000):
            engine.push(make_events("A" * 10_000, start=start))
    assert engine.state_bytes > 2_000_000
    assert engine.counts.processed < 1_000_000


def test_memory_budget_is_kept_where_the_window_moves_on() -> None:
    """State that can be released is released before the budget is said to be spent."""
    engine = ensue.compile(PAIR, options=Options(memory_budget=2_000_000))
    for start in range(0, 200_000, 5_000):
        engine.push(make_events("A" * 5_000, start=start))
    assert engine.counts.processed == 200_000
    assert engine.state_bytes <= 2_000_000


def test_memory_budget_takes_back_what_a_burst_needed() -> None:
    """Room for partial matches is kept for the next burst, but given back before the budget is said to be spent."""
    queries = "QUERY p PATTERN SEQ(A a, B b, C c) WITHIN 500; QUERY q PATTERN SEQ(D a, E b, F c) WITHIN 500"
    first, second = (make_events(x * 150 + y * 150, start) for x, y, start in (("A", "B", 0), ("D", "E", 2_000)))
    plan = {"p": STORED, "q": STORED}
    free = ensue.compile(queries, plan=plan)
    free.push(first)
    once = free.state_bytes
    free.push(second)
    assert free.state_bytes > 1.8 * once
    engine = ensue.compile(queries, plan=plan, options=Options(memory_budget=int(1.3 * once)))
    engine.push(first)
    engine.push(second)
    assert engine.state_bytes <= 1.3 * once


@pytest.mark.parametrize("name", ["max_matches", "max_partial_matches", "memory_budget"])
def test_a_limit_must_be_positive(name: str) -> None:
    with pytest.raises(PlanError, match=name):
        Options(**{name: 0})


# -- limits that shed ------------------------------------------------------------------------------------------------


def test_matches_are_shed_and_counted() -> None:
    events = make_events("A" * 30 + "B" + "A" * 10 + "B")
    engine = ensue.compile(PAIR, options=Options(max_matches=25, on_limit="shed"))
    found = engine.push(events)
    assert len(found) == 25
    assert engine.counts.shed_matches == 70 - 25
    assert engine.counts.matches == 25
    assert len(engine.push(make_events("C", start=900))) == 0
    assert len({row["match_id"] for row in found}) == 25


def test_matches_with_lists_are_shed_and_counted() -> None:
    events = make_events("A" * 10 + "B")
    engine = ensue.compile("PATTERN SEQ(A+ a[], B b) WITHIN 1000", options=Options(max_matches=100, on_limit="shed"))
    found = [*engine.push(events), *engine.flush()]
    assert len(found) == 100
    assert engine.counts.shed_matches == 2**10 - 1 - 100
    assert len({row["match_id"] for row in found}) == 100
    assert all(row["events"]["b"]["ts"] == 10 and row["events"]["a"] for row in found)


def test_shedding_goes_on_call_after_call() -> None:
    engine = ensue.compile(PAIR, options=Options(max_matches=10, on_limit="shed"))
    engine.push(make_events("A" * 100))
    total = sum(len(engine.push([{"type": "B", "ts": 200 + k}])) for k in range(5))
    assert total == 50
    assert engine.counts.shed_matches == 450


def test_partial_matches_are_shed_and_counted() -> None:
    """What is given is right; with what was dropped it would be all."""
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 1000000"
    events = make_events(("A" * 40 + "B" * 40) * 3 + "C")
    everything = {row["match_id"] for row in ensue.run(events, query)}
    assert len(everything) == 40 * 40 * (1 + 2 + 3)
    engine = ensue.compile(query, plan=STORED, options=Options(max_partial_matches=1_000, on_limit="shed"))
    found = [row["match_id"] for row in engine.push(events)]
    counts = engine.counts
    assert counts.shed_partial_matches > 0
    assert set(found) < everything
    assert len(found) == len(set(found)) == len(everything) - counts.shed_partial_matches


@pytest.mark.parametrize(
    "query", ["PATTERN SEQ(A a, !B b, C c) WITHIN 10", "PATTERN SEQ(A a, OR(B b, SEQ(C c, !D d))) WITHIN 10"]
)
def test_shedding_is_refused_with_negation(query: str) -> None:
    events = make_events("ABC")
    with pytest.raises(PlanError, match=r"`q1`.*shed.*negation"):
        ensue.run(events, query, options=Options(on_limit="shed"))


# -- state is released -----------------------------------------------------------------------------------------------

GROWING = {
    "join": "PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 1000",
    "join by order of text": "PATTERN SEQ(A a, B b) WHERE a.s < b.s AND a.x = b.x WITHIN 1000",
    "partitions": "PATTERN SEQ(A a, B b) PARTITION BY s WITHIN 1000",
    "counted": "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 1000 EVENTS",
    "counted partitions": "PATTERN SEQ(A a, B b) PARTITION BY s WITHIN 10 EVENTS",
    "absence within": "PATTERN SEQ(A a, !C c, B b) WHERE a.s = c.s AND a.x = b.x WITHIN 1000",
    "absence at the end": "PATTERN SEQ(A a, !B b) WHERE a.s = b.s WITHIN 1000",
    "absence in AND": "PATTERN AND(A a, !B b) WHERE a.s = b.s WITHIN 1000",
    "list": "PATTERN SEQ(A a, B+ b[], C c) WHERE a.s = b.s = c.s WITHIN 1000",
    "list and absence": "PATTERN SEQ(A a, B+ b[], !C c) WHERE a.s = b.s = c.s WITHIN 1000",
    "next": "PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 1000 USING NEXT",
    "next with a list": "PATTERN SEQ(A a, B+ b[]) WHERE a.s = b.s WITHIN 1000 USING NEXT",
    "next by partition": "PATTERN SEQ(A a, B+ b[], C c) PARTITION BY s WITHIN 1000 USING NEXT",
    "strict": "PATTERN SEQ(A a, B b, C c) WITHIN 1000 USING STRICT",
    "strict by partition": "PATTERN SEQ(A a, B+ b[]) PARTITION BY s WITHIN 1000 USING STRICT",
    "next counted": "PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 1000 EVENTS USING NEXT",
}
COUNTED_BY_KEY = "counted partitions"


def stream(windows: int, seed: int) -> Iterator[pa.Table]:
    """Batches of a window each, 1000 events: strings come up for two windows and never again."""
    rng = np.random.default_rng(seed)
    for number in range(windows):
        ts = np.arange(1000 * number, 1000 * number + 1000)
        words = [f"word {number - int(old)} {int(which)}" for old, which in rng.integers(0, (2, 400), (1000, 2))]
        yield make_table(rng.choice(list("ABCD"), 1000), ts, s=pa.array(words), x=pa.array(rng.integers(0, 500, 1000)))


def sizes_of(engine: Engine) -> tuple[int, int]:
    return engine.state_bytes, len(engine._strings)


@pytest.mark.parametrize("name", [name for name in GROWING if name != COUNTED_BY_KEY])
@pytest.mark.parametrize("planned", [False, True], ids=["default plan", "stored"])
def test_state_stays_bounded(name: str, planned: bool) -> None:
    """After a hundred windows the state is no larger than after ten, with ever new keys and strings."""
    query = GROWING[name]
    variables = ensue.parse(query)[0].items
    names = [item.variable for item in variables if not item.negated]
    if planned and len(names) < 3:
        names = names[::-1]
    plan = Plan((left_deep(names, stored=True),)) if planned else None
    engine = ensue.compile(query, plan=plan)
    highest: list[tuple[int, int]] = []
    found = 0
    for batch in stream(100, seed=5):
        found += len(engine.push(batch))
        highest.append(sizes_of(engine))
    assert found > 100
    early = [max(column) for column in zip(*highest[5:30], strict=True)]
    late = [max(column) for column in zip(*highest[75:], strict=True)]
    assert late[0] <= 1.5 * early[0]
    assert late[1] <= 1.5 * early[1]
    assert late[1] < 6_000  # of 40,000 in all: those of two windows, and what waits to be forgotten


def test_state_of_counted_partitions() -> None:
    """A count window of a partition ends when its events come, which may be never: its last events must be kept."""
    engine = ensue.compile(GROWING[COUNTED_BY_KEY])
    rng = random.Random(3)
    sizes = []
    for number in range(60):
        keys = [f"k{rng.randrange(300)}" for _ in range(1000)]
        kinds = [rng.choice("ABC") for _ in range(1000)]
        engine.push(make_table(kinds, range(1000 * number, 1000 * number + 1000), s=pa.array(keys)))
        sizes.append(engine.state_bytes)
    assert max(sizes[50:]) <= 1.5 * max(sizes[10:20])


def test_counted_partitions_of_ever_new_keys_meet_the_budget() -> None:
    """By the meaning of the query nothing may be forgotten; the budget speaks up instead of memory running out."""
    engine = ensue.compile(GROWING[COUNTED_BY_KEY], options=Options(memory_budget=3_000_000))
    with pytest.raises(LimitError, match="memory_budget"):
        for batch in stream(100, seed=5):
            engine.push(batch)


def test_rows_of_small_pushes_are_forgotten() -> None:
    """Rows that come a few at a time are merged and released, too."""
    engine = ensue.compile("PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 50")
    sizes = []
    for start in range(0, 80_000, 40):
        engine.push([{"type": "AB"[ts % 2], "ts": ts, "s": f"word {ts // 7}"} for ts in range(start, start + 40)])
        if start % 1_000 == 0:
            sizes.append(sizes_of(engine))
    assert max(size for size, _ in sizes[40:]) <= 1.2 * max(size for size, _ in sizes[:20])
    assert max(count for _, count in sizes) < 6_000  # of 11,428


def test_room_is_kept_for_the_next_burst() -> None:
    """Events that come one by one do not wait for stores to grow again, and in the long run memory is given back."""
    engine = ensue.compile("PATTERN SEQ(A a, B b, C c) WITHIN 400", plan=STORED)
    engine.push(make_events("A" * 400))
    state = engine._lanes[0].state

    def push(kinds: str) -> None:
        for event in make_events(kinds, engine.counts.processed):
            engine.push_event(event)

    burst, lull = "B" * 150, "A" * 3_000
    push(burst + lull)
    full = state.arena
    push(burst + lull)
    assert state.arena is full, "neither shrunk nor grown"
    push("A" * 140_000)
    assert state.arena.nbytes < full.nbytes / 8
    assert engine.state_bytes < full.nbytes


def test_a_million_events_of_a_small_window() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 20")
    rng = np.random.default_rng(1)
    sizes, total = [], 0
    for number in range(20):
        ts = np.arange(50_000 * number, 50_000 * (number + 1))
        x = rng.integers(0, 5, 50_000)
        kinds = rng.integers(0, 3, 50_000)
        total += len(engine.push(make_table(np.array(["A", "B", "C"])[kinds], ts, x=pa.array(x))))
        sizes.append(engine.state_bytes)
    assert engine.counts.processed == 1_000_000
    assert max(sizes[10:]) <= 1.5 * max(sizes[:3])
    assert engine._lanes[0].evaluator.partial_matches(engine._lanes[0].state) == 0
    assert abs(total - 1_000_000 * 19 / 9 / 5) < 10_000  # each of 19 distances, both types, equal x


# -- buffers that overflow -------------------------------------------------------------------------------------------


def all_different(found: Any, wanted: int) -> None:
    assert len(found) == wanted
    if wanted <= 50_000:
        assert len(set(found.to_arrow()["match_id"].to_pylist())) == wanted


def test_many_matches_of_one_event() -> None:
    """The output block holds a few thousand matches; one event gives three hundred thousand."""
    engine = ensue.compile("PATTERN SEQ(A a, B b, C c) WITHIN 100000")
    assert len(engine.push(make_events("A" * 550 + "B" * 550))) == 0
    found = engine.push([{"type": "C", "ts": 5_000}])
    assert len(found) == 550 * 550
    table = found.to_arrow()
    pairs = set(
        zip(
            table["a"].combine_chunks().field("ts").to_pylist(),
            table["b"].combine_chunks().field("ts").to_pylist(),
            strict=True,
        )
    )
    assert len(pairs) == 550 * 550
    assert len(engine.push([{"type": "C", "ts": 5_001}])) == 550 * 550


@pytest.mark.parametrize("count", [12, 16])
def test_many_lists_of_one_event(count: int) -> None:
    engine = ensue.compile("PATTERN SEQ(A+ a[], B b) WITHIN 1000")
    engine.push(make_events("A" * count))
    found = engine.push([{"type": "B", "ts": 500}])
    all_different(found, 2**count - 1)
    lengths = Counter(len(row["events"]["a"]) for row in found)
    assert lengths == {k: comb(count, k) for k in range(1, count + 1)}


def test_many_lists_of_bounded_length() -> None:
    engine = ensue.compile("PATTERN SEQ(A{3} a[], B{2} b[]) WITHIN 1000")
    found = ensue.run(make_events("A" * 30 + "B" * 6), "PATTERN SEQ(A{3} a[], B{2} b[]) WITHIN 1000")
    all_different(found, comb(30, 3) * comb(6, 2))
    given = sum(len(engine.push([event])) for event in make_events("A" * 30 + "B" * 6))
    assert given + len(engine.flush()) == comb(30, 3) * comb(6, 2)


def test_many_matches_that_waited() -> None:
    """Waiting matches that fall due at once, more than the output block holds; lists among them."""
    engine = ensue.compile("PATTERN SEQ(A a, B b, !C c) WITHIN 100000")
    engine.push(make_events("A" * 200 + "B" * 200))
    assert len(engine.push([{"type": "D", "ts": 1_000_000}])) == 200 * 200
    engine = ensue.compile("PATTERN SEQ(A+ a[], B b, !C c) WITHIN 100000")
    engine.push(make_events("A" * 14 + "B"))
    all_different(engine.flush(), 2**14 - 1)


@pytest.mark.parametrize("order", ["abc", "acb", "bca", "cba"])
@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_stores_grow_in_the_middle_of_a_search(order: str, index: bool) -> None:
    """One event stores thousands of partial matches: the search goes on where it was when there is room again."""
    kinds = "A" * 300 + "B" * 40 + "C" * 10
    query = "PATTERN AND(A a, B b, C c) WITHIN 100000"
    plan = Plan((left_deep(order, stored=True),), index=index)
    all_at_once = ensue.run(make_events(kinds), query, plan=plan)
    all_different(all_at_once, 300 * 40 * 10)
    shuffled = list(kinds)
    random.Random(7).shuffle(shuffled)
    engine = ensue.compile(query, plan=plan)
    found = sum(len(engine.push([event])) for event in make_events("".join(shuffled)))
    assert found == 300 * 40 * 10


@pytest.mark.parametrize("kinds", [("A" * 50 + "B" * 50) * 2 + "C" * 5, "AB" * 100 + "C" * 3])
def test_stored_sequences_grow(kinds: str) -> None:
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 100000"
    wanted = kinds.count("C") * sum(kinds[:place].count("A") for place, kind in enumerate(kinds) if kind == "B")
    for plan in (STORED, Plan((left_deep("bac", stored=True),)), Plan((left_deep("cba"),))):
        all_different(ensue.run(make_events(kinds), query, plan=plan), wanted)


def test_equal_keys_grow_the_index() -> None:
    """Chains of one key, and of very many keys, through several growths of the store."""
    rng = random.Random(11)
    for keys in (1, 7, 5_000):
        events = [
            {"type": "A" if place < 4_000 else "B", "ts": place, "x": rng.randrange(keys)} for place in range(4_200)
        ]
        held = Counter(event["x"] for event in events if event["type"] == "A")
        wanted = sum(held[event["x"]] for event in events if event["type"] == "B")
        query = "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 100000"
        assert len(ensue.run(events, query)) == wanted


COUNT = 700


@pytest.mark.parametrize("policy", ["NEXT", "STRICT"])
def test_many_runs(policy: str) -> None:
    """Runs, and the links of their lists, grow their stores; a batch of one and a batch of all give the same."""
    kinds = "A" * COUNT + "B" * 3 if policy == "NEXT" else "AABB" * COUNT
    query = f"PATTERN SEQ(A+ a[], B b) WITHIN 1000000 USING {policy}"
    whole = ensue.run(make_events(kinds), query)
    wanted = COUNT if policy == "NEXT" else 2 * COUNT
    assert len(whole) == wanted
    engine = ensue.compile(query)
    found = sum(len(engine.push([event])) for event in make_events(kinds)) + len(engine.flush())
    assert found == wanted
    lengths = Counter(len(row["events"]["a"]) for row in whole)
    assert lengths == (Counter(range(1, COUNT + 1)) if policy == "NEXT" else {1: COUNT, 2: COUNT})


def test_the_message_says_what_to_change() -> None:
    """Whatever the limit, the message names it as the option is called."""
    with pytest.raises(LimitError) as caught:
        ensue.run(make_events("AAAB"), PAIR, options=Options(max_matches=2))
    assert re.search(r"narrow the query.*or raise max_matches", str(caught.value))
