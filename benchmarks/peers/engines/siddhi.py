"""Siddhi: patterns of `every … -> every …`; joins of windows where no order is asked for; partitions for many keys.

`within` does not hold for what a nested `every` finds later, so that the last condition asks for the window again. It
lets an event in that is exactly a window old, so that it is given a millisecond less.
"""

from __future__ import annotations

from benchmarks.peers.cells import Job
from benchmarks.peers.engines.esper import pairs
from benchmarks.peers.jars import SIDDHI as JARS
from benchmarks.peers.queries import Query

__all__ = ["JARS", "lacks", "statement"]

BY_PARTITION = 100
"""From so many live events on, a partition by key is faster than a condition on it (5 times at 400; 0.9 at 25)."""


def lacks(query: Query) -> str | None:
    """Why a query is beyond it."""
    if query.has_list:
        return "a repetition takes one run of events, not every combination"
    if query.has_absence:
        return "`not N and b` cannot stand under a nested `every`: it finds other matches than those asked for"
    return None


def statement(job: Job) -> str:
    """The query in SiddhiQL, which puts the places of a match's first and last event into the stream Found."""
    query = job.asked
    streams = " ".join(f"define stream {kind} (seq int, ts long, diff double, k long);" for kind in query.named)
    return f"@app:playback {streams} {joined(job) if not query.is_ordered else sequence(job)}"


def sequence(job: Job) -> str:
    query = job.asked
    by_partition = query.is_keyed and job.live >= BY_PARTITION
    last = query.variables[-1]
    steps = ["every a=A"]
    for before, name in pairs(query):
        conditions = []
        if query.is_rising:
            conditions.append(f"diff > {before}.diff")
        if query.is_keyed and not by_partition:
            conditions.append("k == a.k")
        if job.has_ties:
            conditions.append(f"ts > {before}.ts")
        if name == last:
            conditions.append(f"ts - a.ts < {job.window}L")
        steps.append(f"every {name}={name.upper()}" + (f"[{' and '.join(conditions)}]" if conditions else ""))
    select = (
        f"from {' -> '.join(steps)} within {job.window - 1} milliseconds "
        f"select a.seq as first, {last}.seq as last insert into Found;"
    )
    if by_partition:
        return f"partition with ({', '.join(f'k of {kind}' for kind in query.types)}) begin {select} end;"
    return select


def joined(job: Job) -> str:
    """Two windows at a time."""
    window = f"#window.time({job.window} milliseconds)"
    near = " and ".join(f"{x} < {job.window}L" for x in ("c.ts - x.u", "c.ts - x.v", "x.u - c.ts", "x.v - c.ts"))
    return (
        f"from A{window} as a join B{window} as b on a.diff < b.diff "
        "select a.seq as first, b.diff as diff, a.ts as u, b.ts as v insert into AB; "
        f"from AB{window} as x join C{window} as c on x.diff < c.diff and {near} "
        "select x.first as first, c.seq as last insert into Found;"
    )
