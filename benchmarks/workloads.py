"""The streams and queries of the benchmark: seeded, made block by block, the same for every engine.

The stream has 20 event types, drawn uniformly (the keyed workloads: 4), and the columns

- `type`: dictionary-encoded string, `A`, `B`, …;
- `ts`: int64, strictly rising by 1, 2 or 3, so that no two events tie;
- `diff`: float64, normal with variance 1; its mean depends on the type and sets the selectivity (see `step_of`);
- `key`: int64, uniform over `keys` values.

A window of `2 * types * live` units of time therefore holds about `live` events of each type. A block of the stream
depends on the seed and the block's number alone, so the first n events are the same whatever the length asked for.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK = 65_536
"""Events in one block, which is also what is pushed at a time."""

MEAN_GAP = 2
"""The mean distance in time of two events that follow each other."""

CHAIN = "ABCDE"
"""The types whose `diff` is compared, in the order of the comparisons."""


@dataclass(frozen=True)
class Columns:
    """A stretch of a stream as NumPy columns; `type` holds codes, 0 for A, 1 for B and so on."""

    type: npt.NDArray[np.int8]
    ts: npt.NDArray[np.int64]
    diff: npt.NDArray[np.float64]
    key: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ts)

    def head(self, events: int) -> Columns:
        """The first `events` events."""
        return self.part(0, events)

    def part(self, start: int, stop: int) -> Columns:
        """The events from number `start` up to, not including, `stop`."""
        here = slice(start, stop)
        return Columns(self.type[here], self.ts[here], self.diff[here], self.key[here])


@dataclass(frozen=True)
class Workload:
    """One line of the benchmark: a query and the stream that it runs on."""

    name: str
    pattern: str
    where: str
    live: int  # events of each type in the window
    selectivity: float | None = None  # of one comparison of neighbours in the chain; None: no shift
    keys: int = 100
    types: int = 20
    partition_by: str | None = None
    shape: str = ""  # which loop and which join evaluate it; the name if empty
    seed: int = 7

    @property
    def window(self) -> int:
        """The WITHIN of the query, in units of time."""
        return MEAN_GAP * self.types * self.live

    @property
    def query(self) -> str:
        """The query as text.

        >>> print(find("seq3").query)
        PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 4000
        """
        partition = f" PARTITION BY {self.partition_by}" if self.partition_by else ""
        where = f" WHERE {self.where}" if self.where else ""
        return f"PATTERN {self.pattern}{where}{partition} WITHIN {self.window}"

    @property
    def kind(self) -> str:
        """Which hand-written loop and which SQL belong to the query."""
        return self.shape or self.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the types, by code."""
        return tuple(string.ascii_uppercase[: self.types])

    def blocks(self, events: int) -> Iterator[Columns]:
        """The first `events` events of the stream, a block at a time."""
        means = np.zeros(self.types)
        for place, name in enumerate(CHAIN[: self.types]):
            means[self.names.index(name)] = place * step_of(self.selectivity)
        time = 0
        for number in range(-(-events // BLOCK)):
            rng = np.random.default_rng((self.seed, number))
            kind = rng.integers(0, self.types, BLOCK, dtype=np.int8)
            ts = time + np.cumsum(rng.integers(1, 2 * MEAN_GAP, BLOCK, dtype=np.int64))
            time = int(ts[-1])
            diff = rng.standard_normal(BLOCK) + means[kind]
            key = rng.integers(0, self.keys, BLOCK, dtype=np.int64)
            yield Columns(kind, ts, diff, key).head(events - number * BLOCK)

    def columns(self, events: int) -> Columns:
        """The first `events` events of the stream in one piece."""
        blocks = list(self.blocks(events))
        return Columns(
            np.concatenate([b.type for b in blocks]),
            np.concatenate([b.ts for b in blocks]),
            np.concatenate([b.diff for b in blocks]),
            np.concatenate([b.key for b in blocks]),
        )

    def tables(self, events: int, *, plain: bool = False) -> Iterator[pa.Table]:
        """The first `events` events as Arrow tables, one a block; `plain` gives `type` as string, not as dictionary."""
        for block in self.blocks(events):
            yield self.to_arrow(block, plain=plain)

    def to_arrow(self, columns: Columns, *, plain: bool = False) -> pa.Table:
        """A stretch of the stream as an Arrow table."""
        kind = pa.DictionaryArray.from_arrays(pa.array(columns.type), pa.array(self.names))
        return pa.table(
            {
                "type": kind.cast(pa.string()) if plain else kind,
                "ts": pa.array(columns.ts),
                "diff": pa.array(columns.diff),
                "key": pa.array(columns.key),
            }
        )


def step_of(selectivity: float | None) -> float:
    """By how much the mean of `diff` rises from one type of the chain to the next.

    The difference of two normal values with variance 1 has variance 2, so a step of `sqrt(2) * quantile(selectivity)`
    makes `a.diff < b.diff` hold for exactly that share of the pairs. The comparisons of a chain are not independent:
    of the triples, `a.diff < b.diff < c.diff` holds for 1 in 6 at 0.5, 1 in 120 at 0.2 and 1 in 17,000 at 0.05.

    >>> round(step_of(0.2), 3), step_of(0.5)
    (-1.19, 0.0)
    """
    return sqrt(2) * NormalDist().inv_cdf(selectivity) if selectivity else 0.0


RISING3 = "a.diff < b.diff AND b.diff < c.diff"
RISING5 = f"{RISING3} AND c.diff < d.diff AND d.diff < e.diff"
SAME_KEY3 = "a.key = b.key AND b.key = c.key"

KERNEL = "SEQ(A a, B b, C c, D d)"
KERNEL_WHERE = f"{RISING3} AND a.key = d.key"

WORKLOADS: tuple[Workload, ...] = (
    Workload("kernel-0.05", KERNEL, KERNEL_WHERE, live=100, selectivity=0.05, keys=20, shape="kernel"),
    Workload("kernel-0.2", KERNEL, KERNEL_WHERE, live=100, selectivity=0.2, keys=20, shape="kernel"),
    Workload("kernel-0.5", KERNEL, KERNEL_WHERE, live=100, selectivity=0.5, keys=20, shape="kernel"),
    Workload("kernel-wide", KERNEL, KERNEL_WHERE, live=500, selectivity=0.05, shape="kernel"),
    Workload("seq3", "SEQ(A a, B b, C c)", RISING3, live=100, selectivity=0.2),
    Workload("and3", "AND(A a, B b, C c)", RISING3, live=50, selectivity=0.2),
    Workload("negation", "SEQ(A a, !N n, B b, C c)", f"{RISING3} AND n.key = a.key", live=100, selectivity=0.2),
    Workload("kleene", "SEQ(A a, B+ b[], C c)", "b[i].diff > b[i-1].diff", live=8),
    Workload("seq5", "SEQ(A a, B b, C c, D d, E e)", RISING5, live=50, selectivity=0.3),
    Workload("keyed", "SEQ(A a, B b, C c)", SAME_KEY3, live=50_000, keys=100_000, types=4),
    Workload(
        "partitioned", "SEQ(A a, B b, C c)", "", live=50_000, keys=100_000, types=4, partition_by="key", shape="keyed"
    ),
)


def find(name: str) -> Workload:
    """The workload of that name."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    raise KeyError(f"no workload {name!r}; there are {', '.join(w.name for w in WORKLOADS)}")
