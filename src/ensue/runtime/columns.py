"""Expressions over whole batches: each node of the tree is one NumPy step, so that a row costs nanoseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import InternalError
from ensue.events.batch import EventBatch, Int64s
from ensue.events.schema import DType, Schema
from ensue.events.times import MICROSECONDS, NULL
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from ensue.runtime.functions import call, like
from ensue.runtime.strings import StringTable
from ensue.runtime.values import (
    Column,
    Kind,
    all_true,
    any_true,
    calculate,
    compare,
    constant,
    floats,
    invert,
    negate,
)

Lookup: TypeAlias = Callable[[Attribute | Aggregate], Column]
"""What the names of an expression stand for."""

KINDS: dict[DType, Kind] = {
    DType.BOOL: Kind.BOOL,
    DType.INT: Kind.INT,
    DType.FLOAT: Kind.FLOAT,
    DType.STRING: Kind.STRING,
    DType.TIMESTAMP: Kind.TIMESTAMP,
}


def evaluate(expression: Expression, batch: EventBatch, schema: Schema, strings: StringTable) -> npt.NDArray[Any]:
    """The value of an expression for each event of a batch, whatever variable its attributes name.

    int64 with null as -2^63 (bool as 0 and 1, strings as codes of `strings`), or float64 with null as NaN.
    """

    def look_up(node: Attribute | Aggregate) -> Column:
        if isinstance(node, Aggregate):
            raise InternalError(f"{node.function} speaks of a list, not of one event")
        return read_attribute(node.name, batch.table, batch.begin, batch.end, schema)

    column = evaluate_column(expression, look_up, time_step(schema)).stretch(len(batch))
    if column.kind is not Kind.STRING:
        return np.ascontiguousarray(column.encode())
    if not len(batch):
        return np.empty(0, dtype=np.int64)
    used = np.unique(column.values if column.null is None else column.values[~column.null])
    codes = np.full(len(column.words), NULL, dtype=np.int64)
    codes[used] = strings.encode_words([column.words[i] for i in used.tolist()])
    values = codes[column.values]
    return values if column.null is None else np.where(column.null, NULL, values)


def time_step(schema: Schema) -> int:
    """How many microseconds one step of the time column is."""
    return MICROSECONDS[schema.unit] if schema.columns[schema.time] is DType.INT else 1


def time_kind(schema: Schema) -> Kind:
    """The kind of an event's begin and end."""
    return Kind.INT if schema.columns[schema.time] is DType.INT else Kind.TIMESTAMP


def read_attribute(name: str, table: pa.Table, begin: Int64s, end: Int64s, schema: Schema) -> Column:
    """One attribute of the rows of a table; the time attributes come before columns of the same name."""
    if name == "begin" or (name == schema.begin and name not in TIME_ATTRIBUTES):
        return Column(time_kind(schema), begin)
    if name in TIME_ATTRIBUTES or name == schema.time:
        return Column(time_kind(schema), end)
    dtype = schema.columns.get(name)
    if dtype is None:
        raise InternalError(f"no column of the schema is called `{name}`")
    return read_column(table.column(name), dtype)


def read_column(values: pa.ChunkedArray, dtype: DType) -> Column:
    """An Arrow column that was cast to `dtype` as a typed column."""
    null = values.is_null().to_numpy() if values.null_count else None
    match dtype:
        case DType.FLOAT:
            return floats((values.fill_null(np.nan) if null is not None else values).to_numpy(), null)
        case DType.INT:
            return Column(Kind.INT, (values.fill_null(0) if null is not None else values).to_numpy(), null)
        case DType.TIMESTAMP:
            return Column(Kind.TIMESTAMP, _integers(values, null is not None), null)
        case DType.BOOL:
            return Column(Kind.BOOL, (values.fill_null(False) if null is not None else values).to_numpy(), null)
        case DType.STRING:
            places, words = encode_words(values)
            return Column(Kind.STRING, places, null, words)
        case _:
            assert_never(dtype)


def encode_words(values: pa.ChunkedArray) -> tuple[Int64s, tuple[str, ...]]:
    """A text column as places in its distinct strings; null is place 0. There is at least one string."""
    words: dict[str, int] = {}
    parts = []
    for chunk in values.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        codes = [words.setdefault(word, len(words)) for word in encoded.dictionary.to_pylist()] or [0]
        indices = encoded.indices
        places = (indices.fill_null(0) if indices.null_count else indices).to_numpy()
        parts.append(np.array(codes, dtype=np.int64)[places])
    return (np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)), tuple(words) or ("",)


def _integers(values: pa.ChunkedArray, has_nulls: bool) -> Int64s:
    numbers = values.cast(pa.int64())
    array: Int64s = (numbers.fill_null(0) if has_nulls else numbers).to_numpy()
    return array


def evaluate_column(expression: Expression, look_up: Lookup, step: int) -> Column:
    """The typed column of an expression; `step` is the length in microseconds of one step of the time column."""

    def value(node: Expression) -> Column:
        return evaluate_column(node, look_up, step)

    match expression:
        case Literal(value=literal):
            return constant(literal)
        case Attribute() | Aggregate():
            return look_up(expression)
        case Negate(operand=operand):
            return negate(value(operand))
        case Arithmetic(operator=operator, left=left, right=right):
            return calculate(operator, value(left), value(right), step)
        case Comparison(operands=operands, operators=operators):
            sides = [value(operand) for operand in operands]
            pairs = [compare(op, sides[i], sides[i + 1], step) for i, op in enumerate(operators)]
            return pairs[0] if len(pairs) == 1 else all_true(pairs)
        case Logical(operator=operator, operands=operands):
            parts = [value(operand) for operand in operands]
            return all_true(parts) if operator == "AND" else any_true(parts)
        case Not(operand=operand):
            return invert(value(operand))
        case InList(operand=operand, items=items, negated=negated):
            wanted = value(operand)
            found = any_true([compare("=", wanted, value(item), step) for item in items])
            return invert(found) if negated else found
        case Between(operand=operand, low=low, high=high, negated=negated):
            wanted = value(operand)
            ends = [compare("<=", value(low), wanted, step), compare("<=", wanted, value(high), step)]
            return invert(all_true(ends)) if negated else all_true(ends)
        case Like(operand=operand, pattern=pattern, negated=negated):
            alike = like(value(operand), pattern)
            return invert(alike) if negated else alike
        case IsNull(operand=operand, negated=negated):
            missing = value(operand).nulls()
            return Column(Kind.BOOL, ~missing if negated else np.array(missing))
        case Call(function=function, arguments=arguments):
            return call(function, [value(argument) for argument in arguments], step)
        case _:
            assert_never(expression)
