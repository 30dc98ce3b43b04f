"""Esper: patterns of `every … -> every …` under timer:within; a join of windows where no order is asked for."""

from __future__ import annotations

from benchmarks.peers.cells import Job
from benchmarks.peers.jars import ESPER as JARS
from benchmarks.peers.queries import Query

__all__ = ["JARS", "lacks", "statement"]

BY_CONTEXT = 400
"""From so many live events on, a context per key is faster than a condition on it (1.35 times at 400; 0.85 at 25)."""


def lacks(query: Query) -> str | None:
    """Why a query is beyond it."""
    if query.has_list:
        return (
            "a pattern's repetition takes one run of events, not every combination, and match_recognize cannot compare "
            "an element of a list with the one before it"
        )
    return None


def statement(job: Job) -> str:
    """The query in EPL."""
    query = job.asked
    window = f"{job.window} milliseconds"
    if not query.is_ordered:
        sources = ", ".join(f"{kind}#time({window}) as {kind.lower()}" for kind in query.types)
        rising = " and ".join(f"{x}.diff < {y}.diff" for x, y in pairs(query))
        return f"select * from {sources} where {rising}"
    by_context = query.is_keyed and job.live >= BY_CONTEXT
    steps = []
    for before, name in pairs(query):
        filters = []
        if query.is_rising:
            filters.append(f"diff > {before}.diff")
        if query.is_keyed and not by_context:
            filters.append("k = a.k")
        if job.has_ties:
            filters.append(f"ts > {before}.ts")
        step = f"every {name}={name.upper()}" + (f"({', '.join(filters)})" if filters else "")
        if query.has_absence and name == "b":
            later = ", ts > a.ts" if job.has_ties else ""
            step = f"({step} and not N(k = a.k{later}))"
        steps.append(step)
    select = f"select * from pattern [every a=A -> ({' -> '.join(steps)}) where timer:within({window})]"
    if by_context:
        keys = ", ".join(f"k from {kind}" for kind in query.types)
        return f"create context ByKey partition by {keys}; context ByKey {select}"
    return select


def pairs(query: Query) -> list[tuple[str, str]]:
    """Each variable with the next."""
    return list(zip(query.variables, query.variables[1:], strict=False))
