"""The join of two relations of tuples as events come: both sides in the order of time, each probing the other's index.

A relation is a matrix of int64, a row a tuple: column 0 is its arrival (the latest end among its events), then whatever
its plan says; floats are there by their bits. An index is a table of chains: `head[bucket]` is the newest row of a
bucket, `previous[row]` the one before it, -1 ends a chain. So a chain runs from new to old, and can be left where
rows are too old to matter. Bry and Eckert, section 4: L_new ⋈ R_old ∪ L_old ⋈ R_new ∪ L_new ⋈ R_new.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ensue.runtime.kernels.compiled import inner, kernel

# places in the cursor, where a search that ran out of room goes on
C_LEFT, C_RIGHT, C_SIDE, C_CHAIN, C_FOUND, C_SIZE = 0, 1, 2, 3, 4, 5
_NONE, _LEFT, _RIGHT = 0, 1, 2


@inner
def _bucket(row: Any, columns: Any, size: Any) -> Any:
    """The bucket of a row, by the values of the columns that an index is over."""
    h = np.uint64(0)
    for k in range(len(columns)):
        h = (h ^ np.uint64(row[columns[k]])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(size - 1))


@inner
def _fits(a: Any, b: Any, equal: Any, most: Any) -> Any:
    """Whether two rows are equal in pairs of columns, and differ in others by at most so much."""
    for k in range(len(equal)):
        if a[equal[k, 0]] != b[equal[k, 1]]:
            return False
    for k in range(len(most)):
        # a column of which side less a column of the other: [0] 1 if the left one comes first
        if most[k, 0] == 1:
            if a[most[k, 1]] - b[most[k, 2]] > most[k, 3]:
                return False
        elif b[most[k, 2]] - a[most[k, 1]] > most[k, 3]:
            return False
    return True


@kernel
def index_rows(rows: Any, first: Any, count: Any, columns: Any, head: Any, previous: Any) -> None:
    """Put rows into an index."""
    for i in range(first, count):
        place = _bucket(rows[i], columns, len(head))
        previous[i] = head[place]
        head[place] = i


@kernel
def join_rows(
    left: Any,
    left_count: Any,
    left_columns: Any,
    left_head: Any,
    left_previous: Any,
    left_keeps: Any,
    left_life: Any,
    right: Any,
    right_count: Any,
    right_columns: Any,
    right_head: Any,
    right_previous: Any,
    right_keeps: Any,
    right_life: Any,
    equal: Any,
    most: Any,
    first_only: Any,
    cursor: Any,
    found: Any,
) -> Any:
    """Join the rows from the cursor on with those in the indexes and with each other; pairs of places go to `found`.

    `keeps` says whether a side's rows are put into its index, `life` how long after its arrival a row can matter.
    `equal` are pairs of columns, `most` rows (which, column of left, column of right, bound). With `first_only` one
    partner is enough for a row of the left. True when all is done; False when `found` is full: call again.
    """
    i, j, side, chain = cursor[C_LEFT], cursor[C_RIGHT], cursor[C_SIDE], cursor[C_CHAIN]
    n = 0
    while True:
        if side == _NONE:
            if i < left_count and (j >= right_count or left[i, 0] <= right[j, 0]):
                side = _LEFT
                chain = right_head[_bucket(left[i], left_columns, len(right_head))]
            elif j < right_count:
                side = _RIGHT
                chain = left_head[_bucket(right[j], right_columns, len(left_head))]
            else:
                break
        if side == _LEFT:
            row = left[i]
            while chain >= 0:
                other = right[chain]
                if other[0] + right_life < row[0]:
                    chain = -1
                    break
                if _fits(row, other, equal, most):
                    if n == len(found):
                        break
                    found[n, 0] = i
                    found[n, 1] = chain
                    n += 1
                    if first_only:
                        chain = -1
                        break
                chain = right_previous[chain]
            if chain >= 0:
                break
            if left_keeps:
                place = _bucket(row, left_columns, len(left_head))
                left_previous[i] = left_head[place]
                left_head[place] = i
            i += 1
        else:
            row = right[j]
            while chain >= 0:
                other = left[chain]
                if other[0] + left_life < row[0]:
                    chain = -1
                    break
                if _fits(other, row, equal, most):
                    if n == len(found):
                        break
                    found[n, 0] = chain
                    found[n, 1] = j
                    n += 1
                chain = left_previous[chain]
            if chain >= 0:
                break
            if right_keeps:
                place = _bucket(row, right_columns, len(right_head))
                right_previous[j] = right_head[place]
                right_head[place] = j
            j += 1
        side = _NONE
    cursor[C_LEFT], cursor[C_RIGHT], cursor[C_SIDE], cursor[C_CHAIN], cursor[C_FOUND] = i, j, side, chain, n
    return side == _NONE and i >= left_count and j >= right_count


@kernel
def mark_distinct(rows: Any, columns: Any, head: Any, previous: Any, is_new: Any) -> None:
    """Mark each row that none before it equals; `columns` are all columns, `head` and `previous` an empty index."""
    for i in range(len(rows)):
        place = _bucket(rows[i], columns, len(head))
        chain = head[place]
        while chain >= 0:
            same = True
            for k in range(len(columns)):
                if rows[chain, k] != rows[i, k]:
                    same = False
                    break
            if same:
                break
            chain = previous[chain]
        is_new[i] = chain < 0
        if chain < 0:
            previous[i] = head[place]
            head[place] = i
