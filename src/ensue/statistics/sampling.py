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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
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


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is looked at: what it costs, and how sure the estimates are.

    `error` bounds the relative error of counts. `size` events a variable are kept as its sample, and as many of each
    type drawn each time; that is once in `every` events, at the start more often. `pairs` of a condition on two events
    are asked.
    """

    error: float = 0.05
    size: int = 128
    pairs: int = 4096
    every: int = 131_072
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some events: a table of the columns that conditions name, their times, and numbers that tell them apart.

    `columns` is for whoever evaluates conditions, to keep what was read from the table.
    """

    table: pa.Table
    begin: Int64s
    end: Int64s
    ids: Int64s
    columns: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.end)

    @property
    def are_moments(self) -> bool:
        """Whether no event lasts: begins and ends are one and the same."""
        return self.begin is self.end

    def take(self, places: Int64s) -> Sample:
        """The events at these places."""
        table = self.table.take(pa.array(places)) if self.table.num_columns else self.table
        end = self.end[places]
        return Sample(table, end if self.are_moments else self.begin[places], end, self.ids[places])

    def join(self, later: Sample) -> Sample:
        """These events and later ones."""
        table = self.table
        if table.num_columns:
            table = pa.concat_tables([table, later.table], promote_options="permissive").combine_chunks()
        begin = end = np.concatenate([self.end, later.end])
        if not (self.are_moments and later.are_moments):
            begin = np.concatenate([self.begin, later.begin])
        return Sample(table, begin, end, np.concatenate([self.ids, later.ids]))


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Events of a sample by their places in it, in any order and as often as wanted: one side of a row of pairs."""

    sample: Sample
    places: Int64s

    def __len__(self) -> int:
        return len(self.places)

    @property
    def begin(self) -> Int64s:
        """Their begins."""
        return self.sample.begin[self.places]

    @property
    def end(self) -> Int64s:
        """Their ends."""
        return self.sample.end[self.places]

    def take(self, places: Int64s) -> Chosen:
        """Those at these places among them."""
        return Chosen(self.sample, self.places[places])

    def in_rows(self, bounds: Sequence[tuple[float, float]], most: int) -> Rows:
        """Those that end after one time and up to another, at most so many from all over, a row for each such stretch.

        They are in order of time.
        """
        found = []
        for start, stop in bounds:
            first, last = np.searchsorted(self.end, (start, stop), side="right").tolist()
            size = min(last - first, most)
            found.append(self.places[first + np.arange(size) * (last - first) // max(size, 1)])
        numbers = np.array(list(map(len, found)), dtype=np.int64)
        places = np.zeros((len(found), max(1, int(numbers.max(initial=0)))), dtype=np.int64)
        for row, own in zip(places, found, strict=True):
            row[: len(own)] = own
        return Rows(self.sample, places, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Events of a sample in rows, a row for each stretch of time; the first `numbers[k]` places of it are of events."""

    sample: Sample
    places: Int64s
    numbers: Int64s

    @property
    def down(self) -> Chosen:
        """Each row as a column."""
        return Chosen(self.sample, self.places[:, :, None])

    @property
    def across(self) -> Chosen:
        """Each row as a row."""
        return Chosen(self.sample, self.places[:, None, :])

    @property
    def are_events(self) -> Mask:
        """Which places are of events."""
        found: Mask = np.arange(self.places.shape[1]) < self.numbers[:, None]
        return found


Events: TypeAlias = Mapping[str, Chosen]
"""For each variable of a condition the events to ask it about: as many of each, or a column and a row of places."""

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
    many uniform numbers are drawn as what they are, one below the other, so that it costs `most` steps and not `count`;
    and they are spread over time as evenly as can be. Priorities are logarithms: at most 0.

    >>> places, priorities = draw(50, 1000, 3, np.random.default_rng(0))
    >>> len(set(places.tolist())), bool((priorities < 0).all())
    (3, True)
    """
    size = min(held, most)
    left = count - np.arange(size, dtype=np.float64)
    priorities = np.cumsum(np.log1p(-random.random(size)) / left)
    return scatter(0, held, size, random), random.permutation(priorities)


class WindowSample:
    """A uniform sample of at most `size` of the events that came in the last `window` steps of time (None: ever).

    It knows events by places in a pool that others keep. An event that `size` later events exceed in priority can never
    be in the sample again and is forgotten; about size · (1 + log(n / size)) of n events are held.
    """

    __slots__ = ("_limit", "ends", "places", "priorities", "size", "window")

    def __init__(self, size: int, window: int | None) -> None:
        self.size = size
        self.window = window
        self.places: Int64s = np.empty(0, dtype=np.int64)
        self.ends: Int64s = np.empty(0, dtype=np.int64)
        self.priorities: Floats = np.empty(0)
        self._limit = 4 * size

    def __len__(self) -> int:
        """How many events are held."""
        return len(self.places)

    def add(self, places: Int64s, ends: Int64s, priorities: Floats) -> None:
        """Take in events that are later than those before, with their priorities.

        If they are the highest of a batch with at least `size` of them, the sample is uniform over all batches. A
        batch that gives fewer than it could (few of those drawn pass the variable's own conditions) counts for as many
        as it gives.
        """
        self.places = np.concatenate([self.places, places])
        self.ends = np.concatenate([self.ends, ends])
        self.priorities = np.concatenate([self.priorities, priorities])
        if len(self.places) > self._limit:
            self._forget()

    def _forget(self) -> None:
        """Let go of the events that can never be in the sample again, some at a time from the latest to the first."""
        first = 0 if self.window is None else int(np.searchsorted(self.ends, self.ends[-1] - self.window, "right"))
        priorities = self.priorities
        stop = len(priorities)
        kept = [np.arange(max(first, stop - self.size), stop)]
        best = priorities[kept[0]]  # the `size` highest of those that are later than `stop`
        stop -= self.size
        while stop > first:
            some = np.arange(max(first, stop - self.size), stop)
            some = some[priorities[some] > best.min()]
            kept.append(some)
            best = np.sort(np.concatenate([best, priorities[some]]))[-self.size :]
            stop -= self.size
        self._hold(np.concatenate(kept[::-1]))
        self._limit = max(4 * self.size, 2 * len(self.places))

    def _hold(self, chosen: Int64s | Mask) -> None:
        self.places, self.ends, self.priorities = self.places[chosen], self.ends[chosen], self.priorities[chosen]

    def at(self, now: int) -> Int64s:
        """The places of the sample of the window that ends at `now`, in order of time."""
        edge = NULL if self.window is None else max(now - self.window, NULL)
        first = int(np.searchsorted(self.ends, edge, side="right"))
        count = len(self.places) - first
        if count <= self.size:
            return self.places[first:]
        highest = np.argpartition(self.priorities[first:], count - self.size)[count - self.size :]
        return self.places[np.sort(highest) + first]

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        held = {"places": self.places.tolist(), "ends": self.ends.tolist(), "priorities": self.priorities.tolist()}
        return {"size": self.size, "window": self.window, "limit": self._limit, **held}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> WindowSample:
        """A sample from what `dump` gave."""
        try:
            sample = cls(state["size"], state["window"])
            sample._limit = int(state["limit"])
            sample.places = np.array(state["places"], dtype=np.int64)
            sample.ends = np.array(state["ends"], dtype=np.int64)
            sample.priorities = np.array(state["priorities"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a sample: {error!r}; start with new statistics") from error
        return sample


@dataclass(frozen=True, eq=False)
class AskedPairs:
    """Pairs of a left and a right event, by their places among those to choose from, and which of them pass."""

    left: Int64s
    right: Int64s
    passed: Mask

    @cached_property
    def _tallies(self) -> tuple[tuple[Int64s, Int64s], tuple[Int64s, Int64s]]:
        """Of each left and each right event how many pairs there are, and how many of them pass."""
        passed = np.flatnonzero(self.passed)
        left, right = (
            (seen := np.bincount(side), np.bincount(side[passed], minlength=len(seen)))
            for side in (self.left, self.right)
        )
        return left, right

    @property
    def share(self) -> Estimate:
        """The share that passes, as if pairs had nothing to do with each other."""
        return share(float(np.count_nonzero(self.passed)), len(self.passed))

    @property
    def estimate(self) -> Estimate:
        """The share that passes.

        Such pairs share events and are not independent of each other, so the variance is not just p(1-p)/n; it is that
        of a two-sample U-statistic: how much the share differs between left events, and between right events.
        """
        found = self.share
        spread = sum(_variance_of_mean(seen, passed) for seen, passed in self._tallies)
        return Estimate(found.value, max(found.variance, spread - found.variance))  # chance is in both of the two

    def shares(self, events: int, *, right: bool) -> Floats:
        """For each of so many events on one side, the share of its pairs that pass; NaN for one without a pair."""
        seen, passed = self._tallies[right]
        found = np.full(events, np.nan)
        np.divide(passed, seen, out=found[: len(seen)], where=seen > 0)
        return found


_ALONE = 2.0
"""So many events that pass on both sides are added as if the two sides had nothing to do with each other."""


def estimate_joint(one: Floats, other: Floats) -> float:
    """How many times as often both of two conditions hold as their shares let expect; NaN if nothing is known.

    `one` and `other` are, for the same events, the shares of pairs with others that pass, or NaN. In `x < y AND y < z`
    a large y passes with many x and few z: both hold for fewer triples than the product of the two shares says.

    Few events that pass at all say little: what they say is drawn towards 1.

    >>> round(estimate_joint(np.array([0.0, 1.0] * 50), np.array([0.0, 0.5] * 50)), 2)
    1.93
    """
    known = ~(np.isnan(one) | np.isnan(other))
    one, other = one[known], other[known]
    squares = float(one @ one) * float(other @ other)
    if squares == 0.0:
        return math.nan
    product = float(one.sum()) * float(other.sum())
    both = float(one @ other) * len(one) / product
    # Of how many events the passing ones are, on either side, and of how many both would be by chance.
    passing = product**2 / squares / len(one)
    return (both * passing + _ALONE) / (passing + _ALONE)


def ask_pairs(
    left: Chosen,
    right: Chosen,
    passes: Passes,
    *,
    within: float | None = None,
    ordered: bool = False,
    most: int = 4096,
) -> AskedPairs | None:
    """Which pairs of a left and a right event pass; None if there is no pair. Both are in order of time.

    Counted are pairs that could be in one match: of two different events, in a window of `within`, and if `ordered`,
    the left one before the right one. Values often depend on time (prices drift), so these are the pairs that matter.
    Only where the samples hold too few of them are all pairs counted. `most` of them are asked, spread evenly.
    """
    x, y = _near_pairs(left, right, within, ordered, most)
    if not (ordered and left.sample.are_moments and right.sample.are_moments):  # else all that are near could
        x, y = _could_match(left, right, x, y, within, ordered)
    if len(x) < min(ENOUGH_PAIRS, most // 4):
        x, y = spread_pairs(np.zeros(len(left), np.int64), np.full(len(left), len(right)), most)
        x, y = _could_match(left, right, x, y, None, False)
    if not len(x):
        return None
    return AskedPairs(x, y, passes(left.take(x), right.take(y)))


def _near_pairs(left: Chosen, right: Chosen, within: float | None, ordered: bool, most: int) -> tuple[Int64s, Int64s]:
    """Pairs of which the right event ends in reach of the left one."""
    low, high = _reach(left, right, within, ordered)
    return spread_pairs(low, np.maximum(high, low), most)


def _reach(left: Chosen, right: Chosen, within: float | None, ordered: bool) -> tuple[Int64s, Int64s]:
    """For each left event the stretch of right ones that end in reach of it."""
    ends, times = right.end, left.end
    reach = float("inf") if within is None else within
    low = np.searchsorted(ends, times if ordered else times - reach, side="right")
    return low, np.searchsorted(ends, times + reach, side="left")


_GOLDEN = 0.6180339887498949
"""Multiples of it, whole parts taken off, lie evenly between 0 and 1 however many they are."""


def spread_pairs(low: Int64s, high: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """At most `most` of the pairs (i, j) with low[i] <= j < high[i], one of each stretch of a length.

    Not at even distances: those would be pairs with the same few j again and again.
    """
    sizes = high - low
    bounds = np.cumsum(sizes)
    total = int(bounds[-1]) if len(bounds) else 0
    if total <= most:
        number = np.arange(total)
    else:
        number = (_spread(most) * (total / most)).astype(np.int64)
        sizes = np.diff(np.searchsorted(number, bounds), prepend=0)  # how many of each i are among them
    return np.repeat(np.arange(len(low)), sizes), number + np.repeat(high - bounds, sizes)


@lru_cache(maxsize=8)
def _spread(most: int) -> Floats:
    """Numbers from 0 on, one in each unit of length."""
    places = np.arange(most)
    found: Floats = places + places * _GOLDEN % 1.0
    return found


def _could_match(
    left: Chosen, right: Chosen, x: Int64s, y: Int64s, within: float | None, ordered: bool
) -> tuple[Int64s, Int64s]:
    """The pairs that are of two different events that fit into one match."""
    counted = _fit(left.take(x), right.take(y), within, ordered)
    return x[counted], y[counted]


def _fit(one: Chosen, other: Chosen, within: float | None, ordered: bool) -> Mask:
    """Which of some pairs are of two different events that fit into one match."""
    fits: Mask = one.sample.ids[one.places] != other.sample.ids[other.places]
    if ordered:
        fits &= one.end < other.begin
    if within is not None:
        begin = np.minimum(one.begin, other.begin)
        fits &= np.maximum(one.end, other.end) - begin < within
    return fits


Near: TypeAlias = Callable[[Rows, Rows, float, bool], Mask]
"""Which moments could be in one match: `near`, or a loop that is compiled."""


def near(left: Rows, right: Rows, within: float, ordered: bool) -> Mask:
    """Of each row which pairs of two different events lie in one window, if `ordered` the left one first."""
    return _fit(left.down, right.across, within, ordered) & _of_events(left, right)


def _of_events(left: Rows, right: Rows) -> Mask:
    return left.are_events[:, :, None] & right.are_events[:, None, :]


def ask_all_pairs(
    left: Rows,
    right: Rows,
    passes: Passes,
    *,
    within: float | None = None,
    ordered: bool = False,
    near: Near = near,
) -> tuple[Mask, Mask]:
    """Of all pairs of each row: which could be in one match (see `ask_pairs`), and which pass as well.

    There is a matrix for each row, with a row for each left event and a column for each right one.
    """
    one, other = left.down, right.across
    if left.sample.are_moments and right.sample.are_moments:
        could = near(left, right, math.inf if within is None else within, ordered)
    else:
        could = _fit(one, other, within, ordered) & _of_events(left, right)
    if np.count_nonzero(could) < ENOUGH_PAIRS:
        could = _fit(one, other, None, False) & _of_events(left, right)
    return could, could & passes(one, other)


def _variance_of_mean(sizes: Int64s, hits: Int64s) -> float:
    """The variance of a mean over groups (the pairs of each event on one side), from how the groups differ."""
    groups = int(np.count_nonzero(sizes))
    if groups < 2:
        return 0.0
    number = int(sizes.sum())
    errors = hits - sizes * (int(hits.sum()) / number)
    return float((errors @ errors) / number**2 * groups / (groups - 1))
