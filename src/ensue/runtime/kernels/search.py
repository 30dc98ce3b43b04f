"""The search that one event triggers: a program's steps, depth first, over leaf and partial-match stores.

All of the search's state lies in S, so that it can stop when the output block or a store is full and go on at the
same place.
"""

from __future__ import annotations

from ensue.runtime.kernels.blocks import value
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.lists import emit_lists, enter_list, next_list
from ensue.runtime.kernels.machine import all_hold, element
from ensue.runtime.kernels.output import append_match, emit_rows, finish, total_elements
from ensue.runtime.kernels.pairs import emit_pairs
from ensue.runtime.kernels.scan import enter, is_violated, next_row
from ensue.runtime.kernels.stores import expire, has_room
from ensue.runtime.layout import (
    C_BEGIN,
    COMPLETE_EMIT,
    COMPLETE_KILL,
    COMPLETE_MARK,
    COMPLETE_WAIT,
    D_LIST_TABLE,
    D_LISTS,
    D_STORE,
    DEPTH_BEGIN,
    DONE,
    EASE_LIST,
    EASE_NONE,
    EASE_PAIR,
    EASE_PLAIN,
    G_COMPLETE,
    G_MARK,
    G_MAYBES,
    G_PENDING,
    G_SLOT_TABLE,
    G_SLOTS,
    G_STEP_TABLE,
    G_STEPS,
    H_CAPACITY,
    H_OFFSET,
    HEADER,
    HEADERS,
    INSERT_RECORD,
    KLEENE_COUNT,
    KLEENE_LIST,
    KLEENE_SCRATCH,
    KLEENE_STORE,
    KLEENE_TAIL,
    MODE_KLEENE,
    NULL,
    OUTPUT_FULL,
    P_HEAD,
    P_KLEENE,
    P_LIST_STORE,
    P_PENDING_TABLE,
    P_WIDTH,
    PENDING_DEADLINE,
    PENDING_RECORD,
    S_DEPTH,
    S_MATCHES,
    S_NOW,
    S_OUT,
    S_ROOM,
    S_STRIDE,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_AFTER,
    ST_AFTERS,
    ST_EASE,
    ST_INSERT,
    ST_INSERTS,
    ST_LATE,
    ST_LATE_AFTER,
    ST_LATE_AFTERS,
    ST_LATES,
    ST_MODE,
    ST_NEGATION,
    ST_NEGATIONS,
    ST_SLOT,
    ST_STORE,
    STEP_RECORD,
    STORE_FULL,
    T_BEGIN,
    T_END,
    TRIGGER,
)


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
def lacks_room(P, S, O, program, step, last):  # type: ignore[no-untyped-def]
    """DONE if whatever the next candidate of a step may append has room; else which room is lacking."""
    for k in range(P[step + ST_INSERTS]):
        if not has_room(P, S, P[P[step + ST_INSERT] + k * INSERT_RECORD], 1):
            return STORE_FULL
    if not last:
        return DONE
    complete = P[program + G_COMPLETE]
    if P[P_HEAD] == 0:
        if complete == COMPLETE_EMIT and S[S_MATCHES] >= S[S_STRIDE]:
            return OUTPUT_FULL
    elif complete == COMPLETE_EMIT or P[program + G_MAYBES] > 0:
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
def mark(P, S, F, R, program):  # type: ignore[no-untyped-def]
    """Note the end of the trigger, an event of a negated type, beside the earlier events that it is the first after."""
    step = P[program + G_STEP_TABLE] + STEP_RECORD
    header = HEADERS + P[step + ST_STORE] * HEADER
    expire(P, S, header)
    S[SOURCE_STORE] = 0
    S[SOURCE_ROW] = 0
    enter(P, S, step, 1)
    place = S[header + H_OFFSET] + P[program + G_MARK] * S[header + H_CAPACITY]
    while next_row(P, S, F, R, step, 1):
        S[place + S[SOURCE_ROW + 1]] = S[TRIGGER + T_END]


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
    if complete == COMPLETE_MARK:
        mark(P, S, F, R, program)
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
        ease = P[step + ST_EASE]
        if ease == EASE_PLAIN:
            if not next_row(P, S, F, R, step, depth):
                depth -= 1
                continue
            S[DEPTH_BEGIN + depth] = min(S[DEPTH_BEGIN + depth - 1], value(S, depth, C_BEGIN))
            depth += 1
            step += STEP_RECORD
            if P[step + ST_MODE] == MODE_KLEENE:
                enter_list(P, S, F, R, step, depth)
            else:
                enter(P, S, step, depth)
            continue
        if ease != EASE_NONE:
            if ease == EASE_PAIR:
                is_done = emit_pairs(P, S, F, O, program, step, depth)
            elif ease == EASE_LIST:
                is_done = emit_lists(P, S, F, R, O, program, step, depth)
            else:
                is_done = emit_rows(P, S, F, R, O, program, step, depth)
            if not is_done:
                S[S_DEPTH] = depth
                return OUTPUT_FULL
            depth -= 1
            continue
        status = lacks_room(P, S, O, program, step, depth == steps)
        if status != DONE:
            S[S_DEPTH] = depth
            return status
        if P[step + ST_MODE] == MODE_KLEENE:
            if not next_list(P, S, F, R, step):
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
