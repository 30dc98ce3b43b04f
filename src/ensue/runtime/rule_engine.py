"""The engine of programs with rules: what rules derive, and what patterns find in it, as events come."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from ensue.errors import LimitError, PlanError, StateError
from ensue.events.batch import EventBatch
from ensue.events.casting import arrow_type
from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.options import Options
from ensue.pattern.expressions import Duration
from ensue.pattern.query import CountWindow, Policy, Query
from ensue.planning.aggregates import Choice
from ensue.planning.plan import Plan
from ensue.planning.rule_programs import plan_program, require_bounded
from ensue.planning.rules import Optimizations
from ensue.rules.check import check_program
from ensue.rules.program import Program
from ensue.runtime.adaptation import Adapt, read_adapt
from ensue.runtime.cadence import Cadence
from ensue.runtime.compiling import check_queries, read_lateness
from ensue.runtime.counts import Counts
from ensue.runtime.derived import DerivedPart, make_part, time_type_of
from ensue.runtime.engine import Engine
from ensue.runtime.feeding import Fed
from ensue.runtime.journal import Entry, Journal
from ensue.runtime.matches import Matches
from ensue.runtime.merging import Merger, merged_schema
from ensue.runtime.rule_adapting import RuleAdapter
from ensue.runtime.rule_runner import Derived, RuleRunner
from ensue.runtime.snapshot import pack, unpack
from ensue.runtime.strings import StringTable

_AT_ONCE = 65_536  # events of one step: state is dropped between steps


class RuleEngine(Fed):
    """Runs a program with rules over events as they come. Made by `ensue.compile`; used like `Engine`.

    >>> import ensue
    >>> engine = ensue.compile("EVENT a(x: int); RULE b(x) <- i: a(x), w: FROM_END(i, 5), WHILE w: NOT a(x);")
    >>> len(engine.push([{"type": "a", "ts": 1, "x": 7}])), len(engine.advance(6))
    (0, 1)
    """

    def __init__(
        self,
        program: Program,
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
        adapt: Adapt | bool | None = None,
        is_stream: bool = False,
        optimizations: Optimizations = Optimizations(),  # noqa: B008  (immutable)
    ) -> None:
        self.program = program
        self._inputs = frozenset(program.inputs)
        self.options = options or Options()
        self._is_stream = is_stream and not self.options.unbounded_rules
        self._optimizations = optimizations
        self._for_queries: dict[str, Any] = {"options": self.options, "plan": plan, "adapt": adapt}
        self._adaptation = read_adapt(adapt)
        self._worked = 0.0  # seconds that rules took
        self._cadence: Cadence | None = None  # of checks whether the joins of rules are in a good order
        self._journal = Journal()
        if schema is None:  # else it is checked where it is planned
            check_program(program)
        self._lateness = read_lateness(lateness)
        self._roles = (type, ts, begin, TimeUnit(unit))
        declared = {a.name: a.dtype for event in program.events for a in event.attributes}
        self._intake = Intake(
            schema,
            type=type,
            ts=ts,
            begin=begin,
            unit=TimeUnit(unit),
            lateness=self._lateness,
            strict=strict,
            declared=declared,
        )
        self._runner: RuleRunner | None = None
        self._times = pa.int64()
        self._nothing: dict[str, DerivedPart] = {}  # what a type without events gives: the columns are known
        self._merger: Merger | None = None
        self._inner: Engine | None = None
        self._strings = StringTable()
        self._ignored = 0
        self._derived = 0
        self._ended = False
        if schema is not None:
            self._bind(schema)
        elif self._is_stream:
            require_bounded(plan_program(program, self._assumed_schema())[1])

    # -- what it is made of ------------------------------------------------------------------------------------------
    @property
    def queries(self) -> tuple[Query, ...]:
        """The pattern queries of the program, under their names."""
        return self.program.queries

    @property
    def counts(self) -> Counts:
        """What became of the events so far; `matches` counts derived events too."""
        counts = self._intake.counts
        inner = Counts() if self._inner is None else self._inner.counts
        return Counts(
            received=counts.received,
            processed=counts.processed,
            late=counts.late,
            rejected=counts.rejected,
            held=counts.held,
            ignored=self._ignored,
            matches=self._derived + inner.matches,
            shed_matches=inner.shed_matches,
            shed_partial_matches=inner.shed_partial_matches,
            planned=inner.planned + sum(adapter.planned for adapter in self._adapters),
            replaced=inner.replaced + sum(adapter.replaced for adapter in self._adapters),
        )

    @property
    def state_bytes(self) -> int:
        """Memory of the state."""
        rules = 0 if self._runner is None else self._runner.nbytes
        return rules + (0 if self._inner is None else self._inner.state_bytes)

    @property
    def stored_tuples(self) -> int:
        """How many tuples rules keep."""
        return 0 if self._runner is None else self._runner.stored

    @property
    def skipped_events(self) -> int:
        """How many times an event was not looked at because nothing waited for it."""
        return 0 if self._runner is None else sum(evaluator.skipped for evaluator in self._runner.all())

    @property
    def _adapters(self) -> list[RuleAdapter]:
        return [] if self._runner is None else list(self._runner.adapters.values())

    def _bind(self, schema: Schema) -> None:
        """Plan the rules, now that the columns are known."""
        runner = RuleRunner(self.program, schema, self._strings, self.options, self._optimizations, self._adaptation)
        if self._is_stream:
            require_bounded(runner.plans)
        self._runner = runner
        if runner.adapters and self._adaptation is not None:
            self._cadence = self._adaptation.cadence(lambda: self._worked)
        self._times = time_type_of(schema, self._intake.layout)
        for name in runner.evaluators:
            columns = runner.columns(name)
            rows = np.empty((0, 2 + len(columns)), dtype=np.int64)
            self._nothing[name] = make_part(name, rows, columns, self._strings, self._times)
        if not self.queries:
            return
        used = {name for query in self.queries for name in query.types} & set(self.program.derived)
        wide = merged_schema(schema, self.program, runner.signatures) if used else schema
        check_queries(self.queries, wide)
        self._inner = Engine(self.queries, wide, **self._for_queries)
        layout = self._intake.layout
        if used:
            if layout is None:
                layout = pa.schema([(name, arrow_type(dtype)) for name, dtype in schema.columns.items()])
            ordered = any(q.policy is not Policy.ANY or isinstance(q.within, CountWindow) for q in self.queries)
            late = any(e.collects for e in self._reaching(used))
            self._merger = Merger(schema, wide, layout, self._strings, holds=ordered or late)

    def _reaching(self, types: set[str]) -> list[Any]:
        """The evaluators of all rules that these types are derived by, directly or not."""
        assert self._runner is not None
        found: list[Any] = []
        waiting = list(types)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self._runner.evaluators:
                continue
            seen.add(name)
            for evaluator in self._runner.evaluators[name]:
                found.append(evaluator)
                waiting += evaluator.body.rule.types
        return found

    # -- events ------------------------------------------------------------------------------------------------------
    def push_event(self, event: Mapping[str, Any]) -> Matches:
        """Take one event in, given as a dict."""
        return self.push([event])

    @property
    def next_due(self) -> int | None:
        """A time before which `advance` finds nothing to do; None if there is nothing to wait for."""
        due = [
            self._intake.first_held,
            None if self._runner is None else self._runner.next_due,
            None if self._inner is None else self._inner.next_due,
        ]
        if self._merger is not None and len(self._merger.held_ends):
            due.append(int(self._merger.held_ends[0]) + 1)
        return min((time for time in due if time is not None), default=None)

    def flush(self) -> Matches:
        """End the input: events held back are taken in, and time runs on until every timer has fired."""
        self._check_open()
        batch = self._intake.drain()
        found = self._process(batch)
        self._ended = True
        if self._runner is None:
            return found
        nothing = batch.slice(0, 0)
        results = [found, *self._step(nothing, None)]
        if self._inner is not None:
            results.append(self._inner.flush())
        return Matches.concat(results)

    def _process(self, batch: EventBatch, until: int | None = None) -> Matches:
        """Take a batch in and let time reach `until`, else the watermark."""
        schema = self._intake.schema
        if schema is None:
            return Matches([], None)
        if self._runner is None:
            self._bind(schema)
        watermark = self._intake.watermark if until is None else until
        results: list[Matches] = []
        start = 0
        while True:
            stop = min(start + _AT_ONCE, len(batch))
            if self._cadence is not None:
                stop = min(stop, self._cadence.cut(batch.first + start, batch.first + len(batch)) - batch.first)
            part = batch if stop - start == len(batch) else batch.slice(start, stop)
            last = stop >= len(batch)
            now = watermark if last else int(part.end[-1])
            if now is not None:
                results += self._step(part, now)
            if self._cadence is not None and self._cadence.is_due(batch.first + stop):
                self._adapt(batch.first + stop, self._cadence)
            start = stop
            if last:
                break
        if not results:  # no event has come yet; the columns of results are known all the same
            results = [self._result([])]
            if self._inner is not None:
                results.append(self._inner.push(batch.table if self._merger is None else self._merger.held))
        self._check_memory()
        return results[0] if len(results) == 1 else Matches.concat(results)

    def _step(self, batch: EventBatch, now: int | None) -> list[Matches]:
        """Let rules, then patterns, take a part of the input."""
        runner = self._runner
        assert runner is not None
        self._count_ignored(batch)
        started = time.thread_time()
        derived = runner.step(batch, now)
        self._worked += time.thread_time() - started
        found = [self._result(derived)]
        if self._inner is not None:
            found.append(self._match(self._inner, batch, derived, now))
        runner.tidy()
        return found

    def _adapt(self, next_event: int, cadence: Cadence) -> None:
        """Let the joins of rules be checked."""
        assert self._runner is not None
        started = time.thread_time()
        replacing = -sum(adapter.spent.replacing for adapter in self._adapters)
        entries = self._runner.adapt()
        self._journal.add(entries)
        replacing += sum(adapter.spent.replacing for adapter in self._adapters)  # which pays, as in `Engine`
        found = any(entry.replaced for entry in entries)
        cadence.checked(next_event, time.thread_time() - started - replacing, found=found)

    def _count_ignored(self, batch: EventBatch) -> None:
        known = np.array([name in self._inputs for name in batch.type_names], dtype=np.bool_)
        if len(batch):
            self._ignored += int(len(batch) - known[batch.type_codes].sum())

    def _match(self, inner: Engine, batch: EventBatch, derived: list[Derived], now: int | None) -> Matches:
        """What patterns find in the events and the derived ones."""
        runner = self._runner
        assert runner is not None
        table, reached = batch.table, now
        if self._merger is not None:
            columns = {name: runner.columns(name) for name in self.program.derived}
            table = self._merger.merge(batch, derived, columns, now)
        found = [inner.push(table)] if table.num_rows else []
        if reached is not None:
            found.append(inner.advance(reached))
        return found[0] if len(found) == 1 else Matches.concat(found)

    def _result(self, derived: list[Derived]) -> Matches:
        runner = self._runner
        assert runner is not None
        rows = {part.type: part.rows for part in derived}
        parts: list[DerivedPart] = []
        most = self.options.max_matches
        for name in runner.evaluators:
            if name not in rows:
                parts.append(self._nothing[name])
                continue
            own = rows[name]
            if most is not None and len(own) > most:
                raise LimitError(
                    f"rule `{name}` derives {len(own):,} events at once, more than the {most:,} of max_matches; "
                    "narrow the rule, push smaller batches, or raise max_matches"
                )
            self._derived += len(own)
            parts.append(make_part(name, own, runner.columns(name), self._strings, self._times))
        return Matches.of_derived(parts, self.schema, self.explain)

    def _check_memory(self) -> None:
        budget = self.options.memory_budget
        if budget is not None and self.state_bytes > budget:
            raise LimitError(
                f"the state takes {self.state_bytes:,} bytes, more than the {budget:,} of memory_budget; "
                "narrow the rules (bound how far apart events may be), push smaller batches, or raise memory_budget"
            )

    # -- what was decided --------------------------------------------------------------------------------------------
    @property
    def journal(self) -> list[Entry]:
        """What was decided about the joins of rules and the plans of queries."""
        return [*self._journal, *([] if self._inner is None else self._inner.journal)]

    def take_journal(self) -> list[Entry]:
        """The entries of the journal since the last call."""
        return [*self._journal.take(), *([] if self._inner is None else self._inner.take_journal())]

    def plan_of(self, name: str) -> Choice:
        """The plan that a query is run by now."""
        if self._inner is None:
            raise PlanError(f"no query is called `{name}`, or the columns are not known yet")
        return self._inner.plan_of(name)

    # -- snapshots ---------------------------------------------------------------------------------------------------
    def snapshot(self) -> bytes:
        """The whole state as bytes, for `restore` in an engine of the same program."""
        intake_state, tables = self._intake.dump()
        strings_state, strings = self._strings.dump()
        rules: dict[str, Any] | None = None
        arrays: list[Any] = []
        tables = [*tables, *strings]
        if self._runner is not None:
            rules, arrays = self._runner.dump()
        held = self._merger is not None
        if self._merger is not None:
            arrays = [*arrays, self._merger.held_ends]
            tables.append(self._merger.held)
        if self._inner is not None:
            tables.append(pa.table({"engine": pa.array([self._inner.snapshot()], pa.binary())}))
        state = {
            "program": [str(statement) for statement in self.program.rules],
            "queries": [str(query) for query in self.queries],
            "intake": {"state": intake_state, "tables": len(tables) - len(strings) - held - (self._inner is not None)},
            "strings": strings_state,
            "rules": rules,
            "held": held,
            "counts": [self._ignored, self._derived],
            "ended": self._ended,
            "cadence": None if self._cadence is None else self._cadence.dump(),
        }
        return pack(state, arrays, tables)

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot. One that is damaged, or of another program, is refused."""
        state, arrays, tables = unpack(data)
        if state.get("program") != [str(rule) for rule in self.program.rules]:
            raise StateError("the snapshot is of other rules")
        if state["queries"] != [str(query) for query in self.queries]:
            raise StateError("the snapshot is of other queries")
        count = state["intake"]["tables"]
        intake = Intake.load(state["intake"]["state"], tables[:count], self._lateness)
        if self.schema is not None and intake.schema is not None and self.schema != intake.schema:
            raise StateError("the snapshot is of events with other columns")
        self._intake = intake
        self._strings = StringTable.load(state["strings"], tables[count : count + 1])
        tables = tables[count + 1 :]
        self._runner, self._merger, self._inner = None, None, None
        if intake.schema is not None and state["rules"] is not None:
            self._bind(intake.schema)
            runner: RuleRunner | None = self._runner
            assert runner is not None
            merger: Merger | None = self._merger
            if merger is not None and state["held"]:
                merger.restore(tables.pop(0), arrays.pop())
            inner: Engine | None = self._inner
            if inner is not None:
                inner.restore(tables.pop(0)["engine"][0].as_py())
            runner.load(state["rules"], arrays)
            if self._cadence is not None and state["cadence"] is not None:
                self._cadence.load(state["cadence"], intake.counts.processed)
            elif self._cadence is not None:
                self._cadence.begin(intake.counts.processed)
        self._ignored, self._derived = state["counts"]
        self._ended = state["ended"]

    # -- looking inside ----------------------------------------------------------------------------------------------
    def explain(self, format: str = "text") -> str:
        """The rules as relational algebra, what is kept, streamed and passed over; then the plans of queries.

        text, mermaid or json.
        """
        from ensue.planning.explain_rules import describe_rules, write_rules

        inner = self._inner or (Engine(self.queries, **self._for_queries) if self.queries else None)
        queries = "" if inner is None else inner.explain(format)
        orders: dict[tuple[str, int], dict[str, Any]] = {}
        if self._runner is not None:
            plans = self._runner.plans
            known = {place: adapter.describe() for place, adapter in self._runner.adapters.items()}
            orders = {place: order for place, order in known.items() if order is not None}
        else:
            _, plans = plan_program(self.program, self.schema or self._assumed_schema(), self._optimizations)
        described = describe_rules(plans, orders)
        if format == "json":
            told = {"rules": described, "queries": json.loads(queries) if queries else []}
            return json.dumps(told, ensure_ascii=False)
        return "\n\n".join(part for part in (write_rules(described, format), queries) if part)

    def _assumed_schema(self) -> Schema:
        """The columns by the declarations, and times as whole numbers, as long as nothing tells otherwise."""
        kind, ts, begin, unit = self._roles
        columns = {a.name: a.dtype for event in self.program.events for a in event.attributes}
        columns |= {kind: DType.STRING, ts: DType.INT, **({} if begin is None else {begin: DType.INT})}
        return Schema(columns, kind, ts, begin, unit)

    def __repr__(self) -> str:
        names = ", ".join(self.program.derived)
        return f"<ensue.RuleEngine {names}: {self.counts.processed:,} events, {self._derived:,} derived>"
