"""Derived events beside the others, as pattern queries read them: one stream in the order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ensue.errors import PlanError
from ensue.events.batch import EventBatch, plain_text
from ensue.events.casting import arrow_type
from ensue.events.schema import DType, Schema
from ensue.rules.check import widen_schema
from ensue.rules.program import Program
from ensue.rules.signatures import Signature
from ensue.runtime.bits import Int64s
from ensue.runtime.derived import make_attributes
from ensue.runtime.results import make_times
from ensue.runtime.rule_runner import Derived
from ensue.runtime.strings import StringTable

BEGIN = "begin"
"""The column of begins that the merged stream has where events are points; derived events last."""


def merged_schema(schema: Schema, program: Program, signatures: Mapping[str, Signature]) -> Schema:
    """The columns of events and derived events together."""
    wide = widen_schema(schema, program, signatures)
    assert wide is not None
    time = schema.columns[schema.time]
    if time is DType.STRING:
        raise PlanError(
            f"patterns over derived events need times as numbers or timestamps; the column `{schema.time}` holds text"
        )
    if schema.begin is not None:
        return wide
    if BEGIN in schema.columns:
        raise PlanError(
            f"the events have a column `{BEGIN}`, which patterns over derived events need for the begin of these; "
            f"tell that it is one (begin='{BEGIN}'), or rename it"
        )
    return replace(wide, columns={**wide.columns, BEGIN: time}, begin=BEGIN)


class Merger:
    """Puts events and derived events into one table in the order of time, derived ones after the others of a moment.

    With `holds` it gives only what lies before the time that is reached: later pushes may still bring events of that
    moment, which would have to stand elsewhere.
    """

    def __init__(self, schema: Schema, wide: Schema, layout: pa.Schema, strings: StringTable, *, holds: bool) -> None:
        self.wide, self._strings, self.holds = wide, strings, holds
        self._schema = schema
        times = layout.field(schema.time).type
        fields = {field.name: _plain(field.type) for field in layout}
        for name, dtype in wide.columns.items():
            fields.setdefault(name, times if name == wide.begin else arrow_type(dtype))
        self.layout = pa.schema(list(fields.items()))
        self.held = self.layout.empty_table()
        self._held_ends: Int64s = np.empty(0, dtype=np.int64)

    def merge(
        self, batch: EventBatch, derived: Sequence[Derived], columns: Mapping[str, Mapping[str, DType]], now: int | None
    ) -> pa.Table:
        """The events that can be handed on now, in order (`now` None: all)."""
        ignored = [name for name in batch.type_names if name in columns]  # only rules say what is derived
        tables, ends = [self.held], [self._held_ends]
        if len(batch):
            table, end = self._read(batch, ignored)
            tables.append(table)
            ends.append(end)
        for part in derived:
            rows = self._sorted(part.rows, columns[part.type])
            tables.append(self._derived(part.type, rows, columns[part.type]))
            ends.append(rows[:, 0])
        whole, end = pa.concat_tables(tables), np.concatenate(ends)
        order = np.argsort(end, kind="stable")
        count = len(end) if now is None or not self.holds else int((end < now).sum())
        self.held = whole.take(pa.array(order[count:]))
        self._held_ends = end[order[count:]]
        return whole.take(pa.array(order[:count]))

    def _read(self, batch: EventBatch, ignored: Sequence[str]) -> tuple[pa.Table, Int64s]:
        keep = ~np.isin(batch.type_codes, [batch.type_names.index(name) for name in ignored])
        table = plain_text(batch.table)
        begin = self.wide.begin
        if begin is not None and begin not in table.column_names:
            table = table.append_column(begin, table.column(self._schema.time))
        table = self._fit(table)
        return (table, batch.end) if keep.all() else (table.filter(pa.array(keep)), batch.end[keep])

    def _fit(self, table: pa.Table) -> pa.Table:
        names = set(table.column_names)
        columns = [
            table.column(f.name).cast(f.type) if f.name in names else pa.nulls(table.num_rows, f.type)
            for f in self.layout
        ]
        return pa.table(columns, schema=self.layout)

    def _sorted(self, rows: Int64s, columns: Mapping[str, DType]) -> Int64s:
        """In an order that does not depend on how the input was cut: by end, begin, attributes."""
        if not self.holds or len(rows) < 2:
            return rows
        keys = {"end": rows[:, 0], "begin": rows[:, 1], **make_attributes(rows, columns, self._strings)}
        order = pa.table(keys).select(["end", "begin", *columns])
        places = pc.sort_indices(order, sort_keys=[(name, "ascending") for name in order.column_names])
        ordered: Int64s = rows[places.to_numpy()]
        return ordered

    def _derived(self, name: str, rows: Int64s, columns: Mapping[str, DType]) -> pa.Table:
        times = self.layout.field(self.wide.time).type
        values = make_attributes(rows, columns, self._strings)
        values[self.wide.time] = make_times(rows[:, 0], times)
        assert self.wide.begin is not None
        values[self.wide.begin] = make_times(rows[:, 1], times)
        label = pa.array([name]).cast(self.layout.field(self.wide.type).type)
        values[self.wide.type] = label.take(pa.array(np.zeros(len(rows), dtype=np.int64)))
        return self._fit(pa.table(values))

    def restore(self, held: pa.Table, ends: Int64s) -> None:
        """Hold what `held` and `held_ends` of another one were."""
        self.held, self._held_ends = held, ends

    @property
    def held_ends(self) -> Int64s:
        """The ends of the events that are held."""
        return self._held_ends


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
