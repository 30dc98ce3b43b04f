"""The loop that keeps a plan fit for its stream: watch, decide, plan, replace, and write down what was done.

Kolchinsky and Schuster, Algorithm 1. Statistics come from samples of the events, so that they do not depend on the plan
in use; a decision function says when they call for planning anew; a plan that is cheaper under them takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from ensue.errors import PlanError, StateError
from ensue.events.batch import EventBatch
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Policy, Query, TimeWindow
from ensue.planning.comparisons import Planned
from ensue.planning.decisions import (
    Always,
    ByInvariants,
    Decision,
    Reason,
    Static,
    Threshold,
    Unconditional,
    gain_of,
    load_decision,
)
from ensue.planning.distances import TunedDistance
from ensue.planning.expectation import Expectation, check_known, expect, find_figures
from ensue.planning.figures import Figures
from ensue.planning.invariants import Violation, Watch
from ensue.planning.latency import Timings
from ensue.planning.objectives import ForLatency, ForThroughput, Objective, ObjectiveName, check_objective
from ensue.planning.plan import Plan, dump_plan, load_plan
from ensue.planning.planners import planner_named
from ensue.runtime.cadence import Cadence
from ensue.runtime.lanes import Method
from ensue.runtime.rows import RowStore
from ensue.runtime.trying import Trial
from ensue.runtime.verdicts import Verdicts
from ensue.runtime.watching import Watcher
from ensue.statistics.collector import query_window
from ensue.statistics.snapshot import Statistics

Adapt: TypeAlias = "Literal['invariants', 'threshold', 'unconditional', 'static'] | Adaptation"

_DECISIONS: dict[str, Decision] = {
    "invariants": ByInvariants(Watch(count=8), TunedDistance(start=0.1), sure=1.0),
    "threshold": Threshold(0.5),
    "unconditional": Unconditional(),
    "static": Static(),
}


@dataclass(frozen=True)
class Adaptation:
    """How plans are kept fit for the stream.

    `planner` is the name of a planner (rate, greedy, order, zstream, bushy); `decision` says when to plan anew: a name
    (invariants, threshold, unconditional, static) or a decision of `ensue.planning.decisions`. Checks take no more than
    a share `budget` of the time, less while they find nothing, or with `every` come each so many events, so that a run
    can be repeated exactly. Statistics are of the last so many `windows` of the query, and of some events of each type
    at least: fewer notice a change sooner, more are surer. A plan takes over if it saves a share `gain` of the cost by
    them, and is quicker when both are `tried` on the last events (None: unless `every` is given, for what is measured
    is never the same twice). `method` says how it takes over, `auto` by cost. `stored`: the plans keep the partial
    matches of their joins.

    `objective` says what plans are for: throughput, or latency, for which a plan decides by itself what it keeps, and
    `planner`, `gain`, `tried` and `stored` do not count. That needs the `timings` of the machine: they are measured
    unless they are given, once in a process or at checks again after so many seconds (`recalibrate`).

    >>> Adaptation(planner="zstream", decision="threshold").decision
    'threshold'
    """

    planner: str = "greedy"
    decision: str | Decision = "invariants"
    every: int | None = None
    budget: float = 0.01
    windows: float = 4.0
    gain: float = 0.1
    tried: bool | None = None
    method: Literal["auto", "replay", "side by side"] = "auto"
    stored: bool = True
    objective: ObjectiveName = "throughput"
    timings: Timings | None = None
    recalibrate: float | None = None

    def __post_init__(self) -> None:
        planner_named(self.planner)
        check_objective(self.objective)
        if self.recalibrate is not None and not self.recalibrate > 0:
            raise PlanError(f"to measure again after {self.recalibrate} seconds is to do nothing else: take more")
        if isinstance(self.decision, str) and self.decision not in _DECISIONS:
            raise PlanError(f"there is no decision {self.decision!r}: take one of {', '.join(_DECISIONS)}")
        if self.every is not None and self.every < 1:
            raise PlanError(f"a check every {self.every} events is none: take 1 or more")
        if not self.windows > 0:
            raise PlanError(f"statistics of {self.windows} windows are of nothing: take a number above 0")
        if not 0 <= self.gain < 1:
            raise PlanError(f"a plan cannot save a share of {self.gain}: take a number from 0 up to 1")
        if not 0 < self.budget <= 1:
            raise PlanError(f"a budget of {self.budget} is no share of the time: take a number above 0, up to 1")
        if self.method not in ("auto", "replay", "side by side"):
            raise PlanError(f"there is no method {self.method!r}: take auto, replay or side by side")

    @property
    def function(self) -> Decision:
        """The decision function."""
        return _DECISIONS[self.decision] if isinstance(self.decision, str) else self.decision

    @property
    def cadence(self) -> Cadence | None:
        """When to check; None if never."""
        return None if isinstance(self.function, Static) else Cadence(self.every, self.budget)

    @property
    def tries(self) -> bool:
        """Whether plans are tried before they take over."""
        wanted = self.every is None if self.tried is None else self.tried
        return wanted and self.objective == "throughput"

    @property
    def aim(self) -> Objective:
        """What makes and compares plans; for latency the machine is measured if it has to be."""
        if self.objective == "throughput":
            return ForThroughput(planner_named(self.planner), self.stored)
        timings = self.measured().timings
        assert timings is not None
        return ForLatency(timings)

    def measured(self) -> Adaptation:
        """The same with the timings of this machine, if they are needed and were not given."""
        if self.objective == "throughput" or self.timings is not None:
            return self
        from ensue.runtime.calibration import timings_here

        return replace(self, timings=timings_here(self.recalibrate))

    def plan(self, query: Query, schema: Schema, statistics: Statistics) -> tuple[Plan, Expectation]:
        """The plan that a query would get if the stream is as the statistics say, and what to expect of it."""
        branches = normalize(query)
        check_known(query, branches, statistics)
        aim = self.aim
        figures = find_figures(query, branches, statistics, query_window(query, schema))
        figures = [one.at_pace(pace_of(schema)) for one in figures]
        planned = [aim.plan(one) for one in figures]
        plan = Plan(tuple(aim.ready(one.tree) for one in planned))
        decisions = [self.function.armed(one, found) for one, found in zip(figures, planned, strict=True)]
        return plan, expect(query, branches, schema, plan, figures, statistics, decisions, aim)


def pace_of(schema: Schema) -> float:
    """How many units of the time column pass in a second, if events come as they happen."""
    if schema.columns[schema.time] is not DType.INT:
        return 1e6
    return {TimeUnit.US: 1e6, TimeUnit.MS: 1e3, TimeUnit.S: 1.0}[schema.unit]


def read_adapt(adapt: Adapt | bool | None, objective: str = "throughput") -> Adaptation | None:
    """What a user says about adaptation: a decision's name, True for the default, or all of it.

    Plans for latency need to know the stream, so that this objective alone is to adapt too.

    >>> read_adapt(None, "latency").objective, read_adapt(None)
    ('latency', None)
    """
    wanted = check_objective(objective)
    if isinstance(adapt, str):
        adapt = Adaptation(decision=adapt)
    found = Adaptation() if adapt is True else None if adapt is None or adapt is False else adapt
    return found if wanted == "throughput" else replace(found or Adaptation(), objective=wanted)


@dataclass(frozen=True)
class Entry:
    """One line of the journal: what was decided at a check that called for planning, and why.

    `at` is the event time. `left` and `right` are the values of a broken invariant's sides. `method` is None where the
    plan stayed. Costs are those of both plans under the statistics of that moment; `trial` is how many times as long as
    the old plan the new one took for the last events, None if it was not tried. `seconds` is what planning, trying and
    replacing took, `replayed` the number of events that were gone through again.
    """

    query: str
    at: int
    reason: str
    left: float | None
    right: float | None
    old: str
    new: str
    old_cost: float
    new_cost: float
    method: str | None
    seconds: float
    replayed: int
    trial: float | None
    statistics: dict[str, Any] = field(repr=False)

    @property
    def replaced(self) -> bool:
        """Whether another plan took over."""
        return self.method is not None

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON-able values."""
        return asdict(self)

    def __str__(self) -> str:
        done = f"{self.method}, {self.replayed:,} events again" if self.replaced else "kept"
        if self.trial is not None:
            done = f"tried, {self.trial:.3g} times as long; {done}"
        costs = f"{self.old_cost:.6g} -> {self.new_cost:.6g}"
        return (
            f"{self.at} {self.query}: {self.reason}; {self.old} -> {self.new} ({costs}; {done}, {self.seconds:.4f} s)"
        )


Replace: TypeAlias = Callable[[Plan, Method], int]
"""Lets a plan take over; gives the number of events that were gone through again."""
Try: TypeAlias = Callable[[Plan, Plan], Trial | None]
"""Runs the plan in use and another one over the last events; None if that tells nothing."""
TryOn: TypeAlias = Callable[[Callable[[], list[EventBatch]], Plan, Plan], Trial | None]
"""The same over events that are given."""

_TRIED_AGAIN = Always("another plan was slower when it was tried some checks ago")
_SLOW = Always("events have become slow")
_FORMER, _MOST_TRIED = 3, 4
"""How many plans that were in use are remembered, and how many plans are tried at once if events have become slow."""
_WASTED, _WASTED_SHARE = 0.02, 0.01
"""Seconds that trials may take of which nothing comes: so many, and a share of the engine's time; more if slow."""
_MUCH = 2.0
"""By what factor events must have become slower for plans to be tried that nothing else speaks for."""


@dataclass(slots=True)
class Spent:
    """Seconds of processor time: into statistics, decisions (D), planning, trying plans, and replacing them."""

    watching: float = 0.0
    deciding: float = 0.0
    planning: float = 0.0
    trying: float = 0.0
    replacing: float = 0.0

    @classmethod
    def total(cls, parts: Iterable[Spent]) -> Spent:
        """All of them together."""
        sums = cls()
        for part in parts:
            sums.watching += part.watching
            sums.deciding += part.deciding
            sums.planning += part.planning
            sums.trying += part.trying
            sums.replacing += part.replacing
        return sums


class Replanner:
    """Decides by statistics whether a plan is still fit, makes another one, lets it take over, and writes it down."""

    def __init__(self, name: str, plan: Plan, adaptation: Adaptation) -> None:
        self.name = name
        self.plan = plan
        self.adaptation = adaptation
        self.spent = Spent()
        self.checks = self.planned = self.replaced = 0
        self._aim = adaptation.aim
        self._known: Statistics | None = None  # at the last check
        self._verdicts = Verdicts()
        self._former: dict[str, Plan] = {}  # that were in use, the last one last
        self._wasted = 0.0  # seconds in trials that nothing came of
        self._stored: list[dict[str, Any]] | None = None  # the decisions of a snapshot, until they are asked

    @cached_property
    def _decisions(self) -> list[Decision]:
        if self._stored is not None:
            return [load_decision(one) for one in self._stored]
        return [self.adaptation.function for _ in self.plan.trees]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision functions of the branches, with what they watch."""
        return tuple(self._decisions)

    def consider(
        self,
        look: Callable[[], tuple[Statistics, list[Figures]]],
        swap: Replace,
        try_plans: Try | None = None,
        *,
        slower: float = 0.0,
        worked: float = 0.0,
    ) -> Entry | None:
        """Ask whether what is known of the stream calls for another plan; make it, and let it take over.

        `look` gives what is known by now, and what of it planners work on, of each branch. Where events have become
        `slower`, by that factor, it is planned anew whatever the decisions say, if plans can be tried: costs may be
        wrong. Trials that nothing came of may take a share of the seconds `worked`, the more the slower events have
        become; else planning is put off.
        """
        started = time.thread_time()
        self.checks += 1
        if self.adaptation.recalibrate is not None:
            self._aim = self.adaptation.aim
        statistics, figures = look()
        self._known = statistics
        watched = time.thread_time()
        reasons = [decision.wants(one) for decision, one in zip(self._decisions, figures, strict=True)]
        again = self._find_reason(slower) if try_plans is not None else None
        if all(reason is None for reason in reasons):
            reasons = [again for _ in reasons]
        decided = time.thread_time()
        self.spent.watching += watched - started
        self.spent.deciding += decided - watched
        limit = (_WASTED + _WASTED_SHARE * worked) * max(1.0, slower)
        is_put_off = try_plans is not None and self._wasted > limit
        if is_put_off or all(reason is None for reason in reasons):
            return None
        number = 0 if again is None else min(max(1, int(slower)), _MOST_TRIED)
        others = islice(self._others(figures, slower), number)
        return self._plan_anew(statistics, figures, reasons, others, swap, try_plans, decided)

    def _find_reason(self, slower: float) -> Reason | None:
        """Why to look for another plan if statistics give no reason."""
        is_due = self._verdicts.is_due(str(self.plan), self.checks)
        return _SLOW if slower else _TRIED_AGAIN if is_due else None

    def _others(self, figures: Sequence[Figures], slower: float) -> Iterator[Plan]:
        """Plans to try whatever they cost by statistics, but for those that were slower some checks ago.

        First the ones in use before; where events have become much slower, also some that differ in one branch.
        """
        old, now = self.plan, str(self.plan)
        plans = list(reversed(self._former.values()))
        if slower >= _MUCH:
            made = {}
            for k, one in enumerate(figures):
                for tree in map(self._aim.ready, self._aim.others(one)):
                    plan = replace(old, trees=(*old.trees[:k], tree, *old.trees[k + 1 :]))
                    made[str(plan)] = plan
            plans += sorted(made.values(), key=partial(self._aim.rank, figures))
        tried = {now}
        for plan in plans:
            if (name := str(plan)) not in tried and self._verdicts.is_open(now, name, self.checks):
                tried.add(name)
                yield plan

    def _plan_anew(
        self,
        statistics: Statistics,
        figures: Sequence[Figures],
        reasons: Sequence[Reason | None],
        others: Iterator[Plan],
        swap: Replace,
        try_plans: Try | None,
        started: float,
    ) -> Entry:
        """Plan the branches for which there is a reason; let the plan take over if it is better.

        If it is not, one of the `others` may be: they are tried.
        """
        old = self.plan
        planned = [
            None if reason is None else self._aim.plan(one) for reason, one in zip(reasons, figures, strict=True)
        ]
        trees = [tree if one is None else one.tree for one, tree in zip(planned, old.trees, strict=True)]
        new = Plan(tuple(map(self._aim.ready, trees)), old.index)
        is_ready = all(self._aim.ready(tree) == tree for tree in old.trees)
        gain = self.adaptation.gain if self.adaptation.objective == "throughput" else 0.0
        old_rank, new_rank = self._aim.rank(figures, old), self._aim.rank(figures, new)
        is_cheaper = new_rank < old_rank
        misled = self._verdicts.misled(str(old), str(new), self.checks)
        is_better = misled * new_rank < (1.0 - gain) * old_rank
        is_better |= new_rank == old_rank and not is_ready and misled <= 1.0
        chosen = time.thread_time()
        self.spent.planning += chosen - started
        trial = self._try(figures, new, try_plans) if is_better and new != old else None
        is_better = is_better if trial is None else trial.is_quicker
        tried = time.thread_time()
        self._arm(figures, planned, reasons, trial, is_cheaper or is_better)
        armed = time.thread_time()
        self.spent.planning += armed - tried
        if not is_better or new == old:
            for new in others:
                trial = self._try(figures, new, try_plans)
                is_better = trial is not None and trial.is_quicker
                if is_better:
                    break
        took = time.thread_time() - armed + tried - chosen
        self.spent.trying += took
        self._wasted += 0.0 if is_better and new != old else took
        old_cost, new_cost = self._aim.cost(figures, old), self._aim.cost(figures, new)
        method: Method | None = None
        replayed = 0
        if is_better and new != old:
            chosen = time.thread_time()
            method = self._choose(old_cost, new_cost)
            replayed = swap(new, method)
            self._note_former(old)
            self.plan = new
            self.replaced += 1
            self.spent.replacing += time.thread_time() - chosen
        self.planned += 1
        reason = next(found for found in reasons if found is not None)
        values = (reason.left, reason.right) if isinstance(reason, Violation) else (None, None)
        return Entry(
            query=self.name,
            at=statistics.at,
            reason=reason.text,
            left=values[0],
            right=values[1],
            old=str(old),
            new=str(new),
            old_cost=old_cost,
            new_cost=new_cost,
            method=method,
            seconds=time.thread_time() - started,
            replayed=replayed,
            trial=None if trial is None else trial.ratio,
            statistics=statistics.to_json(),
        )

    def _try(self, figures: Sequence[Figures], new: Plan, try_plans: Try | None) -> Trial | None:
        """Try a plan in the place of the one in use; None if plans are not tried, or that tells nothing."""
        old = self.plan
        trial = None if try_plans is None else try_plans(old, new)
        if trial is not None:
            rank = self._aim.rank(figures, old)
            expected = self._aim.rank(figures, new) / rank if rank > 0 else 1.0  # 0: no event of the query has come yet
            self._verdicts.add(str(old), str(new), trial, expected, self.checks)
        return trial

    def _note_former(self, plan: Plan) -> None:
        self._former.pop(str(plan), None)
        self._former[str(plan)] = plan
        while len(self._former) > _FORMER:
            del self._former[next(iter(self._former))]

    def _choose(self, old_cost: float, new_cost: float) -> Method:
        """How the new plan takes over: by going through a window again, or by running both for a window."""
        if self.adaptation.method != "auto":
            return self.adaptation.method
        return "replay" if new_cost <= old_cost else "side by side"

    def _arm(
        self,
        figures: Sequence[Figures],
        planned: Sequence[Planned | None],
        reasons: Sequence[Reason | None],
        trial: Trial | None,
        is_better: bool,
    ) -> None:
        for k, (one, found, reason) in enumerate(zip(figures, planned, reasons, strict=True)):
            if found is not None and reason is not None:
                tree = self._aim.bare(self.plan.trees[k])
                learned = self._decisions[k]
                if trial is None:
                    learned = learned.after(reason, gain_of(one, tree, found.tree, found.measure))
                elif trial.ratio < 1.0:  # a plan that is slower has its verdict: the comparison was right to break
                    learned = learned.after(reason, 1.0 - trial.ratio)
                self._decisions[k] = learned.armed(one, found, None if is_better else tree)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump_decisions(self) -> dict[str, Any]:
        """What was decided so far as JSON-able values, for `load_decisions`."""
        asked = self._stored is None or "_decisions" in self.__dict__
        return {
            "decisions": [decision.dump() for decision in self._decisions] if asked else self._stored,
            "counts": [self.checks, self.planned, self.replaced],
            "verdicts": self._verdicts.dump(),
            "former": [dump_plan(plan) for plan in self._former.values()],
            "wasted": self._wasted,
            "rule": self._rule(),
        }

    def _rule(self) -> list[Any]:
        """What makes plans and says when: what is watched is of no use to another rule."""
        adaptation = self.adaptation
        planner = adaptation.planner if adaptation.objective == "throughput" else adaptation.objective
        return [planner, adaptation.stored, adaptation.function.dump()]

    def load_decisions(self, state: Mapping[str, Any], *, is_known: bool) -> None:
        """Take up what `dump_decisions` gave; by another rule, or from unknown statistics, it is planned anew."""
        self.checks, self.planned, self.replaced = state["counts"]
        self._wasted = state.get("wasted", 0.0)
        if is_known and state["rule"] == self._rule():
            self._stored = list(state["decisions"])
            self._verdicts = Verdicts(state.get("verdicts", ()))
            self._former = {str(plan): plan for plan in map(load_plan, state.get("former", ()))}


class Adapter(Replanner):
    """The loop for one query."""

    def __init__(
        self, query: Query, branches: Sequence[Branch], plan: Plan, schema: Schema, adaptation: Adaptation
    ) -> None:
        super().__init__(query.name or "", plan, adaptation)
        self.query = query
        self.branches = tuple(branches)
        self._schema = schema
        self._window = query_window(query, schema)
        self.pace = pace_of(schema)  # of the stream's time, in units a second
        self.watcher = Watcher(query, schema, adaptation.windows, tries=adaptation.tries)

    @staticmethod
    def fits(query: Query) -> bool:
        """Whether a query can be adapted: a plan runs it, and a window of time bounds what a new plan needs."""
        return query.policy is Policy.ANY and isinstance(query.within, TimeWindow)

    def check(
        self,
        rows: RowStore,
        next_event: int,
        swap: Replace,
        try_plans: TryOn,
        *,
        slower: float = 0.0,
        worked: float = 0.0,
    ) -> Entry | None:
        """Ask whether the stream calls for another plan, once the events before that number have been looked at."""
        recent = self.watcher.recent(rows, next_event) if self.adaptation.tries else None

        def look() -> tuple[Statistics, list[Figures]]:
            statistics = self.watcher.look(rows, next_event)
            return statistics, self.figures(statistics)

        tries = None if recent is None else partial(try_plans, recent)
        return self.consider(look, swap, tries, slower=slower, worked=worked)

    def figures(self, statistics: Statistics) -> list[Figures]:
        """What planners work on, of each branch."""
        found = find_figures(self.query, self.branches, statistics, self._window)
        return found if self.adaptation.objective == "throughput" else [one.at_pace(self.pace) for one in found]

    def expect(self) -> Expectation | None:
        """What the plan is expected to cost by what was known at the last check; None before the first."""
        if self._known is None:
            return None
        figures = self.figures(self._known)
        about = (self.query, self.branches, self._schema, self.plan)
        return expect(*about, figures, self._known, self._decisions, self._aim)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`; the plan is the lane's to keep."""
        watched, tables = self.watcher.dump()
        return {"watched": watched, "windows": self.adaptation.windows, **self.dump_decisions()}, tables

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table], plan: Plan) -> None:
        """Take up what `dump` gave; by another rule it is planned anew at the next check."""
        if len(state["decisions"]) != len(self.branches):
            raise StateError(f"the state of query `{self.query.name}` is of another pattern")
        self.plan = plan
        is_known = state["windows"] == self.adaptation.windows
        if is_known:
            self.watcher.load(state["watched"], tables)
        self.load_decisions(state, is_known=is_known)
