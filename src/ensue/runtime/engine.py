"""The engine: queries over a stream of events, in any batches, with snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.errors import LimitError, PlanError, StateError
from ensue.events.batch import EventBatch
from ensue.events.intake import Intake
from ensue.events.schema import Schema, TimeUnit
from ensue.events.times import read_time
from ensue.options import Options
from ensue.pattern.builder import window_of
from ensue.pattern.expressions import Duration
from ensue.pattern.query import TimeWindow
from ensue.pattern.types import fold_duration
from ensue.planning.plan import Plan
from ensue.runtime.blocks import MatchBlock
from ensue.runtime.compiling import Queries, check_queries, make_evaluator, plans_by_name, read_queries
from ensue.runtime.evaluator import Evaluator, State
from ensue.runtime.layout import NULL
from ensue.runtime.matches import Matches
from ensue.runtime.rows import RowStore
from ensue.runtime.single import EventPath
from ensue.runtime.snapshot import pack, unpack
from ensue.runtime.strings import StringTable

_TIDY_EVERY = 8192
_UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the events: `received = processed + late + rejected + held`; `ignored` are part of `processed`.

    `held` wait for the watermark; `ignored` are of types that no query names. `shed` counts what limits made the
    engine drop.
    """

    received: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    held: int = 0
    ignored: int = 0
    matches: int = 0
    shed_matches: int = 0
    shed_partial_matches: int = 0


class Engine:
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
        plan: Plan | Mapping[str, Plan] | None = None,
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
        self._evaluators: list[Evaluator] = []
        self._states: list[State] = []
        self._rows: RowStore | None = None
        self._ignored = 0
        self._matches = 0
        self._since_tidy = 0
        self._ended = False
        self._type_column = type if schema is None else schema.type
        self._paths: dict[Any, EventPath | None] = {}
        self._nothing = Matches([], None)
        if schema is not None:
            self._bind(schema)

    # -- what it is made of ------------------------------------------------------------------------------------------
    @property
    def schema(self) -> Schema | None:
        """The columns of events; None before the first event if none was given."""
        return self._intake.schema

    @property
    def watermark(self) -> int | None:
        """The time up to which all events are taken in, in the time column's units; None before the first."""
        return self._intake.watermark

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
            shed_matches=sum(state.shed_matches for state in self._states),
            shed_partial_matches=sum(state.shed_partial for state in self._states),
        )

    @property
    def kernel_seconds(self) -> float:
        """Time spent inside kernels."""
        return sum(evaluator.seconds[0] for evaluator in self._evaluators)

    @property
    def state_bytes(self) -> int:
        """Memory of the state: buffers, partial matches, rows that may still be in a result."""
        rows = self._rows.nbytes if self._rows is not None else 0
        return rows + sum(state.arena.nbytes for state in self._states)

    def _bind(self, schema: Schema) -> None:
        """Make the evaluators, now that the columns are known."""
        check_queries(self.queries, schema)
        strings = StringTable()
        evaluators = self._make_evaluators(schema, strings)
        if any(e.assembly.uses_ranks for e in evaluators):
            strings = StringTable(ordered=True)
            evaluators = self._make_evaluators(schema, strings)
        self._strings, self._evaluators = strings, evaluators
        self._states = [evaluator.new_state() for evaluator in evaluators]
        self._rows = RowStore(schema, self._intake.layout)
        self._paths = {}

    def _make_evaluators(self, schema: Schema, strings: StringTable) -> list[Evaluator]:
        return [make_evaluator(q, schema, strings, self.options, self._plans.get(q.name or "")) for q in self.queries]

    # -- events ------------------------------------------------------------------------------------------------------
    def push(self, events: object, *, together: bool = False) -> Matches:
        """Take events in, as many as there are; the matches that are known by now.

        A table of any kind that speaks Arrow, a pandas or polars DataFrame, or a list of dicts. With `together` the
        events count as come at one moment: none is late because of another one of them.
        """
        self._check_open()
        return self._process(self._intake.push(events, together=together))

    def advance(self, now: int | datetime) -> Matches:
        """Let time reach `now` without an event; the matches that are known by that. What is before it is late then.

        An integer is in the time column's units (microseconds since 1970 where it holds timestamps).

        >>> import ensue
        >>> engine = ensue.compile("PATTERN SEQ(A a, !B b) WITHIN 10")
        >>> len(engine.push([{"type": "A", "ts": 1}])), len(engine.advance(10)), len(engine.advance(11))
        (0, 0, 1)
        """
        self._check_open()
        return self._process(self._intake.advance(read_time(now)))

    @property
    def next_due(self) -> int | None:
        """A time before which `advance` finds nothing to do; None if there is nothing to wait for."""
        due = [self._intake.first_held, *(e.next_due(s) for e, s in zip(self._evaluators, self._states, strict=True))]
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
                self._since_tidy += 1
                if self._since_tidy >= _TIDY_EVERY:
                    self._tidy()
                    self._check_memory()
                return self._result(blocks) if blocks else self._nothing
        return self.push([event])

    def _find_path(self, event: Mapping[str, Any]) -> EventPath | None:
        """How events of a type are taken in one by one, None if they are not; found once a type."""
        kind = event.get(self._type_column)
        if self._rows is None or not isinstance(kind, str):
            return None
        assert self.schema is not None
        self._paths[kind] = None
        try:
            lanes = list(zip(self._evaluators, self._states, strict=True))
            path = EventPath(kind, self.schema, self._intake, self._rows, self._strings, lanes)
        except ValueError:
            return None
        self._paths[kind] = path
        return path

    def push_sorted(self, events: object) -> Matches:
        """Take a whole finite input in, sorted by time first: nothing in it is late. Ends with `flush`."""
        self._check_open()
        found = self._process(self._intake.sort_all(events))
        return Matches.concat([found, self.flush()])

    def run_sorted(self, events: object, rows: int) -> Iterator[Matches]:
        """As `push_sorted`, giving the matches of so many rows at a time, so that not all need be held at once."""
        self._check_open()
        batch = self._intake.sort_all(events)
        for start in range(0, len(batch), rows):
            part = batch.slice(start, min(start + rows, len(batch)))
            yield self._process(part, int(part.end[-1]))
        yield self.flush()

    def flush(self) -> Matches:
        """End the input: events held back are taken in, and time runs on until every waiting match is decided."""
        self._check_open()
        found = self._process(self._intake.drain())
        self._ended = True
        if not self._evaluators:
            return found
        blocks: list[MatchBlock] = []
        for evaluator, state in zip(self._evaluators, self._states, strict=True):
            blocks += evaluator.advance(state, NULL, evaluator.ranks(self._strings), ended=True)
        return Matches.concat([found, self._result(blocks)])

    def _check_open(self) -> None:
        if self._ended:
            raise PlanError("the input of this engine has ended (flush); compile a new one for a new stream")

    def _process(self, batch: EventBatch, until: int | None = None) -> Matches:
        """Take a batch in and let time reach `until`, else the watermark."""
        schema = self._intake.schema
        if schema is None:
            return Matches([], None)
        if not self._evaluators:
            self._bind(schema)
        assert self._rows is not None
        known = np.array([name in self._types for name in batch.type_names], dtype=np.bool_)
        if len(batch):
            keep = known[batch.type_codes]
            self._ignored += int(len(batch) - keep.sum())
            self._rows.append(batch, keep)
        blocks: list[MatchBlock] = []
        watermark = self._intake.watermark if until is None else until
        for evaluator, state in zip(self._evaluators, self._states, strict=True):
            blocks += evaluator.step(state, batch, self._strings)
            if watermark is not None:
                later = evaluator.advance(state, watermark, evaluator.ranks(self._strings), ended=False)
                blocks += [block for block in later if len(block)]
        result = self._result(blocks)
        self._since_tidy += len(batch)
        if self._since_tidy >= _TIDY_EVERY:
            self._tidy()
        self._check_memory()
        return result

    def _result(self, blocks: list[MatchBlock]) -> Matches:
        assert self._rows is not None
        self._matches += sum(len(block) for block in blocks)
        return Matches(blocks, self._rows.view(), self.schema, self.explain)

    # -- memory ------------------------------------------------------------------------------------------------------
    def _tidy(self) -> None:
        """Release what no match can need any more: state, rows, strings."""
        assert self._rows is not None
        self._since_tidy = 0
        oldest = self._intake.counts.processed
        for evaluator, state in zip(self._evaluators, self._states, strict=True):
            evaluator.tidy(state)
            held = evaluator.oldest_event(state)
            if held is not None:
                oldest = min(oldest, held)
        self._rows.release(oldest)
        live = [codes for e, s in zip(self._evaluators, self._states, strict=True) for codes in e.live_strings(s)]
        codes = np.concatenate(live) if live else np.empty(0, dtype=np.int64)
        if len(self._strings) > 2 * len(codes) + 1024:
            self._strings.retain(codes)

    def _check_memory(self) -> None:
        budget = self.options.memory_budget
        if budget is None or self.state_bytes <= budget:
            return
        self._tidy()
        if self.state_bytes > budget:
            raise LimitError(
                f"the state takes {self.state_bytes:,} bytes, more than the {budget:,} of memory_budget; "
                "narrow the queries (a shorter WITHIN, conditions on single events), push smaller batches, "
                "or raise memory_budget"
            )

    # -- what was set aside ------------------------------------------------------------------------------------------
    def take_late(self) -> pa.Table | None:
        """The late events since the last call, with the reason."""
        return self._intake.take_late()

    def take_rejected(self) -> pa.Table | None:
        """The rejected rows since the last call, with the reason."""
        return self._intake.take_rejected()

    # -- snapshots ---------------------------------------------------------------------------------------------------
    def snapshot(self) -> bytes:
        """The whole state as bytes, for `restore` in an engine of the same queries and plan.

        >>> import ensue
        >>> query = "PATTERN SEQ(A a, B b) WITHIN 10"
        >>> before = ensue.compile(query)
        >>> _ = before.push([{"type": "A", "ts": 1}])
        >>> after = ensue.compile(query)
        >>> after.restore(before.snapshot())
        >>> len(after.push([{"type": "B", "ts": 2}]))
        1
        """
        if self._evaluators:
            self._tidy()
        parts = {"intake": self._intake.dump(), "strings": self._strings.dump()}
        if self._rows is not None:
            parts["rows"] = self._rows.dump()
        tables = [table for _, part in parts.values() for table in part]
        state = {
            "queries": [str(query) for query in self.queries],
            "programs": [e.digest for e in self._evaluators],
            "parts": {name: {"state": part[0], "tables": len(part[1])} for name, part in parts.items()},
            "ignored": self._ignored,
            "matches": self._matches,
            "ended": self._ended,
            "shed": [[s.shed_matches, s.shed_partial] for s in self._states],
        }
        return pack(state, [s.arena for s in self._states], tables)

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
        if intake.schema is not None and state["programs"]:
            if self.schema is not None and self.schema != intake.schema:
                raise StateError("the snapshot is of events with other columns")
            strings = StringTable.load(*parts["strings"])
            evaluators = self._make_evaluators(intake.schema, strings)
            if [e.digest for e in evaluators] != state["programs"]:
                raise StateError("the snapshot is of another plan, or of another version of ensue")
            self._strings, self._evaluators = strings, evaluators
            self._states = [State(arena, *shed) for arena, shed in zip(arenas, state["shed"], strict=True)]
            self._rows = RowStore.load(intake.schema, *parts["rows"])
        elif intake.schema is not None:
            self._bind(intake.schema)
        else:
            self._strings, self._evaluators, self._states, self._rows = StringTable(), [], [], None
        self._intake = intake
        self._ignored, self._matches, self._ended = state["ignored"], state["matches"], state["ended"]
        self._since_tidy = 0
        self._paths = {}

    # -- looking inside ----------------------------------------------------------------------------------------------
    def explain(self, format: str = "text") -> str:
        """The plans: the tree of joins, where each condition is decided, what is stored. text, mermaid or json."""
        from ensue.planning.explain import explain

        if not self._evaluators:
            return explain([(q, self._plans.get(q.name or ""), None) for q in self.queries], format)
        return explain([(e.query, e.plan, e.schema) for e in self._evaluators], format)

    def __repr__(self) -> str:
        names = ", ".join(q.name or "" for q in self.queries)
        return f"<ensue.Engine {names}: {self.counts.processed:,} events, {self._matches:,} matches>"


def read_lateness(lateness: int | str | timedelta | Duration) -> int | Callable[[Schema], int]:
    """An allowed lateness: a number in the time column's units, or a duration, whose units the schema tells."""
    if isinstance(lateness, int):
        return lateness
    window = window_of(lateness)
    if not isinstance(window, TimeWindow) or window.duration.amount < 0:
        raise PlanError(f"the allowed lateness is {lateness}; it is a duration such as '10s', and not negative")
    return lambda schema: math.ceil(fold_duration(window.duration, schema))
