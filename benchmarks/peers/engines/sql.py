"""The queries as self-joins, for DuckDB and Spark SQL.

A join on ranges of time alone is slow in both, so time is cut into slices, an event is copied into the slices from
which its window can be reached, and the join is an equality join on the slice with the ranges as filters. Tables are
`A`, `B`, … with `ts diff k slice` (and `until nth` where live counts are wanted), `A_later` as seen from the slices up
to a window before it, and `A_near` from those up to a window before or after it.
"""

from __future__ import annotations

from benchmarks.peers.cells import Job
from benchmarks.peers.queries import Query

STEPWISE = 5
"""From this length on, the joins are made one after the other: an optimiser's own order was slower."""


def slices_of(query: Query) -> int:
    """The slices in a window: those that were fastest of 1, 2, 4 and 8 in DuckDB."""
    if query.has_list or not query.is_ordered:
        return 1
    if query.has_absence:
        return 2
    return 8 if len(query.types) >= STEPWISE else 4


def select(job: Job, *, materialized: str = "") -> str:
    """The statement that counts what is asked for."""
    query = job.asked
    if query.has_list:
        return lists(job)
    if not query.is_ordered:
        return unordered(job)
    if len(query.types) >= STEPWISE:
        return stepwise(job, materialized)
    first = "guarded a" if query.has_absence else "A a"
    sources = ", ".join([first, *(f"{kind}_later {kind.lower()}" for kind in query.types[1:])])
    last = query.variables[-1]
    conditions = [f"{last}.ts < a.ts + {job.window}"]
    for before, name in zip(query.variables, query.variables[1:], strict=False):
        conditions += [f"a.slice = {name}.slice", f"{before}.ts < {name}.ts"]
        if query.is_rising:
            conditions.append(f"{before}.diff < {name}.diff")
        if query.is_keyed:
            conditions.append(f"a.k = {name}.k")
    if query.has_absence:
        conditions.append("b.ts <= a.stop")
    what = f"sum(a.until - {last}.nth)" if query.is_counted else "count(*)"
    return f"SELECT {what} FROM {sources} WHERE {' AND '.join(conditions)}"


def unordered(job: Job) -> str:
    """Each pair less than a window apart."""
    near = " AND ".join(f"abs({x}.ts - {y}.ts) < {job.window}" for x, y in (("a", "b"), ("b", "c"), ("a", "c")))
    return (
        "SELECT count(*) FROM A a, B_near b, C_near c WHERE a.slice = b.slice AND a.slice = c.slice "
        f"AND {near} AND a.diff < b.diff AND b.diff < c.diff"
    )


def stepwise(job: Job, materialized: str) -> str:
    """One join after the other, rising all the way."""
    query = job.asked
    steps = []
    left = "A"
    for kind in query.types[1:]:
        stop = f"x.ts + {job.window}" if left == "A" else "x.stop"
        on = f"x.slice = y.slice AND x.ts < y.ts AND y.ts < {stop} AND x.diff < y.diff"
        if kind == query.types[-1]:
            return f"WITH {', '.join(steps)} SELECT count(*) FROM {left} x JOIN {kind}_later y ON {on}"
        name = f"to_{kind.lower()}"
        steps.append(
            f"{name} AS {materialized} "
            f"(SELECT x.slice, y.ts, y.diff, {stop} AS stop FROM {left} x JOIN {kind}_later y ON {on})"
        )
        left = name
    raise AssertionError("a sequence has an end")


def lists(job: Job) -> str:
    """Lists grown an element at a time by a recursive query."""
    rise = f" + {job.rise:g}"
    later = f"AND g.ts < b.ts AND b.ts < g.stop AND g.diff{rise} < b.diff"
    return (
        f"WITH RECURSIVE grown(slice, ts, diff, stop) AS (SELECT a.slice, b.ts, b.diff, a.ts + {job.window} "
        f"FROM A a JOIN B_later b ON a.slice = b.slice AND a.ts < b.ts AND b.ts < a.ts + {job.window} "
        f"AND a.diff{rise} < b.diff UNION ALL "
        f"SELECT g.slice, b.ts, b.diff, g.stop FROM grown g JOIN B_later b ON g.slice = b.slice {later}) "
        f"SELECT count(*) FROM grown g JOIN C_later c ON g.slice = c.slice AND g.ts < c.ts AND c.ts < g.stop "
        f"AND g.diff{rise} < c.diff"
    )
