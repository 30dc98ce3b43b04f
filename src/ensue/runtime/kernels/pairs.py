"""The last two steps of a search at once, where each pair of rows that satisfies them is a match of single events.

Most of the time of a query with many matches is spent here. What does not change from one row of the outer step to the
next is worked out once and kept in locals or on the stack, which is free while no condition is decided by the machine.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import compare_block, first_after, first_at_least, trailing_zeros, value
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.scan import block_mask, is_missing, reference
from ensue.runtime.layout import (
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
    P_WIDTH,
    PREDICATE_RECORD,
    REFERENCE_RECORD,
    S_MATCHES,
    S_OUT,
    S_ROOM,
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

# On the stack: the words of a match, then what of them an inner row brings (word, column), an outer row, and the inner
# step's comparisons (operator, column, place of the other value, 1 if that place is the outer row's).
INNERS = STACK + MOST_WORDS
OUTERS = STACK + 3 * MOST_WORDS
COMPARED = STACK + 5 * MOST_WORDS

NOWHERE = np.iinfo(
    np.int64
).min  # a place can be negative: rows that several queries look at lie before S, or behind it


@inner
def emit_pairs(P, S, F, O, program, step, depth):  # type: ignore[no-untyped-def]
    """Write a match for each pair of rows; False if the output block is full, to go on later from what S says."""
    last = step + STEP_RECORD
    width = P[P_WIDTH]
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
    for k in range(P[program + G_EMITS]):
        S[STACK + k] = -1
        if P[table + 3 * k] == EMIT_ROW:
            source = P[table + 3 * k + 1]
            if source == depth + 1:
                S[INNERS + 2 * inners] = k
                S[INNERS + 2 * inners + 1] = below_offset + P[table + 3 * k + 2] * below_capacity
                inners += 1
            elif source == depth:
                S[OUTERS + 2 * outers] = k
                S[OUTERS + 2 * outers + 1] = offset + P[table + 3 * k + 2] * capacity
                outers += 1
            else:
                S[STACK + k] = value(S, source, P[table + 3 * k + 2])

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
    o = S[S_OUT]
    start = o
    room = S[S_ROOM] - max(width, 8)
    full = False
    while True:
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
            if upper != NOWHERE:
                high = first_at_least(S, below, low, high, S[upper + row])
            if lower != NOWHERE:
                low = first_after(S, below, low, high, S[lower + row])
            if low >= high:
                continue
            block = low - 64
        for k in range(outers):
            S[STACK + S[OUTERS + 2 * k]] = S[S[OUTERS + 2 * k + 1] + row]
        going = False
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
            if inners == 1 and width <= 8:
                # one word from the row, the others in registers; four or eight are written whatever the width
                place = S[INNERS]
                column = S[INNERS + 1] + block
                w0 = S[STACK]
                w1 = S[STACK + 1]
                w2 = S[STACK + 2]
                w3 = S[STACK + 3]
                if width <= 4:
                    while mask != np.uint64(0) and o <= room:
                        bit = np.int64(trailing_zeros(mask))
                        mask &= mask - np.uint64(1)
                        O[o] = w0
                        O[o + 1] = w1
                        O[o + 2] = w2
                        O[o + 3] = w3
                        O[o + place] = S[column + bit]
                        o += width
                else:
                    w4 = S[STACK + 4]
                    w5 = S[STACK + 5]
                    w6 = S[STACK + 6]
                    w7 = S[STACK + 7]
                    while mask != np.uint64(0) and o <= room:
                        bit = np.int64(trailing_zeros(mask))
                        mask &= mask - np.uint64(1)
                        O[o] = w0
                        O[o + 1] = w1
                        O[o + 2] = w2
                        O[o + 3] = w3
                        O[o + 4] = w4
                        O[o + 5] = w5
                        O[o + 6] = w6
                        O[o + 7] = w7
                        O[o + place] = S[column + bit]
                        o += width
            else:
                while mask != np.uint64(0) and o <= room:
                    bit = np.int64(trailing_zeros(mask))
                    mask &= mask - np.uint64(1)
                    for k in range(width):
                        O[o + k] = S[STACK + k]
                    for k in range(inners):
                        O[o + S[INNERS + 2 * k]] = S[S[INNERS + 2 * k + 1] + block + bit]
                    o += width
            if mask != np.uint64(0):
                full = True
                break
        if full:
            break
    S[DEPTH_MASK + depth] = np.int64(outer_mask)
    S[DEPTH_BLOCK + depth] = outer_block
    S[SOURCE_ROW + depth] = row
    S[DEPTH_NEXT + depth] = np.int64(full)
    S[DEPTH_MASK + depth + 1] = np.int64(mask)
    S[DEPTH_BLOCK + depth + 1] = block
    S[DEPTH_HIGH + depth + 1] = high
    S[S_OUT] = o
    S[S_MATCHES] += (o - start) // width
    return not full
