"""Cells: what is known of a set of partial matches, as natural numbers that stop at 2^63, sums, least and greatest.

Cells are added (either of two sets) and multiplied (one of each, put together). They only ever grow, so that a count
beyond 63 bits can stay there: a negative word is a number that does not fit.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, float_of
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.kernels.counting_layout import (
    C_KIND,
    C_MEASURE,
    C_WORD,
    COMPONENT,
    GREATEST_INT,
    H_CELL_AT,
    H_WEIGHTS_AT,
    LEAST_FLOAT,
    LEAST_INT,
    M_FLOAT,
    M_LEAF,
    MEASURE,
    NULL,
    P_CELL,
    P_COLUMNS,
    P_COMPONENT_TABLE,
    P_COMPONENTS,
    P_MEASURE_TABLE,
    P_ROLE_TABLE,
    PRESENT,
    R_LEAF,
    R_RESETS,
    R_SOURCES,
    R_TARGETS,
    ROLE,
    SUM_FLOAT,
    SUM_INT,
)

LARGEST = 2**63 - 1


@inner
def plus(a, b):  # type: ignore[no-untyped-def]
    """The sum of two natural numbers; negative: beyond 63 bits."""
    if a < 0 or b < 0:
        return np.int64(NULL)
    total = a + b
    return total if total >= 0 else np.int64(NULL)


@inner
def times(a, b):  # type: ignore[no-untyped-def]
    """The product of two natural numbers; negative: beyond 63 bits."""
    if a == 0 or b == 0:
        return np.int64(0)
    if a < 0 or b < 0:
        return np.int64(NULL)
    if (a | b) >> 31 != 0 and a > LARGEST // b:
        return np.int64(NULL)
    return a * b


@inner
def as_float(count):  # type: ignore[no-untyped-def]
    """A natural number for sums of floats."""
    return 9.3e18 if count < 0 else np.float64(count)


@inner
def replaces(kind, new, old):  # type: ignore[no-untyped-def]
    """Whether a value takes the place of the least or greatest one so far."""
    if kind == LEAST_INT:
        return new < old
    if kind == GREATEST_INT:
        return new > old
    if kind == LEAST_FLOAT:
        return float_of(new) < float_of(old)
    return float_of(new) > float_of(old)


@inner
def clear_cell(P, S, d):  # type: ignore[no-untyped-def]
    """The cell at d becomes no partial match."""
    for k in range(P[P_CELL]):
        S[d + k] = 0


@inner
def add_cell(P, S, d, a):  # type: ignore[no-untyped-def]
    """The cell at d becomes itself and the one at a."""
    S[d] = plus(S[d], S[a])
    table = P[P_COMPONENT_TABLE]
    for c in range(1, P[P_COMPONENTS]):
        kind = P[table + c * COMPONENT + C_KIND]
        word = P[table + c * COMPONENT + C_WORD]
        x, y = d + word, a + word
        if kind == PRESENT:
            S[x] = plus(S[x], S[y])
        elif kind == SUM_INT:
            S[x] = plus(S[x], S[y])
            S[x + 1] = plus(S[x + 1], S[y + 1])
        elif kind == SUM_FLOAT:
            S[x] = bits_of(float_of(S[x]) + float_of(S[y]))
        elif S[y] != 0 and (S[x] == 0 or replaces(kind, S[y + 1], S[x + 1])):
            S[x] = 1
            S[x + 1] = S[y + 1]


@inner
def carries(P, measure, leaf, weight):  # type: ignore[no-untyped-def]
    """Whether an event of a leaf has a value for a measure."""
    at = P[P_MEASURE_TABLE] + measure * MEASURE
    if P[at + M_LEAF] != leaf:
        return False
    if P[at + M_FLOAT] == 0:
        return weight != NULL
    return float_of(weight) == float_of(weight)


@inner
def weigh_cell(P, S, d, leaf, repeats, weights):  # type: ignore[no-untyped-def]
    """The cell at d with an event of a leaf put to each partial match: its values count; or `repeats` such events."""
    count = S[d]
    if repeats != 1:  # a list, whose values no aggregate speaks of
        S[d] = times(count, repeats)
    table = P[P_COMPONENT_TABLE]
    for c in range(1, P[P_COMPONENTS]):
        kind = P[table + c * COMPONENT + C_KIND]
        measure = P[table + c * COMPONENT + C_MEASURE]
        x = d + P[table + c * COMPONENT + C_WORD]
        if repeats != 1:
            if kind == PRESENT:
                S[x] = times(S[x], repeats)
            elif kind == SUM_INT:
                S[x] = times(S[x], repeats)
                S[x + 1] = times(S[x + 1], repeats)
            elif kind == SUM_FLOAT:
                S[x] = bits_of(float_of(S[x]) * repeats)
        weight = S[weights + measure]
        if not carries(P, measure, leaf, weight):
            continue
        if kind == PRESENT:
            S[x] = plus(S[x], count)
        elif kind == SUM_INT:
            if weight >= 0:
                S[x] = plus(S[x], times(weight, count))
            else:
                S[x + 1] = plus(S[x + 1], times(-weight, count))
        elif kind == SUM_FLOAT:
            S[x] = bits_of(float_of(S[x]) + float_of(weight) * as_float(count))
        else:
            S[x] = 1
            S[x + 1] = weight


@inner
def multiply_cells(P, S, d, a, b):  # type: ignore[no-untyped-def]
    """The cell at d becomes itself and each partial match of the one at a with each of the one at b."""
    left, right = S[a], S[b]
    if left == 0 or right == 0:
        return
    S[d] = plus(S[d], times(left, right))
    table = P[P_COMPONENT_TABLE]
    for c in range(1, P[P_COMPONENTS]):
        kind = P[table + c * COMPONENT + C_KIND]
        word = P[table + c * COMPONENT + C_WORD]
        x, y, z = d + word, a + word, b + word
        if kind == PRESENT or kind == SUM_INT:
            for k in range(1 if kind == PRESENT else 2):
                S[x + k] = plus(S[x + k], plus(times(S[y + k], right), times(left, S[z + k])))
        elif kind == SUM_FLOAT:
            product = float_of(S[y]) * as_float(right) + as_float(left) * float_of(S[z])
            S[x] = bits_of(float_of(S[x]) + product)
        else:
            if S[y] != 0 and (S[x] == 0 or replaces(kind, S[y + 1], S[x + 1])):
                S[x] = 1
                S[x + 1] = S[y + 1]
            if S[z] != 0 and (S[x] == 0 or replaces(kind, S[z + 1], S[x + 1])):
                S[x] = 1
                S[x + 1] = S[z + 1]


# -- rows and matrices of cells --------------------------------------------------------------------------------------


@inner
def row_base(P, i):  # type: ignore[no-untyped-def]
    """Where cell (i, 0) of an upper triangle would lie, in cells; the triangle holds (i, j) for j >= i."""
    n = P[P_COLUMNS]
    return i * n - ((i * (i - 1)) >> 1) - i


@inner
def play_row(P, S, base, low, role, repeats):  # type: ignore[no-untyped-def]
    """An event plays a role in a row of cells that starts at column `low`. Its values are at H_WEIGHTS_AT."""
    at = P[P_ROLE_TABLE] + role * ROLE
    cell = P[P_CELL]
    resets = P[at + R_RESETS]
    if resets != 0:
        for j in range(low, P[P_COLUMNS]):
            if (resets >> j) & 1:
                clear_cell(P, S, base + j * cell)
        return
    x = S[H_CELL_AT]
    clear_cell(P, S, x)
    j = low
    rest = P[at + R_SOURCES] >> low
    while rest != 0:
        if rest & 1 and S[base + j * cell] != 0:
            add_cell(P, S, x, base + j * cell)
        rest >>= 1
        j += 1
    if S[x] == 0:
        return
    weigh_cell(P, S, x, P[at + R_LEAF], repeats, S[H_WEIGHTS_AT])
    targets = P[at + R_TARGETS]
    j = 0
    while targets != 0:
        if targets & 1:
            add_cell(P, S, base + j * cell, x)
        targets >>= 1
        j += 1


@inner
def make_identity(P, S, base):  # type: ignore[no-untyped-def]
    """A triangle that changes nothing."""
    n, cell = P[P_COLUMNS], P[P_CELL]
    for k in range(((n * (n + 1)) >> 1) * cell):
        S[base + k] = 0
    for i in range(n):
        S[base + (row_base(P, i) + i) * cell] = 1


@inner
def play_after(P, S, base, role, repeats):  # type: ignore[no-untyped-def]
    """The product with an event's matrix on the right: the event comes after all that is in it."""
    at = P[P_ROLE_TABLE] + role * ROLE
    reach = P[at + R_SOURCES] | P[at + R_RESETS]
    i = 0
    while reach != 0:  # rows below the last source hold nothing that it could follow
        play_row(P, S, base + row_base(P, i) * P[P_CELL], i, role, repeats)
        reach >>= 1
        i += 1


@inner
def play_before(P, S, base, role, repeats):  # type: ignore[no-untyped-def]
    """The product with an event's matrix on the left: the event comes before all that is in it."""
    at = P[P_ROLE_TABLE] + role * ROLE
    n, cell = P[P_COLUMNS], P[P_CELL]
    resets = P[at + R_RESETS]
    if resets != 0:
        for i in range(n):
            if (resets >> i) & 1:
                for j in range(i, n):
                    clear_cell(P, S, base + (row_base(P, i) + j) * cell)
        return
    x = S[H_CELL_AT]
    sources, targets = P[at + R_SOURCES], P[at + R_TARGETS]
    for j in range(n):
        clear_cell(P, S, x)
        for i in range(j + 1):
            place = base + (row_base(P, i) + j) * cell
            if (targets >> i) & 1 and S[place] != 0:
                add_cell(P, S, x, place)
        if S[x] == 0:
            continue
        weigh_cell(P, S, x, P[at + R_LEAF], repeats, S[H_WEIGHTS_AT])
        for i in range(j + 1):
            if (sources >> i) & 1:
                add_cell(P, S, base + (row_base(P, i) + j) * cell, x)
