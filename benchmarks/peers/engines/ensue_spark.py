"""ensue on Spark, over a DataFrame in memory: matches as rows of the times of their events, counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ensue
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.spark_session import bounded, grow_on_spark, lay_ready, session
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read
from ensue.options import Options
from ensue.spark import detect

NO_LIMIT = Options(max_matches=None, max_partial_matches=None)


def lacks(query: Query) -> str | None:
    """Why a query is beyond it: none is."""
    return None


def measure(job: Job) -> Reading:
    """Run the job on the session of this process; the engine's name says which."""
    spark = session("local[1]" if job.engine.endswith("1") else "local[2]")
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))

    def prepare(events: int) -> Callable[[], int]:
        frame = lay_ready(spark, job, stream, events)
        return bounded(lambda: count_rows(job, detect(frame, text_of(job), options=NO_LIMIT)), spark, job)

    return replace(grow_on_spark(prepare, job, job.repeats), version=ensue.__version__)


def text_of(job: Job) -> str:
    """The query, with the times of a match's events as its columns."""
    if job.asked.is_counted:
        return job.text
    return f"{job.text} RETURN {', '.join(f'{name}.ts AS {name}_ts' for name in job.asked.variables)}"


def count_rows(job: Job, found: object) -> int:
    """The number of matches, or the sum of the counts."""
    if job.asked.is_counted:
        return int(found.agg({"count": "sum"}).first()[0] or 0)  # type: ignore[attr-defined]
    return int(found.count())  # type: ignore[attr-defined]
