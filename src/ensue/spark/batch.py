"""Detection in a finite DataFrame: rows are spread by key or time, and each worker runs an engine over its share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ensue.runtime.counts import Counts
from ensue.runtime.engine import Engine
from ensue.runtime.rule_engine import RuleEngine
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.journal import write_entries
from ensue.spark.recipe import Recipe, Shape
from ensue.spark.routing import Group, Rows, quote
from ensue.spark.survey import hashed_shard, plan_shards, sliced_shards

SHARD, POSITION = "__ensue_shard", "__ensue_position"
ROWS_AT_ONCE = 65_536

Bounds = Mapping[int, tuple[int | None, int | None]]


def detect_batch(
    events: DataFrame, rows: Rows, group: Group, recipe: Recipe, shape: Shape, output: T.StructType, *, rejects: bool
) -> DataFrame:
    """The output rows of a group of queries; those of rows that cannot be read only with `rejects`."""
    unreadable, relevant = rows.is_unreadable(), rows.is_relevant(group)
    kept = events.filter(unreadable | relevant) if rejects else events.filter(relevant & ~unreadable)
    key = None if group.key is None else rows.key_hash(group.key)
    end = F.when(~unreadable, rows.end()) if rows.is_timed else None
    shards = plan_shards(kept, key, end, group)
    carried = [F.col(quote(name)) for name in recipe.layout.names]
    if group.is_ordered:  # the order of the input decides between events of one time, and a shuffle loses it
        carried.append(F.monotonically_increasing_id().alias(POSITION))
    if shards.sliced:
        assert end is not None
        spread = kept.select(*carried, F.explode(sliced_shards(shards, key, end, group)).alias(SHARD))
        spread = spread.repartitionById(shards.count, SHARD)
    elif shards.count == 1 or key is None:
        spread = kept.select(*carried).repartition(1)
    else:
        place = hashed_shard(shards, key).alias(SHARD)
        spread = kept.select(*carried, place).repartitionById(shards.count, SHARD).drop(SHARD)
    return spread.mapInArrow(_Finder(recipe, shape, shards.bounds()), output)


@dataclass(frozen=True)
class _Finder:
    """What a worker does with its share of the rows."""

    recipe: Recipe
    shape: Shape
    bounds: Bounds

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        if POSITION in table.column_names:
            table = table.take(pc.sort_indices(table[POSITION])).drop_columns([POSITION])
        if SHARD not in table.column_names:
            context = TaskContext.get()
            yield from self._find(table, 0 if context is None else context.partitionId())
            return
        numbers = table[SHARD].to_numpy()
        table = table.drop_columns([SHARD])
        found = np.unique(numbers)
        for shard in found:
            own = table if len(found) == 1 else table.filter(pa.array(numbers == shard))
            yield from self._find(own, int(shard))

    def _find(self, table: pa.Table, shard: int) -> Iterator[pa.RecordBatch]:
        bounds = self.bounds.get(shard, (None, None))
        engine = self.recipe.make_engine()
        self.recipe.bind(engine)
        for matches in engine.run_sorted(table, ROWS_AT_ONCE):
            if len(matches):
                found = _between(matches.to_arrow(), bounds)
                for start in range(0, found.num_rows, ROWS_AT_ONCE):
                    yield from self.shape.matches(found.slice(start, ROWS_AT_ONCE))
            yield from self.shape.notes(JOURNAL, write_entries(engine.take_journal(), shard))  # not all are kept
        yield from set_aside(engine, self.shape)


def set_aside(engine: Engine | RuleEngine, shape: Shape) -> Iterator[pa.RecordBatch]:
    """The output rows of what an engine has set aside or dropped."""
    for kind, take in _ASIDE:
        table = take(engine)
        if table is not None:
            last = table.num_columns - 1  # the reason
            yield from shape.aside(kind, table.remove_column(last), table.column(last).combine_chunks())
    yield from shape.notes("shed", shed_reasons(Counts(), engine.counts))


def shed_reasons(before: Counts, after: Counts) -> list[str]:
    """What was dropped between two counts because of a limit, in words."""
    reasons = []
    for what in ("matches", "partial_matches"):
        dropped = getattr(after, f"shed_{what}") - getattr(before, f"shed_{what}")
        if dropped:
            reasons.append(f"{dropped:,} {what.replace('_', ' ')} beyond max_{what}")
    return reasons


_ASIDE: tuple[tuple[str, Callable[[Engine | RuleEngine], pa.Table | None]], ...] = (
    ("late", lambda engine: engine.take_late()),
    ("rejected", lambda engine: engine.take_rejected()),
)


def _between(matches: pa.Table, bounds: tuple[int | None, int | None]) -> pa.Table:
    """The matches that begin in a slice."""
    low, high = bounds
    if low is None and high is None:
        return matches
    begin = matches["begin"].cast(pa.int64()).to_numpy()
    keep = np.ones(len(begin), dtype=np.bool_)
    if low is not None:
        keep &= begin >= low
    if high is not None:
        keep &= begin < high
    return matches if keep.all() else matches.filter(pa.array(keep))
