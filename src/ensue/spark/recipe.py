"""What is sent to workers: enough to make an engine there, and the columns that come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.query import Query
from ensue.rules.program import Program, Statement
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.engine import Engine
from ensue.runtime.making import make_engine
from ensue.runtime.matches import Matches, conform
from ensue.runtime.rule_engine import RuleEngine


@dataclass(frozen=True)
class Recipe:
    """How a worker makes its engine: the queries, and what the columns of events are. `lateness` is in their units.

    `rules` are the declarations and rules beside the queries; on a stream they must not keep events for ever.
    """

    queries: tuple[Query, ...]
    layout: pa.Schema
    type: str
    ts: str
    begin: str | None
    unit: str
    lateness: int
    strict: bool
    options: Options
    rules: tuple[Statement, ...] = ()
    is_stream: bool = False
    adapt: Adaptation | None = None

    def make_engine(self) -> Engine | RuleEngine:
        """An engine that has not seen the columns yet: for `restore`, or `bind`."""
        engine = make_engine(
            Program((*self.rules, *self.queries)),
            is_stream=self.is_stream,
            type=self.type,
            ts=self.ts,
            begin=self.begin,
            unit=self.unit,
            lateness=self.lateness,
            strict=self.strict,
            options=self.options,
            adapt=self.adapt,
        )
        engine.take_journal()  # all of it from now on
        return engine

    def bind(self, engine: Engine | RuleEngine) -> Matches:
        """Tell an engine the columns; what it gives back is empty, and has the columns of its results."""
        return engine.push(self.layout.empty_table())

    @property
    def schema(self) -> Schema:
        """The columns of events, as the engine takes them."""
        engine = self.make_engine()
        self.bind(engine)
        assert engine.schema is not None
        return engine.schema


@dataclass(frozen=True)
class Shape:
    """The columns of a worker's output rows: `kind`, `reason`, `event` and `match`, of which one is set."""

    event: pa.StructType
    match: pa.StructType

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        fields = [("kind", pa.string()), ("reason", pa.string()), ("event", self.event), ("match", self.match)]
        return pa.schema(fields)

    def matches(self, table: pa.Table) -> list[pa.RecordBatch]:
        """Matches as output rows."""
        return self._rows("match", None, None, _structs(table, self.match))

    def aside(self, kind: str, table: pa.Table, reasons: Sequence[str] | pa.Array) -> list[pa.RecordBatch]:
        """Rows that take no part as output rows."""
        return self._rows(kind, reasons, _structs(table, self.event), None)

    def notes(self, kind: str, reasons: Sequence[str] | pa.Array) -> list[pa.RecordBatch]:
        """Output rows that are neither events nor matches."""
        return self._rows(kind, reasons, None, None)

    def _rows(
        self,
        kind: str,
        reasons: Sequence[str] | pa.Array | None,
        events: pa.Array | None,
        matches: pa.Array | None,
    ) -> list[pa.RecordBatch]:
        count = next(len(part) for part in (matches, events, reasons) if part is not None)
        if not count:
            return []
        columns = [
            pa.repeat(pa.scalar(kind), count),
            pa.nulls(count, pa.string()) if reasons is None else pa.array(reasons, pa.string()),
            pa.nulls(count, self.event) if events is None else events,
            pa.nulls(count, self.match) if matches is None else matches,
        ]
        return [pa.record_batch(columns, schema=self.schema)]


def _structs(table: pa.Table, kind: pa.StructType) -> pa.Array:
    """The rows of a table as structs of a type; columns that it lacks are null."""
    names = set(table.column_names)
    parts = []
    for field in kind:
        column = table.column(field.name).combine_chunks() if field.name in names else None
        parts.append(conform(column, field.type, table.num_rows))
    return pa.StructArray.from_arrays(parts, fields=list(kind))


def plain_types(kind: pa.DataType) -> pa.DataType:
    """A type that every sink can write: what has no values becomes text."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_types(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(plain_types(kind.value_type))
    return kind
