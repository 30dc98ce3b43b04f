"""Snapshots: a run that goes on from one equals the run that was never interrupted; a damaged one is refused."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import PlanError, StateError
from ensue.events.schema import DType, Schema
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Policy
from ensue.planning.plan import Plan, left_deep
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape

from .agreement import Case, make_case, show_failure, time_order, to_oracle

SHAPES = {
    "any": replace(DEFAULT_SHAPE, policies=(Policy.ANY,)),
    "runs": replace(DEFAULT_SHAPE, policies=(Policy.NEXT, Policy.STRICT), kleene=0.4),
    "absences": replace(DEFAULT_SHAPE, negation=0.7, windows=("time", "count")),
    "intervals": replace(DEFAULT_SHAPE, intervals=1.0),
}


def make_engine(case: Case, lateness: int = 0) -> Engine:
    """An engine that stores partial matches where the policy lets it."""
    query, _, schema = case
    if query.policy is not Policy.ANY:
        return Engine(query, schema, lateness=lateness)
    trees = tuple(left_deep(branch.names, stored=True) for branch in normalize(query))
    return Engine(query, schema, lateness=lateness, plan=Plan(trees))


def ids_of(results: Sequence[Matches]) -> Counter[str]:
    return Counter(row["match_id"] for result in results for row in result)


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_interrupted_at_every_event(name: str) -> None:
    """Each event is taken by a new engine that knows only the snapshot of the one before it."""
    shape: Shape = SHAPES[name]
    total = 0
    for seed in range(300_000, 300_045):
        case = query, events, schema = make_case(seed, shape)
        lateness = random.Random(seed).choice((0, 0, 3))
        engine, whole = make_engine(case, lateness), make_engine(case, lateness)
        results, uninterrupted = [], []
        for event in events:
            engine = revive(engine, case, lateness)
            results.append(engine.push([event]))
            uninterrupted.append(whole.push([event]))
            assert engine.counts == whole.counts
        engine = revive(engine, case, lateness)
        results.append(engine.flush())
        uninterrupted.append(whole.flush())
        expected = find_matches(events, query, schema)
        difference = describe_difference(to_oracle(results, time_order(events, schema)), expected)
        assert not difference, show_failure(f"seed {seed}", query, events, difference)
        assert [len(result) for result in results] == [len(result) for result in uninterrupted]
        assert ids_of(results) == ids_of(uninterrupted)
        assert engine.counts == whole.counts
        total += len(expected)
    assert total > 40


def revive(engine: Engine, case: Case, lateness: int) -> Engine:
    """A new engine in the state of another, which is not used again."""
    fresh = make_engine(case, lateness)
    fresh.restore(engine.snapshot())
    assert fresh.counts == engine.counts
    return fresh


def test_a_snapshot_disturbs_nothing_and_can_be_used_twice() -> None:
    for seed in range(310_000, 310_060):
        case = query, events, schema = make_case(seed)
        place = len(events) // 2
        engine = make_engine(case)
        before = engine.push(events[:place])
        data = engine.snapshot()
        assert engine.snapshot() == data
        after = [engine.push(events[place:]), engine.flush()]
        for _ in range(2):
            other = make_engine(case)
            other.restore(data)
            again = [other.push(events[place:]), other.flush()]
            order = time_order(events, schema)
            difference = describe_difference(to_oracle(again, order), to_oracle(after, order))
            assert not difference, show_failure(f"seed {seed}", query, events, difference)
            assert ids_of(again) == ids_of(after)
        found = to_oracle([before, *after], time_order(events, schema))
        difference = describe_difference(found, find_matches(events, query, schema))
        assert not difference, show_failure(f"seed {seed}", query, events, difference)


QUERIES = """
QUERY joined PATTERN SEQ(A a, B b, C c) WHERE a.s = b.s AND b.x < c.x WITHIN 50;
QUERY listed PATTERN SEQ(A a, B+ b[]) WHERE a.x > AVG(b.x) WITHIN 20 USING NEXT;
QUERY absent PATTERN SEQ(A a, B b, !C c) WHERE c.x = a.x PARTITION BY s WITHIN 30;
QUERY sorted PATTERN AND(A a, C c) WHERE a.s < c.s WITHIN 20
"""


def make_stream(count: int, seed: int = 1, start: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {"type": rng.choice("ABCD"), "ts": start + 3 * place, "x": rng.randrange(5), "s": f"s{rng.randrange(4)}"}
        for place in range(count)
    ]


def test_several_queries_and_a_grown_state() -> None:
    """Stores that have grown, released rows and reused string codes survive, too."""
    events = [{**event, "s": event["s"] + str(event["ts"] // 600)} for event in make_stream(12_000)]
    whole = ensue.compile(QUERIES, lateness=20)
    engine = ensue.compile(QUERIES, lateness=20)
    expected, found = [], []
    for start in range(0, len(events), 3_000):
        piece = events[start : start + 3_000]
        expected.append(whole.push(piece))
        found.append(engine.push(piece))
        fresh = ensue.compile(QUERIES, lateness=20)
        fresh.restore(engine.snapshot())
        engine = fresh
    expected.append(whole.flush())
    found.append(engine.flush())
    assert whole.counts.matches > 1_000
    assert {name for result in expected for name in result.names} == {"joined", "listed", "absent", "sorted"}
    assert ids_of(found) == ids_of(expected)
    assert engine.counts == whole.counts


def test_late_and_rejected_rows_survive() -> None:
    engine = ensue.compile(QUERIES, lateness=5)
    engine.push([{"type": "A", "ts": 100, "x": 1, "s": "p"}, {"type": "A", "ts": 3, "x": 1, "s": "late"}])
    engine.push([{"type": "A", "ts": None, "x": 1, "s": "bad"}])
    fresh = ensue.compile(QUERIES, lateness=5)
    fresh.restore(engine.snapshot())
    late, rejected = fresh.take_late(), fresh.take_rejected()
    assert late is not None
    assert rejected is not None
    assert late["s"].to_pylist() == ["late"]
    assert rejected["s"].to_pylist() == ["bad"]
    assert fresh.counts.held == 1


def test_a_snapshot_before_the_first_event() -> None:
    data = ensue.compile(QUERIES).snapshot()
    engine = ensue.compile(QUERIES)
    engine.restore(data)
    events = make_stream(60)
    found = [engine.push(events), engine.flush()]
    assert ids_of(found) == ids_of([ensue.run(events, QUERIES)])


@pytest.mark.parametrize("place", [0, 10])
def test_what_an_engine_held_before_is_gone(place: int) -> None:
    """Restoring replaces the state, whatever the engine has seen, and whether it knew its columns or not."""
    events = make_stream(40)
    source = ensue.compile(QUERIES)
    source.push(events[:place])
    data = source.snapshot()
    expected = [source.push(events[place:]), source.flush()]
    used = ensue.compile(QUERIES)
    used.push(make_stream(30, seed=2))
    used.restore(data)
    assert used.counts.received == place
    found = [used.push(events[place:]), used.flush()]
    assert ids_of(found) == ids_of(expected)
    assert used.counts == source.counts


def test_the_end_of_the_input_is_kept() -> None:
    engine = ensue.compile(QUERIES)
    engine.push(make_stream(10))
    engine.flush()
    fresh = ensue.compile(QUERIES)
    fresh.restore(engine.snapshot())
    with pytest.raises(PlanError, match="ended"):
        fresh.push(make_stream(1))


# -- snapshots that are refused --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> bytes:
    engine = ensue.compile(QUERIES)
    engine.push(make_stream(50))
    return engine.snapshot()


def refuse(data: bytes, message: str, queries: str = QUERIES, **options: Any) -> None:
    """That a snapshot is refused, and that the engine goes on as if nothing had been asked of it."""
    events = make_stream(40, seed=5)
    engine, other = ensue.compile(queries, **options), ensue.compile(queries, **options)
    for one in (engine, other):
        one.push(events[:20])
    with pytest.raises(StateError, match=message):
        engine.restore(data)
    assert engine.counts == other.counts
    found = [engine.push(events[20:]), engine.flush()]
    assert ids_of(found) == ids_of([other.push(events[20:]), other.flush()])


def test_every_flipped_bit_is_seen(data: bytes) -> None:
    rng = random.Random(3)
    engine = ensue.compile(QUERIES)
    places = [*range(64), *(rng.randrange(len(data)) for _ in range(200)), len(data) - 1]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(StateError, match=r"not a snapshot|version|damaged"):
            engine.restore(bytes(damaged))


def test_every_truncation_is_seen(data: bytes) -> None:
    rng = random.Random(4)
    engine = ensue.compile(QUERIES)
    for length in [*range(64), *(rng.randrange(len(data)) for _ in range(100)), len(data) - 1]:
        with pytest.raises(StateError, match=r"not a snapshot|damaged"):
            engine.restore(data[:length])
    with pytest.raises(StateError, match="damaged"):
        engine.restore(data + b"\0")


@pytest.mark.parametrize("other", [b"", b"PAR1" + bytes(100), b"a text" * 20, bytes(1000)])
def test_other_files_are_seen(other: bytes) -> None:
    refuse(other, "not a snapshot")


def test_damage_is_refused(data: bytes) -> None:
    refuse(data[:-1], "damaged")
    refuse(data[:200] + bytes([data[200] ^ 4]) + data[201:], "checksum")


def test_another_version_is_refused(data: bytes) -> None:
    version = struct.unpack_from("<H", data, 6)[0]
    refuse(data[:6] + struct.pack("<H", version + 1) + data[8:], f"version {version + 1}")


def test_other_queries_are_refused(data: bytes) -> None:
    changed = QUERIES.replace("WITHIN 50", "WITHIN 51")
    refuse(data, "other queries(.|\n)*joined", changed)
    refuse(data, "other queries", "QUERY joined PATTERN SEQ(A a, B b, C c) WITHIN 50")


def test_another_plan_is_refused() -> None:
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 50"
    engine = ensue.compile(query, plan=Plan((left_deep("abc", stored=True),)))
    engine.push(make_stream(20))
    refuse(engine.snapshot(), "another plan", query, plan=Plan((left_deep("cba"),)))


def test_other_columns_are_refused() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 50"
    columns = {"type": DType.STRING, "ts": DType.INT, "x": DType.INT, "s": DType.STRING}
    engine = ensue.compile(query, Schema({**columns, "x": DType.FLOAT}))
    engine.push(make_stream(20))
    refuse(engine.snapshot(), "columns", query, schema=Schema(columns))


def test_a_snapshot_is_data_only(data: bytes) -> None:
    """Nothing in it is a pickle: reading one cannot run anything."""
    assert b"\x80\x04\x95" not in data
    assert b"\x80\x05\x95" not in data
    assert isinstance(data, bytes)


def test_columns_of_every_type_survive() -> None:
    table = pa.table(
        {
            "type": pa.array(["A", "B", "A", "B"]).dictionary_encode(),
            "ts": pa.array(np.array([1, 2, 3, 4], dtype="datetime64[s]")),
            "f": [1.5, None, float("nan"), 2.0],
            "b": [True, None, False, True],
            "n": [1, None, 3, 4],
            "extra": [[1], [2], None, [3, 4]],
        }
    )
    query = "PATTERN SEQ(A a, B b) WITHIN 10s"
    engine, whole = ensue.compile(query), ensue.compile(query)
    engine.push(table.slice(0, 3))
    whole.push(table.slice(0, 3))
    fresh = ensue.compile(query)
    fresh.restore(engine.snapshot())
    found, expected = fresh.push(table.slice(3)), whole.push(table.slice(3))
    assert len(expected) == 2
    assert found.to_arrow().schema == expected.to_arrow().schema
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN is not equal to itself


def test_lateness_outlives_a_snapshot_from_before_the_first_event() -> None:
    """A lateness with a unit is known in the time column's units only once the columns are."""
    query = "PATTERN SEQ(A a, B b) WITHIN 10s"
    engine = ensue.compile(query, lateness="5s")
    engine.restore(ensue.compile(query, lateness="5s").snapshot())
    events = [{"type": "B", "ts": 9_000}, {"type": "A", "ts": 6_000}, {"type": "B", "ts": 8_000}]
    found = [engine.push([event]) for event in events]
    assert sum(map(len, [*found, engine.flush()])) == 2
    assert engine.counts.late == 0
