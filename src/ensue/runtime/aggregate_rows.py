"""Rows of AGG as evaluators hand them over, and as users see them: `query`, `time`, the group, the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.events.batch import Int64s
from ensue.events.schema import DType, Schema
from ensue.pattern.columns import aggregate_name, group_name
from ensue.pattern.expressions import TIME_ATTRIBUTES
from ensue.pattern.query import Query
from ensue.runtime.results import make_times, time_type
from ensue.runtime.rows import RowView

Values: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]
"""One value a row (int64, float64, or objects: text), and which are null."""


@dataclass(frozen=True, slots=True, eq=False)
class AggregateBlock:
    """Rows of one query, in the order of time: the values of GROUP BY and of AGG, in the order of the clauses."""

    query: Query
    name: str
    time: Int64s
    groups: tuple[Values, ...]
    values: Sequence[Values]

    def __len__(self) -> int:
        return len(self.time)


class LaterValues(Sequence[Values]):
    """Values that are worked out when someone looks at them: of hundreds of queries few may be looked at."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], tuple[Values, ...]]) -> None:
        self._make = make
        self._found: tuple[Values, ...] | None = None

    def _values(self) -> tuple[Values, ...]:
        if self._found is None:
            self._found = self._make()
        return self._found

    def __len__(self) -> int:
        return len(self._values())

    @overload
    def __getitem__(self, place: int) -> Values: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Values, ...]: ...

    def __getitem__(self, place: int | slice) -> Values | tuple[Values, ...]:
        return self._values()[place]


def make_columns(block: AggregateBlock, rows: RowView) -> dict[str, pa.Array]:
    """The columns of a block as Arrow arrays."""
    columns: dict[str, pa.Array] = {
        "query": pa.array([block.name], pa.string()).take(pa.array(np.zeros(len(block), dtype=np.int64))),
        "time": make_times(block.time, time_type(rows)),
    }
    for key, values in zip(block.query.group_by, block.groups, strict=True):
        columns[group_name(key)] = _make_array(values, attribute_type(key.name, rows))
    for one, values in zip(block.query.aggregates, block.values, strict=True):
        columns[aggregate_name(one)] = _make_array(values, _number_type(one.function, one.name, rows))
    return columns


def attribute_type(name: str, rows: RowView) -> pa.DataType:
    """The Arrow type of an attribute."""
    return time_type(rows) if is_time(name, rows.schema) else rows.layout().field(name).type


def is_time(name: str, schema: Schema) -> bool:
    """Whether an attribute is one of an event's times."""
    return name in TIME_ATTRIBUTES or name in (schema.time, schema.begin)


def _number_type(function: str, name: str | None, rows: RowView) -> pa.DataType:
    if function == "COUNT" or name is None:
        return pa.int64()
    if function == "AVG":
        return pa.float64()
    if function == "SUM":
        is_float = not is_time(name, rows.schema) and rows.schema.columns[name] is DType.FLOAT
        return pa.float64() if is_float else pa.int64()
    return attribute_type(name, rows)


def _make_array(values: Values, kind: pa.DataType) -> pa.Array:
    found, null = values
    mask = null if null.any() else None
    if found.dtype == object:
        return pa.array(found, kind, mask=mask)
    if pa.types.is_boolean(kind):
        return pa.array(found.astype(np.bool_), kind, mask=mask)
    return pa.array(found, mask=mask).cast(kind)


def to_dicts(columns: dict[str, pa.Array], start: int, stop: int) -> list[dict[str, Any]]:
    """Some rows as dicts."""
    lists = [array.slice(start, stop - start).to_pylist() for array in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def no_rows(query: Query, name: str) -> AggregateBlock:
    """A block without rows: it tells that the query is there, and its columns."""
    nothing = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))
    return AggregateBlock(query, name, nothing[0], (nothing,) * len(query.group_by), (nothing,) * len(query.aggregates))


def join_blocks(blocks: Sequence[AggregateBlock]) -> AggregateBlock:
    """Blocks of one query one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]

    def join(place: int, part: str) -> Values:
        parts = [getattr(block, part)[place] for block in blocks]
        return np.concatenate([values for values, _ in parts]), np.concatenate([null for _, null in parts])

    return AggregateBlock(
        first.query,
        first.name,
        np.concatenate([block.time for block in blocks]),
        tuple(join(k, "groups") for k in range(len(first.groups))),
        tuple(join(k, "values") for k in range(len(first.values))),
    )
