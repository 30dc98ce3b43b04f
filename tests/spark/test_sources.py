"""Sources: every format as a batch and as a stream, rows that cannot be read, and what is said when nothing can be."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ensue.errors import InputError, PlanError
from ensue.spark.generator import Generator
from ensue.spark.settings import Source
from ensue.spark.sources import UNREADABLE, read_events

ROWS = [{"type": "A", "ts": 1, "x": 3}, {"type": "B", "ts": 5, "x": 4}, {"type": "7", "ts": 9, "x": None}]


def save(folder: Path, format_: str) -> str:
    folder.mkdir(exist_ok=True)
    if format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "e.parquet")
    elif format_ == "json":
        (folder / "e.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        (folder / "e.csv").write_text("type,ts,x\nA,1,3\nB,5,4\n7,9,\n")
    return str(folder)


def rows_of(spark: SparkSession, events: DataFrame, checkpoint: Path | None = None) -> list[dict[str, Any]]:
    """The rows by time; of a stream those of all its micro-batches."""
    if events.isStreaming:
        name = f"seen_{id(events)}"
        query = events.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        if checkpoint is not None:
            query = query.option("checkpointLocation", str(checkpoint))
        query.start().awaitTermination()
        events = spark.table(name)
    return sorted((row.asDict() for row in events.collect()), key=lambda row: str(row.get("ts")))


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
@pytest.mark.parametrize("stream", [False, True])
def test_files_as_batch_and_stream(spark: SparkSession, tmp_path: Path, format_: str, stream: bool) -> None:
    events = read_events(spark, Source(format_, save(tmp_path / "in", format_)), stream=stream)
    found = [{name: row[name] for name in ("type", "ts", "x")} for row in rows_of(spark, events)]
    assert found == ROWS
    assert dict(events.dtypes)["x"] == "bigint"


def test_rows_of_csv_that_cannot_be_read_come_without_a_type(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("type,ts,x\nA,1,3\nB,soon,1\nB,7,many\nB,8\nA,,1\n")
    events = read_events(spark, Source("csv", str(tmp_path / "e.csv")), numeric={"x"})
    found = [(row["type"], row["ts"], row[UNREADABLE]) for row in rows_of(spark, events)]
    assert found == [
        ("A", 1, None),
        (None, 7, "B,7,many"),
        (None, 8, "B,8"),
        (None, None, "B,soon,1"),
        ("A", None, None),
    ]
    assert events.select("type").where("type IS NOT NULL").count() == 2  # also when Spark reads one column only


def test_rows_of_json_that_cannot_be_read_come_without_a_type(spark: SparkSession, tmp_path: Path) -> None:
    lines = ['{"type":"A","ts":1,"x":1}', "[1]", "", '{"type": ', '{"type":"B","ts":2,"x":"abc"}', "null", "{}"]
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    events = read_events(spark, Source("json", str(tmp_path / "e.jsonl")), numeric={"x"})
    found = sorted((str(row["type"]), str(row[UNREADABLE])) for row in rows_of(spark, events))
    expected = [("A", "None"), ("None", "None"), *(("None", lines[i]) for i in (1, 3, 4, 5))]
    assert found == sorted(expected)
    assert events.select("type").where("type IS NOT NULL").count() == 1


def test_a_schema_settles_types(spark: SparkSession, tmp_path: Path) -> None:
    for format_ in ("csv", "json", "parquet"):
        source = Source(format_, save(tmp_path / format_, format_), {"x": "string"})
        assert dict(read_events(spark, source).dtypes)["x"] == "string"
    with pytest.raises(PlanError, match="unknown type 'complex'"):
        read_events(spark, Source("csv", str(tmp_path / "csv"), {"x": "complex"}))


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_an_empty_folder_needs_a_schema(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(PlanError, match="give the schema"):
        read_events(spark, Source(format_, str(tmp_path / "in")), stream=True)
    schema = {"type": "string", "ts": "int64", "x": "int64"}
    events = read_events(spark, Source(format_, str(tmp_path / "in"), schema), stream=True)
    save(tmp_path / "in", format_)
    assert [row["ts"] for row in rows_of(spark, events)] == [1, 5, 9]


def test_a_single_file_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in", "csv")
    events = read_events(spark, Source("csv", str(tmp_path / "in" / "e.csv")), stream=True)
    assert len(rows_of(spark, events)) == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source("csv", "/nowhere.csv"), "there is no file or folder /nowhere.csv"),
        (Source("kafka", schema={"type": "string", "ts": "int"}), "add --packages kafka .*spark-sql-kafka-0-10_2.13:4"),
        (Source("delta", "/tmp"), "delta"),
    ],
)
def test_what_is_not_there(spark: SparkSession, source: Source, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_events(spark, source)


def test_columns_and_files_that_are_others(spark: SparkSession, tmp_path: Path) -> None:
    path = save(tmp_path / "in", "csv")
    with pytest.raises(InputError, match="no column `tss`; did you mean `ts`"):
        read_events(spark, Source("csv", path, ts="tss"))
    with pytest.raises(InputError, match="not, or not only, of Parquet"):
        read_events(spark, Source("parquet", f"{path}/e.csv"))
    with pytest.raises(PlanError, match="Kafka does not say"):
        read_events(spark, Source("kafka"))


@pytest.mark.parametrize("kind", ["stock", "traffic"])
def test_the_generator_gives_the_same_events_however_it_is_cut(kind: str) -> None:
    made = Generator(kind, seed=3)
    whole = pa.Table.from_batches(made.read(0, 25_000))
    edges = [0, 7, 12_000, 12_001, 25_000]
    parts = [batch for start, end in pairwise(edges) for batch in made.read(start, end)]
    assert whole.equals(pa.Table.from_batches(parts))
    assert whole["ts"].to_pylist() == sorted(whole["ts"].to_pylist())
    assert not whole.equals(pa.Table.from_batches(Generator(kind, seed=4).read(0, 25_000)))


def test_the_generator_as_a_batch_and_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    options = {"rows": "15000", "seed": "3", "maxRowsPerBatch": "7000"}
    source = Source("generator", options=options)
    batch = read_events(spark, source)
    stream = read_events(spark, source, stream=True)
    found = rows_of(spark, stream, tmp_path)
    assert len(found) == 15_000
    assert found == rows_of(spark, batch)
    assert len(list((tmp_path / "offsets").glob("[0-9]*"))) == 3


def test_the_generator_at_a_pace(spark: SparkSession) -> None:
    from ensue.spark.generator import ReadMaxRows, StreamReader

    reader = StreamReader(Generator(rows=50, rows_per_second=1_000_000))
    at = reader.initialOffset()
    for _ in range(1000):
        at = reader.latestOffset(at, ReadMaxRows(20))
    assert at == {"row": 50}
    slow = StreamReader(Generator(rows_per_second=1))
    assert slow.latestOffset({"row": 5}, ReadMaxRows(20)) == {"row": 5}


@pytest.mark.parametrize("options", [{"kind": "weather"}, {"rows": "many"}, {"rows": "-1"}, {"speed": "1"}])
def test_options_that_the_generator_does_not_have(options: dict[str, str]) -> None:
    with pytest.raises(PlanError):
        Generator.of(options)
