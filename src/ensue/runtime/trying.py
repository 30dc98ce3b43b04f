"""Plans in a race over the same events: which of them is really the quickest.

Costs count partial matches and take conditions for independent, more or less. Where that misleads, a plan that was to
save much is slower than the one in use, and one that nothing speaks for is quicker than both. So before a plan takes
over, all that come into question go through the last events, part by part in turn, with states of their own that are
dropped afterwards. One that falls behind drops out, so that a race of many costs little more than one of two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ensue.errors import LimitError
from ensue.events.batch import EventBatch
from ensue.runtime.evaluator import Evaluator, State
from ensue.runtime.preparing import Reading
from ensue.runtime.strings import StringTable

TRIED = 8192
"""How many of the last events plans are tried on, after a window that fills their states."""
_FIRST, _LARGEST = 128, 2048
"""Events of the first part, and of the largest; each is twice as long as the one before, or half if that was slow."""
_PATIENCE = 1e-2
"""Seconds that a plan may take for a part: one that is left in it tells enough, and all that are cannot go on."""
_ENOUGH = 5e-3
"""Seconds of the processor after which it is known which plan is quicker."""
_MOST, _MOST_SHARE, _MOST_IF_SLOW, _SPARE = 8e-2, 0.25, 0.16, 0.03
"""Seconds that a race may take; a share of what its events took in the stream, if that is more, up to so many seconds;
and a share of the time since the last check: where little happens, there is time to let states become full."""
_SLOW = 1e-2
"""Seconds that a part of it should take at most."""
_LEAST = 1e-4
"""Less than this says nothing."""
_BEHIND, _FAR_BEHIND, _SOME = 1.5, 2.0, 1e-3
"""By what factor a plan has to be slower than the quickest, and by how many seconds more, to drop out: once states are
full, and before; then it must also be slower than the stream."""
_ROOM = 2048
"""Rows that each store of a state has room for at first: to make room takes longer than the events do."""
_OUT_OF_QUESTION = 1e9
"""How many times as long a plan takes that would break a limit."""
_MOST_HELD, _MOST_TIMES = 100_000, 4
"""How many partial matches a plan may hold, and how many times as many as the one in use holds in the stream."""


@dataclass(frozen=True, slots=True)
class Race:
    """How many times as long as the quickest each of some plans took for some events, the one in use first.

    `seconds` is what the quickest took in kernels for the events `counted`, once states were as full as they are in the
    stream, or else (`is_early`) before that.
    """

    events: int
    counted: int
    seconds: float
    times: tuple[float, ...]
    is_early: bool = False

    @property
    def best_other(self) -> int:
        """The number of the quickest plan but for the one in use."""
        return min(range(1, len(self.times)), key=self.times.__getitem__)

    def is_out(self, number: int) -> bool:
        """Whether a plan is out of question: it would break a limit."""
        return self.times[number] >= _OUT_OF_QUESTION

    def ratio(self, number: int) -> float:
        """How many times as long as the plan in use another one took."""
        return self.times[number] / self.times[0]


def run_race(
    plans: Sequence[Evaluator],
    batches: Sequence[EventBatch],
    strings: StringTable,
    held: int = 0,
    pace: float = 0.0,
    since: float = 0.0,
) -> Race | None:
    """Run evaluators of a query over some events; None if these are too few to tell.

    `held` is how many partial matches the one in use holds in the stream, `pace` what an event takes there in seconds,
    `since` for how many seconds it has been at work since the last check.

    Until a window has passed, states are not as full as they are in the stream; what that takes is not counted, unless
    there is nothing else. A plan that holds more partial matches than it may, or many more than the one in use, is out
    of question.
    """
    most = max(_MOST, min(_MOST_SHARE * pace * sum(map(len, batches)), _MOST_IF_SLOW), _SPARE * since)
    limit = plans[0].options.max_partial_matches
    few = max(_MOST_HELD, _MOST_TIMES * held)
    runners = [_Runner(one, limit if k == 0 or (limit or few + 1) < few else few) for k, one in enumerate(plans)]
    running = list(runners)
    full = int(batches[0].end[0]) + (plans[0].assembly.window or 0) if batches else 0
    events = counted = 0
    parts = _Parts(batches)
    started = time.thread_time()
    for number, part in enumerate(parts):
        begun = time.thread_time()
        reading = Reading(part, plans[0].schema, strings)
        is_full = int(part.end[0]) >= full
        turn = number % len(running)
        for runner in (*running[turn:], *running[:turn]):
            runner.take(reading, int(part.end[-1]), is_full=is_full)
        events += len(part)
        counted += len(part) * is_full
        running = _drop_out(running, pace * events)
        now = time.thread_time()
        is_clear = len(running) < 2 or min(one.counted for one in running) > _ENOUGH
        if is_clear or now - started > most or running[0].is_stuck:
            break
        parts.is_slow = now - begun > _SLOW
    if not running:
        return None
    counts = min(one.counted for one in running) > _LEAST
    taken = [one.counted if counts else one.spent for one in running]
    if len(running) == len(runners) and max(taken) <= _LEAST:
        return None
    least = max(min(taken), 1e-9)
    for runner, seconds in zip(running, taken, strict=True):
        runner.times = seconds / least
    return Race(events, counted if counts else events, least, tuple(one.times for one in runners), not counts)


class _Runner:
    """A plan in a race, and what it has taken."""

    def __init__(self, evaluator: Evaluator, limit: int | None) -> None:
        # A clock of its own, and no limit of matches: they are dropped.
        options = replace(evaluator.options, max_matches=None, max_partial_matches=limit, on_limit="error")
        self._evaluator = replace(evaluator, options=options, seconds=[0.0], drops=True)
        self._state: State = self._evaluator.new_state(room=_ROOM)
        self.spent = self.counted = 0.0  # seconds: all in all, and once states were full
        self.times = 1.0  # as long as the quickest
        self.is_stuck = False  # in the middle of a part

    def take(self, reading: Reading, until: int, *, is_full: bool) -> None:
        """Take a part of the events in."""
        evaluator, before = self._evaluator, self._evaluator.seconds[0]
        try:
            _, taken = evaluator.step_within(self._state, reading, _PATIENCE)
            self.is_stuck = taken < len(reading.batch)
            if not self.is_stuck:
                evaluator.advance(self._state, until, evaluator.ranks(reading.strings), ended=False)
        except LimitError:
            self.spent = self.counted = math.inf
        else:
            took = (evaluator.seconds[0] - before) * len(reading.batch) / taken
            self.spent += took
            self.counted += took if is_full else 0.0


def _drop_out(running: Sequence[_Runner], took: float) -> list[_Runner]:
    """Those that are still in the race; of the others it is noted how far behind they were.

    Before states are full, none drops out that has taken less than the events `took` in the stream: what is slow at
    first may be quick later. Those that were left in the middle of a part cannot go on, unless all were.
    """
    spent, counted = min(one.spent for one in running), min(one.counted for one in running)
    is_stuck = all(one.is_stuck for one in running)
    staying = []
    for one in running:
        if one.spent == math.inf:
            one.times = _OUT_OF_QUESTION
        elif one.counted > _BEHIND * counted + _SOME and counted > _LEAST:
            one.times = one.counted / counted
        elif (one.spent > max(_FAR_BEHIND * spent, took) + _SOME) or (one.is_stuck and not is_stuck):
            one.times = one.spent / max(spent, _LEAST)
        else:
            staying.append(one)
    return staying


class _Parts:
    """Batches cut into parts that become longer, until it is slow to go through them."""

    def __init__(self, batches: Sequence[EventBatch]) -> None:
        self._batches = batches
        self.is_slow = False

    def __iter__(self) -> Iterator[EventBatch]:
        size = _FIRST
        for batch in self._batches:
            start = 0
            while start < len(batch):
                yield batch.slice(start, min(start + size, len(batch)))
                start += size
                size = max(size // 2, _FIRST) if self.is_slow else min(2 * size, _LARGEST)
