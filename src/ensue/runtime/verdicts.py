"""What races of plans have told, remembered for a while: costs that have misled once would do so at the next check."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any

_AGAIN, _AGAIN_AT_MOST = 4, 64
"""After how many checks a plan that was slower is tried again: so many, then twice as many each time, and at most."""
_MOST = 64
_FURTHEST = 1e6
"""As how many times as dear a plan counts at most: as one that could not be run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a race has told of one plan in the place of another, which was quicker.

    `misled` is how many times as long it took as its share of the costs let expect. That counts before check number
    `until`, `pause` checks away.
    """

    misled: float
    until: int
    pause: int


class Verdicts:
    """The verdicts on pairs of plans, the one in use first."""

    def __init__(self, dumped: Iterable[list[Any]] = ()) -> None:
        self._known = {(old, new): Verdict(*one) for old, new, *one in dumped}

    def add(self, used: str, other: str, ratio: float, expected: float, check: int) -> None:
        """Note that a plan took so many times as long as the one in use, and was expected to take so many times."""
        known = self._known.pop((used, other), None)
        pause = _AGAIN if known is None else min(2 * known.pause, _AGAIN_AT_MOST)
        misled = min(max(ratio / expected, 1.0 / _FURTHEST), _FURTHEST) if expected > 0 else 1.0
        self._known[used, other] = Verdict(misled, check + pause, pause)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def forget(self) -> None:
        """The stream is another one now: what was slower may be quicker."""
        self._known.clear()

    def misled(self, used: str, other: str, check: int, *, lasts: bool = False) -> float:
        """How many times as long a plan takes as its share of the costs lets expect; 1 if nothing is known.

        Nor after some time, unless what was told once `lasts`. That a plan could not be run does not.
        """
        known = self._known.get((used, other))
        if known is None or (check >= known.until and not (lasts and known.misled < _FURTHEST)):
            return 1.0
        return known.misled

    def is_due(self, used: str, check: int) -> bool:
        """Whether it is time to try other plans again in the place of this one."""
        return any(plan == used and one.until <= check for (plan, _), one in self._known.items())

    def is_open(self, used: str, other: str, check: int) -> bool:
        """Whether it is worth while to try a plan, for it has not been slower some checks ago."""
        known = self._known.get((used, other))
        return known is None or check >= known.until

    def put_off(self, used: str, open: Container[str], check: int) -> None:
        """Let plans that might be tried again by now wait once more, but for those that are still `open`."""
        for (plan, other), one in self._known.items():
            if plan == used and one.until <= check and other not in open:
                pause = min(2 * one.pause, _AGAIN_AT_MOST)
                self._known[plan, other] = replace(one, until=check + pause, pause=pause)

    def dump(self) -> list[list[Any]]:
        """As data that JSON can hold."""
        return [[*pair, *astuple(one)] for pair, one in self._known.items()]
