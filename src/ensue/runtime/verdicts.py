"""What trials of plans have told, remembered for a while: costs that have misled once would do so at the next check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from ensue.runtime.trying import Trial

_AGAIN, _AGAIN_AT_MOST = 4, 64
"""After how many checks a plan that was slower is tried again: so many, then twice as many each time, and at most."""
_MOST = 64
_FURTHEST = 1e6


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trial of one plan in the place of another has told.

    `misled` is how many times as long it took as its share of the costs let expect. That counts before check number
    `until`. `pause` is how many checks that was away, 0 if the plan took over or is the one that it took over from.
    """

    misled: float
    until: int
    pause: int


class Verdicts:
    """The verdicts on pairs of plans, the one in use first."""

    def __init__(self, dumped: Iterable[list[Any]] = ()) -> None:
        self._known = {(old, new): Verdict(*one) for old, new, *one in dumped}

    def add(self, old: str, new: str, trial: Trial, expected: float, check: int) -> None:
        """Note what a trial at a check told of a plan that was expected to take so many times as long."""
        known = self._known.get((old, new))
        pause = _AGAIN if known is None or not known.pause else min(2 * known.pause, _AGAIN_AT_MOST)
        misled = min(max(trial.ratio / expected, 1.0 / _FURTHEST), _FURTHEST) if expected > 0 else 1.0
        self._known[old, new] = Verdict(misled, check + pause, 0 if trial.is_quicker else pause)
        self._known[new, old] = Verdict(1.0 / misled, check + pause, 0)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def misled(self, old: str, new: str, check: int) -> float:
        """How many times as long a plan takes as its share of the costs lets expect; 1 if nothing is known."""
        known = self._known.get((old, new))
        return known.misled if known is not None and check < known.until else 1.0

    def is_due(self, plan: str, check: int) -> bool:
        """Whether another plan may be tried again in the place of this one from this check on."""
        return any(old == plan and one.until == check for (old, _), one in self._known.items())

    def is_open(self, old: str, new: str, check: int) -> bool:
        """Whether it is worth while to try a plan, for it has not been slower some checks ago."""
        known = self._known.get((old, new))
        return known is None or not known.pause or check >= known.until

    def dump(self) -> list[list[Any]]:
        """As data that JSON can hold."""
        return [[*pair, *astuple(one)] for pair, one in self._known.items()]
