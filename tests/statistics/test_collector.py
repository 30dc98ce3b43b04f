"""A collector over whole streams: near the exact numbers, repeatable, taken up again from its state."""

from __future__ import annotations

import json
import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import StateError
from ensue.events.batch import EventBatch
from ensue.events.intake import Intake
from ensue.language import parse_query
from ensue.pattern.expressions import Expression
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.cost import Costs
from ensue.planning.figures import figures_of
from ensue.runtime.sampled import evaluating
from ensue.statistics.collector import Collector, Reach
from ensue.statistics.conditions import find_conditions
from ensue.statistics.sampling import Events, Mask, Sampling
from ensue.statistics.snapshot import Estimate, Statistics


def stream(size: int, seed: int, **columns: Any) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "type": np.array(["A", "B", "C", "X"])[random.choice(4, size, p=[0.6, 0.3, 0.02, 0.08])],
            "ts": np.sort(random.integers(0, 10 * size, size)),
            "x": random.random(size),
            "k": random.integers(0, 20, size),
            "s": np.array(["red", "green", "blue", "grey"])[random.integers(0, 4, size)],
            **columns,
        }
    )


def collect(query: Query, table: pa.Table, batch: int, **options: Any) -> Collector:
    intake = Intake()
    first = intake.push(table.slice(0, 0))
    assert intake.schema is not None
    collector = Collector(query, intake.schema, evaluating(intake.schema), **options)
    collector.observe(first)
    for start in range(0, len(table), batch):
        collector.observe(intake.push(table.slice(start, batch)))
    return collector


def as_batch(table: pa.Table) -> EventBatch:
    return Intake().push(table)


def near(found: Estimate, exact: float) -> bool:
    return abs(found.value - exact) < 5 * found.deviation + 0.002


QUERY = parse_query(
    "PATTERN SEQ(A a, B b, C c) WITHIN 50000 "
    "WHERE a.x > 0.8 AND a.x < b.x AND b.k = c.k AND a.s = c.s AND b.s LIKE 're%'"
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("batch", [100, 5000, 40_000])
def test_the_numbers_of_a_stream(seed: int, batch: int) -> None:
    table = stream(40_000, seed)
    found = collect(QUERY, table, batch, sampling=Sampling(seed=seed)).snapshot()
    types = table["type"].to_numpy(zero_copy_only=False)
    times = table["ts"].to_numpy()
    assert found.at == times[-1]
    recent = times > times[-1] - found.window
    for name in "ABC":
        exact = np.count_nonzero(recent & (types == name)) / found.window
        assert found.rate(name).value == pytest.approx(exact, rel=0.06)
    assert set(found.rates) == set("ABC")
    assert near(found.share("a"), 0.2)
    assert near(found.share("b"), 0.25)
    assert set(found.local) == {"a", "b"}
    # Of events that pass their own conditions: a.x is above 0.8, so that b.x, anywhere up to 1, is greater in a tenth.
    assert near(found.pair("a", "b"), 0.1)
    assert near(found.pair("b", "c"), 0.05)
    assert near(found.pair("a", "c"), 0.25)


def test_conditions_that_share_an_event() -> None:
    """a.x < b.x < c.x holds for one in six, not in four; k has nothing to do with x."""
    query = parse_query("PATTERN SEQ(A a, B b, C c, B d) WHERE a.x < b.x AND b.x < c.x AND c.k = d.k WITHIN 50000")
    found = [collect(query, stream(40_000, seed), 5000).snapshot().triples for seed in range(8)]
    assert all(set(one) == {("a", "b", "c"), ("b", "c", "d")} for one in found)
    assert np.mean([one["a", "b", "c"].value for one in found]) == pytest.approx(2 / 3, rel=0.1)
    assert np.mean([one["b", "c", "d"].value for one in found]) == pytest.approx(1, rel=0.1)
    again = collect(query, stream(40_000, 0), 5000).snapshot()
    assert Statistics.from_json(json.loads(json.dumps(again.to_json()))) == again


def test_conditions_and_what_they_imply_that_share_an_event() -> None:
    """Three in a row rise in one of 6 cases, four in one of 24, though each step does in one of two."""
    rising = "a.x < b.x AND b.x < c.x AND c.x < d.x AND d.x < e.x"
    query = parse_query(f"PATTERN SEQ(A a, B b, C c, B d, A e) WHERE {rising} WITHIN 50000")
    found = [collect(query, stream(40_000, seed), 5000).snapshot() for seed in range(8)]
    (branch,) = normalize(query)
    for size, share in ((3, 1 / 6), (4, 1 / 24)):
        for names in combinations("abcde", size):
            shares = []
            for known in found:
                costs = Costs(figures_of(branch, 50000.0, known))
                every = math.prod(costs.card(frozenset(name)) for name in names) / math.factorial(size)
                shares.append(costs.card(frozenset(names)) / every)
            assert np.mean(shares) == pytest.approx(share, rel=0.15), names
    before = collect(query, stream(40_000, 0), 5000)
    known = before.snapshot()
    after = collect(query, stream(10, 0), 10)
    after.load(*before.dump())
    assert after.snapshot(closely=False).together == known.together != {}, "asked when planning"
    assert Statistics.from_json(json.loads(json.dumps(known.to_json()))) == known
    assert "together  a, b, d, e" in str(known)


def test_a_key_that_all_share_counts_once_an_event() -> None:
    """Of 20 keys: three events share one in one case of 400, though three pairs do in one of 20 each."""
    query = parse_query("PATTERN SEQ(A a, B b, C c, B d) WITHIN 50000 PARTITION BY k")
    (branch,) = normalize(query)
    shares = []
    for seed in range(8):
        known = collect(query, stream(40_000, seed), 5000).snapshot()
        costs = Costs(figures_of(branch, 50000.0, known, partitioned=True))
        every = math.prod(costs.card(frozenset(name)) for name in "abc") / 6
        shares.append(costs.card(frozenset("abc")) / every)
    assert np.mean(shares) == pytest.approx(1 / 400, rel=0.2)


def test_what_conditions_imply() -> None:
    """a.x < c.x holds for one pair in two, a.x < d.x and a.k = d.k for one in forty."""
    chain = "a.x < b.x AND b.x < c.x AND c.x < d.x AND a.k = b.k AND b.k = c.k AND c.k = d.k"
    query = parse_query(f"PATTERN SEQ(A a, B b, C c, B d) WHERE {chain} WITHIN 50000")
    found = [collect(query, stream(40_000, seed), 5000).snapshot().implied for seed in range(8)]
    assert all(set(one) == {("a", "c"), ("a", "d"), ("b", "d")} for one in found)
    assert np.mean([one["a", "d"].value for one in found]) == pytest.approx(1 / 40, rel=0.3)
    again = collect(query, stream(40_000, 0), 5000)
    assert Statistics.from_json(json.loads(json.dumps(again.snapshot().to_json()))) == again.snapshot()
    assert "implied   a, c" in str(again.snapshot())


def test_what_conditions_imply_is_asked_until_it_is_known_and_then_by_who_looks_closely() -> None:
    """Each look adds what is of a window or two; twelve are enough."""
    query = parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 5000")
    table, intake = stream(120_000, 1), Intake()
    collector = collect(query, table.slice(0, 0), 1, window=5000)
    told, kept = [], []
    for start in range(0, 120_000, 2_000):
        collector.observe(intake.push(table.slice(start, 2_000)))
        told.append(collector.snapshot(closely=False).implied)
        kept.append(0.0 if collector._tallies is None else float(collector._tallies.windows.max()))
    assert all(set(one) == {("a", "c")} for one in told)
    first = next(k for k, number in enumerate(kept) if number >= 12)
    assert 0 < first < 30 and all(one != two for one, two in pairwise(told[: first + 1]))
    assert all(one == told[first] for one in told[first:]), "enough is known"
    known = collector.snapshot().implied
    assert known != told[-1], "it is looked closely"
    state, tables = collector.dump()
    other = collect(query, table.slice(0, 0), 5000, window=5000)
    other.load(json.loads(json.dumps(state)), tables)
    assert other.snapshot(closely=False).implied == known, "it is part of the state"


def test_what_is_young_is_not_asked_again_by_a_restart() -> None:
    query = parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 50000")
    before = collect(query, stream(40_000, 1), 5000)
    known = before.snapshot(closely=False)
    after = collect(query, stream(10, 0), 10)
    after.load(*before.dump())
    assert after.snapshot(closely=False).implied == known.implied != {}


def test_the_same_stream_gives_the_same_statistics() -> None:
    table = stream(30_000, 1)
    once, again = (collect(QUERY, table, 700).snapshot() for _ in range(2))
    assert once == again
    assert once != collect(QUERY, table, 700, sampling=Sampling(seed=1)).snapshot()


def test_a_snapshot_twice_is_the_same() -> None:
    collector = collect(QUERY, stream(10_000, 1), 700)
    assert collector.snapshot() == collector.snapshot()


def test_statistics_follow_a_drift() -> None:
    """Half way the values of A rise, so that `a.x < b.x` goes from always to never."""
    size = 60_000
    random = np.random.default_rng(5)
    lifted = np.where(np.arange(size) < size // 2, -1.0, 1.0)
    kinds = np.array(["A", "B"])[random.integers(0, 2, size)]
    table = stream(size, 5, type=kinds, x=random.random(size) + np.where(kinds == "A", lifted, 0.0))
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 2000")
    sampling = Sampling(every=4096)
    assert collect(query, table.slice(0, size // 2), 1000, sampling=sampling).snapshot().pair("a", "b").value > 0.99
    assert collect(query, table, 1000, sampling=sampling).snapshot().pair("a", "b").value < 0.01
    ever = collect(query, table, 1000, sampling=sampling, window=math.inf).snapshot()
    assert ever.window == table["ts"][-1].as_py() - table["ts"][0].as_py() + 1


def test_pairs_are_near_in_time_and_in_order() -> None:
    """x grows with time: in the pattern's order it always does, in a conjunction as often as not."""
    table = stream(20_000, 2, x=np.arange(20_000) * 1.0)
    for pattern, exact in (("SEQ(A a, B b)", 1.0), ("SEQ(B b, A a)", 0.0), ("AND(A a, B b)", 0.5)):
        query = parse_query(f"PATTERN {pattern} WHERE a.x < b.x WITHIN 50000")
        assert collect(query, table, 1000).snapshot().pair("a", "b").value == pytest.approx(exact, abs=0.1)


def test_two_variables_of_one_type_are_two_events() -> None:
    table = stream(5000, 3, k=np.arange(5000))
    query = parse_query("PATTERN AND(A a, A b) WHERE a.k = b.k WITHIN 50000")
    assert collect(query, table, 1000).snapshot().pair("a", "b").value < 0.001


def test_neighbours_in_a_list() -> None:
    query = parse_query("PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > b[i-1].x AND b.x > a.x WITHIN 50000")
    found = collect(query, stream(20_000, 4), 3000).snapshot()
    assert near(found.pair("b", "b"), 0.5)
    assert near(found.pair("a", "b"), 0.5)


def test_nulls_do_not_pass() -> None:
    half = np.arange(20_000) % 2 == 0
    table = stream(20_000, 4, x=pa.array(np.ones(20_000), mask=half))
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x = b.x AND b.x IS NULL OR a.k < 0 WITHIN 50000")
    assert collect(query, table, 3000).snapshot().pair("a", "b").value < 0.001
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x = 1 AND NULL WITHIN 50000")
    assert near(collect(query, table, 3000).snapshot().share("a"), 0.5)


def test_events_that_last() -> None:
    table = stream(20_000, 4)
    table = table.append_column("from", pa.array(table["ts"].to_numpy() - 500))
    intake = Intake(begin="from")
    query = parse_query("PATTERN AND(A a, B b) WHERE a.begin < b.end AND a.end - a.begin = 500 WITHIN 50000")
    batch = intake.push(table)
    assert intake.schema is not None
    collector = Collector(query, intake.schema, evaluating(intake.schema))
    collector.observe(batch)
    assert collector.snapshot().share("a").value > 0.99
    assert near(collector.snapshot().pair("a", "b"), 0.5)


def test_rows_may_bring_new_columns_and_lack_old_ones() -> None:
    intake = Intake()
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1000")
    batches = [
        intake.push([{"type": "A", "ts": 1, "x": 1.0}, {"type": "B", "ts": 2, "x": 2.0}]),
        intake.push([{"type": "A", "ts": 3, "x": 1.0, "new": "n"}, {"type": "B", "ts": 4, "x": 2.0}]),
        intake.push([{"type": "B", "ts": 5}, {"type": "Z", "ts": 6}]),
    ]
    assert intake.schema is not None
    collector = Collector(query, intake.schema, evaluating(intake.schema))
    for batch in batches:
        collector.observe(batch)
    found = collector.snapshot()
    assert found.pair("a", "b").value == 4.5 / 7  # 4 of 6 pairs: the last B has no x
    assert found.rate("B").value == 0.5


def test_before_any_event_and_without_conditions() -> None:
    query = parse_query("PATTERN SEQ(A a, B b) WITHIN 10 EVENTS")
    table = stream(1000, 0)
    assert collect(query, table.slice(0, 0), 10).snapshot() == Statistics.uniform(query)
    collector = collect(query, table, 64)
    assert collector.window is None
    found = collector.snapshot()
    assert not found.local
    assert not found.pairs
    assert found.rate("A").value == pytest.approx(0.06, rel=0.1)


def test_later_than_the_last_event() -> None:
    collector = collect(QUERY, stream(20_000, 1), 5000, window=10_000)
    end = collector.latest
    assert end is not None
    found = collector.snapshot(end + 10_000)
    assert found.rate("A").value == 0
    assert not found.local
    assert not found.pairs
    assert collector.snapshot(end).rate("A").value > 0


def test_a_batch_much_longer_than_the_window() -> None:
    """Only its end is looked at."""
    table = stream(40_000, 6)
    found = collect(QUERY, table, 40_000, window=20_000).snapshot()
    assert found.window == 20_000
    times, types = table["ts"].to_numpy(), table["type"].to_numpy(zero_copy_only=False)
    exact = np.count_nonzero((types == "A") & (times > times[-1] - 20_000)) / 20_000
    assert found.rate("A").value == pytest.approx(exact, rel=0.06)


def test_few_events_are_asked_anything() -> None:
    """Of a chunk a few of each type, whatever its length, more where few pass; of a snapshot some pairs, once."""
    table = stream(60_000, 8)
    intake = Intake()
    batch = intake.push(table)
    assert intake.schema is not None
    evaluate = evaluating(intake.schema)
    asked: list[int] = []

    def counting(condition: Expression, events: Events) -> Mask:
        asked.append(len(next(iter(events.values())).places))
        return evaluate(condition, events)

    collector = Collector(QUERY, intake.schema, counting, sampling=Sampling(size=32, pairs=500))
    collector.observe(batch)
    assert asked == [64, 64]  # a and b have a condition of their own, of which nothing was known
    asked.clear()
    first = collector.snapshot()
    assert len(asked) == 3
    assert max(asked) <= 500
    asked.clear()
    end = table["ts"][-1].as_py()
    few = stream(2000, 9, ts=end + 10 * np.arange(2000))  # as many in a time as before
    collector.observe(intake.push(few))
    later = collector.snapshot()
    assert asked == []
    assert later.rates != first.rates
    assert (later.local, later.pairs) == (first.local, first.pairs)
    collector.observe(intake.push(few.set_column(1, "ts", pa.array(end + 100_000 + 10 * np.arange(2000)))))
    assert collector.snapshot().pairs != first.pairs
    assert len(asked) == 5
    assert min(asked[:2]) > 64


def test_the_window_follows_the_number_of_events() -> None:
    """Four windows of the query, and where these hold few events as much time as some of each type take."""
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1000")
    kinds = np.resize(["A", "B"], 60_000)
    # One event in 10 steps, then one in 100, then one a step.
    times = np.cumsum(np.repeat([10, 100, 1], 20_000))
    table = stream(60_000, 1, type=kinds, ts=times)
    reach = Reach(windows=4, events=256, calm=1)
    for stop, window, rate in ((20_000, 5_120, 0.05), (40_000, 51_200, 0.005), (60_000, 4_000, 0.5)):
        found = collect(query, table.slice(0, stop), 1_000, window=reach, sampling=Sampling(every=1_000))
        found.snapshot()
        assert found.window is not None
        assert 0.9 * window <= found.window <= 2 * window
        assert found.snapshot().rate("A").value == pytest.approx(rate, rel=0.06)
    short = parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9")
    first = collect(short, table.slice(0, 300), 100, window=reach).snapshot()
    assert (first.window, first.rate("A").value) == (2_991, pytest.approx(150 / 2_991))


def test_the_longer_nothing_changes_the_further_it_is_looked_back() -> None:
    """Up to 8 times as far; once rates have changed, or someone says so, it is as before."""
    query = parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10")
    kinds = [np.random.default_rng(5).choice(["A", "B"], 6_000, p=p) for p in ((0.5, 0.5), (0.9, 0.1))]
    table = stream(12_000, 1, type=np.concatenate(kinds), ts=np.arange(12_000))

    def window(stop: int, **reach: int) -> int:
        found = collect(query, table.slice(0, stop), 500, window=Reach(**reach), sampling=Sampling(every=500))
        assert found.snapshot().rate("A").value == pytest.approx(0.5 if stop <= 6_000 else 0.9, rel=0.1)
        assert found.window is not None
        return found.window

    assert window(6_000, calm=1) == pytest.approx(512, rel=0.5)
    assert window(6_000) == pytest.approx(4_096, rel=0.5)
    assert window(7_000) == pytest.approx(1_000, rel=0.5), "it has changed at 6,000"
    assert window(12_000) == pytest.approx(4_096, rel=0.5)
    told = collect(query, table.slice(0, 5_500), 500, window=Reach(), sampling=Sampling(every=500))
    told.snapshot()
    told.turn()
    told.observe(as_batch(table).slice(5_500, 6_000))
    told.snapshot()
    assert told.window == pytest.approx(512, rel=0.5)


@pytest.mark.parametrize("start", [-(2**63) + 1, 2**63 - 4000])
def test_times_at_the_ends_of_int64(start: int) -> None:
    table = stream(3000, 9, ts=start + np.arange(3000))
    found = collect(QUERY, table, 700).snapshot()
    assert found.rate("A").value == pytest.approx(0.6, rel=0.1)
    assert near(found.pair("b", "c"), 0.05)


def test_state_is_taken_up_again() -> None:
    table = stream(30_000, 7)
    intake = Intake()
    batches = [intake.push(table.slice(start, 900)) for start in range(0, len(table), 900)]
    assert intake.schema is not None
    first, second = (Collector(QUERY, intake.schema, evaluating(intake.schema)) for _ in range(2))
    for batch in batches[:20]:
        first.observe(batch)
    state, tables = first.dump()
    second.load(json.loads(json.dumps(state)), tables)
    assert second.snapshot() == first.snapshot()
    for batch in batches[20:]:
        first.observe(batch)
        second.observe(batch)
    assert second.snapshot() == first.snapshot()


CHAIN = parse_query("PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN 1000")


def bursts(windows: int, loud: int, seed: int = 0) -> pa.Table:
    """Windows of 300 events; in one of so many the values of all types are alike, in the others they fall."""
    random = np.random.default_rng(seed)
    kinds = random.choice(4, 300 * windows)
    x = random.random(len(kinds)) + 0.5 * (3 - kinds)
    is_loud = np.arange(len(kinds)) // 300 % loud == loud - 1
    x[is_loud] = random.random(int(is_loud.sum()))
    times = np.arange(len(kinds)) * 1000 // 300
    return pa.table({"type": np.array(list("ABCD"))[kinds], "ts": times, "x": x})


def tuples_at(collector: Collector) -> float:
    """The expected number of partial matches of all four variables."""
    (branch,) = normalize(CHAIN)
    return Costs(figures_of(branch, 1000.0, collector.snapshot())).card(frozenset("abcd"))


def test_tuples_that_come_in_bursts_are_counted_in_many_windows() -> None:
    """One window in five has all of them: each look says something else, all together how many there are."""
    table, dense = bursts(120, 5), Sampling(size=1024)
    collector = collect(CHAIN, table.slice(0, 0), 1, sampling=dense)
    intake = Intake()
    found, alone = [], []
    for start in range(0, 120, 6):
        part = table.slice(300 * start, 1800)
        collector.skip()
        collector.observe(intake.push(part))
        found.append(tuples_at(collector))
        alone.append(tuples_at(collect(CHAIN, part, 1800, sampling=dense)))
    assert np.mean(found[5:]) == pytest.approx(np.mean(alone), rel=0.2)
    assert np.std(found[5:]) < 0.6 * np.std(alone)
    assert 16 < collector.windows < 50


@pytest.mark.parametrize("surely", [False, True])
def test_what_was_counted_before_a_change_is_forgotten(surely: bool) -> None:
    """All of it if the stream is known to have changed; if events are only slow, new windows count for more."""
    collector = collect(CHAIN, bursts(40, 1), 2400, sampling=Sampling(size=1024))
    before = tuples_at(collector)
    assert collector.windows >= 4
    collector.turn(just_now=collector.latest, surely=surely)
    collector.observe(Intake().push(bursts(80, 1000).slice(300 * 40, 1200)))
    after = tuples_at(collector)
    assert after < 0.05 * before if surely else 0.2 * before < after < 0.8 * before


def test_rates_that_have_changed_let_what_was_counted_be_forgotten() -> None:
    collector = collect(CHAIN, bursts(40, 1), 2400)
    collector.snapshot()
    other = bursts(80, 1).slice(300 * 40)
    only = other.filter(pa.compute.equal(other["type"], "A"))
    collector.observe(Intake().push(only))
    collector.snapshot(closely=False)
    assert collector._tallies is None


def test_what_was_counted_is_part_of_the_state() -> None:
    table = bursts(40, 5)
    collector = collect(CHAIN, table.slice(0, 6000), 1800)
    collector.snapshot()
    state, tables = collector.dump()
    other = collect(CHAIN, table.slice(0, 0), 1)
    other.load(json.loads(json.dumps(state)), tables)
    assert other.windows == collector.windows
    intake = Intake()
    rest = intake.push(table.slice(6000))
    for one in (collector, other):
        one.observe(rest)
    assert other.snapshot() == collector.snapshot()
    del state["tallies"]  # as an earlier version has left it
    other.load(state, tables)
    assert other._tallies is None


def test_the_state_of_another_query_is_refused() -> None:
    collector = collect(QUERY, stream(100, 0), 100)
    state, tables = collector.dump()
    other = collect(parse_query("PATTERN SEQ(A a, B b) WITHIN 5"), stream(100, 0), 100)
    with pytest.raises(StateError, match="another query"):
        other.load(state, tables)
    for broken in ({**state, "rates": {}}, {**state, "samples": {}}, {k: v for k, v in state.items() if k != "events"}):
        with pytest.raises(StateError):
            collector.load(broken, tables)
    with pytest.raises(StateError):
        collector.load(state, [])
    assert collector.dump()[0] == state


@pytest.mark.parametrize(("types", "events"), [("ABC", 4_000), ("ABC" + 90 * "X", 6_000)], ids=["many", "few"])
def test_conditions_that_no_event_passes_at_first(types: str, events: int) -> None:
    """Nothing can be said of several events at once; as soon as some pass it is."""
    dice = np.random.default_rng(5)
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x > 2 AND b.x > 2 AND c.x > 2 AND a.x < b.x AND b.x < c.x WITHIN 1000"
    engine = ensue.compile(query, adapt=ensue.Adaptation(every=events, decision="unconditional"))
    found = 0
    for start in range(0, 10 * events, 1_000):
        passes = 3.0 if start >= 4 * events else 0.0
        kinds = np.array(list(types))[dice.integers(0, len(types), 1_000)]
        table = pa.table({"type": kinds, "ts": np.arange(start, start + 1_000), "x": dice.random(1_000) + passes})
        found += len(engine.push(table))
    ((*_, share, _),) = engine.journal[-1].statistics["implied"]
    assert found > 0 and 0.3 < share < 0.7


def test_what_branches_imply_of_a_pair_must_be_the_same() -> None:
    """There is one number for a pair, and one plan for each branch: a.x < c.x says nothing of a.y < c.y."""
    either = (
        "PATTERN SEQ(A a, OR(B b, D d), C c) WHERE a.x < b.x AND b.x < c.x AND a.{0} < d.{0} AND d.{0} < c.{0} WITHIN 9"
    )
    assert not find_conditions(parse_query(either.format("y"))).implied
    assert ("a", "c") in find_conditions(parse_query(either.format("x"))).implied
