"""Times by how often they came: percentiles of any number of them in little memory."""

from __future__ import annotations

import math

_PARTS = 32
"""Classes between a time and its double: a percentile is off by 2 % at most."""
_LEAST = 1e-7
_CLASSES = 40 * _PARTS


class Latencies:
    """How long things took, in seconds.

    >>> times = Latencies()
    >>> for milliseconds in range(1, 101):
    ...     times.add(milliseconds / 1000)
    >>> round(times.percentile(50), 3), round(times.percentile(99), 2), times.count
    (0.05, 0.1, 100)
    """

    def __init__(self) -> None:
        self._counts = [0] * _CLASSES
        self.count = 0
        self.total = 0.0
        self.most = 0.0

    def add(self, seconds: float, number: int = 1) -> None:
        """Count a time, or several that are the same."""
        place = int(_PARTS * math.log2(seconds / _LEAST)) if seconds > _LEAST else 0
        self._counts[min(place, _CLASSES - 1)] += number
        self.count += number
        self.total += seconds * number
        self.most = max(self.most, seconds)

    @property
    def mean(self) -> float:
        """The average, 0 of nothing."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The time that so many of 100 did not exceed, 0 of nothing."""
        wanted, seen = percent / 100 * self.count, 0
        for place, number in enumerate(self._counts):
            seen += number
            if number and seen >= wanted:
                return min(_LEAST * 2 ** ((place + 0.5) / _PARTS), self.most)
        return self.most
