"""Other plans than the one that costs least: to be tried where costs seem to be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ensue.planning.bushy import best_tree
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.greedy import join_lists, order_tree
from ensue.planning.plan import Join, Leaf, Plan, Tree, left_deep
from ensue.planning.zstream import text_tree


def other_trees(costs: Costs) -> Iterator[Tree]:
    """The best tree of all, greedy orders that begin with each of the variables, the order of rates, ZStream's tree.

    Costs are wrong where conditions depend on each other, and which of them come first differs most between plans that
    begin elsewhere. The same tree may come more than once.
    """
    best = best_tree(costs)
    if best is not None:
        yield best
    for first in costs.figures.shape.singles:
        yield join_lists(costs, left_deep(_begin_with(first, costs)))[0]
    yield order_tree(costs, sees_pairs=False)[0]
    yield text_tree(costs)


def _begin_with(first: str, costs: Costs) -> list[str]:
    """The greedy order of the single variables after the first one."""
    taken = [first]
    left = [name for name in costs.figures.shape.singles if name != first]
    while left:
        taken.append(costs.first(frozenset(taken), left))
        left.remove(taken[-1])
    return taken


def near_trees(tree: Tree, figures: Figures) -> Iterator[Tree]:
    """The trees that differ from one by a step: two of three neighbouring parts are joined first in another way.

    In an order, two that follow each other change places, or are joined before the others. Lists stay where they are.

    >>> from ensue.language import parse_query
    >>> from ensue.pattern.normalize import normalize
    >>> from ensue.planning.figures import figures_of
    >>> from ensue.statistics.snapshot import Statistics
    >>> query = parse_query("PATTERN SEQ(A a, B b, C c, D d) WITHIN 10")
    >>> figures = figures_of(normalize(query)[0], 10.0, Statistics.uniform(query))
    >>> [_outline(tree) for tree in near_trees(left_deep("abcd"), figures)]
    ['(((a b) d) c)', '((a b) (c d))', '(((a c) b) d)', '(((b c) a) d)']
    """
    if not isinstance(tree, Join):
        return
    for near, far in ((tree.left, tree.right), (tree.right, tree.left)):
        if isinstance(near, Join) and not _is_list(far, figures):
            for one, other in ((near.left, near.right), (near.right, near.left)):
                if not _is_list(other, figures):
                    yield Join(Join(one, far, near.stored), other, tree.stored)
    yield from (Join(one, tree.right, tree.stored) for one in near_trees(tree.left, figures))
    yield from (Join(tree.left, one, tree.stored) for one in near_trees(tree.right, figures))


def _is_list(tree: Tree, figures: Figures) -> bool:
    return isinstance(tree, Leaf) and tree.variable in figures.shape.lists


def outline_of(plan: Plan) -> str:
    """What tells plans apart that differ in what they take: the sides of a join may change places.

    >>> outline_of(Plan((left_deep("bac", stored=True),)))
    '((a b)* c)*'
    """
    return " | ".join(map(_outline, plan.trees))


def _outline(tree: Tree) -> str:
    if isinstance(tree, Join):
        return f"({' '.join(sorted((_outline(tree.left), _outline(tree.right))))}){'*' * tree.stored}"
    return tree.variable
