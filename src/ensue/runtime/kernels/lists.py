"""Kleene steps: every list of elements that satisfies the conditions, each once."""

from __future__ import annotations

from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.machine import all_hold, element
from ensue.runtime.kernels.scan import compare_bound, enter, is_missing, next_row
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    H_CAPACITY,
    H_OFFSET,
    HEADER,
    HEADERS,
    KLEENE_AT,
    KLEENE_CANDIDATES,
    KLEENE_COUNT,
    KLEENE_SCRATCH,
    KLEENE_TAIL,
    PAIR_RECORD,
    SOURCE_ROW,
    ST_ADJACENT,
    ST_ADJACENTS,
    ST_MAXIMUM,
    ST_MINIMUM,
    ST_PAIR,
    ST_PAIRS,
    ST_SLOT,
    T_BEGIN,
    T_END,
)


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
