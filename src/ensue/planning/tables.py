"""Dynamic programming over sets of variables: for each set the best tree, made of the best trees of its parts.

A block is a join of the plan. The comparisons behind it are those of its tree with the tree of every other way to
split its set, each made of the best parts that the table held: Kolchinsky and Schuster, section 4.2, where they are
costs of whole trees.

Both trees of a comparison are over the same set, and a plan's every subtree is the table's tree of its set. So as soon
as some tree of the set costs less than the plan's, under whatever figures, the planner returns another plan: no
comparison of a block is ever broken for nothing (Theorem 1). The other direction needs every comparison of the whole
table: an unbroken table is the same table, and gives the same plan; but a sub-plan may change of which the plan makes
no use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from ensue.planning.comparisons import Block, BlockComparison, Planned, TreeCost, choose, show
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.greedy import join_lists
from ensue.planning.plan import Join, Leaf, Tree


class Table(ABC):
    """The best tree of each set. A set is a number whose bit i stands for the i-th single variable of the text.

    Costs are added up as `Costs.tree` does it, so that a comparison that is checked later comes to the same numbers.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.names = costs.figures.shape.singles
        self.best: dict[int, float] = {}
        self.cards: dict[int, float] = {}
        self._members: dict[int, frozenset[str]] = {}
        self.splits_of_best: dict[int, tuple[int, int]] = {}
        for bit in range(len(self.names)):
            self.best[1 << bit] = self.cards[1 << bit] = costs.tree(Leaf(self.names[bit]))
        for names in self.sets():
            self._decide(names)

    @abstractmethod
    def sets(self) -> Iterator[int]:
        """The sets of two and more variables that have a tree, each after its parts."""

    @abstractmethod
    def splits(self, names: int) -> Iterator[tuple[int, int]]:
        """The ways to split a set, the first of equals preferred."""

    def _decide(self, names: int) -> None:
        cards, look = self.cards, self.costs.look_without_key
        card = cards[names] = self.costs.card(self.members(names))
        best, chosen = float("inf"), None
        for left, right in self.splits(names):
            cost = self.best[left] + self.best[right]
            if self.costs.counts_looks and look is not None:  # the same as below, but quicker
                cost += cards[left] * cards[right] * look
            elif self.costs.counts_looks:
                cost += self.costs.looks(self.members(left), self.members(right))
            if chosen is None or cost < best:
                best, chosen = cost, (left, right)
        assert chosen is not None
        self.best[names] = best + card
        self.splits_of_best[names] = chosen

    def members(self, names: int) -> frozenset[str]:
        """The variables of a set."""
        found = self._members.get(names)
        if found is None:
            found = self._members[names] = frozenset(n for bit, n in enumerate(self.names) if names >> bit & 1)
        return found

    def tree(self, names: int) -> Tree:
        """The best tree of a set."""
        if names not in self.splits_of_best:
            return Leaf(self.names[names.bit_length() - 1])
        left, right = self.splits_of_best[names]
        return Join(self.tree(left), self.tree(right))

    @property
    def everything(self) -> int:
        """The set of all single variables."""
        return (1 << len(self.names)) - 1

    @property
    def whole(self) -> Tree | None:
        """Their best tree, if there are any."""
        return self.tree(self.everything) if self.names else None

    def block(self, names: int) -> Block:
        """The block of a set's tree."""
        return Block(show(self.tree(names)), self.comparisons(names))

    def comparisons(self, names: int) -> tuple[BlockComparison, ...]:
        """Those that a set's tree has won."""
        trees = [Join(self.tree(left), self.tree(right)) for left, right in self.splits(names)]
        return choose(self.costs, [TreeCost(tree) for tree in trees])[1]

    def used(self, names: int) -> list[int]:
        """The sets of a tree's joins, leaves to root."""
        if names not in self.splits_of_best:
            return []
        left, right = self.splits_of_best[names]
        return [*self.used(left), *self.used(right), names]


def plan_by_table(planner: str, figures: Figures, table: type[Table]) -> Planned:
    """The tree of all single variables, with the lists joined to it."""
    costs = Costs(figures)
    filled = table(costs)
    used = filled.used(filled.everything)
    tree, more = join_lists(costs, filled.whole)

    def unused(most: int | None) -> tuple[Block, ...]:
        beside = [names for names in filled.splits_of_best if names not in used]
        return tuple(map(filled.block, beside)) if most is None or len(beside) <= most else ()

    return Planned(planner, tree, costs.whole(tree), (*map(filled.block, used), *more), unused)


def tree_by_table(costs: Costs, table: type[Table]) -> Tree:
    """The same without a word why."""
    return join_lists(costs, table(costs).whole)[0]
