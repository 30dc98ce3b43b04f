"""The best tree of all, by dynamic programming over subsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensue.planning.comparisons import Planned
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.plan import Tree
from ensue.planning.tables import Table, plan_by_table, tree_by_table
from ensue.planning.zstream import ZStreamTree

LIMIT = 10
"""The most single variables whose trees are all looked at (3^10 / 2 splits); with more, ZStream's tree is taken."""


@dataclass(frozen=True, slots=True)
class BushyTree:
    """The tree of least cost."""

    name: str = "bushy"

    def plan(self, figures: Figures) -> Planned:
        """The tree, lists joined to it last; beyond LIMIT single variables ZStream's."""
        if len(figures.shape.singles) > LIMIT:
            return ZStreamTree().plan(figures)
        return plan_by_table(self.name, figures, _Subsets)


def best_tree(costs: Costs) -> Tree | None:
    """The tree of least cost without a word why; None if there are too many to look at."""
    return tree_by_table(costs, _Subsets) if 0 < len(costs.figures.shape.singles) <= LIMIT else None


class _Subsets(Table):
    """The best tree of each set. The first variable of the text stands left, which leaves out mirror images."""

    def sets(self) -> Iterator[int]:
        yield from (names for names in range(1 << len(self.names)) if names.bit_count() > 1)

    def splits(self, names: int) -> Iterator[tuple[int, int]]:
        rest = names & (names - 1)
        right = rest
        while right:
            yield names ^ right, right
            right = (right - 1) & rest
