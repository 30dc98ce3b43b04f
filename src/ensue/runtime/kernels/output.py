"""What becomes of matches: stored as partial ones, written to the output block, or kept waiting."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import count_bits, link_last, value
from ensue.runtime.kernels.columns import AT_ONCE, SPARE, copy_chosen, fill
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.machine import element, element_row, list_length
from ensue.runtime.kernels.scan import block_mask, next_row
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    C_FIRST,
    C_KEY,
    C_POSITION,
    COMPLETE_EMIT,
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
    DEPTH_MASK,
    EMIT_LIST,
    EMIT_ROW,
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
    H_BASE,
    H_CAPACITY,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    KLEENE_COUNT,
    KLEENE_STORE,
    KLEENE_TAIL,
    LEAF_SEQ,
    LIST_END,
    LIST_POSITION,
    LIST_SEQ,
    MODE_CHAIN,
    NULL,
    P_COUNT_WINDOW,
    P_HEAD,
    P_KLEENE,
    P_LIST_STORE,
    P_PENDING_TABLE,
    P_WIDTH,
    P_WINDOW,
    PENDING_DEADLINE,
    PENDING_RECORD,
    S_CREATED,
    S_DEADLINE,
    S_MATCHES,
    S_NOW,
    S_OUT,
    S_ROOM,
    S_STRIDE,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_MODE,
    ST_PREDICATE,
    ST_PREDICATES,
    T_END,
    T_KEY,
    T_POSITION,
    T_SEQ,
    TRIGGER,
)


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
    link_last(S, header)
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
def total_elements(P, S, program):  # type: ignore[no-untyped-def]
    """The elements in all Kleene lists of the match in hand."""
    total = 0
    for k in range(P[program + G_SLOTS]):
        slot = P[P[program + G_SLOT_TABLE] + 4 * k]
        total += max(0, S[KLEENE_COUNT + slot]) + S[KLEENE_TAIL + slot]
    return total


@inner
def fill_variable(P, S, O, program, k, start, count):  # type: ignore[no-untyped-def]
    """Write what variable k is bound to for `count` matches from `start` on."""
    record = P[program + G_EMIT_TABLE] + 3 * k
    word = np.int64(-1)  # a variable of another branch
    if P[record] == EMIT_ROW:
        word = value(S, P[record + 1], P[record + 2])
    if count == 1:
        O[k * S[S_STRIDE] + start] = word
    else:
        fill(O, k * S[S_STRIDE] + start, count, word)


@inner
def count_written(P, S, count):  # type: ignore[no-untyped-def]
    """Count matches that were written by columns."""
    S[S_OUT] += count * P[P_WIDTH]
    S[S_MATCHES] += count


@inner
def emit(P, S, O, program, begin, end, detected):  # type: ignore[no-untyped-def]
    """Write the match in hand to the output block."""
    if P[P_HEAD] == 0:
        for k in range(P[program + G_EMITS]):
            fill_variable(P, S, O, program, k, S[S_MATCHES], 1)
        count_written(P, S, 1)
        return
    o = S[S_OUT]
    start = o
    if P[P_KLEENE] == 1:
        o += 1
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
def emit_rows(P, S, F, R, O, program, step, depth):  # type: ignore[no-untyped-def]
    """Write a match for each row of a flat last step; False if the output block is full.

    A match differs from the next one only in what this step binds: all else is written once for all of them.
    """
    if P[P_HEAD] > 0:
        while S[S_OUT] + P[P_WIDTH] <= S[S_ROOM]:
            if not next_row(P, S, F, R, step, depth):
                return True
            begin = min(S[DEPTH_BEGIN + depth - 1], value(S, depth, C_BEGIN))
            emit(P, S, O, program, begin, S[S_NOW], S[S_NOW])
        return False
    table = P[program + G_EMIT_TABLE]
    emits = P[program + G_EMITS]
    header = HEADERS + S[SOURCE_STORE + depth] * HEADER
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    stride = S[S_STRIDE]
    start = S[S_MATCHES]
    m = start
    done = False
    if P[step + ST_MODE] == MODE_CHAIN:
        while m + AT_ONCE <= stride:
            if not next_row(P, S, F, R, step, depth):
                done = True
                break
            for k in range(emits):
                if P[table + 3 * k] == EMIT_ROW and P[table + 3 * k + 1] == depth:
                    O[k * stride + m] = S[offset + P[table + 3 * k + 2] * capacity + S[SOURCE_ROW + depth]]
            m += 1
    else:
        mask = np.uint64(S[DEPTH_MASK + depth])
        block = S[DEPTH_BLOCK + depth]
        high = S[DEPTH_HIGH + depth]
        conditions = P[step + ST_PREDICATE]
        while True:
            while mask == np.uint64(0) and not done:
                block += 64
                done = block >= high
                if not done:
                    mask = block_mask(
                        P, S, F, conditions, P[step + ST_PREDICATES], offset + block, capacity, high - block
                    )
            if done or m + SPARE > stride:
                break
            for k in range(emits):
                if P[table + 3 * k] == EMIT_ROW and P[table + 3 * k + 1] == depth:
                    copy_chosen(S, O, offset + P[table + 3 * k + 2] * capacity + block, k * stride + m, mask)
            m += count_bits(mask)
            mask = np.uint64(0)
        S[DEPTH_MASK + depth] = np.int64(mask)
        S[DEPTH_BLOCK + depth] = block
    for k in range(emits):
        if P[table + 3 * k] != EMIT_ROW or P[table + 3 * k + 1] != depth:
            fill_variable(P, S, O, program, k, start, m - start)
    count_written(P, S, m - start)
    return done


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
