"""Rows of text as Arrow tables: CSV and JSON lines, with types found out or given; unreadable rows are set aside.

A block is parsed at full speed with the types at hand. If a value does not fit, its column comes as a list of mixed
values instead, and the engine's intake rejects the one row, with its reason, rather than the whole block.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from ensue.errors import InputError

Types: TypeAlias = Mapping[str, pa.DataType]
Columns: TypeAlias = dict[str, "pa.ChunkedArray | list[Any]"]
INTEGER = r"^\s*[-+]?\d+\s*$"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
NULLS = ["", "null", "NULL"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row of the input that is not even a row: its text and what is wrong with it."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The rows of one block (columns where values do not all fit), and those that could not be read."""

    table: pa.Table | Columns
    unreadable: list[Unreadable] = field(default_factory=list)


class RowFormat(Protocol):
    """How text is turned into rows."""

    quote: bytes | None

    def take_header(self, block: bytes) -> bytes:
        """The block without what is not a row (the header of CSV), which is remembered."""
        ...

    def infer(self, block: bytes, numeric: Collection[str]) -> dict[str, pa.DataType]:
        """The types of the columns, judged by this block; one of `numeric` is a number if most of its values are."""
        ...

    def parse(self, block: bytes, types: Types) -> Parsed:
        """The rows of a block; a column whose values do not all fit its type comes as a list of mixed values."""
        ...


class CsvRows:
    """Comma-separated values with a header line. Empty, `null` and `NULL` without quotes are missing values."""

    quote: bytes | None = b'"'

    def __init__(self, delimiter: str = ",") -> None:
        self.delimiter = delimiter
        self.names: list[str] = []

    def take_header(self, block: bytes) -> bytes:
        """The block after its first line, which names the columns."""
        block = block.removeprefix(b"\xef\xbb\xbf")
        line, _, rest = block.partition(b"\n")
        # The header is read as a row of text, so that quoted names work as quoted values do.
        self.names = [""] * (line.count(self.delimiter.encode()) + 1)
        try:
            header = pacsv.read_csv(
                io.BytesIO(line + b"\n"),
                read_options=pacsv.ReadOptions(autogenerate_column_names=True),
                parse_options=pacsv.ParseOptions(delimiter=self.delimiter),
                convert_options=pacsv.ConvertOptions(column_types=_all_text([f"f{k}" for k in range(len(self.names))])),
            )
        except pa.ArrowInvalid as error:
            raise InputError(f"the header line of the CSV cannot be read: {error}") from error
        self.names = [str(column[0].as_py()).strip() for column in header.columns]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"the CSV's header names column {twice!r} twice")
        return rest

    def infer(self, block: bytes, numeric: Collection[str]) -> dict[str, pa.DataType]:
        """The types of the columns, judged by this block; one of `numeric` is a number if most of its values are."""
        if not block.strip():
            return dict.fromkeys(self.names, pa.null())
        table = self._read(block, {}, [])
        found = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_time(column.type):
                found[name] = pa.string()
            elif pa.types.is_string(column.type) and name in numeric:
                found[name] = number_type(column)
            else:
                found[name] = column.type
        return found

    def parse(self, block: bytes, types: Types) -> Parsed:
        """The rows of a block; a column whose values do not all fit its type comes as a list of mixed values."""
        unreadable: list[Unreadable] = []
        try:
            return Parsed(self._read(block, types, unreadable), unreadable)
        except pa.ArrowInvalid:
            unreadable.clear()
            text = self._read(block, _all_text(self.names), unreadable)
        return Parsed({name: read_values(text.column(name), types[name]) for name in self.names}, unreadable)

    def _read(self, block: bytes, types: Types, unreadable: list[Unreadable]) -> pa.Table:
        def set_aside(row: pacsv.InvalidRow) -> str:
            reason = f"expected {row.expected_columns} values, found {row.actual_columns}"
            unreadable.append(Unreadable(row.text or "", reason))
            return "skip"

        if not block.strip():
            return pa.table({name: pa.array([], types.get(name, pa.null())) for name in self.names})
        return pacsv.read_csv(
            io.BytesIO(block),
            # One block in one go: types must not differ between parts of it.
            read_options=pacsv.ReadOptions(column_names=self.names, block_size=len(block) + 1),
            parse_options=pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=set_aside
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(types), strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=NULLS
            ),
        )


class JsonRows:
    """JSON lines: one object a line."""

    quote: bytes | None = None

    def take_header(self, block: bytes) -> bytes:
        """The block as it is: JSON lines have no header."""
        return block.removeprefix(b"\xef\xbb\xbf")

    def infer(self, block: bytes, numeric: Collection[str]) -> dict[str, pa.DataType]:
        """The types of the columns, judged by this block; one of `numeric` is a number if most of its values are."""
        rows, _ = _load_rows(block)
        return {name: _json_type(_values(rows, name), name in numeric) for name in _keys(rows)}

    def parse(self, block: bytes, types: Types) -> Parsed:
        """The rows of a block; a column whose values do not all fit its type comes as a list of mixed values."""
        if not block.strip():
            return Parsed(pa.table({name: pa.array([], type_) for name, type_ in types.items()}))
        try:
            table = pajson.read_json(
                io.BytesIO(block),
                read_options=pajson.ReadOptions(block_size=len(block) + 1),
                parse_options=pajson.ParseOptions(
                    explicit_schema=pa.schema(dict(types)), unexpected_field_behavior="error", newlines_in_values=False
                ),
            )
            return Parsed(table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            rows, unreadable = _load_rows(block)
        names = list(dict.fromkeys((*types, *_keys(rows))))
        columns = {name: _json_column(_values(rows, name), types.get(name)) for name in names}
        return Parsed(columns, unreadable)


def number_type(text: pa.ChunkedArray) -> pa.DataType:
    """The type of a column of text that ought to hold numbers: a number if most of its values are, text if not."""
    present = len(text) - text.null_count
    numbers = pc.sum(pc.match_substring_regex(text, NUMBER)).as_py() or 0
    if numbers * 2 <= present:
        return pa.string()
    integers = pc.sum(pc.match_substring_regex(text, INTEGER)).as_py() or 0
    return pa.int64() if integers == numbers else pa.float64()


def widen(current: pa.DataType, block: pa.DataType, *, numeric: bool) -> pa.DataType:
    """The type that holds the values of both; a column used as a number stays one and loses single rows instead.

    >>> widen(pa.int64(), pa.float64(), numeric=False)
    DataType(double)
    >>> widen(pa.int64(), pa.string(), numeric=True)
    DataType(int64)
    """
    if current == block or pa.types.is_null(block):
        return current
    if pa.types.is_null(current):
        return block
    numbers = {pa.int64(), pa.float64()}
    if current in numbers and block in numbers:
        return pa.float64()
    if numeric and current in numbers:
        return current
    return pa.string()


def read_values(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | list[Any]:
    """The text as `kind` if every value fits, else a list in which those that do not fit stay text."""
    if pa.types.is_string(kind):
        return text
    try:
        return pc.utf8_trim_whitespace(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return [None if value is None else read_value(value, kind) for value in text.to_pylist()]


def read_value(text: str, kind: pa.DataType) -> Any:
    """One value of a CSV: a number or a bool if `kind` is one and the text can be read so, else the text.

    >>> read_value("7", pa.int64()), read_value("seven", pa.int64())
    (7, 'seven')
    """
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_floating(kind):
            return float(text)
    except ValueError:
        return text
    if pa.types.is_boolean(kind):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)
    return text


def _all_text(names: Sequence[str]) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, pa.string())


def _load_rows(block: bytes) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """The objects of a block, and the lines that are not one."""
    rows, unreadable = [], []
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            unreadable.append(Unreadable(line.decode(errors="replace").strip(), f"not JSON: {error}"))
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            unreadable.append(Unreadable(line.decode(errors="replace").strip(), "not a JSON object"))
    return rows, unreadable


def _keys(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [row.get(name) for row in rows]


def _json_type(values: Sequence[Any], numeric: bool) -> pa.DataType:
    kinds: dict[type, int] = {}
    for value in values:
        if value is not None:
            kinds[type(value)] = kinds.get(type(value), 0) + 1
    if not kinds:
        return pa.null()
    numbers = kinds.get(int, 0) + kinds.get(float, 0)
    if numbers == sum(kinds.values()) or (numeric and numbers * 2 > sum(kinds.values())):
        return pa.float64() if float in kinds else pa.int64()
    if set(kinds) == {bool}:
        return pa.bool_()
    if set(kinds) <= {list, dict}:
        try:
            return pa.array(values).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.string()
    return pa.string()


def _json_column(values: list[Any], kind: pa.DataType | None) -> pa.ChunkedArray | list[Any]:
    """The values as `kind`, or as they are if one does not fit; in a column of text, what is not text as JSON."""
    if kind is not None and pa.types.is_string(kind):
        values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    try:
        return pa.chunked_array([pa.array(values, kind or _json_type(values, False))])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return values
