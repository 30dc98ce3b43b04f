"""When to plan anew: the decision functions D of Kolchinsky and Schuster, sections 2.3 and 3.

A decision is a value. `wants` asks it whether the current figures call for planning; after a planner has run, `armed`
gives the decision that knows the new plan; after a replacement, `after` the one that has learned what it gained. Each
can be saved and loaded. Before the first planning all but `Static` want one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from ensue.errors import PlanError, StateError
from ensue.planning.comparisons import Planned, Side, TreeCost
from ensue.planning.cost import Costs
from ensue.planning.distances import ConstantDistance, Distance, dump_distance, load_distance
from ensue.planning.figures import Figures
from ensue.planning.invariants import Invariants, Selection, Sides, Violation, Watch, watch
from ensue.planning.plan import Plan, Tree


@dataclass(frozen=True, slots=True)
class Always:
    """No reason but that planning was asked for."""

    text: str


@dataclass(frozen=True, slots=True)
class Deviation:
    """A statistic that has moved away from its value at the last planning."""

    statistic: str
    planned: float
    value: float
    threshold: float

    @property
    def text(self) -> str:
        """What moved, in words."""
        moved = f"{self.statistic} moved from {self.planned:.6g} to {self.value:.6g}"
        return f"{moved}, by {self.threshold:.3g} of it or more"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A plan that did not save enough to take over when it was made, and does now: its cost is right, left that in use.

    No decision tells that: what it watches is whether the planner would make that plan again.
    """

    plan: Plan
    left: float
    right: float

    @property
    def text(self) -> str:
        """Which plan, and what it saves."""
        saved = 1.0 - self.right / self.left if self.right < self.left else 0.0
        told = f"saves {saved:.0%} of the cost by now" if saved else "costs no more and is ready to take over"
        return f"{self.plan}, which was passed over before, {told}"


Reason: TypeAlias = Violation | Deviation | Always | PassedOver
"""Why a new plan is wanted; each has a `text`."""

NOT_PLANNED = Always("no plan has been made from statistics yet")


class Decision(Protocol):
    """Whether the statistics call for planning anew."""

    def wants(self, figures: Figures) -> Reason | None:
        """The reason to plan anew under the current figures, if there is one."""
        ...

    def armed(self, figures: Figures, planned: Planned) -> Decision:
        """The decision once a plan was made from those figures."""
        ...

    def after(self, reason: Reason, gain: float) -> Decision:
        """The decision once a plan was made for that reason; `gain` is what `gain_of` says of it."""
        ...

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold, for `load_decision`."""
        ...


@dataclass(frozen=True, slots=True)
class Static:
    """Never plans anew."""

    def wants(self, figures: Figures) -> Reason | None:
        """Nothing."""
        return None

    def armed(self, figures: Figures, planned: Planned) -> Static:
        """The same."""
        return self

    def after(self, reason: Reason, gain: float) -> Static:
        """The same."""
        return self

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {"decision": "static"}


@dataclass(frozen=True, slots=True)
class Unconditional:
    """Plans anew whenever it is asked."""

    def wants(self, figures: Figures) -> Reason | None:
        """Always."""
        return Always("plans anew at each check")

    def armed(self, figures: Figures, planned: Planned) -> Unconditional:
        """The same."""
        return self

    def after(self, reason: Reason, gain: float) -> Unconditional:
        """The same."""
        return self

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {"decision": "unconditional"}


@dataclass(frozen=True, slots=True)
class Threshold:
    """Plans anew when a statistic has moved by a share `t` or more of its value at the last planning.

    One that was 0 then counts as moved as soon as it is anything else. What is known of conditions together, and of
    what they imply, follows from the same samples as their selectivities, and is not looked at for itself.
    """

    t: float
    planned: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.t) and self.t > 0):
            raise PlanError(f"a threshold of {self.t} says nothing: it has to be a number above 0")

    def wants(self, figures: Figures) -> Reason | None:
        """The first statistic that has moved so far."""
        if self.planned is None:
            return NOT_PLANNED
        for name in sorted({*self.planned, *figures.values}):
            if name.startswith(("joint(", "implied(", "together(")):
                continue
            absent = 0.0 if name.startswith("rate(") else 1.0
            before, now = self.planned.get(name, absent), figures.values.get(name, absent)
            if now != before and abs(now - before) >= self.t * before:
                return Deviation(name, before, now, self.t)
        return None

    def armed(self, figures: Figures, planned: Planned) -> Threshold:
        """The same with those figures to compare with."""
        return replace(self, planned=dict(figures.values))

    def after(self, reason: Reason, gain: float) -> Threshold:
        """The same."""
        return self

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {"decision": "threshold", "t": self.t, "planned": None if self.planned is None else dict(self.planned)}


@dataclass(frozen=True, slots=True)
class ByInvariants:
    """Plans anew when an invariant of the plan is broken.

    `sure`: one whose sides lie apart by less than so many standard deviations of what the figures' variances make of
    them is not. Figures that come from samples always swing a little.
    """

    how: Watch = field(default_factory=Watch)
    distance: Distance = field(default_factory=ConstantDistance)
    sure: float = 0.0
    invariants: Invariants | None = None

    def wants(self, figures: Figures) -> Reason | None:
        """The first broken invariant."""
        return NOT_PLANNED if self.invariants is None else self.invariants.check(figures, self.distance, self.sure)

    def armed(self, figures: Figures, planned: Planned) -> ByInvariants:
        """The same with the invariants of that plan."""
        invariants = watch(planned, figures, self.how)
        return replace(self, invariants=invariants, distance=self.distance.armed(invariants.comparisons))

    def after(self, reason: Reason, gain: float) -> ByInvariants:
        """The same with a distance that has learned from the gain."""
        if not isinstance(reason, Violation):
            return self
        return replace(self, distance=self.distance.after(reason.comparison.key, gain))

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {
            "decision": "invariants",
            "count": self.how.count,
            "selection": self.how.selection.value,
            "sides": self.how.sides.value,
            "unused": self.how.unused,
            "sure": self.sure,
            "distance": dump_distance(self.distance),
            "invariants": None if self.invariants is None else self.invariants.dump(),
        }


def load_decision(data: Mapping[str, Any]) -> Decision:
    """What a decision's `dump` gave.

    >>> load_decision(Threshold(0.5).dump())
    Threshold(t=0.5, planned=None)
    """
    try:
        match data["decision"]:
            case "static":
                return Static()
            case "unconditional":
                return Unconditional()
            case "threshold":
                return Threshold(data["t"], data["planned"])
            case "invariants":
                how = Watch(data["count"], Selection(data["selection"]), Sides(data["sides"]), data["unused"])
                invariants = None if data["invariants"] is None else Invariants.load(data["invariants"])
                return ByInvariants(how, load_distance(data["distance"]), data["sure"], invariants)
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"this is no decision ({error!r}): saved by another version, or damaged") from error
    raise StateError(f"there is no decision {data['decision']!r}: the state was saved by another version")


def gain_of(figures: Figures, old: Tree, new: Tree, measure: Callable[[Tree], Side] = TreeCost) -> float:
    """The share of the cost of the old tree's parts that the new one saves under those figures, negative if none.

    With another `measure` it is the share of what that measures.
    """
    costs = Costs(figures)
    before = measure(old).value(costs)
    return 1.0 - measure(new).value(costs) / before if before > 0 else 0.0
