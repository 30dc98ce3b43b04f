"""Sixty-four candidates at a time: comparisons of a column with a value as bit masks, and ranges by binary search."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ensue.runtime.kernels.compiled import inner
from ensue.runtime.layout import (
    C_END,
    EQ,
    FLOAT,
    GE,
    GT,
    H_BASE,
    H_BUCKET_MASK,
    H_BUCKETS,
    H_CAPACITY,
    H_KEY,
    H_LINKS,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    LE,
    LT,
    NE,
    NULL,
    SOURCE_ROW,
    SOURCE_STORE,
)


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """The number of zero bits below the lowest set bit of a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context: Any, word: Any) -> Any:
    """The number of set bits of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def words(typing_context: Any, array: Any) -> Any:
    """The address of an array's int64 words: passed between kernels, it costs no reference counting and no checks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.bitcast(data, context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(array), generate


@intrinsic
def floats(typing_context: Any, array: Any) -> Any:
    """The address of the same words, read as float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.bitcast(data, context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(array), generate


@intrinsic
def float_of(typing_context: Any, bits: Any) -> Any:
    """The float64 with the bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of(typing_context: Any, value: Any) -> Any:
    """The bits of a float64 as an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


LANES = 16


def load_words(builder: Any, array: Any, address: Any, vector: Any) -> Any:
    """Instructions that load a vector of words from an address on."""
    loaded = builder.load(builder.bitcast(builder.gep(array, [address]), vector.as_pointer()))
    loaded.align = 8
    return loaded


def repeat_word(builder: Any, word: Any, vector: Any) -> Any:
    """Instructions that make a vector of one word."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, word, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


def _compare(symbol: str, lane: Any, how: str) -> Any:
    """A function that compares sixteen words with a value, to sixteen bits."""

    @intrinsic
    def compare(typing_context: Any, array: Any, address: Any, bound: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(lane, LANES)
            loaded = load_words(builder, arguments[0], arguments[1], vector)
            found = getattr(builder, how)(symbol, loaded, repeat_word(builder, arguments[2], vector))
            return builder.zext(builder.bitcast(found, ir.IntType(LANES)), ir.IntType(64))

        return types.uint64(array, address, bound), generate

    return compare


int_eq = _compare("==", ir.IntType(64), "icmp_signed")
int_lt = _compare("<", ir.IntType(64), "icmp_signed")
int_le = _compare("<=", ir.IntType(64), "icmp_signed")
int_gt = _compare(">", ir.IntType(64), "icmp_signed")
int_ge = _compare(">=", ir.IntType(64), "icmp_signed")
int_ne = _compare("!=", ir.IntType(64), "icmp_signed")
float_eq = _compare("==", ir.DoubleType(), "fcmp_ordered")
float_lt = _compare("<", ir.DoubleType(), "fcmp_ordered")
float_le = _compare("<=", ir.DoubleType(), "fcmp_ordered")
float_gt = _compare(">", ir.DoubleType(), "fcmp_ordered")
float_ge = _compare(">=", ir.DoubleType(), "fcmp_ordered")
float_ne = _compare("!=", ir.DoubleType(), "fcmp_unordered")


@inner
def compare_block(S, F, address, operator, bits, count):  # type: ignore[no-untyped-def]
    """Bit j < count says whether S[address + j] `operator` the value with these bits.

    Works on 16 words at a time, whatever lies behind the last; bits from `count` on mean nothing.
    """
    mask = np.uint64(0)
    v = np.int64(bits)
    f = float_of(v)
    if operator == EQ:
        for shift in range(0, count, LANES):
            mask |= int_eq(S, address + shift, v) << np.uint64(shift)
    elif operator == LT:
        for shift in range(0, count, LANES):
            mask |= int_lt(S, address + shift, v) << np.uint64(shift)
    elif operator == LE:
        for shift in range(0, count, LANES):
            mask |= int_le(S, address + shift, v) << np.uint64(shift)
    elif operator == GT:
        for shift in range(0, count, LANES):
            mask |= int_gt(S, address + shift, v) << np.uint64(shift)
    elif operator == GE:
        for shift in range(0, count, LANES):
            mask |= int_ge(S, address + shift, v) << np.uint64(shift)
    elif operator == NE:
        for shift in range(0, count, LANES):
            mask |= int_ne(S, address + shift, v) << np.uint64(shift)
    elif operator == FLOAT + EQ:
        for shift in range(0, count, LANES):
            mask |= float_eq(F, address + shift, f) << np.uint64(shift)
    elif operator == FLOAT + LT:
        for shift in range(0, count, LANES):
            mask |= float_lt(F, address + shift, f) << np.uint64(shift)
    elif operator == FLOAT + LE:
        for shift in range(0, count, LANES):
            mask |= float_le(F, address + shift, f) << np.uint64(shift)
    elif operator == FLOAT + GT:
        for shift in range(0, count, LANES):
            mask |= float_gt(F, address + shift, f) << np.uint64(shift)
    elif operator == FLOAT + GE:
        for shift in range(0, count, LANES):
            mask |= float_ge(F, address + shift, f) << np.uint64(shift)
    elif operator == FLOAT + NE:
        for shift in range(0, count, LANES):
            mask |= float_ne(F, address + shift, f) << np.uint64(shift)
    return mask


@inner
def mark_greater(S, address, bound, count):  # type: ignore[no-untyped-def]
    """Bit j says whether j < count and S[address + j] is greater than a number."""
    mask = np.uint64(0)
    for shift in range(0, count, LANES):
        mask |= int_gt(S, address + shift, bound) << np.uint64(shift)
    return mask if count == 64 else mask & ((np.uint64(1) << np.uint64(count)) - np.uint64(1))


@inner
def compare_one(operator, left, right):  # type: ignore[no-untyped-def]
    """Whether the value with bits `left` compares true with the one with bits `right`."""
    if operator < FLOAT:
        if operator == EQ:
            return left == right
        if operator == LT:
            return left < right
        if operator == LE:
            return left <= right
        if operator == GT:
            return left > right
        if operator == GE:
            return left >= right
        return left != right
    x = float_of(left)
    y = float_of(right)
    if operator == FLOAT + EQ:
        return x == y
    if operator == FLOAT + LT:
        return x < y
    if operator == FLOAT + LE:
        return x <= y
    if operator == FLOAT + GT:
        return x > y
    if operator == FLOAT + GE:
        return x >= y
    return x != y


@inner
def value(S, source, column):  # type: ignore[no-untyped-def]
    """The bits of a column of the row that a source is bound to."""
    h = HEADERS + S[SOURCE_STORE + source] * HEADER
    return S[S[h + H_OFFSET] + column * S[h + H_CAPACITY] + S[SOURCE_ROW + source]]


@inner
def first_at_least(S, header, low, high, time):  # type: ignore[no-untyped-def]
    """The first row in [low, high) whose end is at least `time`; ends are ascending. Halving without a branch."""
    base = S[header + H_OFFSET] + C_END * S[header + H_CAPACITY]
    if high <= low or S[base + high - 1] < time:
        return high
    count = high - low
    while count > 1:
        half = count >> 1
        low += half * np.int64(S[base + low + half - 1] < time)
        count -= half
    return low + np.int64(S[base + low] < time)


@inner
def first_after(S, header, low, high, time):  # type: ignore[no-untyped-def]
    """The first row in [low, high) whose end is after `time`; times are whole numbers."""
    return first_at_least(S, header, low, high, time + 1)


@inner
def spread(key):  # type: ignore[no-untyped-def]
    """A well-mixed hash of an int64 (the finaliser of splitmix64)."""
    x = np.uint64(key)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.int64(x >> np.uint64(1))


@inner
def link(S, header, row, key):  # type: ignore[no-untyped-def]
    """Put a row at the front of its key's chain."""
    bucket = S[header + H_BUCKETS] + (spread(key) & S[header + H_BUCKET_MASK])
    S[S[header + H_LINKS] + row] = S[bucket]
    S[bucket] = S[header + H_BASE] + row + 1


@inner
def link_last(S, header):  # type: ignore[no-untyped-def]
    """Put a store's last row into its index, if it has one."""
    if S[header + H_LINKS] < 0:
        return
    row = S[header + H_TAIL] - 1
    key = S[S[header + H_OFFSET] + S[header + H_KEY] * S[header + H_CAPACITY] + row]
    if key != NULL:
        link(S, header, row, key)


__all__ = [
    "NE",
    "bits_of",
    "compare_block",
    "compare_one",
    "count_bits",
    "first_after",
    "first_at_least",
    "float_of",
    "link",
    "link_last",
    "spread",
    "trailing_zeros",
    "value",
]
