"""Rows of the queries that share counters, and whether their numbers fit in the words that they have."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, float_of
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.sub_patterns_layout import (
    BEYOND,
    DONE,
    E_LEAF,
    E_SLOT,
    E_TIME,
    G_ABSENT,
    H_FIRST,
    H_HEAD,
    H_LIMITS_AT,
    H_LIMITS_FOR,
    H_MOST,
    H_SLOT_AT,
    H_SLOT_WIDTH,
    H_SLOTS,
    H_TAIL,
    H_TICK,
    H_TOTAL_AT,
    H_WIDE,
    H_WORK_AT,
    M_AT,
    M_GAP,
    M_GAP_PLACE,
    M_LENGTH,
    M_OUTPUTS,
    M_WEIGHTED,
    M_WIDE_SAFE,
    MEMBER,
    NEED_WIDE,
    O_AT,
    O_ROOM,
    O_USED,
    OUTPUT,
    OVERFLOW,
    P_KEY,
    P_LEAVES,
    P_MEMBERS,
    P_NODES,
    P_QUERIES,
    P_TOLD,
    P_TOTALS,
    P_TRIGGERS,
    P_WIDE_SAFE,
    P_WINDOW,
    R_LEAF,
    R_TIME,
    S_KEYS,
    S_LIVE,
)
from ensue.runtime.kernels.sub_patterns_steps import data_of, entry_place

MOST = 4e18  # below what one word holds, and
MOST_WIDE = 4e37  # two


@inner
def tell(P, S, R, total, row, stop, O):  # type: ignore[no-untyped-def]
    """Write the rows of a time, there is room for them. NEED_WIDE: numbers do not fit in one word, nothing is written.

    BEYOND: they do not fit in two, and the last row says so.
    """
    S[H_TICK] += 1
    if P[P_TOTALS] != 0:
        slot, live = S[H_TOTAL_AT], S[H_TAIL] - S[H_HEAD]
        for k in range(row, stop):
            if S[H_WIDE] == 0 and not are_safe(P, S, R[R_LEAF * total + k], slot, live):
                return NEED_WIDE
        for k in range(row, stop):
            if tell_leaf(P, S, slot, live, R[R_LEAF * total + k], R[R_TIME * total + row], O) != DONE:
                return BEYOND
        return DONE
    for turn in range(S[H_WIDE], 2):
        for number in range(S[H_FIRST], S[H_TAIL]):
            at = entry_place(P, S, number)
            slot = S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH]
            if turn == 0:
                if not are_safe(P, S, S[at + E_LEAF], slot, S[slot + S_LIVE]):
                    return NEED_WIDE
            elif tell_leaf(P, S, slot, S[slot + S_LIVE], S[at + E_LEAF], S[at + E_TIME], O) != DONE:
                return BEYOND
    return DONE


@inner
def tell_leaf(P, S, slot, live, leaf, time, O):  # type: ignore[no-untyped-def]
    """The row of the queries that end with a leaf, once a time."""
    first, stop = P[P[P_TOLD] + leaf], P[P[P_TOLD] + leaf + 1]
    mark = slot + S_KEYS + P[P_KEY] + leaf
    if first == stop or S[mark] == S[H_TICK]:
        return DONE
    S[mark] = S[H_TICK]
    write_row(P, S, slot, leaf, time, O)
    if S[H_WIDE] == 0 or P[P_WINDOW] < 0 or live <= P[P_WIDE_SAFE]:
        return DONE
    for t in range(P[P[P_TRIGGERS] + leaf], P[P[P_TRIGGERS] + leaf + 1]):
        member = P[P_MEMBERS] + P[t] * MEMBER
        if live > P[member + M_WIDE_SAFE] and estimate(P, S, member, slot) > MOST_WIDE:
            mark_beyond(P, member, leaf, O)
            return BEYOND
    return DONE


@inner
def write_row(P, S, slot, leaf, time, O):  # type: ignore[no-untyped-def]
    """Put a row behind those of a leaf."""
    first, stop = P[P[P_TOLD] + leaf], P[P[P_TOLD] + leaf + 1]
    home = OUTPUT * leaf
    room = O[home + O_ROOM]
    place = O[home + O_AT] + O[home + O_USED]
    O[home + O_USED] += 1
    O[place] = time
    for w in range(P[P_KEY]):
        place += room
        O[place] = S[slot + S_KEYS + w]
    data = data_of(P, slot)
    for _ in range(S[H_WIDE] + 1):
        for t in range(first, stop):
            place += room
            O[place] = S[data + P[t]]
        data += P[P_NODES]


@inner
def mark_beyond(P, member, leaf, O):  # type: ignore[no-untyped-def]
    """Let the last row of a leaf say that the numbers of a query do not fit."""
    first, stop = P[P[P_TOLD] + leaf], P[P[P_TOLD] + leaf + 1]
    home = OUTPUT * leaf
    place = O[home + O_AT] + O[home + O_USED] - 1 + (P[P_KEY] + 1 + stop - first) * O[home + O_ROOM]
    for t in range(first, stop):
        for k in range(P[member + M_OUTPUTS]):
            if P[P[member + M_AT] + k] == P[t]:
                O[place + (t - first) * O[home + O_ROOM]] = OVERFLOW


# -- whether numbers fit ---------------------------------------------------------------------------------------------


@inner
def set_limits(P, S):  # type: ignore[no-untyped-def]
    """How many live events are too few for a number beyond one word: at most the mean number of each item, together."""
    if S[H_LIMITS_FOR] == S[H_MOST]:
        return
    S[H_LIMITS_FOR] = S[H_MOST]
    members, leaves = S[H_LIMITS_AT], S[H_LIMITS_AT] + P[P_QUERIES]
    for leaf in range(P[P_LEAVES]):
        S[leaves + leaf] = 2**61
        for t in range(P[P[P_TRIGGERS] + leaf], P[P[P_TRIGGERS] + leaf + 1]):
            member = P[P_MEMBERS] + P[t] * MEMBER
            most = MOST / np.float64(S[H_MOST]) if P[member + M_WEIGHTED] != 0 else MOST
            length = np.float64(P[member + M_LENGTH])
            limit = np.int64(min(length * max(most, 1.0) ** (1.0 / length), 2.0**61)) - 1
            S[members + P[t]] = limit
            S[leaves + leaf] = min(S[leaves + leaf], limit)


@inner
def are_safe(P, S, leaf, slot, live):  # type: ignore[no-untyped-def]
    """Whether the numbers of all queries that end with a leaf surely fit in the words that they have."""
    wide = S[H_WIDE] != 0
    if live <= (P[P_WIDE_SAFE] if wide else S[S[H_LIMITS_AT] + P[P_QUERIES] + leaf]):
        return True
    for t in range(P[P[P_TRIGGERS] + leaf], P[P[P_TRIGGERS] + leaf + 1]):
        member = P[P_MEMBERS] + P[t] * MEMBER
        if wide:
            if live > P[member + M_WIDE_SAFE]:
                return False
        elif live > S[S[H_LIMITS_AT] + P[t]] and not fits(P, S, member, slot):
            return False
    return True


@inner
def fits(P, S, member, slot):  # type: ignore[no-untyped-def]
    """Whether the numbers of a query surely fit in one word: not more than one of each item's events, put together."""
    length = P[member + M_LENGTH]
    at, data = P[member + M_AT] + P[member + M_OUTPUTS], data_of(P, slot)
    if P[P_TOTALS] != 0:
        return False
    bound = np.float64(S[H_MOST]) if P[member + M_WEIGHTED] != 0 else 1.0
    for k in range(length):
        bound *= np.float64(S[data + P[at + k]])
    return bound < MOST


@inner
def estimate(P, S, member, slot):  # type: ignore[no-untyped-def]
    """The number of a query's matches in a slot (of all slots where they are added up), about, counted anew."""
    length = P[member + M_LENGTH]
    at, work = P[member + M_AT] + P[member + M_OUTPUTS], S[H_WORK_AT]
    found = 0.0
    for each in range(S[H_SLOTS] if P[P_TOTALS] != 0 else 1):
        place = S[H_SLOT_AT] + each * S[H_SLOT_WIDTH] if P[P_TOTALS] != 0 else slot
        bound = 1.0
        for k in range(length):
            bound *= np.float64(S[data_of(P, place) + P[at + k]])
            S[work + k] = 0
        if bound < 1e30:
            found += bound
            continue
        number = (place - S[H_SLOT_AT]) // S[H_SLOT_WIDTH]
        first = S[H_HEAD]
        while first < S[H_TAIL]:
            time = S[entry_place(P, S, first) + E_TIME]
            stop = first + 1
            while stop < S[H_TAIL] and S[entry_place(P, S, stop) + E_TIME] == time:
                stop += 1
            for k in range(length - 1, -1, -1):
                before = float_of(S[work + k - 1]) if k > 0 else 1.0
                is_cleared = False
                for n in range(first, stop):
                    entry = entry_place(P, S, n)
                    if S[entry + E_SLOT] != number:
                        continue
                    if S[entry + E_LEAF] == P[at + length + k]:
                        S[work + k] = bits_of(float_of(S[work + k]) + before)
                    if P[member + M_GAP] != 0 and k == P[member + M_GAP_PLACE]:
                        is_cleared = is_cleared or P[P[P[member + M_GAP] + G_ABSENT] + S[entry + E_LEAF]] != 0
                if is_cleared:
                    S[work + k - 1] = 0
            first = stop
        found += float_of(S[work + length - 1])
    return found
