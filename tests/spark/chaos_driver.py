"""A process that runs the stream of `tests.spark.ordeal`, made to be killed and started again.

    python -m tests.spark.chaos_driver FOLDER native|pipeline [--finish]

It reads `FOLDER/in`, writes `FOLDER/out` (a pipeline: also `FOLDER/aside` and `FOLDER/journal`) and keeps its
checkpoint in `FOLDER/checkpoint`. With `--finish` it ends when nothing is left to read; otherwise it goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ensue.language import parse
from ensue.spark.detection import detect_with_aside
from ensue.spark.logs import check_logs
from ensue.spark.pipeline import start_stream
from ensue.spark.session import make_session
from ensue.spark.settings import Detection, FileSink, Pipeline, Source, Stream
from tests.spark.ordeal import ADAPT, LATENESS, QUERIES, read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SINKS = ("native", "pipeline")
"""Spark's own file sink, and the file sink of pipelines."""

CONFIG = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    # To compile code for so few rows takes a third of the JVM's time, and the state does not depend on it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def start_native(spark: SparkSession, folder: Path, finish: bool) -> StreamingQuery:
    """The stream with Spark's file sink."""
    check_logs(spark, str(folder / "checkpoint"))
    detected = detect_with_aside(read_events(spark, folder / "in"), QUERIES, lateness=LATENESS, adapt=ADAPT)
    writer = detected.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if finish else writer.trigger(processingTime="0 seconds")).start()


def start_pipeline(spark: SparkSession, folder: Path, finish: bool) -> StreamingQuery:
    """The stream as a pipeline."""
    pipeline = Pipeline(
        queries=tuple(parse(QUERIES)),
        source=Source("parquet", str(folder / "in"), options={"maxFilesPerTrigger": "1"}),
        sink=FileSink("parquet", str(folder / "out")),
        aside=FileSink("parquet", str(folder / "aside")),
        detection=Detection(lateness=LATENESS, adapt=ADAPT),
        journal=FileSink("parquet", str(folder / "journal")),
        stream=Stream(str(folder / "checkpoint"), "available-now" if finish else None),
    )
    return start_stream(spark, pipeline)


def main(folder: Path, sink: str, finish: bool) -> None:
    """Run until killed, or until all is read."""
    spark = make_session("chaos", master="local[1]", config={**CONFIG, "spark.local.dir": str(folder / "local")})
    (start_native if sink == "native" else start_pipeline)(spark, folder, finish).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], "--finish" in sys.argv[3:])
