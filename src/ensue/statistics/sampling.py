"""Selectivities that do not depend on the plan in use: from samples of the stream, not from the evaluator's work.

An evaluator compares many pairs of events anyway, so it is tempting to count how many of them pass. Such counts are
biased. A candidate reaches a predicate only after the plan's earlier predicates have let it through, so what is counted
is the share *among those*: if `a.x = b.x` and `b.y < c.y` are correlated, the second looks more or less selective
depending on whether the first came before it. A predicate at the end of a plan is hardly ever asked, one at the start
all the time, and pairs of variables that the plan never joins directly are never compared at all. A plan would then be
judged by its own filter: another plan would see other numbers, and the two could each call the other the better one.

So here each variable has a sample of the events that could be its event, drawn from all of the last window, and the
selectivity of a pair is the share of the pairs of two random samples that pass. No plan comes into it.

The samples are priority samples (B. Babcock, M. Datar, R. Motwani, "Sampling from a moving window over streaming data",
2002): each event has a random priority, and the sample is the events of highest priority in the window. It is uniform,
without repetition, and needs no bookkeeping when events leave the window: the next highest take their places.

Everything random comes from a seed, and nothing depends on the clock: the same stream in the same batches gives the
same samples, hence the same statistics and the same decisions. A run can be repeated to see why a plan was changed, and
one that is taken up from a snapshot goes on as the one that made the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappush, heapreplace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import StateError
from ensue.events.batch import Int64s
from ensue.events.times import NULL
from ensue.statistics.estimates import Estimate, share

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

ENOUGH_PAIRS = 1000
"""From so many pairs on, those that could be in one match speak for themselves; from fewer, all pairs are asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some events: a table of the columns that conditions name, their times, and numbers that tell them apart."""

    table: pa.Table
    begin: Int64s
    end: Int64s
    ids: Int64s

    def __len__(self) -> int:
        return len(self.end)

    def take(self, places: Int64s) -> Sample:
        """The events at these places."""
        table = self.table.take(pa.array(places)) if self.table.num_columns else self.table
        return Sample(table, self.begin[places], self.end[places], self.ids[places])


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Events of a sample by their places in it, in any order and as often as wanted: one side of a row of pairs."""

    sample: Sample
    places: Int64s


Events: TypeAlias = Mapping[str, Chosen]
"""For each variable of a condition the events to ask it about, all of one length."""

Passes: TypeAlias = Callable[[Chosen, Chosen], Mask]
"""Which pairs of events, one from the left and one from the right, pass."""


def scatter(start: int, stop: int, most: int, random: np.random.Generator) -> Int64s:
    """At most `most` of the places from `start` to before `stop`, in order: a random one of each stretch of a length.

    >>> scatter(5, 10, 5, np.random.default_rng(0)).tolist()
    [5, 6, 7, 8, 9]
    """
    size = min(most, stop - start)
    cuts = start + (stop - start) * np.arange(size + 1, dtype=np.int64) // size
    return cuts[:-1] + (random.random(size) * np.diff(cuts)).astype(np.int64)


def draw(held: int, count: int, most: int, random: np.random.Generator) -> tuple[Int64s, Floats]:
    """Give each of `count` events a random priority; which have the `most` highest, in order, and these priorities.

    They are given as places among the `held` events that are at hand, a random part of all of them. The highest of
    many uniform numbers are drawn as what they are, one below the other, so that it costs `most` steps and not `count`.
    Priorities are logarithms: at most 0.

    >>> places, priorities = draw(50, 1000, 3, np.random.default_rng(0))
    >>> len(set(places.tolist())), bool((priorities < 0).all())
    (3, True)
    """
    size = min(held, most)
    left = count - np.arange(size, dtype=np.float64)
    priorities = np.cumsum(np.log1p(-random.random(size)) / left)
    places = random.choice(held, size, replace=False)
    order = np.argsort(places)
    return places[order], priorities[order]


class WindowSample:
    """A uniform sample of at most `size` of the events that came in the last `window` steps of time (None: ever).

    An event that `size` later events exceed in priority can never be in the sample again and is forgotten; about
    size · (1 + log(n / size)) of n events are held.
    """

    def __init__(self, size: int, window: int | None) -> None:
        self.size = size
        self.window = window
        self._held: Sample | None = None
        self._priorities: Floats = np.empty(0)
        self._new: list[tuple[Sample, Floats]] = []
        self._count = 0
        self._limit = 8 * size

    def __len__(self) -> int:
        """How many events are held."""
        return self._count

    def add(self, events: Sample, priorities: Floats) -> None:
        """Take in events that are later than those before, with their priorities.

        If they are the highest of a batch with at least `size` of them, the sample is uniform over all batches. A
        batch that gives fewer than it could (few of those drawn pass the variable's own conditions) counts for as many
        as it gives.
        """
        if len(events):
            self._new.append((events, priorities))
            self._count += len(events)
            if self._count > self._limit:
                self._forget()

    def _gather(self) -> Sample | None:
        """All events that are held as one table."""
        parts = [one for one, _ in self._new] if self._held is None else [self._held, *(one for one, _ in self._new)]
        if len(parts) > 1:
            self._held = Sample(
                _concat([one.table for one in parts]),
                np.concatenate([one.begin for one in parts]),
                np.concatenate([one.end for one in parts]),
                np.concatenate([one.ids for one in parts]),
            )
        elif parts:
            self._held = parts[0]
        self._priorities = np.concatenate([self._priorities, *(priorities for _, priorities in self._new)])
        self._new = []
        return self._held

    def _forget(self) -> None:
        """Let go of the events that can never be in the sample again."""
        held = self._gather()
        assert held is not None
        edge = None if self.window is None else int(held.end[-1]) - self.window
        ends, priorities = held.end.tolist(), self._priorities.tolist()
        best: list[float] = []  # the `size` highest priorities of later events, the lowest first
        kept: list[int] = []
        for place in range(len(ends) - 1, -1, -1):
            if edge is not None and ends[place] <= edge:
                break
            if len(best) < self.size:
                heappush(best, priorities[place])
                kept.append(place)
            elif priorities[place] > best[0]:
                heapreplace(best, priorities[place])
                kept.append(place)
        places = np.array(kept[::-1], dtype=np.int64)
        self._held, self._priorities = held.take(places), self._priorities[places]
        self._count = len(places)
        self._limit = max(8 * self.size, 2 * self._count)

    def at(self, now: int) -> Sample | None:
        """The sample of the window that ends at `now`, in order of time; None if there is no event in it."""
        held = self._gather()
        if held is None:
            return None
        edge = NULL if self.window is None else max(now - self.window, NULL)
        first = int(np.searchsorted(held.end, edge, side="right"))
        count = len(held) - first
        if not count:
            return None
        if count <= self.size:
            return held.take(np.arange(first, len(held)))
        highest = np.argpartition(self._priorities[first:], count - self.size)[count - self.size :]
        return held.take(np.sort(highest) + first)

    def dump(self) -> tuple[dict[str, Any], pa.Table | None]:
        """The state as JSON-able values and a table, for `load`."""
        held = self._gather()
        state = {"size": self.size, "window": self.window, "priorities": self._priorities.tolist()}
        if held is None:
            return state, None
        state |= {"begin": held.begin.tolist(), "end": held.end.tolist(), "ids": held.ids.tolist()}
        return state, held.table

    @classmethod
    def load(cls, state: dict[str, Any], table: pa.Table | None) -> WindowSample:
        """A sample from what `dump` gave."""
        try:
            sample = cls(state["size"], state["window"])
            sample._priorities = np.array(state["priorities"], dtype=np.float64)
            sample._count = len(sample._priorities)
            sample._limit = max(8 * sample.size, 2 * sample._count)
            if table is not None:
                times = [np.array(state[key], dtype=np.int64) for key in ("begin", "end", "ids")]
                sample._held = Sample(table, times[0], times[1], times[2])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a sample: {error!r}; start with new statistics") from error
        return sample


def _concat(tables: list[pa.Table]) -> pa.Table:
    if not tables[0].num_columns:
        return tables[0]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def estimate_pairs(
    left: Sample, right: Sample, passes: Passes, *, within: float | None = None, ordered: bool = False
) -> Estimate | None:
    """The share of pairs of a left and a right event that pass; None if there is no pair.

    Counted are pairs that could be in one match: of two different events, in a window of `within`, and if `ordered`,
    the left one before the right one. Values often depend on time (prices drift), so these are the pairs that matter.
    Only where the samples hold too few of them are all pairs counted.

    Each event of one random sample is paired with each of the other. Such pairs share events and are not independent of
    each other, so the variance is not just p(1-p)/n; it is that of a two-sample U-statistic: how much the share differs
    between left events, and between right events.
    """
    different = left.ids[:, None] != right.ids[None, :]
    counted = different
    if ordered:
        counted = counted & (left.end[:, None] < right.begin[None, :])
        if within is not None:
            counted &= right.end[None, :] - left.begin[:, None] < within
    elif within is not None:
        last = np.maximum.outer(left.end, right.end)
        counted = counted & (last - np.minimum.outer(left.begin, right.begin) < within)
    number = int(np.count_nonzero(counted))
    if number < ENOUGH_PAIRS:
        counted, number = different, int(np.count_nonzero(different))
    if not number:
        return None
    x = np.repeat(np.arange(len(left)), len(right))
    y = np.tile(np.arange(len(right)), len(left))
    passed = passes(Chosen(left, x), Chosen(right, y)).reshape(counted.shape) & counted
    found = share(float(np.count_nonzero(passed)), number)
    spread = sum(_variance_of_mean(counted.sum(axis=k), passed.sum(axis=k)) for k in (0, 1))
    return Estimate(found.value, max(found.variance, spread - found.variance))  # chance is in both of the two


def _variance_of_mean(sizes: Int64s, hits: Int64s) -> float:
    """The variance of a mean over groups (the pairs of each event on one side), from how the groups differ."""
    groups = int(np.count_nonzero(sizes))
    if groups < 2:
        return 0.0
    total = sizes.sum()
    errors = hits - sizes * (hits.sum() / total)
    return float((errors**2).sum() / total**2 * groups / (groups - 1))
