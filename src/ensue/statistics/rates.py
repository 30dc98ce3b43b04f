"""Arrival rates: how many events of each type come in a unit of event time, over the last window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ensue.errors import InputError, StateError
from ensue.events.batch import Int32s, Int64s
from ensue.statistics.estimates import Estimate
from ensue.statistics.histogram import ExponentialHistogram

_SLICES = 16
"""Into how many pieces at most a batch, or a window, is cut to be counted; what lies where in one is not looked at."""


def count_expired(times: Int64s, window: int | None) -> int:
    """How many of a batch's sorted times are outside the window that ends with the last of them."""
    if window is None or not len(times) or int(times[0]) > int(times[-1]) - window:
        return 0
    return int(np.searchsorted(times, int(times[-1]) - window, side="right"))


class Rates:
    """Events a step of time, for each of some types, over the last `window` steps (None: since the start).

    Before a whole window has passed, the time since the first event of any type stands for it; time whose events were
    not seen (`skip`) does not count. Where arrivals are independent of each other (a Poisson process), the variance of
    a count is the count; that of the rate, count/time².

    >>> import numpy as np
    >>> rates = Rates(["A", "B"], window=100)
    >>> _ = rates.observe(np.arange(50), np.array([0, 1, 2, 0, 0] * 10, dtype=np.int32), ["A", "X", "B"])
    >>> rates.at(49)["A"].value, rates.at(49)["B"].value, rates.at(99)["A"].value
    (0.6, 0.2, 0.3)
    """

    def __init__(self, types: Iterable[str], window: int | None, error: float = 0.05) -> None:
        self.counts = {name: ExponentialHistogram(window, error) for name in types}
        self.window = window
        self.start: int | None = None
        self.latest: int | None = None
        self.gaps: list[tuple[int, int]] = []  # the first and last step of time that was not seen
        self._skipped = False

    def observe(self, times: Int64s, codes: Int32s, names: list[str]) -> dict[str, int]:
        """Take in a batch: its times in order, and each event's type as a place in `names`.

        Gives how many there are of each of the types in the window that ends with the batch. All that it looks at of
        every event is the type's code.
        """
        if not len(times):
            return dict.fromkeys(self.counts, 0)
        if self.latest is not None and times[0] < self.latest:
            raise InputError(f"times must not run backwards: {times[0]} after {self.latest}")
        if self.start is None:
            self.start = int(times[0])
        elif self._skipped and self.latest is not None:
            self.gaps.append((self.latest + 1, int(times[0]) - 1))
        self._skipped = False
        self.latest = int(times[-1])
        if self.gaps and self.window is not None and self.gaps[0][1] <= self.latest - self.window:
            self.gaps = [gap for gap in self.gaps if gap[1] > self.latest - self.window]
        start = count_expired(times, self.window)
        size = len(times) - start
        pieces = min(_SLICES, -(-size // _SLICES))
        if self.window is not None:  # a batch that is a small part of the window need not be cut so finely
            span = int(times[-1]) - int(times[start]) + 1
            pieces = min(pieces, -(-_SLICES * span // self.window))
        cuts = start + size * np.arange(pieces + 1) // pieces
        spans = list(zip(times[cuts[:-1]].tolist(), times[cuts[1:] - 1].tolist(), strict=True))
        piece = np.repeat(np.arange(pieces) * len(names), np.diff(cuts))
        table = np.bincount(codes[start:] + piece, minlength=pieces * len(names)).reshape(pieces, len(names))
        found = {}
        for name, histogram in self.counts.items():
            numbers = table[:, names.index(name)].tolist() if name in names else []
            histogram.add_spans(spans, numbers)
            found[name] = sum(numbers)
        return found

    def skip(self) -> None:
        """Events have gone by unseen: the time up to those that are observed next does not count."""
        self._skipped = True

    def look_back(self, window: int) -> None:
        """Look back further, or less far, from now on; what has been forgotten stays so."""
        self.window = window
        if self.start is not None and self.latest is not None:
            self.start = max(self.start, self.latest - window + 1)
        for histogram in self.counts.values():
            histogram.look_back(window, self.latest)

    def covered(self, now: int) -> int:
        """How many steps of time up to `now` the rates are about."""
        if self.start is None:
            return 0
        seen = now - self.start + 1
        if self.window is not None:
            seen = min(seen, self.window)
        first = now - seen + 1
        return seen - sum(max(0, high - max(low, first) + 1) for low, high in self.gaps)

    def at(self, now: int) -> dict[str, Estimate]:
        """The rate of each type at a time that is not before the last event."""
        time = max(1, self.covered(now))
        counts = {name: histogram.estimate(now) for name, histogram in self.counts.items()}
        # Of a type that was not seen the rate may still be as much as one event in that time.
        return {name: Estimate(count / time, max(count, 1.0) / time**2) for name, count in counts.items()}

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        return {
            "window": self.window,
            "start": self.start,
            "latest": self.latest,
            "gaps": self.gaps,
            "skipped": self._skipped,
            "counts": {name: histogram.dump() for name, histogram in self.counts.items()},
        }

    @classmethod
    def load(cls, state: dict[str, Any]) -> Rates:
        """Rates from what `dump` gave."""
        try:
            rates = cls((), state["window"])
            rates.start, rates.latest = state["start"], state["latest"]
            rates.gaps, rates._skipped = [(low, high) for low, high in state["gaps"]], state["skipped"]
            rates.counts = {name: ExponentialHistogram.load(one) for name, one in state["counts"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError(f"this is not the state of rates: {error!r}; start with new statistics") from error
        return rates
