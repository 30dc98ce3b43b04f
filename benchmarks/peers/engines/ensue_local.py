"""ensue in this process, on one core: Arrow tables in, matches as sequence numbers out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

import ensue
from benchmarks.peers.budget import drive, repeat
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read
from ensue.options import Options
from ensue.runtime.matches import Matches

SHORT = 0.5
"""Seconds up to which a run is made again, for the least of them."""
LIST = 8
"""How many matches without lists take as much memory as one with a list, when it is decided how many to ask for."""
NO_LIMIT = Options(max_matches=None, max_partial_matches=None)


def lacks(query: Query) -> str | None:
    """Why a query is beyond this engine: none is."""
    return None


def measure(job: Job) -> Reading:
    """Run the job in this process."""
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))
    run_once(job, stream, min(job.events, 20_000), job.warm_up)
    return repeat(lambda: run_once(job, stream, job.events, job.budget), job.events, job.budget, job.repeats)


def run_first(job: Job, stream: Stream, events: int) -> Reading:
    """The first events of a stream, for what another engine made of them: how many matches, and in what time."""
    return repeat(lambda: run_once(job, stream, events, float("inf")), events, SHORT, 5)


def run_once(job: Job, stream: Stream, events: int, budget: float) -> Reading:
    """One run over the first events."""
    engine = ensue.compile(job.text, options=NO_LIMIT)
    is_counted = job.asked.is_counted
    total = 0

    def take(found: Matches) -> int:
        nonlocal total
        total += (pc.sum(found.to_arrow()["count"]).as_py() or 0) if is_counted else len(found)
        return len(found) * (LIST if job.asked.has_list else 1)

    reading = drive(lambda start, stop: take(engine.push(stream.table.slice(start, stop - start))), events, budget)
    inside = engine.kernel_seconds
    take(engine.flush())  # the row of the last time
    note = "by AGG" if is_counted else ""
    return replace(reading, matches=total, inside=inside, note=note, version=ensue.__version__)
