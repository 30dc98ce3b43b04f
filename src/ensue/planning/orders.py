"""The best order of all, by dynamic programming over subsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensue.planning.comparisons import BlockComparison, Planned, TreeCost, choose
from ensue.planning.figures import Figures
from ensue.planning.greedy import GreedyOrder
from ensue.planning.plan import Leaf
from ensue.planning.tables import Table, plan_by_table

LIMIT = 12
"""The most single variables whose subsets (4,096) are searched; with more, the greedy order is taken."""


@dataclass(frozen=True, slots=True)
class OptimalOrder:
    """The left-deep tree of least cost."""

    name: str = "order"

    def plan(self, figures: Figures) -> Planned:
        """The order as a left-deep tree; beyond LIMIT single variables the greedy one."""
        if len(figures.shape.singles) > LIMIT:
            return GreedyOrder().plan(figures)
        return plan_by_table(self.name, figures, _Orders)


class _Orders(Table):
    """The best order of each set: which variable is last. The first two cost the same either way: rarer first."""

    def sets(self) -> Iterator[int]:
        yield from (names for names in range(1 << len(self.names)) if names.bit_count() > 1)

    def splits(self, names: int) -> Iterator[tuple[int, int]]:
        bits = [1 << bit for bit in range(len(self.names)) if names >> bit & 1]
        if len(bits) == 2:
            first, second = bits
            yield (first, second) if self.best[first] <= self.best[second] else (second, first)
            return
        for last in reversed(bits):
            yield names ^ last, last

    def comparisons(self, names: int) -> tuple[BlockComparison, ...]:
        if names.bit_count() > 2:
            return super().comparisons(names)
        return choose(self.costs, [TreeCost(Leaf(name)) for name in self.names if name in self.members(names)])[1]
