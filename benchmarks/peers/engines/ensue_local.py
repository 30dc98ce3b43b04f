"""ensue in this process, on one core: Arrow tables in, matches as sequence numbers out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

import ensue
from benchmarks.peers.budget import drive, repeat
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.live_counts import count_triggers
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read
from ensue.errors import EnsueError
from ensue.options import Options

NO_LIMIT = Options(max_matches=None, max_partial_matches=None)


def lacks(query: Query) -> str | None:
    """Why a query is beyond this engine: none is."""
    return None


def measure(job: Job) -> Reading:
    """Run the job in this process."""
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))
    run_once(job, stream, min(job.events, 20_000), job.warm_up)
    return repeat(lambda: run_once(job, stream, job.events, job.budget), job.events, job.budget, job.repeats)


def count_matches(job: Job, stream: Stream, events: int) -> int:
    """What there is to find in the first events of a stream: the other engines are compared with it."""
    return run_once(job, stream, events, float("inf")).matches or 0


def run_once(job: Job, stream: Stream, events: int, budget: float) -> Reading:
    """One run over the first events."""
    is_counted = job.asked.is_counted
    by_counters = is_counted and counts_itself()
    text = job.text if by_counters else job.text.partition(" AGG ")[0]
    engine = ensue.compile(text, options=NO_LIMIT)
    sums = 0
    firsts = np.zeros(events if is_counted and not by_counters else 0, np.int64)
    until, nth = (
        count_triggers(stream.ts[:events], stream.codes[:events], job.window) if len(firsts) else (firsts, firsts)
    )

    def push(start: int, stop: int) -> int:
        nonlocal sums
        found = engine.push(stream.table.slice(start, stop - start))
        if by_counters:
            sums += pc.sum(found.to_arrow()["count"]).as_py() or 0
        elif is_counted:
            for block in (part.block for part in found._parts):
                firsts[:] += np.bincount(block.variables["a"], minlength=events)
                sums -= int(nth[block.variables["c"]].sum())
        return len(found)

    reading = drive(push, events, budget)
    if by_counters:  # the row of the last timestamp comes when no more events of it can
        sums += pc.sum(engine.flush().to_arrow()["count"]).as_py() or 0
    if is_counted and not by_counters:
        triggers = nth[: reading.events].max(initial=-1) + 1
        sums += int((firsts[: reading.events] * np.minimum(until[: reading.events], triggers)).sum())
    note = "by AGG" if by_counters else "matches are enumerated" if is_counted else ""
    matches = sums if is_counted else reading.matches
    return replace(reading, matches=matches, inside=engine.kernel_seconds, note=note, version=ensue.__version__)


@cache
def counts_itself() -> bool:
    """Whether this version evaluates AGG."""
    events = [{"type": "A", "ts": 1}, {"type": "B", "ts": 2}]
    try:
        return ensue.run(events, "PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)").to_arrow()["count"].to_pylist() == [1]
    except (EnsueError, KeyError, AttributeError, NotImplementedError):
        return False
