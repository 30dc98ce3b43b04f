"""Statistics for queries: measured on the events of a source, or read from a file that `ensue stats` has saved."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ensue.cli.quantities import read_lateness
from ensue.cli.schemas import ColumnNames, load_schema
from ensue.errors import InputError, QueryError, StateError

if TYPE_CHECKING:
    from ensue.cli.rows import Unreadable
    from ensue.cli.sources import Source
    from ensue.events.batch import EventBatch
    from ensue.events.intake import Intake
    from ensue.events.schema import Schema
    from ensue.pattern.query import Query
    from ensue.statistics.collector import Collector
    from ensue.statistics.snapshot import Statistics


@dataclass(frozen=True, slots=True)
class Measured:
    """The statistics of queries by name, and the columns they were taken from.

    `queries` are those that they were taken for, as far as that is known; `rejected` rows could not be read.
    """

    statistics: Mapping[str, Statistics]
    schema: Schema
    queries: Mapping[str, Query]
    rejected: int = 0

    def of(self, query: Query) -> Statistics:
        """Those of a query, which must ask the same of the same types; the window and what it returns may differ."""
        name = query.name or ""
        self._check(name)
        measured = self.queries.get(name, query)
        if _asked(measured) != _asked(query):
            raise InputError(
                f"the statistics of `{name}` were taken for another pattern or other conditions: {measured}\n"
                "hint: take them anew with `ensue stats`, or give queries names (QUERY name PATTERN …)"
            )
        return self.statistics[name]

    def only(self, names: Sequence[str]) -> Measured:
        """Those of the queries of these names; none given: all."""
        for name in names:
            self._check(name)
        return replace(self, statistics={n: one for n, one in self.statistics.items() if not names or n in names})

    def _check(self, name: str) -> None:
        from ensue.pattern.nearest import did_you_mean

        if name not in self.statistics:
            hint = did_you_mean(name, self.statistics) or f"there are: {', '.join(self.statistics)}"
            raise InputError(f"there are no statistics of query `{name}`; {hint}")

    def save(self, path: str) -> None:
        """Write them to a file, for `load_measured`."""
        from ensue.events.schema import dump_schema

        schema = dump_schema(self.schema)
        data = {
            name: {**one.to_json(), "schema": schema, "query": str(self.queries[name])}
            for name, one in self.statistics.items()
        }
        try:
            Path(path).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; choose another file with --output") from error


def load_measured(path: str) -> Measured:
    """What was saved in a file."""
    from ensue.events.schema import load_schema
    from ensue.language import parse_query
    from ensue.statistics.snapshot import Statistics

    try:
        data: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        found = {name: Statistics.from_json(one) for name, one in data.items()}
        schema = load_schema(next(iter(data.values()))["schema"])
        queries = {name: parse_query(one["query"]) for name, one in data.items() if "query" in one}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, AttributeError, KeyError, TypeError, StopIteration, StateError, QueryError) as error:
        raise InputError(f"{path} does not hold statistics; `ensue stats … --output FILE` saves some") from error
    return Measured(found, schema, queries)


def _asked(query: Query) -> tuple[object, ...]:
    return query.pattern, query.where, query.partition_by


def measure(
    queries: Sequence[Query],
    source: str,
    columns: ColumnNames,
    *,
    schema: str | None = None,
    input_format: str | None = None,
    window: str | None = None,
    seed: int = 0,
) -> Measured:
    """Look at all events of a file, or at the last `window` of them."""
    from ensue.cli.sources import open_source
    from ensue.events.intake import Intake
    from ensue.events.schema import TimeUnit
    from ensue.pattern.numbers import numeric_columns

    given = None if schema is None else load_schema(schema, columns).columns
    numeric = {*numeric_columns(queries), columns.time, *((columns.begin,) if columns.begin else ())}
    events = open_source(source, columns=columns, format=input_format, fixed=given, numeric=numeric)
    intake = Intake(
        type=columns.type,
        ts=columns.time,
        begin=columns.begin,
        unit=TimeUnit(columns.unit),
        lateness=events.survey(),
    )
    collectors: dict[str, Collector] = {}
    unreadable: list[Unreadable] = []
    for batch in read_batches(events, intake, unreadable):
        if not collectors and intake.schema is not None:
            collectors = _make_collectors(queries, intake.schema, window, seed)
        for collector in collectors.values():
            collector.observe(batch)
    if intake.schema is None or not intake.counts.processed:
        raise InputError("there is no event in the input to measure")
    found = {name: collector.snapshot() for name, collector in collectors.items()}
    asked = {query.name or "": query for query in queries}
    return Measured(found, intake.schema, asked, intake.counts.rejected + len(unreadable))


def read_batches(events: Source, intake: Intake, unreadable: list[Unreadable]) -> Iterator[EventBatch]:
    """The events of a source that has been surveyed, in order of time; what is not even a row goes to `unreadable`."""
    import pyarrow as pa

    types = events.types()
    if types:
        # An empty batch first: it says which columns there are and of what type, whatever the first rows hold.
        yield intake.push(pa.schema(list(types.items())).empty_table())
    for parsed in events.batches():
        unreadable += parsed.unreadable
        yield intake.push(parsed.table)
        intake.take_rejected()  # they are counted
    yield intake.drain()


def _make_collectors(queries: Sequence[Query], schema: Schema, window: str | None, seed: int) -> dict[str, Collector]:
    from ensue.pattern.check import check
    from ensue.pattern.expressions import Duration
    from ensue.pattern.types import fold_duration
    from ensue.runtime.sampled import evaluating
    from ensue.statistics.collector import Collector
    from ensue.statistics.sampling import Sampling

    length: float = math.inf
    if window is not None:
        asked = read_lateness(window)
        length = fold_duration(asked, schema) if isinstance(asked, Duration) else asked
        if length < 1:
            raise click.BadParameter(f"{window!r} is shorter than one step of the time column", param_hint="--window")
    found = {}
    for query in queries:
        check(query, schema)
        sampling = Sampling(size=512, pairs=65_536, every=16_384, seed=seed)
        found[query.name or ""] = Collector(query, schema, evaluating(schema), window=length, sampling=sampling)
    return found
