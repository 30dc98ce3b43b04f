"""The queries as self-joins in DuckDB, on one thread, counted by `count(*)`: no match is ever written out.

A join on ranges of time alone is slow (up to a hundred times, measured on these queries), so time is cut into slices,
an event is copied into the slices from which its window can be reached, and the join is a hash join on the slice with
the ranges as filters. Where the optimiser's own join order was beaten by another one, the steps are materialised in
that order. Each statement is the fastest of those tried on 200,000 events, and so is the number of slices in a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import duckdb
import pyarrow as pa
from workloads import Workload


@dataclass(frozen=True)
class Join:
    """A statement in which `{window}` stands for WITHIN, and the slices in a window.

    It reads, for each type X, the tables `X` (with `slice`), `X_later` (X seen from the slices of events up to a window
    before it) and `X_near` (from those up to a window before or after it).
    """

    statement: str
    slices: int
    prepare: str = ""


# `a.diff < b.diff < c.diff` first and the key last: 1.2 to 2.4 times as fast as the key first, at 0.5 no slower.
KERNEL = Join(
    """
    WITH ab AS MATERIALIZED (
        SELECT a.slice, a.key, b.ts, b.diff, a.ts + {window} AS stop FROM A a JOIN B_later b
        ON a.slice = b.slice AND a.ts < b.ts AND b.ts < a.ts + {window} AND a.diff < b.diff),
    abc AS MATERIALIZED (
        SELECT x.slice, x.key, c.ts, stop FROM ab x JOIN C_later c
        ON x.slice = c.slice AND x.ts < c.ts AND c.ts < stop AND x.diff < c.diff)
    SELECT count(*) FROM abc x JOIN D_later d
    ON x.slice = d.slice AND x.key = d.key AND x.ts < d.ts AND d.ts < stop""",
    slices=4,
)

SEQ3 = Join(
    """
    SELECT count(*) FROM A a, B_later b, C_later c
    WHERE a.slice = b.slice AND a.slice = c.slice
    AND a.ts < b.ts AND b.ts < c.ts AND c.ts < a.ts + {window} AND a.diff < b.diff AND b.diff < c.diff""",
    slices=4,
)

AND3 = Join(
    """
    SELECT count(*) FROM A a, B_near b, C_near c
    WHERE a.slice = b.slice AND a.slice = c.slice AND abs(a.ts - b.ts) < {window} AND abs(b.ts - c.ts) < {window}
    AND abs(a.ts - c.ts) < {window} AND a.diff < b.diff AND b.diff < c.diff""",
    slices=1,
)

# The first N of the key of `a` after it forbids every later `b`: one ASOF join, 1.5 times as fast as an anti-join.
NEGATION = Join(
    """
    SELECT count(*) FROM guarded a, B_later b, C_later c
    WHERE a.slice = b.slice AND a.slice = c.slice AND b.ts <= a.stop
    AND a.ts < b.ts AND b.ts < c.ts AND c.ts < a.ts + {window} AND a.diff < b.diff AND b.diff < c.diff""",
    slices=2,
    prepare="""
    CREATE TEMP TABLE guarded AS
    SELECT a.ts, a.diff, a.slice, coalesce(n.ts, 9223372036854775807) AS stop
    FROM A a ASOF LEFT JOIN N n ON n.key = a.key AND n.ts > a.ts""",
)

KLEENE = Join(
    """
    WITH RECURSIVE grown(slice, ts, diff, stop) AS (
        SELECT a.slice, b.ts, b.diff, a.ts + {window} FROM A a JOIN B_later b
        ON a.slice = b.slice AND a.ts < b.ts AND b.ts < a.ts + {window}
        UNION ALL
        SELECT g.slice, b.ts, b.diff, g.stop FROM grown g JOIN B_later b
        ON g.slice = b.slice AND g.ts < b.ts AND b.ts < g.stop AND g.diff < b.diff)
    SELECT count(*) FROM grown g JOIN C_later c ON g.slice = c.slice AND g.ts < c.ts AND c.ts < g.stop""",
    slices=1,
)

SEQ5 = Join(
    """
    WITH ab AS MATERIALIZED (
        SELECT a.slice, b.ts, b.diff, a.ts + {window} AS stop FROM A a JOIN B_later b
        ON a.slice = b.slice AND a.ts < b.ts AND b.ts < a.ts + {window} AND a.diff < b.diff),
    abc AS MATERIALIZED (
        SELECT x.slice, c.ts, c.diff, stop FROM ab x JOIN C_later c
        ON x.slice = c.slice AND x.ts < c.ts AND c.ts < stop AND x.diff < c.diff),
    abcd AS MATERIALIZED (
        SELECT x.slice, d.ts, d.diff, stop FROM abc x JOIN D_later d
        ON x.slice = d.slice AND x.ts < d.ts AND d.ts < stop AND x.diff < d.diff)
    SELECT count(*) FROM abcd x JOIN E_later e
    ON x.slice = e.slice AND x.ts < e.ts AND e.ts < stop AND x.diff < e.diff""",
    slices=8,
)

KEYED = Join(
    """
    SELECT count(*) FROM A a, B b, C c
    WHERE a.key = b.key AND b.key = c.key AND a.ts < b.ts AND b.ts < c.ts AND c.ts < a.ts + {window}""",
    slices=1,
)

JOINS = {
    "kernel": KERNEL,
    "seq3": SEQ3,
    "and3": AND3,
    "negation": NEGATION,
    "kleene": KLEENE,
    "seq5": SEQ5,
    "keyed": KEYED,
}


def count_matches(workload: Workload, events: pa.Table) -> int:
    """Run the workload's join over a stretch of its stream; the number of matches."""
    join = JOINS[workload.kind]
    connection = duckdb.connect()
    try:
        connection.execute("SET threads = 1")
        connection.register("events", events)
        for name in workload.names:
            prepare_type(connection, name, workload.window, join.slices)
        if join.prepare:
            connection.execute(join.prepare)
        row = connection.execute(join.statement.format(window=workload.window)).fetchone()
        return cast("int", cast("tuple[Any, ...]", row)[0])
    finally:
        connection.close()


def prepare_type(connection: duckdb.DuckDBPyConnection, name: str, window: int, slices: int) -> None:
    """The table of one type, and its copies into earlier and later slices (views: the unused ones cost nothing)."""
    if name not in "ABCDEN":
        return
    connection.execute(
        f"CREATE TEMP TABLE {name} AS "
        f"SELECT ts, diff, key, ts * {slices} // {window} AS slice FROM events WHERE type = '{name}'"
    )
    for view, first in (("later", 0), ("near", -slices)):
        connection.execute(
            f"CREATE TEMP VIEW {name}_{view} AS SELECT ts, diff, key, slice - shift AS slice "
            f"FROM {name}, range({first}, {slices + 1}) shifts(shift)"
        )
