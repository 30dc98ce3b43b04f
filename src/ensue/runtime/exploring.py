"""Which plans are tried beside the one in use, and when: costs may be wrong, and then no statistics tell.

Plans that nothing speaks for are tried where events have become slow, after a plan has taken over until none like it is
quicker, and again after some time; and one that was in use if events took less time then. What races have told is
remembered; those that nothing came of may only take a small share of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from ensue.planning.alternatives import outline_of
from ensue.planning.decisions import Always, Reason
from ensue.planning.objectives import Objective, Prospect
from ensue.planning.plan import Plan, dump_plan, load_plan
from ensue.runtime.cadence import Unevenness
from ensue.runtime.doubts import Doubts, Guess
from ensue.runtime.trying import TRIED, Race
from ensue.runtime.verdicts import Verdicts

_SLOW = Always("events have become slow")
_UNTRIED = Always("plans like the one in use have not been tried yet")
_TRIED_AGAIN = Always("other plans were slower when they were tried some checks ago")
_QUICKER = Always("events took less time with a plan that was in use before")
_FORMER, _RACED = 3, 3
"""How many plans that were in use are remembered, and how many are tried at once beside the one in use."""
_WASTED, _WASTED_SHARE = 0.02, 0.01
"""Seconds that races may take of which nothing comes: so many, and a share of the time in kernels; more if slow."""
_MISSED = 0.9
"""How many times as much as others a plan may cost to be worth while trying if there is no time for it, or races tell
little."""
_SAVED = 0.03
"""The share of the time that a plan has to save, by what costs and a race say."""
_FIRST = 0.2
"""After how many seconds of work the first plan is tried beside others if nothing else calls for it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What races have shown.

    `plan` is the one to use from now on, `ratio` how many times as long as the one in use until now it took; if that
    stays, both are of the best of the others. `planned` is how many times as long the plan that statistics speak for
    takes, by these and the race.
    """

    plan: Plan
    is_quicker: bool
    ratio: float
    planned: float | None


class Explorer:
    """What is known of plans beside their costs, and what is to be tried next."""

    def __init__(self) -> None:
        self._verdicts = Verdicts()
        self._former: dict[str, Plan] = {}  # that were in use, the last one last
        self._paces: dict[str, Unevenness] = {}  # what events took with these
        self._wasted = 0.0  # seconds in races that nothing came of, since a plan took over
        self.races = 0
        self._is_slow = False  # events were at the last check
        self._is_free = False  # there is time for more than what statistics speak for
        self._start: float | None = _FIRST  # seconds of work before it explores by itself; None: it is done

    def look(self, used: Plan, check: int, slower: float, worked: float, doubts: Doubts) -> Reason | None:
        """Why to try other plans at a check, if there is a reason: events are so many times `slower`, or it is time.

        That they are slow may be news of the stream, or a burst as there were others.
        """
        if slower and not self._is_slow and doubts.is_news(slower):
            self._verdicts.forget()  # of another stream, as it were
        self._is_slow = slower > 0
        found = self.look_between(used, check, worked, doubts, slower=slower)
        return _SLOW if self._is_slow and self._is_free else found

    def look_between(
        self, used: Plan, check: int, worked: float, doubts: Doubts, *, slower: float = 0.0
    ) -> Reason | None:
        """Why to try other plans, whether events are slow or not: between two checks nothing new is known of that."""
        self._is_free = self._wasted <= (_WASTED + _WASTED_SHARE * worked) * max(1.0, slower)
        if not self._is_free:
            return None
        if self._quicker(used, doubts, check) is not None:
            return _QUICKER
        if self._start is not None and worked >= self._start:
            return _UNTRIED
        return _TRIED_AGAIN if self._verdicts.is_due(outline_of(used), check) else None

    @property
    def has_untried(self) -> bool:
        """Whether plans like the one in use are to be tried as soon as there is time."""
        return self._start is not None

    def misled(self, used: Plan, other: Plan, check: int, *, lasts: bool = False) -> float:
        """How many times as long another plan takes as its share of the costs lets expect; 1 if nothing is known.

        Whether that `lasts`, or is to be asked again some checks after a race.
        """
        return self._verdicts.misled(outline_of(used), outline_of(other), check, lasts=lasts)

    def explore(
        self,
        aim: Objective,
        prospect: Prospect,
        used: Plan,
        new: Plan | None,
        check: int,
        race: Callable[[Sequence[Plan]], Race | None],
        doubts: Doubts,
        *,
        is_asked: bool,
    ) -> Found | None:
        """Let plans race: the one in use, a new one that statistics speak for, and others, if there is time for them.

        Without a new plan others are tried if that `is_asked`. One that the planner has missed, though statistics speak
        for it, is tried in any case. None if there is nothing to try, or that tells nothing.
        """
        started = time.thread_time()
        rivals = [] if new is None else [new]
        quicker = self._quicker(used, doubts, check)
        if quicker is not None and quicker != new:
            rivals.append(quicker)
        about = aim, prospect, used, new or used, check, rivals
        if self._is_free and (rivals or is_asked) and doubts.tells(TRIED):
            rivals += self._others(*about, _RACED - len(rivals), doubts.plausible)
        else:
            rivals += self._others(*about, 1, _MISSED)
        plans = [used, *rivals]
        if not rivals:
            return None
        self.races += 1
        told = race(plans)
        if told is None:
            return None
        choice = choose_plan(prospect, plans, told, doubts, [None, *(self._took(plan, doubts) for plan in rivals)])
        self._note(plans, choice, check)
        if not choice.first:
            self._wasted += time.thread_time() - started
        shown = choice.first or told.best_other
        return Found(plans[shown], choice.first > 0, told.ratio(shown), None if new is None else choice.taken[1])

    def _took(self, plan: Plan, doubts: Doubts) -> Guess | None:
        """How many times as long a plan took as the one in use, if it was in use before."""
        pace = self._paces.get(outline_of(plan))
        return None if pace is None else doubts.of_former(pace)

    def _quicker(self, used: Plan, doubts: Doubts, check: int) -> Plan | None:
        """The former plan that surely took less time, the least of all, but for those that have just lost a race."""
        mine = outline_of(used)
        took = {
            shape: self._took(plan, doubts)
            for shape, plan in self._former.items()
            if shape != mine and self._verdicts.is_open(mine, shape, check)
        }
        surely = {shape: one.value for shape, one in took.items() if one is not None and one.is_surely_less}
        return self._former[min(surely, key=surely.__getitem__)] if surely else None

    def _others(
        self,
        aim: Objective,
        prospect: Prospect,
        used: Plan,
        base: Plan,
        check: int,
        rivals: Sequence[Plan],
        most: int,
        worth: float,
    ) -> list[Plan]:
        """At most so many plans to try beside rivals, but for those that were slower of late, the cheapest first.

        These are the ones in use before, and those that differ in one branch from `base`, which is tried too; if they
        cost no more than so many times as much as both.
        """
        made = {outline_of(plan): plan for plan in self._former.values()}
        rank = prospect.rank
        for k, (one, trees) in enumerate(zip(prospect.figures, prospect.trees, strict=True)):
            near = map(aim.ready, aim.near(one, aim.bare(base.trees[k])))
            for tree in (*trees, *near):
                plan = base.with_tree(k, tree)
                made.setdefault(outline_of(plan), plan)
        mine = outline_of(used)
        enough = worth * min(rank(used), rank(base))
        new = [
            plan
            for shape, plan in made.items()
            if shape not in (mine, outline_of(base), *map(outline_of, rivals))
            and rank(plan) <= enough
            and self._verdicts.is_open(mine, shape, check)
        ]
        if worth > 1.0:
            self._start = None if len(new) <= most else 0.0  # as soon as there is time
            self._verdicts.put_off(mine, {outline_of(plan) for plan in (base, *rivals, *new)}, check)
        return sorted(new, key=rank)[:most]

    def _note(self, plans: Sequence[Plan], choice: Choice, check: int) -> None:
        """Remember what was expected and is thought of plans beside the one that is in use from now on."""
        first, used = choice.first, outline_of(plans[choice.first])
        for k, plan in enumerate(plans):
            if k != first:
                taken, expected = (_share(side[k], side[first]) for side in (choice.taken, choice.expected))
                self._verdicts.add(used, outline_of(plan), taken, expected, check)

    def note_refused(self, used: Plan, other: Plan, check: int) -> None:
        """A plan could not take over: going through the last window with it took too long, or too much room."""
        self._verdicts.add(outline_of(used), outline_of(other), math.inf, 1.0, check)

    def note_former(self, plan: Plan, pace: Unevenness | None) -> None:
        """A plan has been replaced, and what events took with it: what is like the new one has not been tried."""
        shape = outline_of(plan)
        for known in (self._former, self._paces):
            known.pop(shape, None)
        self._former[shape] = plan
        if pace is not None:
            self._paces[shape] = pace
        while len(self._former) > _FORMER:
            first = next(iter(self._former))
            del self._former[first]
            self._paces.pop(first, None)
        self._wasted, self._start = 0.0, 0.0

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> dict[str, Any]:
        """As JSON-able values, for `load`."""
        return {
            "verdicts": self._verdicts.dump(),
            "former": [dump_plan(plan) for plan in self._former.values()],
            "paces": {shape: list(astuple(pace)) for shape, pace in self._paces.items()},
            "wasted": self._wasted,
            "slow": self._is_slow,
            "start": self._start,
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Explorer:
        """What `dump` gave."""
        found = cls()
        found._verdicts = Verdicts(state["verdicts"])
        found._former = {outline_of(plan): plan for plan in map(load_plan, state["former"])}
        found._paces = {shape: Unevenness(*pace) for shape, pace in state.get("paces", {}).items()}
        found._wasted, found._is_slow, found._start = state["wasted"], state["slow"], state["start"]
        return found


class Choice(NamedTuple):
    """How many times as long as the plan in use plans take, as costs let expect and as is thought after a race.

    `first` is the number of the one to use from now on, 0 if that in use stays.
    """

    expected: Sequence[float]
    taken: Sequence[float]
    first: int


def choose_plan(
    prospect: Prospect, plans: Sequence[Plan], race: Race, doubts: Doubts, former: Sequence[Guess | None] = ()
) -> Choice:
    """Which of some plans to use, of which the first is in use: by what they cost, and what they took in a race.

    And by what `former` plans took when they were in use, as many times as long. Where one would break a limit, only
    the race counts.
    """
    known = former or [None for _ in plans]
    used = prospect.rank(plans[0])
    expected = [_share(prospect.rank(plan), used) for plan in plans]
    taken = [
        race.ratio(k) if race.is_out(0) or race.is_out(k) else doubts.weigh(one, race.ratio(k), race, known[k])
        for k, one in enumerate(expected)
    ]
    first = taken.index(min(taken))
    return Choice(expected, taken, first if taken[first] <= 1.0 - _SAVED else 0)


def _share(one: float, other: float) -> float:
    """How many times as much one is as another; 1 if that is nothing: no event of it has come yet."""
    return one / other if other > 0 else 1.0
