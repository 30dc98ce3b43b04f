"""The loop that keeps a plan fit for its stream: watch, decide, plan, replace, and write down what was done.

Kolchinsky and Schuster, Algorithm 1. Statistics come from samples of the stored rows, so that they do not depend on the
plan in use; a decision function says when they call for planning anew; a plan that is cheaper under them takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from ensue.errors import PlanError, StateError
from ensue.events.schema import Schema
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Policy, Query, TimeWindow
from ensue.planning.comparisons import Planned
from ensue.planning.cost import plan_cost
from ensue.planning.decisions import (
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
from ensue.planning.invariants import Violation
from ensue.planning.plan import Plan
from ensue.planning.planners import make_plan, planner_named, with_storage
from ensue.runtime.lanes import Method
from ensue.runtime.rows import RowStore
from ensue.runtime.sampled import evaluating
from ensue.statistics.collector import Collector, query_window
from ensue.statistics.snapshot import Statistics

Adapt: TypeAlias = "Literal['invariants', 'threshold', 'unconditional', 'static'] | Adaptation"

_DECISIONS: dict[str, Decision] = {
    "invariants": ByInvariants(distance=TunedDistance(start=0.1)),
    "threshold": Threshold(0.5),
    "unconditional": Unconditional(),
    "static": Static(),
}


@dataclass(frozen=True)
class Adaptation:
    """How plans are kept fit for the stream.

    `planner` is the name of a planner (rate, greedy, order, zstream, bushy); `decision` says when to plan anew: a name
    (invariants, threshold, unconditional, static) or a decision of `ensue.planning.decisions`. Checks take no more than
    a share `budget` of the time, or with `every` come each so many events, so that a run can be repeated exactly.
    Statistics are of the last so many `windows` of the query: fewer notice a change sooner, more are surer. `method`
    says how a plan takes over, `auto` by cost. `stored`: the plans keep the partial matches of their joins.

    >>> Adaptation(planner="zstream", decision="threshold").decision
    'threshold'
    """

    planner: str = "greedy"
    decision: str | Decision = "invariants"
    every: int | None = None
    budget: float = 0.01
    windows: float = 8.0
    method: Literal["auto", "replay", "side by side"] = "auto"
    stored: bool = True

    def __post_init__(self) -> None:
        planner_named(self.planner)
        if isinstance(self.decision, str) and self.decision not in _DECISIONS:
            raise PlanError(f"there is no decision {self.decision!r}: take one of {', '.join(_DECISIONS)}")
        if self.every is not None and self.every < 1:
            raise PlanError(f"a check every {self.every} events is none: take 1 or more")
        if not self.windows > 0:
            raise PlanError(f"statistics of {self.windows} windows are of nothing: take a number above 0")
        if not 0 < self.budget <= 1:
            raise PlanError(f"a budget of {self.budget} is no share of the time: take a number above 0, up to 1")
        if self.method not in ("auto", "replay", "side by side"):
            raise PlanError(f"there is no method {self.method!r}: take auto, replay or side by side")

    @property
    def function(self) -> Decision:
        """The decision function."""
        return _DECISIONS[self.decision] if isinstance(self.decision, str) else self.decision

    def plan(self, query: Query, schema: Schema, statistics: Statistics) -> tuple[Plan, Expectation]:
        """The plan that a query would get if the stream is as the statistics say, and what to expect of it."""
        branches = normalize(query)
        check_known(query, branches, statistics)
        figures = find_figures(query, branches, statistics, query_window(query, schema))
        planned = [planner_named(self.planner).plan(one) for one in figures]
        plan = make_plan(planned, stored=self.stored)
        decisions = [self.function.armed(one, found) for one, found in zip(figures, planned, strict=True)]
        return plan, expect(query, branches, schema, plan, figures, statistics, decisions)


def read_adapt(adapt: Adapt | bool | None) -> Adaptation | None:
    """What a user says about adaptation: a decision's name, True for the default, or all of it."""
    if adapt is None or adapt is False:
        return None
    if adapt is True:
        return Adaptation()
    return Adaptation(decision=adapt) if isinstance(adapt, str) else adapt


class Cadence:
    """When the next check is due: after so many events, or when the last ones' cost is a small share of the time since.

    The number of events between checks is found anew after each of them, from what an event and a check have taken.
    Both are part of the state: an engine that is stored and restored all the time, as on Spark, counts its own time.
    """

    def __init__(self, adaptation: Adaptation) -> None:
        self._adaptation = adaptation
        self.events = min(_FIRST_CHECK, adaptation.every or _FIRST_CHECK)  # between checks
        self.next = self.events  # the number of the event before which the next one comes
        self._since = time.perf_counter()
        self._worked = 0.0  # seconds since the last check, before this engine was restored
        self._cost = 0.0

    def checked(self, next_event: int, seconds: float) -> None:
        """Note that a check has been made, and what it took."""
        if self._adaptation.every is not None:
            self.events = self._adaptation.every
        else:
            working = max(self._working() - seconds, 1e-9)
            self._cost = seconds if self._cost == 0 else 0.7 * self._cost + 0.3 * seconds
            wanted = self._cost / self._adaptation.budget * self.events / working
            self.events = int(min(max(wanted, _FIRST_CHECK), 4 * self.events, _MOST_EVENTS))
        self.postpone(next_event)
        self._since, self._worked = time.perf_counter(), 0.0

    def postpone(self, next_event: int) -> None:
        """Let the next check be as many events away as checks are."""
        self.next = next_event + self.events

    def _working(self) -> float:
        return self._worked + time.perf_counter() - self._since

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values, for `load`."""
        return {"next": self.next, "events": self.events, "worked": self._working(), "cost": self._cost}

    def load(self, state: Mapping[str, Any], next_event: int) -> None:
        """Take up what `dump` gave; checks that are more frequent now come as soon."""
        self.events = self._adaptation.every or state["events"]
        self.next = min(state["next"], next_event + self.events)
        self._worked, self._cost = state["worked"], state["cost"]


_FIRST_CHECK = 2048
_MOST_EVENTS = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One line of the journal: what was decided at a check that called for planning, and why.

    `at` is the event time. `left` and `right` are the values of a broken invariant's sides. `method` is None where the
    plan stayed. Costs are those of both plans under the statistics of that moment; `seconds` is what planning and
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
        costs = f"{self.old_cost:.6g} -> {self.new_cost:.6g}"
        return (
            f"{self.at} {self.query}: {self.reason}; {self.old} -> {self.new} ({costs}; {done}, {self.seconds:.4f} s)"
        )


Replace: TypeAlias = Callable[[Plan, Method], int]
"""Lets a plan take over; gives the number of events that were gone through again."""


class Adapter:
    """The loop for one query."""

    def __init__(
        self, query: Query, branches: Sequence[Branch], plan: Plan, schema: Schema, adaptation: Adaptation
    ) -> None:
        self.query = query
        self.branches = tuple(branches)
        self.plan = plan
        self.adaptation = adaptation
        self._schema = schema
        self.seconds = 0.0
        self.checks = 0
        self._window = query_window(query, schema)
        self._planner = planner_named(adaptation.planner)
        self._observed = 0  # the next event to look at
        self._stored: tuple[dict[str, Any], list[pa.Table]] | None = None  # of a snapshot, until it is looked at

    @cached_property
    def _collector(self) -> Collector:
        length = None if self._window is None else max(1.0, self.adaptation.windows * self._window)
        made = Collector(self.query, self._schema, evaluating(self._schema), window=length)
        if self._stored is not None:
            made.load(self._stored[0]["collector"], self._stored[1])
        return made

    @cached_property
    def _decisions(self) -> list[Decision]:
        if self._stored is not None:
            return [load_decision(one) for one in self._stored[0]["decisions"]]
        return [self.adaptation.function for _ in self.branches]

    @staticmethod
    def fits(query: Query) -> bool:
        """Whether a query can be adapted: a plan runs it, and a window of time bounds what a new plan needs."""
        return query.policy is Policy.ANY and isinstance(query.within, TimeWindow)

    def check(self, rows: RowStore, next_event: int, swap: Replace) -> Entry | None:
        """Look at what has come since the last check; plan anew if that is called for."""
        started = time.perf_counter()
        if rows.lost[0] >= self._observed:
            self._collector.skip()
        for batch in rows.batches(self._observed):
            self._collector.observe(batch)
        self._observed = next_event
        self.checks += 1
        entry = None
        if not isinstance(self.adaptation.function, Static):
            statistics = self._collector.snapshot()
            figures = self.figures(statistics)
            reasons = [decision.wants(one) for decision, one in zip(self._decisions, figures, strict=True)]
            reason = next((found for found in reasons if found is not None), None)
            if reason is not None:
                entry = self._plan_anew(statistics, figures, reason, swap, started)
        self.seconds += time.perf_counter() - started
        return entry

    def figures(self, statistics: Statistics) -> list[Figures]:
        """What planners work on, of each branch."""
        return find_figures(self.query, self.branches, statistics, self._window)

    def expect(self) -> Expectation | None:
        """What the plan is expected to cost by what was known at the last check; None before the first."""
        if self._collector.latest is None:
            return None
        statistics = self._collector.snapshot()
        figures = self.figures(statistics)
        return expect(self.query, self.branches, self._schema, self.plan, figures, statistics, self._decisions)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision functions of the branches, with what they watch."""
        return tuple(self._decisions)

    def _plan_anew(
        self, statistics: Statistics, figures: Sequence[Figures], reason: Reason, swap: Replace, started: float
    ) -> Entry:
        planned = [self._planner.plan(one) for one in figures]
        new = make_plan(planned, stored=self.adaptation.stored, index=self.plan.index)
        old_cost, new_cost = plan_cost(figures, self.plan), plan_cost(figures, new)
        old = self.plan
        method: Method | None = None
        replayed = 0
        if new != old and (new_cost < old_cost or _same_trees(new, old)):
            method = self._choose(old_cost, new_cost)
            replayed = swap(new, method)
            self.plan = new
        self._arm(figures, planned, reason, old)
        values = (reason.left, reason.right) if isinstance(reason, Violation) else (None, None)
        return Entry(
            query=self.query.name or "",
            at=statistics.at,
            reason=reason.text,
            left=values[0],
            right=values[1],
            old=str(old),
            new=str(new),
            old_cost=old_cost,
            new_cost=new_cost,
            method=method,
            seconds=time.perf_counter() - started,
            replayed=replayed,
            statistics=statistics.to_json(),
        )

    def _choose(self, old_cost: float, new_cost: float) -> Method:
        """How the new plan takes over: by going through a window again, or by running both for a window."""
        if self.adaptation.method != "auto":
            return self.adaptation.method
        return "replay" if new_cost <= old_cost else "side by side"

    def _arm(self, figures: Sequence[Figures], planned: Sequence[Planned], reason: Reason, old: Plan) -> None:
        for k, (one, found) in enumerate(zip(figures, planned, strict=True)):
            learned = self._decisions[k].after(reason, gain_of(one, old.trees[k], found.tree))
            self._decisions[k] = learned.armed(one, found)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`; the plan is the lane's to keep."""
        if self._stored is not None and "_collector" not in self.__dict__:
            return self._stored  # nothing has been observed since: on Spark most micro-batches see no check
        state, tables = self._collector.dump()
        decisions = [decision.dump() for decision in self._decisions]
        return {
            "collector": state,
            "decisions": decisions,
            "observed": self._observed,
            "checks": self.checks,
            "rule": self._rule(),
            "windows": self.adaptation.windows,
        }, tables

    def _rule(self) -> list[Any]:
        """What makes plans and says when: what is watched is of no use to another rule."""
        adaptation = self.adaptation
        return [adaptation.planner, adaptation.stored, adaptation.function.dump()]

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table], plan: Plan) -> None:
        """Take up what `dump` gave; by another rule it is planned anew at the next check."""
        if len(state["decisions"]) != len(self.branches):
            raise StateError(f"the state of query `{self.query.name}` is of another pattern")
        self.checks, self.plan = int(state["checks"]), plan
        if state["windows"] != self.adaptation.windows:
            return
        self._observed = int(state["observed"])
        if state["rule"] == self._rule():
            self._stored = (dict(state), list(tables))
        else:
            self._collector.load(state["collector"], tables)


def _same_trees(one: Plan, other: Plan) -> bool:
    """Whether plans differ in what they store alone."""
    bare = [[with_storage(tree, stored=False) for tree in plan.trees] for plan in (one, other)]
    return bare[0] == bare[1]
