"""Counting where conditions between neighbours decide: a cell for each live event, of what ends with it.

An event's cell is the sum of those of the events before it that the conditions lead from. Nothing is subtracted: when
the first event of matches expires, the cells of its key are worked out anew, from the oldest event on. So a time costs
pairs of neighbours, where building matches costs all of them put together.
"""

from __future__ import annotations

from ensue.runtime.kernels.blocks import compare_one, float_of
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.counting_cells import add_cell, clear_cell, weigh_cell
from ensue.runtime.kernels.counting_layout import (
    H_START_HEAD,
    H_START_TAIL,
    H_WEIGHTS_AT,
    K_LEFT,
    K_OPERATOR,
    K_RIGHT,
    L_BEFORE,
    L_PLACE,
    L_PREVIOUS,
    L_VALUES,
    LINK,
    NULL,
    P_COLUMNS,
    P_LEAF_OF_PLACE,
    P_LINK_TABLE,
    P_LINKS,
    P_MEASURES,
    P_ROLE_TABLE,
    P_SLOT_DATA,
    P_START_WIDTH,
    R_PLACE,
    ROLE,
    S_FRONT,
    S_GENERATION,
    S_LAST,
    S_STALE,
    S_STARTS,
    T_GENERATION,
    T_NEXT,
    T_SLOT,
    T_TIME,
)
from ensue.runtime.kernels.counting_tables import slot_place, start_place
from ensue.runtime.layout import FLOAT


@inner
def cell_of(P, at):  # type: ignore[no-untyped-def]
    """Where the cell of the event at a place lies."""
    return at + L_VALUES + P[P_LINKS] + P[P_MEASURES]


@inner
def arrive_linked(P, S, slot, role, time):  # type: ignore[no-untyped-def]
    """An event comes, in the place of its role."""
    home = slot_place(P, S, slot)
    newest = home + P[P_SLOT_DATA]
    place = P[P[P_ROLE_TABLE] + role * ROLE + R_PLACE]
    number = S[H_START_TAIL]
    S[H_START_TAIL] += 1
    at = start_place(P, S, number)
    for k in range(P[P_START_WIDTH]):
        S[at + k] = 0
    S[at + T_TIME], S[at + T_SLOT], S[at + T_GENERATION], S[at + T_NEXT] = time, slot, S[home + S_GENERATION], -1
    if S[home + S_FRONT] < 0:
        S[home + S_FRONT] = number
    else:
        S[start_place(P, S, S[home + S_LAST]) + T_NEXT] = number
    S[home + S_LAST] = number
    S[home + S_STARTS] += 1 if place == 0 else 0
    S[at + L_PLACE], S[at + L_PREVIOUS] = place, S[newest + place]
    S[at + L_BEFORE] = S[newest + place - 1] if place > 0 else -1
    S[newest + place] = number
    for k in range(P[P_LINKS]):
        S[at + L_VALUES + k] = S[S[H_WEIGHTS_AT] + P[P_MEASURES] + k]
    for k in range(P[P_MEASURES]):
        S[at + L_VALUES + P[P_LINKS] + k] = S[S[H_WEIGHTS_AT] + k]
    if S[home + S_STALE] == 0:
        fill_cell(P, S, at)


@inner
def fill_cell(P, S, at):  # type: ignore[no-untyped-def]
    """Work out the cell of the event at a place from those of the events before it."""
    x, place = cell_of(P, at), S[at + L_PLACE]
    clear_cell(P, S, x)
    if place == 0:
        S[x] = 1
    else:
        before = S[at + L_BEFORE]
        while before >= S[H_START_HEAD]:
            other = start_place(P, S, before)
            if S[cell_of(P, other)] != 0 and leads(P, S, place, other, at):
                add_cell(P, S, x, cell_of(P, other))
            before = S[other + L_PREVIOUS]
    if S[x] != 0:
        weigh_cell(P, S, x, P[P[P_LEAF_OF_PLACE] + place], 1, at + L_VALUES + P[P_LINKS])


@inner
def leads(P, S, place, other, at):  # type: ignore[no-untyped-def]
    """Whether the conditions between a place and the one before it hold for two events."""
    table = P[P_LINK_TABLE] + place
    for k in range(P[table], P[table + 1], LINK):
        operator = P[k + K_OPERATOR]
        left, right = S[other + L_VALUES + P[k + K_LEFT]], S[at + L_VALUES + P[k + K_RIGHT]]
        if operator < FLOAT:
            if left == NULL or right == NULL:
                return False
        elif float_of(left) != float_of(left) or float_of(right) != float_of(right):
            return False
        if not compare_one(operator, left, right):
            return False
    return True


@inner
def add_linked(P, S, slot, x):  # type: ignore[no-untyped-def]
    """Put what ends with the last place into the cell at x."""
    home = slot_place(P, S, slot)
    if S[home + S_STALE] != 0:
        S[home + S_STALE] = 0
        number = S[home + S_FRONT]
        while number >= 0:
            at = start_place(P, S, number)
            fill_cell(P, S, at)
            number = S[at + T_NEXT]
    clear_cell(P, S, x)
    number = S[home + P[P_SLOT_DATA] + P[P_COLUMNS] - 2]
    while number >= S[H_START_HEAD]:
        at = start_place(P, S, number)
        add_cell(P, S, x, cell_of(P, at))
        number = S[at + L_PREVIOUS]
