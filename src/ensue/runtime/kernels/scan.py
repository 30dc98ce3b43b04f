"""Looking through a store: the range that references leave, and the rows in it that satisfy a step's conditions."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import (
    compare_block,
    compare_one,
    first_after,
    first_at_least,
    float_of,
    spread,
    trailing_zeros,
    value,
)
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.machine import all_hold, element, list_length
from ensue.runtime.kernels.stores import expire
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    DEPTH_BLOCK,
    DEPTH_HIGH,
    DEPTH_LOW,
    DEPTH_MASK,
    DEPTH_NEXT,
    FLOAT,
    H_BASE,
    H_BUCKET_MASK,
    H_BUCKETS,
    H_CAPACITY,
    H_HEAD,
    H_KEY,
    H_LINKS,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    MODE_CHAIN,
    NEGATED_SOURCE,
    NULL,
    PREDICATE_RECORD,
    REF_FIRST_BEGIN,
    REF_SOURCE,
    REFERENCE_RECORD,
    S_LOOKED,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_CHAIN_COLUMN,
    ST_CHAIN_SOURCE,
    ST_CODE,
    ST_CODES,
    ST_LOWER,
    ST_LOWERS,
    ST_MODE,
    ST_PREDICATE,
    ST_PREDICATES,
    ST_STORE,
    ST_UPPER,
    ST_UPPERS,
    T_BEGIN,
    T_END,
)

LATEST = 2**63 - 1


@inner
def reference(P, S, record):  # type: ignore[no-untyped-def]
    """The time that a range is bounded by: a bound row's column, or the first begin or last end of a Kleene list."""
    if P[record] == REF_SOURCE:
        return value(S, P[record + 1], P[record + 2])
    slot = P[record + 1]
    length = list_length(S, slot)
    if P[record] == REF_FIRST_BEGIN:
        return LATEST if length == 0 else element(P, S, slot, 0, C_BEGIN, T_BEGIN)
    return NULL if length == 0 else element(P, S, slot, length - 1, C_END, T_END)


@inner
def enter(P, S, step, depth):  # type: ignore[no-untyped-def]
    """Begin a step on a store whose head is up to date: the range that its references leave, a chain's first row."""
    store = P[step + ST_STORE]
    header = HEADERS + store * HEADER
    low = S[header + H_HEAD]
    high = S[header + H_TAIL]
    for k in range(P[step + ST_UPPERS]):
        high = first_at_least(S, header, low, high, reference(P, S, P[step + ST_UPPER] + k * REFERENCE_RECORD))
    for k in range(P[step + ST_LOWERS]):
        low = first_after(S, header, low, high, reference(P, S, P[step + ST_LOWER] + k * REFERENCE_RECORD))
    S[S_LOOKED] += max(high - low, 0)
    S[SOURCE_STORE + depth] = store
    S[DEPTH_LOW + depth] = low
    S[DEPTH_HIGH + depth] = high
    S[DEPTH_BLOCK + depth] = low - 64
    S[DEPTH_MASK + depth] = 0
    S[DEPTH_NEXT + depth] = 0
    if P[step + ST_MODE] == MODE_CHAIN:
        key = value(S, P[step + ST_CHAIN_SOURCE], P[step + ST_CHAIN_COLUMN])
        if key != NULL:
            S[DEPTH_NEXT + depth] = S[S[header + H_BUCKETS] + (spread(key) & S[header + H_BUCKET_MASK])]


@inner
def is_missing(operator, bits):  # type: ignore[no-untyped-def]
    """Whether the bound side of a comparison is null; candidates' nulls never get into a store that is compared."""
    return bits == NULL if operator < FLOAT else np.isnan(float_of(bits))


@inner
def compare_bound(operator, left, right):  # type: ignore[no-untyped-def]
    """Whether a candidate's value compares true with a bound one that may be null."""
    return not is_missing(operator, right) and compare_one(operator, left, right)


@inner
def block_mask(P, S, F, table, predicates, first, capacity, count):  # type: ignore[no-untyped-def]
    """Which of up to 64 rows, from the one whose first column is at `first`, satisfy all predicates."""
    mask = np.uint64(0xFFFFFFFFFFFFFFFF)
    if count < 64:
        mask = (np.uint64(1) << np.uint64(count)) - np.uint64(1)
    else:
        count = 64
    for k in range(predicates):
        p = table + k * PREDICATE_RECORD
        bits = value(S, P[p + 2], P[p + 3])
        if is_missing(P[p], bits):
            return np.uint64(0)
        mask &= compare_block(S, F, first + P[p + 1] * capacity, P[p], bits, count)
        if mask == np.uint64(0):
            break
    return mask


@inner
def next_row(P, S, F, R, step, depth):  # type: ignore[no-untyped-def]
    """The next row of a step that satisfies its conditions, bound to the depth's source; False if there is none."""
    header = HEADERS + S[SOURCE_STORE + depth] * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    predicates = P[step + ST_PREDICATES]
    table = P[step + ST_PREDICATE]
    codes = P[step + ST_CODES]
    if P[step + ST_MODE] == MODE_CHAIN:
        key = value(S, P[step + ST_CHAIN_SOURCE], P[step + ST_CHAIN_COLUMN])
        keys = offset + S[header + H_KEY] * capacity
        links = S[header + H_LINKS]
        base = S[header + H_BASE]
        low = S[DEPTH_LOW + depth]
        high = S[DEPTH_HIGH + depth]
        position = S[DEPTH_NEXT + depth]
        while position > 0:
            row = position - 1 - base
            if row < low:
                break
            position = S[links + row]
            if row >= high or S[keys + row] != key:
                continue
            good = True
            for k in range(predicates):
                p = table + k * PREDICATE_RECORD
                if not compare_bound(P[p], S[offset + P[p + 1] * capacity + row], value(S, P[p + 2], P[p + 3])):
                    good = False
                    break
            if good:
                S[SOURCE_ROW + depth] = row
                if codes == 0 or all_hold(P, S, R, P[step + ST_CODE], codes):
                    S[DEPTH_NEXT + depth] = position
                    return True
        S[DEPTH_NEXT + depth] = 0
        return False
    mask = np.uint64(S[DEPTH_MASK + depth])
    block = S[DEPTH_BLOCK + depth]
    high = S[DEPTH_HIGH + depth]
    while True:
        while mask == np.uint64(0):
            block += 64
            if block >= high:
                S[DEPTH_BLOCK + depth] = block - 64
                S[DEPTH_MASK + depth] = 0
                return False
            mask = block_mask(P, S, F, table, predicates, offset + block, capacity, high - block)
        row = block + np.int64(trailing_zeros(mask))
        mask &= mask - np.uint64(1)
        S[SOURCE_ROW + depth] = row
        if codes == 0 or all_hold(P, S, R, P[step + ST_CODE], codes):
            S[DEPTH_MASK + depth] = np.int64(mask)
            S[DEPTH_BLOCK + depth] = block
            return True


@inner
def is_violated(P, S, F, R, step):  # type: ignore[no-untyped-def]
    """Whether an event of a negated type lies in the forbidden place."""
    expire(P, S, HEADERS + P[step + ST_STORE] * HEADER)
    enter(P, S, step, NEGATED_SOURCE)
    return next_row(P, S, F, R, step, NEGATED_SOURCE)
