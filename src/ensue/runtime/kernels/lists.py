"""Kleene steps: every list of elements that satisfies the conditions, each once."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import compare_block, mark_greater, trailing_zeros, value
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.machine import all_hold, element, list_length
from ensue.runtime.kernels.output import total_elements
from ensue.runtime.kernels.scan import block_mask, compare_bound, enter, is_missing, next_row
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    DEPTH_BEGIN,
    DEPTH_HIGH,
    DEPTH_LOW,
    EMIT_LIST,
    EMIT_ROW,
    G_BRANCH,
    G_EMIT_TABLE,
    G_EMITS,
    H_CAPACITY,
    H_OFFSET,
    HEADER,
    HEADERS,
    KLEENE_AT,
    KLEENE_CANDIDATES,
    KLEENE_COUNT,
    KLEENE_SCRATCH,
    KLEENE_TAIL,
    LEAF_SEQ,
    P_WIDTH,
    PAIR_RECORD,
    S_MATCHES,
    S_NOW,
    S_OUT,
    S_ROOM,
    SCRATCH_BEGIN,
    SCRATCH_CHOSEN,
    SCRATCH_EARLIER,
    SCRATCH_END,
    SCRATCH_LATER,
    SCRATCH_ROW,
    SCRATCH_SEQ,
    SOURCE_ROW,
    SOURCE_STORE,
    ST_ADJACENT,
    ST_ADJACENTS,
    ST_CODES,
    ST_MAXIMUM,
    ST_MINIMUM,
    ST_PAIR,
    ST_PAIRS,
    ST_PREDICATE,
    ST_PREDICATES,
    ST_SLOT,
    STACK,
    T_BEGIN,
    T_END,
    T_SEQ,
    TRIGGER,
)


@inner
def enter_list(P, S, F, R, step, depth):  # type: ignore[no-untyped-def]
    """Begin a Kleene step: collect the rows that can be elements into the slot's scratch, in time order."""
    enter(P, S, step, depth)
    slot = P[step + ST_SLOT]
    header = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
    scratch = S[header + H_OFFSET]
    room = S[header + H_CAPACITY]
    leaf = HEADERS + S[SOURCE_STORE + depth] * HEADER
    offset = S[leaf + H_OFFSET]
    capacity = S[leaf + H_CAPACITY]
    found = np.int64(0)
    if P[step + ST_CODES] > 0:
        while next_row(P, S, F, R, step, depth):
            S[scratch + SCRATCH_ROW * room + found] = S[SOURCE_ROW + depth]
            found += 1
        for k in range(found):
            copy_candidate(P, S, step, scratch + k, room, offset + S[scratch + SCRATCH_ROW * room + k], capacity)
    else:
        high = S[DEPTH_HIGH + depth]
        for block in range(S[DEPTH_LOW + depth], high, 64):
            first = offset + block
            mask = block_mask(P, S, F, P[step + ST_PREDICATE], P[step + ST_PREDICATES], first, capacity, high - block)
            while mask != np.uint64(0):
                bit = np.int64(trailing_zeros(mask))
                mask &= mask - np.uint64(1)
                S[scratch + SCRATCH_ROW * room + found] = block + bit
                copy_candidate(P, S, step, scratch + found, room, first + bit, capacity)
                found += 1
    S[KLEENE_CANDIDATES + slot] = found
    S[KLEENE_COUNT + slot] = -1  # not even the empty list has been given


@inner
def copy_candidate(P, S, step, target, room, source, capacity):  # type: ignore[no-untyped-def]
    """Copy what is asked of a candidate again and again to where it lies close to that of others."""
    S[target + SCRATCH_BEGIN * room] = S[source + C_BEGIN * capacity]
    S[target + SCRATCH_END * room] = S[source + C_END * capacity]
    S[target + SCRATCH_SEQ * room] = S[source + LEAF_SEQ * capacity]
    if P[step + ST_PAIRS] > 0:
        S[target + SCRATCH_LATER * room] = S[source + P[P[step + ST_PAIR] + 1] * capacity]
        S[target + SCRATCH_EARLIER * room] = S[source + P[P[step + ST_PAIR] + 3] * capacity]


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
def next_follower(P, S, F, R, step, slot, depth, follow):  # type: ignore[no-untyped-def]
    """Choose the first candidate from `follow` on that can be element `depth` of the list; False if there is none.

    Most of those that cannot follow the element before it are passed over many at a time.
    """
    header = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
    offset = S[header + H_OFFSET]
    room = S[header + H_CAPACITY]
    chosen = offset + SCRATCH_CHOSEN * room
    candidates = S[KLEENE_CANDIDATES + slot]
    S[KLEENE_COUNT + slot] = depth + 1
    if depth == 0:
        S[chosen] = follow
        return follow < candidates
    previous = S[chosen + depth - 1]
    ended = S[offset + SCRATCH_END * room + previous]
    earlier = S[offset + SCRATCH_EARLIER * room + previous]
    pairs = P[step + ST_PAIRS]
    operator = P[P[step + ST_PAIR]] if pairs > 0 else 0
    is_plain = pairs <= 1 and P[step + ST_ADJACENTS] == 0
    if pairs > 0 and is_missing(operator, earlier):
        return False
    while follow < candidates:
        count = min(candidates - follow, 64)
        mask = mark_greater(S, offset + SCRATCH_BEGIN * room + follow, ended, count)
        later = offset + SCRATCH_LATER * room + follow
        if pairs > 0:
            mask &= compare_block(S, F, later, operator, earlier, count)
        while mask != np.uint64(0):
            bit = np.int64(trailing_zeros(mask))
            S[chosen + depth] = follow + bit
            if is_plain:
                if pairs == 0 or not is_missing(operator, S[later + bit]):
                    return True
            elif can_follow(P, S, R, step, slot, depth):
                return True
            mask &= mask - np.uint64(1)
        follow += 64
    return False


@inner
def next_list(P, S, F, R, step):  # type: ignore[no-untyped-def]
    """The next list of a Kleene slot: each list once, a list before its extensions; False if there is none.

    A list that may not stand alone (too short, or not followed by the tail) is passed over but still extended.
    """
    slot = P[step + ST_SLOT]
    header = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
    chosen = S[header + H_OFFSET] + SCRATCH_CHOSEN * S[header + H_CAPACITY]
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
                found = next_follower(P, S, F, R, step, slot, depth, follow)
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
def emit_lists(P, S, F, R, O, program, step, depth):  # type: ignore[no-untyped-def]
    """Write a match for each list of a last step that leaves nothing to decide; False if the output block is full.

    What other steps have bound is the same in all of them.
    """
    slot = P[step + ST_SLOT]
    header = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
    offset = S[header + H_OFFSET]
    room = S[header + H_CAPACITY]
    chosen = offset + SCRATCH_CHOSEN * room
    seqs = offset + SCRATCH_SEQ * room
    begins = offset + SCRATCH_BEGIN * room
    table = P[program + G_EMIT_TABLE]
    emits = P[program + G_EMITS]
    before = S[DEPTH_BEGIN + depth - 1]
    tail = S[KLEENE_TAIL + slot]
    others = total_elements(P, S, program) - max(0, S[KLEENE_COUNT + slot]) - tail
    for k in range(emits):
        S[STACK + k] = value(S, P[table + 3 * k + 1], P[table + 3 * k + 2]) if P[table + 3 * k] == EMIT_ROW else -1
    o = S[S_OUT]
    written = np.int64(0)
    full = False
    while True:
        # the next list has at most one element more
        full = o + P[P_WIDTH] + others + max(0, S[KLEENE_COUNT + slot]) + tail + 2 > S[S_ROOM]
        if full or not next_list(P, S, F, R, step):
            break
        count = S[KLEENE_COUNT + slot]
        start = o
        O[o + 1] = P[program + G_BRANCH]
        O[o + 2] = min(before, S[begins + S[chosen]]) if count > 0 else before
        O[o + 3] = S[S_NOW]
        O[o + 4] = S[S_NOW]
        o += 5
        for k in range(emits):
            if P[table + 3 * k] != EMIT_LIST:
                O[o] = S[STACK + k]
                o += 1
            elif P[table + 3 * k + 1] == slot:
                O[o] = count + tail
                o += 1
                for i in range(count):
                    O[o + i] = S[seqs + S[chosen + i]]
                if tail == 1:
                    O[o + count] = S[TRIGGER + T_SEQ]
                o += count + tail
            else:
                other = P[table + 3 * k + 1]
                length = list_length(S, other)
                O[o] = length
                o += 1
                for i in range(length):
                    O[o + i] = element(P, S, other, i, LEAF_SEQ, T_SEQ)
                o += length
        O[start] = o - start
        written += 1
    S[S_OUT] = o
    S[S_MATCHES] += written
    return not full
