"""When plans are checked: after so many events, or as often as a small share of the time allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

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
_FOLLOWING, _SOON = 1, 4.0
"""How many checks after one that found another plan come sooner, and how many times the budget they may be: that
plan was made when little was known of what has changed."""
_TRYING, _RARER, _RAREST = 6.0, 2.0, 12
"""How many times as long as it takes to try plans they are at work before the next ones are tried; and how many times
as long as before after each time that nothing came of it, up to so many."""
_FIRST_TRY = 1e-2
"""What it is taken to cost in seconds to try plans before some have been tried."""
_SLOWER = 1.5
"""How many times as long as before events may take; what they take beyond that adds up until it calls for a check."""
_CALLING, _UNSEEN = 2.5, 3.0
"""How many times a check's cost that may be where the stream is seen to have changed; and how many times as much where
it is not."""
_FREELY, _MOST_CALLS = 3.0, 8.0
"""It is twice as much for each check that was called so of late, but for the first ones (twice as many where the stream
is seen to have changed), and at most for so many. After the first ones it is accepted that events take longer."""
_NEARLY = 0.9
"""The share of it from which on events count as slow at a check that comes anyway."""
_GLANCE = 1e-2
"""Seconds of work between two glances at a batch."""
_QUIET = 4e-3
"""Seconds of work in which nothing is asked if batches are short: what could be due then may as well come after it."""
_SAVED, _OWED, _SAVING = 4.0, -1.0, 1.5
"""How many checks may be saved up for when the stream is seen to have changed, how many may be owed by others that came
before their time, and from how many times the budget: where it changes all the time, plans cannot follow for nothing.
"""
_USUAL_STRETCHES, _USUAL_SQUARES = 4.0, 0.25
"""Before it is known how uneven events are, so many stretches count of which times differ so much: the square of a
standard deviation, by that of the mean."""


@dataclass(slots=True)
class Unevenness:
    """How much stretches of events differ in what an event takes: sums over those since a plan took over.

    Of the events, the seconds that they took, and the squares of these by the events of each stretch. `stream` is how
    many times the stream had been seen to change before.
    """

    stretches: int = 0
    events: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    stream: int = 0

    def add(self, events: int, seconds: float) -> None:
        """Count a stretch of events."""
        self.stretches += 1
        self.events += events
        self.seconds += seconds
        self.squares += seconds * seconds / events

    def over(self, events: float) -> float:
        """The variance of the logarithm of what an event takes from one stretch to another, times a stretch's events.

        What comes in a burst comes within a window, of so many events, so that shorter stretches tell no more. Of few
        of them not much is known.
        """
        number, squares = float(self.stretches), 0.0
        if self.stretches and self.seconds > 0:
            squares = max(0.0, self.squares * self.events / self.seconds**2 - 1.0)
        squares = (number * squares + _USUAL_STRETCHES * _USUAL_SQUARES) / (number + _USUAL_STRETCHES)
        return math.log1p(squares) * max(events, self.events / max(number, 1.0))


class Cadence:
    """When the next check is due: after `every` so many events, or when its cost is a share `budget` of the time since.

    While checks find nothing they become rarer, down to a quarter of the budget. Between two of them plans may be tried
    that there was no time for, at a distance that grows while nothing comes of it.

    The number of events between checks is found anew after each of them, from what an event and a check have taken. A
    plan that no longer fits shows: what events take longer than before is added up, and falls again while they do not;
    where it exceeds what a check costs, some times over, the check comes at once. So the longer a plan has been slow by
    much, the surer it is given up, and little is lost until then. The oftener that happens the more must be lost before
    it does again, and what events take then is what they are expected to: they may be slow whatever the plan, as in
    bursts of matches. Checks that come because the stream is seen to have changed have a budget of their own.

    Time is what the `clock` says, which should only run while plans are at work: what others do neither hurries nor
    delays a check, and where plans take little time, little can be saved. (Where events come one by one, to look at a
    clock would cost more than many an event, so that what the caller does between them counts as well.) All is part of
    the state: an engine that is stored and restored all the time, as on Spark, counts its own time.
    """

    def __init__(self, every: int | None, budget: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._every = every
        self._budget = budget
        self._clock = clock
        self.events = every or _FIRST_CHECK  # between checks
        self.next = self.events  # the number of the event before which the next one comes
        self._last = 0
        self._is_checked = False  # there has been one
        self._since = clock()
        self._worked = 0.0  # seconds since the last check, before that
        self._before = 0.0  # seconds up to the last check
        self._due: float | None = None  # seconds since then when it was last asked whether one is due
        self._cost = _FIRST_COST
        self._idle = 0  # checks that found nothing, since the last that did
        self._following = 1 + _FOLLOWING  # checks that are to come soon: at first, too, little is known
        self._try_cost = _FIRST_TRY
        self._tries = 0  # times in a row that plans were tried and nothing came of it
        self._try_wait = math.inf  # seconds since the last check after which plans are tried
        self._wanted: int | None = None  # the number of the event before which one is to come in any case
        self._settles = False  # the plan, for little was known at the last check
        self._is_other = False  # the stream was seen to have changed since the last check
        self._is_called = False  # the last check came before its time
        self._calls = 0.0  # how many did of late: each that comes in its time lets half of them be forgotten
        self._pace = 0.0  # seconds an event between the last two checks; 0: not known
        self._saved = _SAVED  # checks that may come as soon as the stream is seen to have changed
        self._excess = 0.0  # seconds that events have lately taken longer than they may
        self._mark = (0, 0.0)  # since when: an event's number, and what had been worked then
        self._seen = (0, self._since)  # an event's number, and the clock then
        self._quiet = (0, 0.0)  # up to which event nothing is asked, and until what the clock shows
        self.unevenness = Unevenness()
        self._glance = -math.inf  # what the clock shows when a batch is to be glanced at again
        self.is_glance = False  # the batch that was asked for last is one to be glanced at
        self.is_try = False  # what is due is not a check, but only to try plans
        self._weigh()

    def _weigh(self) -> None:
        """Work out what a check may wait for, which is asked at each batch and is the same from one check to the next.

        Checks may take all of the budget, and less the longer they find nothing. Events may take some times a check's
        cost longer than they may: where the stream is seen to have changed, and where it is not.
        """
        share = self._budget * (_SOON if self._following else 1.0 / min(1.0 + _IDLE * self._idle, _LEAST))
        self._wait = self._cost / share  # seconds of work from one check to the next
        freely = 2.0 * _FREELY, _FREELY
        calls = [min(max(self._calls - free, 0.0), _MOST_CALLS) for free in freely]
        self._limit = _CALLING * self._cost * math.exp2(calls[0])
        self._unseen_limit = _CALLING * _UNSEEN * self._cost * math.exp2(calls[1])
        lacking = (1.0 - self._saved) * self._cost / (_SAVING * self._budget)
        self._unwatched = max(self._limit, lacking)  # seconds of work without a glance

    def turn(self) -> None:
        """The stream is seen to have changed: if events are slow, that is why."""
        self._is_other = True
        self.unevenness = Unevenness(stream=self.unevenness.stream + 1)

    def replaced(self) -> None:
        """A plan has taken over: what its events take is counted anew."""
        self.unevenness = Unevenness(stream=self.unevenness.stream)

    def want(self, number: int) -> None:
        """Let a check come before the event of that number: then enough will be known of what has changed."""
        if self._every is None:
            self._wanted = number if self._wanted is None else min(self._wanted, number)
            self.next = min(self.next, self._wanted)
            self._quiet = 0, 0.0

    def is_wanted(self, next_event: int) -> bool:
        """Whether that is now."""
        return self._wanted is not None and next_event >= self._wanted

    def is_settling(self, next_event: int) -> bool:
        """Whether the check that is due now knows more than the one before it: that was called, or the first one."""
        return self._settles and (self._wanted is None or self.is_wanted(next_event))

    @property
    def worked(self) -> float:
        """Seconds that plans have been at work until now."""
        return self._before + self._working()

    def is_quiet(self, stop: int) -> bool:
        """Whether nothing has to be asked about a batch of events up to before `stop`, as of most that are short."""
        number, until = self._quiet
        return stop <= number and self._clock() < until

    def is_far(self, first: int, stop: int, reach: int) -> bool:
        """Whether a batch of events up to before `stop` need not be held for a check, nor cut.

        So it is if that comes more than `reach` later, by what an event took when it was set. Where events have become
        slow, it is not. To be asked before each batch that is not quiet; if it is far, others may be quiet for a while.
        Now and then a batch `is_glance`: if one sees by it that the stream has changed, a check may come at once.
        """
        if self._every is not None:
            self._quiet = self.next - reach, math.inf
            return stop + reach <= self.next
        worked = self._follow(first)
        self._quiet = 0, 0.0
        self.is_glance = False
        if stop + reach > self.next or stop - first > _LONGEST:
            return False
        if not self._is_other:
            now = self._seen[1]
            if (now >= self._glance and worked >= self._unwatched) or self._excess > self._limit:
                self.is_glance = True
                self._glance = now + _GLANCE
        is_far = worked < min(self._wait, self._try_wait) and not self._is_slow
        if is_far:
            self._quiet = min(self.next - reach, first + _LONGEST), self._seen[1] + _QUIET
        return is_far

    @property
    def _is_slow(self) -> bool:
        """Whether they have taken so much longer that a check is called for."""
        return self._excess > (self._limit if self._is_other else self._unseen_limit)

    def _follow(self, number: int) -> float:
        """Add up what events before one have taken longer than they may; what was worked since the last check."""
        (seen, before), now = self._seen, self._clock()
        worked = self._worked + now - self._since
        self._seen = (number, now)
        if number > seen:
            self.unevenness.add(number - seen, now - before)
        if self._pace:
            if worked > self._limit and worked < self._pace * (number - self._last):
                self._pace = worked / (number - self._last)  # another plan, or another stream, is quicker
            excess = self._excess + now - before - _SLOWER * self._pace * (number - seen)
            if excess > 0.0:
                self._excess = excess
            else:
                self._excess, self._mark = 0.0, (number, worked)
        return worked

    def lately(self, next_event: int) -> float:
        """Seconds that an event took since they became slow, or since the last check if they are not."""
        number, worked = self._mark if self._excess else (self._last, 0.0)
        return max(0.0, self._working() - worked) / max(next_event - number, 1)

    @property
    def since_check(self) -> float:
        """Seconds that plans have been at work since the last check."""
        return self._working()

    def slower(self, next_event: int) -> float:
        """How many times as long the last events took as those before the last check, if that is much; else 0."""
        if self._every is not None or self._excess < _NEARLY * self._limit:
            return 0.0
        return self.lately(next_event) / self._pace

    def patience(self, events: int) -> float | None:
        """How many seconds some events may take before it is looked whether the rest has to wait; None: for ever.

        For a plan may no longer fit from one event to the next, and a batch may be long.
        """
        if self._every is not None or not self._pace:
            return None
        is_seen = self._is_other or self._excess <= self._limit
        limit = self._limit if is_seen else self._unseen_limit
        return _SLOWER * self._pace * events + max(limit - self._excess, 0.0)

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

        If it `is_urgent`, for events took longer than they may, few of them are enough. What is due may also be only to
        try plans (`is_try`).
        """
        if self._every is not None:
            return next_event >= self.next
        if next_event - self._last < (_URGENT_CHECK if is_urgent else _FIRST_CHECK):
            return False
        self._due = worked = self._follow(next_event)
        self._is_called = self._is_slow
        is_check = worked >= self._wait or self._is_called or self.is_wanted(next_event)
        if is_check or worked >= self._try_wait:
            self.is_try = not is_check
            return True
        self._plan_next(next_event, worked)
        return False

    def tried(self, next_event: int, seconds: float, *, found: bool, more: bool) -> None:
        """Note that plans have been tried between two checks, what that took, and whether there are more to try."""
        worked, self._due = self._working() if self._due is None else self._due, None
        if found:
            self.replaced()
        self._count_try(seconds, worked, found=found, more=more)
        self._plan_next(next_event, worked)

    def _count_try(self, seconds: float, worked: float, *, found: bool, more: bool) -> None:
        if seconds:
            self._try_cost += 0.5 * (seconds - self._try_cost)
            self._tries = 0 if found else self._tries + 1
        self._try_wait = worked + _TRYING * self._try_cost * _RARER ** min(self._tries, _RAREST) if more else math.inf

    def _plan_next(self, next_event: int, worked: float) -> None:
        """Say how many events come before what is due next, by what they have taken since the last check."""
        lacking = min(self._wait, self._try_wait) - worked
        came = next_event - self._last
        self.next = next_event + max(_FIRST_CHECK, int(min(came * lacking / max(worked, 1e-9), _MOST_EVENTS)))
        self.next = self.next if self._wanted is None else min(self.next, self._wanted)
        self._quiet = 0, 0.0

    def checked(
        self,
        next_event: int,
        seconds: float,
        *,
        found: bool,
        enough: int = 0,
        trying: float = 0.0,
        more: bool = False,
    ) -> None:
        """Note that a check has been made, what it took, and whether another plan came of it.

        If it was called, there is another one after `enough` events. If plans were tried, that took `trying` seconds
        beside, and there may be `more` to try before the next check.

        Where events have become slow, what they took before is what they are measured by for some checks more: another
        plan may still be made when more is known.
        """
        worked, self._due = self._working() if self._due is None else self._due, None
        if found:
            self.replaced()
        if self._every is None:
            working = max(worked, 1e-9)
            pace = working / max(next_event - self._last, 1)
            is_wanted = self.is_wanted(next_event)
            if self._is_called and self._is_other:
                self._calls = 1.0  # what was slow whatever the plan was another stream
            elif self._is_called or not is_wanted:
                self._calls = self._calls + 1.0 if self._is_called else self._calls / 2.0
            is_unsettled = self._wanted is not None and not is_wanted  # what would tell enough has not come yet
            is_turn = self._is_called and (is_unsettled or self._calls <= _FREELY + 1.0)
            is_news = is_turn or is_wanted
            if not (is_turn and is_unsettled):
                self._wanted = next_event + enough if is_turn and enough else None
            self._settles = self._wanted is not None or not self._is_checked
            if found and (is_news or (self._idle > 0 and not self._following)):
                self._following = _FOLLOWING
            else:  # also where each check finds another plan: there is no reason to hurry
                self._following = max(0, self._following - 1)
            self._idle = 0 if found else self._idle + 1
            if not self._pace or not (is_turn or self._following):
                self._pace = pace
            known = 0.7 if self._is_checked else 0.8  # the first one also makes what the others use again
            self._cost = known * self._cost + (1 - known) * (seconds + _CUT_COST)
            saved = self._saved + (_SAVING * self._budget * worked - seconds) / self._cost
            self._saved = min(max(saved, _OWED), _SAVED)
            self._weigh()
            self._count_try(trying, 0.0, found=found, more=more)
            wanted = min(self._wait, self._try_wait) * (next_event - self._last) / working
            self.events = int(min(max(wanted, _FIRST_CHECK), _MOST_EVENTS))
        self.postpone(next_event)
        if self._wanted is not None:
            self.next = min(self.next, self._wanted)
        self._before += worked
        self._is_checked = True
        self._last, self._since, self._worked = next_event, self._clock(), 0.0
        self._excess, self._mark, self._is_other = 0.0, (next_event, 0.0), False
        self._seen = (next_event, self._since)

    def begin(self, next_event: int) -> None:
        """Nothing is known of the events before that number: another engine took them in."""
        self._last, self._seen, self._mark = next_event, (next_event, self._clock()), (next_event, 0.0)
        self.postpone(next_event)

    def postpone(self, next_event: int) -> None:
        """Let the next check be as many events away as checks are."""
        self.next = next_event + self.events
        self._quiet = 0, 0.0

    def _working(self) -> float:
        return self._worked + self._clock() - self._since

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        state: dict[str, Any] = {"next": self.next, "events": self.events, "last": self._last}
        state |= {"wanted": self._wanted, "settles": self._settles}
        state |= {"excess": self._excess, "mark": self._mark, "other": self._is_other, "checked": self._is_checked}
        state |= {"seen": [self._seen[0], self._worked + self._seen[1] - self._since]}
        state |= {"saved": self._saved, "idle": self._idle, "following": self._following, "calls": self._calls}
        state |= {"unevenness": list(astuple(self.unevenness))}
        trying = None if self._try_wait == math.inf else self._try_wait
        state |= {"trying": trying, "tries": self._tries, "try_cost": self._try_cost}
        return state | {"worked": self._working(), "before": self._before, "cost": self._cost, "pace": self._pace}

    def load(self, state: Mapping[str, Any], next_event: int) -> None:
        """Take up what `dump` gave; checks that are more frequent now come as soon."""
        self.events = self._every or state["events"]
        self.next = min(state["next"], next_event + self.events)
        self._quiet = 0, 0.0
        self._last, self._worked, self._cost = state["last"], state["worked"], state["cost"]
        self._before = state.get("before", 0.0)
        self._idle, self._following = state.get("idle", 0), state.get("following", 0)
        self._calls, self._pace, self._wanted = state.get("calls", 0.0), state.get("pace", 0.0), state.get("wanted")
        self._settles, self._saved = state.get("settles", self._wanted is not None), state.get("saved", _SAVED)
        waiting, self._tries = state.get("trying"), state.get("tries", 0)
        self._try_wait, self._try_cost = math.inf if waiting is None else waiting, state.get("try_cost", _FIRST_TRY)
        self.unevenness = Unevenness(*state.get("unevenness", ()))
        self._since = self._clock()
        self._excess, self._is_other = state.get("excess", 0.0), state.get("other", False)
        number, worked = state.get("mark", (next_event, self._worked))
        seen, then = state.get("seen", (next_event, self._worked))
        self._mark, self._seen = (number, worked), (seen, self._since - (self._worked - then))
        self._is_checked = state.get("checked", self._last > 0)
        self._weigh()
