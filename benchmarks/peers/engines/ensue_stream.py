"""ensue on a stream of Spark: micro-batches of a file each, on two cores.

The first micro-batches, with the start of the stream in them, do not count in the time; all count in the matches.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ensue
from benchmarks.peers.budget import OverBudgetError
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.ensue_spark import NO_LIMIT, count_rows, text_of
from benchmarks.peers.engines.spark_session import JOB_STARTS, cpu_seconds, grow_on_spark, session
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read
from ensue.spark import detect

BATCHES = 6
FREE = 2
"""Micro-batches, and how many of the first are not measured."""


def lacks(query: Query) -> str | None:
    """Why a query is beyond it: none is."""
    return None


def measure(job: Job) -> Reading:
    """Run the job on the session of this process."""
    spark = session("local[2]")
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))
    spent: dict[int, tuple[float, float]] = {}

    def prepare(events: int) -> Callable[[], int]:
        folder = Path(tempfile.mkdtemp(prefix="ensue-peers-"))
        write_batches(stream.table.slice(0, events), folder / "in")

        def run() -> int:
            try:
                matches, spent[events] = run_stream(spark, job, folder)
                return matches
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        return run

    whole = grow_on_spark(prepare, job, 1)
    if not whole.events:
        return whole
    share = (BATCHES - FREE) / BATCHES
    cpu, wall = (seconds / share for seconds in spent[whole.events])
    note = f"micro-batches of {whole.events // BATCHES:,}"
    return Reading(whole.events, whole.matches, cpu, wall, note, version=ensue.__version__)


def write_batches(table: pa.Table, folder: Path) -> None:
    """The events as a file a micro-batch, in the order of time."""
    folder.mkdir()
    ts = table["ts"].cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
    plain = table.set_column(table.column_names.index("ts"), "ts", ts)
    plain = plain.set_column(plain.column_names.index("type"), "type", plain["type"].cast(pa.string()))
    size = -(-len(plain) // BATCHES)
    for number in range(BATCHES):
        path = folder / f"{number:02}.parquet"
        pq.write_table(plain.slice(number * size, size), path)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their times


def run_stream(spark: Any, job: Job, folder: Path) -> tuple[int, tuple[float, float]]:
    """The matches of the whole stream, and the CPU and wall seconds of all micro-batches but the first."""
    schema = spark.read.parquet(str(folder / "in")).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("latestFirst", "false")
    found = detect(events.parquet(str(folder / "in")), text_of(job), options=NO_LIMIT)
    marks: list[tuple[float, float]] = []
    matches = 0

    def take(batch: Any, number: int) -> None:
        nonlocal matches
        matches += count_rows(job, batch)
        marks.append((cpu_seconds(), time.perf_counter()))

    start = cpu_seconds()
    running = (
        found.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    while not running.awaitTermination(0.1):
        if cpu_seconds() - start > job.budget + BATCHES * JOB_STARTS:
            running.stop()
            raise OverBudgetError
    first, last = marks[FREE - 1], marks[-1]
    return matches, (last[0] - first[0], last[1] - first[1])
