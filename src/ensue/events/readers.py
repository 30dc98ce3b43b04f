"""What users hold events in, read as named columns: Arrow, pandas, polars, rows of dicts, a dict of columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from ensue.errors import InputError

RawColumn: TypeAlias = pa.ChunkedArray | list[Any]
"""A column as it came: Arrow where Arrow can hold it, a plain list where values of several types are mixed."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """Columns of one length, not yet checked. `by_row` says that rows name their own columns (a list of dicts)."""

    columns: dict[str, RawColumn]
    rows: int
    by_row: bool = False
    unreadable: dict[int, str] = field(default_factory=dict)  # rows that are no rows at all, and why

    def rows_at(self, positions: Sequence[int]) -> pa.Table:
        """Some rows with the values that they came with; as JSON text where a column mixes types."""
        picked: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, column in self.columns.items():
            if isinstance(column, list):
                values = [column[i] for i in positions]
                array = to_arrow(values, blend=True)
                picked[name] = pa.array([to_json(v) for v in values], pa.string()) if array is None else array
            else:
                picked[name] = column.take(pa.array(positions, pa.int64()))
        return pa.table(picked)


def read_table(data: object) -> RawTable:
    """Any supported form of events as named columns. Raises InputError for what holds no events.

    >>> read_table([{"type": "A", "ts": 1}, {"type": "B"}]).columns["ts"].to_pylist()
    [1, None]
    """
    match data:
        case RawTable():
            return data
        case pa.Table():
            return _from_arrow(data)
        case pa.RecordBatch():
            return _from_arrow(pa.Table.from_batches([data]))
        case pa.RecordBatchReader():
            return _from_arrow(data.read_all())
        case _:
            pass
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns") and hasattr(data, "index"):
        return _from_pandas(data)
    if library == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            table = pa.table(data) if hasattr(data, "__arrow_c_stream__") else pa.table(pa.record_batch(data))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"this {type(data).__name__} does not hold a table of events: {error}") from error
        return _from_arrow(table)
    if isinstance(data, Mapping):
        return _from_mapping(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_rows(list(data))
    raise InputError(
        f"cannot read events from a {type(data).__name__}; give an Arrow table, a pandas or polars DataFrame, "
        "a list of dicts or a dict of columns"
    )


def to_arrow(values: list[Any], *, blend: bool = False) -> pa.Array | None:
    """A list as an Arrow array if it holds values of one type, else None; `blend` makes ints among floats floats."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    # Arrow mixes ints with floats and datetimes, and dates with datetimes: a value would depend on its neighbours
    if len(kinds) > 1 and not (blend and kinds == {int, float}):
        return None
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


def to_json(value: object) -> str | None:
    """A value as JSON text, what JSON does not know as its `str`; None stays None."""
    return None if value is None else json.dumps(value, default=str)


def _from_arrow(table: pa.Table) -> RawTable:
    _check_names(table.column_names)
    return RawTable(dict(zip(table.column_names, table.columns, strict=True)), table.num_rows)


def _from_pandas(frame: Any) -> RawTable:
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if named:  # a time index is a column of its own in pandas' mind; an index without a name is only a row number
        frame = frame.reset_index(level=named)
    names = [str(name) for name in frame.columns]
    _check_names(names)
    columns = {name: _column(name, frame.iloc[:, i]) for i, name in enumerate(names)}
    return RawTable(columns, len(frame))


def _from_mapping(data: Mapping[Any, Any]) -> RawTable:
    if data and not any(_is_column(values) for values in data.values()):
        return _from_rows([data])  # one event
    columns = {}
    for name, values in data.items():
        if not _is_column(values):
            raise InputError(f"column `{name}` is a single {type(values).__name__}, where other columns are lists")
        columns[str(name)] = _column(str(name), values)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"`{name}` has {n}" for name, n in lengths.items())
        raise InputError(f"the columns differ in length: {shown}")
    return RawTable(columns, next(iter(lengths.values()), 0))


def _from_rows(rows: list[Any]) -> RawTable:
    unreadable = {
        i: f"{row!r:.80} is not a row (a dict of columns)" for i, row in enumerate(rows) if not isinstance(row, Mapping)
    }
    if unreadable:
        rows = [{} if i in unreadable else row for i, row in enumerate(rows)]
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, RawColumn] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        array = to_arrow(values)
        columns[str(name)] = values if array is None else pa.chunked_array([array])
    return RawTable(columns, len(rows), by_row=True, unreadable=unreadable)


def _is_column(values: object) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str | bytes | Mapping)


def _column(name: str, values: Any) -> RawColumn:
    """A list, NumPy array, pandas Series or Arrow array as a raw column."""
    match values:
        case pa.ChunkedArray():
            return values
        case pa.Array():
            return pa.chunked_array([values])
        case list() | tuple():
            array = to_arrow(list(values))
            return list(values) if array is None else pa.chunked_array([array])
        case _:
            pass
    if str(getattr(values, "dtype", "")) == "object":
        # pandas keeps None, NaN and NaT side by side in such a column: all are missing
        whole: list[Any] = [None if v is None or v != v else v for v in values.tolist()]
        return _column(name, whole)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        try:
            return _column(name, list(values))
        except TypeError as error:
            raise InputError(f"column `{name}` cannot be read from a {type(values).__name__}") from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"the input has two columns called `{name}`")
        seen.add(name)
