"""Matches and rows set aside in the forms that sinks write: JSON objects, flat columns, plain columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ensue.events.json_text import to_json
from ensue.rules.check import check_program
from ensue.rules.signatures import RESULT_COLUMNS
from ensue.runtime.matches import HEAD
from ensue.runtime.results import name_return
from ensue.spark.columns import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ensue.pattern.query import Query
    from ensue.rules.program import Program

_JSON_OPTIONS = {"ignoreNullFields": "false"}


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Which columns of a result belong to a query, and where they stand in the object of a match."""

    partitioned: bool
    returns: bool
    own: tuple[str, ...]

    @classmethod
    def of(cls, query: Query, key: str | None = None) -> ObjectShape:
        """The shape of a query's matches; `key` partitions them as PARTITION BY does."""
        if query.returns:
            own = tuple(name_return(item, place) for place, item in enumerate(query.returns, 1))
        else:
            own = tuple(dict.fromkeys(item.variable for item in query.items if not item.negated))
        return cls(bool(query.partition_by or key), bool(query.returns), own)

    def make(self, row: dict[str, Any]) -> dict[str, Any]:
        """The object of a match, as `Matches.to_pylist` has it."""
        made = {name: row[name] for name in HEAD}
        if self.partitioned:
            made["partition"] = row["partition"]
        values = {name: row[name] for name in self.own}
        return made | values if self.returns else made | {"events": values}


def match_objects(matches: DataFrame, program: Program, key: str | None = None) -> DataFrame:
    """Matches as JSON: the columns `match_id` and `value`, an object of the form that the in-process engine gives.

    Derived events have no `match_id`.
    """
    shapes = {query.name: ObjectShape.of(query, key) for query in program.queries}
    derived = {
        name: (*RESULT_COLUMNS, *signature)
        for name, signature in (check_program(program) if program.rules else {}).items()
    }

    def describe(row: dict[str, Any]) -> dict[str, Any]:
        if row.get("rule") is not None:
            return {name: row[name] for name in derived[row["rule"]]}
        return shapes[row["query"]].make(row)

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = [to_json(describe(row)) for row in batch.to_pylist()]
            identified = "match_id" in batch.schema.names
            numbers = batch.column("match_id") if identified else pa.nulls(len(texts), pa.string())
            yield pa.record_batch({"match_id": numbers, "value": pa.array(texts, pa.string())})

    return matches.mapInArrow(make, "match_id string, value string")


def row_objects(rows: DataFrame) -> DataFrame:
    """Any rows as JSON, in the column `value`."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"value": pa.array([to_json(row) for row in batch.to_pylist()], pa.string())})

    return rows.mapInArrow(make, "value string")


def flatten(rows: DataFrame) -> DataFrame:
    """The rows without structs (their fields are columns `a.x`) and without lists (JSON text), for CSV."""
    columns: list[Column] = []
    for field in rows.schema:
        columns += _flat(F.col(quote(field.name)), field.name, field.dataType)
    return rows.select(*columns)


def _flat(column: Column, name: str, kind: DataType) -> Iterator[Column]:
    if isinstance(kind, StructType):
        for field in kind:
            yield from _flat(column.getField(field.name), f"{name}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType | MapType):
        yield F.to_json(column, _JSON_OPTIONS).alias(name)
    else:
        yield column.alias(name)


def with_plain_columns(rows: DataFrame) -> DataFrame:
    """The same columns, those of structs and lists as JSON text, for tables of databases."""
    nested = [field.name for field in rows.schema if isinstance(field.dataType, StructType | ArrayType | MapType)]
    return rows.withColumns({name: F.to_json(F.col(quote(name)), _JSON_OPTIONS) for name in nested})


def drop_field(rows: DataFrame, name: str) -> DataFrame:
    """The rows without the field `name` of the events in them, be they structs or lists of structs."""
    changed: dict[str, Column] = {}
    for field in rows.schema:
        column = F.col(quote(field.name))
        match field.dataType:
            case StructType() as kind if name in kind.names:
                changed[field.name] = column.dropFields(name)
            case ArrayType(elementType=StructType() as kind) if name in kind.names:
                changed[field.name] = F.transform(column, lambda event: event.dropFields(name))
            case _:
                pass
    return rows.withColumns(changed) if changed else rows
