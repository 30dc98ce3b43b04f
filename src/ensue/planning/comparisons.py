"""Why a plan is as it is: the comparisons that decided each of its building blocks.

Kolchinsky and Schuster, section 3.1: a block-building comparison `left < right` is one whose other outcome would have
put another block in the place of this one. Both sides are values that can be computed again from other figures, shown
and saved. Where two sides were equal, the one that comes first in the order of the text was taken, so that a
comparison is strict only where the other side would have won a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, TypeAlias, assert_never

from ensue.errors import StateError
from ensue.planning.cost import Costs
from ensue.planning.latency import Timings, latency_of
from ensue.planning.plan import Join, Leaf, Plan, Tree, dump_tree, load_tree, variables_of


@dataclass(frozen=True, slots=True)
class Growth:
    """By what the partial matches multiply when a variable is joined to those bound (Algorithm 2's expression).

    If looks count, also what it takes to look for its events, and for those of a `rival` in what it has made: then
    the sides of a comparison are what two variables cost in either order, but for what both make of a partial match.
    """

    name: str
    bound: frozenset[str] = frozenset()
    rival: str | None = None

    def value(self, costs: Costs) -> float:
        """What it costs a partial match under some figures."""
        return costs.ahead(self.bound, self.name, self.rival)

    def weight(self, costs: Costs) -> float:
        """What tells it from the other side if both cost the same, as they may where numbers are rounded."""
        return costs.weight(self.bound, self.name)

    def __str__(self) -> str:
        return f"growth({self.name} | {', '.join(sorted(self.bound))})" if self.bound else f"events({self.name})"


@dataclass(frozen=True, slots=True)
class TreeCost:
    """The cost of the parts of a tree of this shape, under whatever figures.

    What the root gives is the same for all trees over a set. Leaving it out changes no comparison, and a distance
    speaks of what can differ, however many matches are expected (of all numbers the one that is furthest off).
    """

    tree: Tree

    def value(self, costs: Costs) -> float:
        """The cost under some figures."""
        return costs.parts(self.tree)

    def __str__(self) -> str:
        return f"parts{show(self.tree)}" if isinstance(self.tree, Join) else f"events({self.tree.variable})"


@dataclass(frozen=True, slots=True)
class FrozenCost:
    """The cost of a join whose sides are constants from when the plan was made (section 4.2 to the letter).

    Only leaves and the selectivity between both sides are read anew, which takes constant time;
    docs/adaptive-planning.md shows what it costs in precision.
    """

    tree: Join
    left: tuple[float, float]
    right: tuple[float, float]

    def value(self, costs: Costs) -> float:
        """Constants, leaves and the selectivity between both sides."""
        left_cost, left_card = self._side(costs, self.tree.left, self.left)
        right_cost, right_card = self._side(costs, self.tree.right, self.right)
        left, right = frozenset(variables_of(self.tree.left)), frozenset(variables_of(self.tree.right))
        pairs = left_card * right_card
        joined = pairs * costs.link(left, right)
        checks = costs.checks(left, right, joined) if costs.counts_looks else 0.0
        return left_cost + right_cost + joined + pairs * costs.look(left, right) + checks

    def _side(self, costs: Costs, side: Tree, constants: tuple[float, float]) -> tuple[float, float]:
        if isinstance(side, Leaf):
            return (costs.tree(side), costs.tree(side))
        return constants

    def __str__(self) -> str:
        return f"cost{show(self.tree)}"


@dataclass(frozen=True, slots=True)
class ExpectedLatency:
    """The expected latency of a tree with what it stores, in seconds, under pressure: see `Latency.rank`."""

    tree: Tree
    timings: Timings

    def value(self, costs: Costs) -> float:
        """The latency under some figures."""
        return latency_of(costs, self.tree, self.timings).rank

    def __str__(self) -> str:
        return f"latency({Plan((self.tree,))})"


Side: TypeAlias = Growth | TreeCost | FrozenCost | ExpectedLatency


@dataclass(frozen=True, slots=True)
class BlockComparison:
    """`left < right` decided a block; `<=` unless `strict`, which says that right would have won a tie.

    `values` are those of both sides when the plan was made.
    """

    left: Side
    right: Side
    strict: bool
    values: tuple[float, float]

    def holds(self, costs: Costs, distance: float = 0.0) -> bool:
        """Whether it would come out the same, or differently by less than a share `distance` of the right side."""
        left, right = self.left.value(costs), (1.0 + distance) * self.right.value(costs)
        if left == right and not distance and isinstance(self.left, Growth) and isinstance(self.right, Growth):
            left, right = self.left.weight(costs), self.right.weight(costs)
        return left < right or (left == right and not self.strict)

    def apart(self, costs: Costs) -> float:
        """How far left exceeds right: the difference; of latencies, which grow by factors, the log of the ratio."""
        left, right = self.left.value(costs), self.right.value(costs)
        return math.log(left / right) if isinstance(self.left, ExpectedLatency) else left - right

    @property
    def slack(self) -> float:
        """How far the sides lay apart when the plan was made: the smaller, the tighter."""
        return self.values[1] - self.values[0]

    @property
    def key(self) -> str:
        """What tells it from others, whichever side is the smaller one."""
        return " ~ ".join(sorted((str(self.left), str(self.right))))

    def __str__(self) -> str:
        return f"{self.left} {'<' if self.strict else '≤'} {self.right}"


@dataclass(frozen=True, slots=True)
class Block:
    """The smallest part of a plan that is decided by itself: a place in an order, or a join of a tree."""

    name: str
    comparisons: tuple[BlockComparison, ...] = ()


def _none(most: int | None) -> tuple[Block, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A branch's tree, with its cost and the comparisons behind it.

    `blocks` are those of the tree, first to last or leaves to root. `unused` gives the sub-plans that a planner by
    dynamic programming held in its table beside: with these all together decide which plan comes out. That is a lot of
    work, so none if they are more than a number that it is given. `planner` is the name of the one that made it,
    `measure` makes of a tree what it compares whole trees by.
    """

    planner: str
    tree: Tree
    cost: float
    blocks: tuple[Block, ...]
    unused: Callable[[int | None], tuple[Block, ...]] = field(default=_none, compare=False, repr=False)
    measure: Callable[[Tree], Side] = field(default=TreeCost, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.planner}: {show(self.tree)}, cost {self.cost:.6g}"


def choose(costs: Costs, candidates: Sequence[Side]) -> tuple[int, tuple[BlockComparison, ...]]:
    """The least of some candidates, the first of equals, and the comparisons that it won."""
    values = [candidate.value(costs) for candidate in candidates]
    best = values.index(min(values))
    won = tuple(
        BlockComparison(candidates[best], other, k < best, (values[best], values[k]))
        for k, other in enumerate(candidates)
        if k != best
    )
    return best, won


def show(tree: Tree) -> str:
    """A tree in one line."""
    return tree.variable if isinstance(tree, Leaf) else f"({show(tree.left)} ⋈ {show(tree.right)})"


def dump_comparison(comparison: BlockComparison) -> dict[str, Any]:
    """A comparison as data that JSON can hold."""
    return {
        "left": _dump_side(comparison.left),
        "right": _dump_side(comparison.right),
        "strict": comparison.strict,
        "values": list(comparison.values),
    }


def load_comparison(data: dict[str, Any]) -> BlockComparison:
    """What `dump_comparison` gave."""
    left, right = data["values"]
    return BlockComparison(_load_side(data["left"]), _load_side(data["right"]), data["strict"], (left, right))


def _dump_side(side: Side) -> dict[str, Any]:
    match side:
        case Growth(name=name, bound=bound, rival=rival):
            return {"growth": name, "bound": sorted(bound), "rival": rival}
        case TreeCost(tree=tree):
            return {"cost": dump_tree(tree)}
        case FrozenCost(tree=tree, left=left, right=right):
            return {"frozen": dump_tree(tree), "left": list(left), "right": list(right)}
        case ExpectedLatency(tree=tree, timings=timings):
            return {"latency": dump_tree(tree), "timings": list(astuple(timings))}
        case _:
            assert_never(side)


def _load_side(data: dict[str, Any]) -> Side:
    match data:
        case {"growth": str(name), "bound": [*bound]}:
            return Growth(name, frozenset(bound), data.get("rival"))
        case {"cost": tree}:
            return TreeCost(load_tree(tree))
        case {"frozen": tree, "left": [cost, card], "right": [other_cost, other_card]}:
            join = load_tree(tree)
            if isinstance(join, Join):
                return FrozenCost(join, (cost, card), (other_cost, other_card))
        case {"latency": tree, "timings": [*seconds]}:
            return ExpectedLatency(load_tree(tree), Timings(*seconds))
    raise StateError(f"{data!r} is no side of a comparison: the state was saved by another version, or is damaged")
