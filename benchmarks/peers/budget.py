"""Keeping to a budget of CPU time: engines that take events as they come, and engines that see their input whole."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.peers.cells import Reading

Clock = Callable[[], float]
FIRST = 4_000
"""Events of the first, short run of an engine that sees its input whole."""

LEAST, MOST = 64, 65_536
"""Events that are pushed at a time, depending on how long that takes."""


class OverBudgetError(Exception):
    """A run was stopped because its time was over."""


def drive(push: Callable[[int, int], int], events: int, budget: float, clock: Clock = time.process_time) -> Reading:
    """Push events, as many at a time as take some tens of milliseconds, until they or the budget end.

    `push` gives what was found. What is reported is what was done by the end of the last push.
    """
    cpu, wall = clock(), time.perf_counter()
    place = found = 0
    size = 256
    spent = 0.0
    while place < events and spent <= budget:
        stop = min(place + size, events)
        new = push(place, stop)
        found += new
        place = stop
        before, spent = spent, clock() - cpu
        if spent - before > 0.2 or new > 8_000_000:
            size = max(size // 4, LEAST)
        elif spent - before < 0.1 and new < 1_000_000:
            size = min(size * 2, MOST)
    return Reading(place, found, spent, time.perf_counter() - wall)


def repeat(run: Callable[[], Reading], events: int, budget: float, repeats: int) -> Reading:
    """The cheapest of some runs, as many as the budget allows; one that was cut short is not repeated."""
    best = run()
    spent = best.cpu
    for _ in range(repeats - 1):
        if best.events < events or spent + best.cpu > budget:
            break
        again = run()
        spent += again.cpu
        check_same(best, again)
        best = min(best, again, key=lambda reading: reading.cpu)
    return best


def grow(
    prepare: Callable[[int], Callable[[], int]],
    events: int,
    budget: float,
    repeats: int,
    clock: Clock = time.process_time,
    *,
    starts: bool = False,
) -> Reading:
    """Run over more and more of the first events, up to all of them or as many as the budget allows.

    If a run `starts` something each time, what a first, short run takes is no measure of longer ones.

    `prepare` lays the first so many events ready and gives the run over them, which gives what it found or raises
    OverBudgetError. The longest run that came to its end counts; it is repeated while the budget lasts.
    """

    def timed(length: int) -> Reading:
        run = prepare(length)
        cpu, wall = clock(), time.perf_counter()
        found = run()
        return Reading(length, found, max(clock() - cpu, 1e-6), time.perf_counter() - wall)

    length = min(FIRST, events)
    best = Reading(note="not even the first events")
    try:
        best = timed(length)
        if starts or events <= FIRST:
            best = min(best, timed(length), key=lambda reading: reading.cpu)  # the first run has warmed up
        fixed = min(best.cpu, budget) if starts else 0.0
        while length < events:
            growth = min(8.0, events / length, 0.9 * (budget - fixed) / max(best.cpu - fixed, 1e-3))
            if growth < 1.4:
                return best
            length = min(events, math.ceil(length * growth))
            best = timed(length)
        spent = best.cpu
        for _ in range(repeats - 1):
            if spent + best.cpu > budget:
                break
            again = timed(length)
            spent += again.cpu
            check_same(best, again)
            best = min(best, again, key=lambda reading: reading.cpu)
    except OverBudgetError:
        pass
    return best


def check_same(one: Reading, other: Reading) -> None:
    """Two runs over the same events have to agree."""
    if one.matches != other.matches:
        raise AssertionError(f"two runs over {one.events} events found {one.matches} and {other.matches}")


@contextmanager
def stopping(stop: Callable[[], object], budget: float, clock: Clock = time.process_time) -> Iterator[threading.Event]:
    """Call `stop` when the budget is over before the block is done; the event that is given then says so."""
    done, over = threading.Event(), threading.Event()
    start = clock()

    def watch() -> None:
        while not done.wait(0.05):
            if clock() - start > budget:
                over.set()
                stop()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield over
    finally:
        done.set()
        watcher.join()
