"""Whole pipelines: batch and stream give what the engine gives, restarts go on, checkpoints know what they are of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

import ensue
from ensue.errors import EnsueError, InputError, PlanError, QueryError, StateError
from ensue.spark.failures import SparkFailure, translate
from ensue.spark.following import Totals, follow
from ensue.spark.pipeline import run_batch, start_stream
from ensue.spark.settings import Detection, FileSink, Pipeline, Source, Stream, WebhookSink

from .test_webhook import Receiver

QUERIES = ensue.parse(
    "QUERY pair PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 100;"
    "QUERY run PATTERN B+ b[] WHERE b[i].x > b[i-1].x WITHIN 20 USING NEXT RETURN COUNT(b) AS n"
)
EVENTS = [{"type": "ABC"[i % 3], "ts": i * 3, "x": (i * 7) % 11} for i in range(60)]
IDS = sorted(match["match_id"] for match in ensue.run(EVENTS, QUERIES))


def save(path: Path, events: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [f"{event['type']},{event['ts']},{event['x']}" for event in events]
    path.write_text("\n".join(["type,ts,x", *lines]) + "\n")


def make(place: Path, **others: Any) -> Pipeline:
    source = Source("csv", str(place / "in"), options={"maxFilesPerTrigger": "1"})
    stream = Stream(str(place / "state"), "available-now")
    sink = FileSink("parquet", str(place / "out"))
    made = Pipeline(QUERIES, source, sink, aside=FileSink("json", str(place / "aside")), stream=stream)
    return replace(made, **others)


def ids_of(place: Path) -> list[str]:
    return sorted(ds.dataset(place / "out", exclude_invalid_files=True).to_table()["match_id"].to_pylist())


def aside_of(place: Path) -> list[dict[str, Any]]:
    files = sorted((place / "aside").rglob("part-*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def run(spark: SparkSession, pipeline: Pipeline) -> Totals:
    return follow(start_stream(spark, pipeline))


def test_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", EVENTS[30:])
    save(tmp_path / "in" / "2.csv", EVENTS[:30])
    with (tmp_path / "in" / "2.csv").open("a") as file:
        file.write("A,soon,1\nA,5\n,7,1\n")
    counts = run_batch(spark, make(tmp_path, stream=None))
    assert ids_of(tmp_path) == IDS
    assert (counts.received, counts.processed, counts.rejected, counts.matches) == (63, 60, 3, len(IDS))
    aside = aside_of(tmp_path)
    assert [row["kind"] for row in aside] == ["rejected"] * 3
    assert sorted(row["reason"].rpartition(": ")[2] for row in aside if "cannot be read" in row["reason"]) == [
        "A,5",
        "A,soon,1",
    ]
    without = run_batch(spark, make(tmp_path, stream=None, aside=None))
    assert without == counts
    with pytest.raises(InputError):
        run_batch(spark, make(tmp_path, stream=None, detection=Detection(strict=True)))
    assert ids_of(tmp_path) == IDS  # a run that fails leaves the older result alone


def test_a_batch_without_windows(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", EVENTS[:9])
    queries = ensue.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x")
    run_batch(spark, make(tmp_path, stream=None, queries=tuple(replace(q, name="q1") for q in queries)))
    assert ids_of(tmp_path) == sorted(match["match_id"] for match in ensue.run(EVENTS[:9], queries))


def test_a_stream_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = make(tmp_path, detection=Detection(lateness=6, buckets=3))
    save(tmp_path / "in" / "1.csv", [EVENTS[1], EVENTS[0], *EVENTS[2:25]])
    first = run(spark, pipeline)
    save(tmp_path / "in" / "2.csv", [*EVENTS[25:], {"type": "B", "ts": 4, "x": 100}, {"type": "Z", "ts": 500, "x": 0}])
    second = run(spark, replace(pipeline, detection=Detection(lateness=6)))  # as many buckets as it began with
    third = run(spark, pipeline)
    assert ids_of(tmp_path) == IDS
    assert first.received + second.received + third.received == 62
    assert first.matches + second.matches + third.matches == len(IDS)
    assert (second.late, second.rejected) == (1, 0)
    (late,) = aside_of(tmp_path)
    assert (late["kind"], late["ts"]) == ("late", 4)


def test_another_query_over_an_old_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", EVENTS)
    pipeline = make(tmp_path)
    run(spark, pipeline)
    before = ids_of(tmp_path)
    other = ensue.parse("QUERY pair PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 99")
    with pytest.raises(StateError, match=r"query `pair` has changed(.|\n)*WITHIN 99(.|\n)*another checkpoint"):
        start_stream(spark, replace(pipeline, queries=other))
    with pytest.raises(StateError, match="lateness was"):
        start_stream(spark, replace(pipeline, detection=Detection(lateness=5)))
    with pytest.raises(StateError, match="buckets was"):
        start_stream(spark, replace(pipeline, detection=Detection(buckets=7)))
    save(tmp_path / "in" / "1.csv", [{**event, "x": f"t{event['x']}"} for event in EVENTS])
    with pytest.raises((StateError, QueryError)):
        start_stream(spark, replace(pipeline, source=replace(pipeline.source, schema={"x": "string"})))
    with pytest.raises(StateError, match="another checkpoint"):
        start_stream(spark, replace(pipeline, stream=Stream(str(tmp_path / "new"), "available-now")))
    assert ids_of(tmp_path) == before


def test_a_damaged_note_of_what_a_checkpoint_is(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", EVENTS)
    pipeline = make(tmp_path)
    run(spark, pipeline)
    note = tmp_path / "state" / "ensue.json"
    text = note.read_text()
    (tmp_path / "state" / ".ensue.json.crc").unlink()
    for damaged in (text.replace("WITHIN 100", "WITHIN 101"), text[: len(text) // 2], "", "[1]"):
        note.write_text(damaged)
        with pytest.raises(StateError, match="damaged"):
            start_stream(spark, pipeline)
    note.unlink()
    with pytest.raises(StateError, match="damaged"):
        start_stream(spark, pipeline)


def test_a_stream_that_cannot_start_leaves_no_note(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", EVENTS)
    wrong = ensue.parse("QUERY pair PATTERN SEQ(A a, B b) WHERE a.y < b.x WITHIN 100")
    with pytest.raises(QueryError):
        start_stream(spark, make(tmp_path, queries=wrong))
    assert not (tmp_path / "state").exists()


def test_a_failing_sink_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    save(tmp_path / "in" / "1.csv", [*EVENTS, {"type": "Z", "ts": 500, "x": 0}])  # time goes on after the last event
    receiver = Receiver()
    receiver.answers = [(200, {}), (200, {}), (400, {})]
    pipeline = make(tmp_path, sink=WebhookSink(receiver.url), aside=None)
    with pytest.raises(EnsueError, match="refuses match"):
        run(spark, pipeline)
    assert len(receiver.requests) >= 3
    run(spark, pipeline)
    assert sorted({key for key, _, _ in receiver.requests}) == IDS
    receiver.server.shutdown()
    receiver.server.server_close()


def test_batch_and_stream_are_not_taken_for_each_other(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="is a stream"):
        run_batch(spark, make(tmp_path))
    with pytest.raises(PlanError, match="is a batch"):
        start_stream(spark, make(tmp_path, stream=None))


def test_errors_come_back_from_the_workers() -> None:
    text = (
        'Job aborted. Traceback (most recent call last):\n  File "x.py", line 1\n'
        "ensue.errors.LimitError: more than 5 matches;\nraise it\n\n\tat org.apache.spark.X(X.scala:1)\n"
    )
    error = translate(RuntimeError(text))
    assert type(error).__name__ == "LimitError"
    assert str(error) == "more than 5 matches;\nraise it"
    other = translate(RuntimeError("\nOut of luck\n\tat x"))
    assert isinstance(other, SparkFailure)
    assert str(other) == "Spark has failed: Out of luck"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "An error occurred while calling o233.count.\n: java.io.IOException: full\n\tat x",
            "java.io.IOException: full",
        ),
        ("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no luck\n\tat x", "failed: no luck"),
        ("calling o1.count.\n: java.lang.NoSuchMethodError: 'void a.B()'\n\tat x", "made for another version of Spark"),
        ("x\nCaused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: y", "Kafka has no topic"),
    ],
)
def test_failures_of_spark_in_brief(text: str, expected: str) -> None:
    said = str(translate(RuntimeError(text)))
    assert expected in said
    assert "\n" not in said
    assert "An error occurred" not in said


def test_a_stream_whose_java_is_gone() -> None:
    assert "the Java process of Spark has ended" in str(translate(Py4JNetworkError("Answer from Java side is empty")))
