"""Orders made step by step: by rates alone, and greedily by what each step multiplies.

Kolchinsky and Schuster, sections 3.1 and 4.1 (Algorithm 2). A block is a place of the order; its comparisons are those
of the variable taken there with each that was left. The runtime makes lists after all single events are bound,
wherever a Kleene variable stands in the plan, so every planner puts Kleene variables last, ordered among themselves as
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ensue.planning.comparisons import Block, BlockComparison, Growth, Planned
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.plan import Join, Leaf, Tree, left_deep, variables_of


@dataclass(frozen=True, slots=True)
class RateOrder:
    """The rarest variable first, by the events that pass its local conditions; other conditions do not count."""

    name: str = "rate"

    def plan(self, figures: Figures) -> Planned:
        """The order as a left-deep tree."""
        return _plan(self.name, figures, sees_pairs=False)


@dataclass(frozen=True, slots=True)
class GreedyOrder:
    """At each step the variable that multiplies the partial matches least (Algorithm 2)."""

    name: str = "greedy"

    def plan(self, figures: Figures) -> Planned:
        """The order as a left-deep tree."""
        return _plan(self.name, figures, sees_pairs=True)


def join_lists(costs: Costs, tree: Tree | None, *, sees_pairs: bool = True) -> tuple[Tree, tuple[Block, ...]]:
    """A tree of the single events (if there are any) with the lists joined to it, fewest lists first."""
    bound = () if tree is None else variables_of(tree)
    order, blocks = take_in_turn(costs, costs.figures.shape.lists, bound, sees_pairs=sees_pairs)
    for name in order:
        tree = Leaf(name) if tree is None else Join(tree, Leaf(name))
    assert tree is not None
    return tree, blocks


def take_in_turn(
    costs: Costs, names: tuple[str, ...], bound: tuple[str, ...] = (), *, sees_pairs: bool = True
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """The variables in the order in which they are taken after `bound`, and a block for each."""
    taken = list(bound)
    left = list(names)
    blocks = []
    while left:
        known = frozenset(taken) if sees_pairs else frozenset()
        name = costs.first(known, left)
        taken.append(name)
        blocks.append(Block(f"{len(taken)}: {name}", _won(costs, left, name, known)))
        left.remove(name)
    return tuple(taken[len(bound) :]), tuple(blocks)


def _won(costs: Costs, left: list[str], name: str, known: frozenset[str]) -> tuple[BlockComparison, ...]:
    """The comparisons of a variable with each that was left, those before it in the text and those behind it."""
    won = []
    place = left.index(name)
    for k, other in enumerate(left):
        if k != place:
            sides = Growth(name, known, other), Growth(other, known, name)
            won.append(BlockComparison(*sides, k < place, (sides[0].value(costs), sides[1].value(costs))))
    return tuple(won)


def _plan(planner: str, figures: Figures, *, sees_pairs: bool) -> Planned:
    costs = Costs(figures)
    tree, blocks = order_tree(costs, sees_pairs=sees_pairs)
    return Planned(planner, tree, costs.whole(tree), blocks)


def order_tree(costs: Costs, *, sees_pairs: bool) -> tuple[Tree, tuple[Block, ...]]:
    """The order that is made step by step as a left-deep tree, and its blocks."""
    order, blocks = take_in_turn(costs, costs.figures.shape.singles, sees_pairs=sees_pairs)
    tree, more = join_lists(costs, left_deep(order) if order else None, sees_pairs=sees_pairs)
    return tree, (*blocks, *more)
