"""A made-up stream as a Spark data source, for demos and first tries: `format("ensue_generator")`.

The stream is cut into blocks of ten thousand events, each made from the seed and its number alone, so that the same
offsets give the same events however the stream is read: in a batch, in micro-batches, again after a restart. A block is
a session of its own: prices begin anew in it. Times go on from block to block.

Options: `kind` (stock or traffic), `seed`, `rows` (how many there are; without it a stream has no end, a batch has a
hundred thousand), `rowsPerSecond` (how many a stream gives in a second; without it whatever a micro-batch may hold),
`maxRowsPerBatch`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ensue.errors import PlanError
from ensue.spark.settings import require_choice
from ensue.testing.generators import stock_like, traffic_like

NAME = "ensue_generator"
BLOCK = 10_000
BATCH_ROWS = 100_000
_SCHEMAS = {
    "stock": "type string, ts timestamp, price double, volume bigint, diff double, k bigint",
    "traffic": "type string, ts timestamp, avg_speed bigint, vehicle_count bigint",
}
_BLOCK_SPAN = 600_000_000  # microseconds from the begin of a block to the begin of the next: ten minutes


def register_generator(spark: SparkSession) -> None:
    """Make the source known to a session."""
    spark.dataSource.register(GeneratorSource)


@dataclass(frozen=True, slots=True)
class Generator:
    """Which stream it is, and how fast it comes."""

    kind: str = "stock"
    seed: int = 0
    rows: int | None = None
    rows_per_second: int | None = None
    max_rows_per_batch: int = BATCH_ROWS

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Generator:
        """The generator that the options of a reader describe."""
        kind = options.get("kind", "stock")
        require_choice("the generator's kind", kind, tuple(_SCHEMAS))
        known = {"kind", "seed", "rows", "rowspersecond", "maxrowsperbatch", "path"}
        for name in options:
            if name.lower() not in known:
                raise PlanError(
                    f"the generator has no option {name!r}; it has kind, seed, rows, rowsPerSecond and maxRowsPerBatch"
                )
        return cls(
            kind,
            _whole_number(options, "seed", None) or 0,
            _whole_number(options, "rows", 0),
            _whole_number(options, "rowsPerSecond", 1),
            _whole_number(options, "maxRowsPerBatch", 1) or BATCH_ROWS,
        )

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The events from number `start` up to, and without, number `end`."""
        for number in range(start // BLOCK, -(-end // BLOCK)):
            first = number * BLOCK
            block = _make_block(self.kind, self.seed, number)
            piece = block.slice(max(start - first, 0), min(end - first, BLOCK) - max(start - first, 0))
            yield from piece.combine_chunks().to_batches()


def _whole_number(options: Mapping[str, str], name: str, least: int | None) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or (least is not None and number < least):
        raise PlanError(
            f"the generator's {name} is {text!r}; it is a whole number{'' if least is None else f', at least {least}'}"
        )
    return number


@lru_cache(maxsize=4)
def _make_block(kind: str, seed: int, number: int) -> pa.Table:
    """One block of events, with times that lie after those of all blocks before it."""
    own_seed = int(np.random.SeedSequence([seed & 0xFFFFFFFF, number]).generate_state(1)[0])
    table = stock_like(BLOCK, own_seed) if kind == "stock" else traffic_like(BLOCK, own_seed)
    times = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    begin = _first_time(kind)
    within = times - begin
    if kind == "stock":  # the length of a block is left to chance: it is stretched to ten minutes
        within = within * _BLOCK_SPAN // (int(within[-1]) + 1)
        span = _BLOCK_SPAN
    else:  # readings are at whole five minutes; 25 of them hold ten thousand
        span = 30 * 300_000_000
    moved = pa.array(begin + number * span + within, pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(1, "ts", moved)
    return table.set_column(0, "type", table["type"].cast(pa.string()))


@lru_cache(maxsize=4)
def _first_time(kind: str) -> int:
    """When the stream begins: a whole minute at or before the first event that a generator makes."""
    made = stock_like(1, 0) if kind == "stock" else traffic_like(1, 0)
    first = int(made["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)[0])
    return first - first % 60_000_000


class Stretch(InputPartition):
    """Events by number, from `start` up to `end`."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(None)
        self.start = start
        self.end = end


def _cut(start: int, end: int) -> list[Stretch]:
    """The events of a batch in stretches that end where blocks end, so that no block is made twice."""
    edges = [start, *range((start // BLOCK + 1) * BLOCK, end, BLOCK), end]
    return [Stretch(a, b) for a, b in pairwise(edges) if a < b]


class GeneratorSource(DataSource):
    """Spark's view of the generator."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.generator = Generator.of(options)

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return NAME

    def schema(self) -> str:
        """The columns of the events."""
        return _SCHEMAS[self.generator.kind]

    def reader(self, schema: StructType) -> DataSourceReader:
        """The stream as a batch."""
        return BatchReader(self.generator)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The stream as a stream."""
        return StreamReader(self.generator)


class BatchReader(DataSourceReader):
    """All events at once."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def partitions(self) -> Sequence[InputPartition]:
        """A stretch a block."""
        rows = self.generator.rows
        return _cut(0, BATCH_ROWS if rows is None else rows) or [Stretch(0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a stretch."""
        assert isinstance(partition, Stretch)
        return self.generator.read(partition.start, partition.end)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Events as they come. An offset is the number of events before it."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.finite = False
        self.goal: int | None = None
        self.begun: tuple[int, float] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new stream begins."""
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """How many events a micro-batch holds at most."""
        return ReadMaxRows(self.generator.max_rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on the stream has an end: all `rows`, whatever the pace."""
        self.finite = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes."""
        row = int(start["row"])
        end = self._available(row)
        if isinstance(limit, ReadMaxRows):
            end = min(end, row + limit.max_rows)
        return {"row": max(end, row)}

    def _available(self, row: int) -> int:
        """The number of events that are there by now, when `row` of them have been read."""
        rows, pace = self.generator.rows, self.generator.rows_per_second
        if self.finite:
            if self.goal is None:
                self.goal = row + BATCH_ROWS if rows is None else rows
            return self.goal
        if pace is None:
            return row + self.generator.max_rows_per_batch if rows is None else rows
        if self.begun is None:
            self.begun = (row, time.monotonic())
        came = self.begun[0] + int((time.monotonic() - self.begun[1]) * pace)
        return came if rows is None else min(came, rows)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A stretch a block."""
        return _cut(int(start["row"]), int(end["row"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a stretch."""
        assert isinstance(partition, Stretch)
        return self.generator.read(partition.start, partition.end)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to forget: any event can be made again."""

    def stop(self) -> None:
        """Nothing to let go."""
