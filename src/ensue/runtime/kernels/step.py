"""The loop over a batch of events: what is due, what each event triggers, and where it is stored."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import floats, link_last, trailing_zeros, words
from ensue.runtime.kernels.columns import column_stride
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.output import emit_waiting
from ensue.runtime.kernels.scan import LATEST
from ensue.runtime.kernels.search import search
from ensue.runtime.kernels.stores import count_event, expire, has_room, is_empty
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    C_FIRST,
    C_KEY,
    C_POSITION,
    COUNTED_BIT,
    D_STORE,
    DONE,
    H_CAPACITY,
    H_HEAD,
    H_OFFSET,
    H_SHARED,
    H_TAIL,
    HEADER,
    HEADERS,
    L_COPIES,
    L_COPY_TABLE,
    L_MARKS,
    L_PROGRAM_TABLE,
    L_PROGRAMS,
    L_STORE,
    L_USE_TABLE,
    L_USES,
    LEAF_RECORD,
    LEAF_SEQ,
    LOOKED,
    NULL,
    OUTPUT_FULL,
    P_ATTRIBUTES,
    P_COUNT_WINDOW,
    P_COUNTERS,
    P_LEAF_TABLE,
    P_PARTITION_COLUMNS,
    P_PENDING_TABLE,
    P_PENDINGS,
    P_WIDTH,
    P_WINDOW,
    PENDING_DEADLINE,
    PENDING_RECORD,
    PRESENT_BIT,
    PROGRAM_RECORD,
    S_DEADLINE,
    S_DEPTH,
    S_ENDED,
    S_ENOUGH,
    S_LEAF,
    S_LOOKED,
    S_NOW,
    S_OUT,
    S_PHASE,
    S_POSITION,
    S_PROGRAM,
    S_ROOM,
    S_ROW,
    S_STRIDE,
    STORE_FULL,
    T_ATTRIBUTES,
    T_BEGIN,
    T_END,
    T_FLOOR,
    T_KEY,
    T_MASK,
    T_POSITION,
    T_POSITION_FLOOR,
    T_SEQ,
    TRIGGER,
)

LEAF_BITS = np.uint64((1 << PRESENT_BIT) - 1)


@inner
def report_due(P, S, O):  # type: ignore[no-untyped-def]
    """Report the waiting matches whose window has passed by S_NOW (all of them once input has ended)."""
    counted = P[P_COUNT_WINDOW] != NULL
    ended = S[S_ENDED] == 1
    soonest = np.int64(LATEST)
    for d in range(P[P_PENDINGS]):
        pending = P[P_PENDING_TABLE] + d * PENDING_RECORD
        header = HEADERS + P[pending + D_STORE] * HEADER
        deadlines = S[header + H_OFFSET] + PENDING_DEADLINE * S[header + H_CAPACITY]
        keys = S[header + H_OFFSET] + C_KEY * S[header + H_CAPACITY]
        for row in range(S[header + H_HEAD], S[header + H_TAIL]):
            deadline = S[deadlines + row]
            if deadline == NULL:
                continue
            if counted:
                due = ended or (
                    S[TRIGGER + T_POSITION] + 1 >= deadline
                    and (P[P_COUNTERS] < 0 or same_partition(P, S, header, row, S[keys + row]))
                )
                detected = NULL if ended else S[S_NOW]
            else:
                due = ended or deadline <= S[S_NOW]
                detected = deadline
            if not due:
                soonest = min(soonest, deadline)
            elif not emit_waiting(P, S, O, pending, row, detected):
                return OUTPUT_FULL
    S[S_DEADLINE] = soonest
    return DONE


@inner
def same_partition(P, S, header, row, key):  # type: ignore[no-untyped-def]
    """Whether a waiting match belongs to the trigger's partition."""
    if key != S[TRIGGER + T_KEY]:
        return False
    offset = S[header + H_OFFSET] + row
    for k in range(P[P_PARTITION_COLUMNS]):
        if S[offset + (C_FIRST + k) * S[header + H_CAPACITY]] != S[TRIGGER + T_ATTRIBUTES + k]:
            return False
    return True


@inner
def begin_event(P, S, B, stride, row):  # type: ignore[no-untyped-def]
    """Make a batch row the trigger: copy it, count it, and set what has left the window."""
    S[TRIGGER + T_END] = B[T_END * stride + row]
    S[TRIGGER + T_BEGIN] = B[T_BEGIN * stride + row]
    S[TRIGGER + T_SEQ] = B[T_SEQ * stride + row]
    S[TRIGGER + T_MASK] = B[T_MASK * stride + row]
    S[TRIGGER + T_KEY] = B[T_KEY * stride + row]
    for k in range(P[P_ATTRIBUTES]):
        S[TRIGGER + T_ATTRIBUTES + k] = B[(T_ATTRIBUTES + k) * stride + row]
    S[S_NOW] = B[T_END * stride + row]
    S[TRIGGER + T_FLOOR] = B[T_END * stride + row] - P[P_WINDOW] if P[P_WINDOW] != NULL else NULL
    position = np.int64(0)
    if P[P_COUNT_WINDOW] != NULL and (np.uint64(B[T_MASK * stride + row]) >> np.uint64(COUNTED_BIT)) & np.uint64(1):
        if P[P_COUNTERS] >= 0:
            position = count_event(P, S)
            if position < 0:
                return False
        else:
            S[S_POSITION] += 1
            position = S[S_POSITION]
        S[TRIGGER + T_POSITION_FLOOR] = position - P[P_COUNT_WINDOW]
    S[TRIGGER + T_POSITION] = position
    return True


@inner
def is_useless(P, S, leaf):  # type: ignore[no-untyped-def]
    """Whether an event of a leaf need not be stored: each user lacks an event that had to come before it.

    Bry and Eckert's suppressed input: what must be preceded by something that is not there can be passed over.
    """
    uses = P[leaf + L_USES]
    table = P[leaf + L_USE_TABLE]
    for _ in range(uses):
        stores = P[table]
        lacking = False
        for k in range(stores):
            if is_empty(P, S, HEADERS + P[table + 1 + k] * HEADER):
                lacking = True
                break
        if not lacking:
            return False
        table += 1 + stores
    return uses > 0


@inner
def store_event(P, S, leaf):  # type: ignore[no-untyped-def]
    """Append the trigger to a leaf's store, unless it is useless; False if the store needs room."""
    store = P[leaf + L_STORE]
    if store < 0:
        return True
    header = HEADERS + store * HEADER
    if S[header + H_SHARED] == 1:  # it is there already
        expire(P, S, header)
        S[header + H_TAIL] += 1
        link_last(S, header)
        return True
    if is_useless(P, S, leaf):
        return True
    expire(P, S, header)
    if not has_room(P, S, store, 1):
        return False
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    row = S[header + H_TAIL]
    S[offset + C_END * capacity + row] = S[TRIGGER + T_END]
    S[offset + C_BEGIN * capacity + row] = S[TRIGGER + T_BEGIN]
    S[offset + C_POSITION * capacity + row] = S[TRIGGER + T_POSITION]
    S[offset + C_KEY * capacity + row] = S[TRIGGER + T_KEY]
    S[offset + LEAF_SEQ * capacity + row] = S[TRIGGER + T_SEQ]
    table = P[leaf + L_COPY_TABLE]
    for k in range(P[leaf + L_COPIES]):
        S[offset + (C_FIRST + k) * capacity + row] = S[TRIGGER + P[table + k]]
    for k in range(P[leaf + L_MARKS]):
        S[offset + (C_FIRST + P[leaf + L_COPIES] + k) * capacity + row] = LATEST
    S[header + H_TAIL] = row + 1
    link_last(S, header)
    return True


@kernel
def step(program, state, ranks, batch, output, rows):  # type: ignore[no-untyped-def]
    """Work through the first `rows` rows of a batch; DONE, or why not, to go on from where S says.

    P: program, S: state, F: the state as floats, R: ranks of strings, B: batch columns by row, O: output block.
    """
    P, S, F, R, B, O = words(program), words(state), floats(state), words(ranks), words(batch), words(output)
    S[S_ROOM] = len(output)
    S[S_STRIDE] = column_stride(len(output), P[P_WIDTH])
    S[S_LOOKED] = 0
    enough = S[S_ENOUGH] if S[S_ENOUGH] > 0 else LATEST
    stride = batch.shape[1]
    row = S[S_ROW]
    while row < rows:
        if S[S_PHASE] == 0:
            if not begin_event(P, S, B, stride, row):
                return STORE_FULL
            S[S_PHASE] = 1
        if S[S_PHASE] == 1:
            if P[P_COUNT_WINDOW] == NULL and S[S_NOW] >= S[S_DEADLINE] and report_due(P, S, O) != DONE:
                return OUTPUT_FULL
            S[S_PHASE] = 2
            S[S_LEAF] = np.int64(np.uint64(S[TRIGGER + T_MASK]) & LEAF_BITS)  # the leaves still to run
            S[S_PROGRAM] = 0
            S[S_DEPTH] = -1
        if S[S_PHASE] == 2:
            mask = np.uint64(S[S_LEAF])
            while mask != np.uint64(0):
                leaf = P[P_LEAF_TABLE] + np.int64(trailing_zeros(mask)) * LEAF_RECORD
                while S[S_PROGRAM] < P[leaf + L_PROGRAMS]:
                    program = P[leaf + L_PROGRAM_TABLE] + S[S_PROGRAM] * PROGRAM_RECORD
                    status = search(P, S, F, R, O, program)
                    if status != DONE:
                        S[S_LEAF] = np.int64(mask)
                        return status
                    S[S_PROGRAM] += 1
                S[S_PROGRAM] = 0
                mask &= mask - np.uint64(1)
            S[S_PHASE] = 3
            S[S_LEAF] = np.int64(np.uint64(S[TRIGGER + T_MASK]) & LEAF_BITS)
        if S[S_PHASE] == 3:
            mask = np.uint64(S[S_LEAF])
            while mask != np.uint64(0):
                leaf = P[P_LEAF_TABLE] + np.int64(trailing_zeros(mask)) * LEAF_RECORD
                if not store_event(P, S, leaf):
                    S[S_LEAF] = np.int64(mask)
                    return STORE_FULL
                mask &= mask - np.uint64(1)
            S[S_PHASE] = 4
        if P[P_COUNT_WINDOW] != NULL and P[P_PENDINGS] > 0 and report_due(P, S, O) != DONE:
            return OUTPUT_FULL
        S[S_PHASE] = 0
        row += 1
        S[S_ROW] = row
        if S[S_LOOKED] >= enough and row < rows:
            return LOOKED
    return DONE


@kernel
def advance(program, state, output, now, ended):  # type: ignore[no-untyped-def]
    """Let time reach `now` with no event: report the waiting matches that are due then, or all if input has ended."""
    P, S, O = words(program), words(state), words(output)
    S[S_ROOM] = len(output)
    S[S_ENDED] = ended
    if P[P_COUNT_WINDOW] == NULL:
        S[S_NOW] = max(S[S_NOW], now)
        if ended == 1 or S[S_NOW] >= S[S_DEADLINE]:
            return report_due(P, S, O)
        return DONE
    return report_due(P, S, O) if ended == 1 else DONE


@kernel
def step_one(program, state, ranks, batch, output):  # type: ignore[no-untyped-def]
    """Work on a batch of one row; 0 if that is all, 1 if something came out or is lacking (`step` then goes on)."""
    S = words(state)
    S[S_ROW] = 0
    status = step(program, state, ranks, batch, output, 1)
    return np.int64(status != DONE or S[S_OUT] > 0)
