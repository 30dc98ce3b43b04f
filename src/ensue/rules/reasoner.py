"""A small reasoner over time points: what follows from conditions `a − b <= c` on the begins and ends of events.

Times are whole numbers, so `a < b` is `a − b <= −1`. All that follows is found by shortest paths (Floyd and Warshall).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Point: TypeAlias = tuple[str, str]
"""The begin or the end of an event: `("o", "end")`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """`left − right <= most`, and the text that says so."""

    left: Point
    right: Point
    most: int
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Closure:
    """The least `c` with `a − b <= c` that follows, for each pair of points for which one does."""

    most: Mapping[tuple[Point, Point], int]
    is_possible: bool = True

    def difference(self, a: Point, b: Point) -> int | None:
        """The greatest possible `a − b`; None if nothing bounds it."""
        return 0 if a == b else self.most.get((a, b))

    def is_before(self, a: Point, b: Point) -> bool:
        """Whether `a < b` follows."""
        difference = self.difference(a, b)
        return difference is not None and difference < 0


def close(constraints: Iterable[Constraint]) -> Closure:
    """All that follows from constraints.

    >>> order, shipped = ("o", "end"), ("s", "begin")
    >>> facts = [Constraint(order, shipped, -1), Constraint(shipped, ("s", "end"), 0)]
    >>> close(facts).is_before(order, ("s", "end"))
    True
    """
    most: dict[tuple[Point, Point], int] = {}
    for one in constraints:
        pair = (one.left, one.right)
        most[pair] = min(one.most, most.get(pair, one.most))
    points = list(dict.fromkeys(point for pair in most for point in pair))
    for via in points:
        for a in points:
            first = most.get((a, via))
            if first is None:
                continue
            for b in points:
                second = most.get((via, b))
                if second is not None and first + second < most.get((a, b), first + second + 1):
                    most[(a, b)] = first + second
    return Closure(most, all(most.get((p, p), 0) >= 0 for p in points))
