"""Tuples of events counted along the pairs that they are made of."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import kernel


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
