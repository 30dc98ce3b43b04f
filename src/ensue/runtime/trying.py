"""Two plans on the same events: which of them is really quicker.

Costs count partial matches and take conditions for independent, more or less. Where that misleads, a plan that was to
save much is slower than the one in use. So before it takes over, both go through the last events, part by part in
turn, with states of their own that are dropped afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ensue.errors import LimitError
from ensue.events.batch import EventBatch
from ensue.runtime.evaluator import Evaluator
from ensue.runtime.preparing import Reading
from ensue.runtime.strings import StringTable

_FIRST, _LARGEST = 128, 4096
"""Events of the first part, and of the largest; each is twice as long as the one before, or half if that was slow."""
_ENOUGH = 3e-3
"""Seconds of the processor after which it is known which plan is quicker."""
_MOST = 5e-2
"""Seconds that a trial may take, however long a window is and however slow both plans are."""
_SLOW = _MOST / 8
"""Seconds that a part of it should take at most."""
_LEAST = 1e-4
"""Less than this says nothing."""
_CLEAR = 2.0
"""By what factor one plan has to be slower, and by `_ENOUGH` seconds, for it to be clear before states are full."""
_SAVED, _DOUBT = 0.05, 5e-5
"""The share of the time that a plan has to save when it is tried, and how many seconds more: short times swing."""
_OUT_OF_QUESTION = 1e9
"""How many times as long a plan takes that would break a limit."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What two plans took for some events: seconds in kernels."""

    events: int
    old: float
    new: float

    @property
    def ratio(self) -> float:
        """How many times as long the new plan took."""
        return self.new / self.old

    @property
    def is_quicker(self) -> bool:
        """Whether the new plan saves enough to take over."""
        return self.new <= (1.0 - _SAVED) * self.old - _DOUBT


def try_plans(old: Evaluator, new: Evaluator, batches: Sequence[EventBatch], strings: StringTable) -> Trial | None:
    """Run two evaluators of a query over some events; None if they are too few to tell.

    Until a window has passed, states are not as full as they are in the stream; what that takes is not counted, unless
    there is nothing else. A plan that holds more partial matches than it may is out of question.
    """
    old, new = _alone(old), _alone(new)
    states = old.new_state(), new.new_state()
    spent, counted = [0.0, 0.0], [0.0, 0.0]  # by the old and the new plan: all in all, and once states were full
    events = 0
    full = int(batches[0].end[0]) + (old.assembly.window or 0) if batches else 0
    parts = _Parts(batches)
    started = time.thread_time()  # what matches take to be put together counts too, though it tells nothing of plans
    for number, part in enumerate(parts):
        reading = Reading(part, old.schema, strings)
        until = int(part.end[-1])
        is_full = int(part.end[0]) >= full
        begun = time.thread_time()
        for k in (0, 1) if number % 2 else (1, 0):
            evaluator, state = (old, new)[k], states[k]
            before = evaluator.seconds[0]
            try:
                evaluator.step(state, reading)
                evaluator.advance(state, until, evaluator.ranks(strings), ended=False)
            except LimitError:
                return Trial(events, 1.0, _OUT_OF_QUESTION) if k == 1 else None
            took = evaluator.seconds[0] - before
            spent[k] += took
            counted[k] += took if is_full else 0.0
        events += len(part)
        is_clear = min(counted) > _ENOUGH or max(spent) > _CLEAR * min(spent) + _ENOUGH
        now = time.thread_time()
        if is_clear or now - started > _MOST:
            break
        parts.is_slow = now - begun > _SLOW
    taken = counted if min(counted) > _LEAST else spent
    return Trial(events, max(taken[0], 1e-9), taken[1]) if max(taken) > _LEAST else None


def _alone(evaluator: Evaluator) -> Evaluator:
    """The same with a clock of its own, and without a limit of matches: they are dropped at once."""
    return replace(evaluator, options=replace(evaluator.options, max_matches=None, on_limit="error"), seconds=[0.0])


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
