"""Order, lateness, bad rows and the counts; nothing depends on how the input is cut."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import InputError, StateError
from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.events.times import NULL
from ensue.testing.values import read_events

SCHEMA = Schema(
    {"type": DType.STRING, "ts": DType.INT, "n": DType.INT, "f": DType.FLOAT, "s": DType.STRING, "w": DType.TIMESTAMP}
)

anything = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**63, -(2**63), 2**53 + 1]),
    st.floats(-3, 3),
    st.sampled_from([1.0, math.nan, math.inf]),
    st.booleans(),
    st.sampled_from(["", "x", "5", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.1234567+01:00"]),
    st.just(b"x"),
    st.just(dt.datetime(2024, 1, 1, 12)),
    st.just(dt.date(2024, 1, 1)),
    st.just("\ud800"),
)
good_rows = st.fixed_dictionaries(
    {"type": st.sampled_from("AB"), "ts": st.integers(0, 12)}, optional={"n": st.integers(0, 3), "s": st.just("x")}
)
any_rows = st.fixed_dictionaries(
    {"type": st.sampled_from(["A", "B", None, 5]), "ts": st.integers(0, 12) | anything},
    optional={name: anything for name in ("n", "f", "s", "w")},
)


def cut(rows: Sequence[Any], sizes: list[int]) -> list[Sequence[Any]]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(rows[start : start + size])
        start += size
    return [*pieces, rows[start:]]


def feed(intake: Intake, pieces: Sequence[Any]) -> tuple[list[Any], list[str], list[str], tuple[int, ...]]:
    """What comes out: rows, reasons of late and of rejected ones, and the counts."""
    out: list[Any] = []
    late: list[str] = []
    rejected: list[str] = []
    for piece in [*pieces, None]:
        batch = intake.drain() if piece is None else intake.push(piece)
        assert batch.first == len(out)
        assert len(batch) == batch.table.num_rows == len(batch.type_codes)
        assert piece is None or not len(batch) or (intake.watermark is not None and batch.end.max() <= intake.watermark)
        names = [batch.type_names[c] for c in batch.type_codes]
        out.extend(zip(batch.end.tolist(), names, map(repr, batch.table.to_pylist()), strict=True))
        for sink, table in ((late, intake.take_late()), (rejected, intake.take_rejected())):
            sink.extend([] if table is None else table["reason"].to_pylist())
        counts = intake.counts
        assert counts.received == counts.processed + counts.late + counts.rejected + counts.held
    c = intake.counts
    assert c.held == 0
    return out, late, rejected, (c.received, c.processed, c.late, c.rejected)


@settings(max_examples=200, deadline=None)
@given(st.lists(any_rows, max_size=12), st.lists(st.integers(0, 4), max_size=5), st.integers(0, 6))
def test_cutting_makes_no_difference(rows: list[dict[str, Any]], sizes: list[int], lateness: int) -> None:
    whole = feed(Intake(SCHEMA, lateness=lateness), [rows])
    assert feed(Intake(SCHEMA, lateness=lateness), cut(rows, sizes)) == whole
    assert feed(Intake(SCHEMA, lateness=lateness), cut(rows, [1] * len(rows))) == whole


@settings(max_examples=200, deadline=None)
@given(st.lists(good_rows, max_size=20), st.lists(st.integers(0, 4), max_size=5), st.integers(0, 6))
def test_what_is_late_and_the_order_of_the_rest(rows: list[dict[str, Any]], sizes: list[int], lateness: int) -> None:
    kept, late, greatest = [], 0, None
    for row in rows:
        if greatest is not None and row["ts"] < greatest - lateness:
            late += 1
        else:
            kept.append(row)
        greatest = row["ts"] if greatest is None else max(greatest, row["ts"])
    out, reasons, _, counts = feed(Intake(SCHEMA, lateness=lateness), cut(rows, sizes))
    kept.sort(key=lambda row: row["ts"])
    assert [(end, kind) for end, kind, _ in out] == [(row["ts"], row["type"]) for row in kept]
    assert len(reasons) == late
    assert counts == (len(rows), len(kept), late, 0)


@settings(max_examples=200, deadline=None)
@given(st.lists(any_rows, max_size=8))
def test_the_same_rows_are_readable_as_in_the_oracle(rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row.get("s") != "\ud800"]  # Arrow cannot hold it, Python can
    batch = Intake(SCHEMA).sort_all(rows)
    events = read_events(rows, SCHEMA)
    assert batch.end.tolist() == [event.end for event in events]
    for name in ("n", "s"):
        assert batch.table[name].to_pylist() == [event.values[name] for event in events]
    floats = [None if v is None or math.isnan(v) else v for v in batch.table["f"].to_pylist()]
    assert floats == [event.values["f"] for event in events]
    assert batch.table["w"].cast(pa.int64()).to_pylist() == [event.values["w"] for event in events]


@settings(max_examples=100, deadline=None)
@given(st.lists(good_rows, max_size=20), st.integers(0, 20), st.integers(0, 6))
def test_a_snapshot_goes_on_as_if_nothing_had_been(rows: list[dict[str, Any]], at: int, lateness: int) -> None:
    straight = Intake(SCHEMA, lateness=lateness)
    first, broken = Intake(SCHEMA, lateness=lateness), Intake(SCHEMA, lateness=lateness)
    del broken
    assert straight.push(rows[:at]).table.equals(first.push(rows[:at]).table)
    state, tables = first.dump()
    second = Intake.load(json.loads(json.dumps(state)), tables)
    for data in (rows[at:], None):
        a, b = (i.drain() if data is None else i.push(data) for i in (straight, second))
        assert (a.first, a.table.to_pylist(), a.end.tolist()) == (b.first, b.table.to_pylist(), b.end.tolist())
    assert straight.counts == second.counts
    late = [None if t is None else t.to_pylist() for t in (straight.take_late(), second.take_late())]
    assert late[0] == late[1]


def test_a_snapshot_of_another_format_is_refused() -> None:
    state, tables = Intake(SCHEMA).dump()
    with pytest.raises(StateError, match="format 9"):
        Intake.load({**state, "format": 9}, tables)


def test_sorted_input_is_not_copied() -> None:
    table = pa.table({"type": ["A", "B"], "ts": [1, 2], "x": [0.5, 1.5]})
    batch = Intake().push(table)
    for name in ("ts", "x", "type"):
        given_buffers = table[name].chunk(0).buffers()
        assert [b and b.address for b in batch.table[name].chunk(0).buffers()] == [
            b and b.address for b in given_buffers
        ]
    assert batch.end.ctypes.data == table["ts"].chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"type": "A", "ts": None}, "column `ts`: the time is null"),
        ({"type": "A"}, "column `ts`: the time is null"),
        ({"type": None, "ts": 1}, "column `type`: the type is null"),
        ({"type": "A", "ts": "noon"}, "column `ts`: 'noon' is not a int64"),
        ({"type": "A", "ts": 1.5}, "column `ts`: 1.5 is not a int64"),
        ({"type": "A", "ts": 1, "n": "5"}, "column `n`: '5' is not a int64"),
        ({"type": "A", "ts": 1, "n": 2**63}, "column `n`: 9223372036854775808 is not a int64"),
        ({"type": "A", "ts": 1, "n": -(2**63)}, "column `n`: -9223372036854775808 is not a int64"),
        ({"type": "A", "ts": 1, "n": True}, "column `n`: True is not a int64"),
        ({"type": "A", "ts": 1, "w": "noon"}, "column `w`: 'noon' is not a timestamp"),
        (7, "7 is not a row (a dict of columns)"),
    ],
)
def test_bad_rows_are_set_aside_with_the_reason(row: Any, reason: str) -> None:
    rows = [{"type": "A", "ts": 1, "n": 1}, row, {"type": "B", "ts": 2}]
    intake = Intake(SCHEMA)
    assert intake.push(rows).end.tolist() == [1, 2]
    rejected = intake.take_rejected()
    assert rejected is not None
    assert rejected["reason"].to_pylist() == [reason]
    assert intake.take_rejected() is None
    assert intake.counts.rejected == 1
    strict = Intake(SCHEMA, strict=True)
    with pytest.raises(InputError) as error:
        strict.push(rows)
    assert str(error.value) == f"row 2 of the input: {reason}"
    assert strict.counts.received == 0


def test_rejected_rows_keep_their_values() -> None:
    intake = Intake(SCHEMA)
    intake.push([{"type": "A", "ts": 1, "n": "x"}])
    intake.push([{"type": "A", "ts": 1, "n": 1.5, "s": [1]}])
    rejected = intake.take_rejected()
    assert rejected is not None
    assert rejected["n"].to_pylist() == ["x", "1.5"]
    assert rejected["s"].to_pylist() == [None, [1]]


def test_a_uint64_beyond_int64_is_rejected() -> None:
    table = pa.table({"type": ["A", "A"], "ts": [1, 2], "n": pa.array([2**63, 7], pa.uint64())})
    intake = Intake()
    assert intake.push(table).table["n"].to_pylist() == [7]
    assert intake.counts.rejected == 1


@pytest.mark.parametrize(
    ("values", "micros"),
    [
        (pa.array([1, 2], pa.timestamp("s")), [1_000_000, 2_000_000]),
        (pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin")), [1_000, 2_000]),
        (pa.array([-1, 2_500], pa.timestamp("ns")), [-1, 2]),
        (pa.array([0, 1], pa.date32()), [0, 86_400_000_000]),
        (pa.array([0, 86_400_000], pa.date64()), [0, 86_400_000_000]),
        (pa.array(["1970-01-01", "1970-01-01 00:00:01.25"]), [0, 1_250_000]),
        (pa.array(["1970-01-01T00:00:00Z", "1970-01-01T03:00:00+02:00"]), [0, 3_600_000_000]),
        (pa.array(["1970-01-01T00:00:00", "1970-01-01T03:00:00+02:00"]), [0, 3_600_000_000]),
        (pa.array(["1970-01-01T00:00:00.000001999", "19700101T000001"]), [1, 1_000_000]),
    ],
)
def test_times_become_microseconds(values: pa.Array, micros: list[int]) -> None:
    intake = Intake()
    batch = intake.push(pa.table({"type": ["A", "A"], "ts": values}))
    assert batch.end.tolist() == micros
    assert intake.schema is not None
    assert intake.schema.columns["ts"] is DType.TIMESTAMP


def test_a_time_that_does_not_fit_is_rejected() -> None:
    intake = Intake()
    batch = intake.push(pa.table({"type": ["A", "B"], "ts": pa.array([2**62, 5], pa.timestamp("s"))}))
    assert batch.end.tolist() == [5_000_000]
    assert intake.counts.rejected == 1


def test_timestamps_keep_whether_they_have_a_zone() -> None:
    for zone in (None, "UTC"):
        intake = Intake()
        first = intake.push(pa.table({"type": ["A"], "ts": pa.array([5], pa.timestamp("us", zone))}))
        then = intake.push([{"type": "A", "ts": "1970-01-01T00:00:01+00:00"}])
        assert first.table["ts"].type == then.table["ts"].type == pa.timestamp("us", zone)


def test_a_schema_may_keep_times_as_text() -> None:
    intake = Intake(Schema({"type": DType.STRING, "ts": DType.STRING}))
    batch = intake.push([{"type": "A", "ts": "1970-01-01T00:00:01Z"}, {"type": "A", "ts": "soon"}])
    assert batch.end.tolist() == [1_000_000]
    assert batch.table["ts"].to_pylist() == ["1970-01-01T00:00:01Z"]
    rejected = intake.take_rejected()
    assert rejected is not None
    assert rejected["reason"].to_pylist() == ["column `ts`: 'soon' is not a time"]


def test_intervals() -> None:
    intake = Intake(begin="from", ts="to", unit=TimeUnit.S)
    batch = intake.push({"type": ["A", "B", "C"], "from": [5, 9, None], "to": [7, 8, 9]})
    assert (batch.begin.tolist(), batch.end.tolist()) == ([5], [7])
    rejected = intake.take_rejected()
    assert rejected is not None
    assert rejected["reason"].to_pylist() == ["its begin 9 is after its end 8", "column `from`: the begin is null"]
    with pytest.raises(InputError, match="of one kind"):
        Intake(begin="from", ts="to").push({"type": ["A"], "from": ["2024-01-01"], "to": [7]})


def test_types_may_be_numbers() -> None:
    batch = Intake().push({"type": [158324, 7], "ts": [1, 2]})
    assert [batch.type_names[c] for c in batch.type_codes] == ["158324", "7"]


def test_later_columns() -> None:
    intake = Intake()
    intake.push(pa.table({"type": ["A"], "ts": [1], "x": [1.5]}))
    batch = intake.push(pa.table({"ts": pa.array([2], pa.int8()), "type": ["B"]}))
    assert batch.table.to_pylist() == [{"type": "B", "ts": 2, "x": None}]
    with pytest.raises(InputError, match="does not name: `y`"):
        intake.push(pa.table({"type": ["A"], "ts": [3], "y": [1]}))
    with pytest.raises(InputError, match="no column `ts`"):
        intake.push(pa.table({"type": ["A"]}))
    assert intake.counts.received == 2
    grown = intake.push([{"type": "C", "ts": 3, "y": 1, "odd": [1, "x"]}])
    assert grown.table.to_pylist() == [{"type": "C", "ts": 3, "x": None, "y": 1, "odd": '[1, "x"]'}]
    assert intake.schema is not None
    assert "y" not in intake.schema.columns


def test_nothing_at_all() -> None:
    intake = Intake()
    assert len(intake.push([])) == 0
    assert len(intake.drain()) == 0
    assert intake.watermark is None
    assert len(intake.push([{}, 5])) == 0
    assert intake.counts.rejected == 2
    assert intake.push([{"type": "A", "ts": 1}]).first == 0
    with pytest.raises(InputError, match="negative"):
        Intake(lateness=-1)


def test_late_events_say_why() -> None:
    intake = Intake(lateness=2)
    intake.push([{"type": "A", "ts": 10}, {"type": "B", "ts": 7}, {"type": "C", "ts": 8}])
    late = intake.take_late()
    assert late is not None
    assert late.to_pylist() == [{"type": "B", "ts": 7, "reason": "its end 7 is before the watermark 8"}]
    assert intake.watermark == 8


def test_extreme_times_do_not_wrap_around() -> None:
    intake = Intake(lateness=2**62)
    ends = [-(2**63) + 1, 2**63 - 1, -(2**63) + 2, 2**62 - 1, 2**62 - 2]
    batch = intake.push([{"type": "A", "ts": end} for end in ends])
    assert batch.end.tolist() == [-(2**63) + 1, 2**62 - 1]
    assert intake.counts.late == 2
    assert intake.counts.held == 1
    assert NULL not in intake.drain().end


def test_many_small_pushes_with_much_held() -> None:
    rng = np.random.default_rng(5)
    ends = np.arange(3000) + rng.integers(0, 500, 3000)
    intake = Intake(lateness=1000)
    out: list[int] = []
    for start in range(0, 3000, 7):
        out.extend(
            intake.push({"type": ["A"] * len(ends[start : start + 7]), "ts": ends[start : start + 7]}).end.tolist()
        )
    out.extend(intake.drain().end.tolist())
    assert out == sorted(ends.tolist())
