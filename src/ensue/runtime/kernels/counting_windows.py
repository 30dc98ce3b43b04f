"""What a slot does when an event comes, when one expires, and when it is asked for its value: by each method.

- PREFIX [A-Seq 3.1]: one row of cells; nothing expires.
- PER_START [3.2]: a row of cells for each start that is live; an event plays its role in each of them.
- INVERSE: one matrix of exact integers, from which the oldest event can be taken back.
- LINKED: a cell for each event, of the partial matches that end with it; see `counting_links`.
- STACKS: the product of all matrices since some moment (the back), and for each start before that moment what it and
  those after it add up to by then (the front). Where the front is used up, all live events go to the front.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, float_of
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.counting_cells import (
    add_cell,
    clear_cell,
    make_identity,
    multiply_cells,
    play_after,
    play_before,
    play_row,
    row_base,
)
from ensue.runtime.kernels.counting_exact import add_wide, take_back, take_in
from ensue.runtime.kernels.counting_layout import (
    C_KIND,
    C_WORD,
    COMPONENT,
    E_BEFORE,
    E_GENERATION,
    E_ROLE,
    E_SLOT,
    E_START,
    E_TIME,
    E_TIMES,
    E_WEIGHTS,
    H_CELL_AT,
    H_DIRTY,
    H_DIRTY_AT,
    H_ENTRY_AT,
    H_ENTRY_HEAD,
    H_ENTRY_ROOM,
    H_ENTRY_TAIL,
    H_START_HEAD,
    H_START_TAIL,
    H_VALUE_AT,
    H_WEIGHTS_AT,
    H_WORK_AT,
    INVERSE,
    L_PLACE,
    LINKED,
    OVERFLOW,
    P_ACCEPTS,
    P_CELL,
    P_COLUMNS,
    P_COMPONENT_TABLE,
    P_COMPONENTS,
    P_ENTRY_WIDTH,
    P_MEASURES,
    P_METHOD,
    P_ROLE_TABLE,
    P_SAFE,
    P_SLOT_DATA,
    P_START_WIDTH,
    PER_START,
    PREFIX,
    PRESENT,
    R_SOURCES,
    R_STARTS,
    R_TARGETS,
    ROLE,
    S_BOUND,
    S_DIRTY,
    S_FRONT,
    S_GENERATION,
    S_LAST,
    S_LIVE,
    S_NEWEST,
    S_STALE,
    S_STARTS,
    STACKS,
    SUM_FLOAT,
    SUM_INT,
    T_DATA,
    T_GENERATION,
    T_NEXT,
    T_SLOT,
    T_TIME,
)
from ensue.runtime.kernels.counting_links import add_linked, arrive_linked
from ensue.runtime.kernels.counting_tables import empty_slot, slot_place, start_place

MOST = 9.223372036854776e18


@inner
def mark_dirty(P, S, slot):  # type: ignore[no-untyped-def]
    """Remember that a slot's value may have changed."""
    place = slot_place(P, S, slot) + S_DIRTY
    if S[place] == 0:
        S[place] = 1
        S[S[H_DIRTY_AT] + S[H_DIRTY]] = slot
        S[H_DIRTY] += 1


@inner
def entry_place(P, S, number):  # type: ignore[no-untyped-def]
    """Where an entry lies."""
    return S[H_ENTRY_AT] + (number & (S[H_ENTRY_ROOM] - 1)) * P[P_ENTRY_WIDTH]


@inner
def load_weights(P, S, entry):  # type: ignore[no-untyped-def]
    """Put the values of the entry at a place where roles look for them."""
    for k in range(P[P_MEASURES]):
        S[S[H_WEIGHTS_AT] + k] = S[entry + E_WEIGHTS + k]


# -- an event comes --------------------------------------------------------------------------------------------------


@inner
def arrive(P, S, slot, role, repeats, time):  # type: ignore[no-untyped-def]
    """An event (or `repeats` of one time, for a list that goes on) plays a role in a slot."""
    place = slot_place(P, S, slot)
    data = place + P[P_SLOT_DATA]
    method = P[P_METHOD]
    is_start = P[P[P_ROLE_TABLE] + role * ROLE + R_STARTS]
    if is_start == 0 and S[place + S_STARTS] == 0:
        return  # nothing that it could follow
    mark_dirty(P, S, slot)
    if method == LINKED:
        arrive_linked(P, S, slot, role, time)
        return
    if method == PREFIX:
        S[place + S_STARTS] += is_start
        play_row(P, S, data, 0, role, repeats)
        return
    if method == PER_START:
        start = S[place + S_FRONT]
        for _ in range(S[place + S_STARTS]):
            at = start_place(P, S, start)
            play_row(P, S, at + T_DATA, 0, role, repeats)
            start = S[at + T_NEXT]
        if is_start != 0:
            at = start_place(P, S, new_start(P, S, slot, time))
            S[at + T_DATA] = 1
            play_row(P, S, at + T_DATA, 0, role, repeats)
            S[at + T_DATA] = 0  # later events of this kind start matches of their own
        return
    start = np.int64(-1)
    if is_start != 0:
        if method == STACKS:
            start = new_start(P, S, slot, time)
        else:
            S[place + S_STARTS] += 1
    new_entry(P, S, slot, role, repeats, time, start)
    if method == INVERSE:
        take_in(P, S, data, role)
    else:
        play_after(P, S, data, role, repeats)


@inner
def new_start(P, S, slot, time):  # type: ignore[no-untyped-def]
    """A start with its row of cells, all of them clear; its number."""
    place = slot_place(P, S, slot)
    number = S[H_START_TAIL]
    S[H_START_TAIL] += 1
    at = start_place(P, S, number)
    for k in range(P[P_START_WIDTH]):
        S[at + k] = 0
    S[at + T_TIME], S[at + T_SLOT], S[at + T_GENERATION], S[at + T_NEXT] = time, slot, S[place + S_GENERATION], -1
    if S[place + S_STARTS] > 0:
        S[start_place(P, S, S[place + S_LAST]) + T_NEXT] = number
    elif P[P_METHOD] == PER_START:
        S[place + S_FRONT] = number
    S[place + S_LAST] = number
    S[place + S_STARTS] += 1
    return number


@inner
def new_entry(P, S, slot, role, repeats, time, start):  # type: ignore[no-untyped-def]
    """Keep what is needed of an event until it expires."""
    place = slot_place(P, S, slot)
    number = S[H_ENTRY_TAIL]
    S[H_ENTRY_TAIL] += 1
    at = entry_place(P, S, number)
    S[at + E_TIME], S[at + E_SLOT], S[at + E_GENERATION] = time, slot, S[place + S_GENERATION]
    S[at + E_ROLE], S[at + E_TIMES], S[at + E_START], S[at + E_BEFORE] = role, repeats, start, S[place + S_NEWEST]
    for k in range(P[P_MEASURES]):
        S[at + E_WEIGHTS + k] = S[S[H_WEIGHTS_AT] + k]
    S[place + S_NEWEST] = number
    S[place + S_LIVE] += 1


# -- events expire ---------------------------------------------------------------------------------------------------


@inner
def expire(P, S, until):  # type: ignore[no-untyped-def]
    """Let go of all events of `until` or before."""
    method = P[P_METHOD]
    if method == PER_START or method == LINKED:
        expire_starts(P, S, until)
        return
    while S[H_ENTRY_HEAD] < S[H_ENTRY_TAIL]:
        at = entry_place(P, S, S[H_ENTRY_HEAD])
        if S[at + E_TIME] > until:
            break
        S[H_ENTRY_HEAD] += 1
        slot = S[at + E_SLOT]
        place = slot_place(P, S, slot)
        if S[place + S_GENERATION] != S[at + E_GENERATION]:
            continue
        role = S[at + E_ROLE]
        is_start = P[P[P_ROLE_TABLE] + role * ROLE + R_STARTS]
        S[place + S_LIVE] -= 1
        if is_start != 0:
            mark_dirty(P, S, slot)
            S[place + S_STARTS] -= 1
            if S[place + S_STARTS] == 0:
                empty_slot(P, S, slot)
                continue
        if method == INVERSE:
            load_weights(P, S, at)
            take_back(P, S, place + P[P_SLOT_DATA], role)
        elif is_start != 0:
            if S[place + S_FRONT] < 0:
                S[place + S_STALE] = 1
            elif S[place + S_FRONT] == S[place + S_BOUND]:
                S[place + S_FRONT] = -1
            else:
                S[place + S_FRONT] = S[start_place(P, S, S[at + E_START]) + T_NEXT]
    if method == STACKS:
        while S[H_START_HEAD] < S[H_START_TAIL] and S[start_place(P, S, S[H_START_HEAD]) + T_TIME] <= until:
            S[H_START_HEAD] += 1


@inner
def expire_starts(P, S, until):  # type: ignore[no-untyped-def]
    """Let go of the starts of `until` or before, with all that is counted for them."""
    while S[H_START_HEAD] < S[H_START_TAIL]:
        at = start_place(P, S, S[H_START_HEAD])
        if S[at + T_TIME] > until:
            return
        S[H_START_HEAD] += 1
        slot = S[at + T_SLOT]
        place = slot_place(P, S, slot)
        if S[place + S_GENERATION] != S[at + T_GENERATION]:
            continue
        S[place + S_FRONT] = S[at + T_NEXT]
        if P[P_METHOD] == LINKED and S[at + L_PLACE] != 0:
            continue  # all matches with it have expired before
        mark_dirty(P, S, slot)
        S[place + S_STALE] = 1
        S[place + S_STARTS] -= 1
        if S[place + S_STARTS] == 0:
            empty_slot(P, S, slot)


# -- a slot's value --------------------------------------------------------------------------------------------------


@inner
def sum_accepted(P, S, base, x):  # type: ignore[no-untyped-def]
    """Add the end columns of a row of cells to the cell at x."""
    accepts, j = P[P_ACCEPTS], 0
    while accepts != 0:
        if accepts & 1:
            add_cell(P, S, x, base + j * P[P_CELL])
        accepts >>= 1
        j += 1


@inner
def flip(P, S, slot):  # type: ignore[no-untyped-def]
    """Work out the share of every live start, from the newest event back, and begin a new back."""
    place, work = slot_place(P, S, slot), S[H_WORK_AT]
    make_identity(P, S, work)
    entry, left = S[place + S_NEWEST], S[place + S_STARTS]
    oldest = np.int64(-1)
    while left > 0:
        at = entry_place(P, S, entry)
        load_weights(P, S, at)
        play_before(P, S, work, S[at + E_ROLE], S[at + E_TIMES])
        if S[at + E_START] >= 0:
            oldest = S[at + E_START]
            row = start_place(P, S, oldest) + T_DATA
            for j in range(P[P_COLUMNS] * P[P_CELL]):
                S[row + j] = S[work + j]
            left -= 1
        entry = S[at + E_BEFORE]
    S[place + S_FRONT], S[place + S_BOUND], S[place + S_STALE] = oldest, S[place + S_LAST], 0
    make_identity(P, S, place + P[P_SLOT_DATA])


@inner
def estimate(P, S, slot):  # type: ignore[no-untyped-def]
    """The number of matches in a slot, about, by counting from the newest event back: nothing is subtracted."""
    place, x = slot_place(P, S, slot), S[H_CELL_AT]
    for j in range(P[P_COLUMNS]):
        S[x + j] = bits_of(np.float64((P[P_ACCEPTS] >> j) & 1))
    entry = S[place + S_NEWEST]
    for _ in range(S[place + S_LIVE]):
        at = entry_place(P, S, entry)
        role = P[P_ROLE_TABLE] + S[at + E_ROLE] * ROLE
        added = 0.0
        for j in range(P[P_COLUMNS]):
            if (P[role + R_TARGETS] >> j) & 1:
                added += float_of(S[x + j])
        for j in range(P[P_COLUMNS]):
            if (P[role + R_SOURCES] >> j) & 1:
                S[x + j] = bits_of(float_of(S[x + j]) + added)
        entry = S[at + E_BEFORE]
    return float_of(S[x])


@inner
def value_of(P, S, slot):  # type: ignore[no-untyped-def]
    """Put a slot's numbers at H_VALUE_AT, two words each: an integer of 128 bits, or a value and if it is there."""
    place = slot_place(P, S, slot)
    data = place + P[P_SLOT_DATA]
    method = P[P_METHOD]
    if method == INVERSE:
        exact_value(P, S, slot)
        return
    x = S[H_CELL_AT]
    if method == LINKED:
        add_linked(P, S, slot, x)
        unpack_cell(P, S, x)
        return
    if method == STACKS and S[place + S_STALE] != 0:
        flip(P, S, slot)
    clear_cell(P, S, x)
    if method == PREFIX or (method == STACKS and S[place + S_FRONT] < 0):
        sum_accepted(P, S, data, x)
    elif method == PER_START:
        start = S[place + S_FRONT]
        for _ in range(S[place + S_STARTS]):
            at = start_place(P, S, start)
            sum_accepted(P, S, at + T_DATA, x)
            start = S[at + T_NEXT]
    else:
        front = start_place(P, S, S[place + S_FRONT]) + T_DATA
        for i in range(P[P_COLUMNS]):
            base = data + row_base(P, i) * P[P_CELL]
            accepts, j = P[P_ACCEPTS] >> i, i
            while accepts != 0:
                if accepts & 1:
                    multiply_cells(P, S, x, front + i * P[P_CELL], base + j * P[P_CELL])
                accepts >>= 1
                j += 1
    unpack_cell(P, S, x)


@inner
def exact_value(P, S, slot):  # type: ignore[no-untyped-def]
    """The numbers of a slot with an exact matrix."""
    place, value, cell = slot_place(P, S, slot), S[H_VALUE_AT], P[P_CELL]
    data = place + P[P_SLOT_DATA]
    for k in range(cell):
        S[value + k] = 0
    accepts, j = P[P_ACCEPTS], 0
    while accepts != 0:
        if accepts & 1:
            for c in range(0, cell, 2):
                add_wide(S, value + c, S[data + j * cell + c], S[data + j * cell + c + 1])
        accepts >>= 1
        j += 1
    if S[place + S_LIVE] > P[P_SAFE] and estimate(P, S, slot) > MOST * 1.5:
        S[value + 1] = OVERFLOW


@inner
def unpack_cell(P, S, x):  # type: ignore[no-untyped-def]
    """A cell as the words of a value."""
    value = S[H_VALUE_AT]
    for c in range(P[P_COMPONENTS]):
        kind = P[P[P_COMPONENT_TABLE] + c * COMPONENT + C_KIND]
        word = x + P[P[P_COMPONENT_TABLE] + c * COMPONENT + C_WORD]
        low, high = S[word], np.int64(0)
        if kind <= PRESENT:
            if low < 0:
                low, high = np.int64(0), np.int64(OVERFLOW)
        elif kind == SUM_INT:
            if low < 0 or S[word + 1] < 0:
                low, high = np.int64(0), np.int64(OVERFLOW)
            else:
                low -= S[word + 1]
                high = np.int64(-1) if low < 0 else np.int64(0)
        elif kind == SUM_FLOAT:
            high = np.int64(1)
        else:
            low, high = S[word + 1], low
        S[value + 2 * c], S[value + 2 * c + 1] = low, high
