"""Prefix matrices over integers of 128 bits: what an event added is taken back exactly when it expires.

An event multiplies the matrix by I + N on the right, and N * N is zero, so that I - N on the left of the oldest event
undoes it. Arrival and expiry touch one column and one row: O(length) an event, whatever the window holds.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.counting_cells import carries, row_base
from ensue.runtime.kernels.counting_layout import (
    C_KIND,
    C_MEASURE,
    COMPONENT,
    H_CELL_AT,
    H_WEIGHTS_AT,
    P_CELL,
    P_COLUMNS,
    P_COMPONENT_TABLE,
    P_COMPONENTS,
    P_ROLE_TABLE,
    R_LEAF,
    R_SOURCES,
    R_TARGETS,
    ROLE,
    SUM_INT,
)


@inner
def add_parts(S, a, b, low, high):  # type: ignore[no-untyped-def]
    """Add an integer of two words to the one whose lower word is at a and whose upper word is at b."""
    total = np.uint64(S[a]) + np.uint64(low)
    S[b] += high + np.int64(total < np.uint64(low))
    S[a] = np.int64(total)


@inner
def add_wide(S, d, low, high):  # type: ignore[no-untyped-def]
    """Add an integer of two words to the one at d."""
    add_parts(S, d, d + 1, low, high)


@inner
def subtract_wide(S, d, low, high):  # type: ignore[no-untyped-def]
    """Subtract an integer of two words from the one at d."""
    S[d + 1] -= high + np.int64(np.uint64(S[d]) < np.uint64(low))
    S[d] -= low


@inner
def multiply_wide(weight, low, high):  # type: ignore[no-untyped-def]
    """An integer of one word times one of two, without what goes beyond two words."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    w, u = np.uint64(weight), np.uint64(low)
    a0, a1, b0, b1 = u & mask, u >> half, w & mask, w >> half
    p00, p01, p10 = a0 * b0, a0 * b1, a1 * b0
    middle = (p00 >> half) + (p01 & mask) + (p10 & mask)
    upper = a1 * b1 + (p01 >> half) + (p10 >> half) + (middle >> half)
    carried = np.int64(upper) + high * weight
    if weight < 0:
        carried -= low
    return np.int64((p00 & mask) | (middle << half)), carried


@inner
def weigh_wide(P, S, x, leaf):  # type: ignore[no-untyped-def]
    """A cell with an event of a leaf put to each partial match: its values are counted in."""
    table = P[P_COMPONENT_TABLE]
    for c in range(1, P[P_COMPONENTS]):
        measure = P[table + c * COMPONENT + C_MEASURE]
        weight = S[S[H_WEIGHTS_AT] + measure]
        if not carries(P, measure, leaf, weight):
            continue
        if P[table + c * COMPONENT + C_KIND] == SUM_INT:
            low, high = multiply_wide(weight, S[x], S[x + 1])
            add_wide(S, x + 2 * c, low, high)
        else:
            add_wide(S, x + 2 * c, S[x], S[x + 1])


@inner
def start_sum(P, S, x):  # type: ignore[no-untyped-def]
    """An empty cell at x."""
    for k in range(P[P_CELL]):
        S[x + k] = 0


@inner
def add_to_sum(P, S, x, place):  # type: ignore[no-untyped-def]
    """Add a cell to the one at x; 1 if there was anything in it."""
    some = np.int64(0)
    for c in range(0, P[P_CELL], 2):
        some |= S[place + c] | S[place + c + 1]
        add_wide(S, x + c, S[place + c], S[place + c + 1])
    return np.int64(some != 0)


@inner
def take_in(P, S, base, role):  # type: ignore[no-untyped-def]
    """An event comes after all that is in the matrix."""
    at = P[P_ROLE_TABLE] + role * ROLE
    cell, x = P[P_CELL], S[H_CELL_AT]
    i = 0
    reach = P[at + R_SOURCES]
    while reach != 0:
        row = base + row_base(P, i) * cell
        start_sum(P, S, x)
        some, sources, j = np.int64(0), reach, i
        while sources != 0:
            if sources & 1:
                some |= add_to_sum(P, S, x, row + j * cell)
            sources >>= 1
            j += 1
        if some != 0:
            weigh_wide(P, S, x, P[at + R_LEAF])
            targets, j = P[at + R_TARGETS], 0
            while targets != 0:
                if targets & 1:
                    for c in range(0, cell, 2):
                        add_wide(S, row + j * cell + c, S[x + c], S[x + c + 1])
                targets >>= 1
                j += 1
        reach >>= 1
        i += 1


@inner
def take_back(P, S, base, role):  # type: ignore[no-untyped-def]
    """The oldest event that is in the matrix goes out of it."""
    at = P[P_ROLE_TABLE] + role * ROLE
    cell, x = P[P_CELL], S[H_CELL_AT]
    for j in range(1, P[P_COLUMNS]):
        start_sum(P, S, x)
        some, targets, i = np.int64(0), P[at + R_TARGETS], 0
        while targets != 0 and i <= j:
            if targets & 1:
                some |= add_to_sum(P, S, x, base + (row_base(P, i) + j) * cell)
            targets >>= 1
            i += 1
        if some == 0:
            continue
        weigh_wide(P, S, x, P[at + R_LEAF])
        sources, i = P[at + R_SOURCES], 0
        while sources != 0 and i <= j:
            if sources & 1:
                place = base + (row_base(P, i) + j) * cell
                for c in range(0, cell, 2):
                    subtract_wide(S, place + c, S[x + c], S[x + c + 1])
            sources >>= 1
            i += 1
