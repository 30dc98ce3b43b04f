"""DuckDB: a self-join on one thread, counted only. It sees its input whole, which no stream processor does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.peers.budget import OverBudgetError, grow, stopping
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.live_counts import count_triggers
from benchmarks.peers.engines.sql import select, slices_of
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read


def lacks(query: Query) -> str | None:
    """Why a query is beyond it: none is."""
    return None


def measure(job: Job) -> Reading:
    """Run the job in this process."""
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))

    def prepare(events: int) -> Callable[[], int]:
        return partial(run, lay_ready(job, stream, events), job)

    return replace(grow(prepare, job.events, job.budget, job.repeats), version=duckdb.__version__)


def run(connection: duckdb.DuckDBPyConnection, job: Job) -> int:
    """Count the matches within the budget."""
    with connection, stopping(connection.interrupt, job.budget):
        try:
            return count_matches(connection, job)
        except duckdb.InterruptException:
            raise OverBudgetError from None


def lay_ready(job: Job, stream: Stream, events: int) -> duckdb.DuckDBPyConnection:
    """The first events as a table of DuckDB's own."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    table = stream.table.slice(0, events)
    if job.asked.is_counted:
        until, nth = count_triggers(stream.ts[:events], stream.codes[:events], job.window)
        table = table.append_column("until", pa.array(until)).append_column("nth", pa.array(nth))
    connection.register("given", table)
    connection.execute("CREATE TEMP TABLE events AS SELECT * FROM given")
    return connection


def count_matches(connection: duckdb.DuckDBPyConnection, job: Job) -> int:
    """The number of matches in the events that lie ready."""
    query = job.asked
    slices = slices_of(query)
    for kind in query.named:
        connection.execute(
            f"CREATE TEMP TABLE {kind} AS SELECT * EXCLUDE type, ts * {slices} // {job.window} AS slice "
            f"FROM events WHERE type = '{kind}'"
        )
        for view, first in (("later", 0), ("near", -slices)):
            connection.execute(
                f"CREATE TEMP VIEW {kind}_{view} AS SELECT * EXCLUDE slice, slice - shift AS slice "
                f"FROM {kind}, range({first}, {slices + 1}) shifts(shift)"
            )
    if query.has_absence:  # the first N of the key of `a` after it forbids every later `b`
        connection.execute(
            "CREATE TEMP TABLE guarded AS SELECT a.ts, a.diff, a.slice, coalesce(n.ts, 9223372036854775807) AS stop "
            "FROM A a ASOF LEFT JOIN N n ON n.k = a.k AND n.ts > a.ts"
        )
    row = connection.execute(select(job, materialized="MATERIALIZED")).fetchone()
    return int(row[0] or 0) if row else 0
