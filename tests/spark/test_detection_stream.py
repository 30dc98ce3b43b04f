"""`detect` in streams: time that passes, late and rejected rows, restarts, and what a checkpoint refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import ensue
from ensue.spark import detect, detect_with_aside

from .agreement import aside_in, drain, matches_in, read_files, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = pa.schema([("type", pa.string()), ("ts", pa.int64()), ("k", pa.int64()), ("n", pa.int64())])
FAR = 1_000_000
Rows = Sequence[tuple[Any, ...]]


def table(rows: Rows, time: pa.DataType | None = None) -> pa.Table:
    """Rows of type, time and key, numbered by their last value."""
    names = COLUMNS.names
    schema = COLUMNS if time is None else COLUMNS.set(1, pa.field("ts", time))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def ids(rows: Any) -> Counter[str]:
    return Counter(row["match_id"] for row in rows)


def collect(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables)


GROUPS = """
QUERY one   PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 50;
QUERY two   PATTERN SEQ(A a, B b) WHERE a.n = b.n WITHIN 50;
QUERY three PATTERN SEQ(A a, !B b) WITHIN 30
"""


def test_counts_late_and_rejected_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Each row is told of once, though three groups of queries look at it; a rejected one does not move time."""
    batches = [
        [("A", 100, 1, 0), (None, 900_000, 1, 1), ("Z", 101, 1, 2)],
        [("B", 110, 1, 3), ("A", 95, 2, 4), ("B", 97, 2, 5)],  # before 101 - 5: late
        [("A", 100, 1, 6), ("A", None, 1, 7), ("B", 130, 3, 8), ("A", 103, 9, 9), ("A", 131, 4, 11)],  # before 110 - 5
        [("Z", FAR, None, 10)],
    ]
    write_files(tmp_path / "in", [table(rows) for rows in batches])
    found = detect_with_aside(read_files(spark, tmp_path / "in"), GROUPS, lateness=5)
    progress: list[Any] = []
    rows = collect(drain(found, tmp_path / "checkpoint", lambda query: progress.extend(query.recentProgress)))
    late, rejected = {4, 6, 9}, {1, 7}
    told = list(aside_in(rows))
    assert sorted((row["kind"], row["event"]["n"]) for row in told) == [
        *(("late", n) for n in sorted(late)),
        *(("rejected", n) for n in sorted(rejected)),
    ]
    assert {row["reason"] for row in told if row["event"]["n"] == 4} == {"its end 95 is before the watermark 96"}
    taken = [row for batch in batches for row in batch if row[3] not in late | rejected]
    expected = ensue.run(table(taken), GROUPS)
    assert ids(matches_in(rows).to_pylist()) == ids(expected)
    assert {row["query"] for row in expected} == {"one", "three"}
    totals: Counter[str] = Counter()
    for one in progress:
        for metric in one.observedMetrics.values():
            totals.update(metric.asDict())
    assert totals["received"] == sum(map(len, batches)) == len(taken) + totals["late"] + totals["rejected"]
    assert (totals["late"], totals["rejected"], totals["matches"]) == (3, 2, len(expected))


def test_time_within_a_millisecond(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's watermark is in milliseconds, events are not: all groups agree on what is late."""
    start = datetime(2024, 1, 1, tzinfo=UTC)

    def at(*rows: tuple[str, int, int, int]) -> pa.Table:
        return table(
            [(kind, start + timedelta(microseconds=time), k, n) for kind, time, k, n in rows],
            pa.timestamp("us", "UTC"),
        )

    batches = [
        at(("A", 100, 1, 0), ("A", 700, 2, 2)),
        at(("B", 500, 1, 0), ("B", 900, 2, 2)),  # not late for Spark: both in the millisecond that it has reached
        at(("A", 5_000_000, 3, 5)),
        at(("B", 400, 1, 0)),  # late
        at(("Z", 10**12, 3, 6)),
    ]
    queries = "QUERY one PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1s; QUERY two PATTERN SEQ(A a, B b) WITHIN 1s"
    write_files(tmp_path / "in", batches)
    found = detect_with_aside(read_files(spark, tmp_path / "in"), queries)
    rows = collect(drain(found, tmp_path / "checkpoint"))
    assert [(row["kind"], row["event"]["ts"].microsecond) for row in aside_in(rows)] == [("late", 400)]
    taken = pa.concat_tables([*batches[:3], *batches[4:]])
    assert ids(matches_in(rows).to_pylist()) == ids(ensue.run(taken, queries))


def test_time_passes_in_a_quiet_bucket(spark: SparkSession, tmp_path: Path) -> None:
    """An absence is decided when events of other keys, or of types that no query names, move the watermark."""
    query = "PATTERN SEQ(A a, !B b) WHERE a.k = b.k WITHIN 10"
    batches = [
        [("A", 1, key, key) for key in range(1, 9)],
        [("B", 5, 1, 10), ("B", 5, 2, 11)],
        [("A", 12, 99, 12)],  # time reaches 11
        [("Z", 15, None, 13)],
        [("Z", 40, None, 14)],
    ]
    write_files(tmp_path / "in", [table(rows) for rows in batches])
    found = detect(read_files(spark, tmp_path / "in"), query, buckets=4)
    tables = drain(found, tmp_path / "checkpoint")
    known = [sorted(row["a"]["n"] for row in one.to_pylist()) for one in tables]
    places = {n: place for place, ns in enumerate(known) for n in ns}
    assert places.keys() == {3, 4, 5, 6, 7, 8, 12}
    assert all(2 <= places[n] < places[12] for n in range(3, 9))
    assert max(places[n] for n in range(3, 9)) > 2  # in the other buckets nothing but time has come
    assert {row["detected_at"] for one in tables for row in one.to_pylist()} == {11, 22}


def test_text_times(spark: SparkSession, tmp_path: Path) -> None:
    """Texts are read as times by the engine alone, in one place; ignored types move its time too."""
    times = ["2024-01-01T00:00:00", "2024-01-01T02:00:01+02:00", "soon", "2024-01-01T00:00:03Z", "2024-01-02"]
    rows = [(kind, time, 1, n) for n, (kind, time) in enumerate(zip("ABABZ", times, strict=True))]
    query = "PATTERN SEQ(A a, B b, !A c) WHERE a.k = b.k = c.k WITHIN 5s"
    write_files(tmp_path / "in", [table(rows[start : start + 2], pa.string()) for start in (0, 2, 4)])
    found = collect(drain(detect_with_aside(read_files(spark, tmp_path / "in"), query), tmp_path / "checkpoint"))
    assert ids(matches_in(found).to_pylist()) == ids(ensue.run(table(rows, pa.string()), query))
    assert [(row["kind"], row["event"]["n"]) for row in aside_in(found)] == [("rejected", 2)]


def test_a_bad_row_of_a_strict_stream_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", [table([("A", 1, 1, 1), (None, 2, 2, 2)])])
    found = detect(read_files(spark, tmp_path / "in"), GROUPS, strict=True)
    with pytest.raises(StreamingQueryException, match="type"):
        drain(found, tmp_path / "checkpoint")


def test_going_on_from_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped in the middle and started again it finds what it would have found; another run is refused."""
    rows = [("AABZ"[n * 7 % 4], n, n % 5, n // 9) for n in range(120)]
    query = "QUERY q PATTERN SEQ(A a, B+ b[], !Z z) WHERE a.k = b.k = z.k WITHIN 30 USING NEXT"
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    pieces = [rows[:35], rows[35:62], rows[62:100], rows[100:], [("other", FAR, 0, 0)]]
    tables = []
    for first, stop in ((0, 1), (1, 3), (3, 5)):
        write_files(source, [table(piece) for piece in pieces[first:stop]], first)
        tables += drain(detect(read_files(spark, source), query, lateness=3, buckets=2), checkpoint)
    expected = ensue.run(table(rows), query)
    assert ids(collect(tables).to_pylist()) == ids(expected)
    assert len(expected) > 5

    write_files(source, [table([("other", FAR + 1, 0, 0)])], len(pieces))
    wider = query.replace("WITHIN 30", "WITHIN 31")
    for change, message in (
        ({"queries": wider}, "query `q` has changed"),
        ({"lateness": 4}, "lateness was 3 and is 4 now"),
        ({"buckets": 3}, "buckets was 2 and is 3 now"),
    ):
        asked: dict[str, Any] = {"queries": query, "lateness": 3, "buckets": 2, **change}
        with pytest.raises(StreamingQueryException) as caught:
            drain(detect(read_files(spark, source), **asked), checkpoint)
        assert message in str(caught.value)
        assert "another checkpoint folder" in str(caught.value)
