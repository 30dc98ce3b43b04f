"""The engine: queries over a stream of events, in any batches, with snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.errors import LimitError, PlanError, StateError
from ensue.events.batch import EventBatch, Int64s
from ensue.events.intake import Intake
from ensue.events.schema import Schema, TimeUnit
from ensue.options import Options
from ensue.pattern.expressions import Duration
from ensue.pattern.query import Query
from ensue.planning.aggregates import Choice, dump_choice
from ensue.planning.common import common_leaves
from ensue.planning.plan import Plan
from ensue.runtime.adaptation import Adapt, read_adapt
from ensue.runtime.adapting import Adapter, Spent, TryOn
from ensue.runtime.adaptive_loop import AdaptiveLoop
from ensue.runtime.aggregate_rows import AggregateBlock
from ensue.runtime.aggregating import Tally, load_tallies, make_tallies, split_arenas, would_share_otherwise
from ensue.runtime.assembly import Store
from ensue.runtime.blocks import MatchBlock
from ensue.runtime.common import CommonLeaves
from ensue.runtime.compiling import (
    Queries,
    check_queries,
    make_evaluator,
    make_rival,
    plans_by_name,
    read_lateness,
    read_queries,
)
from ensue.runtime.counts import Counts
from ensue.runtime.evaluator import Evaluator, State
from ensue.runtime.feeding import Fed
from ensue.runtime.journal import Entry
from ensue.runtime.lanes import METHODS, Lane, Method, Swapped
from ensue.runtime.layout import NULL
from ensue.runtime.matches import Matches
from ensue.runtime.preparing import Reading
from ensue.runtime.rows import RowStore
from ensue.runtime.single import EventPath
from ensue.runtime.snapshot import pack, unpack
from ensue.runtime.strings import StringTable
from ensue.runtime.trying import Race, run_race

_TIDY_EVERY = 8192
_TIDY_SINGLES = 1024  # events that come one by one: the next one waits, so what is quickly done is done more often
_UNKNOWN: Any = object()


class Engine(Fed):
    """Runs queries over events as they come. Made by `ensue.compile`.

    >>> import ensue
    >>> engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10")
    >>> len(engine.push([{"type": "A", "ts": 1}])), len(engine.push([{"type": "B", "ts": 2}]))
    (0, 1)
    """

    def __init__(
        self,
        queries: Queries,
        schema: Schema | None = None,
        *,
        type: str = "type",
        ts: str = "ts",
        begin: str | None = None,
        unit: str | TimeUnit = TimeUnit.MS,
        lateness: int | str | timedelta | Duration = 0,
        strict: bool = False,
        options: Options | None = None,
        plan: Choice | Mapping[str, Choice] | None = None,
        adapt: Adapt | bool | None = None,
    ) -> None:
        self.queries = read_queries(queries)
        self.options = options or Options()
        self._plans = plans_by_name(self.queries, plan)
        check_queries(self.queries, schema)
        self._lateness = read_lateness(lateness)
        self._intake = Intake(
            schema,
            type=type,
            ts=ts,
            begin=begin,
            unit=TimeUnit(unit),
            lateness=self._lateness,
            strict=strict,
        )
        self._types = frozenset(name for query in self.queries for name in query.types)
        self._strings = StringTable()
        self._lanes: list[Lane] = []
        self._common = CommonLeaves()
        self._tallies: list[Tally] = []  # of AGG queries
        self._rates: dict[str, float] | None = None  # of types, when it was decided which of these share counters
        self._seconds = [0.0]  # in kernels, of all queries that have a plan
        self._loop = AdaptiveLoop(read_adapt(adapt), self._seconds)
        self._rows: RowStore | None = None
        self._ignored = 0
        self._matches = 0
        self._since_tidy = self._since_quick = 0
        self._taken = 0  # the next event's number
        self._singles = 0  # events that came one by one since the last look around
        self._pause = 0  # and how many may come before the next
        self._time: int | None = None  # that the evaluators have reached
        self._ended = False
        self._type_column = type if schema is None else schema.type
        self._paths: dict[Any, EventPath | None] = {}
        self._tried: dict[tuple[str, Plan], Evaluator] = {}  # of queries, at a check that is under way
        self._nothing = Matches([], None)
        if schema is not None:
            self._bind(schema)

    # -- what it is made of ------------------------------------------------------------------------------------------
    @property
    def counts(self) -> Counts:
        """What became of the events so far."""
        counts = self._intake.counts
        return Counts(
            received=counts.received,
            processed=counts.processed,
            late=counts.late,
            rejected=counts.rejected,
            held=counts.held,
            ignored=self._ignored,
            matches=self._matches,
            shed_matches=sum(state.shed_matches for _, state in self._pairs()),
            shed_partial_matches=sum(state.shed_partial for _, state in self._pairs()),
            planned=sum(adapter.planned for adapter in self._loop.adapters.values()),
            replaced=sum(adapter.replaced for adapter in self._loop.adapters.values()),
        )

    @property
    def kernel_seconds(self) -> float:
        """Time spent inside kernels."""
        return self._seconds[0] + sum(tally.evaluator.seconds[0] for tally in self._tallies)

    @property
    def adapting_seconds(self) -> Spent:
        """Processor time that went into keeping plans fit for the stream."""
        return self._loop.spent

    @property
    def state_bytes(self) -> int:
        """Memory of the state: buffers, partial matches, rows that may still be in a result."""
        rows = self._rows.nbytes if self._rows is not None else 0
        rows += sum(tally.nbytes for tally in self._tallies)
        return rows + self._common.nbytes + sum(state.arena.nbytes for _, state in self._pairs())

    def _pairs(self) -> list[tuple[Evaluator, State]]:
        return [pair for lane in self._lanes for pair in lane.pairs]

    def _bind(self, schema: Schema) -> None:
        """Make the evaluators, now that the columns are known."""
        check_queries(self.queries, schema)
        strings = StringTable()
        self._share(schema)
        evaluators = self._make_evaluators(schema, strings)
        tallies = self._make_tallies(schema, strings)
        if any(e.assembly.uses_ranks for e in evaluators) or any(tally.uses_ranks for tally in tallies):
            strings = StringTable(ordered=True)
            evaluators = self._make_evaluators(schema, strings)
            tallies = self._make_tallies(schema, strings)
        self._strings, self._lanes = strings, [Lane(one, one.new_state(self._common)) for one in evaluators]
        self._tallies = tallies
        self._loop.bind(self._lanes, schema)
        self._rows = RowStore(schema, self._intake.layout)
        self._paths = {}

    @property
    def _plain(self) -> list[Query]:
        """The queries for matches."""
        return [query for query in self.queries if not query.aggregates]

    @property
    def _counted(self) -> list[Query]:
        """The AGG queries."""
        return [query for query in self.queries if query.aggregates]

    def _share(self, schema: Schema) -> None:
        """Find what the queries have in common."""
        self._common = CommonLeaves(common_leaves(self._plain, schema), intervals=schema.begin is not None)

    def _make_evaluators(self, schema: Schema, strings: StringTable) -> list[Evaluator]:
        return [self._make_evaluator(q, schema, strings, self._plans.get(q.name or "")) for q in self._plain]

    def _make_evaluator(self, query: Query, schema: Schema, strings: StringTable, plan: Choice | None) -> Evaluator:
        made = make_evaluator(query, schema, strings, self.options, plan, self._common.leaves)
        return replace(made, seconds=self._seconds)

    def _make_tallies(self, schema: Schema, strings: StringTable) -> list[Tally]:
        return make_tallies(self._counted, schema, strings, self.options, self._plans, self._rates)

    def _measure_rates(self, batch: EventBatch) -> None:
        """Let the first events tell which AGG queries share counters; a type that is not among them comes seldom."""
        if self._taken or not len(batch) or len(self._counted) < 2 or not self.options.share_counters:
            return
        counts = np.bincount(batch.type_codes, minlength=len(batch.type_names))
        found = dict(zip(batch.type_names, counts.tolist(), strict=True))
        self._rates = {name: 1.0 + found.get(name, 0) for name in self._types}
        if self._tallies and would_share_otherwise(self._tallies, self._counted, self._rates):
            assert self.schema is not None
            self._tallies = self._make_tallies(self.schema, self._strings)

    # -- events ------------------------------------------------------------------------------------------------------
    @property
    def next_due(self) -> int | None:
        """A time before which `advance` finds nothing to do; None if there is nothing to wait for."""
        due = [self._intake.first_held, *(evaluator.next_due(state) for evaluator, state in self._pairs())]
        due += [tally.next_due for tally in self._tallies]
        return min((time for time in due if time is not None), default=None)

    def push_event(self, event: Mapping[str, Any]) -> Matches:
        """Take one event in, given as a dict: the quickest way from an event to the matches that it completes.

        The dict is kept and must not be changed afterwards.
        """
        path = self._paths.get(event.get(self._type_column), _UNKNOWN)
        if path is _UNKNOWN:
            path = self._find_path(event)
        if path is not None and not self._ended:
            blocks = path.take(event)
            if blocks is not None:
                self._ignored += not path.lanes
                self._singles += 1
                result = self._result(blocks) if blocks else self._nothing
                if self._singles >= self._pause:
                    self._look_around()
                return result
        return self.push([event])

    def _look_around(self) -> None:
        """Do what is due after events that came one by one, and find out after how many more something will be."""
        self._count_singles()
        if self._since_quick >= _TIDY_SINGLES:
            self._tidy(quickly=self._since_tidy < _TIDY_EVERY)
            self._check_memory()
        self._pause = _TIDY_SINGLES - self._since_quick
        if self._loop.is_on:
            self._pause = min(self._pause, self._loop.pause(self._taken, self._check_plans))

    def _count_singles(self) -> None:
        """Put events that came one by one, counted apart because that is quicker, to the others."""
        if self._singles:
            self._taken += self._singles
            self._since_tidy += self._singles
            self._since_quick += self._singles
            self._time = self._intake.watermark
            self._singles = 0

    def _find_path(self, event: Mapping[str, Any]) -> EventPath | None:
        """How events of a type are taken in one by one, None if they are not; found once a type."""
        kind = event.get(self._type_column)
        if self._rows is None or not isinstance(kind, str):
            return None
        if any(lane.retiring for lane in self._lanes):
            return None  # while a plan is being replaced, events take the way of batches
        assert self.schema is not None
        self._paths[kind] = None
        try:
            if self._tallies:
                raise ValueError("for AGG events take the way of batches")
            arguments = (kind, self.schema, self._intake, self._rows, self._strings, self._pairs())
            path = EventPath(*arguments, self._common.readers, self._store_common)
        except ValueError:
            return None
        self._paths[kind] = path
        return path

    def flush(self) -> Matches:
        """End the input: events held back are taken in, and time runs on until every waiting match is decided."""
        self._check_open()
        found = self._process(self._intake.drain())
        self._ended = True
        if self._rows is None:
            return found
        ways: list[Lane | Tally] = [*self._lanes, *self._tallies]
        blocks = [block for way in ways for block in way.advance(NULL, self._strings, ended=True)]
        return Matches.concat([found, self._result(blocks)])

    def _process(self, batch: EventBatch, until: int | None = None) -> Matches:
        """Take a batch in and let time reach `until`, else the watermark."""
        schema = self._intake.schema
        if schema is None:
            return Matches([], None)
        self._measure_rates(batch)
        if self._rows is None:
            self._bind(schema)
        if not self._loop.is_on:
            return self._take(batch, until)[0]
        return self._loop.take(batch, until, self._take, self._check_plans)

    def _take(self, batch: EventBatch, until: int | None, patience: float | None = None) -> tuple[Matches, int]:
        """Take events in; how many of them: with patience a single query may stop at one, and time there."""
        assert self._rows is not None and self.schema is not None
        self._count_singles()
        self._pause = 0
        blocks: list[MatchBlock | AggregateBlock] = []
        ways: list[Lane | Tally] = [*self._lanes, *self._tallies]
        reading = Reading(batch, self.schema, self._strings)
        is_taken = False
        if patience is not None and len(ways) == 1 and isinstance(lane := ways[0], Lane):
            found, taken = lane.step_within(reading, patience)
            blocks += found
            is_taken = True
            if taken < len(batch):
                batch = batch.slice(0, taken)
                until = int(batch.end[-1])
        if len(batch):
            known = np.array([name in self._types for name in batch.type_names], dtype=np.bool_)
            keep = known.take(batch.type_codes)
            self._ignored += int(len(batch) - keep.sum())
            self._rows.append(batch, keep)
        watermark = self._intake.watermark if until is None else until
        self._taken = max(self._taken, batch.first + len(batch))
        if watermark is not None:
            self._time = watermark
        if self._common:
            self._store_common(self._common.take(reading))
        for way in ways:
            blocks += way.step(reading) if not is_taken else ()
            if watermark is not None:
                blocks += [block for block in way.advance(watermark, self._strings) if len(block)]
        result = self._result(blocks)
        self._since_tidy += len(batch)
        self._since_quick += len(batch)
        if self._since_tidy >= _TIDY_EVERY:
            self._tidy()
        self._check_memory()
        return result, len(batch)

    def _store_common(self, rows: Sequence[tuple[int, Int64s]]) -> None:
        """Store new events of common leaves, for all queries to look at."""
        if self._common.lacks_room(rows):
            self._common.make_room(rows, self._views(), self._time)
            self._refit()
        self._common.append(rows)

    def _views(self) -> list[tuple[Sequence[Store], Int64s]]:
        return [(evaluator.assembly.stores, state.arena) for evaluator, state in self._pairs()]

    def _refit(self) -> None:
        for evaluator, state in self._pairs():
            evaluator.refit(state)

    def _result(self, blocks: Sequence[MatchBlock | AggregateBlock]) -> Matches:
        assert self._rows is not None
        self._matches += sum(len(block) for block in blocks)
        return Matches(blocks, self._rows.view(), self.schema, self.explain, lambda: self.journal)

    # -- memory ------------------------------------------------------------------------------------------------------
    def _tidy(self, *, quickly: bool = False, sparing: bool = False) -> None:
        """Release what no match can need any more: state, rows, strings.

        Quickly, as an event waits, most of it; sparing, with the room that is kept for bursts.
        """
        assert self._rows is not None
        self._count_singles()
        self._since_quick = 0
        if not quickly:
            self._since_tidy = 0
        oldest = self._intake.counts.processed
        for evaluator, state in self._pairs():
            evaluator.tidy(state, quickly=quickly, sparing=sparing)
            held = evaluator.oldest_event(state)
            if held is not None:
                oldest = min(oldest, held)
        if self._common:
            if self._common.tidy(self._views(), self._time):
                self._refit()
            held = self._common.oldest_event
            oldest = oldest if held is None else min(oldest, held)
        needed = self._loop.first_needed(self._rows, self._time)
        self._rows.release(oldest if needed is None else min(oldest, needed))
        live = [codes for evaluator, state in self._pairs() for codes in evaluator.live_strings(state)]
        live += self._common.live_strings
        live += [codes for tally in self._tallies for codes in tally.tidy()]
        codes = np.concatenate(live) if live else np.empty(0, dtype=np.int64)
        if len(self._strings) > 2 * len(codes) + 1024:
            self._strings.retain(codes)

    def _check_memory(self) -> None:
        budget = self.options.memory_budget
        if budget is None or self.state_bytes <= budget:
            return
        self._tidy(sparing=True)
        assert self._rows is not None
        self._rows.free_forgotten()
        if self.state_bytes > budget:
            raise LimitError(
                f"the state takes {self.state_bytes:,} bytes, more than the {budget:,} of memory_budget; "
                "narrow the queries (a shorter WITHIN, conditions on single events), push smaller batches, "
                "or raise memory_budget"
            )

    # -- plans -------------------------------------------------------------------------------------------------------
    def plan_of(self, name: str) -> Choice:
        """The plan that a query is run by now, or the way an AGG query is counted; known once the columns are."""
        tally = next((tally for tally in self._tallies if name in tally.names), None)
        return self._lane(name).evaluator.plan if tally is None else tally.evaluator.plan

    def set_pace(self, pace: float) -> None:
        """Say how many units of the stream's time pass in a second, for plans that are chosen for latency.

        Without it events are taken to come as they happen: 1,000 milliseconds a second.
        """
        self._loop.set_pace(pace)

    def replace_plan(self, name: str, plan: Plan, method: Method = "replay") -> None:
        """Let another plan of a query take over from now on; no match is lost, none is found twice.

        `method` says how: see `ensue.runtime.lanes`. Queries with a window of time under USING ANY can be replanned.
        Where an absence may lie before the match, it is always replay; elsewhere both run side by side if replay would
        break a limit. The engine must have been told to `adapt` ('static' is enough), so that it keeps the rows of the
        last window.
        """
        if self._loop.adaptation is None:
            raise PlanError("the engine does not keep what another plan needs; give it adapt='static' or another")
        query = self._lane(name).evaluator.query
        if not Adapter.fits(query):
            raise PlanError(f"query `{name}` cannot be replanned: it has no window of time, or USING is not ANY")
        if method not in METHODS:
            raise PlanError(f"there is no method {method!r}: take {' or '.join(METHODS)}")
        if not isinstance(plan, Plan):
            raise PlanError(f"{plan!r} is no plan: take an ensue.planning.plan.Plan, such as `plan_of` gives")
        if not self._is_ready(name):
            raise PlanError(
                f"query `{name}` cannot be replanned yet: it goes on from a snapshot of an engine that did not adapt, "
                "and does not have the rows of the last window"
            )
        if self._swap(name, None, plan, method).method is None:
            raise LimitError(
                f"query `{name}`: the plan cannot take over, as it would hold more than "
                f"{self.options.max_partial_matches:,} partial matches (max_partial_matches) of the last window; "
                "take a plan that stores less, or raise max_partial_matches"
            )
        self._loop.note_replaced(name, plan)

    def _check_plans(self, next_event: int) -> None:
        assert self._rows is not None
        self._loop.check(next_event, self._rows, self._is_ready, self._swap, self._try_plans)
        self._tried = {}  # codes of strings that they hold may become others'

    def _is_ready(self, name: str) -> bool:
        """Whether all rows of a query's last window are there: not so for a while after it has begun to adapt."""
        assert self._rows is not None
        return self._time is None or self._rows.lost[1] <= self._time - self._lane(name).reach

    def _swap(self, name: str, pace: float | None, plan: Plan, method: Method) -> Swapped:
        """Let a plan take over; if events take `pace` seconds, it may not take longer to go through some again."""
        assert self._rows is not None and self.schema is not None
        self._count_singles()
        lane = self._lane(name)
        made = None if self._common.leaves else self._tried.get((name, plan))
        made = made or make_rival(lane.evaluator, plan, self._strings, self._common.leaves)
        evaluator = replace(made, seconds=self._seconds)
        self._paths = {}
        way = evaluator, method, self._rows
        return lane.take_over(*way, now=self._time, first=self._taken, strings=self._strings, pace=pace)

    def _try_plans(self, name: str) -> TryOn:
        """How plans of a query are tried: on some events, each with all of its leaves for itself."""

        def try_on(recent: Callable[[], list[EventBatch]], plans: Sequence[Plan]) -> Race | None:
            lane = self._lane(name)
            rivals = [make_rival(lane.evaluator, plan, self._strings) for plan in plans]
            self._tried |= {(name, plan): rival for plan, rival in zip(plans, rivals, strict=True)}
            held = lane.evaluator.partial_matches(lane.state)
            return run_race(rivals, recent(), self._strings, held, self._loop.event_seconds, self._loop.since_check)

        return try_on

    @property
    def journal(self) -> list[Entry]:
        """What was decided about plans, and why: the last 1,000 entries (all, to who calls `take_journal`)."""
        return list(self._loop.journal)

    def take_journal(self) -> list[Entry]:
        """The entries of the journal since the last call, however many; at the first one the last 1,000."""
        return self._loop.journal.take()

    def _lane(self, name: str) -> Lane:
        for lane in self._lanes:
            if lane.evaluator.name == name:
                return lane
        raise PlanError(f"no query is called `{name}`, or the columns are not known yet")

    # -- snapshots ---------------------------------------------------------------------------------------------------
    def snapshot(self) -> bytes:
        """The whole state as bytes, for `restore` in an engine of the same queries and plan.

        The plan is that of the moment. An engine that adapts goes on from one that did not, and the other way round.

        >>> import ensue
        >>> query = "PATTERN SEQ(A a, B b) WITHIN 10"
        >>> before = ensue.compile(query)
        >>> _ = before.push([{"type": "A", "ts": 1}])
        >>> after = ensue.compile(query)
        >>> after.restore(before.snapshot())
        >>> len(after.push([{"type": "B", "ts": 2}]))
        1
        """
        if self._rows is not None:
            self._tidy()
        parts = {"intake": self._intake.dump(), "strings": self._strings.dump()}
        if self._rows is not None:
            parts["rows"] = self._rows.dump()
        parts |= self._loop.dump()
        tables = [table for _, part in parts.values() for table in part]
        common, shared = self._common.dump()
        tallies = [tally.dump() for tally in self._tallies]
        state = {
            "queries": [str(query) for query in self.queries],
            "lanes": [lane.dump() for lane in self._lanes],
            "tallies": [told for told, _ in tallies],
            "parts": {name: {"state": part[0], "tables": len(part[1])} for name, part in parts.items()},
            "ignored": self._ignored,
            "matches": self._matches,
            "ended": self._ended,
            "taken": self._taken,
            "time": self._time,
            "common": common,
            "cadence": self._loop.dump_cadence(),
        }
        arenas = [*shared, *(evaluator.saved(part) for evaluator, part in self._pairs())]
        return pack(state, [*arenas, *(arena for _, arena in tallies)], tables)

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot. One that is damaged, or of other queries or another plan, is refused."""
        state, arenas, tables = unpack(data)
        mine = [str(query) for query in self.queries]
        if state["queries"] != mine:
            other = next((q for q in state["queries"] if q not in mine), state["queries"][-1])
            raise StateError(f"the snapshot is of other queries, among them:\n{other}")
        parts: dict[str, tuple[dict[str, Any], list[pa.Table]]] = {}
        for name, part in state["parts"].items():
            count = part["tables"]
            parts[name] = (part["state"], tables[:count])
            tables = tables[count:]
        intake = Intake.load(*parts["intake"], self._lateness)
        if intake.schema is not None and "rows" in parts:
            if self.schema is not None and self.schema != intake.schema:
                raise StateError("the snapshot is of events with other columns")
            self._strings = StringTable.load(*parts["strings"])
            self._share(intake.schema)
            shared, told = len(state["common"]), state["tallies"]
            self._common.load(state["common"], arenas[:shared])
            arenas, counted = split_arenas(arenas[shared:], len(told))
            self._lanes = self._load_lanes(state["lanes"], arenas, intake.schema)
            self._tallies = load_tallies(
                told, counted, self._counted, intake.schema, self._strings, self.options, self._plans
            )
            self._rows = RowStore.load(intake.schema, *parts["rows"])
            self._loop.bind(self._lanes, intake.schema)
            self._loop.load(parts, self._lanes)
        elif intake.schema is not None:
            self._bind(intake.schema)
        else:
            self._strings, self._lanes, self._rows, self._common = StringTable(), [], None, CommonLeaves()
            self._tallies = []
        self._intake = intake
        self._ignored, self._matches, self._ended = state["ignored"], state["matches"], state["ended"]
        self._taken, self._time = state["taken"], state["time"]
        self._loop.load_cadence(state["cadence"], self._taken)
        self._since_tidy = self._since_quick = 0
        self._paths = {}

    def _load_lanes(self, dumped: Sequence[Any], arenas: Sequence[Int64s], schema: Schema) -> list[Lane]:
        lanes = []
        rest = list(arenas)
        for query, pairs in zip(self._plain, dumped, strict=True):
            asked = self._plans.get(query.name or "")
            if asked is not None and self._loop.adaptation is None and dump_choice(asked) != pairs[0]["plan"]:
                raise StateError(f"the snapshot is of another plan of query `{query.name}`")
            make = partial(self._make_evaluator, query, schema, self._strings)
            lanes.append(Lane.load(pairs, rest[: len(pairs)], self._common, make))
            rest = rest[len(pairs) :]
        return lanes

    # -- looking inside ----------------------------------------------------------------------------------------------
    def explain(self, format: str = "text") -> str:
        """The plans: the tree of joins, where each condition is decided, what is stored. text, mermaid or json.

        Of an engine that adapts also what they are expected to cost, beside the other plans, and what is watched.
        """
        from ensue.planning.explain import explain

        share = self.options.share_counters
        if self._rows is None:
            asked = [(q, self._plans.get(q.name or ""), None) for q in self.queries]
            return explain(asked, format, share=share)
        plans = {q.name: self.plan_of(q.name or "") for q in self.queries}
        expected = {name: found for name, one in self._loop.adapters.items() if (found := one.expect()) is not None}
        shown = [(q, plans[q.name], self.schema) for q in self.queries]
        sharing = [tally.names for tally in self._tallies]
        return explain(shown, format, expected, share=share, rates=self._rates, sharing=sharing)

    def __repr__(self) -> str:
        names = ", ".join(q.name or "" for q in self.queries)
        return f"<ensue.Engine {names}: {self.counts.processed:,} events, {self._matches:,} matches>"
