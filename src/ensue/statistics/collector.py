"""Statistics of a stream for one query, kept up to date batch by batch at next to no cost.

Of every event only the type is counted. All else comes from samples: now and then some events of each type are drawn
and asked the conditions of their variables; those that pass are kept for pairs, which are asked when somebody takes a
snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.errors import StateError
from ensue.events.batch import EventBatch, Int32s, Int64s, plain_text
from ensue.events.schema import Schema
from ensue.pattern.query import Query, TimeWindow
from ensue.pattern.types import fold_duration
from ensue.statistics.asking import Asker, Evaluate
from ensue.statistics.conditions import Conditions, Pair, Triple, find_conditions
from ensue.statistics.estimates import Estimate, share
from ensue.statistics.histogram import ExponentialHistogram
from ensue.statistics.rates import Rates, count_expired
from ensue.statistics.sampling import Chosen, Floats, Mask, Sample, Sampling, WindowSample, draw, scatter
from ensue.statistics.snapshot import Statistics
from ensue.statistics.together import NUMPY, Arithmetic, Tallies

_FORMAT = 3
_FIRST = 4096
"""After so many events the first are sampled; then each time as many as have come three times over, up to `every`."""
_SOME = 8192
"""How many events of all types are looked at to find some of each; those of a rare type are searched for."""
_MORE = 8
"""How many times as many are drawn at most where few pass."""
_PARTS = 4
"""Samples are renewed when time has moved on by one part in so many of the window, not at each snapshot."""

_YOUNG = 12.0
"""Until counts of what several events have to do with each other are of so many windows, they are made at each look: of
eight variables four windows may be several times off, and decisions that see nothing else would hold to that."""
_BURST = 4.0
"""For how many windows counts stand where events are slow and nothing else shows that the stream has changed."""
_CHANGED, _SURELY = 0.25, 4.0
"""By what share of what is expected, and how many standard deviations more, a count of events must be off to tell that
the stream has changed."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back statistics look: so many of the query's `windows`, and at least at `events` events a type.

    Fewer events would say little, and many more would hide what has changed. Right after a change it is not even looked
    at so many windows, but at what came since. While nothing seems to have changed, it is looked at all events since
    the last time that something did, up to `calm` times as many.
    """

    windows: float = 4.0
    events: int = 256
    calm: int = 8


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
        self.last = 0.5  # the share of those that were drawn last

    @classmethod
    def load(cls, seen: dict[str, Any], passed: dict[str, Any], last: float) -> _Passing:
        found = cls(ExponentialHistogram.load(seen), ExponentialHistogram.load(passed))
        found.last = float(last)
        return found

    def add(self, first: int, last: int, passed: Mask) -> None:
        self.seen.add_span(first, last, len(passed))
        count = int(np.count_nonzero(passed))
        self.passed.add_span(first, last, count)
        self.last = count / max(len(passed), 1)

    def at(self, now: int) -> Estimate | None:
        seen = self.seen.estimate(now)
        return share(min(self.passed.estimate(now), seen), seen) if seen > 0 else None


class Collector:
    """Watches a stream for a query: `observe` each batch, in order of time, and take a `snapshot` when one is wanted.

    `window` is how far back it looks: a time in the time column's units (infinity: to the start), or a `Reach`; for a
    query whose window is not a time, all of the past. The same stream in the same batches gives the same snapshots;
    `ensue.statistics.sampling` says why that matters.
    """

    def __init__(
        self,
        query: Query,
        schema: Schema,
        evaluate: Evaluate,
        *,
        window: float | Reach | None = None,
        sampling: Sampling | None = None,
        arithmetic: Arithmetic = NUMPY,
    ) -> None:
        self.query = query
        self.sampling = sampling or Sampling()
        self._conditions: Conditions = find_conditions(query)
        self._columns = list(self._conditions.columns(schema))
        self._within = query_window(query, schema)
        self._asker = Asker(self._conditions, evaluate, self._within, self.sampling, arithmetic)
        self._reach = Reach() if window is None else window if isinstance(window, Reach) else None
        self._since = 0  # how many events have been counted since the stream changed, as far as is known
        self._turned: int | None = None  # the time from which on it is the stream that it is now; None: not known
        self._is_turning = False  # that was just before the events that are counted next end
        self._other_since: int | None = None  # that was then, as is known of events that have not been counted
        if isinstance(window, Reach) or window is None:
            window = math.inf if self._within is None else max(1.0, self._shortest())
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
        self._glanced: dict[str, Estimate] | None = None  # the rates, if they have been asked since the last events
        self._pool: Sample | None = None  # the events that the samples are of
        self._pending: list[EventBatch] = []  # that have not been sampled
        self._counted = 0  # how many of these have been counted
        self._waiting = 0
        self._chunks = 0
        self._events = 0
        self._shares: _Shares | None = None
        self._implied: dict[Pair, Estimate] = {}
        self._together: dict[tuple[str, ...], Estimate] = {}
        self._tallies: Tallies | None = None  # what these rest on, since the stream changed
        self._tallied = 0  # when that was counted last

    def _shortest(self) -> float:
        assert self._reach is not None and self._within is not None
        return self._reach.windows * self._within

    def turn(self, since: int | None = None, *, just_now: int | None = None, surely: bool = False) -> None:
        """Take the stream for another one: what was before the statistics that are known tells little of it.

        If it is known `since` when, nothing before that does. If it was `just_now`, at that time, these do not either,
        nor the first of the events that have not been looked at; but not if it has been taken for another one a few
        windows ago, or in the last one if it `surely` has changed: to begin again and again is to know nothing.
        """
        self._since = 0
        if since is not None:
            self._other_since = since if self._other_since is None else min(self._other_since, since)
            return
        latest, window = self._rates.latest, self._rates.window
        if self._reach is None or self._within is None or latest is None or window is None:
            return
        least = self._within if surely else self._shortest()
        if just_now is not None and (self._turned is None or just_now - self._turned >= least):
            self._is_turning = True
            if self._tallies is not None:  # events may also be slow in a burst, as there were others before
                self._tallies = None if surely else self._tallies.fade(_BURST)
        start = latest - window + 1
        self._turned = start if self._turned is None else max(self._turned, start)

    @property
    def turned(self) -> int | None:
        """The time from which on the stream is taken to be what it is now; None: it has not changed."""
        return self._turned

    @property
    def window(self) -> int | None:
        """How far back it looks; None: to the start."""
        return self._rates.window

    @property
    def windows(self) -> float:
        """How many windows of the query have been looked at since the stream changed, as far as that is known."""
        latest = self._rates.latest
        if self._within is None or latest is None:
            return 0.0
        covered = self._rates.covered(latest) / self._within
        if self._tallies is None or not len(self._tallies.windows):
            return covered
        counted = float(self._tallies.windows.mean())
        return counted if counted > 1.0 else min(counted, covered)

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

    def _count(self) -> None:
        """Count the batches that have come since the last time."""
        fresh = self._pending[self._counted :]
        if not fresh:
            return
        self._counted = len(self._pending)
        end, codes, names = _put_together(fresh)
        if self._reach is not None and self._within is not None:
            is_asked = np.array([name in self._rates.counts for name in names])
            number = int(np.count_nonzero(is_asked[codes]))
            span = int(end[-1]) - int(end[0]) + 1
            if self._has_changed(codes, names, span):
                self._is_turning, self._tallies = True, None
            least = self._reach.events * len(self._rates.counts)
            if self._other_since is not None:
                self._fit_window(number, span, max(1, int(end[-1]) - self._other_since + 1), least)
                self._since, self._turned, self._is_turning = 0, self._other_since, False
                self._other_since = self._tallies = None
            elif self._is_turning:
                self._fit_window(number, span, 1.0, least)
                assert self._rates.window is not None
                self._since, self._turned, self._is_turning = 0, int(end[-1]) - self._rates.window + 1, False
            else:
                self._since += number
                back = math.inf if self._turned is None else int(end[-1]) - self._turned + 1
                many = max(least, min(self._since, self._reach.calm * least))
                self._fit_window(number, span, min(back, self._shortest()), many)
        self._rates.observe(end, codes, names)
        self._glanced = None

    def has_changed(self, batch: EventBatch) -> bool:
        """Whether the types of some events come much more or less often than they did, as far as these can tell."""
        span = int(batch.end[-1]) - int(batch.end[0]) + 1 if len(batch) else 0
        return self._has_changed(batch.type_codes, batch.type_names, span)

    def _has_changed(self, codes: Int32s, names: list[str], span: int) -> bool:
        """Whether some events that have come in a time are, for a type, far more or fewer than its rate says."""
        if self._rates.latest is None:
            return False
        counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
        if self._glanced is None:
            self._glanced = self._rates.at(self._rates.latest)
        for name, rate in self._glanced.items():
            expected = span * rate.value
            deviation = math.sqrt(max(expected, 1.0) + span**2 * rate.variance)
            if abs(counts.get(name, 0) - expected) > _CHANGED * expected + _SURELY * deviation:
                return True
        return False

    def expect(self, time: float) -> int:
        """How many events are expected in a time."""
        latest = self._rates.latest
        return 0 if latest is None else math.ceil(time * sum(rate.value for rate in self._rates.at(latest).values()))

    def _fit_window(self, number: int, span: int, shortest: float, least: int) -> None:
        """Look back at least `shortest`, and so far that there are `least` events, before some are counted."""
        have, now = self._rates.window, self._rates.latest
        assert have is not None
        needed = math.inf
        if number >= least:
            needed = least * span / number
        elif now is not None and (rate := sum(found.value for found in self._rates.at(now).values())) > 0:
            needed = span + (least - number) / rate
        wanted = math.ceil(min(max(shortest, needed), 2.0**62))
        if not have <= 2 * wanted <= 2 * have:
            self._rates.look_back(wanted)
            for passing in self._passing.values():
                passing.seen.look_back(wanted, now)
                passing.passed.look_back(wanted, now)
            for sample in self._samples.values():
                sample.window = wanted

    def _settle(self) -> None:
        """Count and sample the batches that have been put together."""
        if not self._pending:
            return
        self._count()
        chunk = self._gather()
        self._pending, self._waiting, self._counted = [], 0, 0
        self._shares = None
        random = np.random.default_rng([self.sampling.seed, self._chunks])
        start = count_expired(chunk.end, self.window)
        some = scatter(start, len(chunk.end), _SOME, random)
        kinds = chunk.codes[some]
        drawn = []
        for kind, variables in self._asked:
            if variables and kind in chunk.names:
                place = chunk.names.index(kind)
                size = self._number_to_draw(variables)
                rows = some[kinds == place]
                count = len(rows) * (len(chunk.end) - start) // len(some)
                if len(rows) < size and len(some) < len(chunk.end) - start:  # rare: look everywhere
                    rows = start + np.flatnonzero(chunk.codes[start:] == place)
                    count = len(rows)
                if len(rows):
                    places, priorities = draw(len(rows), count, size, random)
                    drawn.append((variables, rows[places], priorities))
        if drawn:
            self._sample(chunk, drawn)
        self._chunks += 1
        self._events += len(chunk.end)

    def _number_to_draw(self, variables: Sequence[str]) -> int:
        """How many of a type to draw: more where few of them pass a variable's own conditions."""
        size = self.sampling.size
        if not any(name in self._passing and name in self._samples for name in variables):
            return size
        seen = [self._passing[name].last for name in variables if name in self._passing]
        return min(_MORE * size, math.ceil(size / max(min(seen), 1 / _MORE)))

    def _gather(self) -> _Chunk:
        end, codes, names = _put_together(self._pending)
        begin = end
        if any(batch.begin is not batch.end for batch in self._pending):
            begin = np.concatenate([batch.begin for batch in self._pending])
        tables = [batch.table.select(self._columns) for batch in self._pending]
        return _Chunk(tables[0] if len(tables) == 1 else pa.concat_tables(tables), begin, end, codes, names)

    def _sample(self, chunk: _Chunk, drawn: Sequence[tuple[Sequence[str], Int64s, Floats]]) -> None:
        """Ask what was drawn of each type the conditions of the type's variables; each gets those that pass."""
        rows = np.concatenate([one for _, one, _ in drawn])
        table = plain_text(chunk.table.take(pa.array(rows))) if self._columns else chunk.table.slice(0, 0)
        end = chunk.end[rows]
        begin = end if chunk.begin is chunk.end else chunk.begin[rows]
        events = Sample(table, begin, end, rows + self._events)
        held = 0 if self._pool is None else len(self._pool)
        start = 0
        for variables, own, priorities in drawn:
            places = np.arange(start, start + len(own))
            start += len(own)
            for name in variables:
                mine, high = places, priorities
                conditions = self._conditions.local.get(name, ())
                if conditions:
                    passed = self._asker.all_pass(conditions, {name: Chosen(events, places)})
                    self._passing[name].add(int(chunk.end[0]), int(chunk.end[-1]), passed)
                    mine, high = places[passed], priorities[passed]
                if name in self._samples:
                    self._samples[name].add(held + mine, events.end[mine], high)
        self._pool = events if self._pool is None else self._pool.join(events)
        self._tidy_pool()

    def _tidy_pool(self) -> None:
        """Let go of the events that no sample holds, once they are most of the pool."""
        assert self._pool is not None
        samples = list(self._samples.values())
        if not samples:
            self._pool = None
        elif len(self._pool) > 2 * sum(map(len, samples)) + self.sampling.size:
            held = np.unique(np.concatenate([sample.places for sample in samples]))
            self._pool = self._pool.take(held)
            for sample in samples:
                sample.places = np.searchsorted(held, sample.places)

    # -- what is known -----------------------------------------------------------------------------------------------
    def snapshot(self, now: int | None = None, *, closely: bool = True) -> Statistics:
        """The statistics of the window that ends at `now`, at the last event if it is not given.

        Rates are those of this moment. Shares are asked anew once time has moved on by a part of the window; what
        conditions imply, of which there is much, only if it is looked `closely`, or if little is known of it: after the
        stream has changed, what it was before misleads, and so does what was counted in the first moments.
        """
        self._count()
        latest = self._rates.latest
        if latest is None:
            return Statistics.uniform(self.query)
        now = latest if now is None else max(now, latest)
        shares = self._shares
        if shares is None or _PARTS * (now - shares.at) >= max(1, self._rates.covered(now)):
            self._settle()
            shares = self._shares = self._ask(now)
        if not shares.is_close and (closely or self._is_young):
            self._look_closely(shares)
        covered, rates = float(self._rates.covered(now)), self._rates.at(now)
        asked = shares.local, shares.pairs, now, shares.triples
        return Statistics(covered, rates, *asked, self._implied, self._together)

    @property
    def _is_young(self) -> bool:
        """Whether what several events have to do with each other has been counted in a few windows at most."""
        return self._tallies is None or float(self._tallies.windows.max(initial=0.0)) < _YOUNG

    def _look_closely(self, shares: _Shares) -> None:
        """Count what conditions imply, and how often those of several events hold, and add it to what was before."""
        shares.is_close = True
        if self._tallies is not None and shares.at <= self._tallied:
            return  # taken up again, and nothing has come since
        counted = self._asker.count_closely(shares.events)
        if counted is not None and counted[0].seen.any():
            tallies, span = counted
            if self._tallies is not None and math.isfinite(span):  # else it is of all events, those of before as well
                tallies = self._tallies.then(tallies, min(1.0, (shares.at - self._tallied) / span))
            self._tallies, self._tallied = tallies, shares.at
            self._implied, self._together = self._asker.tell_closely(tallies, shares.pairs, shares.triples)

    def _ask(self, now: int) -> _Shares:
        local = {name: passing.at(now) for name, passing in self._passing.items()}
        pool, samples = self._pool, self._samples
        events = {} if pool is None else {name: Chosen(pool, sample.at(now)) for name, sample in samples.items()}
        asked = self._asker.ask_pairs(events) if events else {}
        return _Shares(
            now,
            {name: found for name, found in local.items() if found is not None},
            {pair: one.estimate for pair, one in asked.items()},
            self._asker.join_shares(asked, events),
            events,
        )

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`."""
        self._settle()
        pool = self._pool
        state = {
            "format": _FORMAT,
            "query": str(self.query),
            "chunks": self._chunks,
            "events": self._events,
            "since": self._since,
            "turned": [self._turned, self._is_turning, self._other_since],
            "rates": self._rates.dump(),
            "passing": {name: [one.seen.dump(), one.passed.dump(), one.last] for name, one in self._passing.items()},
            "samples": {name: sample.dump() for name, sample in self._samples.items()},
            "implied": [[*pair, found.value] for pair, found in self._implied.items()],
            "together": [[list(names), found.value] for names, found in self._together.items()],
            "tallies": None if self._tallies is None else [self._tallied, self._tallies.dump()],
        }
        if pool is None:
            return state, []
        times = pa.table({"begin": pool.begin, "end": pool.end, "id": pool.ids})
        return state, [times, pool.table]

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        """Take up what `dump` gave, of a collector of the same query."""
        if state.get("format") != _FORMAT or state.get("query") != str(self.query):
            raise StateError(
                f"these statistics belong to another query or version than `{self.query.name}`; start with new ones"
            )
        try:
            rates = Rates.load(state["rates"])
            passing = {name: _Passing.load(*state["passing"][name]) for name in self._passing}
            samples = {name: WindowSample.load(state["samples"][name]) for name in self._samples}
            chunks, events = int(state["chunks"]), int(state["events"])
            implied = {(x, y): Estimate(value) for x, y, value in state.get("implied", ())}
            together = {tuple(names): Estimate(value) for names, value in state.get("together", ())}
            tallied, tallies = state.get("tallies") or (0, None)
            pool = None
            if any(map(len, samples.values())):
                times, table = tables
                begin, end, ids = (times[name].to_numpy() for name in ("begin", "end", "id"))
                pool = Sample(table, end if np.array_equal(begin, end) else begin, end, ids)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"these are not a collector's statistics: {error!r}; start with new ones") from error
        self._rates, self._passing, self._samples, self._pool = rates, passing, samples, pool
        self._glanced = None
        self._since = int(state.get("since", 0))
        self._turned, self._is_turning, self._other_since = (*state.get("turned", (None, False)), None)[:3]
        self._chunks, self._events, self._implied, self._together = chunks, events, implied, together
        self._tallied, self._tallies = tallied, None if tallies is None else Tallies.load(tallies)
        self._pending, self._waiting, self._counted, self._shares = [], 0, 0, None


@dataclass(slots=True)
class _Shares:
    """What samples have told at a time, and whether they have been asked what conditions imply as well."""

    at: int
    local: Mapping[str, Estimate]
    pairs: Mapping[Pair, Estimate]
    triples: Mapping[Triple, Estimate]
    events: Mapping[str, Chosen]
    is_close: bool = False


def _put_together(batches: Sequence[EventBatch]) -> tuple[Int64s, Int32s, list[str]]:
    """The ends and types of some batches: `names[codes[i]]` is the type of row i."""
    if len(batches) == 1:
        return batches[0].end, batches[0].type_codes, batches[0].type_names
    known: dict[str, int] = {}
    codes = []
    for batch in batches:
        own = [known.setdefault(name, len(known)) for name in batch.type_names]
        same = own == list(range(len(own)))
        codes.append(batch.type_codes if same else np.array(own, dtype=np.int32)[batch.type_codes])
    return np.concatenate([batch.end for batch in batches]), np.concatenate(codes), list(known)


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
