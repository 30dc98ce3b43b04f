"""The best tree whose leaves stand in the order of the text: ZStream's algorithm.

Kolchinsky and Schuster, section 4.2 (Algorithm 3), after Mei and Madden. Only neighbours of the text are joined, so n
variables have n (n + 1) / 2 sub-plans, and any number of variables can be planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensue.planning.comparisons import Planned
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.plan import Tree
from ensue.planning.tables import Table, plan_by_table, tree_by_table


@dataclass(frozen=True, slots=True)
class ZStreamTree:
    """The tree of least cost over the text's order."""

    name: str = "zstream"

    def plan(self, figures: Figures) -> Planned:
        """The tree, lists joined to it last."""
        return plan_by_table(self.name, figures, _Intervals)


def text_tree(costs: Costs) -> Tree:
    """The same tree without a word why."""
    return tree_by_table(costs, _Intervals)


class _Intervals(Table):
    """The best tree of each stretch of the text."""

    def sets(self) -> Iterator[int]:
        count = len(self.names)
        for size in range(2, count + 1):
            for start in range(count - size + 1):
                yield ((1 << size) - 1) << start

    def splits(self, names: int) -> Iterator[tuple[int, int]]:
        start = (names & -names).bit_length()
        for place in range(start, names.bit_length()):
            left = names & ((1 << place) - 1)
            yield left, names ^ left
