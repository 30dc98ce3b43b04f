"""What events do to the counters of sub-patterns: steps, in one word or two; and what absent events leave behind."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.counting_exact import add_parts, multiply_wide
from ensue.runtime.kernels.sub_patterns_layout import (
    E_LEAF,
    E_SLOT,
    E_TIME,
    E_WEIGHTS,
    G_ABSENT,
    G_LIVE,
    G_NODES,
    G_NODES_END,
    G_OPEN,
    G_OPEN_END,
    G_UNDO,
    H_ENTRY_AT,
    H_ENTRY_ROOM,
    H_SLOT_AT,
    H_SLOT_WIDTH,
    H_TOTAL_AT,
    H_WIDE,
    IS_OUTPUT,
    NEGATED,
    NO_WEIGHT,
    P_ENTRY_WIDTH,
    P_GAPS,
    P_KEY,
    P_LEAVES,
    P_LINK,
    P_NODES,
    P_PHASES,
    P_TOTALS,
    P_WINDOW,
    S_KEYS,
    SOURCE,
    STEP,
    TARGET,
    WEIGHT,
)

FULL = 2**60  # of the upper word of what only grows: it stays there


@inner
def entry_place(P, S, number):  # type: ignore[no-untyped-def]
    """Where an entry lies."""
    return S[H_ENTRY_AT] + (number & (S[H_ENTRY_ROOM] - 1)) * P[P_ENTRY_WIDTH]


@inner
def data_of(P, slot):  # type: ignore[no-untyped-def]
    """Where the nodes of the slot at a place lie."""
    return slot + S_KEYS + P[P_KEY] + P[P_LEAVES]


@inner
def weighed(P, S, data, weights, s):  # type: ignore[no-untyped-def]
    """What a step brings."""
    value, weight = S[data + P[s + SOURCE]], P[s + WEIGHT]
    if weight != NO_WEIGHT:
        return -value if weight == NEGATED else value * S[weights + weight]
    return value


@inner
def step(P, S, at, first, stop, sign):  # type: ignore[no-untyped-def]
    """The steps of the event at a place, in the slot of its key."""
    data = data_of(P, S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH])
    weights = at + E_WEIGHTS
    if S[H_WIDE] != 0:
        step_wide(P, S, data, weights, first, stop, sign)
        return
    if P[P_TOTALS] == 0:
        for s in range(first, stop, STEP):
            S[data + P[s + TARGET]] += sign * weighed(P, S, data, weights, s)
        return
    total = data_of(P, S[H_TOTAL_AT])
    for s in range(first, stop, STEP):
        value = sign * weighed(P, S, data, weights, s)
        S[data + P[s + TARGET]] += value
        if P[s + IS_OUTPUT] != 0:
            S[total + P[s + TARGET]] += value


@inner
def step_wide(P, S, data, weights, first, stop, sign):  # type: ignore[no-untyped-def]
    """The same with numbers of two words."""
    nodes, total = P[P_NODES], data_of(P, S[H_TOTAL_AT])
    for s in range(first, stop, STEP):
        low, high = S[data + P[s + SOURCE]], S[data + nodes + P[s + SOURCE]]
        weight = P[s + WEIGHT]
        if weight >= 0:
            low, high = multiply_wide(S[weights + weight], low, high)
        if (sign < 0) != (weight == NEGATED):
            high = -high - np.int64(low != 0)
            low = -low
        target = P[s + TARGET]
        add_parts(S, data + target, data + nodes + target, low, high)
        if P[P_WINDOW] < 0:
            S[data + nodes + target] = min(max(S[data + nodes + target], np.int64(-FULL)), np.int64(FULL))
        if P[P_TOTALS] != 0 and P[s + IS_OUTPUT] != 0:
            add_parts(S, total + target, total + nodes + target, low, high)


# -- absences --------------------------------------------------------------------------------------------------------


@inner
def clears_nothing(P, S, leaf, data):  # type: ignore[no-untyped-def]
    """Whether an event that must be absent comes after nothing that no other such event has come after already.

    Then it does not matter: what it would end has been ended, and expires before the event that ended it.
    """
    for k in range(P[P[P_GAPS] + leaf], P[P[P_GAPS] + leaf + 1]):
        for n in range(P[P[k] + G_OPEN], P[P[k] + G_OPEN_END]):
            if S[data + P[n]] != 0:
                return False
    return True


@inner
def leave_gaps(P, S, number, first, stop, tail):  # type: ignore[no-untyped-def]
    """An entry expires, one of those from `first` to `stop` of one time, all others being younger.

    What is counted since the first live event of a gap that it is of begins with the next one then.
    """
    at = entry_place(P, S, number)
    data = data_of(P, S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH])
    listed = P[P_GAPS] + S[at + E_LEAF]
    for k in range(P[listed], P[listed + 1]):
        gap = P[k]
        leaving, is_first = np.int64(1), True
        for other in range(first, stop if stop - first > 1 else first):
            entry = entry_place(P, S, other)
            is_alike = S[entry + E_SLOT] == S[at + E_SLOT] and P[P[gap + G_ABSENT] + S[entry + E_LEAF]] != 0
            if is_alike and other != number:
                leaving += 1
                is_first = is_first and other > number
        if not is_first:
            continue
        if S[data + P[gap + G_LIVE]] > leaving:
            begin_later(P, S, gap, number, tail)
            continue
        for n in range(P[gap + G_NODES], P[gap + G_NODES_END]):
            S[data + P[n]] = 0
            if S[H_WIDE] != 0:
                S[data + P[P_NODES] + P[n]] = 0


@inner
def following(P, S, number, tail):  # type: ignore[no-untyped-def]
    """The next entry of the same slot, -1 if there is none."""
    if P[P_LINK] != 0:
        return S[entry_place(P, S, number) + P[P_LINK]]
    return number + 1 if number + 1 < tail else np.int64(-1)


@inner
def begin_later(P, S, gap, number, tail):  # type: ignore[no-untyped-def]
    """Take all events out of what is since an absent event that are not since the next one. There is a next one."""
    phases, undo, absent = P[P_PHASES], P[gap + G_UNDO], P[gap + G_ABSENT]
    at = entry_place(P, S, number)
    time, data = S[at + E_TIME], data_of(P, S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH])
    number = following(P, S, number, tail)
    while S[entry_place(P, S, number) + E_TIME] == time:
        number = following(P, S, number, tail)
    while True:
        at = entry_place(P, S, number)
        leaf, after = S[at + E_LEAF], following(P, S, number, tail)
        if after >= 0 and S[entry_place(P, S, after) + E_TIME] == S[at + E_TIME]:
            if undo_together(P, S, gap, number, tail):
                return
            while after >= 0 and S[entry_place(P, S, after) + E_TIME] == S[at + E_TIME]:
                after = following(P, S, after, tail)
        else:
            bounds = undo + leaf * (phases + 1)
            if S[H_WIDE] != 0:
                step_wide(P, S, data, at + E_WEIGHTS, P[bounds], P[bounds + phases], np.int64(-1))
            else:
                for s in range(P[bounds], P[bounds + phases], STEP):
                    S[data + P[s + TARGET]] -= weighed(P, S, data, at + E_WEIGHTS, s)
            if P[absent + leaf] != 0:
                return
        number = after


@inner
def undo_together(P, S, gap, begin, tail):  # type: ignore[no-untyped-def]
    """Take all events of one time, from `begin` on, out of what is since an absent event; whether one is among them."""
    phases, met = P[P_PHASES], False
    time = S[entry_place(P, S, begin) + E_TIME]
    for phase in range(phases):
        other = begin
        while other >= 0 and S[entry_place(P, S, other) + E_TIME] == time:
            at = entry_place(P, S, other)
            bounds = P[gap + G_UNDO] + S[at + E_LEAF] * (phases + 1) + phase
            if P[bounds] < P[bounds + 1]:
                step(P, S, at, P[bounds], P[bounds + 1], np.int64(-1))
            met = met or P[P[gap + G_ABSENT] + S[at + E_LEAF]] != 0
            other = following(P, S, other, tail)
    return met
