"""Which plans are tried beside the one in use, and when: costs may be wrong, and then no statistics tell.

Plans that nothing speaks for are tried where events have become slow, after a plan has taken over until none like it is
quicker, and again after some time. What races have told is remembered; those that nothing came of may only take a small
share of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ensue.planning.alternatives import outline_of
from ensue.planning.decisions import Always, Reason
from ensue.planning.objectives import Objective, Prospect
from ensue.planning.plan import Plan, dump_plan, load_plan
from ensue.runtime.trying import Race
from ensue.runtime.verdicts import Verdicts

_SLOW = Always("events have become slow")
_UNTRIED = Always("plans like the one in use have not been tried yet")
_TRIED_AGAIN = Always("other plans were slower when they were tried some checks ago")
_FORMER, _RACED = 3, 3
"""How many plans that were in use are remembered, and how many are tried at once beside the one in use."""
_WASTED, _WASTED_SHARE = 0.02, 0.01
"""Seconds that races may take of which nothing comes: so many, and a share of the time in kernels; more if slow."""
_WORTH, _FORMER_WORTH, _MISSED = 1.25, 4.0, 0.8
"""How many times as much as others a plan may cost to be worth while trying; if it was in use before; and if there is
no time for it."""
_AHEAD, _ALIKE, _STRONGLY = 0.75, 1.05, 0.5
"""How many times as long as the plan in use one may take to be ahead in a race that ended too early, or to be as quick;
and how many times as much it may cost if statistics speak for it strongly."""
_FIRST = 0.2
"""After how many seconds of work the first plan is tried beside others if nothing else calls for it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What races have shown.

    `plan` is the one to use from now on, `ratio` how many times as long as the one in use until now it took; if that
    stays, both are of the best of the others. `planned` is the ratio of the plan that statistics speak for.
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
        self._wasted = 0.0  # seconds in races that nothing came of, since a plan took over
        self._is_slow = False  # events were at the last check
        self._is_free = False  # there is time for more than what statistics speak for
        self._start: float | None = _FIRST  # seconds of work before it explores by itself; None: it is done

    def look(self, used: Plan, check: int, slower: float, worked: float) -> Reason | None:
        """Why to try other plans at a check, if there is a reason: events are so many times `slower`, or it is time."""
        if slower and not self._is_slow:
            self._verdicts.forget()  # of another stream, as it were
        self._is_slow = slower > 0
        self._is_free = self._wasted <= (_WASTED + _WASTED_SHARE * worked) * max(1.0, slower)
        if not self._is_free:
            return None
        if self._is_slow:
            return _SLOW
        if self._start is not None and worked >= self._start:
            return _UNTRIED
        return _TRIED_AGAIN if self._verdicts.is_due(outline_of(used), check) else None

    @property
    def has_untried(self) -> bool:
        """Whether plans like the one in use are to be tried as soon as there is time."""
        return self._start is not None

    def misled(self, used: Plan, other: Plan, check: int) -> float:
        """How many times as long another plan takes as its share of the costs lets expect; 1 if nothing is known."""
        return self._verdicts.misled(outline_of(used), outline_of(other), check)

    def explore(
        self,
        aim: Objective,
        prospect: Prospect,
        used: Plan,
        new: Plan | None,
        check: int,
        race: Callable[[Sequence[Plan]], Race | None],
        *,
        is_asked: bool,
    ) -> Found | None:
        """Let plans race: the one in use, a new one that statistics speak for, and others, if there is time for them.

        Without a new plan others are tried if that `is_asked`. One that the planner has missed, though statistics speak
        for it, is tried in any case. None if there is nothing to try, or that tells nothing.
        """
        started = time.thread_time()
        rank = prospect.rank
        rivals = [] if new is None else [new]
        about = aim, prospect, used, new or used, check
        if self._is_free and (rivals or is_asked):
            rivals += self._others(*about, _RACED - len(rivals))
        else:
            rivals += self._others(*about, 1, worth=_MISSED)
        plans = [used, *rivals]
        told = race(plans) if rivals else None
        if told is None:
            return None
        first = told.first
        if not first:
            first = _trust(rank, plans, told, 0 if new is None else 1)
        self._note(rank, plans, told, first, check)
        if not first:
            self._wasted += time.thread_time() - started
        shown = first or told.best_other
        return Found(plans[shown], first > 0, told.ratio(shown), None if new is None else told.ratio(1))

    def _others(
        self,
        aim: Objective,
        prospect: Prospect,
        used: Plan,
        base: Plan,
        check: int,
        most: int,
        *,
        worth: float | None = None,
    ) -> list[Plan]:
        """At most so many plans to try beside others, but for those that were slower of late.

        First the ones in use before, then those that differ in one branch from `base`, which is tried too, if they cost
        little more by statistics; if events are slow, which nothing may explain, whatever they cost. If it is said how
        many times as much they may cost to be `worth` it, only such plans.
        """
        made = {}
        rank = prospect.rank
        for k, (one, trees) in enumerate(zip(prospect.figures, prospect.trees, strict=True)):
            near = map(aim.ready, aim.near(one, aim.bare(base.trees[k])))
            for tree in (*trees, *near):
                plan = replace(base, trees=(*base.trees[:k], tree, *base.trees[k + 1 :]))
                made[outline_of(plan)] = plan
        cheapest = sorted(made.values(), key=rank)
        mine = outline_of(used)
        least = min(rank(used), rank(base))
        former: list[Plan] = []
        if worth is None:
            enough = (math.inf if self._is_slow else _FORMER_WORTH) * least
            former = [plan for plan in reversed(self._former.values()) if rank(plan) <= enough]
        enough = (worth or (math.inf if self._is_slow else _WORTH)) * least
        found: dict[str, Plan] = {}
        for plan in (*former, *(plan for plan in cheapest if rank(plan) <= enough)):
            found.setdefault(outline_of(plan), plan)
        new = [
            plan
            for shape, plan in found.items()
            if shape not in (mine, outline_of(base)) and self._verdicts.is_open(mine, shape, check)
        ]
        if worth is None:
            self._start = None if len(new) <= most else 0.0  # as soon as there is time
        return new[:most]

    def _note(self, rank: Callable[[Plan], float], plans: Sequence[Plan], race: Race, first: int, check: int) -> None:
        """Remember what a race has told of plans beside the one that is in use from now on."""
        used, times = plans[first], race.times[first]
        own = rank(used)
        for plan, one in zip(plans, race.times, strict=True):
            if plan != used:
                expected = rank(plan) / own if own > 0 else 1.0  # 0: no event of it has come yet
                self._verdicts.add(outline_of(used), outline_of(plan), one / times, expected, check)

    def note_former(self, plan: Plan) -> None:
        """A plan has been replaced: what is like the new one has not been tried."""
        shape = outline_of(plan)
        self._former.pop(shape, None)
        self._former[shape] = plan
        while len(self._former) > _FORMER:
            del self._former[next(iter(self._former))]
        self._wasted, self._start = 0.0, 0.0

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> dict[str, Any]:
        """As JSON-able values, for `load`."""
        return {
            "verdicts": self._verdicts.dump(),
            "former": [dump_plan(plan) for plan in self._former.values()],
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
        found._wasted, found._is_slow, found._start = state["wasted"], state["slow"], state["start"]
        return found


def _trust(rank: Callable[[Plan], float], plans: Sequence[Plan], told: Race, new: int) -> int:
    """The plan to take after a race that none has won, 0 if that in use, the first one, stays.

    If it ended before it was clear, that is the quickest of those that statistics speak for, as for number `new`, if
    nothing speaks against it; or one that was ahead, if statistics do not speak against that. If all were alike, it is
    one that statistics speak for strongly: what makes the difference may not have come in the events of the race.
    """
    own = rank(plans[0])

    def allowed(number: int) -> float:
        cost = rank(plans[number])
        if not told.is_early:
            return _ALIKE if cost <= _STRONGLY * own else 0.0
        if number == new or cost <= _MISSED * own:
            return 1.0
        return _AHEAD if cost <= own else 0.0

    trusted = [k for k in range(1, len(plans)) if told.ratio(k) <= allowed(k)]
    return min(trusted, key=told.times.__getitem__, default=0)
