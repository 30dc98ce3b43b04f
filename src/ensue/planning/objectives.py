"""What a plan is chosen for: throughput, the fewest partial matches; or latency, the soonest report of a match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, Protocol, TypeAlias

from ensue.errors import PlanError
from ensue.planning.alternatives import near_trees, other_trees
from ensue.planning.comparisons import Planned
from ensue.planning.cost import Costs, plan_cost
from ensue.planning.eager_lazy import EagerLazy
from ensue.planning.figures import Figures
from ensue.planning.latency import Timings, latency_of
from ensue.planning.plan import Plan, Tree, without
from ensue.planning.planners import Planner, with_storage

ObjectiveName: TypeAlias = Literal["throughput", "latency"]
OBJECTIVES: tuple[ObjectiveName, ...] = ("throughput", "latency")


class Prospect:
    """What figures tell of plans, whichever is in use."""

    def __init__(
        self,
        figures: Sequence[Figures],
        rank: Callable[[Plan], float],
        find: Callable[[], Sequence[Sequence[Tree]]],
    ) -> None:
        self.figures = figures
        self.rank = rank  # what plans are compared by: the part of the cost in which they differ
        self._find = find

    @cached_property
    def trees(self) -> Sequence[Sequence[Tree]]:
        """Trees of each branch, ready to be run, that are worth a try where costs are wrong."""
        return self._find()


class Objective(Protocol):
    """How plans are made and compared."""

    def plan(self, figures: Figures) -> Planned:
        """The plan of a branch under some figures."""
        ...

    def near(self, figures: Figures, used: Tree) -> Iterable[Tree]:
        """Other plans of a branch that are like the one in use."""
        ...

    def ready(self, tree: Tree) -> Tree:
        """A planned tree as it is run, with what it stores."""
        ...

    def bare(self, tree: Tree) -> Tree:
        """A tree that is run, as it is planned and compared."""
        ...

    def cost(self, figures: Sequence[Figures], plan: Plan) -> float:
        """What a plan costs under the figures of its branches."""
        ...

    def prospect(self, figures: Sequence[Figures]) -> Prospect:
        """What the figures of the branches tell of plans."""
        ...


@dataclass(frozen=True, slots=True)
class ForThroughput:
    """Few partial matches; whether joins store them is the same for all."""

    planner: Planner
    stored: bool = True

    def plan(self, figures: Figures) -> Planned:
        """The planner's plan."""
        return self.planner.plan(figures)

    def near(self, figures: Figures, used: Tree) -> Iterable[Tree]:
        """Those that differ from it by a step."""
        return near_trees(used, figures)

    def ready(self, tree: Tree) -> Tree:
        """With joins that store, or do not."""
        return with_storage(tree, self.stored)

    def bare(self, tree: Tree) -> Tree:
        """What is stored is left out: it makes no difference to the cost."""
        return with_storage(tree, stored=False)

    def cost(self, figures: Sequence[Figures], plan: Plan) -> float:
        """The partial matches and events that are held."""
        return plan_cost(figures, plan)

    def prospect(self, figures: Sequence[Figures]) -> Prospect:
        """Plans rank by all but the matches themselves, which every plan finds; or but for lists, which are made last.

        How many lists there are is hardly known. But they are looked for at each partial match they are joined to.

        To try are those of other planners, and greedy ones with other beginnings.
        """
        costs = list(map(Costs, figures))  # plans have much in common: each set of variables is counted once

        def rank(plan: Plan) -> float:
            return sum(_but_for_matches(one, tree) for one, tree in zip(costs, plan.trees, strict=True))

        return Prospect(figures, rank, lambda: [tuple(map(self.ready, other_trees(one))) for one in costs])


def _but_for_matches(costs: Costs, tree: Tree) -> float:
    """What a tree costs without its matches, or, if there are lists, what it costs without these.

    They are made when all else is bound, wherever they stand.
    """
    singles = without(tree, costs.figures.shape.lists)
    return costs.parts(tree) if singles is None or singles == tree else costs.tree(singles)


@dataclass(frozen=True, slots=True)
class ForLatency:
    """A short time from the arrival of a match's last event; what is stored is part of the plan."""

    timings: Timings

    def plan(self, figures: Figures) -> Planned:
        """The way to part the variables with the least expected latency."""
        return EagerLazy(self.timings).plan(figures)

    def near(self, figures: Figures, used: Tree) -> Iterable[Tree]:
        """None: plans are not tried for latency."""
        return ()

    def ready(self, tree: Tree) -> Tree:
        """As it is."""
        return tree

    def bare(self, tree: Tree) -> Tree:
        """As it is."""
        return tree

    def cost(self, figures: Sequence[Figures], plan: Plan) -> float:
        """Seconds, by `Latency.rank`; of several branches the sum, each as if it were alone."""
        pairs = zip(figures, plan.trees, strict=True)
        return sum(latency_of(Costs(one), tree, self.timings).rank for one, tree in pairs)

    def prospect(self, figures: Sequence[Figures]) -> Prospect:
        """Plans rank by the same, and none is tried."""
        return Prospect(figures, partial(self.cost, figures), lambda: [() for _ in figures])


def check_objective(name: str) -> ObjectiveName:
    """The objective of that name.

    >>> check_objective("latency")
    'latency'
    """
    for known in OBJECTIVES:
        if name == known:
            return known
    raise PlanError(f"there is no objective {name!r}: take {' or '.join(OBJECTIVES)}")
