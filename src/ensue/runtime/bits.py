"""Values of attributes as int64, as tuples hold them: floats by their bits, strings by their codes.

Null is -2^63 or NaN. Equal values have equal bits: there is one zero and one NaN.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.events.schema import DType
from ensue.events.times import NULL
from ensue.runtime.columns import KINDS
from ensue.runtime.strings import StringTable
from ensue.runtime.values import Column, Kind, adopt, floats

Int64s = npt.NDArray[np.int64]


def to_bits(column: Column, dtype: DType, strings: StringTable) -> Int64s:
    """The values of a column, which may be an int where a float is wanted."""
    if column.kind is Kind.NULL:
        column = adopt(column, KINDS[dtype])
    if dtype is DType.FLOAT:
        values = column.values.astype(np.float64) + 0.0
        values[np.isnan(values) | column.nulls()] = np.nan
        return values.view(np.int64)
    if dtype is not DType.STRING:
        return np.ascontiguousarray(column.encode())
    if not len(column.values):
        return np.empty(0, dtype=np.int64)
    used = np.unique(column.values if column.null is None else column.values[~column.null])
    codes = np.full(len(column.words), NULL, dtype=np.int64)
    codes[used] = strings.encode_words([column.words[place] for place in used.tolist()])
    values = codes[column.values]
    return values if column.null is None else np.where(column.null, NULL, values)


def from_bits(bits: Int64s, dtype: DType, strings: StringTable) -> Column:
    """The column that `to_bits` was given."""
    if dtype is DType.FLOAT:
        return floats(np.ascontiguousarray(bits).view(np.float64))
    null = bits == NULL
    missing = null if null.any() else None
    if dtype is DType.STRING:
        codes, places = np.unique(bits if missing is None else bits[~null], return_inverse=True)
        words = tuple(strings.decode(code) for code in codes.tolist()) or ("",)
        if missing is None:
            return Column(Kind.STRING, places.astype(np.int64), None, words)
        values = np.zeros(len(bits), dtype=np.int64)
        values[~null] = places
        return Column(Kind.STRING, values, missing, words)
    if dtype is DType.BOOL:
        return Column(Kind.BOOL, bits == 1, missing)
    return Column(KINDS[dtype], np.ascontiguousarray(bits), missing)


def is_missing(bits: Int64s, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values are null."""
    return np.isnan(np.ascontiguousarray(bits).view(np.float64)) if dtype is DType.FLOAT else bits == NULL
