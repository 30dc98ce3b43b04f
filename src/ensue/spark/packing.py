"""Tables on their way through Spark's state operator: packed as bytes, so that rows do not cross one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from ensue.events.intake import Intake
from ensue.events.schema import TimeUnit
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.recipe import Recipe, Shape

BUCKET = "__ensue_bucket"
"""Followed by a group's number: the column that says which bucket of the group a row goes to (null: none)."""

END, PRIMARY = "__ensue_end", "__ensue_primary"
PACKET = pa.schema(
    [("bucket", pa.int32()), ("part", pa.int32()), ("number", pa.int32()), ("kind", pa.string()), ("data", pa.binary())]
)
PACKET_DDL = "bucket int, part int, number int, kind string, data binary"
META = -1
"""The bucket that holds no events: it keeps the manifest, and lets rejected rows through."""

_ROWS = 500_000

Places = npt.NDArray[np.integer[Any]]


def write_table(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def read_table(data: bytes) -> pa.Table:
    """The table that `write_table` was given."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class Packer:
    """Reads rows, sets aside what cannot be read, and packs the rest by bucket: what runs before the shuffle."""

    recipe: Recipe
    groups: int
    manifest: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The packets of a partition's rows."""
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        number = 0
        yield _packets([(META, part, number, "manifest", self.manifest)])
        for table in _gather(batches):
            packets = []
            for bucket, kind, data in self._pack(table):
                number += 1
                packets.append((bucket, part, number, kind, data))
            if packets:
                yield _packets(packets)

    def _pack(self, table: pa.Table) -> Iterator[tuple[int, str, bytes]]:
        recipe = self.recipe
        intake = Intake(
            type=recipe.type, ts=recipe.ts, begin=recipe.begin, unit=TimeUnit(recipe.unit), strict=recipe.strict
        )
        piece, keep = intake.read(table.select(recipe.layout.names))
        rejected = intake.take_rejected()
        if rejected is not None:
            yield META, "rejected", write_table(rejected)
        if not len(piece.end):
            return
        rows = piece.table.append_column(END, pa.array(piece.end))
        taken = np.zeros(len(piece.end), dtype=np.bool_)
        for group in range(self.groups):
            column = table[f"{BUCKET}{group}"]
            here = column.is_valid().to_numpy()
            buckets = column.fill_null(0).to_numpy()
            if keep is not None:
                here, buckets = here[keep], buckets[keep]
            own = rows.append_column(PRIMARY, pa.array(~taken)) if self.groups > 1 else rows
            taken |= here
            for bucket, part in _split(own, np.flatnonzero(here), buckets[here]):
                yield bucket, "events", write_table(part)


def _split(table: pa.Table, places: Places, buckets: Places) -> Iterator[tuple[int, pa.Table]]:
    """The rows at some places by bucket, in the order that they have."""
    if not len(places):
        return
    if (buckets == buckets[0]).all():
        yield int(buckets[0]), table if len(places) == table.num_rows else table.take(pa.array(places))
        return
    order = np.argsort(buckets, kind="stable")
    sorted_buckets = buckets[order]
    taken = table.take(pa.array(places[order]))
    edges = [0, *(np.flatnonzero(np.diff(sorted_buckets)) + 1), len(order)]
    for start, stop in pairwise(edges):
        yield int(sorted_buckets[start]), taken.slice(start, stop - start)


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables of many rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held).combine_chunks()


def _packets(packets: Sequence[tuple[int, int, int, str, bytes]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*packets, strict=True), PACKET, strict=True)]
    return pa.record_batch(columns, schema=PACKET)


@dataclass(frozen=True)
class Unpacker:
    """Turns the packets that the state operator gives into output rows."""

    shape: Shape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output rows of packets."""
        for batch in batches:
            for kind, data in zip(batch["kind"].to_pylist(), batch["data"], strict=True):
                table = read_table(data.as_buffer().to_pybytes())
                if kind == "match":
                    yield from self.shape.matches(table)
                elif kind in ("shed", JOURNAL):
                    yield from self.shape.notes(kind, table["reason"].combine_chunks())
                else:
                    last = table.num_columns - 1  # the reason
                    reasons = table.column(last).combine_chunks()
                    yield from self.shape.aside(kind, table.remove_column(last), reasons)
