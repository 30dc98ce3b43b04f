"""Derived events as results: rows of bits become Arrow columns `rule`, `type`, `begin`, `end` and the attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.events.casting import arrow_type
from ensue.events.schema import DType, Schema
from ensue.runtime.bits import Int64s, from_bits
from ensue.runtime.results import make_times
from ensue.runtime.strings import StringTable
from ensue.runtime.values import Kind


class DerivedPart:
    """The events of one rule in a result."""

    __slots__ = ("_columns", "_length", "name")

    def __init__(self, name: str, columns: dict[str, pa.Array]) -> None:
        """Take the columns of a result, all of one length."""
        self.name = name
        self._columns = columns
        self._length = len(columns["end"])

    def __len__(self) -> int:
        return self._length

    def columns(self) -> dict[str, pa.Array]:
        """All columns."""
        return self._columns

    def to_pylist(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Some events as dicts."""
        columns = {name: array.slice(start, stop - start).to_pylist() for name, array in self._columns.items()}
        return [{name: values[i] for name, values in columns.items()} for i in range(stop - start)]


def time_type_of(schema: Schema, layout: pa.Schema | None) -> pa.DataType:
    """The Arrow type of begins and ends: that of the time column."""
    dtype = schema.columns[schema.time]
    if dtype is DType.INT:
        return pa.int64()
    if layout is not None and dtype is DType.TIMESTAMP and schema.time in layout.names:
        return layout.field(schema.time).type
    return pa.timestamp("us", "UTC")


def make_attributes(rows: Int64s, columns: Mapping[str, DType], strings: StringTable) -> dict[str, pa.Array]:
    """The attributes of derived events, which stand in their rows from the third value on."""
    return {name: _make_array(rows[:, 2 + k], dtype, strings) for k, (name, dtype) in enumerate(columns.items())}


def _make_array(bits: Int64s, dtype: DType, strings: StringTable) -> pa.Array:
    column = from_bits(bits, dtype, strings)
    null = None if column.null is None else np.ascontiguousarray(column.null)
    values = np.ascontiguousarray(column.values)
    if column.kind is Kind.STRING:
        return pa.array(column.words, pa.string()).take(pa.array(values, mask=null))
    return pa.array(values, mask=null).cast(arrow_type(dtype))


def make_part(
    name: str, rows: Int64s, columns: Mapping[str, DType], strings: StringTable, times: pa.DataType
) -> DerivedPart:
    """The events of a rule as a part of a result."""
    label = pa.array([name], pa.string()).take(pa.array(np.zeros(len(rows), dtype=np.int64)))
    head = {
        "rule": label,
        "type": label,
        "begin": make_times(rows[:, 1], times),
        "end": make_times(rows[:, 0], times),
    }
    return DerivedPart(name, head | make_attributes(rows, columns, strings))
