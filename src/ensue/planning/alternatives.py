"""Other plans than the one that costs least: to be tried where costs seem to be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.greedy import RateOrder, join_lists, take_in_turn
from ensue.planning.plan import Join, Plan, Tree, left_deep
from ensue.planning.zstream import ZStreamTree


def other_trees(figures: Figures) -> Iterator[Tree]:
    """Greedy orders that begin with each of the variables, the order of rates and ZStream's tree.

    Costs are wrong where conditions depend on each other, and which of them come first differs most between plans that
    begin elsewhere. The same tree may come more than once.
    """
    costs, singles = Costs(figures), figures.shape.singles
    for first in singles:
        others = tuple(name for name in singles if name != first)
        order, _ = take_in_turn(costs, others, (first,))
        yield join_lists(costs, left_deep((first, *order)))[0]
    yield RateOrder().plan(figures).tree
    yield ZStreamTree().plan(figures).tree


def shape_of(plan: Plan) -> str:
    """What tells plans apart that differ in what they take: the sides of a join may change places.

    >>> shape_of(Plan((left_deep("bac", stored=True),)))
    '((a b)* c)*'
    """
    return " | ".join(map(_shape, plan.trees))


def _shape(tree: Tree) -> str:
    if isinstance(tree, Join):
        return f"({' '.join(sorted((_shape(tree.left), _shape(tree.right))))}){'*' * tree.stored}"
    return tree.variable
