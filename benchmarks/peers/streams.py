"""Streams as every engine reads them: `type ts price diff k`, in Parquet or CSV, and as plain columns for Java.

A stream comes from a seeded generator or from a file of the user's. Either way it is brought into one form: the types
that queries name are called A, B, C, D, E and N, times are whole milliseconds, rows without a value are left out (so
that no engine has to say what null means), and of events at one time those of type N come last (an engine that takes
events one by one can then tell an N at the time of `b` from one before it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.peers.queries import Query
from ensue.testing.generators import stock_like, traffic_like

ROLES = "ABCDEN"
BY_RATE = "ABCNDE"
"""The order in which a file's types, the most frequent first, take the roles: four types are enough for six queries."""

SYMBOLS = ("A", "B", "C", "D", "E", "N", "X", "Y")
RISE = 1.5
"""By how many standard deviations of B's values a list has to rise at each step: else lists are beyond counting."""

GENERATED = ("stock", "stock-skewed", "traffic")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a user's file are what."""

    type: str = "type"
    ts: str = "ts"
    value: str = "diff"
    key: str = "k"


@dataclass(frozen=True)
class Stream:
    """A stream in the common form."""

    name: str
    path: Path
    table: pa.Table

    @cached_property
    def codes(self) -> npt.NDArray[np.int8]:
        """The role of each event: 0 for A to 5 for N, 6 for types that no query names."""
        found = pc.index_in(self.table["type"].cast(pa.string()), value_set=pa.array(list(ROLES)))
        return pc.fill_null(found, len(ROLES)).to_numpy().astype(np.int8)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many events of each role there are."""
        return {role: int((self.codes == code).sum()) for code, role in enumerate(ROLES)}

    @cached_property
    def ts(self) -> npt.NDArray[np.int64]:
        """The times."""
        return self.table["ts"].to_numpy()

    @property
    def binary(self) -> Path:
        """The columns as the Java peers read them."""
        return self.path.with_suffix(".columns")

    @cached_property
    def has_ties(self) -> bool:
        """Whether two events that a query may name have the same time."""
        named = self.ts[self.codes < len(ROLES)]
        return bool((np.diff(named) == 0).any())

    @cached_property
    def rise(self) -> float:
        """The step of Q4, with two digits that count."""
        values = self.table["diff"].to_numpy()[self.codes == ROLES.index("B")]
        return float(f"{RISE * float(np.std(values)):.2g}") if len(values) else 0.0

    def lacks(self, query: Query) -> str | None:
        """What the stream has not that a query needs."""
        gone = [role for role in query.named if not self.counts[role]]
        if gone:
            return f"the stream has only {sum(map(bool, self.counts.values()))} types"
        if (query.is_keyed or query.has_absence) and "k" not in self.table.column_names:
            return "the stream has no key"
        return None

    def window(self, query: Query, live: int) -> int:
        """The window, in milliseconds, in which `live` events of each type that a query names are on average."""
        span = int(self.ts[-1] - self.ts[0])
        each = sum(self.counts[role] for role in query.named) / len(query.named)
        return max(1, round(live * span / each))


def open_stream(
    name: str,
    events: int,
    folder: Path,
    *,
    form: str = "parquet",
    seed: int = 1,
    columns: Columns | None = None,
    roles: Sequence[str] = (),
) -> Stream:
    """A generated stream by its name, or the file at a path, written to `folder` in the common form and read back."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(name)
    path = folder / f"{source.stem}-{events}-{seed}.{form}"
    if not path.exists() or name not in GENERATED:
        table = (
            generate(name, events, seed)
            if name in GENERATED
            else read_file(source, events, columns or Columns(), roles)
        )
        write(table, path)
    stream = Stream(source.stem, path, read(path))
    if not stream.binary.exists() or stream.binary.stat().st_mtime < path.stat().st_mtime:
        write_columns(stream)
    return stream


def generate(name: str, events: int, seed: int) -> pa.Table:
    """A seeded stream in the common form."""
    match name:
        case "stock":
            table = stock_like(events, seed, symbols=SYMBOLS, gini=0.0, drift=0.0)
        case "stock-skewed":
            table = stock_like(events, seed, symbols=SYMBOLS, gini=0.6, drift=0.15)
        case _:
            table = traffic_like(events, seed, points=len(SYMBOLS))
            table = table.rename_columns(["type", "ts", "diff", "k"])
    if name == "traffic":
        return common_form(table, Columns(), ())
    return set_apart(common_form(table, Columns(), BY_RATE))


def set_apart(table: pa.Table) -> pa.Table:
    """The same events at times that all differ: one that would tie comes a millisecond after the one before it."""
    number = np.arange(len(table))
    ts = np.maximum.accumulate(table["ts"].to_numpy() - number) + number
    return table.set_column(table.column_names.index("ts"), "ts", pa.array(ts))


def read_file(path: Path, events: int, columns: Columns, roles: Sequence[str]) -> pa.Table:
    """The first events of a user's Parquet or CSV file in the common form."""
    table = read(path)
    for name in (columns.type, columns.ts, columns.value):
        if name not in table.column_names:
            raise SystemExit(f"{path} has no column {name}; it has {', '.join(table.column_names)}")
    return common_form(table.slice(0, events), columns, roles)


def common_form(table: pa.Table, columns: Columns, roles: Sequence[str]) -> pa.Table:
    """A table with the columns, the types' names and the order that all engines take."""
    names = {columns.type: "type", columns.ts: "ts", columns.value: "diff", columns.key: "k"}
    kept = {names[name]: table[name] for name in names if name in table.column_names}
    if "price" in table.column_names:
        kept["price"] = table["price"].cast(pa.float64())
    if not pa.types.is_integer(kept["ts"].type):
        kept["ts"] = pc.cast(kept["ts"], pa.timestamp("ms"), safe=False).cast(pa.int64())
    kept["ts"] = kept["ts"].cast(pa.int64())
    kept["diff"] = kept["diff"].cast(pa.float64())
    if "k" in kept and not pa.types.is_integer(kept["k"].type):
        kept["k"] = kept["k"].combine_chunks().dictionary_encode().indices
    if "k" in kept:
        kept["k"] = kept["k"].cast(pa.int64())
    kept["type"] = rename_types(kept["type"].cast(pa.string()), roles)
    plain = pa.table(kept).drop_null()
    is_last = pc.equal(plain["type"], "N").cast(pa.int8())
    order = pc.sort_indices(
        plain.append_column("last", is_last).append_column("place", pa.array(np.arange(len(plain)))),
        sort_keys=[("ts", "ascending"), ("last", "ascending"), ("place", "ascending")],
    )
    return plain.take(order)


def rename_types(types: pa.ChunkedArray, roles: Sequence[str]) -> pa.ChunkedArray:
    """Types under the names of their roles; those without one keep theirs, with an `x` before it.

    >>> rename_types(pa.chunked_array([["u", "v", "v", "w", "A"]]), ["w", "v"]).to_pylist()
    ['xu', 'B', 'B', 'A', 'xA']
    """
    if not roles:
        counted = sorted(types.value_counts().to_pylist(), key=lambda row: (-row["counts"], row["values"]))
        roles = [row["values"] for row in counted]
    role_of = dict(zip(roles, BY_RATE, strict=False))
    values = types.combine_chunks().dictionary_encode()
    named = [role_of.get(name, f"x{name}") for name in values.dictionary.to_pylist()]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(values.indices, pa.array(named)).cast(pa.string())])


def write(table: pa.Table, path: Path) -> None:
    """Write a stream in the form that the file's name says."""
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def read(path: Path) -> pa.Table:
    """Read a stream, the type as a dictionary."""
    table = pa.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    if "type" in table.column_names:
        place = table.column_names.index("type")
        kind = table["type"].combine_chunks()
        table = table.set_column(place, "type", kind if pa.types.is_dictionary(kind.type) else kind.dictionary_encode())
    return table.combine_chunks()


def write_columns(stream: Stream) -> None:
    """Write the columns for Java: how many there are, then ts, diff, k, all of 8 bytes, and the roles, of one."""
    table = stream.table
    key = table["k"].to_numpy() if "k" in table.column_names else np.zeros(len(table), np.int64)
    with stream.binary.open("wb") as file:
        for part in (np.array([len(table)], np.int64), stream.ts, table["diff"].to_numpy(), key, stream.codes):
            file.write(part.astype(part.dtype.newbyteorder("<")).tobytes())
