"""Where results go: JSON lines, CSV or Parquet, to a file or to standard output, as they are found."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

import click
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ensue.errors import InputError, InternalError
from ensue.events.json_text import to_json

FORMATS = ("jsonl", "csv", "parquet")


class Sink(Protocol):
    """Takes tables or rows, and writes them."""

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        ...

    def close(self) -> None:
        """Write what is still to be written."""
        ...


class JsonSink:
    """One JSON object a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write each row as a line, at once: a reader at the other end of a pipe should not wait."""
        text = "".join(to_json(row) + "\n" for row in rows)
        if text:
            self.stream.write(text.encode())
            self.stream.flush()

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        self.write_rows(table.to_pylist())

    def close(self) -> None:
        """Nothing is left to write."""


class CsvSink:
    """Comma-separated values: the attributes of a variable `a` as columns `a.x`, lists as JSON."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.schema: pa.Schema | None = None

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table; the header comes with the first."""
        first = self.schema is None
        flat = flatten(table)
        self.schema = flat.schema if self.schema is None else self.schema
        if first or table.num_rows:
            # One chunk, or none: for a chunk without rows Arrow writes what it wrote before once more.
            whole = align(flat, self.schema).combine_chunks() if table.num_rows else self.schema.empty_table()
            pacsv.write_csv(whole, self.stream, pacsv.WriteOptions(include_header=first, quoting_style="needed"))
        self.stream.flush()

    def close(self) -> None:
        """Nothing is left to write."""


class ParquetSink:
    """A Parquet file with the columns as they are, structs and lists included."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.writer: pq.ParquetWriter | None = None

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.stream, table.schema)
        if table.num_rows:
            self.writer.write_table(align(table, self.writer.schema))

    def close(self) -> None:
        """Write the file's footer."""
        if self.writer is not None:
            self.writer.close()


class Output:
    """A sink with the file or standard output behind it; a context that closes both.

    A file is only created when the first rows, or the end, come: a wrong query must not wipe an older result.
    """

    def __init__(self, path: str, format: str | None = None) -> None:
        self.path = path
        self.format = format or format_of(path)
        self._stream: BinaryIO | None = None
        self._sink: Sink | None = None

    def open(self) -> Sink:
        """The sink, opened on first use."""
        if self._sink is None:
            if self.path == "-":
                self._stream = sys.stdout.buffer
            else:
                try:
                    Path(self.path).parent.mkdir(parents=True, exist_ok=True)
                    self._stream = open(self.path, "wb")  # noqa: SIM115 - closed by __exit__
                except OSError as error:
                    raise InputError(f"cannot write {self.path}: {error.strerror or error}") from error
            match self.format:
                case "csv":
                    self._sink = CsvSink(self._stream)
                case "parquet":
                    self._sink = ParquetSink(self._stream)
                case _:
                    self._sink = JsonSink(self._stream)
        return self._sink

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.open()
        try:
            if self._sink is not None:
                self._sink.close()
        finally:
            if self._stream is not None and self.path != "-":
                self._stream.close()


def format_of(path: str) -> str:
    """The format that a file's name asks for; JSON lines if it does not say."""
    match Path(path).suffix.lower():
        case ".csv":
            return "csv"
        case ".parquet" | ".pq":
            return "parquet"
        case _:
            return "jsonl"


def flatten(table: pa.Table) -> pa.Table:
    """The table without structs (their fields are columns `a.x`) and without lists (JSON text)."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            values = [None if v is None else to_json(v) for v in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(values, pa.string()))
        elif pa.types.is_null(field.type):
            table = table.set_column(place, field.name, pa.nulls(table.num_rows, pa.string()))
    return table


def align(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of `schema`, in its order; a column that it lacks is null."""
    if table.schema.equals(schema):
        return table
    surplus = [name for name in table.column_names if name not in schema.names]
    if surplus:
        raise InternalError(f"results came to have other columns: {', '.join(surplus)}")
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def refuse_binary_terminal(output: Output) -> None:
    """Stop before Parquet is written to a terminal."""
    if output.path == "-" and output.format == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for the terminal: give --output FILE or redirect standard output")
