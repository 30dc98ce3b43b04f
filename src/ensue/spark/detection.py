"""`detect`: the matches of queries in a DataFrame of events, finite or streaming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ensue.errors import PlanError
from ensue.options import Options
from ensue.pattern.expressions import Duration
from ensue.pattern.query import Query
from ensue.planning.objectives import ObjectiveName
from ensue.rules.check import check_program
from ensue.rules.program import Program
from ensue.runtime.adaptation import Adapt, Adaptation, read_adapt
from ensue.runtime.compiling import Queries, read_lateness, read_program, require_windows
from ensue.spark.batch import detect_batch
from ensue.spark.counts import RunCounts
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.manifest import make_manifest
from ensue.spark.recipe import Recipe, Shape, plain_types
from ensue.spark.routing import Rows, carried_columns, group_program, group_queries
from ensue.spark.session import STREAMING_CONFIG
from ensue.spark.streaming import detect_stream

METRICS = "ensue"
"""The name of the observed metrics of what was found: late, rejected, matches."""


def detect(
    events: DataFrame,
    queries: Queries,
    *,
    type: str = "type",
    ts: str = "ts",
    begin: str | None = None,
    unit: str = "ms",
    key: str | Sequence[str] | None = None,
    lateness: int | str | timedelta | Duration = 0,
    strict: bool = False,
    options: Options | None = None,
    adapt: Adapt | bool | None = None,
    objective: ObjectiveName = "throughput",
    buckets: int | None = None,
    counts: RunCounts | None = None,
) -> DataFrame:
    """All matches of one or several queries in a DataFrame of events, finite or streaming.

    `type` and `ts` name the columns of an event's type and time, `begin` that of its begin if events last. `key` names
    columns by which matches are kept apart, as PARTITION BY in each query would; equalities in the queries that do so
    are found without it. `lateness` is how far out of order events may come on a stream. `buckets` is how many
    states a stream's keys share, the number of shuffle partitions if it is not given; it stays the same for the life of
    a checkpoint. `counts` is filled in when a finite DataFrame is computed. `adapt` keeps plans fit for the stream, as
    in `ensue.compile`: those of each bucket of a stream, or each shard of a finite input, by what comes there; and so
    does `objective="latency"`, within each micro-batch.

    With rules in `queries` (see docs/rules.md) what they derive comes out too, as rows with `rule`, `type`, `begin`,
    `end` and the attributes. The events of a program with rules travel together, spread by a variable that all its
    rules join by, else by time, else to one place.

    The result has the columns `match_id`, `query`, `begin`, `end`, `detected_at` and `partition`, then those of RETURN
    or one for each variable. A finite input is looked at first, a count and a sample of it, to spread it evenly.

    Example::

        alerts = detect(events, "PATTERN SEQ(Login a, !Logout x, Login b) WHERE a.user = b.user = x.user WITHIN 1 hour")
        alerts = events.transform(detect, queries, type="action", ts="event_time", lateness="10 minutes")
    """
    adaptation = read_adapt(adapt, objective)
    task = _Task(events, queries, key, type, ts, begin, unit, lateness, strict, options or Options(), adaptation)
    return matches_of(task.run(buckets, counts, prune=True))


def detect_with_aside(
    events: DataFrame,
    queries: Queries,
    *,
    type: str = "type",
    ts: str = "ts",
    begin: str | None = None,
    unit: str = "ms",
    key: str | Sequence[str] | None = None,
    lateness: int | str | timedelta | Duration = 0,
    strict: bool = False,
    options: Options | None = None,
    adapt: Adapt | bool | None = None,
    objective: ObjectiveName = "throughput",
    buckets: int | None = None,
    counts: RunCounts | None = None,
) -> DataFrame:
    """As `detect`, with what takes no part beside the matches: one DataFrame, to be computed once and taken apart.

    Its columns are `kind` ('match', 'late', 'rejected', or 'shed' for a note of what a limit made it drop), `reason`,
    `event` (a struct of the row's columns) and `match` (a struct of the columns that `detect` gives). `adapt` adds rows
    of kind 'journal', which tell what was decided about plans. `matches_of`, `aside_of` and `journal_of` take it apart,
    for example in `foreachBatch`.
    """
    adaptation = read_adapt(adapt, objective)
    task = _Task(events, queries, key, type, ts, begin, unit, lateness, strict, options or Options(), adaptation)
    return task.run(buckets, counts, prune=False)


def matches_of(detected: DataFrame) -> DataFrame:
    """The matches in what `detect_with_aside` gave."""
    return detected.filter(F.col("kind") == "match").select("match.*")


def aside_of(detected: DataFrame) -> DataFrame:
    """The rows that take no part in what `detect_with_aside` gave: `kind`, `reason` and the row's columns."""
    return detected.filter(~F.col("kind").isin("match", JOURNAL)).select("kind", "reason", "event.*")


class _Task:
    """One call of `detect`: everything is checked here, before Spark is asked for anything."""

    def __init__(
        self,
        events: DataFrame,
        queries: Queries,
        key: str | Sequence[str] | None,
        type: str,
        ts: str,
        begin: str | None,
        unit: str,
        lateness: int | str | timedelta | Duration,
        strict: bool,
        options: Options,
        adapt: Adaptation | None,
    ) -> None:
        self.events = events
        program = read_program(queries)
        if program.rules and key is not None:
            raise PlanError("key: what rules derive is kept apart by their variables; leave the key out")
        check_program(program)
        self.rules = program.definitions
        self.queries = _keyed(program.queries, key)
        if events.isStreaming:
            require_windows(self.queries)
        self._roles = (type, ts, begin, unit)
        self._lateness, self._strict, self._options = lateness, strict, options
        self._adapt = None if adapt is None else adapt.measured()  # once here, not in every worker
        recipe = self._recipe(self.queries, to_arrow_schema(events.schema, timezone="UTC"))
        self.schema = recipe.schema

    def _recipe(self, queries: tuple[Query, ...], layout: pa.Schema) -> Recipe:
        allowed = read_lateness(self._lateness)
        streams = self.events.isStreaming
        recipe = Recipe(queries, layout, *self._roles, 0, self._strict, self._options, self.rules, streams, self._adapt)
        return replace(recipe, lateness=allowed(recipe.schema) if callable(allowed) else allowed)

    def run(self, buckets: int | None, counts: RunCounts | None, *, prune: bool) -> DataFrame:
        """The output rows, observed."""
        events = self.events
        program = Program((*self.rules, *self.queries))
        prune = prune and not self.rules
        fields = carried_columns(events.schema, self.schema, self.queries) if prune else events.schema
        rows = Rows(fields, self.schema)
        if program.rules:
            groups = [group_program(program, self.schema)]
        else:
            groups = group_queries(self.queries, self.schema, apart=rows.is_timed)
        layout = to_arrow_schema(fields, timezone="UTC")
        whole = self._recipe(self.queries, layout)
        zone = str(events.sparkSession.conf.get("spark.sql.session.timeZone"))
        shape, output = _shape(whole, zone)
        recipes = [replace(whole, queries=group.queries) for group in groups]
        if events.isStreaming:
            _use_rocksdb(events.sparkSession)
            size = _bucket_count(events, buckets)
            manifest = make_manifest(whole, size)
            found = detect_stream(events, rows, groups, recipes, shape, output, buckets=size, manifest=manifest)
            return found.observe(METRICS, *RunCounts.found())
        if counts is not None:
            events = counts.watch_input(events, self.schema, program)
        parts = [
            detect_batch(events, rows, group, recipe, shape, output, rejects=number == 0)
            for number, (group, recipe) in enumerate(zip(groups, recipes, strict=True))
        ]
        found = reduce(DataFrame.unionAll, parts)
        return found if counts is None else counts.watch_output(found)


def _keyed(queries: tuple[Query, ...], key: str | Sequence[str] | None) -> tuple[Query, ...]:
    names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if not names:
        return queries
    return tuple(replace(q, partition_by=tuple(dict.fromkeys([*q.partition_by, *names]))) for q in queries)


def _use_rocksdb(spark: SparkSession) -> None:
    """Spark keeps state of this kind in RocksDB alone, which is not its default; what a session has chosen is kept."""
    provider, changelog = list(STREAMING_CONFIG)[:2]
    if "RocksDB" not in str(spark.conf.get(provider)):
        spark.conf.set(provider, STREAMING_CONFIG[provider])
        spark.conf.set(changelog, STREAMING_CONFIG[changelog])


def _bucket_count(events: DataFrame, buckets: int | None) -> int:
    if buckets is None:
        return int(str(events.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    if not 1 <= buckets <= 10_000:
        raise PlanError(f"buckets is {buckets}; it is a number from 1 to 10,000, about that of the cores")
    return buckets


def _shape(recipe: Recipe, zone: str) -> tuple[Shape, T.StructType]:
    """The columns of output rows, as Arrow and as Spark have them."""
    found = recipe.bind(replace(recipe, lateness=0, options=Options(unbounded_rules=True)).make_engine())
    match = pa.schema([(field.name, plain_types(field.type)) for field in found.to_arrow().schema])
    output = T.StructType(
        [
            T.StructField("kind", T.StringType()),
            T.StructField("reason", T.StringType()),
            T.StructField("event", from_arrow_schema(recipe.layout)),
            T.StructField("match", from_arrow_schema(match)),
        ]
    )
    layout = to_arrow_schema(output, timezone=zone)
    return Shape(layout.field("event").type, layout.field("match").type), output
