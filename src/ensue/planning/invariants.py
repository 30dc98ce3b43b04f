"""Invariants: the watched comparisons behind a plan, which is out of date once one of them is broken.

Kolchinsky and Schuster, section 3. Of each block those K comparisons are watched that are most likely to be broken:
the tightest (3.1), or those whose sides' variances make it most probable (3.5). They are checked in the order of the
blocks, first to last or leaves to root; the first broken one is the reason to plan anew.

Costs are computed from the current figures, every subtree once in a check and then a constant for all comparisons
above it. With `Sides.FROZEN` the costs below a compared join are constants from the time of planning, which is how
section 4.2 reads to the letter; then a broken invariant is a hint only, and no longer a proof that the plan changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from statistics import NormalDist
from typing import Any

from ensue.errors import PlanError, StateError
from ensue.planning.comparisons import (
    Block,
    BlockComparison,
    FrozenCost,
    Growth,
    Planned,
    Side,
    TreeCost,
    dump_comparison,
    load_comparison,
)
from ensue.planning.cost import Costs
from ensue.planning.distances import Distance
from ensue.planning.figures import Figures, Shape, rate_name, selectivity_name
from ensue.planning.plan import Leaf, Tree, variables_of

CANDIDATES = 32
"""Of a block's comparisons, how many of the tightest have their probability computed: the others are far from it."""


class Selection(Enum):
    """By what the comparisons to watch are picked."""

    TIGHTNESS = "tightness"
    PROBABILITY = "probability"


class Sides(Enum):
    """From what the costs of trees are computed in a check."""

    CURRENT = "current"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched: `count` comparisons of each block (K; None for all), picked by `selection`.

    `unused`: also those of sub-plans that the planner had in its table and made no use of, unless these are more than
    so many (None: however many), so that no change is missed. They are hints: the plan may stay what it is.
    """

    count: int | None = 1
    selection: Selection = Selection.TIGHTNESS
    sides: Sides = Sides.CURRENT
    unused: int | None = 0

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise PlanError(f"{self.count} invariants a block watch nothing: take 1 or more, or None for all")


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: of which block, with the current values of both sides and the distance that was allowed.

    That of a sub-plan which is not part of the plan is a `hint`: another plan may have become the best, or not.
    """

    block: str
    comparison: BlockComparison
    left: float
    right: float
    distance: float
    hint: bool = False

    @property
    def text(self) -> str:
        """What broke, in words."""
        part = " (no part of the plan)" if self.hint else ""
        apart = f" by more than {self.distance:.3g} of it" if self.distance else ""
        return (
            f"{self.block}{part}: {self.comparison} no longer holds{apart}: {self.left:.6g} against {self.right:.6g} "
            f"(planned with {self.comparison.values[0]:.6g} and {self.comparison.values[1]:.6g})"
        )


@dataclass(frozen=True, slots=True)
class Invariants:
    """The watched comparisons, each with the name of its block, in the order in which they are checked.

    Those of the plan's blocks, then those of sub-plans that are `unused`.
    """

    watched: tuple[tuple[str, BlockComparison], ...]
    unused: tuple[tuple[str, BlockComparison], ...] = ()

    def check(self, figures: Figures, distance: Distance, sure: float = 0.0) -> Violation | None:
        """The first that is broken under the current figures, and by more than `sure` deviations of their error."""
        return next(self.broken(figures, distance, sure), None)

    def broken(self, figures: Figures, distance: Distance, sure: float = 0.0) -> Iterator[Violation]:
        """All that are, in order."""
        costs = Costs(figures)
        moved = Moved(figures)
        for place, (block, comparison) in enumerate((*self.watched, *self.unused)):
            d = distance.of(comparison.key)
            if comparison.holds(costs, d):
                continue
            left, right = comparison.left.value(costs), comparison.right.value(costs)
            if sure > 0 and comparison.apart(costs) < sure * doubt_of(comparison, costs, moved):
                continue
            yield Violation(block, comparison, left, right, d, hint=place >= len(self.watched))

    @property
    def comparisons(self) -> tuple[BlockComparison, ...]:
        """The comparisons of the plan's own blocks alone."""
        return tuple(comparison for _, comparison in self.watched)

    def __str__(self) -> str:
        return "\n".join(f"{block}: {comparison}" for block, comparison in self.watched)

    def dump(self) -> list[dict[str, Any]]:
        """As data that JSON can hold."""
        return [
            {"block": block, "unused": is_unused, **dump_comparison(comparison)}
            for is_unused, some in ((False, self.watched), (True, self.unused))
            for block, comparison in some
        ]

    @staticmethod
    def load(data: Sequence[Mapping[str, Any]]) -> Invariants:
        """What `dump` gave."""
        try:
            watched, unused = (
                tuple((one["block"], load_comparison(dict(one))) for one in data if one.get("unused", False) == which)
                for which in (False, True)
            )
            return Invariants(watched, unused)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"these are no invariants ({error!r}): saved by another version, or damaged") from error


def watch(planned: Planned, figures: Figures, how: Watch) -> Invariants:
    """The invariants of a plan that was made from those figures."""
    pick = _Picker(figures, how)

    def watched(blocks: Sequence[Block]) -> tuple[tuple[str, BlockComparison], ...]:
        return tuple((block.name, comparison) for block in blocks for comparison in pick.of(block))

    return Invariants(watched(planned.blocks), watched(planned.unused(how.unused)))


class _Picker:
    """Picks the comparisons of blocks."""

    def __init__(self, figures: Figures, how: Watch) -> None:
        self.how = how
        self.costs = Costs(figures)
        self.moved = Moved(figures)

    def of(self, block: Block) -> tuple[BlockComparison, ...]:
        """Those of a block that are to be watched, in the order in which they were made."""
        picked = block.comparisons
        if self.how.count is not None and len(picked) > self.how.count:
            places = sorted(range(len(picked)), key=lambda k: (picked[k].slack, k))
            if self.how.selection is Selection.PROBABILITY:
                near = places[: max(CANDIDATES, self.how.count)]
                places = sorted(near, key=lambda k: -violation_probability(picked[k], self.moved))
            picked = tuple(picked[k] for k in sorted(places[: self.how.count]))
        return tuple(map(self._frozen, picked)) if self.how.sides is Sides.FROZEN else picked

    def _frozen(self, comparison: BlockComparison) -> BlockComparison:
        left, right = self._freeze(comparison.left), self._freeze(comparison.right)
        return replace(comparison, left=left, right=right, values=(left.value(self.costs), right.value(self.costs)))

    def _freeze(self, side: Side) -> Side:
        if not isinstance(side, TreeCost) or isinstance(side.tree, Leaf):
            return side
        return FrozenCost(side.tree, self._constants(side.tree.left), self._constants(side.tree.right))

    def _constants(self, tree: Tree) -> tuple[float, float]:
        return self.costs.tree(tree), self.costs.card(frozenset(variables_of(tree)))


class Moved:
    """Costs with a statistic one standard deviation up, and down; those without a variance are left out.

    They are made as they are asked for, once for all comparisons.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._made: dict[str, tuple[Costs, Costs]] = {}

    @cached_property
    def _deviations(self) -> dict[str, float]:
        variances = self._figures.variances
        return {name: variance**0.5 for name in self._figures.values if (variance := variances.get(name, 0.0)) > 0}

    def about(self, comparison: BlockComparison) -> Iterator[tuple[Costs, Costs]]:
        """Those of the statistics that a comparison's sides may depend on."""
        left, right = (_statistics_of(side, self._figures.shape) for side in (comparison.left, comparison.right))
        for name in self._deviations:
            if left is None or right is None or name in left or name in right or not name.startswith(("rate(", "sel(")):
                yield self._moved(name)

    def _moved(self, name: str) -> tuple[Costs, Costs]:
        found = self._made.get(name)
        if found is None:
            value, deviation = self._figures.values[name], self._deviations[name]
            found = self._made[name] = (
                Costs(self._figures.moved(name, value + deviation)),
                Costs(self._figures.moved(name, value - deviation)),
            )
        return found


def _statistics_of(side: Side, shape: Shape) -> set[str] | None:
    """The rates and selectivities that a side is worked out from; None: whichever."""
    match side:
        case Growth(name=name, bound=bound, rival=rival):
            names, others = frozenset((name, name if rival is None else rival)), bound
        case TreeCost(tree=tree) | FrozenCost(tree=tree):
            names = others = frozenset(variables_of(tree))
        case _:
            return None
    found = {rate_name(variable.type) for variable in shape.variables if variable.name in names}
    found |= {selectivity_name(name) for name in names}
    found |= {selectivity_name(name, other) for name in names for other in (name, *others)}
    for gap in shape.gaps:
        found |= {rate_name(gap.type), selectivity_name(gap.name)}
        found |= {selectivity_name(gap.name, other) for other in gap.needed}
    return found


def violation_probability(comparison: BlockComparison, moved: Moved) -> float:
    """How probable it is that the sides change places, if the difference is normal around what it was."""
    deviation = deviation_of(comparison, moved)
    return NormalDist().cdf(-comparison.slack / deviation) if deviation > 0 else 0.0


def doubt_of(comparison: BlockComparison, costs: Costs, moved: Moved) -> float:
    """How much nearer to each other a broken comparison's sides may be: what one standard deviation of each takes off.

    For costs, which grow in proportion to each statistic, that is the standard deviation of the difference. A latency
    near its limit grows without bounds; how much more it might be does not make it less sure that it is too much.
    """
    apart = comparison.apart(costs)
    nearer = [apart - min(comparison.apart(up), comparison.apart(down)) for up, down in moved.about(comparison)]
    return math.sqrt(sum(max(one, 0.0) ** 2 for one in nearer))


def deviation_of(comparison: BlockComparison, moved: Moved) -> float:
    """The standard deviation of the difference between the sides.

    Its square is the sum over the (independent) statistics of the squared effect of one standard deviation of each.
    """

    def difference(costs: Costs) -> float:
        return comparison.right.value(costs) - comparison.left.value(costs)

    return math.sqrt(sum(((difference(up) - difference(down)) / 2) ** 2 for up, down in moved.about(comparison)))
