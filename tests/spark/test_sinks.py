"""Sinks: what is written, and that a repeated micro-batch leaves each match there once."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import ensue
from ensue.cli.sinks import flatten as flatten_local
from ensue.errors import EnsueError, InputError, StateError
from ensue.rules.program import Program
from ensue.spark.detection import detect
from ensue.spark.failures import translate
from ensue.spark.objects import flatten, match_objects, row_objects
from ensue.spark.settings import ConsoleSink, FileSink, JdbcSink, KafkaSink, Sink, WebhookSink
from ensue.spark.sinks import Rows, make_writer

from .test_webhook import Receiver

EVENTS = [
    {"type": "A", "ts": 1, "x": 3.0, "k": "p"},
    {"type": "B", "ts": 5, "x": 4.5, "k": "p"},
    {"type": "B", "ts": 6, "x": None, "k": 'q"u'},
]
QUERIES = ensue.parse(
    "QUERY pair PATTERN SEQ(A a, B+ b[]) WITHIN 100; QUERY part PATTERN B b PARTITION BY k WITHIN 5 RETURN b.x AS big"
)
PROGRAM = Program(QUERIES)


@pytest.fixture(scope="module")
def matches(spark: SparkSession) -> Iterator[DataFrame]:
    """Real matches: two queries, a Kleene variable, RETURN and PARTITION BY."""
    found = detect(spark.createDataFrame(EVENTS, "type string, ts bigint, x double, k string"), QUERIES).persist()
    assert found.count() == 5
    yield found
    found.unpersist()


def rows(frame: DataFrame, batch: int | None = None) -> Rows:
    objects = (lambda: match_objects(frame, PROGRAM)) if "match_id" in frame.columns else (lambda: row_objects(frame))
    return Rows(frame, objects, frame.count(), batch)


def write(spark: SparkSession, sink: Sink, frame: DataFrame, batch: int | None = None, run: str | None = None) -> None:
    writer = make_writer(spark, sink, run)
    writer.prepare()
    writer.write(rows(frame, batch))


def by_id(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(objects, key=lambda one: str(one["match_id"]))


# -- the forms of matches --------------------------------------------------------------------------------------------


def test_objects_are_those_of_the_engine(matches: DataFrame) -> None:
    found = [json.loads(row.value) for row in match_objects(matches, PROGRAM).collect()]
    assert by_id(found) == by_id(ensue.run(EVENTS, QUERIES).to_pylist())


def test_flat_columns_are_those_of_the_engine(matches: DataFrame) -> None:
    expected = flatten_local(ensue.run(EVENTS, QUERIES).to_arrow()).to_pylist()
    found = [row.asDict() for row in flatten(matches).collect()]
    assert list(found[0]) == list(expected[0])
    for row in (*found, *expected):
        row["b"] = row["b"] and json.loads(row["b"])
    assert by_id(found) == by_id(expected)


# -- files -----------------------------------------------------------------------------------------------------------


def read(path: Path, format_: str) -> list[str]:
    """The match ids in files, sorted."""
    files = sorted(path.rglob("part-*")) if path.is_dir() else [path]
    found: list[str] = []
    for file in files:
        if format_ == "parquet":
            found += pq.read_table(file)["match_id"].to_pylist()
        elif format_ == "json":
            assert file.suffix == ".json"
            found += [json.loads(line)["match_id"] for line in file.read_text().splitlines()]
        else:
            with file.open(newline="") as stream:
                found += [row["match_id"] for row in csv.DictReader(stream)]
    return sorted(found)


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
@pytest.mark.parametrize("single", [False, True])
def test_a_batch_writes_files(
    spark: SparkSession, tmp_path: Path, matches: DataFrame, format_: Any, single: bool
) -> None:
    ids = sorted(row.match_id for row in matches.collect())
    place = tmp_path / f"out.{format_}"
    sink = FileSink(format_, str(place), single)
    for _ in range(2):  # an older result is replaced
        write(spark, sink, matches)
        assert read(place, format_) == ids
    assert place.is_file() is single
    assert [path.name for path in tmp_path.iterdir()] == [place.name]
    write(spark, sink, matches.limit(0))
    assert read(place, format_) == []


def test_csv_has_a_header_and_texts_with_quotes(spark: SparkSession, tmp_path: Path, matches: DataFrame) -> None:
    write(spark, FileSink("csv", str(tmp_path / "o.csv"), True), matches)
    with (tmp_path / "o.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert {row["partition.k"] for row in found} == {"", "p", 'q"u'}
    assert {len(json.loads(row["b"])) for row in found if row["b"]} == {1, 2}


def test_times_in_parquet_are_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'm' AS match_id, timestamp'2024-01-02 03:04:05.678901' AS at")
    write(spark, FileSink("parquet", str(tmp_path / "o.parquet"), True), frame)
    assert pq.read_schema(tmp_path / "o.parquet").field("at").type == pa.timestamp("us", "UTC")


def test_what_is_not_a_result_is_not_replaced(spark: SparkSession, tmp_path: Path, matches: DataFrame) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("text")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        write(spark, FileSink("json", str(tmp_path / "precious")), matches)
    with pytest.raises(InputError, match="it is a folder"):
        write(spark, FileSink("json", str(tmp_path / "precious"), True), matches)
    with pytest.raises(InputError, match="it is a file"):
        write(spark, FileSink("json", str(tmp_path / "precious" / "thesis.txt")), matches)
    with pytest.raises(InputError, match="not empty"):
        write(spark, FileSink("json", str(tmp_path / "precious")), matches, 0, "run")


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_a_repeated_micro_batch_replaces_itself(
    spark: SparkSession, tmp_path: Path, matches: DataFrame, format_: Any
) -> None:
    place = tmp_path / "out"
    sink = FileSink(format_, str(place))
    ids = sorted(row.match_id for row in matches.collect())
    write(spark, sink, matches.where("query = 'pair'"), 7, "run")
    write(spark, sink, matches, 8, "run")
    write(spark, sink, matches.where("query = 'part'"), 8, "run")  # the second try of the same micro-batch
    assert read(place, format_) == ids
    assert sorted(path.name for path in place.glob("batch=*")) == ["batch=00000007", "batch=00000008"]
    write(spark, sink, matches.limit(0), 8, "run")
    assert [path.name for path in place.glob("batch=*")] == ["batch=00000007"]
    with pytest.raises(StateError, match="another checkpoint"):
        write(spark, sink, matches, 0, "other")


# -- a database ------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> JdbcSink:
    """A table of an embedded database, which ships with Spark."""
    cast(Any, spark._jvm).System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    options = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    return JdbcSink(f"jdbc:derby:{tmp_path / 'alerts'};create=true", "MATCHES", options)


def test_a_database_has_each_match_once(spark: SparkSession, database: JdbcSink, matches: DataFrame) -> None:
    sink = database
    first = matches.where("query = 'pair'")
    write(spark, sink, first, 0, "run")
    write(spark, sink, matches, 0, "run")  # started again, after the first try had written a part
    writer = make_writer(spark, sink, "run")
    writer.prepare()
    writer.write(rows(matches.limit(0), 1))
    writer.write(rows(matches, 1))
    table = spark.read.format("jdbc").options(url=sink.url, dbtable="MATCHES", **sink.options).load()
    found = [row.asDict() for row in table.collect()]
    assert sorted(row["match_id"] for row in found) == sorted(row.match_id for row in matches.collect())
    assert {row["partition"] for row in found} == {None, '{"k":"p"}', '{"k":"q\\"u"}'}
    assert {len(json.loads(row["b"])) for row in found if row["b"]} == {1, 2}


def test_a_database_by_timestamps(spark: SparkSession, database: JdbcSink) -> None:
    sink = database
    for kind in ("timestamp", "timestamp_ntz"):
        frame = spark.sql(
            f"SELECT * FROM VALUES ('{kind}1', 'q', {kind}'2024-01-02 03:04:05.6'), ('{kind}2', 'q', "
            f"{kind}'2024-05-02 03:04:05.678901') AS t(match_id, query, detected_at)"
        )
        for _ in range(2):
            writer = make_writer(spark, sink, "run")
            writer.prepare()
            writer.write(rows(frame, 0))
    table = spark.read.format("jdbc").options(url=sink.url, dbtable="MATCHES", **sink.options).load()
    assert sorted(row.match_id for row in table.collect()) == [
        "timestamp1",
        "timestamp2",
        "timestamp_ntz1",
        "timestamp_ntz2",
    ]


def test_a_database_that_cannot_be_reached(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="cannot reach the database jdbc:nothing"):
        make_writer(spark, JdbcSink("jdbc:nothing://here", "t"), None).prepare()


# -- the others ------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_each_match(spark: SparkSession, matches: DataFrame) -> None:
    receiver = Receiver()
    write(spark, WebhookSink(receiver.url), matches, 0, "run")
    write(spark, WebhookSink(receiver.url), matches.limit(0), 1, "run")
    expected = by_id(ensue.run(EVENTS, QUERIES).to_pylist())
    assert by_id([body for _, _, body in receiver.requests]) == expected
    assert all(key == body["match_id"] for key, _, body in receiver.requests)
    receiver.answers = [(400, {})]
    with pytest.raises(Exception, match="refuses match") as caught:
        write(spark, WebhookSink(receiver.url), matches, 2, "run")
    error = translate(caught.value)
    assert isinstance(error, EnsueError)
    assert str(error).startswith(receiver.url)
    assert "Traceback" not in str(error)
    receiver.server.shutdown()
    receiver.server.server_close()


def test_the_console(spark: SparkSession, matches: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    write(spark, ConsoleSink("json"), matches)
    out = capsys.readouterr().out
    assert by_id([json.loads(line) for line in out.splitlines()]) == by_id(ensue.run(EVENTS, QUERIES).to_pylist())
    write(spark, ConsoleSink("csv"), matches)
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["query"] for row in found} == {"pair", "part"}
    write(spark, ConsoleSink("table"), matches, 3)
    out = capsys.readouterr().out
    assert "micro-batch 3, 5 rows" in out
    assert "match_id" in out


def test_rows_set_aside_as_json(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'late' AS kind, CAST('NaN' AS double) AS x, date'2024-01-02' AS d")
    assert [row.value for row in row_objects(frame).collect()] == ['{"kind": "late", "x": null, "d": "2024-01-02"}']


def test_kafka_without_its_package(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"add --packages kafka .* which is org.apache.spark:spark-sql-kafka"):
        make_writer(spark, KafkaSink("localhost:1", "t"), None).prepare()
