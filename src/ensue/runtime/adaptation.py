"""How plans are kept fit for the stream: what a user can say about it, and what is done by default."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, cast

from ensue.errors import PlanError
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Query
from ensue.planning.decisions import ByInvariants, Decision, Static, Threshold, Unconditional
from ensue.planning.distances import TunedDistance
from ensue.planning.expectation import Expectation, check_known, expect, find_figures
from ensue.planning.figures import LOOK_WEIGHT, Figures
from ensue.planning.invariants import Watch
from ensue.planning.latency import Timings
from ensue.planning.objectives import ForLatency, ForThroughput, Objective, ObjectiveName, check_objective
from ensue.planning.plan import Plan
from ensue.planning.planners import planner_named
from ensue.runtime.cadence import Cadence
from ensue.statistics.collector import query_window
from ensue.statistics.snapshot import Statistics

Adapt: TypeAlias = "Literal['invariants', 'threshold', 'unconditional', 'static'] | Adaptation"

WATCHED = Watch(count=8, unused=21)
"""What is watched if nothing else is said: of unused sub-plans as many as ZStream's planner has for eight variables;
with more, to check them would take longer than to plan."""

_DECISIONS: dict[str, Decision] = {
    "invariants": ByInvariants(WATCHED, TunedDistance(start=0.1), sure=1.0),
    "threshold": Threshold(0.5),
    "unconditional": Unconditional(),
    "static": Static(),
}


@dataclass(frozen=True)
class Adaptation:
    """How plans are kept fit for the stream.

    `planner` is the name of a planner (rate, greedy, order, zstream, bushy); `decision` says when to plan anew: a name
    (invariants, threshold, unconditional, static) or a decision of `ensue.planning.decisions`. Checks take about a
    share `budget` of the time, less while they find nothing, or with `every` come each so many events, so that a run
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
        if not isinstance(self.planner, str):
            raise PlanError(f"planner is {self.planner!r}: take the name of one")
        planner_named(self.planner)
        check_objective(self.objective)
        if isinstance(self.decision, str) and self.decision not in _DECISIONS:
            raise PlanError(f"there is no decision {self.decision!r}: take one of {', '.join(_DECISIONS)}")
        if not (isinstance(self.decision, str) or _is_decision(self.decision)):
            raise PlanError(
                f"{self.decision!r} is no decision: take one of {', '.join(_DECISIONS)}, or what "
                "ensue.planning.decisions makes, as in ByInvariants()"
            )
        if not isinstance(self.tried, bool | None):
            raise PlanError(f"tried is {self.tried!r}: take True, False or None")
        if not isinstance(self.timings, Timings | None):
            raise PlanError(f"timings are {self.timings!r}: take those of ensue.planning.latency")
        for name in ("budget", "windows", "gain", "recalibrate"):
            self._keep(name, float)
        self._keep("every", int)
        if self.recalibrate is not None and not self.recalibrate > 0:
            raise PlanError(f"to measure again after {self.recalibrate} seconds is to do nothing else: take more")
        if self.every is not None and self.every < 1:
            raise PlanError(f"a check every {self.every} events is none: take 1 or more")
        if not 0 < self.windows < math.inf:
            raise PlanError(f"statistics cannot be of {self.windows} windows: take a number above 0")
        if not 0 <= self.gain < 1:
            raise PlanError(f"a plan cannot save a share of {self.gain}: take a number from 0 up to 1")
        if not 0 < self.budget <= 1:
            raise PlanError(f"a budget of {self.budget} is no share of the time: take a number above 0, up to 1")
        if self.method not in ("auto", "replay", "side by side"):
            raise PlanError(f"there is no method {self.method!r}: take auto, replay or side by side")

    def _keep(self, name: str, plain: type[int] | type[float]) -> None:
        """Refuse what is no such number; keep one, NumPy's too, as Python's own."""
        value: Any = getattr(self, name)
        if value is None and name in ("every", "recalibrate"):
            return
        is_number = isinstance(value, Integral) if plain is int else isinstance(value, Real)
        if isinstance(value, bool) or not is_number:
            raise PlanError(f"{name} is {value!r}: take a {'whole number' if plain is int else 'number'}")
        object.__setattr__(self, name, value if isinstance(value, int) else plain(value))

    @property
    def function(self) -> Decision:
        """The decision function."""
        return _DECISIONS[self.decision] if isinstance(self.decision, str) else self.decision

    def cadence(self, clock: Callable[[], float] = time.thread_time) -> Cadence | None:
        """When to check by a clock that shows how long plans have been at work; None if never."""
        return None if isinstance(self.function, Static) else Cadence(self.every, self.budget, clock)

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

    def figures(
        self, query: Query, branches: Sequence[Branch], statistics: Statistics, within: float | None, pace: float
    ) -> list[Figures]:
        """What planners work on, of each branch: costs count looks, latencies the pace of the stream."""
        found = find_figures(query, branches, statistics, within)
        if self.objective == "throughput":
            return [one.with_looks(LOOK_WEIGHT) for one in found]
        return [one.at_pace(pace) for one in found]

    def plan(self, query: Query, schema: Schema, statistics: Statistics) -> tuple[Plan, Expectation]:
        """The plan that a query would get if the stream is as the statistics say, and what to expect of it."""
        branches = normalize(query)
        check_known(query, branches, statistics)
        aim = self.aim
        figures = self.figures(query, branches, statistics, query_window(query, schema), pace_of(schema))
        planned = [aim.plan(one) for one in figures]
        plan = Plan(tuple(aim.ready(one.tree) for one in planned))
        decisions = [self.function.armed(one, found) for one, found in zip(figures, planned, strict=True)]
        return plan, expect(query, branches, schema, plan, figures, statistics, decisions, aim)


def _is_decision(value: object) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "wants", None))


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
    if not isinstance(cast(object, adapt), Adaptation | bool | None):
        names = ", ".join(map(repr, _DECISIONS))
        to = "; a decision goes into Adaptation(decision=…)" if _is_decision(adapt) else ""
        raise PlanError(f"adapt is {adapt!r}: take True, one of {names}, or an ensue.Adaptation{to}")
    found = Adaptation() if adapt is True else None if adapt is None or adapt is False else adapt
    return found if wanted == "throughput" else replace(found or Adaptation(), objective=wanted)
