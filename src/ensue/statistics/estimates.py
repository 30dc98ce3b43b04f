"""A number that was estimated, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, and the variance of the way it was found (0: it is known)."""

    value: float
    variance: float = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def __str__(self) -> str:
        """The value, and how far it may be off: two standard deviations.

        >>> print(Estimate(0.5, 0.0001), Estimate(2.0))
        0.5 ± 0.02 2
        """
        return f"{self.value:.4g} ± {2 * self.deviation:.2g}" if self.variance else f"{self.value:.4g}"


def share(passed: float, seen: float, independent: float | None = None) -> Estimate:
    """The share of what passed, from a count: never quite 0 or 1, since what was not seen may still be.

    This is the mean of the share's distribution after the count if before it nothing was known (Jeffreys' prior,
    Beta(½, ½)). The variance is p(1-p)/n, where n is how many of those seen were `independent` of each other (all of
    them if it is not given).

    >>> share(0, 9), share(9, 9).value
    (Estimate(value=0.05, variance=0.00475), 0.95)
    """
    value = (passed + 0.5) / (seen + 1.0)
    return Estimate(value, value * (1.0 - value) / ((seen if independent is None else independent) + 1.0))
