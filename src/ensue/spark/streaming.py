"""Detection in a stream: events of many keys share a bucket, and a bucket is one engine in Spark's state store.

Rows are packed by bucket before the shuffle; the state operator is called once a bucket and micro-batch. It restores
the bucket's engine, lets time reach Spark's watermark, pushes the events and stores the engine again. A timer wakes a
bucket that gets no events when the watermark passes what it waits for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ensue.errors import StateError
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.events.times import MICROSECONDS
from ensue.runtime.counts import Counts
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.runtime.rule_engine import RuleEngine
from ensue.spark.batch import ROWS_AT_ONCE, shed_reasons
from ensue.spark.buckets import bucket_names
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.journal import write_entries
from ensue.spark.manifest import describe_changes
from ensue.spark.packing import BUCKET, END, META, PACKET_DDL, PRIMARY, Packer, Unpacker, read_table, write_table
from ensue.spark.recipe import Recipe, Shape
from ensue.spark.routing import Group, Rows, quote

AT = "__ensue_at"
RECEIVED = "ensue_input"
"""The name of the observed metric of rows that came in."""

_FARTHEST = 8_000_000_000_000_000  # milliseconds that Spark's timestamps hold, with room to spare


def detect_stream(
    events: DataFrame,
    rows: Rows,
    groups: Sequence[Group],
    recipes: Sequence[Recipe],
    shape: Shape,
    output: T.StructType,
    *,
    buckets: int,
    manifest: dict[str, Any],
) -> DataFrame:
    """The output rows of a stream."""
    clock = Clock.of(rows.schema)
    delay = clock.to_milliseconds(recipes[0].lateness)
    if rows.is_timed:
        recipes = [replace(recipe, lateness=clock.cover(delay)) for recipe in recipes]
    unreadable = rows.is_unreadable()
    time = clock.timestamp(rows.end()) if rows.is_timed else F.lit(None).cast("timestamp")
    timed = events.withColumn(AT, F.when(~unreadable, time))  # what is rejected does not move time
    timed = timed.withWatermark(AT, f"{delay} milliseconds").observe(RECEIVED, F.count(F.lit(1)).alias("received"))
    names = bucket_names(buckets)
    columns: list[Column] = []
    relevant = unreadable
    owners: dict[int, tuple[int, int]] = {}
    for number, group in enumerate(groups):
        mine = rows.is_relevant(group) if rows.is_timed else F.lit(True)  # texts move the time of engines alone
        relevant = relevant | mine
        own = [name + (number << 20) for name in names] if group.key is not None else [number << 20]
        owners |= {name: (number, place) for place, name in enumerate(own)}
        place: Column = F.lit(own[0])
        if group.key is not None:
            choices = F.array(*(F.lit(name) for name in own))
            place = F.element_at(choices, (F.pmod(rows.key_hash(group.key), F.lit(buckets)) + 1).cast("int"))
        columns.append(F.when(~unreadable & mine, place).alias(f"{BUCKET}{number}"))
    kept = timed.filter(F.col(AT).isNull() | relevant)
    carried = kept.select(*(F.col(quote(name)) for name in recipes[0].layout.names), *columns)
    packer = Packer(recipes[0], len(groups), json.dumps(manifest, sort_keys=True).encode())
    detector = Detector(tuple(recipes), owners, clock)
    packets = carried.mapInArrow(packer, PACKET_DDL).groupBy("bucket")
    found = packets.transformWithState(detector, "kind string, data binary", "Append", "EventTime")
    return found.mapInArrow(Unpacker(shape), output)


@dataclass(frozen=True)
class Clock:
    """Between the engine's time and Spark's, which is in milliseconds: `micros` are the microseconds of one unit."""

    micros: int

    @classmethod
    def of(cls, schema: Schema) -> Clock:
        """The clock of events with these columns."""
        whole = schema.columns[schema.time] is DType.INT
        return cls(MICROSECONDS[TimeUnit(schema.unit)] if whole else 1)

    def timestamp(self, time: Column) -> Column:
        """The engine's time as a timestamp of Spark; null where Spark cannot hold it."""
        most = _FARTHEST * 1000 // self.micros
        fits = time.between(F.lit(-most), F.lit(most))
        return F.when(fits, F.timestamp_micros(F.when(fits, time) * F.lit(self.micros)))

    def to_milliseconds(self, time: int) -> int:
        """The first millisecond of Spark's time that is not before an engine's time."""
        return -(-time * self.micros // 1000)

    def from_milliseconds(self, time: int) -> int:
        """The last engine's time that is not after Spark's."""
        return time * 1000 // self.micros

    def cover(self, delay: int) -> int:
        """A lateness with which no engine is ahead of Spark's watermark, so that all agree on which events are late."""
        return (delay * 1000 + 999) // self.micros


class Detector(StatefulProcessor):
    """The state operator: an engine a bucket. `owners` has the group of each bucket and its place in it."""

    def __init__(self, recipes: tuple[Recipe, ...], owners: dict[int, tuple[int, int]], clock: Clock) -> None:
        self._recipes = recipes
        self._owners = owners
        self._clock = clock

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: the bytes of an engine, or of the manifest."""
        self._handle = handle
        self._state = handle.getValueState("engine", "data binary")

    def handleInputRows(self, key: tuple[int], rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Take the events of a micro-batch in; give the packets of what they lead to."""
        (bucket,) = key
        packets = sorted(rows, key=lambda row: (row.part, row.number))
        if bucket == META:
            yield from self._keep_manifest(packets)
            return
        engine = self._load(bucket)
        before = engine.counts
        yield from self._move(engine, timerValues)
        table = pa.concat_tables(read_table(packet.data) for packet in packets)
        late = None if engine.watermark is None else table[END].to_numpy() < engine.watermark
        if late is not None and late.any():
            yield from _late_packets(table.filter(pa.array(late)), engine.watermark)
            table = table.filter(pa.array(~late))
        hidden = [name for name in (END, PRIMARY) if name in table.column_names]
        yield from _match_packets(engine.push(table.drop_columns(hidden), together=True))
        yield from self._notes(bucket, engine, before)
        self._store(engine)

    def handleExpiredTimer(self, key: tuple[int], timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Let time reach the watermark in a bucket that waits for it."""
        (bucket,) = key
        engine = self._load(bucket)
        before = engine.counts
        yield from self._move(engine, timerValues)
        yield from self._notes(bucket, engine, before)
        self._store(engine)

    def close(self) -> None:
        """Nothing is held open."""

    def _load(self, bucket: int) -> Engine | RuleEngine:
        recipe = self._recipes[self._owners[bucket][0]]
        engine = recipe.make_engine()
        if self._state.exists():
            stored = self._state.get()
            assert stored is not None
            engine.restore(bytes(stored[0]))
        else:
            recipe.bind(engine)
        return engine

    def _move(self, engine: Engine | RuleEngine, timers: Any) -> Iterator[Row]:
        watermark = timers.getCurrentWatermarkInMs()
        if watermark > 0:  # Spark's watermark stands at 0 until there is one
            yield from _match_packets(engine.advance(self._clock.from_milliseconds(watermark)))

    def _notes(self, bucket: int, engine: Engine | RuleEngine, before: Counts) -> Iterator[Row]:
        """What was dropped because of a limit, and what was decided about plans."""
        entries = write_entries(engine.take_journal(), self._owners[bucket][1])
        for kind, reasons in (("shed", shed_reasons(before, engine.counts)), (JOURNAL, entries)):
            if reasons:
                yield Row(kind=kind, data=write_table(pa.table({"reason": reasons})))

    def _store(self, engine: Engine | RuleEngine) -> None:
        self._state.update((engine.snapshot(),))
        due = engine.next_due
        wanted = None if due is None else max(self._clock.to_milliseconds(due), 1)
        for timer in list(self._handle.listTimers()):
            if timer != wanted:
                self._handle.deleteTimer(timer)
        if wanted is not None and wanted < _FARTHEST:
            self._handle.registerTimer(wanted)

    def _keep_manifest(self, packets: Sequence[Row]) -> Iterator[Row]:
        for packet in packets:
            if packet.kind == "rejected":
                yield Row(kind="rejected", data=bytes(packet.data))
        manifest = bytes(next(packet.data for packet in packets if packet.kind == "manifest"))
        if not self._state.exists():
            self._state.update((manifest,))
            return
        stored = self._state.get()
        assert stored is not None
        changes = describe_changes(json.loads(bytes(stored[0])), json.loads(manifest))
        if changes:
            raise StateError(changes)


def _match_packets(matches: Matches) -> Iterator[Row]:
    if not len(matches):
        return
    table = matches.to_arrow()
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        yield Row(kind="match", data=write_table(table.slice(start, ROWS_AT_ONCE)))


def _late_packets(late: pa.Table, watermark: int | None) -> Iterator[Row]:
    """Late events with the reason, those alone that this group is the first to get."""
    if PRIMARY in late.column_names:
        late = late.filter(late[PRIMARY]).drop_columns([PRIMARY])
    if late.num_rows:
        reasons = [f"its end {end} is before the watermark {watermark}" for end in late[END].to_pylist()]
        yield Row(kind="late", data=write_table(late.drop_columns([END]).append_column("reason", pa.array(reasons))))
