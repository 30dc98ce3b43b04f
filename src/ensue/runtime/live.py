"""Numbers about the matches that are live at given times, for all times at once where that can be done."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ensue.events.batch import Int64s
from ensue.pattern.query import PatternAggregate
from ensue.runtime.aggregate_rows import Values
from ensue.runtime.aggregate_values import refuse_overflow


class Live:
    """Matches, each live from a time to before another in a group; and points, each a time and a group."""

    def __init__(self, known: Int64s, expires: Int64s, groups: Int64s, points: Int64s) -> None:
        """Put both in the order of group and time."""
        together = np.concatenate([points[:, 1:], groups])
        if together.shape[1]:
            _, numbers = np.unique(together, axis=0, return_inverse=True)
            numbers = numbers.reshape(-1)
        else:
            numbers = np.zeros(len(together), dtype=np.int64)
        times, ranks = np.unique(np.concatenate([points[:, 0], known, expires]), return_inverse=True)
        n, m, base = len(points), len(known), len(times) + 1
        own, of = numbers[:n], numbers[n:]
        self.times = points[:, 0]
        self.point = own * base + ranks[:n]
        self.start = of * base + ranks[n : n + m]
        self.stop = of * base + ranks[n + m :]
        self.first = own * base
        self.by_start, self.by_stop = np.argsort(self.start, kind="stable"), np.argsort(self.stop, kind="stable")
        self.starts, self.stops = self.start[self.by_start], self.stop[self.by_stop]
        self.began = np.searchsorted(self.starts, self.point, side="right")
        self.ended = np.searchsorted(self.stops, self.point, side="right")

    def total(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of weights over the live matches of each point: what has begun less what has ended.

        Matches of other groups before a point's have both begun and ended: they cancel out.
        """
        zero = np.zeros(1, dtype=weights.dtype)
        begun = np.concatenate([zero, np.cumsum(weights[self.by_start])])
        gone = np.concatenate([zero, np.cumsum(weights[self.by_stop])])
        found: npt.NDArray[Any] = begun[self.began] - gone[self.ended]
        return found

    def members(self, k: int) -> npt.NDArray[np.intp]:
        """The live matches of a point."""
        low = int(np.searchsorted(self.starts, self.first[k]))
        candidates = self.by_start[low : self.began[k]]
        live: npt.NDArray[np.intp] = candidates[self.stop[candidates] > self.point[k]]
        return live


def add_up(one: PatternAggregate, live: Live, measured: Values | None, name: str) -> Values:
    """An aggregate of the live matches of each point; `measured` are the values of the matches."""
    nothing = np.zeros(len(live.point), dtype=np.bool_)
    if measured is None:
        return live.total(np.ones(len(live.start), dtype=np.int64)), nothing
    values, null = measured
    present = live.total((~null).astype(np.int64))
    if one.function == "COUNT":
        return present, nothing
    if one.function in ("SUM", "AVG") and values.dtype == np.int64:
        totals = live.total(np.where(null, 0, values))
        size = live.total(np.where(null, 0.0, np.abs(values.astype(np.float64))))
        for place in np.flatnonzero(size > 2.0**62).tolist():  # it may have gone beyond 63 bits: look closely
            exact = sum(int(values[m]) for m in live.members(place) if not null[m])
            if abs(exact) >= 2**63:
                refuse_overflow(name, one, int(live.times[place]))
        if one.function == "SUM":
            return totals, present == 0
        return np.divide(totals, present, out=np.zeros(len(totals)), where=present != 0), present == 0
    found: list[Any] = []
    for k in range(len(live.point)):
        here = [values[m] for m in live.members(k) if not null[m]]
        if not here:
            found.append(0 if values.dtype != object else None)
        elif one.function in ("SUM", "AVG"):
            total = math.fsum(here)
            found.append(total / len(here) if one.function == "AVG" else total)
        else:
            found.append(min(here) if one.function == "MIN" else max(here))
    result = np.empty(len(found), dtype=object if values.dtype == object else values.dtype)
    if one.function == "AVG":
        result = np.empty(len(found), dtype=np.float64)
    result[:] = found
    return result, present == 0
