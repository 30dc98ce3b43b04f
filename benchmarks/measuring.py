"""One cell of the table: the least CPU time of a few runs, on a shorter stretch of the stream where time is short."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

PROBE = 20_000
"""Events of the first, short run, from which the length of the next one is estimated."""


@dataclass(frozen=True)
class Timing:
    """`matches` found in the first `events` events, in `seconds` of CPU time (the least of the runs)."""

    events: int
    matches: int
    seconds: float
    inside: float | None = None  # seconds in the kernel, where known: by its own clock, so also the least of the runs

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def inside_rate(self) -> float | None:
        """Events a second of kernel time."""
        return self.events / self.inside if self.inside else None


Job = Callable[[], tuple[int, float | None]]
"""One run: the number of matches, and the seconds in the kernel where they are known."""

Prepare = Callable[[int], Job]
"""From a number of events to the run over the first so many, its input laid ready."""


def time_once(job: Job, events: int) -> Timing:
    """Run a job once, by the clock of CPU time."""
    start = time.process_time()
    matches, inside = job()
    return Timing(events, matches, max(time.process_time() - start, 1e-9), inside)


def least(x: float | None, y: float | None) -> float | None:
    return y if x is None else x if y is None else min(x, y)


def measure(prepare: Prepare, events: int, *, budget: float, repeats: int) -> Timing:
    """Measure a run over `events` events, or over as many of the first ones as fit into `budget` seconds.

    The stretch grows up to tenfold at a time from a short first run. What is repeated is the last and longest run,
    as long as `repeats` and the budget allow.
    """
    length = min(PROBE, events)
    spent = 0.0
    job = prepare(length)
    best = time_once(job, length)
    while length < events:
        spent += best.seconds
        growth = min(10.0, events / length, (budget - spent) / best.seconds)
        if growth < 1.5:
            break
        length = min(events, int(length * growth))
        job = prepare(length)
        best = time_once(job, length)
    for _ in range(repeats - 1):
        spent += best.seconds
        if spent + best.seconds > budget:
            break
        again = time_once(job, length)
        if again.matches != best.matches:
            raise AssertionError(f"two runs over {length} events found {best.matches} and {again.matches} matches")
        best = Timing(length, best.matches, min(best.seconds, again.seconds), least(best.inside, again.inside))
    return best
