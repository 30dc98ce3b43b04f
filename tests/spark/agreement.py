"""Many cases in one run on Spark: each keeps its meaning, since no event type, name or column is shared by accident.

A run on Spark costs seconds and a case is tiny, so cases are put together: event types and queries get the case's
number, variables and RETURN columns names that cannot clash. USING STRICT, which counts events of all types, gets a
PARTITION BY of the case's number. What is expected is worked out case by case, by the oracle and by the engine
in-process, which tells the identities of the oracle's matches.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import Aggregate, Attribute, Expression, rewrite
from ensue.pattern.query import And, Item, Or, Pattern, Policy, Query, Seq, Unbounded
from ensue.runtime.engine import Engine
from ensue.spark import detect_with_aside
from ensue.testing.harness import assert_same
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.values import read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE, PLACE = "case", "place"
END_OF_TIME = "__end"
"""The type of an event that no query names: it comes last, and time has passed for all that waits."""

_ARROW = {
    DType.BOOL: pa.bool_(),
    DType.INT: pa.int64(),
    DType.FLOAT: pa.float64(),
    DType.STRING: pa.string(),
    DType.TIMESTAMP: pa.timestamp("us", "UTC"),
}
_FAR = 10**13
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One case, made fit to be run together with others."""

    title: str
    query: Query
    events: tuple[Row, ...]
    schema: Schema

    @cached_property
    def order(self) -> list[int]:
        """The places of the events that can be read, in the order of time."""
        return [event.position for event in read_events(self.events, self.schema)]

    def expected(self, *, stream: bool) -> list[Row]:
        """The matches that the oracle finds, as rows; on a stream those that are known before the input ends."""
        wanted = find_matches(self.events, self.query, self.schema)
        assert_same(self._located(), wanted, query=self.query, events=self.events)
        alone = Bundle((self,))
        found = Engine(self.query, **alone.roles).push_sorted(alone.table(self.events))
        rows = found.to_arrow().to_pylist()
        assert len({row["match_id"] for row in rows}) == len(rows) == len(wanted), self.title
        return [row for row in rows if not stream or row["detected_at"] is not None]

    def _located(self) -> list[OracleMatch]:
        """The matches that the engine finds in-process, by the places of their events."""
        schema = replace(self.schema, columns={**self.schema.columns, PLACE: DType.INT})
        events = [{**event, PLACE: place} for place, event in enumerate(self.events)]
        found = []
        for row in Engine(replace(self.query, returns=()), schema).push_sorted(events):
            assignment = {name: _places(bound) for name, bound in row["events"].items()}
            times = (_time(row[name]) for name in ("begin", "end", "detected_at"))
            found.append(OracleMatch(*times, assignment))
        return found


def make_part(
    number: int, title: str, query: Query, events: Sequence[Mapping[str, Any]], schema: Schema, *, alone: bool = False
) -> Part:
    """A case with names of its own, and a window where it has none: streams need one.

    With `alone` it is for a run without others, and a STRICT one stays as it is.
    """
    strict = query.policy is Policy.STRICT and not alone
    names: dict[str, str] = {}
    for item in query.items:
        kind = "one" if item.quantifier is None else "list"
        names[item.variable] = f"{kind}{sum(name.startswith(kind) for name in names.values())}"
    returns = tuple(
        replace(ret, expression=_rename(ret.expression, names), name=f"{ret.name or 'column'}_{number}_{place}")
        for place, ret in enumerate(query.returns)
    )
    changed = replace(
        query,
        name=f"case{number}",
        pattern=_rename_items(query.pattern, names, number),
        where=None if query.where is None else _rename(query.where, names),
        returns=returns,
        within=query.within or Unbounded(),
        partition_by=(CASE, *query.partition_by) if strict else query.partition_by,
    )
    rows = []
    for event in events:
        kind = event[schema.type]
        row = {**event, schema.type: None if kind is None else f"{kind}_{number}"}
        rows.append({**row, CASE: number} if strict else row)
    columns = {**schema.columns, CASE: DType.INT} if strict else schema.columns
    return Part(f"{title}\n{query}", changed, tuple(rows), replace(schema, columns=columns))


def _rename(expression: Expression, names: Mapping[str, str]) -> Expression:
    def leaf(node: Attribute | Aggregate) -> Expression:
        return replace(node, variable=names[node.variable])

    return rewrite(expression, leaf)


def _rename_items(pattern: Pattern, names: Mapping[str, str], number: int) -> Pattern:
    match pattern:
        case Item(type=kind, variable=variable):
            return replace(pattern, type=f"{kind}_{number}", variable=names[variable])
        case Seq(items=parts) | And(items=parts) | Or(items=parts):
            return replace(pattern, items=tuple(_rename_items(part, names, number) for part in parts))


@dataclass(frozen=True)
class Bundle:
    """Cases that are run together: their columns have the same roles and types."""

    parts: tuple[Part, ...]

    @cached_property
    def schema(self) -> Schema:
        """The columns of all cases."""
        columns: dict[str, DType] = {}
        for part in self.parts:
            columns |= part.schema.columns
        return replace(self.parts[0].schema, columns=columns)

    @property
    def roles(self) -> dict[str, Any]:
        """How `detect` is told of the columns."""
        schema = self.schema
        return {"type": schema.type, "ts": schema.time, "begin": schema.begin, "unit": schema.unit.value}

    @property
    def queries(self) -> list[Query]:
        """The queries of all cases."""
        return [part.query for part in self.parts]

    def unreadable(self) -> int:
        """How many rows must be rejected."""
        return sum(len(part.events) - len(part.order) for part in self.parts)

    def table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Rows as a table with the columns of all cases."""
        rows = list(rows)
        columns = {
            name: pa.array([_cell(row.get(name), dtype) for row in rows], _ARROW[dtype])
            for name, dtype in self.schema.columns.items()
        }
        return pa.table(columns)

    def in_order(self) -> list[Row]:
        """The events of all cases: those that cannot be read first, then by time; ties in the order of their case."""
        unreadable, timed = [], []
        for part in self.parts:
            unreadable += [row for place, row in enumerate(part.events) if place not in part.order]
            ends = {event.position: event.end for event in read_events(part.events, part.schema)}
            timed += [(ends[place], part.events[place]) for place in part.order]
        return [*unreadable, *(row for _, row in sorted(timed, key=lambda pair: pair[0]))]

    def shuffled(self, rng: random.Random, lateness: int) -> list[Row]:
        """The events in an order of arrival in which none is late; those of one time come in their order."""
        rows = self.in_order()
        first = self.unreadable()
        by_time: dict[Any, list[Row]] = defaultdict(list)
        for row in rows[first:]:
            by_time[row[self.schema.time]].append(row)
        arrivals = [
            (time + delay, row)
            for time, own in by_time.items()
            for row, delay in zip(own, sorted(rng.randint(0, lateness) for _ in own), strict=True)
        ]
        return [*rows[:first], *(row for _, row in sorted(arrivals, key=lambda pair: pair[0]))]

    def last_row(self) -> Row:
        """An event of the far future."""
        schema = self.schema
        far = _FAR if schema.columns[schema.time] is DType.INT else "2999-01-01T00:00:00Z"
        row = {schema.type: END_OF_TIME, schema.time: far}
        return row if schema.begin is None else {**row, schema.begin: far}

    def check(self, found: pa.Table, *, stream: bool) -> int:
        """That the rows found are those expected, case by case; how many there are."""
        by_query: dict[str, list[Row]] = defaultdict(list)
        for row in found.to_pylist():
            by_query[row["query"]].append(row)
        failures, total = [], 0
        for part in self.parts:
            assert part.query.name is not None
            expected = Counter(_shown(row, part.query) for row in part.expected(stream=stream))
            actual = Counter(_shown(row, part.query) for row in by_query.pop(part.query.name, []))
            total += expected.total()
            if actual != expected:
                lines = [f"missing: {row}" for row in (expected - actual).elements()]
                lines += [f"not expected: {row}" for row in (actual - expected).elements()]
                lines += [f"event: {event}" for event in part.events]
                failures.append("\n".join([part.title, *lines]))
        assert not by_query
        assert not failures, f"{len(failures)} of {len(self.parts)} cases differ\n\n" + "\n\n".join(failures[:3])
        return total


def make_bundles(parts: Iterable[Part], most: int) -> list[Bundle]:
    """Cases put together as far as their columns allow, so many at most."""
    alike: dict[Any, list[Part]] = defaultdict(list)
    for part in parts:
        schema = part.schema
        alike[schema.type, schema.time, schema.columns[schema.time], schema.begin, schema.unit].append(part)
    return [Bundle(tuple(own[start : start + most])) for own in alike.values() for start in range(0, len(own), most)]


def _places(bound: Any) -> int | tuple[int, ...] | None:
    if isinstance(bound, list):
        return tuple(event[PLACE] for event in bound)
    return None if bound is None else bound[PLACE]


def _time(value: Any) -> Any:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _cell(value: Any, dtype: DType) -> Any:
    return datetime.fromisoformat(value) if dtype is DType.TIMESTAMP and isinstance(value, str) else value


def _shown(row: Row, query: Query) -> str:
    """All that a row says, as text: identity, times, events or RETURN columns; a null is as good as no column."""
    if query.returns:
        names = [ret.name or "" for ret in query.returns]
        told = {name: row[name] for name in names}
    else:
        told = {item.variable: row[item.variable] for item in query.items if not item.negated}
    head = {name: row[name] for name in ("match_id", "begin", "end", "detected_at")}
    partition = row.get("partition") if query.partition_by else None
    return repr(_plain({**head, "partition": partition, **told}))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in sorted(value.items()) if part is not None and part == part}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.isoformat() if isinstance(value, datetime) else value


# -- running -----------------------------------------------------------------------------------------------------------


def run_batch(spark: SparkSession, bundle: Bundle, rows: Sequence[Row], folder: Path, **more: Any) -> pa.Table:
    """What `detect_with_aside` finds in rows of a file."""
    folder.mkdir(parents=True)
    pq.write_table(bundle.table(rows), folder / "rows.parquet")
    events = spark.read.parquet(str(folder))
    return detect_with_aside(events, bundle.queries, **bundle.roles, **more).toArrow()


def run_stream(
    spark: SparkSession, bundle: Bundle, rows: Sequence[Row], cuts: Iterable[int], folder: Path, **more: Any
) -> pa.Table:
    """What `detect_with_aside` finds in a stream of files, one a micro-batch; the rows are cut before these places."""
    source = folder / "source"
    edges = [0, *sorted(cuts), len(rows)]
    pieces = [rows[start:stop] for start, stop in pairwise(edges) if start < stop]
    write_files(source, [bundle.table(piece) for piece in (*pieces, [bundle.last_row()])])
    events = read_files(spark, source)
    found = detect_with_aside(events, bundle.queries, **bundle.roles, **more)
    return pa.concat_tables(drain(found, folder / "checkpoint"))


def write_files(folder: Path, tables: Iterable[pa.Table], first: int = 0) -> None:
    """Tables as files that a stream reads in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        hidden = folder / f"_{number:04}"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_000_000_000 + number, 1_000_000_000 + number))
        hidden.rename(folder / f"{number:04}.parquet")


def read_files(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the files of a folder, one a micro-batch."""
    schema = from_arrow_schema(pq.read_schema(next(iter(sorted(folder.glob("*.parquet"))))))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def drain(found: DataFrame, checkpoint: Path, seen: Callable[[Any], None] | None = None) -> list[pa.Table]:
    """Run a stream over all that there is; the rows of each micro-batch. `seen` is given the finished query."""
    tables: list[pa.Table] = []

    def keep(rows: DataFrame, number: int) -> None:
        tables.append(rows.toArrow())

    writer = found.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    if seen is not None:
        seen(query)
    return tables


def matches_in(found: pa.Table) -> pa.Table:
    """The matches among output rows."""
    rows = found.filter(pc.equal(found["kind"], "match"))
    return pa.Table.from_struct_array(rows["match"].combine_chunks())


def aside_in(found: pa.Table) -> Iterator[Row]:
    """The output rows that are not matches."""
    return (row for row in found.to_pylist() if row["kind"] != "match")
