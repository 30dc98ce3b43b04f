"""Aggregates over patterns without matches: events in, rows of numbers out, timestamp by timestamp.

At each time first what has expired goes, then the events play their roles, later items first; then each group that had
a trigger (or changed, with EMIT ON CHANGE) gives a row.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, float_of, words
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.counting_cells import replaces
from ensue.runtime.kernels.counting_exact import add_wide, subtract_wide
from ensue.runtime.kernels.counting_layout import (
    AVG,
    C_KIND,
    COMPONENT,
    DONE,
    E_TIME,
    EMITTING,
    G_FIRST,
    G_IS_TOUCHED,
    G_KEYS,
    G_SLOTS,
    G_TRIGGERED,
    H_DIRTY,
    H_DIRTY_AT,
    H_EMITTED,
    H_ENTRY_HEAD,
    H_ENTRY_ROOM,
    H_ENTRY_TAIL,
    H_GROUP_AT,
    H_GROUP_ROOM,
    H_KEYS_AT,
    H_LIVE_GROUPS,
    H_LIVE_SLOTS,
    H_NOW,
    H_OUT,
    H_PHASE,
    H_ROW,
    H_SLOT_ROOM,
    H_START_HEAD,
    H_START_ROOM,
    H_START_TAIL,
    H_TOUCHED,
    H_TOUCHED_AT,
    H_VALUE_AT,
    H_WEIGHTS_AT,
    IDLE,
    INVERSE,
    L_TRIGGER,
    LEAF,
    LINKED,
    M_COLUMN,
    MEASURE,
    NEED_ENTRIES,
    NEED_GROUPS,
    NEED_SLOTS,
    NEED_STARTS,
    NULL,
    O_COMPONENT,
    O_FUNCTION,
    O_PRESENT,
    OUTPUT,
    OUTPUT_FULL,
    P_COMPONENT_TABLE,
    P_COMPONENTS,
    P_GROUP,
    P_GROUP_REPORTED,
    P_GROUP_TOTAL,
    P_GROUP_WIDTH,
    P_KEY,
    P_LEAF_TABLE,
    P_LEAVES,
    P_LINK_COLUMN,
    P_LINKS,
    P_MEASURE_TABLE,
    P_MEASURES,
    P_METHOD,
    P_ON_CHANGE,
    P_OUTPUT_TABLE,
    P_OUTPUTS,
    P_ROLE_TABLE,
    P_ROLES,
    P_SINGLE,
    P_SLOT_SHARE,
    P_WINDOW,
    PER_START,
    PLAIN,
    PREFIX,
    R_LEAF,
    R_LOOPS,
    R_STARTS,
    ROLE,
    S_AFTER,
    S_DIRTY,
    S_GROUP,
    S_PENDING,
    S_STARTS,
    STACKS,
    SUM,
    SUM_FLOAT,
    SUM_INT,
    T_TIME,
)
from ensue.runtime.kernels.counting_tables import (
    choose_group_key,
    find_group,
    find_slot,
    give_group,
    give_slot,
    slot_place,
    start_place,
    touch_group,
)
from ensue.runtime.kernels.counting_windows import arrive, entry_place, expire, value_of
from ensue.runtime.layout import T_ATTRIBUTES, T_END, T_MASK

MANY = 4096  # dirty slots that are looked at even if nothing asks for them


@kernel
def count(program, state, rows, until, ended, out):  # type: ignore[no-untyped-def]
    """Take in the rows of all times before `until` (of all times if the input has `ended`), from row H_ROW on.

    `rows` are columns by row as `prepare` lays them out, in the order of time. `out` is rows of a time, a group's key
    and two words a component. Returns DONE or what is lacking; called again, it goes on where it was.
    """
    P, S, R, O = words(program), words(state), words(rows), words(out)
    total, room = rows.shape[1], out.shape[0]
    while True:
        if S[H_PHASE] == EMITTING:
            if not emit(P, S, O, room):
                return OUTPUT_FULL
            S[H_PHASE] = IDLE
        row = S[H_ROW]
        has_row = row < total and (ended != 0 or R[T_END * total + row] < until)
        if P[P_ON_CHANGE] != 0:
            due = next_expiry(P, S)
            if due != NULL and (ended != 0 or due < until) and (not has_row or due < R[T_END * total + row]):
                S[H_NOW] = due
                expire(P, S, due - P[P_WINDOW])
                S[H_PHASE] = EMITTING
                continue
        if not has_row:
            return DONE
        now = R[T_END * total + row]
        stop = row + 1
        while stop < total and R[T_END * total + stop] == now:
            stop += 1
        lacking = find_room(P, S, stop - row)
        if lacking != DONE:
            return lacking
        S[H_NOW] = now
        if P[P_WINDOW] >= 0:
            expire(P, S, now - P[P_WINDOW])
        for role in range(P[P_ROLES]):
            play(P, S, R, total, row, stop, role)
        for leaf in range(P[P_LEAVES]):
            if P[P[P_LEAF_TABLE] + leaf * (LEAF + P[P_KEY]) + L_TRIGGER] != 0:
                for k in range(row, stop):
                    if (R[T_MASK * total + k] >> leaf) & 1:
                        trigger(P, S, R, total, k, leaf)
        S[H_ROW] = stop
        if S[H_TOUCHED] > 0 or P[P_ON_CHANGE] != 0 or S[H_DIRTY] > MANY:
            S[H_PHASE] = EMITTING


@inner
def find_room(P, S, events):  # type: ignore[no-untyped-def]
    """DONE if there is room for so many events, else what is lacking."""
    most = events * P[P_ROLES]
    if S[H_SLOT_ROOM] - S[H_LIVE_SLOTS] < most:
        return NEED_SLOTS
    if S[H_GROUP_ROOM] - S[H_LIVE_GROUPS] < most + events * P[P_LEAVES]:
        return NEED_GROUPS
    if P[P_METHOD] == INVERSE or P[P_METHOD] == STACKS:
        if S[H_ENTRY_ROOM] - (S[H_ENTRY_TAIL] - S[H_ENTRY_HEAD]) < most:
            return NEED_ENTRIES
    if P[P_METHOD] != PREFIX and P[P_METHOD] != INVERSE:
        if S[H_START_ROOM] - (S[H_START_TAIL] - S[H_START_HEAD]) < most:
            return NEED_STARTS
    return DONE


@inner
def next_expiry(P, S):  # type: ignore[no-untyped-def]
    """When the oldest event expires, NULL if none does."""
    if P[P_WINDOW] < 0:
        return np.int64(NULL)
    if S[H_START_HEAD] < S[H_START_TAIL] and (P[P_METHOD] == PER_START or P[P_METHOD] == LINKED):
        return S[start_place(P, S, S[H_START_HEAD]) + T_TIME] + P[P_WINDOW]
    if S[H_ENTRY_HEAD] < S[H_ENTRY_TAIL]:
        return S[entry_place(P, S, S[H_ENTRY_HEAD]) + E_TIME] + P[P_WINDOW]
    return np.int64(NULL)


@inner
def read_key(P, S, R, total, k, leaf):  # type: ignore[no-untyped-def]
    """Put an event's key behind the room for its group's; whether all of it is there."""
    place, at = P[P_LEAF_TABLE] + leaf * (LEAF + P[P_KEY]) + LEAF, S[H_KEYS_AT] + P[P_GROUP]
    whole = True
    for w in range(P[P_KEY]):
        word = R[(T_ATTRIBUTES + P[place + w]) * total + k]
        S[at + w] = word
        whole = whole and word != NULL
    return whole


@inner
def play(P, S, R, total, first, stop, role):  # type: ignore[no-untyped-def]
    """All events of one time play a role."""
    at = P[P_ROLE_TABLE] + role * ROLE
    leaf = P[at + R_LEAF]
    together = P[at + R_LOOPS] != 0 and stop - first > 1
    for turn in range(2 if together else 1):
        for k in range(first, stop):
            if not (R[T_MASK * total + k] >> leaf) & 1 or not read_key(P, S, R, total, k, leaf):
                continue
            slot = find_slot(P, S, P[at + R_STARTS] != 0)
            if slot < 0:
                continue
            repeats = np.int64(1)
            if together:  # events of one time do not follow each other in a list: they are counted, then played at once
                place = slot_place(P, S, slot) + S_PENDING
                if turn == 0:
                    S[place] += 1
                    continue
                repeats = S[place]
                if repeats == 0:
                    continue
                S[place] = 0
            for m in range(P[P_MEASURES]):
                column = T_ATTRIBUTES + P[P[P_MEASURE_TABLE] + m * MEASURE + M_COLUMN]
                S[S[H_WEIGHTS_AT] + m] = R[column * total + k]
            for w in range(P[P_LINKS]):
                S[S[H_WEIGHTS_AT] + P[P_MEASURES] + w] = R[(T_ATTRIBUTES + P[P_LINK_COLUMN] + w) * total + k]
            arrive(P, S, slot, role, repeats, S[H_NOW])


@inner
def trigger(P, S, R, total, k, leaf):  # type: ignore[no-untyped-def]
    """An event that can be last: its group gives a row."""
    read_key(P, S, R, total, k, leaf)
    choose_group_key(P, S)
    for w in range(P[P_GROUP]):
        if S[S[H_KEYS_AT] + w] == NULL:
            return
    group = find_group(P, S)
    S[S[H_GROUP_AT] + group * P[P_GROUP_WIDTH] + G_TRIGGERED] = 1
    touch_group(P, S, group)


# -- rows ------------------------------------------------------------------------------------------------------------


@inner
def settle(P, S):  # type: ignore[no-untyped-def]
    """Bring the totals of groups up to date; slots that hold nothing any more are given back."""
    value = S[H_VALUE_AT]
    for d in range(S[H_DIRTY]):
        slot = S[S[H_DIRTY_AT] + d]
        place = slot_place(P, S, slot)
        S[place + S_DIRTY] = 0
        group = S[place + S_GROUP]
        total = S[H_GROUP_AT] + group * P[P_GROUP_WIDTH] + P[P_GROUP_TOTAL]
        share = place + P[P_SLOT_SHARE]
        if S[place + S_STARTS] == 0:
            for k in range(2 * P[P_COMPONENTS]):
                S[value + k] = 0
        else:
            value_of(P, S, slot)
        for c in range(0, 2 * P[P_COMPONENTS], 2):
            kind = P[P[P_COMPONENT_TABLE] + (c >> 1) * COMPONENT + C_KIND]
            if P[P_SINGLE] != 0:
                S[total + c], S[total + c + 1] = S[value + c], S[value + c + 1]
            elif kind <= SUM_INT:
                subtract_wide(S, total + c, S[share + c], S[share + c + 1])
                add_wide(S, total + c, S[value + c], S[value + c + 1])
            S[share + c], S[share + c + 1] = S[value + c], S[value + c + 1]
        if P[P_ON_CHANGE] != 0:
            touch_group(P, S, group)
        if S[place + S_STARTS] == 0:
            give_slot(P, S, slot)
            touch_group(P, S, group)  # it may have nothing left
    S[H_DIRTY] = 0


@inner
def combine(P, S, home):  # type: ignore[no-untyped-def]
    """The numbers of a group's slots that cannot be kept as totals: sums of floats, least and greatest."""
    for c in range(P[P_COMPONENTS]):
        kind = P[P[P_COMPONENT_TABLE] + c * COMPONENT + C_KIND]
        if kind < SUM_FLOAT:
            continue
        total = home + P[P_GROUP_TOTAL] + 2 * c
        S[total] = S[total + 1] = 0
        slot = S[home + G_FIRST]
        while slot >= 0:
            share = slot_place(P, S, slot) + P[P_SLOT_SHARE] + 2 * c
            if S[share + 1] != 0:
                if kind == SUM_FLOAT:
                    S[total] = bits_of(float_of(S[total]) + float_of(S[share]))
                elif S[total + 1] == 0 or replaces(kind, S[share], S[total]):
                    S[total] = S[share]
                S[total + 1] = 1
            slot = S[slot_place(P, S, slot) + S_AFTER]


@inner
def differs(P, S, a, b):  # type: ignore[no-untyped-def]
    """Whether two values of a group differ in what is reported of them."""
    for k in range(P[P_OUTPUTS]):
        at = P[P_OUTPUT_TABLE] + k * OUTPUT
        function, c = P[at + O_FUNCTION], 2 * P[at + O_COMPONENT]
        is_float = P[P[P_COMPONENT_TABLE] + P[at + O_COMPONENT] * COMPONENT + C_KIND] == SUM_FLOAT
        same = S[a + c] == S[b + c] and S[a + c + 1] == S[b + c + 1]
        if function == PLAIN:
            if not same:
                return True
            continue
        n, m = S[a + 2 * P[at + O_PRESENT]], S[b + 2 * P[at + O_PRESENT]]
        if n == 0 or m == 0:
            if n != m:
                return True
            continue
        x, y = np.float64(S[a + c]), np.float64(S[b + c])
        if is_float:
            x, y = float_of(S[a + c]), float_of(S[b + c])
        elif function == SUM:
            if not same:
                return True
            continue
        if function == AVG:
            x /= np.float64(n)
            y /= np.float64(m)
        if x != y:
            return True
    return False


@inner
def emit(P, S, O, room):  # type: ignore[no-untyped-def]
    """Write the rows of a time; whether there was room for all."""
    if S[H_EMITTED] == 0:
        settle(P, S)
    words = P[P_GROUP]
    width = 1 + words + 2 * P[P_COMPONENTS]
    while S[H_EMITTED] < S[H_TOUCHED]:
        group = S[S[H_TOUCHED_AT] + S[H_EMITTED]]
        home = S[H_GROUP_AT] + group * P[P_GROUP_WIDTH]
        total, reported = home + P[P_GROUP_TOTAL], home + P[P_GROUP_REPORTED]
        if P[P_SINGLE] == 0:
            combine(P, S, home)
        wanted = S[home + G_TRIGGERED] != 0
        if P[P_ON_CHANGE] != 0:
            wanted = differs(P, S, total, reported)
        if wanted:
            if S[H_OUT] == room:
                return False
            line = S[H_OUT] * width
            S[H_OUT] += 1
            O[line] = S[H_NOW]
            for k in range(words):
                O[line + 1 + k] = S[home + G_KEYS + k]
            for k in range(2 * P[P_COMPONENTS]):
                O[line + 1 + words + k] = S[total + k]
                if P[P_ON_CHANGE] != 0:
                    S[reported + k] = S[total + k]
        S[home + G_IS_TOUCHED] = S[home + G_TRIGGERED] = 0
        if S[home + G_SLOTS] == 0:
            give_group(P, S, group)
        S[H_EMITTED] += 1
    S[H_TOUCHED] = S[H_EMITTED] = 0
    return True
