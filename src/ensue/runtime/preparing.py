"""From a batch of events to what a query's kernel reads: who may take each event, and the values it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.pattern.expressions import Attribute, walk
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


def prepare(assembly: Assembly, batch: EventBatch, schema: Schema, strings: StringTable) -> Prepared:
    """The rows of a batch that concern a query, with each leaf's say and the attribute columns."""
    wanted = np.array([name in assembly.types for name in batch.type_names], dtype=np.bool_)
    strict = assembly.policy == "STRICT"
    if strict:
        chosen = np.arange(len(batch))
    elif len(batch.type_names):
        chosen = np.flatnonzero(wanted[batch.type_codes])
    else:
        chosen = np.empty(0, dtype=np.int64)
    columns = np.empty((at.T_ATTRIBUTES + len(assembly.attributes), len(chosen)), dtype=np.int64)
    if not len(chosen):
        return Prepared(columns, 0)
    columns[at.T_SEQ] = chosen + batch.first if batch.seqs is None else batch.seqs[chosen]
    if len(chosen) < len(batch):
        batch = _take(batch, chosen, assembly)
    columns[at.T_END] = batch.end
    columns[at.T_BEGIN] = batch.begin
    columns[at.T_KEY] = 0
    for k, column in enumerate(assembly.attributes):
        values = evaluate(column.expression, batch, schema, strings)
        if column.is_float and values.dtype != np.float64:
            values = np.where(values == at.NULL, np.nan, values.astype(np.float64))
        columns[at.T_ATTRIBUTES + k] = values.view(np.int64) if column.is_float else values
    accepted = _key(assembly, columns)
    if assembly.intervals and assembly.window is not None:
        accepted &= columns[at.T_END] - columns[at.T_BEGIN] < assembly.window
    codes = batch.type_codes
    mask = np.zeros(len(chosen), dtype=np.int64)
    for bit, leaf in enumerate(assembly.leaves):
        if leaf.type not in batch.type_names:
            continue
        here = accepted & (codes == batch.type_names.index(leaf.type))
        for expression in leaf.filter.expressions:
            here &= evaluate(expression, batch, schema, strings) == 1
        mask |= here.astype(np.int64) << bit
    inside = _in_partition(assembly, columns)
    if strict:
        mask |= inside.astype(np.int64) << at.PRESENT_BIT
    if assembly.count_window is not None:
        mask |= (inside & wanted[codes]).astype(np.int64) << at.COUNTED_BIT
    columns[at.T_MASK] = mask
    useful = mask != 0
    if not useful.all():
        columns = np.ascontiguousarray(columns[:, useful])
    return Prepared(columns, columns.shape[1])


def _take(batch: EventBatch, chosen: npt.NDArray[np.intp], assembly: Assembly) -> EventBatch:
    """The chosen rows of a batch, with just the columns that the query reads."""
    expressions = [c.expression for c in assembly.attributes]
    expressions += [e for leaf in assembly.leaves for e in leaf.filter.expressions]
    names = {n.name for e in expressions for n in walk(e) if isinstance(n, Attribute)}
    table = batch.table.select([name for name in batch.table.column_names if name in names])
    end = batch.end[chosen]
    begin = end if batch.begin is batch.end else batch.begin[chosen]
    rows = table.take(pa.array(chosen)) if table.num_columns else table
    return EventBatch(rows, end, begin, batch.type_codes[chosen], batch.type_names, batch.first)


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
