"""Which plans are tried beside the one in use, and when: costs may be wrong, and then no statistics tell.

Plans that nothing speaks for are tried where events have become slow, after a plan has taken over until none like it is
quicker, and again after some time. What races have told is remembered; those that nothing came of may only take a small
share of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ensue.planning.alternatives import shape_of
from ensue.planning.decisions import Always, Reason
from ensue.planning.figures import Figures
from ensue.planning.objectives import Objective
from ensue.planning.plan import Plan, dump_plan, load_plan
from ensue.runtime.trying import Race
from ensue.runtime.verdicts import Verdicts

_SLOW = Always("events have become slow")
_UNTRIED = Always("plans like the one in use have not been tried yet")
_TRIED_AGAIN = Always("other plans were slower when they were tried some checks ago")
_FORMER = 3
"""How many plans that were in use are remembered."""
_WASTED, _WASTED_SHARE = 0.02, 0.005
"""Seconds that races may take of which nothing comes: so many, and a share of the engine's time; more if slow."""

_FIRST = 4.0
"""After how many seconds of work the first plan is tried beside others if nothing else calls for it."""


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
        return _TRIED_AGAIN if self._verdicts.is_due(shape_of(used), check) else None

    def misled(self, used: Plan, other: Plan, check: int) -> float:
        """How many times as long another plan takes as its share of the costs lets expect; 1 if nothing is known."""
        return self._verdicts.misled(shape_of(used), shape_of(other), check)

    def others(
        self, aim: Objective, figures: Sequence[Figures], used: Plan, base: Plan, check: int, most: int
    ) -> list[Plan]:
        """At most so many plans to try whatever they cost by statistics, but for those that were slower of late.

        First the ones in use before, then those that differ in one branch from `base`, which is tried too.
        """
        if not self._is_free:
            return []
        made = {}
        for k, one in enumerate(figures):
            for tree in map(aim.ready, aim.others(one, aim.bare(base.trees[k]))):
                plan = replace(base, trees=(*base.trees[:k], tree, *base.trees[k + 1 :]))
                made[shape_of(plan)] = plan
        cheapest = sorted(made.values(), key=partial(aim.rank, figures))
        mine = shape_of(used)
        found: dict[str, Plan] = {}
        for plan in (*reversed(self._former.values()), *cheapest):
            found.setdefault(shape_of(plan), plan)
        new = [
            plan
            for shape, plan in found.items()
            if shape not in (mine, shape_of(base)) and self._verdicts.is_open(mine, shape, check)
        ]
        if len(new) <= most:
            self._start = None
        return new[:most]

    def note(
        self, aim: Objective, figures: Sequence[Figures], plans: Sequence[Plan], race: Race, seconds: float, check: int
    ) -> None:
        """Remember what a race of those seconds has told of the plans, the one in use first."""
        used = plans[race.first]
        rank, times = aim.rank(figures, used), race.times[race.first]
        for plan, one in zip(plans, race.times, strict=True):
            if plan != used:
                expected = aim.rank(figures, plan) / rank if rank > 0 else 1.0  # 0: no event of it has come yet
                self._verdicts.add(shape_of(used), shape_of(plan), one / times, expected, check)
        if race.first == 0:
            self._wasted += seconds

    def note_former(self, plan: Plan) -> None:
        """A plan has been replaced: what is like the new one has not been tried."""
        shape = shape_of(plan)
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
        found._former = {shape_of(plan): plan for plan in map(load_plan, state["former"])}
        found._wasted, found._is_slow, found._start = state["wasted"], state["slow"], state["start"]
        return found
