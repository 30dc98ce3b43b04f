"""AGG queries as they run: by counting, together where they can share, or by detection where counters cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ensue.errors import PlanError, StateError
from ensue.events.batch import Int64s
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.aggregates import (
    AggregatePlan,
    Choice,
    Counters,
    Method,
    dump_choice,
    fits,
    load_choice,
    plan_aggregates,
)
from ensue.planning.plan import Plan
from ensue.planning.sharing import choose_sharing
from ensue.planning.sub_patterns import share_counters
from ensue.planning.triggers import find_triggers
from ensue.runtime.aggregate_rows import AggregateBlock
from ensue.runtime.compiling import make_evaluator
from ensue.runtime.counting import CountingEvaluator, CountingState
from ensue.runtime.detected import DetectedEvaluator, DetectedState
from ensue.runtime.preparing import Reading
from ensue.runtime.strings import StringTable
from ensue.runtime.sub_patterns import SubPatternEvaluator


class Tally:
    """The evaluator and state of one AGG query, or of several that share counters."""

    def __init__(self, evaluator: CountingEvaluator | DetectedEvaluator | SubPatternEvaluator) -> None:
        self.evaluator = evaluator
        self.state: Any = evaluator.new_state()  # of its evaluator's kind

    @property
    def names(self) -> tuple[str, ...]:
        """The queries' names."""
        return self.evaluator.query_names

    @property
    def uses_ranks(self) -> bool:
        """Whether texts are compared by their order."""
        return self.evaluator.uses_ranks

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
        told = {"queries": list(self.names), "plan": dump_choice(self.evaluator.plan), "program": self.evaluator.digest}
        return told, arena


def make_tallies(
    queries: Sequence[Query],
    schema: Schema,
    strings: StringTable,
    options: Options,
    plans: Mapping[str, Choice],
    rates: Mapping[str, float] | None = None,
) -> list[Tally]:
    """Plan AGG queries that have been checked; those that can share counters do so where it pays at such rates."""
    tallies: list[Tally] = []
    chains: list[tuple[Query, Counters]] = []
    for query in queries:
        plan = plans.get(query.name or "")
        chosen = _plan(query, schema, options, plan)
        if chosen.method is Method.SUB_PATTERNS and chosen.counters is not None:
            chains.append((query, chosen.counters))
        else:
            tallies.append(_make_tally(query, chosen, schema, strings, options, plan))
    if options.share_counters:
        sets = choose_sharing([counters for _, counters in chains], rates)
    else:
        sets = [[number] for number in range(len(chains))]
    tallies += [_make_shared([chains[number] for number in one], schema, strings, options) for one in sets]
    return tallies


def would_share_otherwise(tallies: Sequence[Tally], queries: Sequence[Query], rates: Mapping[str, float]) -> bool:
    """Whether other queries are best counted together than those that are, now that the rates of types are known."""
    shared = [tally.evaluator for tally in tallies if isinstance(tally.evaluator, SubPatternEvaluator)]
    chains = {n: c.counters for one in shared for n, c in zip(one.query_names, one.patterns.chains, strict=True)}
    names = [query.name or "q1" for query in queries if (query.name or "q1") in chains]
    best = {frozenset(names[k] for k in one) for one in choose_sharing([chains[name] for name in names], rates)}
    return best != {frozenset(one.query_names) for one in shared}


def _plan(query: Query, schema: Schema, options: Options, plan: Choice | None) -> AggregatePlan:
    """How a query is aggregated. A plan of joins is for detection; without any the planner chooses."""
    if options.on_limit == "shed":
        raise PlanError(
            f"query `{query.name}`: on_limit='shed' cannot go with AGG: numbers about what is left would be wrong"
        )
    asked = Method.DETECTION if isinstance(plan, Plan) else plan
    chosen = plan_aggregates(query, normalize(query), schema, asked)
    if chosen.counters is not None and not fits(chosen.method, chosen.counters):
        raise PlanError(f"query `{query.name}` cannot be aggregated by {chosen.method.value}")
    if chosen.counters is None and asked not in (None, Method.DETECTION):
        raise PlanError(f"query `{query.name}` needs detection: {', '.join(chosen.obstacles)}")
    return chosen


def _make_shared(
    chains: Sequence[tuple[Query, Counters]], schema: Schema, strings: StringTable, options: Options
) -> Tally:
    patterns = share_counters([counters for _, counters in chains])
    return Tally(SubPatternEvaluator.make([query for query, _ in chains], patterns, schema, strings, options))


def _make_tally(
    query: Query, chosen: AggregatePlan, schema: Schema, strings: StringTable, options: Options, plan: Choice | None
) -> Tally:
    branches = normalize(query)
    if chosen.counters is not None:
        return Tally(CountingEvaluator.make(query, branches, chosen.method, chosen.counters, schema, strings, options))
    joins = plan if isinstance(plan, Plan) else None
    inner = make_evaluator(matches_of(query), schema, strings, options, joins)
    return Tally(DetectedEvaluator.make(query, inner, find_triggers(query, branches, schema), strings))


def load_tallies(
    dumped: Sequence[Mapping[str, Any]],
    arenas: Sequence[Int64s],
    queries: Sequence[Query],
    schema: Schema,
    strings: StringTable,
    options: Options,
    asked: Mapping[str, Choice],
) -> list[Tally]:
    """Tallies as `Tally.dump` told of them: queries share counters as they did, whatever would be chosen now."""
    by_name = {query.name or "": query for query in queries}
    tallies = []
    for told, arena in zip(dumped, arenas, strict=True):
        for name in told["queries"]:
            if name in asked and not is_choice(asked[name], told["plan"]):
                raise StateError(f"the snapshot is of another plan of query `{name}`")
        plan = load_choice(told["plan"])
        mine = [by_name[name] for name in told["queries"]]
        chosen = [_plan(query, schema, options, plan) for query in mine]
        if plan is Method.SUB_PATTERNS:
            chains = [(q, one.counters) for q, one in zip(mine, chosen, strict=True) if one.counters is not None]
            tally = _make_shared(chains, schema, strings, options)
        else:
            tally = _make_tally(mine[0], chosen[0], schema, strings, options, plan)
        if tally.evaluator.digest != told["program"]:
            raise StateError("the snapshot is of another version of ensue: the same plan is run in another way now")
        tally.state = tally.evaluator.load_state(arena, (0, 0))
        tallies.append(tally)
    return tallies


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
