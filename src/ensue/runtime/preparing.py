"""From a batch of events to what a query's kernel reads: who may take each event, and the values it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.pattern.expressions import Attribute, Expression, walk
from ensue.runtime import layout as at
from ensue.runtime.assembly import Assembly
from ensue.runtime.columns import evaluate
from ensue.runtime.strings import StringTable

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows for a kernel: `columns` by row, as the trigger's row is laid out."""

    columns: Int64s
    rows: int


class Reading:
    """A batch as the queries of an engine read it: what several of them need is worked out once."""

    def __init__(self, batch: EventBatch, schema: Schema, strings: StringTable) -> None:
        self.batch = batch
        self.schema = schema
        self.strings = strings
        self._selections: dict[frozenset[str] | None, Selection] = {}

    def of(self, types: frozenset[str] | None) -> Selection:
        """The events of some types; None for all."""
        found = self._selections.get(types)
        if found is None:
            found = self._selections[types] = Selection(self, types)
        return found


class Selection:
    """The events of some types in a batch, and the values of expressions over them."""

    def __init__(self, reading: Reading, types: frozenset[str] | None) -> None:
        batch = reading.batch
        self._reading = reading
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._values: dict[Expression, npt.NDArray[Any]] = {}
        if types is None or not len(batch.type_names):
            self.rows = np.arange(len(batch))
        else:
            wanted = np.array([name in types for name in batch.type_names], dtype=np.bool_)
            self.rows = np.flatnonzero(wanted.take(batch.type_codes))
        self._is_all = len(self.rows) == len(batch)
        self.end = batch.end if self._is_all else batch.end[self.rows]
        is_point = batch.begin is batch.end
        self.begin = self.end if is_point else batch.begin if self._is_all else batch.begin[self.rows]
        self.codes = batch.type_codes if self._is_all else batch.type_codes[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def seqs(self) -> Int64s:
        """The numbers of the events."""
        batch = self._reading.batch
        return self.rows + batch.first if batch.seqs is None else batch.seqs[self.rows]

    def values(self, expression: Expression) -> npt.NDArray[Any]:
        """The value of an expression for each event, as `evaluate` gives it; not to be written to."""
        found = self._values.get(expression)
        if found is None:
            reading = self._reading
            batch = EventBatch(self._table(expression), self.end, self.begin, self.codes, reading.batch.type_names, 0)
            found = self._values[expression] = evaluate(expression, batch, reading.schema, reading.strings)
        return found

    def _table(self, expression: Expression) -> pa.Table:
        """The columns that an expression names."""
        whole = self._reading.batch.table
        names = [node.name for node in walk(expression) if isinstance(node, Attribute)]
        known = set(whole.column_names)
        columns = {name: self._column(name, whole) for name in names if name in known}
        return pa.table(columns)

    def _column(self, name: str, whole: pa.Table) -> pa.ChunkedArray:
        found = self._columns.get(name)
        if found is None:
            column = whole.column(name)
            found = self._columns[name] = column if self._is_all else column.take(pa.array(self.rows))
        return found


def prepare(assembly: Assembly, reading: Reading) -> Prepared:
    """The rows of a batch that concern a query, with each leaf's say and the attribute columns."""
    strict = assembly.policy == "STRICT"
    chosen = reading.of(None if strict else frozenset(assembly.types))
    columns = np.empty((at.T_ATTRIBUTES + len(assembly.attributes), len(chosen)), dtype=np.int64)
    if not len(chosen):
        return Prepared(columns, 0)
    columns[at.T_SEQ] = chosen.seqs
    columns[at.T_END] = chosen.end
    columns[at.T_BEGIN] = chosen.begin
    columns[at.T_KEY] = 0
    for k, column in enumerate(assembly.attributes):
        values = chosen.values(column.expression)
        if column.is_float and values.dtype != np.float64:
            values = np.where(values == at.NULL, np.nan, values.astype(np.float64))
        columns[at.T_ATTRIBUTES + k] = values.view(np.int64) if column.is_float else values
    accepted = _key(assembly, columns)
    if assembly.intervals and assembly.window is not None:
        accepted &= columns[at.T_END] - columns[at.T_BEGIN] < assembly.window
    names = reading.batch.type_names
    plain = np.zeros(len(names), dtype=np.int64)  # what an event's type alone decides
    mask = np.zeros(len(chosen), dtype=np.int64)
    for bit, leaf in enumerate(assembly.leaves):
        if leaf.type not in names:
            continue
        code = names.index(leaf.type)
        if not leaf.filter.expressions:
            plain[code] |= 1 << bit
            continue
        here = accepted & (chosen.codes == code)
        for expression in leaf.filter.expressions:
            here &= chosen.values(expression) == 1
        mask |= here.astype(np.int64) << bit
    if plain.any():
        mask |= np.where(accepted, plain[chosen.codes], 0)
    inside = _in_partition(assembly, columns)
    if strict:
        mask |= inside.astype(np.int64) << at.PRESENT_BIT
    if assembly.count_window is not None:
        wanted = np.array([name in assembly.types for name in names], dtype=np.bool_)
        mask |= (inside & wanted[chosen.codes]).astype(np.int64) << at.COUNTED_BIT
    columns[at.T_MASK] = mask
    useful = mask != 0
    if not useful.all():
        columns = np.ascontiguousarray(columns[:, useful])
    return Prepared(columns, columns.shape[1])


def _in_partition(assembly: Assembly, columns: Int64s) -> npt.NDArray[np.bool_]:
    """Which rows have a whole partition key."""
    inside = np.ones(columns.shape[1], dtype=np.bool_)
    for k, column in enumerate(assembly.partition):
        bits = columns[at.T_ATTRIBUTES + k]
        inside &= ~np.isnan(bits.view(np.float64)) if column.is_float else bits != at.NULL
    return inside


def _key(assembly: Assembly, columns: Int64s) -> npt.NDArray[np.bool_]:
    """Fill the partition key: the attribute itself, or a hash of several; which rows have one."""
    for k, column in enumerate(assembly.partition):
        bits = columns[at.T_ATTRIBUTES + k]
        if column.is_float:
            bits[:] = (bits.view(np.float64) + 0.0).view(np.int64)  # -0.0 and 0.0 are one key
    if len(assembly.partition) == 1:
        columns[at.T_KEY] = columns[at.T_ATTRIBUTES]
    elif assembly.partition:
        key = np.zeros(columns.shape[1], dtype=np.uint64)
        for k in range(len(assembly.partition)):
            key = (key ^ columns[at.T_ATTRIBUTES + k].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        key >>= np.uint64(1)  # never NULL
        columns[at.T_KEY] = key.view(np.int64)
    return _in_partition(assembly, columns)
