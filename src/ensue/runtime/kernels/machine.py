"""The stack machine for conditions that are not a plain comparison of two columns, in SQL's three-valued logic.

Integers, booleans, timestamps and string codes are null as NULL, floats as NaN; so each instruction knows its
operands' kind.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, compare_one, float_of, value
from ensue.runtime.kernels.compiled import inner
from ensue.runtime.layout import (
    A_AVG_FLOAT,
    A_AVG_INT,
    A_COUNT,
    A_COUNT_FLOAT,
    A_COUNT_INT,
    A_MAX_FLOAT,
    A_MAX_INT,
    A_MAX_STRING,
    A_MIN_FLOAT,
    A_MIN_INT,
    A_MIN_STRING,
    A_SUM_FLOAT,
    A_SUM_INT,
    B_AND,
    B_NOT,
    B_OR,
    CONDITION_RECORD,
    F_ABS,
    F_ADD,
    F_CEIL,
    F_COALESCE,
    F_COMPARE,
    F_DIVIDE,
    F_FLOOR,
    F_IS_NULL,
    F_MULTIPLY,
    F_NEGATE,
    F_REMAINDER,
    F_ROUND,
    F_SUBTRACT,
    FLOAT,
    H_BASE,
    H_CAPACITY,
    H_OFFSET,
    HEADER,
    HEADERS,
    I_ABS,
    I_ADD,
    I_COALESCE,
    I_COMPARE,
    I_CONSTANT,
    I_ELEMENT,
    I_IS_NULL,
    I_LOAD,
    I_MULTIPLY,
    I_NEGATE,
    I_RANK,
    I_REMAINDER,
    I_ROUND,
    I_SUBTRACT,
    I_TO_FLOAT,
    INSTRUCTION,
    KLEENE_AT,
    KLEENE_COUNT,
    KLEENE_LIST,
    KLEENE_SCRATCH,
    KLEENE_STORE,
    KLEENE_TAIL,
    LIST_POSITION,
    NEWEST_PAIR,
    NULL,
    P_LIST_STORE,
    ROLE_CURRENT,
    ROLE_FIRST,
    ROLE_PREVIOUS,
    STACK,
    TRIGGER,
)


@inner
def list_length(S, slot):  # type: ignore[no-untyped-def]
    """How many elements the list of a Kleene slot has now, the trigger included if it is the last."""
    return S[KLEENE_COUNT + slot] + S[KLEENE_TAIL + slot]


@inner
def element_row(P, S, slot, index):  # type: ignore[no-untyped-def]
    """The row, in the slot's leaf store, of an element that is not the tail."""
    first = S[KLEENE_LIST + slot]
    if first < 0:
        scratch = HEADERS + S[KLEENE_SCRATCH + slot] * HEADER
        offset = S[scratch + H_OFFSET]
        return S[offset + S[offset + S[scratch + H_CAPACITY] + index]]
    lists = HEADERS + P[P_LIST_STORE] * HEADER
    row = first + index - S[lists + H_BASE]
    position = S[S[lists + H_OFFSET] + LIST_POSITION * S[lists + H_CAPACITY] + row]
    return position - S[HEADERS + S[KLEENE_STORE + slot] * HEADER + H_BASE]


@inner
def element(P, S, slot, index, leaf_column, trigger_column):  # type: ignore[no-untyped-def]
    """The bits of a column of element `index` of a Kleene slot's list."""
    if index >= S[KLEENE_COUNT + slot]:
        return S[TRIGGER + trigger_column]
    h = HEADERS + S[KLEENE_STORE + slot] * HEADER
    return S[S[h + H_OFFSET] + leaf_column * S[h + H_CAPACITY] + element_row(P, S, slot, index)]


@inner
def half_away(x, digits):  # type: ignore[no-untyped-def]
    """x rounded to so many digits, halves away from zero; scaled only if that keeps it finite."""
    if not np.isfinite(x) or digits > 300:
        return x
    if digits < -300:
        return 0.0
    scale = 10.0 ** np.abs(digits)
    scaled = x * scale if digits >= 0 else x / scale
    if not np.isfinite(scaled):
        return x
    rounded = np.floor(np.abs(scaled) + 0.5)
    if rounded - np.abs(scaled) > 0.5:  # the sum itself was rounded up
        rounded -= 1.0
    if scaled < 0:
        rounded = -rounded
    return rounded / scale if digits >= 0 else rounded * scale


@inner
def round_int(x, digits):  # type: ignore[no-untyped-def]
    """An int rounded to tens, hundreds, … for negative digits, halves away from zero."""
    if digits >= 0 or x == NULL:
        return x
    if digits < -18:
        return 0
    unit = np.int64(1)
    for _ in range(-digits):
        unit *= 10
    quotient = abs(x) // unit
    remainder = abs(x) - quotient * unit
    if remainder >= unit - remainder:
        quotient += 1
    if quotient > (2**63 - 1) // unit:
        return NULL
    return quotient * unit if x >= 0 else -quotient * unit


@inner
def add_int(x, y):  # type: ignore[no-untyped-def]
    """x + y, null if either is or the sum does not fit."""
    if x == NULL or y == NULL:
        return NULL
    z = x + y
    if (x >= 0) == (y >= 0) and (z >= 0) != (x >= 0):
        return NULL
    return z


@inner
def multiply_int(x, y):  # type: ignore[no-untyped-def]
    """x * y, null if either is or the product does not fit."""
    if x == NULL or y == NULL:
        return NULL
    if np.abs(np.float64(x) * np.float64(y)) > 9.3e18:
        return NULL
    z = x * y  # wraps at most once here, which shows in the sign
    if z == NULL or (z > 0) != ((x > 0) == (y > 0) and x != 0 and y != 0):
        return z if x == 0 or y == 0 else NULL
    return z


@inner
def aggregate(P, S, R, operation, slot, leaf_column, trigger_column):  # type: ignore[no-untyped-def]
    """A COUNT, SUM, AVG, MIN or MAX over the list of a Kleene slot, nulls left out."""
    length = list_length(S, slot)
    if operation == A_COUNT:
        return length
    found = 0
    total = np.int64(0)
    overflow = False
    float_total = 0.0
    best = np.int64(0)
    for k in range(length):
        bits = element(P, S, slot, k, leaf_column, trigger_column)
        if operation in (A_COUNT_FLOAT, A_SUM_FLOAT, A_AVG_FLOAT, A_MIN_FLOAT, A_MAX_FLOAT):
            x = float_of(bits)
            if np.isnan(x):
                continue
            float_total += x
            if found == 0 or (
                (operation == A_MIN_FLOAT and x < float_of(best)) or (operation == A_MAX_FLOAT and x > float_of(best))
            ):
                best = bits
        else:
            if bits == NULL:
                continue
            if operation == A_SUM_INT:
                total = add_int(total, bits)
                if total == NULL:
                    overflow = True
                    total = np.int64(0)
            elif operation == A_AVG_INT:
                float_total += np.float64(bits)
            elif operation == A_MIN_STRING or operation == A_MAX_STRING:
                if found == 0 or (R[bits] < R[best]) == (operation == A_MIN_STRING):
                    best = bits
            elif found == 0 or (operation == A_MIN_INT and bits < best) or (operation == A_MAX_INT and bits > best):
                best = bits
        found += 1
    if operation in (A_COUNT_INT, A_COUNT_FLOAT):
        return np.int64(found)
    if operation == A_SUM_INT:
        return NULL if found == 0 or overflow else total
    if operation == A_SUM_FLOAT:
        return bits_of(np.nan) if found == 0 else bits_of(float_total)
    if operation in (A_AVG_INT, A_AVG_FLOAT):
        return bits_of(np.nan) if found == 0 else bits_of(float_total / found)
    if found == 0:
        return bits_of(np.nan) if operation in (A_MIN_FLOAT, A_MAX_FLOAT) else np.int64(NULL)
    return best


@inner
def evaluate(P, S, R, code, count):  # type: ignore[no-untyped-def]
    """The bits of an expression's value: instructions P[code:], operands on the stack in S.

    R holds the rank of each string code; it is read by string comparisons only.
    """
    top = STACK  # the next free word
    for k in range(count):
        i = code + k * INSTRUCTION
        operation = P[i]
        if operation == I_LOAD:
            S[top] = value(S, P[i + 1], P[i + 2])
            top += 1
        elif operation == I_ELEMENT:
            slot = P[i + 1]
            role = P[i + 4]
            length = list_length(S, slot)
            if length == 0:
                S[top] = bits_of(np.nan) if P[i + 3] < 0 else NULL
            else:
                index = length - 1
                if role == ROLE_CURRENT:
                    index = S[KLEENE_AT + slot]
                elif role == ROLE_PREVIOUS:
                    index = S[KLEENE_AT + slot] - 1
                elif role == ROLE_FIRST:
                    index = 0
                trigger_column = P[i + 3]
                S[top] = element(
                    P, S, slot, index, P[i + 2], trigger_column if trigger_column >= 0 else -1 - trigger_column
                )
            top += 1
        elif operation == I_CONSTANT:
            S[top] = P[i + 1]
            top += 1
        elif operation >= A_COUNT:
            S[top] = aggregate(P, S, R, operation, P[i + 1], P[i + 2], P[i + 3])
            top += 1
        elif operation == I_COMPARE:
            top -= 1
            x = S[top - 1]
            y = S[top]
            if x == NULL or y == NULL:
                S[top - 1] = NULL
            else:
                S[top - 1] = np.int64(compare_one(P[i + 1], x, y))
        elif operation == F_COMPARE:
            top -= 1
            if np.isnan(float_of(S[top - 1])) or np.isnan(float_of(S[top])):
                S[top - 1] = NULL
            else:
                S[top - 1] = np.int64(compare_one(FLOAT + P[i + 1], S[top - 1], S[top]))
        elif operation == B_AND:
            top -= 1
            x = S[top - 1]
            y = S[top]
            S[top - 1] = 0 if x == 0 or y == 0 else (NULL if x == NULL or y == NULL else 1)
        elif operation == B_OR:
            top -= 1
            x = S[top - 1]
            y = S[top]
            S[top - 1] = 1 if x == 1 or y == 1 else (NULL if x == NULL or y == NULL else 0)
        elif operation == B_NOT:
            if S[top - 1] != NULL:
                S[top - 1] = 1 - S[top - 1]
        elif operation == I_TO_FLOAT:
            x = S[top - 1]
            S[top - 1] = bits_of(np.nan) if x == NULL else bits_of(np.float64(x))
        elif operation == I_RANK:
            if S[top - 1] != NULL:
                S[top - 1] = R[S[top - 1]]
        elif operation == I_IS_NULL:
            S[top - 1] = np.int64(S[top - 1] == NULL)
        elif operation == F_IS_NULL:
            S[top - 1] = np.int64(np.isnan(float_of(S[top - 1])))
        elif operation == I_ADD:
            top -= 1
            S[top - 1] = add_int(S[top - 1], S[top])
        elif operation == I_SUBTRACT:
            top -= 1
            S[top - 1] = NULL if S[top] == NULL else add_int(S[top - 1], -S[top])
        elif operation == I_MULTIPLY:
            top -= 1
            S[top - 1] = multiply_int(S[top - 1], S[top])
        elif operation == I_REMAINDER:
            top -= 1
            x = S[top - 1]
            y = S[top]
            if x == NULL or y == NULL or y == 0:
                S[top - 1] = NULL
            else:
                remainder = abs(x) % abs(y)
                S[top - 1] = remainder if x >= 0 else -remainder
        elif operation == I_NEGATE:
            if S[top - 1] != NULL:
                S[top - 1] = -S[top - 1]
        elif operation == I_ABS:
            if S[top - 1] != NULL:
                S[top - 1] = abs(S[top - 1])
        elif operation == I_ROUND:
            top -= 1
            S[top - 1] = NULL if S[top] == NULL else round_int(S[top - 1], S[top])
        elif operation == F_ADD:
            top -= 1
            S[top - 1] = bits_of(float_of(S[top - 1]) + float_of(S[top]))
        elif operation == F_SUBTRACT:
            top -= 1
            S[top - 1] = bits_of(float_of(S[top - 1]) - float_of(S[top]))
        elif operation == F_MULTIPLY:
            top -= 1
            S[top - 1] = bits_of(float_of(S[top - 1]) * float_of(S[top]))
        elif operation == F_DIVIDE:
            top -= 1
            y = float_of(S[top])
            S[top - 1] = bits_of(np.nan) if y == 0.0 else bits_of(float_of(S[top - 1]) / y)
        elif operation == F_REMAINDER:
            top -= 1
            y = float_of(S[top])
            S[top - 1] = bits_of(np.nan) if y == 0.0 else bits_of(np.fmod(float_of(S[top - 1]), y))
        elif operation == F_NEGATE:
            S[top - 1] = bits_of(-float_of(S[top - 1]))
        elif operation == F_ABS:
            S[top - 1] = bits_of(np.abs(float_of(S[top - 1])))
        elif operation == F_FLOOR:
            S[top - 1] = bits_of(np.floor(float_of(S[top - 1])))
        elif operation == F_CEIL:
            S[top - 1] = bits_of(np.ceil(float_of(S[top - 1])))
        elif operation == F_ROUND:
            top -= 1
            if S[top] == NULL:
                S[top - 1] = bits_of(np.nan)
            else:
                S[top - 1] = bits_of(half_away(float_of(S[top - 1]), S[top]))
        elif operation == I_COALESCE:
            top -= 1
            if S[top - 1] == NULL:
                S[top - 1] = S[top]
        elif operation == F_COALESCE:
            top -= 1
            if np.isnan(float_of(S[top - 1])):
                S[top - 1] = S[top]
    return S[STACK]


@inner
def first_element(P, S, iteration):  # type: ignore[no-untyped-def]
    """The element that an iteration over a list starts with; its length if there is none."""
    first = P[iteration + 1]
    length = list_length(S, P[iteration])
    if first >= 0:
        return first
    if first == NEWEST_PAIR and length < 2:
        return length
    return length - 1


@inner
def holds(P, S, R, condition):  # type: ignore[no-untyped-def]
    """Whether a condition is true, for every element (or adjacent pair) of the Kleene lists that it iterates over."""
    code = P[condition]
    count = P[condition + 1]
    iterations = P[condition + 2]
    table = P[condition + 3]
    if iterations == 0:
        return evaluate(P, S, R, code, count) == 1
    for k in range(iterations):
        slot = P[table + 2 * k]
        first = first_element(P, S, table + 2 * k)
        if first >= list_length(S, slot):
            return True  # nothing to hold for
        S[KLEENE_AT + slot] = first
    while True:
        if evaluate(P, S, R, code, count) != 1:
            return False
        k = iterations - 1
        while k >= 0:
            slot = P[table + 2 * k]
            S[KLEENE_AT + slot] += 1
            if S[KLEENE_AT + slot] < list_length(S, slot):
                break
            S[KLEENE_AT + slot] = first_element(P, S, table + 2 * k)
            k -= 1
        if k < 0:
            return True


@inner
def all_hold(P, S, R, table, count):  # type: ignore[no-untyped-def]
    """Whether all of `count` conditions are true."""
    for k in range(count):
        if not holds(P, S, R, table + k * CONDITION_RECORD):
            return False
    return True
