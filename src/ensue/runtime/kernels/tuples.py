"""Tuples of events counted along the pairs that they are made of, and these pairs themselves."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import kernel


@kernel
def compare(rows, columns, order, is_not):  # type: ignore[no-untyped-def]
    """Which values of rows are less (order -1) than those of columns, equal (0) or greater (1); or which are not."""
    found = np.empty((len(rows), len(columns)), np.bool_)
    for row in range(len(rows)):
        value = rows[row]
        if order < 0:
            for column in range(len(columns)):
                found[row, column] = (value < columns[column]) != is_not
        elif order > 0:
            for column in range(len(columns)):
                found[row, column] = (value > columns[column]) != is_not
        else:
            for column in range(len(columns)):
                found[row, column] = (value == columns[column]) != is_not
    return found


@kernel
def mark(low, high, size):  # type: ignore[no-untyped-def]
    """`ensue.statistics.sampling.mark`."""
    found = np.zeros((len(low), size), np.bool_)
    for row in range(len(low)):
        found[row, low[row] : high[row]] = True
    return found


@kernel
def tally(pairs):  # type: ignore[no-untyped-def]
    """`ensue.statistics.together.tally`."""
    rows, columns = np.zeros(pairs.shape[0], np.float32), np.zeros(pairs.shape[1], np.float32)
    for row in range(pairs.shape[0]):
        number = 0
        for column in range(pairs.shape[1]):
            number += pairs[row, column]
            columns[column] += np.float32(pairs[row, column])
        rows[row] = number
    return rows, columns


@kernel
def extend(counts, pairs):  # type: ignore[no-untyped-def]
    """`ensue.statistics.together.extend`.

    NumPy's own would start threads, and take the processor from others for a product of so small matrices.
    """
    rows, size = counts.shape
    found = np.zeros((rows, pairs.shape[1]), np.float32)
    for row in range(rows):
        for place in range(size):
            count = counts[row, place]
            if count != 0:
                for other in range(pairs.shape[1]):
                    found[row, other] += count * np.float32(pairs[place, other])
    return found
