"""What a plan is expected to cost under some statistics, beside the plans of all planners, and on what it rests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ensue.errors import PlanError
from ensue.events.schema import DType, Schema
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.normalize import Branch
from ensue.pattern.query import Query
from ensue.planning.cost import Costs, plan_cost
from ensue.planning.decisions import ByInvariants, Decision, Static, Threshold, Unconditional
from ensue.planning.default import default_plan
from ensue.planning.eager_lazy import find_candidates
from ensue.planning.figures import Figures, figures_of, planning_window
from ensue.planning.latency import latency_of
from ensue.planning.objectives import ForLatency, Objective
from ensue.planning.plan import Plan, Tree
from ensue.planning.planners import PLANNERS, make_plan
from ensue.statistics.snapshot import Statistics


@dataclass(frozen=True, slots=True)
class Alternative:
    """A planner's plan and its cost; `default` is the plan that is taken while nothing is known."""

    planner: str
    plan: str
    cost: float


@dataclass(frozen=True, slots=True)
class WatchedComparison:
    """An invariant with the values of both sides; it counts as broken when left exceeds right by a share `distance`."""

    block: str
    text: str
    left: float
    right: float
    distance: float
    holds: bool


@dataclass(frozen=True, slots=True)
class ExpectedCandidate:
    """A way to part the variables into eager / lazy ones, with its expected times in seconds.

    `wait` in the queue is None where it grows for ever, `service` is that of a match's last event. `pressed` is the
    latency while there is more to do than on average, by which plans are compared; None as `wait`.
    """

    name: str
    plan: str
    wait: float | None
    service: float
    utilisation: float
    pressed: float | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class BranchExpectation:
    """What a branch's cost rests on.

    `events` are those of each variable in a window, after its own conditions, and of those that must not be between two
    others; `selectivities` those of pairs, by name.
    `invariants` are those of the plan, and those that are broken of so many `hints`, of sub-plans that it makes no use
    of. `candidates` are the plans that were compared by latency, where that is the objective.
    """

    events: Mapping[str, float]
    selectivities: Mapping[str, float]
    invariants: tuple[WatchedComparison, ...]
    hints: int
    candidates: tuple[ExpectedCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """The cost of a query's plan under statistics of so much time (`over`, up to `at`), in the time column's units.

    `span` tells that time in words, `replanned` when another plan is looked for; `passed_over` is the planner's last
    plan if it is not in use.
    """

    over: float
    at: int
    span: str
    cost: float
    alternatives: tuple[Alternative, ...]
    replanned: str
    branches: tuple[BranchExpectation, ...]
    passed_over: Alternative | None = None


def find_figures(
    query: Query, branches: Sequence[Branch], statistics: Statistics, within: float | None
) -> list[Figures]:
    """What planners work on, of each branch; `within` is the query's window of time in the statistics' units."""
    window = planning_window(query, within, statistics)
    partitioned = bool(query.partition_by)
    return [figures_of(branch, window, statistics, partitioned=partitioned) for branch in branches]


def check_known(query: Query, branches: Sequence[Branch], statistics: Statistics) -> None:
    """Refuse statistics that say nothing of a type that the query waits for: they were taken for another query."""
    for kind in dict.fromkeys(v.type for branch in branches for v in branch.variables):
        if kind not in statistics.rates:
            hint = did_you_mean(kind, statistics.rates) or "take them with `ensue stats` for this query"
            raise PlanError(f"query `{query.name}`: the statistics say nothing of type `{kind}`; {hint}")


def expect(
    query: Query,
    branches: Sequence[Branch],
    schema: Schema | None,
    plan: Plan,
    figures: Sequence[Figures],
    statistics: Statistics,
    decisions: Sequence[Decision],
    aim: Objective,
    passed_over: Plan | None = None,
) -> Expectation:
    """The cost of a plan under those figures, beside those of all planners, and what its decisions watch.

    That is of the planner's last plan, which is in use unless it was `passed_over`.
    """
    others = {"default": default_plan(query, branches, schema)}
    for name, planner in PLANNERS.items():
        others[name] = make_plan([planner.plan(one) for one in figures], stored=False)
    return Expectation(
        over=statistics.window,
        at=statistics.at,
        span=_span(statistics, schema),
        cost=aim.cost(figures, plan),
        alternatives=tuple(Alternative(name, str(one), plan_cost(figures, one)) for name, one in others.items()),
        replanned=_rule(decisions[0]),
        branches=tuple(
            _branch(one, decision, _candidates(one, tree, aim))
            for one, decision, tree in zip(figures, decisions, plan.trees, strict=True)
        ),
        passed_over=None
        if passed_over is None
        else Alternative("passed over", str(passed_over), aim.cost(figures, passed_over)),
    )


def _span(statistics: Statistics, schema: Schema | None) -> str:
    if schema is None or schema.columns[schema.time] is DType.INT:
        return f"{statistics.window:,.6g} units of time up to {statistics.at}"
    return f"{statistics.window / 1e6:,.6g} s up to {np.datetime64(statistics.at, 'us')}"


def _candidates(figures: Figures, tree: Tree, aim: Objective) -> tuple[ExpectedCandidate, ...]:
    if not isinstance(aim, ForLatency):
        return ()
    found = find_candidates(figures, aim.timings)
    taken = next((k for k, one in enumerate(found) if one.tree == tree), None)
    rows = [(one.name, one.tree, one.latency, k == taken) for k, one in enumerate(found)]
    if taken is None:  # a plan from before, that is no worse
        rows.append(("in use", tree, latency_of(Costs(figures), tree, aim.timings), True))
    return tuple(
        ExpectedCandidate(
            name,
            str(Plan((tree,))),
            _finite(latency.wait),
            latency.service,
            latency.utilisation,
            _finite(latency.pressed),
            chosen,
        )
        for name, tree, latency, chosen in rows
    )


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _branch(figures: Figures, decision: Decision, candidates: tuple[ExpectedCandidate, ...]) -> BranchExpectation:
    costs = Costs(figures)
    names = figures.shape.names
    watched = []
    hints = 0
    if isinstance(decision, ByInvariants) and decision.invariants is not None:
        hints = len(decision.invariants.unused)
        broken = list(decision.invariants.broken(figures, decision.distance, decision.sure))
        violated = {(one.block, one.comparison) for one in broken}
        more = [(one.block, one.comparison) for one in broken if one.hint]
        for block, comparison in (*decision.invariants.watched, *more):
            distance = decision.distance.of(comparison.key)
            sides = comparison.left.value(costs), comparison.right.value(costs)
            holds = (block, comparison) not in violated
            watched.append(WatchedComparison(block, str(comparison), *sides, distance, holds))
    events = {name: figures.window * figures.arrivals(name) for name in names}
    forbidden = {gap.name: figures.window * figures.forbidding(gap) for gap in figures.shape.gaps}
    return BranchExpectation(
        events | forbidden,
        {name: value for name, value in sorted(figures.values.items()) if "," in name},
        tuple(watched),
        hints,
        candidates,
    )


def _rule(decision: Decision) -> str:
    match decision:
        case Static():
            return "never"
        case Unconditional():
            return "at each check"
        case Threshold(t=t):
            return f"when a statistic has moved by {t:.3g} of its value or more"
        case ByInvariants():
            surely = ", and by more than chance" if decision.sure else ""
            return f"when the left side of one of these exceeds the right one by more than a share d of it{surely}"
        case _:
            return f"by {decision}"
