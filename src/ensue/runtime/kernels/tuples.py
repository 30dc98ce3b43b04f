"""Tuples of events counted along the pairs that they are made of, and these pairs themselves."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import kernel


@kernel
def compare(rows, columns, order, is_not):  # type: ignore[no-untyped-def]
    """Which values of rows are less (order -1) than those of columns, equal (0) or greater (1); or which are not.

    There is a matrix for each row of both.
    """
    found = np.empty((*rows.shape, columns.shape[1]), np.bool_)
    for k in range(len(rows)):
        for row in range(rows.shape[1]):
            value = rows[k, row]
            if order < 0:
                for column in range(columns.shape[1]):
                    found[k, row, column] = (value < columns[k, column]) != is_not
            elif order > 0:
                for column in range(columns.shape[1]):
                    found[k, row, column] = (value > columns[k, column]) != is_not
            else:
                for column in range(columns.shape[1]):
                    found[k, row, column] = (value == columns[k, column]) != is_not
    return found


@kernel
def near(left, right, left_ids, right_ids, left_numbers, right_numbers, within, ordered):  # type: ignore[no-untyped-def]
    """`ensue.statistics.sampling.near`, of times and numbers of events."""
    found = np.zeros((*left.shape, right.shape[1]), np.bool_)
    for k in range(len(left)):
        for row in range(left_numbers[k]):
            for column in range(right_numbers[k]):
                gap = right[k, column] - left[k, row]
                if ordered:
                    found[k, row, column] = (gap > 0) & (gap < within)
                else:
                    is_other = left_ids[k, row] != right_ids[k, column]
                    found[k, row, column] = is_other & (gap < within) & (-gap < within)
    return found


@kernel
def tally(pairs):  # type: ignore[no-untyped-def]
    """`ensue.statistics.together.tally`."""
    windows, size, other_size = pairs.shape
    rows, columns = np.zeros((windows, size), np.float32), np.zeros((windows, other_size), np.float32)
    for k in range(windows):
        for row in range(size):
            number = 0
            for column in range(other_size):
                number += pairs[k, row, column]
                columns[k, column] += np.float32(pairs[k, row, column])
            rows[k, row] = number
    return rows, columns


@kernel
def extend(counts, pairs):  # type: ignore[no-untyped-def]
    """`ensue.statistics.together.extend`.

    NumPy's own would start threads, and take the processor from others for a product of so small matrices.
    """
    rows, windows, size = counts.shape
    found = np.zeros((rows, windows, pairs.shape[2]), np.float32)
    for row in range(rows):
        for k in range(windows):
            for place in range(size):
                count = counts[row, k, place]
                if count != 0:
                    for other in range(pairs.shape[2]):
                        found[row, k, other] += count * np.float32(pairs[k, place, other])
    return found
