"""Rows that take no part (late, rejected), kept with the reason until someone asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ensue.events.readers import to_json


class Aside:
    """Rows set aside. At most `limit` are kept, the newest; `dropped` counts the others."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.limit = limit
        self.dropped = 0
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, rows: pa.Table, reasons: Sequence[str]) -> None:
        """Set rows aside, each with its reason."""
        name = "reason"
        while name in rows.column_names:
            name = f"_{name}"
        self.restore(rows.append_column(name, pa.array(reasons, pa.string())))

    def restore(self, table: pa.Table) -> None:
        """Set rows aside that have their reasons already."""
        self._tables.append(table)
        self._rows += table.num_rows
        while self._rows > self.limit:
            excess = self._rows - self.limit
            oldest = self._tables[0]
            if oldest.num_rows <= excess:
                del self._tables[0]
            else:
                self._tables[0] = oldest.slice(excess)
            lost = min(excess, oldest.num_rows)
            self._rows -= lost
            self.dropped += lost

    def peek(self) -> pa.Table | None:
        """All rows set aside, as one table; None if there are none."""
        if not self._tables:
            return None
        self._tables = [join_tables(self._tables)]
        return self._tables[0]

    def take(self) -> pa.Table | None:
        """All rows set aside since the last call, as one table; None if there are none."""
        table = self.peek()
        self._tables, self._rows = [], 0
        return table


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables one after the other; a column that has another type in another table becomes JSON text in all."""
    kinds: dict[str, pa.DataType] = {}
    mixed: set[str] = set()
    for table in tables:
        for field in table.schema:
            known = kinds.setdefault(field.name, field.type)
            if pa.types.is_null(known):
                kinds[field.name] = field.type
            elif known != field.type and not pa.types.is_null(field.type):
                mixed.add(field.name)
    fields = [pa.field(name, pa.string() if name in mixed else kind) for name, kind in kinds.items()]
    rows = []
    for table in tables:
        columns = []
        for field in fields:
            if field.name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, field.type))
            elif field.name in mixed and table.schema.field(field.name).type != pa.string():
                columns.append(pa.array([to_json(v) for v in _values(table[field.name])], pa.string()))
            else:
                columns.append(table[field.name].cast(field.type))
        rows.append(pa.table(columns, schema=pa.schema(fields)))
    return pa.concat_tables(rows)


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):  # a timestamp beyond what Python's datetime holds
        return list(column.cast(pa.int64()).to_pylist())
