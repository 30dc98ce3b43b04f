"""The search that one event triggers: a program's steps, depth first, over leaf and partial-match stores.

All of the search's state lies in S, so that it can stop when the output block or a store is full and go on at the
same place.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import (
    compare_block,
    compare_one,
    first_after,
    first_at_least,
    float_of,
    link,
    spread,
    trailing_zeros,
    value,
)
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.machine import all_hold, element, element_row, list_length
from ensue.runtime.kernels.stores import expire, has_room
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    C_FIRST,
    C_KEY,
    C_POSITION,
    COMPLETE_EMIT,
    COMPLETE_KILL,
    COMPLETE_WAIT,
    D_BRANCH,
    D_EMIT_TABLE,
    D_EMITS,
    D_LIST_TABLE,
    D_LISTS,
    D_STORE,
    DEPTH_BEGIN,
    DEPTH_BLOCK,
    DEPTH_HIGH,
    DEPTH_LOW,
    DEPTH_MASK,
    DEPTH_NEXT,
    DONE,
    EMIT_LIST,
    EMIT_ROW,
    FLOAT,
    G_BRANCH,
    G_COMPLETE,
    G_COPIES,
    G_COPY_TABLE,
    G_EMIT_TABLE,
    G_EMITS,
    G_MAYBE_TABLE,
    G_MAYBES,
    G_PENDING,
    G_SLOT_TABLE,
    G_SLOTS,
    G_STEP_TABLE,
    G_STEPS,
    H_BASE,
    H_BUCKET_MASK,
    H_BUCKETS,
    H_CAPACITY,
    H_HEAD,
    H_KEY,
    H_LINK,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    INSERT_RECORD,
    KLEENE_AT,
    KLEENE_CANDIDATES,
    KLEENE_COUNT,
    KLEENE_LIST,
    KLEENE_SCRATCH,
    KLEENE_STORE,
    KLEENE_TAIL,
    LEAF_SEQ,
    LIST_END,
    LIST_POSITION,
    LIST_SEQ,
    MODE_CHAIN,
    MODE_KLEENE,
    NEGATED_SOURCE,
    NULL,
    OUTPUT_FULL,
    P_COUNT_WINDOW,
    P_HEAD,
    P_KLEENE,
    P_LIST_STORE,
    P_PENDING_TABLE,
    P_WIDTH,
    P_WINDOW,
    PAIR_RECORD,
    PENDING_DEADLINE,
    PENDING_RECORD,
    PREDICATE_RECORD,
    REF_FIRST_BEGIN,
    REF_SOURCE,
    REFERENCE_RECORD,
    S_CREATED,
    S_DEADLINE,
    S_DEPTH,
    S_MATCHES,
    S_NOW,
    S_OUT,
    S_ROOM,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_ADJACENT,
    ST_ADJACENTS,
    ST_AFTER,
    ST_AFTERS,
    ST_CHAIN_COLUMN,
    ST_CHAIN_SOURCE,
    ST_CODE,
    ST_CODES,
    ST_FLAT,
    ST_INSERT,
    ST_INSERTS,
    ST_LATE,
    ST_LATE_AFTER,
    ST_LATE_AFTERS,
    ST_LATES,
    ST_LOWER,
    ST_LOWERS,
    ST_MAXIMUM,
    ST_MINIMUM,
    ST_MODE,
    ST_NEGATION,
    ST_NEGATIONS,
    ST_PAIR,
    ST_PAIRS,
    ST_PREDICATE,
    ST_PREDICATES,
    ST_SLOT,
    ST_STORE,
    ST_UPPER,
    ST_UPPERS,
    STACK,
    STEP_RECORD,
    STORE_FULL,
    T_BEGIN,
    T_END,
    T_KEY,
    T_POSITION,
    T_SEQ,
    TRIGGER,
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
    S[SOURCE_STORE + depth] = store
    S[DEPTH_LOW + depth] = low
    S[DEPTH_HIGH + depth] = high
    S[DEPTH_BLOCK + depth] = low - 64
    S[DEPTH_MASK + depth] = 0
    if P[step + ST_MODE] == MODE_CHAIN:
        key = value(S, P[step + ST_CHAIN_SOURCE], P[step + ST_CHAIN_COLUMN])
        if key == NULL:
            S[DEPTH_NEXT + depth] = 0
        else:
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
        links = offset + S[header + H_LINK] * capacity
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


@inner
def enter_list(P, S, F, R, step, depth):  # type: ignore[no-untyped-def]
    """Begin a Kleene step: collect the rows that can be elements into the slot's scratch, in time order."""
    enter(P, S, step, depth)
    slot = P[step + ST_SLOT]
    scratch = S[HEADERS + S[KLEENE_SCRATCH + slot] * HEADER + H_OFFSET]
    found = 0
    while next_row(P, S, F, R, step, depth):
        S[scratch + found] = S[SOURCE_ROW + depth]
        found += 1
    S[KLEENE_CANDIDATES + slot] = found
    S[KLEENE_COUNT + slot] = -1  # not even the empty list has been given


@inner
def can_follow(P, S, R, step, slot, index):  # type: ignore[no-untyped-def]
    """Whether the element at `index` of a list (chosen just now, or the tail) can follow the one before it."""
    if index == 0:
        return True
    if not element(P, S, slot, index - 1, C_END, T_END) < element(P, S, slot, index, C_BEGIN, T_BEGIN):
        return False
    for k in range(P[step + ST_PAIRS]):
        p = P[step + ST_PAIR] + k * PAIR_RECORD
        later = element(P, S, slot, index, P[p + 1], P[p + 2])
        earlier = element(P, S, slot, index - 1, P[p + 3], P[p + 2])
        if is_missing(P[p], later) or not compare_bound(P[p], later, earlier):
            return False
    if P[step + ST_ADJACENTS] == 0:
        return True
    S[KLEENE_AT + slot] = index
    return all_hold(P, S, R, P[step + ST_ADJACENT], P[step + ST_ADJACENTS])


@inner
def next_list(P, S, R, step):  # type: ignore[no-untyped-def]
    """The next list of a Kleene slot: each list once, a list before its extensions; False if there is none.

    A list that may not stand alone (too short, or not followed by the tail) is passed over but still extended.
    """
    slot = P[step + ST_SLOT]
    header = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
    chosen = S[header + H_OFFSET] + S[header + H_CAPACITY]
    candidates = S[KLEENE_CANDIDATES + slot]
    minimum = P[step + ST_MINIMUM]
    maximum = P[step + ST_MAXIMUM]
    count = S[KLEENE_COUNT + slot]
    while True:
        if count < 0:
            count = 0
            S[KLEENE_COUNT + slot] = 0
        else:
            # extend, or else replace the last element by a later one, or else drop it
            follow = S[chosen + count - 1] + 1 if count > 0 else 0
            depth = count
            if count >= maximum:
                depth = count - 1
            found = False
            while depth >= 0 and not found:
                while follow < candidates:
                    S[chosen + depth] = follow
                    S[KLEENE_COUNT + slot] = depth + 1
                    if can_follow(P, S, R, step, slot, depth):
                        found = True
                        break
                    follow += 1
                if not found:
                    depth -= 1
                    if depth >= 0:
                        follow = S[chosen + depth] + 1
            if not found:
                S[KLEENE_COUNT + slot] = 0
                return False
            count = depth + 1
        if count < minimum:
            continue
        if S[KLEENE_TAIL + slot] == 1 and not can_follow(P, S, R, step, slot, count):
            continue
        return True


@inner
def settle(P, S, F, R, step, depth):  # type: ignore[no-untyped-def]
    """What is decided once a step is bound: its conditions, its negations; then the partial match is stored."""
    afters = P[step + ST_AFTERS]
    if afters > 0 and not all_hold(P, S, R, P[step + ST_AFTER], afters):
        return False
    for k in range(P[step + ST_NEGATIONS]):
        if is_violated(P, S, F, R, P[step + ST_NEGATION] + k * STEP_RECORD):
            return False
    for k in range(P[step + ST_INSERTS]):
        record = P[step + ST_INSERT] + k * INSERT_RECORD
        append_match(P, S, P[record], P[record + 1], P[record + 2], depth, S[S_NOW])
    lates = P[step + ST_LATE_AFTERS]
    if lates > 0 and not all_hold(P, S, R, P[step + ST_LATE_AFTER], lates):
        return False
    for k in range(P[step + ST_LATES]):
        if is_violated(P, S, F, R, P[step + ST_LATE] + k * STEP_RECORD):
            return False
    return True


@inner
def append_match(P, S, store, copies, table, depth, end):  # type: ignore[no-untyped-def]
    """Append the partial match bound so far to a store that has room; the row."""
    header = HEADERS + store * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    row = S[header + H_TAIL]
    S[offset + C_END * capacity + row] = end
    S[offset + C_BEGIN * capacity + row] = S[DEPTH_BEGIN + depth]
    S[offset + C_KEY * capacity + row] = S[TRIGGER + T_KEY]
    least = S[TRIGGER + T_POSITION]
    if P[P_COUNT_WINDOW] != NULL:
        least = least_position(P, S, depth)
    S[offset + C_POSITION * capacity + row] = least
    for k in range(copies):
        S[offset + (C_FIRST + k) * capacity + row] = value(S, P[table + 2 * k], P[table + 2 * k + 1])
    S[header + H_TAIL] = row + 1
    if S[header + H_LINK] >= 0:
        key = S[offset + S[header + H_KEY] * capacity + row]
        if key != NULL:
            link(S, header, row, key)
    S[S_CREATED] += 1
    return row


@inner
def least_position(P, S, depth):  # type: ignore[no-untyped-def]
    """The least counted position of the events bound so far."""
    least = S[TRIGGER + T_POSITION]
    for d in range(1, depth + 1):
        header = HEADERS + S[SOURCE_STORE + d] * HEADER
        if S[SOURCE_ROW + d] >= 0:
            least = min(least, S[S[header + H_OFFSET] + C_POSITION * S[header + H_CAPACITY] + S[SOURCE_ROW + d]])
    return least


@inner
def lacks_room(P, S, O, program, step, last):  # type: ignore[no-untyped-def]
    """DONE if whatever the next candidate of a step may append has room; else which room is lacking."""
    for k in range(P[step + ST_INSERTS]):
        if not has_room(P, S, P[P[step + ST_INSERT] + k * INSERT_RECORD], 1):
            return STORE_FULL
    if not last:
        return DONE
    complete = P[program + G_COMPLETE]
    if complete == COMPLETE_EMIT or P[program + G_MAYBES] > 0:
        words = P[P_WIDTH]
        if P[P_KLEENE] == 1:
            words += total_elements(P, S, program) + 2
        if S[S_OUT] + words > S[S_ROOM]:
            return OUTPUT_FULL
    if complete == COMPLETE_WAIT:
        pending = P[P_PENDING_TABLE] + P[program + G_PENDING] * PENDING_RECORD
        if not has_room(P, S, P[pending + D_STORE], 1):
            return STORE_FULL
        if P[pending + D_LISTS] > 0 and not has_room(P, S, P[P_LIST_STORE], total_elements(P, S, program) + 2):
            return STORE_FULL
    return DONE


@inner
def total_elements(P, S, program):  # type: ignore[no-untyped-def]
    """The elements in all Kleene lists of the match in hand."""
    total = 0
    for k in range(P[program + G_SLOTS]):
        slot = P[P[program + G_SLOT_TABLE] + 4 * k]
        total += max(0, S[KLEENE_COUNT + slot]) + S[KLEENE_TAIL + slot]
    return total


@inner
def emit(P, S, O, program, begin, end, detected):  # type: ignore[no-untyped-def]
    """Write the match in hand to the output block."""
    o = S[S_OUT]
    start = o
    if P[P_KLEENE] == 1:
        o += 1
    if P[P_HEAD] > 0:
        O[o] = P[program + G_BRANCH]
        O[o + 1] = begin
        O[o + 2] = end
        O[o + 3] = detected
        o += 4
    table = P[program + G_EMIT_TABLE]
    for k in range(P[program + G_EMITS]):
        kind = P[table + 3 * k]
        if kind == EMIT_ROW:
            O[o] = value(S, P[table + 3 * k + 1], P[table + 3 * k + 2])
            o += 1
        elif kind == EMIT_LIST:
            slot = P[table + 3 * k + 1]
            length = list_length(S, slot)
            O[o] = length
            o += 1
            for i in range(length):
                O[o] = element(P, S, slot, i, LEAF_SEQ, T_SEQ)
                o += 1
        else:  # a variable of another branch, alone or a list
            O[o] = -1
            o += 1
    if P[P_KLEENE] == 1:
        O[start] = o - start
    S[S_OUT] = o
    S[S_MATCHES] += 1


@inner
def wait(P, S, program, depth, begin, end):  # type: ignore[no-untyped-def]
    """Keep the match in hand until its window has passed."""
    pending = P[P_PENDING_TABLE] + P[program + G_PENDING] * PENDING_RECORD
    store = P[pending + D_STORE]
    header = HEADERS + store * HEADER
    row = append_match(P, S, store, P[program + G_COPIES], P[program + G_COPY_TABLE], depth, end)
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    S[offset + C_BEGIN * capacity + row] = begin
    least = S[offset + C_POSITION * capacity + row]
    lists = HEADERS + P[P_LIST_STORE] * HEADER
    for k in range(P[pending + D_LISTS]):
        slot = P[P[pending + D_LIST_TABLE] + 2 * k]
        column = P[P[pending + D_LIST_TABLE] + 2 * k + 1]
        leaf = HEADERS + S[KLEENE_STORE + slot] * HEADER
        first = S[lists + H_TAIL]
        length = list_length(S, slot)
        last_end = np.int64(NULL)
        for i in range(length):
            r = first + i
            # the tail is stored in its leaf right after this search, at the position that is free now
            position = S[leaf + H_BASE] + (
                S[leaf + H_TAIL] if i >= S[KLEENE_COUNT + slot] else element_row(P, S, slot, i)
            )
            S[S[lists + H_OFFSET] + LIST_END * S[lists + H_CAPACITY] + r] = S[S_NOW]
            S[S[lists + H_OFFSET] + LIST_SEQ * S[lists + H_CAPACITY] + r] = element(P, S, slot, i, LEAF_SEQ, T_SEQ)
            S[S[lists + H_OFFSET] + LIST_POSITION * S[lists + H_CAPACITY] + r] = position
            last_end = element(P, S, slot, i, C_END, T_END)
            least = min(least, element(P, S, slot, i, C_POSITION, T_POSITION))
        S[lists + H_TAIL] = first + length
        S[offset + column * capacity + row] = S[lists + H_BASE] + first
        S[offset + (column + 1) * capacity + row] = length
        S[offset + (column + 2) * capacity + row] = last_end
    S[offset + C_POSITION * capacity + row] = least
    deadline = begin + P[P_WINDOW] if P[P_COUNT_WINDOW] == NULL else least + P[P_COUNT_WINDOW]
    S[offset + PENDING_DEADLINE * capacity + row] = deadline
    S[S_DEADLINE] = min(S[S_DEADLINE], deadline)


@inner
def emit_waiting(P, S, O, pending, row, detected):  # type: ignore[no-untyped-def]
    """Write a waiting match to the output block and forget it; False if the block is full."""
    header = HEADERS + P[pending + D_STORE] * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    lists = HEADERS + P[P_LIST_STORE] * HEADER
    words = P[P_WIDTH] + 1
    for k in range(P[pending + D_LISTS]):
        words += S[offset + (P[P[pending + D_LIST_TABLE] + 2 * k + 1] + 1) * capacity + row]
    o = S[S_OUT]
    if o + words > S[S_ROOM]:
        return False
    start = o
    if P[P_KLEENE] == 1:
        o += 1
    O[o] = P[pending + D_BRANCH]
    O[o + 1] = S[offset + C_BEGIN * capacity + row]
    O[o + 2] = S[offset + C_END * capacity + row]
    O[o + 3] = detected
    o += 4
    table = P[pending + D_EMIT_TABLE]
    for k in range(P[pending + D_EMITS]):
        kind = P[table + 2 * k]
        column = P[table + 2 * k + 1]
        if kind == EMIT_ROW:
            O[o] = S[offset + column * capacity + row]
            o += 1
        elif kind == EMIT_LIST:
            first = S[offset + column * capacity + row] - S[lists + H_BASE]
            length = S[offset + (column + 1) * capacity + row]
            O[o] = length
            o += 1
            for i in range(length):
                O[o] = S[S[lists + H_OFFSET] + LIST_SEQ * S[lists + H_CAPACITY] + first + i]
                o += 1
        else:
            O[o] = -1
            o += 1
    if P[P_KLEENE] == 1:
        O[start] = o - start
    S[S_OUT] = o
    S[S_MATCHES] += 1
    S[offset + PENDING_DEADLINE * capacity + row] = NULL
    return True


@inner
def bind_waiting_lists(P, S, program):  # type: ignore[no-untyped-def]
    """Let the Kleene slots stand for the lists of the waiting match that depth 1 is bound to."""
    pending = P[P_PENDING_TABLE] + P[program + G_PENDING] * PENDING_RECORD
    for k in range(P[pending + D_LISTS]):
        slot = P[P[pending + D_LIST_TABLE] + 2 * k]
        column = P[P[pending + D_LIST_TABLE] + 2 * k + 1]
        S[KLEENE_LIST + slot] = value(S, 1, column)
        S[KLEENE_COUNT + slot] = value(S, 1, column + 1)
        S[KLEENE_TAIL + slot] = 0


@inner
def kill(P, S, F, R, program):  # type: ignore[no-untyped-def]
    """Remove the waiting matches that the trigger, an event of a negated type, refutes."""
    step = P[program + G_STEP_TABLE] + STEP_RECORD
    pending = P[P_PENDING_TABLE] + P[program + G_PENDING] * PENDING_RECORD
    has_lists = P[pending + D_LISTS] > 0
    expire(P, S, HEADERS + P[step + ST_STORE] * HEADER)
    enter(P, S, step, 1)
    while next_row(P, S, F, R, step, 1):
        if has_lists:
            bind_waiting_lists(P, S, program)
        if P[step + ST_AFTERS] > 0 and not all_hold(P, S, R, P[step + ST_AFTER], P[step + ST_AFTERS]):
            continue
        header = HEADERS + S[SOURCE_STORE + 1] * HEADER
        S[S[header + H_OFFSET] + PENDING_DEADLINE * S[header + H_CAPACITY] + S[SOURCE_ROW + 1]] = NULL


@inner
def emit_rows(P, S, F, R, O, program, step, depth):  # type: ignore[no-untyped-def]
    """Write a match for each row of a flat last step; False if the output block is full.

    A match differs from the next one only in what this step binds, so the record is made once and copied.
    """
    width = P[P_WIDTH]
    head = P[P_HEAD]
    table = P[program + G_EMIT_TABLE]
    varying = 0
    S[STACK] = P[program + G_BRANCH]
    S[STACK + 2] = S[S_NOW]
    S[STACK + 3] = S[S_NOW]
    for k in range(P[program + G_EMITS]):
        S[STACK + head + k] = -1
        if P[table + 3 * k] == EMIT_ROW:
            if P[table + 3 * k + 1] == depth:
                S[STACK + 128 + 2 * varying] = head + k
                S[STACK + 129 + 2 * varying] = P[table + 3 * k + 2]
                varying += 1
            else:
                S[STACK + head + k] = value(S, P[table + 3 * k + 1], P[table + 3 * k + 2])
    header = HEADERS + S[SOURCE_STORE + depth] * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    before = S[DEPTH_BEGIN + depth - 1]
    o = S[S_OUT]
    start = o
    room = S[S_ROOM]
    if P[step + ST_MODE] == MODE_CHAIN or head > 0 or varying > 1 or width > 4:
        while o + width <= room and next_row(P, S, F, R, step, depth):
            row = S[SOURCE_ROW + depth]
            for k in range(width):
                O[o + k] = S[STACK + k]
            if head > 0:
                O[o + 1] = min(before, S[offset + C_BEGIN * capacity + row])
            for k in range(varying):
                O[o + S[STACK + 128 + 2 * k]] = S[offset + S[STACK + 129 + 2 * k] * capacity + row]
            o += width
        S[S_OUT] = o
        S[S_MATCHES] += (o - start) // width
        return o + width <= room
    # up to four sequence numbers, one of them from here: words in registers, four written whatever the width
    first = S[STACK]
    second = S[STACK + 1]
    third = S[STACK + 2]
    fourth = S[STACK + 3]
    place = S[STACK + 128]
    column = offset + S[STACK + 129] * capacity
    predicates = P[step + ST_PREDICATES]
    conditions = P[step + ST_PREDICATE]
    mask = np.uint64(S[DEPTH_MASK + depth])
    block = S[DEPTH_BLOCK + depth]
    high = S[DEPTH_HIGH + depth]
    room -= 4
    while True:
        while mask != np.uint64(0) and o <= room:
            row = block + np.int64(trailing_zeros(mask))
            mask &= mask - np.uint64(1)
            O[o] = first
            O[o + 1] = second
            O[o + 2] = third
            O[o + 3] = fourth
            O[o + place] = S[column + row]
            o += width
        if mask != np.uint64(0):
            break
        block += 64
        if block >= high:
            break
        mask = block_mask(P, S, F, conditions, predicates, offset + block, capacity, high - block)
    S[DEPTH_MASK + depth] = np.int64(mask)
    S[DEPTH_BLOCK + depth] = block
    S[S_OUT] = o
    S[S_MATCHES] += (o - start) // width
    return mask == np.uint64(0)


@inner
def must_wait(P, S, program):  # type: ignore[no-untyped-def]
    """Whether the match in hand has nothing after some absence's place: all lists of one of its groups are empty."""
    table = P[program + G_MAYBE_TABLE]
    for _ in range(P[program + G_MAYBES]):
        slots = P[table]
        empty = True
        for k in range(slots):
            if list_length(S, P[table + 1 + k]) > 0:
                empty = False
        if empty:
            return True
        table += 1 + slots
    return P[program + G_MAYBES] == 0


@inner
def finish(P, S, O, program, depth):  # type: ignore[no-untyped-def]
    """What becomes of a whole match: it is written out, or waits."""
    complete = P[program + G_COMPLETE]
    if complete == COMPLETE_WAIT and must_wait(P, S, program):
        wait(P, S, program, depth, S[DEPTH_BEGIN + depth], S[S_NOW])
    elif complete == COMPLETE_EMIT or complete == COMPLETE_WAIT:
        emit(P, S, O, program, S[DEPTH_BEGIN + depth], S[S_NOW], S[S_NOW])


@inner
def search(P, S, F, R, O, program):  # type: ignore[no-untyped-def]
    """Run a trigger's program, from the start (S_DEPTH -1) or from where it had to stop."""
    complete = P[program + G_COMPLETE]
    if complete == COMPLETE_KILL:
        for k in range(P[program + G_SLOTS]):
            record = P[program + G_SLOT_TABLE] + 4 * k
            S[KLEENE_STORE + P[record]] = P[record + 1]
        kill(P, S, F, R, program)
        return DONE
    steps = P[program + G_STEPS]
    table = P[program + G_STEP_TABLE]
    depth = S[S_DEPTH]
    if depth < 0:
        status = lacks_room(P, S, O, program, table, steps == 0)
        if status != DONE:
            return status
        for k in range(P[program + G_SLOTS]):
            record = P[program + G_SLOT_TABLE] + 4 * k
            slot = P[record]
            S[KLEENE_STORE + slot] = P[record + 1]
            S[KLEENE_SCRATCH + slot] = P[record + 2]
            S[KLEENE_TAIL + slot] = P[record + 3]
            S[KLEENE_COUNT + slot] = 0
            S[KLEENE_LIST + slot] = -1
        S[SOURCE_STORE] = 0
        S[SOURCE_ROW] = 0
        S[DEPTH_BEGIN] = S[TRIGGER + T_BEGIN]
        for k in range(1, steps + 1):
            expire(P, S, HEADERS + P[table + k * STEP_RECORD + ST_STORE] * HEADER)
        if not settle(P, S, F, R, table, 0):
            return DONE
        if steps == 0:
            finish(P, S, O, program, 0)
            return DONE
        depth = 1
        step = table + STEP_RECORD
        if P[step + ST_MODE] == MODE_KLEENE:
            enter_list(P, S, F, R, step, depth)
        else:
            enter(P, S, step, depth)
    while depth > 0:
        step = table + depth * STEP_RECORD
        if P[step + ST_FLAT] == 1:
            if not emit_rows(P, S, F, R, O, program, step, depth):
                S[S_DEPTH] = depth
                return OUTPUT_FULL
            depth -= 1
            continue
        status = lacks_room(P, S, O, program, step, depth == steps)
        if status != DONE:
            S[S_DEPTH] = depth
            return status
        if P[step + ST_MODE] == MODE_KLEENE:
            if not next_list(P, S, R, step):
                depth -= 1
                continue
            S[SOURCE_ROW + depth] = -1
            begin = S[DEPTH_BEGIN + depth - 1]
            slot = P[step + ST_SLOT]
            for i in range(S[KLEENE_COUNT + slot]):
                begin = min(begin, element(P, S, slot, i, C_BEGIN, T_BEGIN))
        else:
            if not next_row(P, S, F, R, step, depth):
                depth -= 1
                continue
            begin = min(S[DEPTH_BEGIN + depth - 1], value(S, depth, C_BEGIN))
        S[DEPTH_BEGIN + depth] = begin
        if not settle(P, S, F, R, step, depth):
            continue
        if depth == steps:
            finish(P, S, O, program, depth)
            continue
        depth += 1
        step = table + depth * STEP_RECORD
        if P[step + ST_MODE] == MODE_KLEENE:
            enter_list(P, S, F, R, step, depth)
        else:
            enter(P, S, step, depth)
    S[S_DEPTH] = -1
    return DONE
