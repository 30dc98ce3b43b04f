"""An AGG query as it runs: by counting, or by detection where counters cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ensue.errors import PlanError, StateError
from ensue.events.batch import Int64s
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.aggregates import Choice, Method, dump_choice, fits, load_choice, plan_aggregates
from ensue.planning.plan import Plan
from ensue.planning.triggers import find_triggers
from ensue.runtime.aggregate_rows import AggregateBlock
from ensue.runtime.compiling import make_evaluator
from ensue.runtime.counting import CountingEvaluator, CountingState
from ensue.runtime.detected import DetectedEvaluator, DetectedState
from ensue.runtime.preparing import Reading
from ensue.runtime.strings import StringTable


class Tally:
    """One AGG query's evaluator and state."""

    def __init__(self, evaluator: CountingEvaluator | DetectedEvaluator) -> None:
        self.evaluator = evaluator
        self.state: Any = evaluator.new_state()  # of its evaluator's kind

    @property
    def name(self) -> str:
        """The query's name."""
        return self.evaluator.name

    def step(self, reading: Reading) -> list[AggregateBlock]:
        """Take a batch in."""
        return self.evaluator.step(self.state, reading)

    def advance(self, now: int, strings: StringTable, *, ended: bool = False) -> list[AggregateBlock]:
        """Let time reach `now`, or the input end: the rows of the times before."""
        return self.evaluator.advance(self.state, now, self.evaluator.ranks(strings), ended=ended)

    @property
    def next_due(self) -> int | None:
        """A time before which `advance` has nothing to tell."""
        return self.evaluator.next_due(self.state)

    def tidy(self) -> list[Int64s]:
        """Release what is not needed any more; the string codes that still are."""
        self.evaluator.tidy(self.state)
        return self.evaluator.live_strings(self.state)

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        state: CountingState | DetectedState = self.state
        return state.nbytes

    def dump(self) -> tuple[dict[str, Any], Int64s]:
        """What it is, as JSON-able values, and its state."""
        arena: Int64s = self.state.arena
        return {"plan": dump_choice(self.evaluator.plan), "program": self.evaluator.digest}, arena

    @classmethod
    def load(cls, dumped: Mapping[str, Any], arena: Int64s, make: Callable[[Choice], Tally]) -> Tally:
        """A tally as `dump` told; `make` gives one of a plan."""
        tally = make(load_choice(dumped["plan"]))
        if tally.evaluator.digest != dumped["program"]:
            raise StateError("the snapshot is of another version of ensue: the same plan is run in another way now")
        tally.state = tally.evaluator.load_state(arena, (0, 0))
        return tally


def make_tally(
    query: Query, schema: Schema, strings: StringTable, options: Options, plan: Choice | None = None
) -> Tally:
    """Plan an AGG query that has been checked. A plan of joins is for detection; without any the planner chooses."""
    if options.on_limit == "shed":
        raise PlanError(
            f"query `{query.name}`: on_limit='shed' cannot go with AGG: numbers about what is left would be wrong"
        )
    branches = normalize(query)
    asked = Method.DETECTION if isinstance(plan, Plan) else plan
    chosen = plan_aggregates(query, branches, schema, asked)
    if chosen.counters is not None:
        if not fits(chosen.method, chosen.counters):
            raise PlanError(f"query `{query.name}` cannot be aggregated by {chosen.method.value}")
        return Tally(CountingEvaluator.make(query, branches, chosen.method, chosen.counters, schema, strings, options))
    if asked not in (None, Method.DETECTION):
        raise PlanError(f"query `{query.name}` needs detection: {', '.join(chosen.obstacles)}")
    plain = matches_of(query)
    inner = make_evaluator(plain, schema, strings, options, plan if isinstance(plan, Plan) else None)
    return Tally(DetectedEvaluator.make(query, inner, find_triggers(query, branches, schema), strings))


def is_choice(asked: Choice, dumped: Mapping[str, Any]) -> bool:
    """Whether a plan that was asked for is the one that `Tally.dump` told; any plan of joins is detection."""
    return dump_choice(asked) == dumped or (asked is Method.DETECTION and "method" not in dumped)


def matches_of(query: Query) -> Query:
    """The query for the matches that an AGG query speaks of: GROUP BY an attribute keeps them apart."""
    shared = (key.name for key in query.group_by if key.variable is None)
    partition = tuple(dict.fromkeys([*query.partition_by, *shared]))
    return replace(query, aggregates=(), group_by=(), emit_on_change=False, partition_by=partition)


def split_arenas(arenas: Sequence[Int64s], tallies: int) -> tuple[list[Int64s], list[Int64s]]:
    """The arrays of matches' states and those of aggregates', which come last."""
    cut = len(arenas) - tallies
    return list(arenas[:cut]), list(arenas[cut:])
