"""How far an invariant must be broken before it counts: the distance d of Kolchinsky and Schuster, section 3.4.

`left < right` counts as broken once left exceeds (1 + d)·right: "the smallest relative difference between the two
sides required for an invariant to be considered as violated". (The formula printed there, (1 + d)·left < right, would
say the opposite: an invariant whose sides are close would be broken from the start, and a larger d would lead to more
replacements, where the paper's experiments have fewer.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from ensue.errors import PlanError, StateError
from ensue.planning.comparisons import BlockComparison

SMALLEST, LARGEST = 0.01, 4.0
"""Where a tuned distance that is raised starts, and where it ends."""


@dataclass(frozen=True, slots=True)
class ConstantDistance:
    """The same d for all invariants at all times."""

    d: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.d) and self.d >= 0):
            raise PlanError(f"a distance of {self.d} says nothing: it has to be a number of at least 0")

    def of(self, key: str) -> float:
        """The distance of the comparison with that key."""
        return self.d

    def armed(self, watched: Iterable[BlockComparison]) -> ConstantDistance:
        """The rule once a plan has been made, whose comparisons are watched."""
        return self

    def after(self, key: str, gain: float) -> ConstantDistance:
        """The rule once the comparison with that key was broken and the new plan gained that share of the cost."""
        return self


@dataclass(frozen=True, slots=True)
class AverageDistance:
    """d as the average relative difference between the sides of the watched comparisons, at the first planning.

    The paper averages over "a deciding condition" and gets 0.09 to 0.9 on skewed data, which only the tight
    ones, those that are watched, can give: the loose ones lie apart by factors.
    """

    d: float | None = None

    def of(self, key: str) -> float:
        """The distance of the comparison with that key."""
        return self.d or 0.0

    def armed(self, watched: Iterable[BlockComparison]) -> AverageDistance:
        """The rule once a plan has been made, whose comparisons are watched."""
        return self if self.d is not None else AverageDistance(average_difference(watched))

    def after(self, key: str, gain: float) -> AverageDistance:
        """The rule once the comparison with that key was broken and the new plan gained that share of the cost."""
        return self


@dataclass(frozen=True, slots=True)
class TunedDistance:
    """d tuned while running: a replacement that gained less than `wanted` doubles it, one that gained more halves it.

    So a comparison that swings to and fro for little is left alone soon, and one that pays is watched closely. With
    `each` every comparison has a distance of its own (it keeps it when its sides change places), else all share
    `start`. A `start` that is not given is the average relative difference at the first planning.
    """

    start: float | None = None
    wanted: float = 0.05
    each: bool = True
    own: Mapping[str, float] = field(default_factory=dict, hash=False)

    def of(self, key: str) -> float:
        """The distance of the comparison with that key."""
        return self.own.get(key, self.start or 0.0)

    def armed(self, watched: Iterable[BlockComparison]) -> TunedDistance:
        """The rule once a plan has been made, whose comparisons are watched."""
        return self if self.start is not None else replace(self, start=min(average_difference(watched), LARGEST))

    def after(self, key: str, gain: float) -> TunedDistance:
        """The rule once the comparison with that key was broken and the new plan gained that share of the cost."""
        d = self.of(key)
        d = d / 2 if gain >= self.wanted else min(max(2 * d, SMALLEST), LARGEST)
        return replace(self, own={**self.own, key: d}) if self.each else replace(self, start=d)


Distance: TypeAlias = ConstantDistance | AverageDistance | TunedDistance


def average_difference(comparisons: Iterable[BlockComparison]) -> float:
    """The average of |right − left| / min(left, right) when the plan was made; sides at 0 are left out."""
    found = [abs(c.slack) / min(c.values) for c in comparisons if min(c.values) > 0 and math.isfinite(max(c.values))]
    return sum(found) / len(found) if found else 0.0


def dump_distance(distance: Distance) -> dict[str, Any]:
    """A rule as data that JSON can hold."""
    match distance:
        case ConstantDistance(d=d):
            return {"rule": "constant", "d": d}
        case AverageDistance(d=average):
            return {"rule": "average", "d": average}
        case TunedDistance(start=start, wanted=wanted, each=each, own=own):
            return {"rule": "tuned", "start": start, "wanted": wanted, "each": each, "own": dict(own)}
        case _:
            assert_never(distance)


def load_distance(data: Mapping[str, Any]) -> Distance:
    """What `dump_distance` gave."""
    match data:
        case {"rule": "constant", "d": d}:
            return ConstantDistance(d)
        case {"rule": "average", "d": d}:
            return AverageDistance(d)
        case {"rule": "tuned", "start": start, "wanted": wanted, "each": each, "own": own}:
            return TunedDistance(start, wanted, each, own)
    raise StateError(f"{data!r} is no rule for distances: the state was saved by another version, or is damaged")
