"""Statistics of a stream for one query, kept up to date batch by batch at next to no cost.

Of every event only the type is counted. All else comes from samples: now and then some events of each type are drawn
and asked the conditions of their variables; those that pass are kept for pairs, which are asked when somebody takes a
snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ensue.errors import StateError
from ensue.events.batch import EventBatch, Int32s, Int64s, plain_text
from ensue.events.schema import Schema
from ensue.pattern.expressions import Expression
from ensue.pattern.query import Query, TimeWindow
from ensue.pattern.types import fold_duration
from ensue.statistics.conditions import Conditions, Pair, find_conditions, previous
from ensue.statistics.estimates import Estimate, share
from ensue.statistics.histogram import ExponentialHistogram
from ensue.statistics.rates import Rates, count_expired
from ensue.statistics.sampling import Chosen, Events, Mask, Sample, WindowSample, draw, estimate_pairs, scatter
from ensue.statistics.snapshot import Statistics

Evaluate: TypeAlias = Callable[[Expression, Events], Mask]
"""For which rows a condition is true: the evaluator's part, given to the collector so that it need not know it."""

_FORMAT = 2
_WINDOWS = 4
_FIRST = 4096
"""After so many events the first are sampled; then each time as many as have come three times over, up to `every`."""
_SOME = 8192
"""How many events of all types are looked at to find some of each; those of a rare type are searched for."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is looked at: what it costs, and how sure the estimates are.

    `error` bounds the relative error of counts. `size` events a variable are kept as its sample, and as many of each
    type drawn each time; that is once in `every` events, at the start more often.
    """

    error: float = 0.05
    size: int = 128
    every: int = 131_072
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Events of one or more batches in order: `names[codes[i]]` is the type of row i."""

    table: pa.Table
    begin: Int64s
    end: Int64s
    codes: Int32s
    names: list[str]


class _Passing:
    """How many of a variable's events that were drawn passed its own conditions, over the window."""

    def __init__(self, seen: ExponentialHistogram, passed: ExponentialHistogram) -> None:
        self.seen = seen
        self.passed = passed

    @classmethod
    def load(cls, seen: dict[str, Any], passed: dict[str, Any]) -> _Passing:
        return cls(ExponentialHistogram.load(seen), ExponentialHistogram.load(passed))

    def add(self, first: int, last: int, passed: Mask) -> None:
        self.seen.add_span(first, last, len(passed))
        self.passed.add_span(first, last, int(np.count_nonzero(passed)))

    def at(self, now: int) -> Estimate | None:
        seen = self.seen.estimate(now)
        return share(min(self.passed.estimate(now), seen), seen) if seen > 0 else None


class Collector:
    """Watches a stream for a query: `observe` each batch, in order of time, and take a `snapshot` when one is wanted.

    `window` is how far back it looks, in the time column's units (infinity: to the start). If it is not given it is
    four of the query's windows, or the time that `every` events take where that is longer (fewer would say little); for
    a query whose window is not a time, all of the past. The same stream in the same batches gives the same snapshots;
    `ensue.statistics.sampling` says why that matters.
    """

    def __init__(
        self,
        query: Query,
        schema: Schema,
        evaluate: Evaluate,
        *,
        window: float | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.query = query
        self.sampling = sampling or Sampling()
        self._evaluate = evaluate
        self._conditions: Conditions = find_conditions(query)
        self._columns = list(self._conditions.columns(schema))
        self._within = query_window(query, schema)
        self._may_widen = window is None
        if window is None:
            window = math.inf if self._within is None else max(1.0, _WINDOWS * self._within)
        back = math.ceil(window) if math.isfinite(window) else None
        paired = {name for pair in self._conditions.pairs for name in pair}
        error = self.sampling.error
        self._rates = Rates(query.types, back, error)
        self._passing = {
            name: _Passing(ExponentialHistogram(back, error), ExponentialHistogram(back, error))
            for name in self._conditions.local
        }
        self._samples = {name: WindowSample(self.sampling.size, back) for name in sorted(paired)}
        self._asked = tuple(  # the variables of each type of whose events something is asked
            (kind, tuple(v for v in names if v in self._passing or v in self._samples))
            for kind, names in _by_type(self._conditions.types).items()
        )
        self._pending: list[EventBatch] = []
        self._waiting = 0
        self._chunks = 0
        self._events = 0

    @property
    def window(self) -> int | None:
        """How far back it looks; None: to the start."""
        return self._rates.window

    @property
    def latest(self) -> int | None:
        """The time of the last event that came in."""
        return int(self._pending[-1].end[-1]) if self._pending else self._rates.latest

    # -- events ------------------------------------------------------------------------------------------------------
    def observe(self, batch: EventBatch) -> None:
        """Take in a batch of events that are no earlier than those before. Small batches are put together first."""
        if not len(batch):
            return
        if self._pending and not batch.table.schema.equals(self._pending[-1].table.schema):
            self._settle()
        self._pending.append(batch)
        self._waiting += len(batch)
        if self._waiting >= min(self.sampling.every, max(_FIRST, 3 * self._events)):
            self._settle()

    def skip(self) -> None:
        """Events have gone by unseen: the time up to those that come next is not counted in the rates."""
        self._settle()
        self._rates.skip()

    def _settle(self) -> None:
        """Count and sample the batches that have been put together."""
        if not self._pending:
            return
        chunk = self._gather()
        self._pending, self._waiting = [], 0
        if self._may_widen and self.window is not None:
            self._widen(int(chunk.end[-1]) - int(chunk.end[0]) + 1)
        counts = self._rates.observe(chunk.end, chunk.codes, chunk.names)
        start = count_expired(chunk.end, self.window)
        random = np.random.default_rng([self.sampling.seed, self._chunks])
        some = scatter(start, len(chunk.end), _SOME, random)
        kinds = chunk.codes[some]
        for kind, variables in self._asked:
            if variables and counts[kind]:
                place = chunk.names.index(kind)
                rows = some[kinds == place]
                if len(rows) < min(counts[kind], self.sampling.size):  # it is rare: look for it everywhere
                    rows = start + np.flatnonzero(chunk.codes[start:] == place)
                self._sample(chunk, rows, counts[kind], variables, random)
        self._chunks += 1
        self._events += len(chunk.end)

    def _gather(self) -> _Chunk:
        if len(self._pending) == 1:
            one = self._pending[0]
            return _Chunk(one.table.select(self._columns), one.begin, one.end, one.type_codes, one.type_names)
        codes: dict[str, int] = {}
        parts = []
        for batch in self._pending:
            own = [codes.setdefault(name, len(codes)) for name in batch.type_names]
            parts.append(np.array(own, dtype=np.int32)[batch.type_codes])
        table = pa.concat_tables([batch.table for batch in self._pending]).select(self._columns)
        begin = np.concatenate([batch.begin for batch in self._pending])
        end = np.concatenate([batch.end for batch in self._pending])
        return _Chunk(table, begin, end, np.concatenate(parts), list(codes))

    def _widen(self, window: int) -> None:
        if self.window is None or window <= self.window:
            return
        self._rates.widen(window)
        for passing in self._passing.values():
            passing.seen.window = passing.passed.window = window
        for sample in self._samples.values():
            sample.window = window

    def _sample(
        self, chunk: _Chunk, rows: Int64s, count: int, variables: Sequence[str], random: np.random.Generator
    ) -> None:
        """Draw from `rows`, which stand for all `count` of a type; each of its variables gets those that pass."""
        places, priorities = draw(len(rows), count, self.sampling.size, random)
        rows = rows[places]
        table = plain_text(chunk.table.take(pa.array(rows))) if self._columns else chunk.table.slice(0, 0)
        events = Sample(table, chunk.begin[rows], chunk.end[rows], rows + self._events)
        everything = np.arange(len(rows))
        for name in variables:
            own, high = events, priorities
            conditions = self._conditions.local.get(name, ())
            if conditions:
                passed = self._all(conditions, {name: Chosen(events, everything)}, len(rows))
                self._passing[name].add(int(chunk.end[0]), int(chunk.end[-1]), passed)
                own, high = events.take(np.flatnonzero(passed)), priorities[passed]
            if name in self._samples:
                self._samples[name].add(own, high)

    def _all(self, conditions: Sequence[Expression], events: Events, count: int) -> Mask:
        passed = np.ones(count, dtype=np.bool_)
        for condition in conditions:
            passed &= self._evaluate(condition, events)
        return passed

    # -- what is known -----------------------------------------------------------------------------------------------
    def snapshot(self, now: int | None = None) -> Statistics:
        """The statistics of the window that ends at `now`, at the last event if it is not given."""
        self._settle()
        latest = self._rates.latest
        if latest is None:
            return Statistics.uniform(self.query)
        now = latest if now is None else max(now, latest)
        local = {name: passing.at(now) for name, passing in self._passing.items()}
        samples = {name: sample.at(now) for name, sample in self._samples.items()}
        pairs = {(x, y): self._estimate((x, y), samples[x], samples[y]) for x, y in self._conditions.pairs}
        return Statistics(
            float(self._rates.covered(now)),
            self._rates.at(now),
            {name: found for name, found in local.items() if found is not None},
            {pair: found for pair, found in pairs.items() if found is not None},
            now,
        )

    def _estimate(self, pair: Pair, left: Sample | None, right: Sample | None) -> Estimate | None:
        if left is None or right is None:
            return None
        conditions = self._conditions.pairs[pair]
        # The left events are the earlier ones where there is an order.
        turned = pair not in self._conditions.before and pair[::-1] in self._conditions.before
        earlier, later = pair[::-1] if turned else pair
        first = previous(earlier) if earlier == later else earlier

        def passes(x: Chosen, y: Chosen) -> Mask:
            return self._all(conditions, {first: x, later: y}, len(x.places))

        return estimate_pairs(
            right if turned else left,
            left if turned else right,
            passes,
            within=self._within,
            ordered=(earlier, later) in self._conditions.before,
        )

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`."""
        self._settle()
        samples = {name: sample.dump() for name, sample in self._samples.items()}
        state = {
            "format": _FORMAT,
            "query": str(self.query),
            "chunks": self._chunks,
            "events": self._events,
            "rates": self._rates.dump(),
            "passing": {name: [one.seen.dump(), one.passed.dump()] for name, one in self._passing.items()},
            "samples": {name: [part, table is not None] for name, (part, table) in samples.items()},
        }
        return state, [table for _, table in samples.values() if table is not None]

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        """Take up what `dump` gave, of a collector of the same query."""
        if state.get("format") != _FORMAT or state.get("query") != str(self.query):
            raise StateError(
                f"these statistics belong to another query or version than `{self.query.name}`; start with new ones"
            )
        try:
            rest = iter(tables)
            rates = Rates.load(state["rates"])
            passing = {name: _Passing.load(*state["passing"][name]) for name in self._passing}
            samples = {}
            for name in self._samples:
                part, has_table = state["samples"][name]
                samples[name] = WindowSample.load(part, next(rest) if has_table else None)
            chunks, events = int(state["chunks"]), int(state["events"])
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise StateError(f"these are not a collector's statistics: {error!r}; start with new ones") from error
        self._rates, self._passing, self._samples = rates, passing, samples
        self._chunks, self._events = chunks, events
        self._pending, self._waiting = [], 0


def query_window(query: Query, schema: Schema) -> float | None:
    """The length of a query's window in the time column's units; None where it is not bounded in time."""
    if not isinstance(query.within, TimeWindow):
        return None
    length = fold_duration(query.within.duration, schema)
    return length if math.isfinite(length) else None


def _by_type(types: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for variable, kind in types.items():
        found.setdefault(kind, []).append(variable)
    return found
