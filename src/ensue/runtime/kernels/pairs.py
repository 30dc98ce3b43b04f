"""The last two steps of a search at once, where each pair of rows that satisfies them is a match of single events.

Most of the time of a query with many matches is spent here. What does not change from one row of the outer step to the
next is worked out once and kept in locals or on the stack, which is free while no condition is decided by the machine.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import compare_block, count_bits, first_after, first_at_least, trailing_zeros
from ensue.runtime.kernels.columns import SPARE, copy_chosen, fill
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.output import count_written, fill_variable
from ensue.runtime.kernels.scan import block_mask, is_missing, reference
from ensue.runtime.layout import (
    C_END,
    DEPTH_BLOCK,
    DEPTH_HIGH,
    DEPTH_MASK,
    DEPTH_NEXT,
    EMIT_ROW,
    G_EMIT_TABLE,
    G_EMITS,
    H_CAPACITY,
    H_HEAD,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    MOST_WORDS,
    PREDICATE_RECORD,
    REFERENCE_RECORD,
    S_LOOKED,
    S_MATCHES,
    S_STRIDE,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_LOWER,
    ST_LOWERS,
    ST_PREDICATE,
    ST_PREDICATES,
    ST_STORE,
    ST_UPPER,
    ST_UPPERS,
    STACK,
    STEP_RECORD,
)

# On the stack: what of a match an inner row brings (where its column of the output begins, and the row's), likewise an
# outer row, and the inner step's comparisons (operator, column, place of the other value, 1 if it is the outer row's).
INNERS = STACK
OUTERS = STACK + 2 * MOST_WORDS
COMPARED = STACK + 4 * MOST_WORDS

NOWHERE = np.iinfo(
    np.int64
).min  # a place can be negative: rows that several queries look at lie before S, or behind it


@inner
def first_from(S, header, near, high, time):  # type: ignore[no-untyped-def]
    """The first row in [near, high) whose end is at least `time`, which is likely to be near."""
    base = S[header + H_OFFSET] + C_END * S[header + H_CAPACITY]
    for _ in range(4):
        if near >= high or S[base + near] >= time:
            return near
        near += 1
    return first_at_least(S, header, near, high, time)


@inner
def emit_pairs(P, S, F, O, program, step, depth):  # type: ignore[no-untyped-def]
    """Write a match for each pair of rows; False if the output block is full, to go on later from what S says."""
    last = step + STEP_RECORD
    header = HEADERS + S[SOURCE_STORE + depth] * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    S[SOURCE_STORE + depth + 1] = P[last + ST_STORE]
    below = HEADERS + P[last + ST_STORE] * HEADER
    below_offset = S[below + H_OFFSET]
    below_capacity = S[below + H_CAPACITY]

    inners = 0
    outers = 0
    table = P[program + G_EMIT_TABLE]
    emits = P[program + G_EMITS]
    stride = S[S_STRIDE]
    for k in range(emits):
        if P[table + 3 * k] == EMIT_ROW:
            source = P[table + 3 * k + 1]
            if source == depth + 1:
                S[INNERS + 2 * inners] = k * stride
                S[INNERS + 2 * inners + 1] = below_offset + P[table + 3 * k + 2] * below_capacity
                inners += 1
            elif source == depth:
                S[OUTERS + 2 * outers] = k * stride
                S[OUTERS + 2 * outers + 1] = offset + P[table + 3 * k + 2] * capacity
                outers += 1

    # the inner step's range as far as the outer row does not bound it
    lowest = S[below + H_HEAD]
    highest = S[below + H_TAIL]
    upper = NOWHERE
    lower = NOWHERE
    for k in range(P[last + ST_UPPERS]):
        record = P[last + ST_UPPER] + k * REFERENCE_RECORD
        if P[record + 1] == depth:
            upper = offset + P[record + 2] * capacity
        else:
            highest = first_at_least(S, below, lowest, highest, reference(P, S, record))
    for k in range(P[last + ST_LOWERS]):
        record = P[last + ST_LOWER] + k * REFERENCE_RECORD
        if P[record + 1] == depth:
            lower = offset + P[record + 2] * capacity
        else:
            lowest = first_after(S, below, lowest, highest, reference(P, S, record))
    predicates = P[last + ST_PREDICATES]
    for k in range(predicates):
        p = P[last + ST_PREDICATE] + k * PREDICATE_RECORD
        compared = COMPARED + 4 * k
        source = P[p + 2]
        S[compared] = P[p]
        S[compared + 1] = below_offset + P[p + 1] * below_capacity
        if source == depth:
            S[compared + 2] = offset + P[p + 3] * capacity
            S[compared + 3] = 1
        else:
            other = HEADERS + S[SOURCE_STORE + source] * HEADER
            S[compared + 2] = S[other + H_OFFSET] + P[p + 3] * S[other + H_CAPACITY] + S[SOURCE_ROW + source]
            S[compared + 3] = 0

    outer_predicates = P[step + ST_PREDICATES]
    outer_table = P[step + ST_PREDICATE]
    outer_mask = np.uint64(S[DEPTH_MASK + depth])
    outer_block = S[DEPTH_BLOCK + depth]
    outer_high = S[DEPTH_HIGH + depth]
    row = S[SOURCE_ROW + depth]
    # in the middle of an outer row when the block was full
    mask = np.uint64(0)
    block = np.int64(0)
    high = np.int64(0)
    going = S[DEPTH_NEXT + depth] == 1
    if going:
        mask = np.uint64(S[DEPTH_MASK + depth + 1])
        block = S[DEPTH_BLOCK + depth + 1]
        high = S[DEPTH_HIGH + depth + 1]
    near = lowest
    near_time = np.int64(NOWHERE)
    start = S[S_MATCHES]
    m = start
    full = False
    while not full:
        if not going:
            while outer_mask == np.uint64(0):
                outer_block += 64
                if outer_block >= outer_high:
                    break
                outer_mask = block_mask(
                    P, S, F, outer_table, outer_predicates, offset + outer_block, capacity, outer_high - outer_block
                )
            if outer_mask == np.uint64(0):
                break
            row = outer_block + np.int64(trailing_zeros(outer_mask))
            outer_mask &= outer_mask - np.uint64(1)
            high = highest
            low = lowest
            if upper != NOWHERE:  # mostly rows come in the order of the times that bound them
                time = S[upper + row]
                near = first_from(S, below, near if time >= near_time else low, high, time)
                near_time = time
                high = near
            if lower != NOWHERE:
                low = first_after(S, below, low, high, S[lower + row])
            if low >= high:
                continue
            S[S_LOOKED] += high - low
            block = low - 64
        going = False
        first = m
        while True:
            while mask == np.uint64(0):
                block += 64
                if block >= high:
                    break
                count = high - block
                mask = np.uint64(0xFFFFFFFFFFFFFFFF)
                if count > 64:
                    count = np.int64(64)
                elif count < 64:
                    mask = (np.uint64(1) << np.uint64(count)) - np.uint64(1)
                for k in range(predicates):
                    compared = COMPARED + 4 * k
                    bits = S[S[compared + 2] + row * S[compared + 3]]
                    if is_missing(S[compared], bits):
                        mask = np.uint64(0)
                        break
                    mask &= compare_block(S, F, S[compared + 1] + block, S[compared], bits, count)
                    if mask == np.uint64(0):
                        break
            if mask == np.uint64(0):
                break
            full = m + SPARE > stride
            if full:
                break
            for k in range(inners):
                copy_chosen(S, O, S[INNERS + 2 * k + 1] + block, S[INNERS + 2 * k] + m, mask)
            m += count_bits(mask)
            mask = np.uint64(0)
        if m > first:
            for k in range(outers):
                fill(O, S[OUTERS + 2 * k] + first, m - first, S[S[OUTERS + 2 * k + 1] + row])
    for k in range(emits):  # what is the same in all of them
        source = P[table + 3 * k + 1]
        if P[table + 3 * k] != EMIT_ROW or (source != depth and source != depth + 1):
            fill_variable(P, S, O, program, k, start, m - start)
    count_written(P, S, m - start)
    S[DEPTH_MASK + depth] = np.int64(outer_mask)
    S[DEPTH_BLOCK + depth] = outer_block
    S[SOURCE_ROW + depth] = row
    S[DEPTH_NEXT + depth] = np.int64(full)
    S[DEPTH_MASK + depth + 1] = np.int64(mask)
    S[DEPTH_BLOCK + depth + 1] = block
    S[DEPTH_HIGH + depth + 1] = high
    return not full
