"""An output block by columns: one for each variable of a match, so that many matches are written by a few instructions.

Column k begins at word k·stride. What writes eight words at a time may overwrite up to seven behind the last, which a
column therefore has to spare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

from ensue.runtime.kernels.blocks import count_bits, load_words, repeat_word, trailing_zeros
from ensue.runtime.kernels.compiled import inner

AT_ONCE = 8
SPARE = 64 + AT_ONCE
"""Words that a column must have free before the matches of a block of rows are written to it."""
_FEW = 4
"""Up to so many words are copied one by one."""


@inner
def column_stride(room, width):  # type: ignore[no-untyped-def]
    """The words of a column; the next one begins in another line of the cache, wherever lines have the same place."""
    return max(((room // width - 8) >> 6 << 6) + 8, 0)


@intrinsic
def _pack(typing_context: Any, target: Any, to: Any, source: Any, at: Any, bits: Any) -> Any:
    """Write those of eight words that have their bit set, one after the other; what follows them is undefined."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(64), AT_ONCE)
        chosen = ir.VectorType(ir.IntType(1), AT_ONCE)
        compress = get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector, chosen, vector]),
            f"llvm.experimental.vector.compress.v{AT_ONCE}i64",
        )
        mask = builder.bitcast(builder.trunc(arguments[4], ir.IntType(AT_ONCE)), chosen)
        loaded = load_words(builder, arguments[2], arguments[3], vector)
        packed = builder.call(compress, [loaded, mask, ir.Constant(vector, ir.Undefined)])
        return _store(context, builder, packed, arguments)

    return types.void(target, to, source, at, bits), generate


@intrinsic
def _repeat(typing_context: Any, target: Any, to: Any, word: Any) -> Any:
    """Write a word eight times."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(64), AT_ONCE)
        return _store(context, builder, repeat_word(builder, arguments[2], vector), arguments)

    return types.void(target, to, word), generate


def _store(context: Any, builder: Any, vector: Any, arguments: Any) -> Any:
    array, address = arguments[:2]
    place = builder.bitcast(builder.gep(array, [address]), vector.type.as_pointer())
    builder.store(vector, place).align = 8
    return context.get_dummy_value()


@inner
def copy_each(S, O, source, target, mask):  # type: ignore[no-untyped-def]
    """Copy S[source + j] for each bit j of a mask to O, from `target` on, and write nothing else."""
    while mask != np.uint64(0):
        O[target] = S[source + np.int64(trailing_zeros(mask))]
        mask &= mask - np.uint64(1)
        target += 1


@inner
def copy_chosen(S, O, source, target, mask):  # type: ignore[no-untyped-def]
    """The same for many; up to seven words behind the last are overwritten."""
    if count_bits(mask) <= _FEW:
        copy_each(S, O, source, target, mask)
        return
    while mask != np.uint64(0):
        bits = mask & np.uint64(0xFF)
        _pack(O, target, S, source, bits)
        target += count_bits(bits)
        source += AT_ONCE
        mask >>= np.uint64(AT_ONCE)


@inner
def fill(O, target, count, word):  # type: ignore[no-untyped-def]
    """Write a word `count` times."""
    for k in range(0, count, AT_ONCE):
        _repeat(O, target + k, word)
