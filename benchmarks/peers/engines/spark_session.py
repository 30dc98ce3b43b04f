"""What all engines on Spark share: a session, the CPU time of the JVM and its workers, events in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psutil
import pyarrow as pa

from benchmarks.peers.budget import OverBudgetError, grow, stopping
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.live_counts import count_triggers
from benchmarks.peers.streams import Stream
from ensue.spark import detect, make_session

JOB_STARTS = 4.0
"""CPU seconds beyond the budget: a job on Spark takes one or two however few the events are, more when it is new."""


@cache
def session(master: str) -> Any:
    """The session of this process, with a job behind it: the first one starts the workers, which is not measured."""
    spark = make_session("peers", master=master, config={"spark.driver.memory": "3g"})
    few = spark.createDataFrame([("A", 1), ("B", 2)], "type string, ts long")
    detect(few, "PATTERN SEQ(A a, B b) WITHIN 5").count()
    return spark


def cpu_seconds() -> float:
    """The CPU time of this process and all it has started, the ended ones too."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
        if process.pid != me.pid:
            total += spent.children_user + spent.children_system
    return total


def lay_ready(spark: Any, job: Job, stream: Stream, events: int) -> Any:
    """The first events as a DataFrame in memory, four parts of it."""
    table = stream.table.slice(0, events)
    if job.asked.is_counted:
        until, nth = count_triggers(stream.ts[:events], stream.codes[:events], job.window)
        table = table.append_column("until", pa.array(until)).append_column("nth", pa.array(nth))
    plain = table.set_column(table.column_names.index("type"), "type", table["type"].cast(pa.string()))
    spark.catalog.clearCache()
    frame = spark.createDataFrame(plain).coalesce(4).cache()
    frame.count()
    return frame


@contextmanager
def within_budget(spark: Any, budget: float) -> Iterator[None]:
    """Run Spark jobs, and cancel them when the budget is over."""
    with stopping(spark.sparkContext.cancelAllJobs, budget, cpu_seconds) as over:
        try:
            yield
        except Exception:
            if over.is_set():
                raise OverBudgetError from None
            raise


def bounded(run: Callable[[], int], spark: Any, job: Job) -> Callable[[], int]:
    """A run that is cancelled when its time is over."""

    def within() -> int:
        with within_budget(spark, job.budget + JOB_STARTS):
            return run()

    return within


def grow_on_spark(prepare: Callable[[int], Callable[[], int]], job: Job, repeats: int) -> Reading:
    """Run over more and more events, as far as the budget goes beside what Spark needs to start."""
    return grow(prepare, job.events, job.budget + JOB_STARTS, repeats, cpu_seconds, starts=True)
