"""A look at a finite input before it is spread: how much there is, which keys are frequent, where to cut time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ensue.spark.routing import Group

SMALL = 50_000
"""So few rows are for one worker: more would cost more than they help."""

_ROWS_EACH = 1_000_000
_SAMPLE = 200_000
_ROW_BYTES = 16  # of a file's size, about
_UNKNOWN = 1e15  # Spark takes what it does not know for larger than anything
_MOST_SLICES = 256
_LONGER = 4  # a slice is so many windows long at least, so that little is read twice

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shards:
    """Where rows go: `hashed` shards by key, then for each frequent key (None: all rows) slices cut at its times."""

    hashed: int = 1
    sliced: tuple[tuple[int | None, tuple[int, ...]], ...] = ()

    @property
    def count(self) -> int:
        """How many shards there are."""
        return self.hashed + sum(len(cuts) + 1 for _, cuts in self.sliced)

    def bounds(self) -> dict[int, tuple[int | None, int | None]]:
        """The shards that are slices, each with the times between which the matches begin that it reports."""
        found: dict[int, tuple[int | None, int | None]] = {}
        shard = self.hashed
        for _, cuts in self.sliced:
            edges = [None, *cuts, None]
            for low, high in pairwise(edges):
                found[shard] = (low, high)
                shard += 1
        return found


def plan_shards(rows: DataFrame, key: Column | None, end: Column | None, group: Group) -> Shards:
    """Look at a sample of the rows; say how to spread them."""
    workers = max(1, rows.sparkSession.sparkContext.defaultParallelism)
    sliceable = group.window is not None and end is not None
    if key is None and not sliceable:
        return Shards()
    number = key if key is not None else F.lit(0)
    time = end if end is not None else F.lit(0)
    sample = rows.select(number.cast("long").alias("key"), time.cast("long").alias("end")).dropna()
    fraction = min(1.0, _SAMPLE / guess_rows(rows))
    table = (sample.sample(fraction=fraction, seed=1) if fraction < 1.0 else sample).toArrow()
    count = table.num_rows / fraction
    if count <= SMALL:
        return Shards()
    wanted = max(workers, math.ceil(count / _ROWS_EACH))
    if not sliceable:
        return Shards(hashed=wanted)
    assert group.window is not None
    keys, ends = table["key"].to_numpy(), table["end"].to_numpy()
    if key is None:
        return Shards(0, ((None, _cuts(ends, wanted, group.window)),))
    hot = []
    values, counts = np.unique(keys, return_counts=True)
    for place in np.argsort(-counts)[: 2 * workers]:
        share = counts[place] / len(keys)
        if 2 * workers * share < 1 or share * count <= SMALL:
            break
        cuts = _cuts(ends[keys == values[place]], math.ceil(2 * wanted * share), group.window)
        if cuts:
            hot.append((int(values[place]), cuts))
    return Shards(wanted, tuple(hot))


def guess_rows(rows: DataFrame) -> float:
    """About how many rows there are, from what Spark knows of their size without reading them; rather too few."""
    size = float(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    if size >= _UNKNOWN:
        return float(max(rows.count(), 1))
    return max(size / _ROW_BYTES, 1.0)


def _cuts(ends: Int64s, slices: int, window: int) -> tuple[int, ...]:
    """Times that cut a stretch into slices of about equally many events, none shorter than a few windows."""
    span = int(ends.max()) - int(ends.min())
    slices = min(slices, span // (_LONGER * max(window, 1)), _MOST_SLICES)
    if slices < 2:
        return ()
    places = np.quantile(ends, np.arange(1, slices) / slices, method="nearest")
    kept: list[int] = []
    for place in sorted({int(p) for p in places}):
        if place - (kept[-1] if kept else int(ends.min())) >= _LONGER * window:
            kept.append(place)
    return tuple(kept)


def hashed_shard(shards: Shards, key: Column) -> Column:
    """The shard of a row by its key; a row without one, which cannot be read, goes to the first."""
    return F.coalesce(F.pmod(key, F.lit(shards.hashed)).cast("int"), F.lit(0))


def sliced_shards(shards: Shards, key: Column | None, end: Column, group: Group) -> Column:
    """The shards of a row as an array: the slices that read its time, or the one of its key."""
    assert group.window is not None
    back = group.window if group.looks_back else 0
    chosen: Column | None = None
    start = shards.hashed
    for hot, cuts in shards.sliced:
        low = start + _count_until([cut + group.window for cut in cuts], end)
        high = start + _count_until([cut - back for cut in cuts], end)
        slices = F.when(end.isNotNull(), F.sequence(low, high))
        if key is None or hot is None:
            return F.coalesce(slices, F.array(F.lit(0)))
        chosen = F.when(key == hot, slices) if chosen is None else chosen.when(key == hot, slices)
        start += len(cuts) + 1
    assert chosen is not None and key is not None
    return F.coalesce(chosen, F.array(hashed_shard(shards, key)))


def _count_until(times: Sequence[int], time: Column) -> Column:
    """How many of some times lie at or before a row's time (which is not added to: that could overflow)."""
    if len(times) > 16:
        return F.size(F.filter(F.array(*(F.lit(one).cast("long") for one in times)), lambda one: one <= time))
    total = F.lit(0)
    for one in times:
        total = total + (F.lit(one) <= time).cast("int")
    return total
