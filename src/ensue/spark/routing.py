"""Which rows go where, as Spark expressions: what can be read, what matters, keys, times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ensue.errors import InternalError
from ensue.events.schema import Schema
from ensue.events.times import NULL
from ensue.pattern.query import Policy, Query
from ensue.planning.relevance import needed_columns, relevant_events
from ensue.planning.rule_programs import plan_program
from ensue.planning.rule_spread import find_rule_spread
from ensue.planning.spread import Key, Spread, find_spread
from ensue.rules.check import widen_schema
from ensue.rules.program import Program
from ensue.spark.pushdown import relevance_filter


@dataclass(frozen=True)
class Group:
    """Queries whose events travel together: by the same key, or all to one place, or in slices of time.

    `window` and `looks_back` say how far slices must overlap (None: they cannot be made). `types` are the event types
    of a program with rules, all of whose events matter; None where the queries say it.
    """

    queries: tuple[Query, ...]
    key: Key | None
    window: int | None
    looks_back: bool
    is_ordered: bool
    types: tuple[str, ...] | None = None

    def __str__(self) -> str:
        names = ", ".join(query.name or "" for query in self.queries)
        return f"{names}: {Spread(self.key, self.window, self.looks_back, self.is_ordered)}"


def group_queries(queries: Sequence[Query], schema: Schema, *, apart: bool = True) -> list[Group]:
    """Queries grouped by how their events may be spread; all in one group if they may not be taken `apart`."""
    groups: dict[object, Group] = {}
    for query in queries:
        spread = find_spread(query, schema)
        key = spread.key if apart or len(queries) == 1 else None
        name = key if key is not None else ("slices" if spread.window is not None and apart else "one place")
        group = Group((query,), key, spread.window, spread.looks_back, spread.is_ordered)
        known = groups.get(name)
        if known is not None:
            bounded = known.window is not None and group.window is not None
            group = replace(
                group,
                queries=known.queries + group.queries,
                window=max(known.window or 0, group.window or 0) if bounded else None,
                looks_back=known.looks_back or group.looks_back,
                is_ordered=known.is_ordered or group.is_ordered,
            )
        groups[name] = group
    return list(groups.values())


def group_program(program: Program, schema: Schema) -> Group:
    """A program with rules as one group: what rules derive may be read by others."""
    signatures, plans = plan_program(program, schema)
    wide = widen_schema(schema, program, signatures)
    assert wide is not None
    spread = find_rule_spread(program, plans, schema, wide)
    strict = any(query.policy is Policy.STRICT for query in program.queries)  # then events of all types count
    types = None if strict else program.inputs
    return Group(program.queries, spread.key, spread.window, spread.looks_back, spread.is_ordered, types)


@dataclass(frozen=True)
class Rows:
    """The columns that are carried along, as expressions. All are cheap: Spark evaluates them for every row."""

    fields: T.StructType
    schema: Schema

    def is_unreadable(self) -> Column:
        """Whether a row is rejected by the engine, with the reason, as far as Spark can tell (not of times as text)."""
        ts = F.col(quote(self.schema.time))
        unreadable = F.col(quote(self.schema.type)).isNull() | ts.isNull()
        if self.schema.begin is not None:
            begin = F.col(quote(self.schema.begin))
            unreadable = unreadable | begin.isNull()
            if self.is_timed:
                unreadable = unreadable | (begin > ts)
        for field in self.fields:
            if isinstance(field.dataType, T.LongType):  # the engine's null
                unreadable = unreadable | F.col(quote(field.name)).eqNullSafe(F.lit(NULL))
        return unreadable

    def is_relevant(self, group: Group) -> Column:
        """Whether a row can matter to a group; rows that cannot be read may count as such or not."""
        if group.types is not None:
            condition = F.col(quote(self.schema.type)).cast("string").isin(list(group.types))
        else:
            alternatives = relevant_events(group.queries)
            roles = (self.schema.type, self.schema.time, self.schema.begin)
            found = relevance_filter(self.fields, alternatives, *roles)
            condition = F.lit(True) if found is None else found
        if group.key is not None and not group.key.null_matches:
            condition = condition & self.key_hash(group.key).isNotNull()
        return condition

    def key_hash(self, key: Key) -> Column:
        """64 bits of a key; where a part of it is null they are null, or 0 if such a row may matter."""
        found = self._hash(key.every) if key.every else self._hash_by_type(key)
        return F.coalesce(found, F.lit(0).cast("long")) if key.null_matches else found

    def _hash_by_type(self, key: Key) -> Column:
        kinds = F.col(quote(self.schema.type)).cast("string")
        chosen: Column | None = None
        for kind, names in key.by_type:
            value = self._hash(names)
            chosen = F.when(kinds == kind, value) if chosen is None else chosen.when(kinds == kind, value)
        assert chosen is not None
        return chosen

    def _hash(self, names: Sequence[str]) -> Column:
        columns = []
        for name in names:
            column = F.col(quote(name))
            columns.append(column.cast("long") if isinstance(self.fields[name].dataType, T.IntegralType) else column)
        there = columns[0].isNotNull()
        for column in columns[1:]:
            there = there & column.isNotNull()
        return F.when(there, F.xxhash64(*columns))

    @property
    def is_timed(self) -> bool:
        """Whether Spark can tell the time of a row: text is left to the engine, which reads it in its own way."""
        kinds = [self.fields[self.schema.time].dataType]
        kinds += [self.fields[self.schema.begin].dataType] if self.schema.begin is not None else []
        native = (T.IntegralType, T.TimestampType, T.TimestampNTZType, T.DateType)
        return all(isinstance(kind, native) for kind in kinds)

    def end(self) -> Column:
        """The end of an event in the engine's units."""
        field = self.fields[self.schema.time]
        if isinstance(field.dataType, T.IntegralType):
            return F.col(quote(field.name)).cast("long")
        return F.expr(microseconds(field))


def carried_columns(columns: T.StructType, schema: Schema, queries: Sequence[Query]) -> T.StructType:
    """The columns that the results of queries need, in the input's order."""
    needed: set[str] = set()
    for query in queries:
        names = needed_columns(query, schema)
        if names is None:
            return columns
        needed.update(names)
    return T.StructType([field for field in columns if field.name in needed])


def microseconds(column: T.StructField) -> str:
    """The microseconds since 1970 of a column of times, as SQL; times without a zone are taken as UTC."""
    name = quote(column.name)
    match column.dataType:
        case T.TimestampType():
            return f"unix_micros({name})"
        case T.TimestampNTZType():
            return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {name})"
        case T.DateType():
            return f"unix_date({name}) * 86400000000L"
        case kind:
            raise InternalError(f"column {name} is {kind.simpleString()}, which is no time")


def quote(name: str) -> str:
    """A column's name as Spark reads it literally."""
    return "`" + name.replace("`", "``") + "`"
