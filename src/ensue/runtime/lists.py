"""Aggregates over the lists of Kleene variables: one value a list, for all lists at once.

Lists lie one after the other: list i is `offsets[i]:offsets[i + 1]`. Sums run through a list from its first element to
its last, as the contract wants it; NumPy's own sums add pairwise and differ in the last bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.events.times import LARGEST
from ensue.runtime.values import Column, Kind, floats

Int64s = npt.NDArray[np.int64]

_LONG = 64  # lists longer than this are summed one by one


def aggregate(function: str, column: Column, offsets: Int64s) -> Column:
    """COUNT, SUM, AVG, MIN or MAX of the non-null values of each list; null (COUNT: 0) where there is none."""
    column = column.stretch(int(offsets[-1]))
    counts = count_values(column, offsets)
    if function == "COUNT":
        return Column(Kind.INT, counts)
    empty = counts == 0
    missing = empty if empty.any() else None
    if column.null is not None:  # without nulls, so that what follows need not look for them
        there = ~column.null
        column = Column(column.kind, column.values[there], None, column.words)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if function in ("MIN", "MAX"):
        return _extreme(function, column, offsets, missing)
    if column.kind is Kind.FLOAT:
        total = sum_floats(column.values, offsets)
        return floats(total if function == "SUM" else _divide(total, counts), missing)
    exact, whole, unfit = sum_ints(column.values, offsets)
    if function == "AVG":
        total = whole.astype(np.float64)
        for place, value in exact.items():
            total[place] = float(value)
        return floats(_divide(total, counts), missing)
    if unfit is not None:
        missing = unfit if missing is None else missing | unfit
    return Column(column.kind, whole, missing)


def count_values(column: Column, offsets: Int64s) -> Int64s:
    """How many values of each list are not null."""
    if column.null is None:
        return np.diff(offsets)
    before = np.concatenate([[0], np.cumsum(~column.null)]).astype(np.int64)
    return before[offsets[1:]] - before[offsets[:-1]]


def sum_floats(values: npt.NDArray[np.float64], offsets: Int64s) -> npt.NDArray[np.float64]:
    """The sum of each list, added up from the first element to the last."""
    lengths = np.diff(offsets)
    total = np.zeros(len(lengths), dtype=np.float64)
    with np.errstate(all="ignore"):
        for place in np.flatnonzero(lengths > _LONG).tolist():
            total[place] = np.cumsum(values[offsets[place] : offsets[place + 1]])[-1]
        going = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
        step = 0
        while len(going):
            total[going] += values[offsets[going] + step]
            step += 1
            going = going[lengths[going] > step]
    return total


def sum_ints(values: Int64s, offsets: Int64s) -> tuple[dict[int, int], Int64s, npt.NDArray[np.bool_] | None]:
    """The sum of each list; for lists whose sum might not fit also the exact one, and a mask of those that do not."""
    before = np.concatenate([[0], np.cumsum(values)]).astype(np.int64)  # wraps around, and the difference wraps back
    whole = before[offsets[1:]] - before[offsets[:-1]]
    lengths = np.diff(offsets)
    largest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if not len(lengths) or largest * int(lengths.max()) <= LARGEST:
        return {}, whole, None
    size = np.concatenate([[0.0], np.cumsum(np.abs(values).astype(np.float64))])
    doubtful = size[offsets[1:]] - size[offsets[:-1]] > 2.0**62
    if float(size[-1]) > 2.0**100:
        doubtful[:] = True
    exact = {
        place: sum(values[offsets[place] : offsets[place + 1]].tolist()) for place in np.flatnonzero(doubtful).tolist()
    }
    unfit = np.zeros(len(lengths), dtype=np.bool_)
    for place, value in exact.items():
        unfit[place] = abs(value) > LARGEST
    return exact, whole, unfit if unfit.any() else None


def _divide(total: npt.NDArray[np.float64], counts: Int64s) -> npt.NDArray[np.float64]:
    return total / np.maximum(counts, 1)


def _extreme(function: str, column: Column, offsets: Int64s, missing: npt.NDArray[np.bool_] | None) -> Column:
    values = column.values
    if column.kind is Kind.STRING:
        words = sorted(column.words)
        place = {word: i for i, word in enumerate(words)}
        values = np.array([place[word] for word in column.words], dtype=np.int64)[values]
        column = Column(Kind.STRING, values, None, tuple(words))
    result = np.zeros(len(offsets) - 1, dtype=values.dtype)
    filled = np.diff(offsets) > 0
    if filled.any():  # between the starts of lists that are not empty lie exactly their elements
        reduce = np.minimum if function == "MIN" else np.maximum
        result[filled] = reduce.reduceat(values, offsets[:-1][filled])
    return Column(column.kind, result, missing, column.words)
