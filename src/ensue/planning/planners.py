"""The planners by name, and plans made of what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ensue.errors import PlanError
from ensue.planning.bushy import BushyTree
from ensue.planning.comparisons import Planned
from ensue.planning.figures import Figures
from ensue.planning.greedy import GreedyOrder, RateOrder
from ensue.planning.orders import OptimalOrder
from ensue.planning.plan import Join, Leaf, Plan, Tree
from ensue.planning.zstream import ZStreamTree


class Planner(Protocol):
    """A deterministic way to a tree for one branch; where costs are equal, the order of the text decides."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def plan(self, figures: Figures) -> Planned:
        """The tree under some figures, with the comparisons that decided it."""
        ...


PLANNERS: dict[str, Planner] = {
    planner.name: planner for planner in (RateOrder(), GreedyOrder(), OptimalOrder(), ZStreamTree(), BushyTree())
}


def planner_named(name: str) -> Planner:
    """The planner of that name.

    >>> planner_named("greedy")
    GreedyOrder(name='greedy')
    """
    if name not in PLANNERS:
        raise PlanError(f"there is no planner {name!r}: take one of {', '.join(PLANNERS)}")
    return PLANNERS[name]


def make_plan(planned: Sequence[Planned], *, stored: bool = True, index: bool = True) -> Plan:
    """The plan of a query: one planned tree for each of its branches. `stored`: joins keep their partial matches."""
    return Plan(tuple(with_storage(one.tree, stored) for one in planned), index)


def with_storage(tree: Tree, stored: bool) -> Tree:
    """The same tree with joins that keep their partial matches, or that do not."""
    if isinstance(tree, Leaf):
        return tree
    return Join(with_storage(tree.left, stored), with_storage(tree.right, stored), stored)
