"""Running a pipeline: as a batch, or as a stream that goes on until it is stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ensue.errors import PlanError
from ensue.pattern.expressions import UNIT_SPELLINGS
from ensue.pattern.numbers import numeric_columns
from ensue.rules.program import declared_numbers
from ensue.spark.checkpoint import open_checkpoint
from ensue.spark.counts import RunCounts
from ensue.spark.detection import aside_of, detect, detect_with_aside, matches_of
from ensue.spark.failures import SparkFailure, translated
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.journal import journal_objects, journal_of
from ensue.spark.objects import drop_field, match_objects, row_objects
from ensue.spark.session import make_session
from ensue.spark.settings import FileSink, Pipeline, SparkSettings
from ensue.spark.sinks import Rows, Writer, make_writer
from ensue.spark.sources import UNREADABLE, read_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ensue.runtime.counts import Counts

_MILLISECONDS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@contextmanager
def session_for(settings: SparkSettings, *, verbose: bool = False) -> Iterator[SparkSession]:
    """A Spark session for a pipeline, which ends with it unless it was there before; `verbose` keeps Spark's log."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession() is not None
    try:
        spark = make_session("ensue run", master=settings.master, config=settings.config, packages=settings.packages)
    except PySparkException as error:
        hint = f"; can it get the packages {', '.join(settings.packages)}?" if settings.packages else ""
        raise SparkFailure(f"Spark does not start: {error} (what it said is above{hint})") from error
    if not verbose and not there:
        spark.sparkContext.setLogLevel("FATAL")  # what fails is raised, and said in our words
    try:
        yield spark
    finally:
        if not there:
            with suppress(Py4JError, OSError):  # its Java process may be gone
                spark.stop()


def run_batch(spark: SparkSession, pipeline: Pipeline) -> Counts:
    """Find all matches in what the source holds, write them, and say what became of the events."""
    if pipeline.stream is not None:
        raise PlanError("this pipeline is a stream; start_stream runs it")
    with translated():
        events = read_events(spark, pipeline.source, numeric=_numbers(pipeline))
        counts = RunCounts()
        arguments = {**_arguments(pipeline), "counts": counts}
        if pipeline.aside is None and pipeline.journal is None and isinstance(pipeline.sink, FileSink):
            writer = make_writer(spark, pipeline.sink, None)
            writer.prepare()
            writer.write(match_rows(pipeline, detect(events, pipeline.program, **arguments)))
            return counts.get()
        writers = _make_writers(spark, pipeline, None)
        for one in writers.values():
            one.prepare()
        _split(pipeline, detect_with_aside(events, pipeline.program, **arguments), writers)
        return counts.get()


def start_stream(spark: SparkSession, pipeline: Pipeline) -> StreamingQuery:
    """Start a pipeline's stream; `ensue.spark.following.follow` waits for it and says how it goes."""
    if pipeline.stream is None:
        raise PlanError("this pipeline is a batch; run_batch runs it")
    trigger = read_trigger(pipeline.stream.trigger)
    with translated():
        events = read_events(spark, pipeline.source, stream=True, numeric=_numbers(pipeline))
        checkpoint = open_checkpoint(spark, pipeline, events.schema)
        arguments = {**_arguments(pipeline), "buckets": checkpoint.buckets, "lateness": pipeline.detection.lateness}
        detected = detect_with_aside(events, pipeline.program, **arguments)
        writers = _make_writers(spark, pipeline, checkpoint.run)
        checkpoint.save(spark)
        for one in writers.values():
            one.prepare()
        stream = detected.writeStream.foreachBatch(lambda rows, batch: _split(pipeline, rows, writers, batch))
        return stream.option("checkpointLocation", checkpoint.spark_path).trigger(**trigger).start()


def _make_writers(spark: SparkSession, pipeline: Pipeline, run: str | None) -> dict[str, Writer]:
    """The writers of what a pipeline writes; `run` names a stream, None is a batch."""
    sinks = {"matches": pipeline.sink, "aside": pipeline.aside, "journal": pipeline.journal}
    return {name: make_writer(spark, sink, run) for name, sink in sinks.items() if sink is not None}


def _split(pipeline: Pipeline, detected: DataFrame, writers: Mapping[str, Writer], batch: int | None = None) -> None:
    """Compute what was detected once, take it apart, and write the parts."""
    kept = detected.persist()
    try:
        is_match, is_entry = F.col("kind") == "match", F.col("kind") == JOURNAL
        counts = (F.count_if(is_match), F.count_if(is_entry), F.count(F.lit(1)))
        found, entries, total = kept.agg(*counts).collect()[0]
        writers["matches"].write(match_rows(pipeline, matches_of(kept), found, batch))
        if "aside" in writers:
            writers["aside"].write(aside_rows(aside_of(kept), total - found - entries, batch))
        if "journal" in writers:
            writers["journal"].write(Rows(journal_of(kept), lambda: journal_objects(kept), entries, batch))
    finally:
        kept.unpersist()


def match_rows(pipeline: Pipeline, matches: DataFrame, count: int | None = None, batch: int | None = None) -> Rows:
    """Matches as sinks take them."""
    clean = drop_field(matches, UNREADABLE)
    return Rows(clean, lambda: match_objects(clean, pipeline.program, pipeline.detection.key), count, batch)


def aside_rows(aside: DataFrame, count: int | None = None, batch: int | None = None) -> Rows:
    """Rows set aside as sinks take them; one that could not be read has its text in the reason."""
    if UNREADABLE in aside.columns:
        text = F.concat(F.lit("the row cannot be read, or a value does not fit its column: "), F.col(UNREADABLE))
        aside = aside.withColumn("reason", F.coalesce(text, F.col("reason"))).drop(UNREADABLE)
    return Rows(aside, lambda: row_objects(aside), count, batch)


def _numbers(pipeline: Pipeline) -> frozenset[str]:
    """The columns that have to be read as numbers."""
    return numeric_columns(pipeline.queries) | declared_numbers(pipeline.program)


def _arguments(pipeline: Pipeline) -> dict[str, Any]:
    source, detection = pipeline.source, pipeline.detection
    return {
        "type": source.type,
        "ts": source.ts,
        "begin": source.begin,
        "unit": source.unit,
        "key": detection.key,
        "strict": detection.strict,
        "options": detection.options,
        "adapt": detection.adapt,
    }


def read_trigger(text: str | None) -> dict[str, Any]:
    """How often a micro-batch starts, as Spark's `trigger` takes it.

    >>> read_trigger("available-now"), read_trigger("1.5 s"), read_trigger(None)
    ({'availableNow': True}, {'processingTime': '1500 milliseconds'}, {'processingTime': '0 milliseconds'})
    """
    if text is None:
        return {"processingTime": "0 milliseconds"}
    if text.strip().lower() in ("available-now", "available now", "availablenow"):
        return {"availableNow": True}
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text, re.IGNORECASE)
    unit = UNIT_SPELLINGS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise PlanError(f"the trigger is {text!r}; it is a length of time such as '10 seconds', or 'available-now'")
    return {"processingTime": f"{round(float(found[1]) * _MILLISECONDS[unit])} milliseconds"}
