"""When plans are checked: after so many events, or as often as a small share of the time allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_FIRST_CHECK, _URGENT_CHECK = 2048, 256
"""How many events come before the first check and between any two; and if it is urgent."""
_MOST_EVENTS = 1 << 22
_LONGEST = 1 << 17
"""After so many events the clock is looked at: they may have become slow since the last time."""
_FIRST_COST = 1e-3
"""What a check is taken to cost in seconds before one has been made."""
_CUT_COST = 1e-4
"""What it costs to have cut a batch for a check."""
_IDLE, _LEAST = 0.5, 4.0
"""By how much of itself the time between checks grows with each that finds nothing, and how many times at most."""
_FOLLOWING, _SOON = 2, 4.0
"""How many checks after one that found another plan come sooner, and how many times the budget they may be: that
plan was made when little was known of what has changed."""
_PUZZLED = 4
"""How often it is looked again why events have become slow."""
_SLOWER, _SPAN = 1.5, 5.0
"""By what factor events must have become slower to be looked at sooner, and for how many times a check's cost."""
_SOONER, _SOONEST = 2.5, 50.0
"""How many times the budget a check may then be, times that factor, and at most."""


_PATIENT = 2.0
"""How many times as long as expected events may take before the rest of them has to wait for a check."""
_LOOK, _LOOKS = 1e-3, 16
"""Seconds of work after which the clock is looked at in between, and how often at most in a batch."""
_LONG = 5e-3
"""Seconds from which on a batch is worth a look in between; a shorter one only after one that took long."""


class Patience(NamedTuple):
    """How many seconds some events may take before the rest has to wait, and into how many parts to cut them.

    Without parts it is looked at the clock only where there is no room for more partial matches.
    """

    seconds: float
    looks: int


class Cadence:
    """When the next check is due: after `every` so many events, or when its cost is a share `budget` of the time since.

    While checks find nothing they become rarer, down to a quarter of the budget.

    The number of events between checks is found anew after each of them, from what an event and a check have taken. A
    plan that no longer fits shows: where events suddenly take much longer, the check comes sooner.
    Time is what the `clock` says, which should only run while plans are at work: what others do neither hurries nor
    delays a check, and where plans take little time, little can be saved. All is part of the state: an engine that is
    stored and restored all the time, as on Spark, counts its own time.
    """

    def __init__(self, every: int | None, budget: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._every = every
        self._budget = budget
        self._clock = clock
        self.events = every or _FIRST_CHECK  # between checks
        self.next = self.events  # the number of the event before which the next one comes
        self._last = 0
        self._since = clock()
        self._worked = 0.0  # seconds since the last check, before that
        self._before = 0.0  # seconds up to the last check
        self._due: float | None = None  # seconds since then when it was last asked whether one is due
        self._cost = _FIRST_COST
        self._idle = 0  # checks that found nothing, since the last that did
        self._following = 0  # checks that are to come soon
        self._turns = 0  # checks since the first one of a row that follow each other soon
        self._is_called = False  # the last check came before its time
        self._puzzled = 0  # checks that did not find why events had become slow
        self._pace = 0.0  # seconds an event between the last two checks; 0: not known
        self._mark = (0, 0.0)  # an event's number, and what had been worked then
        self._seen = (0, self._since)  # the first event of the last batch, and the clock then
        self._is_tense = False  # the last batch took longer than expected
        self._alarm = -math.inf  # until the clock shows that, it cannot be time for a check
        self.is_glance = False  # the batch that was asked for last is one to be glanced at

    @property
    def _share(self) -> float:
        """The share of the time that checks may take: all of the budget, and less the longer they find nothing."""
        return self._budget * (_SOON if self._following else 1.0 / min(1.0 + _IDLE * self._idle, _LEAST))

    @property
    def is_settling(self) -> bool:
        """Whether the next check is the last of those that follow soon after a plan was replaced."""
        return self._following == 1

    @property
    def worked(self) -> float:
        """Seconds that plans have been at work until now."""
        return self._before + self._working()

    def is_far(self, first: int, stop: int, reach: int) -> bool:
        """Whether a batch of events up to before `stop` need not be held for a check, nor cut.

        So it is if that comes more than `reach` later, by what an event took when it was set. Where events have become
        slow, it is not. To be asked once a batch, before it. Now and then a batch `is_glance`: if one sees by it that
        the stream has changed, a check may come at once.
        """
        if self._every is not None:
            return stop + reach <= self.next
        (seen, before), now = self._seen, self._clock()
        self._seen, self.is_glance = (first, now), False
        self._is_tense = now - before > _SLOWER * self._pace * (first - seen)
        if stop + reach > self.next or stop - first > _LONGEST:
            return False
        if now < self._alarm:
            return True
        worked = self._working()
        if worked * self._share >= self._cost or self._is_slower(first, worked):
            return False
        soonest = min(self._cost / self._share, self._mark[1] + _SPAN * self._cost)
        self._alarm = now + soonest - worked
        self.is_glance = worked * self._budget * _SOON >= self._cost
        return True

    def _is_slower(self, number: int, worked: float) -> bool:
        """Whether the last events before one took much longer than those before the last check, and that weighs."""
        if number - self._mark[0] < _FIRST_CHECK or worked - self._mark[1] < _SPAN * self._cost:
            return False
        slower = self._slower(number, worked)
        if slower > _SLOWER and worked * self._budget * min(_SOONER * slower, _SOONEST) >= self._cost:
            return True
        self._mark = (number, worked)
        return False

    def _slower(self, number: int, worked: float) -> float:
        """How many times as long the last events before one took as those before the last check; 0: not known."""
        took = worked - self._mark[1]
        known = self._pace > 0 and took >= _SPAN * self._cost
        return took / (self._pace * max(number - self._mark[0], 1)) if known else 0.0

    def lately(self, next_event: int) -> float:
        """Seconds that an event took since the last look at the clock, or the last check."""
        return max(0.0, self._working() - self._mark[1]) / max(next_event - self._mark[0], 1)

    @property
    def since_check(self) -> float:
        """Seconds that plans have been at work since the last check."""
        return self._working()

    def slower(self, next_event: int) -> float:
        """How many times as long the last events took as those before the last check, if that is much; else 0."""
        found = self._slower(next_event, self._working()) if self._every is None else 0.0
        return found if found > _SLOWER else 0.0

    def patience(self, events: int) -> Patience | None:
        """How long some events may take, for a plan may no longer fit from one event to the next; None: for ever.

        That is twice as long as expected, and as much more as it takes to say that events have become slow. In short
        batches the clock is looked at only where there is no room for more partial matches, unless the one before took
        longer than expected.
        """
        if self._every is not None or not self._pace:
            return None
        expected = self._pace * events
        looks = 1
        if expected >= _LONG or self._is_tense:
            looks = min(max(2, int(expected / _LOOK)), _LOOKS)
        return Patience(_PATIENT * expected + _SPAN * self._cost, looks)

    def cut(self, first: int, stop: int) -> int:
        """Where to end a part of the events from number `first` to before `stop`, so that a check can be made there.

        Each part costs something by itself. So unless a fixed number of events was asked for, the rest of a batch is
        not cut off for a check that may as well come after it.
        """
        if self._every is not None:
            return min(max(self.next, first + 1), stop)
        end = min(max(self.next, first + _FIRST_CHECK), first + _LONGEST, stop)
        return stop if 2 * (stop - end) < end - first else end

    def is_due(self, next_event: int, *, is_urgent: bool = False) -> bool:
        """Whether a check is to be made now: enough events have come, or its cost is a small share of the time.

        It is also if it `is_urgent`, for events took longer than they may.
        """
        if self._every is not None:
            return next_event >= self.next
        came = next_event - self._last
        if came < (_URGENT_CHECK if is_urgent else _FIRST_CHECK):
            return False
        self._due = worked = self._working()
        lacking = self._cost / self._share - worked
        self._is_called = is_urgent or self._is_slower(next_event, worked)
        if lacking <= 0 or self._is_called:
            return True
        self.next = next_event + max(_FIRST_CHECK, int(min(came * lacking / max(worked, 1e-9), _MOST_EVENTS)))
        return False

    def checked(self, next_event: int, seconds: float, *, found: bool = True) -> None:
        """Note that a check has been made, what it took, and whether another plan came of it.

        Statistics are of some windows. Where events have become slow and nothing came of it, it is looked a few times
        more whether they still are.
        """
        worked, self._due = self._working() if self._due is None else self._due, None
        if self._every is None:
            working = max(worked, 1e-9)
            pace = working / max(next_event - self._last, 1)
            if self._following:  # for a few times, where events are still slow by the plan that was found
                self._turns += 1
                is_turn = found and pace > _SLOWER * self._pace and self._turns <= _PUZZLED
            else:  # where each check finds one, there is no reason to hurry
                self._turns = 0
                is_turn = found and (self._idle > 0 or self._is_called)
            self._following = _FOLLOWING if is_turn else max(0, self._following - 1)
            is_puzzled = not found and 0 < _SLOWER * self._pace < pace and self._puzzled < _PUZZLED
            self._puzzled = self._puzzled + 1 if is_puzzled else 0
            if not is_puzzled:
                self._idle = 0 if found else self._idle + 1
                if not (self._following and self._pace):  # until then it is what events took before the turn
                    self._pace = pace
            known = 0.7 if self._last else 0.8  # the first one also makes what the others use again
            self._cost = known * self._cost + (1 - known) * (seconds + _CUT_COST)
            wanted = self._cost / self._share * (next_event - self._last) / working
            self.events = int(min(max(wanted, _FIRST_CHECK), _MOST_EVENTS))
        self.postpone(next_event)
        self._before += worked
        self._last, self._since, self._worked = next_event, self._clock(), 0.0
        self._mark = (next_event, 0.0)
        self._alarm = -math.inf

    def postpone(self, next_event: int) -> None:
        """Let the next check be as many events away as checks are."""
        self.next = next_event + self.events

    def _working(self) -> float:
        return self._worked + self._clock() - self._since

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        state = {"next": self.next, "events": self.events, "last": self._last}
        state |= {"idle": self._idle, "puzzled": self._puzzled, "following": self._following, "turns": self._turns}
        return state | {"worked": self._working(), "before": self._before, "cost": self._cost, "pace": self._pace}

    def load(self, state: Mapping[str, Any], next_event: int) -> None:
        """Take up what `dump` gave; checks that are more frequent now come as soon."""
        self.events = self._every or state["events"]
        self.next = min(state["next"], next_event + self.events)
        self._last, self._worked, self._cost = state["last"], state["worked"], state["cost"]
        self._before = state.get("before", 0.0)
        self._idle, self._puzzled = state.get("idle", 0), state.get("puzzled", 0)
        self._following, self._turns = state.get("following", 0), state.get("turns", 0)
        self._pace, self._mark = state.get("pace", 0.0), (next_event, self._worked)
        self._since = self._clock()
        self._seen, self._alarm = (next_event, self._since), -math.inf
