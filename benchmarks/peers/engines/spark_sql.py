"""Spark SQL: the same self-joins as DuckDB's, on two cores, counted only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.spark_session import bounded, grow_on_spark, lay_ready, session
from benchmarks.peers.engines.sql import select, slices_of
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read


def lacks(query: Query) -> str | None:
    """Why a query is beyond it: none is, since it has recursive queries."""
    return None


def measure(job: Job) -> Reading:
    """Run the job on the session of this process."""
    spark = session("local[2]")
    spark.conf.set("spark.sql.cteRecursionRowLimit", -1)
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))

    def prepare(events: int) -> Callable[[], int]:
        lay_ready(spark, job, stream, events).createOrReplaceTempView("events")
        return bounded(lambda: count_matches(spark, job), spark, job)

    return replace(grow_on_spark(prepare, job, job.repeats), version=pyspark.__version__)


def count_matches(spark: Any, job: Job) -> int:
    """The number of matches in the events that lie ready."""
    query = job.asked
    slices = slices_of(query)
    for kind in query.named:
        events = f"SELECT *, (ts * {slices}) DIV {job.window} AS slice FROM events WHERE type = '{kind}'"
        spark.sql(events).createOrReplaceTempView(kind)
        for view, first in (("later", 0), ("near", -slices)):
            shifted = (
                f"SELECT * EXCEPT (slice), explode(sequence(slice - {slices}, slice - {first})) AS slice FROM {kind}"
            )
            spark.sql(shifted).createOrReplaceTempView(f"{kind}_{view}")
    if query.has_absence:
        # Without ASOF joins: the next N of the key by a window function over both types.
        spark.sql(
            "SELECT * FROM (SELECT ts, diff, slice, type, coalesce(min(CASE WHEN type = 'N' THEN ts END) OVER "
            "(PARTITION BY k ORDER BY ts RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 9223372036854775807) "
            "AS stop FROM (SELECT * FROM A UNION ALL SELECT * FROM N)) WHERE type = 'A'"
        ).createOrReplaceTempView("guarded")
    row = spark.sql(select(job)).first()
    return int(row[0] or 0)
