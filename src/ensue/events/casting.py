"""Columns cast to the types of the schema; a value that does not fit is marked, never changed in silence.

Nothing is reinterpreted: numbers stay numbers and text stays text. An integral float is an int, a decimal a number, a
date or ISO-8601 text (UTC where it names no zone) a timestamp, and an int in a timestamp column counts microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ensue.events.readers import RawColumn, to_arrow
from ensue.events.schema import DType
from ensue.events.times import LARGEST, NULL, parse_time

Mask = npt.NDArray[np.bool_]

_NAIVE = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")


def arrow_type(dtype: DType, *, aware: bool = True) -> pa.DataType:
    """The Arrow type in which a column is kept; timestamps with the zone UTC unless not `aware`."""
    match dtype:
        case DType.BOOL:
            return pa.bool_()
        case DType.INT:
            return pa.int64()
        case DType.FLOAT:
            return pa.float64()
        case DType.STRING:
            return pa.string()
        case DType.TIMESTAMP:
            return _UTC if aware else _NAIVE
        case _:
            assert_never(dtype)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds strings, in whatever layout."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def infer_dtype(column: RawColumn) -> DType | None:
    """The type of a column that no schema names, None if no query can speak of it (lists, structs, binary, …).

    Where a list mixes types, the first value decides; ints among floats are floats. A column of nothing but nulls is
    taken for a float64.
    """
    if isinstance(column, list):
        first = next((v for v in column if v is not None), None)
        if set(map(type, column)) <= {int, float, type(None)}:
            return DType.FLOAT if any(isinstance(v, float) for v in column) else DType.INT
        array = to_arrow([first])
        if array is None:
            return DType.INT if isinstance(first, int) else None
        return infer_arrow_dtype(array.type)
    return infer_arrow_dtype(column.type)


def infer_arrow_dtype(kind: pa.DataType) -> DType | None:
    """The attribute type of an Arrow type, None if it has none.

    >>> infer_arrow_dtype(pa.decimal128(10, 2))
    <DType.FLOAT: 'float64'>
    """
    if pa.types.is_dictionary(kind):
        return infer_arrow_dtype(kind.value_type)
    if is_text(kind):
        return DType.STRING
    if pa.types.is_boolean(kind):
        return DType.BOOL
    if pa.types.is_integer(kind):
        return DType.INT
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return DType.FLOAT
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return DType.TIMESTAMP
    return None


def infer_aware(column: RawColumn) -> bool:
    """Whether a timestamp column is to be kept with the zone UTC: not if it came as timestamps without any zone."""
    if isinstance(column, list):
        return True
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return not (pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None))


def cast_column(column: RawColumn, dtype: DType, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """A column as `target`, the Arrow type of `dtype`, and a mask of the values that do not fit (None: all do).

    Text in a dictionary stays so (as `dictionary<int32, string>`): decoding it would cost more than all other checks.
    """
    if isinstance(column, list):
        return _cast_list(column, dtype, target)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column), target)]), None
    if pa.types.is_dictionary(kind):
        if dtype is DType.STRING and is_text(kind.value_type):
            return _plain_dictionaries(column), None
        column = column.cast(kind.value_type)
        kind = column.type
    if dtype is not DType.TIMESTAMP and kind == target:
        return column, _find_null_value(column) if dtype is DType.INT else None
    convert = _find_conversion(kind, dtype)
    if convert is None:
        there = _valid(column)
        return pa.chunked_array([pa.nulls(len(column), target)]), there if there.any() else None
    values, bad = convert(column)
    return (values if values.type == target else values.cast(target)), bad if bad is not None and bad.any() else None


Conversion = Callable[[pa.ChunkedArray], tuple[pa.ChunkedArray, Mask | None]]


def _find_conversion(kind: pa.DataType, dtype: DType) -> Conversion | None:
    """How values of an Arrow type become values of `dtype`; None where they cannot."""
    types = pa.types
    match dtype:
        case DType.INT:
            if types.is_integer(kind):
                return _to_int64
            if types.is_floating(kind):
                return _float_to_int
            return _decimal_to_int if types.is_decimal(kind) else None
        case DType.FLOAT:
            number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            return (lambda column: (column.cast(pa.float64(), safe=False), None)) if number else None
        case DType.STRING:
            return (lambda column: (column.cast(pa.string()), None)) if is_text(kind) else None
        case DType.TIMESTAMP:
            if types.is_timestamp(kind):
                return _timestamp_to_microseconds
            if types.is_date(kind):
                return lambda column: _timestamp_to_microseconds(column.cast(pa.timestamp("ms")))
            if types.is_integer(kind):
                return _int_to_timestamp
            return _text_to_timestamp if is_text(kind) else None
        case DType.BOOL:
            return None
        case _:
            assert_never(dtype)


def _valid(column: pa.ChunkedArray) -> Mask:
    """Which values are there: neither null nor NaN."""
    mask: Mask = column.is_valid().to_numpy()
    if pa.types.is_floating(column.type):
        mask &= ~np.isnan(_numbers(column, np.nan))
    return mask


def _numbers(column: pa.ChunkedArray, missing: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return values


def _build(values: npt.NDArray[Any], missing: Mask, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, mask=missing).cast(kind)])


def _find_null_value(column: pa.ChunkedArray) -> Mask | None:
    """A mask of the int64 values -2^63, which stand for null inside; None if there are none, as almost always."""
    smallest = pc.min(column).as_py()
    return _numbers(column, 0) == NULL if smallest == NULL else None


def _to_int64(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    if not pa.types.is_uint64(column.type):
        return column.cast(pa.int64()), None
    values = _numbers(column, 0)
    bad = values > LARGEST
    return _build(values.astype(np.int64), bad | ~_valid(column), pa.int64()), bad


def _float_to_int(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    values = _numbers(column.cast(pa.float64()), np.nan)
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        fits = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
    return _build(np.where(fits, values, 0.0).astype(np.int64), ~fits, pa.int64()), there & ~fits


def _decimal_to_int(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    whole = [None if v is None or v != int(v) or abs(v) > LARGEST else int(v) for v in column.to_pylist()]
    values = pa.chunked_array([pa.array(whole, pa.int64())])
    return values, _valid(column) & ~_valid(values)


def _int_to_timestamp(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    values, bad = _to_int64(column)
    least = _find_null_value(values)
    if least is not None:
        bad = least if bad is None else bad | least
    return values.cast(_NAIVE), bad


def _timestamp_to_microseconds(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    kind = column.type
    target = pa.timestamp("us", None if kind.tz is None else "UTC")
    if kind.unit == "us":
        return column.cast(target), _find_null_value(column.cast(pa.int64()))
    there = _valid(column)
    values = _numbers(column.cast(pa.int64()), 0)
    if kind.unit == "ns":
        return _build(values // 1000, ~there, pa.int64()).cast(target), None
    factor = 1_000_000 if kind.unit == "s" else 1_000
    bad = there & (np.abs(values) > LARGEST // factor) | (values == NULL)
    return _build(np.where(bad, 0, values) * factor, bad | ~there, pa.int64()).cast(target), bad


def _text_to_timestamp(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Mask | None]:
    column = column.cast(pa.string())
    for kind in (_NAIVE, _UTC):  # Arrow reads a column at once if all of it names a zone, or none of it
        try:
            return column.cast(kind).cast(_UTC), None
        except pa.ArrowInvalid:
            continue
    encoded = column.combine_chunks().dictionary_encode()
    words = pa.array([_read_text(word) for word in encoded.dictionary.to_pylist()], pa.int64())
    values = pa.chunked_array([words.take(encoded.indices)])
    return values.cast(_UTC), _valid(column) & ~_valid(values)


def _read_text(text: str) -> int | None:
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        pass
    for kind in (_NAIVE, _UTC):  # what Arrow reads in a whole column must be read beside a bad value too
        try:
            value: int = pa.array([text]).cast(kind).cast(pa.int64())[0].as_py()
            return value
        except pa.ArrowInvalid:
            continue
    return None


def _plain_dictionaries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    target = pa.dictionary(pa.int32(), pa.string())
    if column.type == target and not any(chunk.dictionary.null_count for chunk in column.chunks):
        return column
    chunks = []
    for chunk in column.chunks:
        words = chunk.dictionary.cast(pa.string())
        if words.null_count:
            chunks.append(words.take(chunk.indices).dictionary_encode())
        else:
            chunks.append(pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), words))
    return pa.chunked_array(chunks, target)


def _narrow(value: Any, dtype: DType) -> Any:
    """A Python int beyond int64 as a float, where a float is wanted."""
    if dtype is DType.FLOAT and isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return value
    return value


def _cast_list(values: list[Any], dtype: DType, target: pa.DataType) -> tuple[pa.ChunkedArray, Mask | None]:
    """A list of mixed types: each Python type is cast as a column of its own, so that neighbours do not matter."""
    groups: dict[type, list[int]] = {}
    for i, value in enumerate(values):
        groups.setdefault(type(value), []).append(i)
    bad = np.zeros(len(values), dtype=np.bool_)
    parts: list[pa.Array] = []
    order: list[int] = []
    for positions in groups.values():
        array = to_arrow([values[i] for i in positions])
        runs = [(positions, array)]
        if array is None:
            runs = [([i], to_arrow([_narrow(values[i], dtype)])) for i in positions]
        for places, run in runs:
            order.extend(places)
            if run is None:
                bad[places] = True
                parts.append(pa.nulls(len(places), target))
                continue
            cast, unfit = cast_column(pa.chunked_array([run]), dtype, target)
            if unfit is not None:
                bad[places] = unfit
            parts.append(pa.concat_arrays([c.cast(target) for c in cast.chunks]) if len(cast) else pa.nulls(0, target))
    back = np.empty(len(values), dtype=np.int64)
    back[order] = np.arange(len(values))
    column = pa.chunked_array([pa.concat_arrays(parts)]) if parts else pa.chunked_array([], target)
    return column.take(pa.array(back)), bad if bad.any() else None
