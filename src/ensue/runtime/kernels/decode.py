"""Output records with lists, taken apart into arrays."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import kernel


@kernel
def measure(words, is_list):  # type: ignore[no-untyped-def]
    """How many records there are, and how many elements each variable's lists have in all."""
    totals = np.zeros(len(is_list), dtype=np.int64)
    records = 0
    start = 0
    while start < len(words):
        at = start + 5
        for v in range(len(is_list)):
            if is_list[v] and words[at] > 0:
                totals[v] += words[at]
                at += words[at]
            at += 1
        start += words[start]
        records += 1
    return records, totals


@kernel
def take_apart(words, is_list, heads, singles, offsets, elements, firsts):  # type: ignore[no-untyped-def]
    """Fill heads (records by 4), singles (variables by records), list lengths as offsets, and their elements.

    The elements of variable v start at firsts[v]. A length of -1, for a variable of another branch, is left in
    `singles`.
    """
    filled = firsts.copy()
    start = 0
    record = 0
    while start < len(words):
        for k in range(4):
            heads[record, k] = words[start + 1 + k]
        at = start + 5
        for v in range(len(is_list)):
            singles[v, record] = words[at]
            if is_list[v]:
                length = max(words[at], 0)
                for k in range(length):
                    elements[filled[v]] = words[at + 1 + k]
                    filled[v] += 1
                offsets[v, record + 1] = filled[v] - firsts[v]
                at += length
            at += 1
        start += words[start]
        record += 1
