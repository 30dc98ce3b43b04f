"""How long parts of the work take on this machine, measured with the engine itself: the T's of the latency model.

Small made-up streams are run for some milliseconds, each so that all but one part of the work cancels out. Of several
rounds the median counts, so that what others do on the machine meanwhile hardly matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from ensue.events.schema import DType, Schema
from ensue.planning.latency import Timings
from ensue.planning.plan import Join, Leaf, Plan, left_deep

if TYPE_CHECKING:
    from ensue.runtime.engine import Engine

_SCHEMA = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.INT})
_PAIR = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 50000"
_TRIPLE = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 50000"
_STORING = Plan((Join(Leaf("c"), left_deep(["a", "b"], stored=True)),))
_ROUND = 100_000
"""Time between rounds: longer than the window, so that each finds empty buffers."""
_LEAST = 1e-11
"""What a part counts at least where noise would make it nothing."""


def timings_here(max_age: float | None = None) -> Timings:
    """The timings of this machine: measured once in a process, or again after `max_age` seconds."""
    return _measured(0 if max_age is None else int(time.monotonic() // max_age))


@lru_cache(maxsize=1)
def _measured(_period: int) -> Timings:
    return measure_timings()


def measure_timings(rounds: int = 5) -> Timings:
    """Measure now; it takes some tens of milliseconds once the kernels are loaded."""
    few, many, triggers = 64, 4096, 64
    predicate = (_scan(many, triggers, rounds) - _scan(few, triggers, rounds)) / ((many - few) * triggers)
    predicate = max(predicate, _LEAST)
    made = 256 * triggers
    result = max(_store(256, triggers, rounds) / made - predicate, _LEAST)
    insert = _take_in(256, rounds)
    return Timings(predicate, result, insert, max(_report(256, rounds) - insert, 0.0))


def load_kernels() -> None:
    """Take some events in, so that a first one need not wait for code to be loaded."""
    _report(4, 1)


def _scan(candidates: int, triggers: int, rounds: int) -> float:
    """Kernel time of events that look at so many candidates, none of which passes."""
    return _median_of(_PAIR, None, rounds, before=(candidates, 1), measured=(triggers, 0))


def _store(candidates: int, triggers: int, rounds: int) -> float:
    """Kernel time of events that make a partial match with each of so many candidates."""
    return _median_of(_TRIPLE, _STORING, rounds, before=(candidates, 0), measured=(triggers, 1))


def _median_of(
    query: str, plan: Plan | None, rounds: int, *, before: tuple[int, int], measured: tuple[int, int]
) -> float:
    engine = _engine(query, plan)
    found = []
    for number in range(rounds + 1):
        start = number * _ROUND
        engine.push(_events("A", start, *before))
        events = _events("B", start + before[0] + 1, *measured)
        spent = -engine.kernel_seconds
        engine.push(events)
        found.append(spent + engine.kernel_seconds)
    return median(found[1:])  # in the first round buffers had to grow


def _take_in(events: int, rounds: int) -> float:
    """The time of an event that comes alone and is only stored."""
    engine = _engine(_PAIR, None)

    def once(number: int) -> float:
        return _time_each(engine, "A", number * _ROUND, events)

    return _settled(once, rounds)


def _report(events: int, rounds: int) -> float:
    """The time of an event that comes alone and completes one match."""
    engine = _engine(_PAIR, None)

    def once(number: int) -> float:
        engine.push_event({"type": "A", "ts": number * _ROUND, "x": 0})
        return _time_each(engine, "B", number * _ROUND + 1, events)

    return _settled(once, rounds)


def _settled(once: Callable[[int], float], rounds: int) -> float:
    return median([once(number) for number in range(rounds + 1)][1:])


def _time_each(engine: Engine, kind: str, start: int, number: int) -> float:
    push, clock = engine.push_event, time.perf_counter
    seconds = []
    for ts in range(start, start + number):
        event = {"type": kind, "ts": ts, "x": 1}
        began = clock()
        push(event)
        seconds.append(clock() - began)
    return median(seconds)


def _engine(query: str, plan: Plan | None) -> Engine:
    from ensue.runtime.engine import Engine

    return Engine(query, _SCHEMA, plan=plan)


def _events(kind: str, start: int, number: int, x: int) -> pa.Table:
    return pa.table({"type": [kind] * number, "ts": range(start, start + number), "x": [x] * number})
