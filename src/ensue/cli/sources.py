"""Where events come from: CSV, JSON lines or Parquet, in a file (gzip too) or on standard input, read in batches.

The answer has to be that of the sorted input, whatever order a file is in, without holding all of it in memory. So a
finite input is surveyed first: one pass finds out the columns' types and how far events are out of order. Run with that
much lateness, the engine holds back just enough events to put them in order, and none of a sorted file.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ensue.cli.blocks import Pipe, cut_blocks, is_packed, open_file
from ensue.cli.rows import CsvRows, JsonRows, Parsed, RowFormat, widen
from ensue.cli.schemas import ColumnNames
from ensue.errors import InputError
from ensue.events.casting import arrow_type, cast_column, infer_arrow_dtype
from ensue.events.schema import DType

BLOCK_BYTES = 4 * 2**20
KEPT_BYTES = 256 * 2**20
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Source(Protocol):
    """Events that can be read in batches.

    `size` is the length in bytes (None: unknown), `read` how much of it this pass has read.
    """

    size: int | None
    read: int

    def survey(self) -> int:
        """Read through once: settle the columns' types, and say by how much time runs backwards (0: sorted)."""
        ...

    def batches(self) -> Iterator[Parsed]:
        """The rows in the order of the input."""
        ...

    def types(self) -> dict[str, pa.DataType]:
        """The columns and their types, as far as they are known."""
        ...


@dataclass(slots=True)
class Disorder:
    """How far a stream's events are out of order: the largest distance of one behind the latest before it."""

    most: int = 0
    latest: int | None = None

    def add(self, column: pa.ChunkedArray | list[Any], kind: pa.DataType) -> None:
        """Take in the next times, of a column of type `kind`; what cannot be read as a time does not count."""
        dtype = DType.INT if infer_arrow_dtype(kind) in (DType.INT, DType.FLOAT) else DType.TIMESTAMP
        values, unfit = cast_column(column, dtype, arrow_type(dtype))
        there = np.asarray(values.is_valid().to_numpy())
        times = values.cast(pa.int64()).fill_null(0).to_numpy()[there if unfit is None else there & ~unfit]
        if not len(times):
            return
        if self.latest is not None:
            times = np.concatenate([np.array([self.latest], dtype=np.int64), times])
        latest = np.maximum.accumulate(times)
        if (latest != times).any():
            # The distance of two int64 may not fit into one, so it is found in uint64, where it always does.
            self.most = max(self.most, int((latest.view(np.uint64) - times.view(np.uint64)).max()))
        self.latest = int(latest[-1])


def find_column(name: str, names: Collection[str]) -> str:
    """`name`, if it is one of the columns; an error with the nearest name if not."""
    if name in names:
        return name
    near = get_close_matches(name, list(names), 1)
    hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(f'`{n}`' for n in names) or 'none'}"
    raise InputError(f"the input has no column `{name}`; {hint} (see --type-column, --time-column)")


@dataclass(slots=True)
class TextSource:
    """CSV or JSON lines. `fixed` are types that are given, `numeric` the columns that queries take for numbers."""

    open: Callable[[], BinaryIO | Pipe]
    format: RowFormat
    columns: ColumnNames
    fixed: dict[str, pa.DataType]
    numeric: Collection[str]
    size: int | None = None
    found: dict[str, pa.DataType] = field(default_factory=dict)
    kept: list[Parsed] | None = None
    ahead: Iterator[bytes] | None = None
    read: int = 0

    def types(self) -> dict[str, pa.DataType]:
        """The columns and their types, judged by the first rows if there was no survey."""
        if not self.found:
            blocks = self._blocks()
            first = next(blocks, None)
            if first is not None:
                self.ahead = chain([first], blocks)  # a pipe cannot be read again
        return self.found

    def survey(self) -> int:
        """Read through once: settle the columns' types, and say by how much time runs backwards (0: sorted)."""
        disorder = Disorder()
        kept: list[Parsed] | None = []
        held = 0
        for block in self._blocks():
            parsed = self.format.parse(block, self.found)
            if not isinstance(parsed.table, pa.Table) and self._widen(block):
                kept = None  # what was read before has other types: all of it is read again
                parsed = self.format.parse(block, self.found)
            time = find_column(self.columns.time, self.found)
            disorder.add(parsed.table[time], self.found[time])
            if kept is not None:
                held += parsed.table.nbytes if isinstance(parsed.table, pa.Table) else 4 * len(block)
                kept.append(parsed)
                kept = kept if held < KEPT_BYTES else None
        self.kept = kept
        return disorder.most

    def batches(self) -> Iterator[Parsed]:
        """The rows in the order of the input."""
        if self.kept is not None:
            yield from self.kept
            return
        ahead, self.ahead = self.ahead, None
        for block in ahead or self._blocks():
            yield self.format.parse(block, self.found)

    def _blocks(self) -> Iterator[bytes]:
        """The blocks without the header; the first rows settle the types if no pass before has."""
        self.read = 0
        with self.open() as stream:

            def read(size: int) -> bytes:
                data = stream.read(size)
                self.read += len(data)
                return data

            first = True
            for block in cut_blocks(read, BLOCK_BYTES, self.format.quote):
                rows = self.format.take_header(block) if first else block
                first = False
                if not rows.strip():
                    continue
                self._settle(rows)
                yield rows
        self._settle(b"")

    def _settle(self, rows: bytes) -> None:
        if not self.found:
            inferred = self.format.infer(rows, self.numeric)
            csv = isinstance(self.format, CsvRows)  # has no other columns than its header says
            self.found = inferred | {n: kind for n, kind in self.fixed.items() if not csv or n in inferred}

    def _widen(self, block: bytes) -> bool:
        """Make room in the types for what a later block holds; True if that changed them."""
        before = dict(self.found)
        for name, kind in self.format.infer(block, self.numeric).items():
            if name not in self.fixed:
                self.found[name] = widen(before.get(name, pa.null()), kind, numeric=name in self.numeric)
        return self.found != before


@dataclass(slots=True)
class ParquetSource:
    """A Parquet file, read a batch of rows at a time."""

    file: str | pa.BufferReader
    columns: ColumnNames
    fixed: dict[str, pa.DataType]
    batch_size: int
    size: int | None = None
    read: int = 0

    def types(self) -> dict[str, pa.DataType]:
        """The columns and their types; a given type stands in place of the file's."""
        with self._open() as file:
            own = {field.name: field.type for field in file.schema_arrow}
        return own | {name: kind for name, kind in self.fixed.items() if name in own and name != self.columns.type}

    def survey(self) -> int:
        """Read the time column once, and say by how much it runs backwards (0: sorted)."""
        disorder = Disorder()
        types = self.types()
        time = find_column(self.columns.time, types)
        with self._open() as file:
            for batch in file.iter_batches(self.batch_size, columns=[time]):
                disorder.add(pa.chunked_array([batch.column(0)]), types[time])
        return disorder.most

    def batches(self) -> Iterator[Parsed]:
        """The rows in the order of the file."""
        with self._open() as file:
            rows, done = max(1, file.metadata.num_rows), 0
            for batch in file.iter_batches(self.batch_size):
                done += batch.num_rows
                self.read = (self.size or 0) * done // rows
                yield Parsed(pa.Table.from_batches([batch]))

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.file)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"this is not a Parquet file that can be read: {error}") from error


def open_source(
    path: str,
    *,
    columns: ColumnNames,
    format: str | None = None,
    fixed: Mapping[str, DType] | None = None,
    numeric: Collection[str] = (),
    batch_size: int = 65_536,
    live: bool = False,
) -> Source:
    """The events in the file at `path` (`-`: standard input). The format is told by the name, or by the first bytes.

    `live` standard input is taken as it comes and cannot be surveyed; else it is first copied to a temporary file.
    """
    types = {name: arrow_type(dtype) for name, dtype in (fixed or {}).items()} | {columns.type: pa.string()}
    if path == "-":
        stream: BinaryIO = sys.stdin.buffer
        if live and format != "parquet":
            pipe = Pipe(stream)
            kind = format or _sniff(pipe.peek(BLOCK_BYTES))
            if kind != "parquet":
                return TextSource(lambda: pipe, _rows(kind), columns, types, numeric)
            stream = cast(BinaryIO, pipe)
        path = _copy(stream)
    elif not Path(path).is_file():
        raise click.UsageError(f"no such file: {path}")
    kind = format or SUFFIXES.get(Path(path.lower().removesuffix(".gz")).suffix) or _sniff_file(path)
    size = None if is_packed(path) else Path(path).stat().st_size
    if kind == "parquet":
        file = path if size is not None else pa.BufferReader(open_file(path).read())
        return ParquetSource(file, columns, types, batch_size, size)
    return TextSource(lambda: open_file(path), _rows(kind), columns, types, numeric, size)


def _rows(kind: str) -> RowFormat:
    if kind == "jsonl":
        return JsonRows()
    return CsvRows("\t" if kind == "tsv" else ",")


def _sniff(start: bytes) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


def _sniff_file(path: str) -> str:
    with open_file(path) as stream:
        return _sniff(stream.read(4096))


def _copy(stream: BinaryIO) -> str:
    """Standard input as a temporary file, which goes when the command ends."""
    with tempfile.NamedTemporaryFile(prefix="ensue-", delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        shutil.copyfileobj(stream, file, BLOCK_BYTES)
    return file.name
