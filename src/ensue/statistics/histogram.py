"""How much came in the last window of time, in little memory: exponential histograms.

After M. Datar, A. Gionis, P. Indyk, R. Motwani, "Maintaining stream statistics over sliding windows" (SIAM J. Comput.
31(6), 2002). The past is kept as buckets, the older the larger. All but one of the buckets lie within the window or
outside it; the window's edge cuts through at most one. If that one weighs at most `error` times what is newer than it,
all of which is in the window, then a wrong guess about its parts is a relative error of at most `error`.

The paper keeps buckets whose sizes are powers of two. Here any sizes do, as long as that one condition holds for each
bucket that has more than one moment in it. So counts and sums of non-negative numbers are the same thing, and a batch
of any length costs no more than the buckets that it becomes. The condition stays true when newer things come and when
older ones go; only merging buckets has to look at it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np

from ensue.errors import InputError, StateError
from ensue.events.batch import Int64s

_SLACK = 64


class ExponentialHistogram:
    """The total of what came in the last `window` steps of time, with a relative error of at most `error`.

    At time `now` these are the times `now - window < time <= now`; a window of None is all of the past. Times must not
    run backwards. It takes memory for O(1/error · log n) buckets.

    >>> histogram = ExponentialHistogram(window=10, error=0.1)
    >>> histogram.add(1); histogram.add(5, count=3)
    >>> histogram.estimate(10), histogram.estimate(11), histogram.estimate(15)
    (4.0, 3.0, 0.0)
    """

    __slots__ = ("_cuts", "_limit", "_newest", "_oldest", "_total", "_weights", "error", "window")

    def __init__(self, window: int | None, error: float = 0.05) -> None:
        if window is not None and window < 1:
            raise InputError(f"the window of a histogram is {window}; it must be at least 1 step of time")
        if not 0 < error < 1:
            raise InputError(f"the error of a histogram is {error}; it must lie between 0 and 1")
        self.window = window
        self.error = error
        # The buckets, oldest first: the time of the first and of the last thing in each, and how much is in it.
        self._oldest: list[int] = []
        self._newest: list[int] = []
        self._weights: list[float] = []
        self._total = 0.0
        self._limit = _SLACK
        self._cuts = [0]

    def __len__(self) -> int:
        """How many buckets there are."""
        return len(self._weights)

    @property
    def latest(self) -> int | None:
        """The time of the last thing that is still known."""
        return self._newest[-1] if self._newest else None

    def add(self, time: int, count: float = 1) -> None:
        """Take in `count` at one time: a number of events, or a value to be summed up."""
        self.add_span(time, time, count)

    def add_span(self, first: int, last: int, count: float) -> None:
        """Take in `count` between two times, of which nobody knows where.

        While the window's edge lies between them they are taken to be spread evenly, and the error is what that is
        wrong by; before and after it is that of the histogram.
        """
        if count < 0:
            raise InputError(f"a histogram cannot take in {count}; counts and values must not be negative")
        if last < first or (self._newest and first < self._newest[-1]):
            raise InputError(f"times must not run backwards: {first} to {last} after {self.latest}")
        if count > 0:
            self._oldest.append(first)
            self._newest.append(last)
            self._weights.append(count)
            self._total += count
            if len(self._weights) > self._limit:
                self._compact()

    def add_spans(self, spans: Iterable[tuple[int, int]], counts: Iterable[float]) -> None:
        """Take in a count between each two times, as `add_span` does."""
        for (first, last), count in zip(spans, counts, strict=False):
            if count:
                self.add_span(first, last, count)

    def add_many(self, times: Int64s) -> None:
        """Take in one event at each of these sorted times; of a long batch only a few times are looked at."""
        count = len(times)
        if not count:
            return
        if self._newest and times[0] < self._newest[-1]:
            raise InputError(f"times must not run backwards: {times[0]} after {self.latest}")
        ends = np.array(self._cut(count), dtype=np.int64)  # the places between buckets, counted from the newest event
        self._oldest += times[count - ends[1:]][::-1].tolist()
        self._newest += times[count - 1 - ends[:-1]][::-1].tolist()
        self._weights += np.diff(ends)[::-1].tolist()
        self._total += count
        if len(self._weights) > self._limit:
            self._compact()

    def _cut(self, count: int) -> list[int]:
        """Where to cut a row of events into the largest buckets that may be: 0, the newest one, …, all of them."""
        cuts = self._cuts
        while cuts[-1] < count:
            cuts.append(cuts[-1] + max(1, int(self.error * cuts[-1])))
        return [*cuts[: bisect_right(cuts, count - 1)], count]

    def _compact(self) -> None:
        """Forget what has left the window, and merge neighbours where the merged bucket may be that large."""
        if self.window is not None:
            gone = bisect_right(self._newest, self._newest[-1] - self.window)
            del self._oldest[:gone], self._newest[:gone], self._weights[:gone]
        merged: list[tuple[int, int, float]] = []
        newer = 0.0
        oldest, newest, weight = self._oldest[-1], self._newest[-1], self._weights[-1]
        for i in range(len(self._weights) - 2, -1, -1):
            together = weight + self._weights[i]
            if together <= self.error * newer or self._oldest[i] == newest:
                oldest, weight = self._oldest[i], together
            else:
                merged.append((oldest, newest, weight))
                newer += weight
                oldest, newest, weight = self._oldest[i], self._newest[i], self._weights[i]
        merged.append((oldest, newest, weight))
        merged.reverse()
        self._oldest = [bucket[0] for bucket in merged]
        self._newest = [bucket[1] for bucket in merged]
        self._weights = [bucket[2] for bucket in merged]
        self._total = float(sum(self._weights))
        self._limit = 2 * len(merged) + _SLACK

    def look_back(self, window: int, now: int | None) -> None:
        """Look back further, or less far, from now on; what is not in the window that ends at `now` is forgotten."""
        self.window = window
        if now is None:
            return
        gone = bisect_right(self._newest, now - window)
        del self._oldest[:gone], self._newest[:gone], self._weights[:gone]
        self._total = float(sum(self._weights))

    def estimate(self, now: int | None = None) -> float:
        """How much lies in the window that ends at `now` (not before the last time that came; None: at that)."""
        if not self._newest:
            return 0.0
        if now is None:
            now = self._newest[-1]
        elif now < self._newest[-1]:
            raise InputError(f"a histogram forgets: it cannot say what there was at {now}, before {self.latest}")
        if self.window is None:
            return self._total
        edge = now - self.window
        gone = bisect_right(self._newest, edge)
        rest = self._total - sum(self._weights[:gone])
        if gone == len(self._weights):
            return 0.0
        oldest, newest = self._oldest[gone], self._newest[gone]
        if oldest <= edge:
            rest -= self._weights[gone] * (edge - oldest + 1) / (newest - oldest + 1)
        return float(max(rest, 0.0))

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        buckets = [list(bucket) for bucket in zip(self._oldest, self._newest, self._weights, strict=True)]
        return {"window": self.window, "error": self.error, "buckets": buckets}

    @classmethod
    def load(cls, state: dict[str, Any]) -> ExponentialHistogram:
        """A histogram from what `dump` gave.

        >>> before = ExponentialHistogram(10)
        >>> before.add(3)
        >>> ExponentialHistogram.load(before.dump()).estimate(5)
        1.0
        """
        try:
            histogram = cls(state["window"], state["error"])
            for first, last, weight in state["buckets"]:
                histogram._oldest.append(int(first))
                histogram._newest.append(int(last))
                histogram._weights.append(weight)
            histogram._total = float(sum(histogram._weights))
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise StateError(f"this is not the state of a histogram: {error!r}; start with new statistics") from error
        histogram._limit = 2 * len(histogram._weights) + _SLACK
        return histogram
