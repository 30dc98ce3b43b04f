"""`detect` in finite DataFrames: keys, slices, columns, counts, what is set aside, and what is refused."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F

import ensue
from ensue.errors import EnsueError, PlanError, QueryError
from ensue.options import Options
from ensue.spark import RunCounts, aside_of, batch, detect, detect_with_aside, matches_of, survey
from ensue.spark.survey import Shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIR = "PATTERN SEQ(A a, B b) WITHIN 4"


def ids(rows: Any) -> Counter[str]:
    return Counter(row["match_id"] for row in rows)


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema))


def make_events(count: int, seed: int = 1, keys: Sequence[int] = (1, 2, 3)) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    events = []
    for number in range(count):
        end = rng.randint(0, count)
        events.append(
            {
                "type": rng.choice("AABBNC"),
                "start": end - rng.choice((0, 0, 0, 2)),
                "ts": end,
                "k": rng.choice(keys),
                "owner": rng.choice(keys),
                "x": rng.randint(0, 9),
                "n": number,
            }
        )
    return events


@pytest.fixture
def many_shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Shards]]:
    """A hundred rows are many: the shards that were planned."""
    planned: list[Shards] = []

    def plan(*args: Any) -> Shards:
        planned.append(survey.plan_shards(*args))
        return planned[-1]

    monkeypatch.setattr(survey, "SMALL", 100)
    monkeypatch.setattr(survey, "_ROWS_EACH", 200)
    monkeypatch.setattr(batch, "plan_shards", plan)
    yield planned


# -- spreading --------------------------------------------------------------------------------------------------------


UNKEYED = """
QUERY middle   PATTERN SEQ(A a, !N n, B b) WITHIN 6;
QUERY leading  PATTERN SEQ(!N n, A a, B b) WITHIN 6;
QUERY trailing PATTERN SEQ(A a, B b, !N n) WITHIN 6;
QUERY absent   PATTERN AND(A a, !N n, C c) WITHIN 5;
QUERY lists    PATTERN SEQ(A a, B{1,2} more[], C c) WHERE a.x < c.x WITHIN 5;
QUERY following PATTERN SEQ(A a, B b, C c) WITHIN 8 USING NEXT
"""


@pytest.mark.parametrize("begin", [None, "start"], ids=["points", "intervals"])
def test_slices_of_time_find_what_is_found(begin: str | None, spark: SparkSession, many_shards: list[Shards]) -> None:
    rows = make_events(1200)
    found = detect(frame(spark, rows), UNKEYED, begin=begin).collect()
    expected = ensue.run(rows, UNKEYED, begin=begin)
    assert ids(found) == ids(expected)
    assert Counter(row["query"] for row in found).keys() == {
        "middle", "leading", "trailing", "absent", "lists", "following"
    }  # fmt: skip
    (shards,) = many_shards
    assert shards.hashed == 0
    assert len(shards.bounds()) > 3


def test_slices_keep_neighbours(spark: SparkSession, many_shards: list[Shards]) -> None:
    """USING STRICT asks for neighbours among all events, whatever slices read them."""
    rows = make_events(1000)
    query = "PATTERN SEQ(A a, B+ b[]) WITHIN 7 USING STRICT"
    found = detect(frame(spark, rows), query).collect()
    expected = ensue.run(rows, query)
    assert ids(found) == ids(expected)
    assert {(r["match_id"], r["detected_at"]) for r in found} == {(r["match_id"], r["detected_at"]) for r in expected}
    assert len(found) > 50
    assert len(many_shards[0].bounds()) > 2


def test_a_frequent_key_is_cut_by_time(spark: SparkSession, many_shards: list[Shards]) -> None:
    rows = make_events(1500, keys=[1] * 20 + [None, 2, 3, 4, 5])
    query = "PATTERN SEQ(!N n, A a, B b) WHERE a.k = b.k = n.k WITHIN 9"
    found = detect(frame(spark, rows), query).collect()
    assert ids(found) == ids(ensue.run(rows, query))
    (shards,) = many_shards
    assert len(shards.sliced) == 1  # the one key
    assert shards.hashed > 1
    assert len(shards.bounds()) > 3


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 50", "k"),
        ("PATTERN SEQ(A a, B b) WITHIN 400", ["k", "owner"]),
        ("PATTERN SEQ(A a, B b) WHERE a.k = b.owner WITHIN UNBOUNDED", None),
        ("PATTERN SEQ(A a, B b, C c) PARTITION BY k WITHIN 7 EVENTS", None),
        ("PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 90 USING STRICT", None),
        ("PATTERN SEQ(A a, !N n) WHERE a.k = n.k WITHIN 3000", None),
    ],
)
def test_keys(query: str, key: Any, spark: SparkSession, many_shards: list[Shards]) -> None:
    """Keys are given, found in equalities, of another column for each type; an event may have none."""
    rows = make_events(400, keys=[None, *range(12)])
    found = detect(frame(spark, rows), query, key=key).collect()
    given = [key] if isinstance(key, str) else key
    whole = query if key is None else f"{query} PARTITION BY {', '.join(given)}"
    assert ids(found) == ids(ensue.run(rows, whole))
    assert len(found) > 10
    assert many_shards[0].hashed > 1


# -- columns ----------------------------------------------------------------------------------------------------------


def moments(kind: str) -> tuple[pa.DataType, list[Any]]:
    start = datetime(2024, 3, 1, 12, tzinfo=UTC)
    times = [start + timedelta(seconds=number // 2, microseconds=number) for number in range(24)]
    match kind:
        case "timestamp":
            return pa.timestamp("us", "UTC"), times
        case "timestamp_ntz":
            return pa.timestamp("us"), [time.replace(tzinfo=None) for time in times]
        case "date":
            return pa.date32(), [date(1969, 12, 20) + timedelta(days=number // 2) for number in range(24)]
        case "text":
            return pa.string(), [time.isoformat() for time in times]
        case "int":
            return pa.int32(), list(range(24))
        case _:
            return pa.int64(), [number * 500_000 for number in range(24)]


@pytest.mark.parametrize(
    ("kind", "unit", "window"),
    [
        ("timestamp", "ms", "2 seconds"),
        ("timestamp_ntz", "ms", "2 seconds"),
        ("date", "ms", "3 days"),
        ("text", "ms", "2 seconds"),
        ("int", "s", "4 s"),
        ("int", "ms", "4"),
        ("long", "us", "2 s"),
    ],
)
def test_kinds_of_time(
    kind: str, unit: str, window: str, spark: SparkSession, many_shards: list[Shards], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SMALL", 5)
    dtype, times = moments(kind)
    table = pa.table({"type": ["A", "B"] * 12, "ts": pa.array(times, dtype), "n": range(24)})
    query = f"PATTERN SEQ(A a, B b) WITHIN {window}"
    found = detect(spark.createDataFrame(table), query, unit=unit).collect()
    expected = ensue.run(table, query, unit=unit)
    assert ids(found) == ids(expected)
    assert len(found) > 12
    assert bool(many_shards and many_shards[0].sliced) == (kind != "text")  # Spark does not read texts as times


def test_columns_are_carried_along(spark: SparkSession) -> None:
    """Columns that no query could read come back as they are; an integer may name the type."""
    rows = [
        {"kind": 1, "ts": 1, "tags": ["u", None], "place": {"x": 1, "y": [2]}, "raw": b"\x00"},
        {"kind": 2, "ts": 2, "tags": [], "place": None, "raw": None},
    ]
    found = detect(frame(spark, rows), "PATTERN SEQ(`1` a, `2` b) WITHIN 5", type="kind").toArrow().to_pylist()
    assert [row["a"] for row in found] == [rows[0]]
    assert [row["b"] for row in found] == [rows[1]]


def test_return_gives_its_columns_and_reads_no_others(spark: SparkSession, tmp_path: Path) -> None:
    rows = make_events(50)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    query = "PATTERN SEQ(A a, B b) WHERE a.x > 3 WITHIN 9 RETURN a.x, b.ts AS at"
    found = detect(spark.read.parquet(str(tmp_path)), query)
    head = ["match_id", "query", "begin", "end", "detected_at", "partition"]
    assert found.columns == [*head, "a_x", "at"]
    assert ids(found.collect()) == ids(ensue.run(rows, query))
    plan = found._jdf.queryExecution().toString()
    assert "ReadSchema: struct<type:string,ts:bigint,x:bigint>" in plan
    assert re.search(r"x#\d+L > 3", plan)


def test_queries_side_by_side(spark: SparkSession) -> None:
    rows = make_events(60)
    queries = [PAIR, "QUERY other PATTERN SEQ(B b, C+ c[]) PARTITION BY k WITHIN 5"]
    found = frame(spark, rows).transform(detect, queries)
    assert found.columns == ["match_id", "query", "begin", "end", "detected_at", "partition", "a", "b", "c"]
    rows_found = found.collect()
    assert ids(rows_found) == ids(ensue.run(rows, queries))
    assert {row["query"] for row in rows_found} == {"q1", "other"}


# -- what takes no part -----------------------------------------------------------------------------------------------


GROUPS = """
QUERY one   PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 9;
QUERY two   PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 9;
QUERY three PATTERN SEQ(A a, C c) WITHIN 9
"""


def test_counts_and_rejected_rows_once(spark: SparkSession) -> None:
    """Rows that cannot be read are told of once, though three groups of queries look at the input."""
    rows = make_events(300)
    for place, column in ((5, "type"), (50, "ts"), (70, "type")):
        rows[place][column] = None
    rows[90]["start"] = rows[90]["ts"] + 1
    rows[95]["type"] = "unheard of"
    counts = RunCounts()
    found = detect_with_aside(frame(spark, rows), GROUPS, begin="start", counts=counts).persist()
    expected = ensue.run(rows, GROUPS, begin="start")
    matches = matches_of(found).collect()
    aside = aside_of(found).collect()
    found.unpersist()
    assert ids(matches) == ids(expected)
    assert sorted(row["n"] for row in aside) == [5, 50, 70, 90]
    assert {row["kind"] for row in aside} == {"rejected"}
    reasons = {row["n"]: row["reason"] for row in aside}
    assert "type" in reasons[5] and "ts" in reasons[50] and "begin" in reasons[90]
    told = counts.get()
    assert (told.received, told.rejected, told.late, told.matches) == (300, 4, 0, len(matches))
    assert told.received == told.processed + told.late + told.rejected
    assert told.ignored == sum(row["type"] in ("N", "unheard of") for row in rows)
    with pytest.raises(EnsueError, match="another run"):
        detect(frame(spark, rows), GROUPS, counts=counts)


def test_strict_makes_a_bad_row_an_error(spark: SparkSession) -> None:
    rows = [{"type": "A", "ts": 1}, {"type": None, "ts": 2}]
    with pytest.raises(PythonException, match="type"):
        detect(frame(spark, rows), PAIR, strict=True).collect()


def test_limits(spark: SparkSession) -> None:
    rows = make_events(300)
    query = "PATTERN SEQ(A a, B b) WITHIN 300"
    with pytest.raises(PythonException, match="max_matches"):
        detect(frame(spark, rows), query, options=Options(max_matches=10)).collect()
    shed = Options(max_matches=10, on_limit="shed")
    found = detect_with_aside(frame(spark, rows), query, options=shed).collect()
    notes = [row["reason"] for row in found if row["kind"] == "shed"]
    assert len(notes) == 1
    assert "max_matches" in notes[0]
    assert sum(row["kind"] == "match" for row in found) >= 10


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_wrong_query_is_refused_at_once(spark: SparkSession) -> None:
    events = frame(spark, make_events(3))
    with pytest.raises(QueryError) as caught:
        detect(events, "PATTERN SEQ(A a, B b)\nWHERE a.x = c.x WITHIN 4")
    assert "line 2" in str(caught.value)
    assert "^" in str(caught.value)
    with pytest.raises(QueryError, match="price"):
        detect(events, "PATTERN SEQ(A a, B b) WHERE a.price > 1 WITHIN 4")
    with pytest.raises(EnsueError, match="when"):
        detect(events, PAIR, ts="when")
    with pytest.raises(QueryError, match="not a duration"):
        detect(events, PAIR, lateness="soon")
    with pytest.raises(QueryError, match="`b` is a list in query `lists`"):
        detect(events, [PAIR, "QUERY lists PATTERN SEQ(A a, B+ b[]) WITHIN 4"])


def test_a_stream_needs_a_window(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().select(F.lit("A").alias("type"), F.col("timestamp").alias("ts"))
    with pytest.raises(QueryError, match="a stream has no end"):
        detect(stream, "PATTERN SEQ(A a, A b)")
    with pytest.raises(PlanError, match="buckets"):
        detect(stream, "PATTERN SEQ(A a, A b) WITHIN 4 s", buckets=0)
