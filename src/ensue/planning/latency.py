"""How long a match takes from the arrival of its last event: the time in the queue and the service, by an M/G/1 queue.

Yi, Lee and Whang, section 4. Events come one by one at random (a Poisson process) and are served in order. A plan
says what serving an event means: the steps that it triggers (`temporal.py`), each of which looks at candidates and
makes results. With T_PE, T_RC and T_BI of the machine that gives the service time of each type (Eq. 6–9), their
mean and variance over all types (Eq. 4, 5), and so the mean time in the queue (Eq. 3).

Where this differs from the paper:

- The last event of a match is one event, not all of its type in the window, and candidates are those that the order of
  time leaves: the runtime searches from the newest event back, and finds ranges of time by bisection.
- Every event costs T_BI, the way in; the paper counts it for deferred ones only.
- Eq. 5 prints a sum of roots. The variance of the service time is the sum of the squares, which Eq. 3 needs.
- Sequence predicates are ranges, too. Only stored partial matches are asked one more thing, whether they are still in
  the window: they do not leave it in the order in which they came, and are cleared away once they are twice as many.
- An equality that an index serves costs no look at the events it leaves out.
- What it takes to report matches is part of the service. It is the same in all plans, but a part of the utilisation.
- Plans are ranked by the latency under a load above the mean (SWING), not under the mean load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from ensue.errors import PlanError
from ensue.pattern.normalize import Branch
from ensue.planning.cost import Costs, share
from ensue.planning.figures import Shape, rate_name
from ensue.planning.plan import Tree
from ensue.planning.temporal import Program, derive_storage

OVERLOAD = 1e4
"""What a plan that cannot keep up is ranked by: so many times its mean service time, more than any stable plan.

One that needs 0.9999 of the time has as long a queue.
"""

SWING = 3.0
"""At how many times the mean load plans are compared.

Queues are made while there is more to do than on average, and matches come while there is: partial matches come in
bursts, since few events pass a condition at all, and a burst lasts for a window. What a plan that is quickest under the
mean load gains then is little, what it loses if it does more work altogether is much.
"""

STALE = 1.5
"""How many partial matches a store holds on average for each that is in the window, between two clearings."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that parts of the work take on a machine.

    `predicate` is one condition on one candidate (T_PE), `result` one partial match made (T_RC), `insert` the way of
    one event into its buffer (T_BI), `report` what it takes to hand over the matches that an event completes.
    """

    predicate: float
    result: float
    insert: float
    report: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(seconds) and seconds >= 0 for seconds in astuple(self)) or not self.insert > 0:
            raise PlanError(f"{self}: timings are seconds, none negative, and to take an event in takes some time")


@dataclass(frozen=True, slots=True)
class Latency:
    """What a match's last event is expected to wait and to be served, in seconds.

    `utilisation` is the share of the time that the server is busy (ρ), `mean` the mean service time of all events, the
    inverse of the service rate (1/μ). From a utilisation of 1 the queue grows for ever: `wait` is infinite.
    """

    wait: float
    service: float
    utilisation: float
    mean: float

    @property
    def expected(self) -> float:
        """The whole of it (Eq. 2)."""
        return self.wait + self.service

    @property
    def pressed(self) -> float:
        """What is expected while events come SWING times as fast as on average."""
        if SWING * self.utilisation >= 1.0:
            return math.inf
        longer = SWING * (1.0 - self.utilisation) / (1.0 - SWING * self.utilisation)
        return longer * self.wait + self.service

    @property
    def rank(self) -> float:
        """What plans are compared by: the latency under pressure; if infinite the service rate, after all others."""
        return min(self.pressed, OVERLOAD * self.mean)


@dataclass(frozen=True, slots=True)
class Looking:
    """One step from one partial match: how many conditions it asks, and how many results it makes."""

    predicates: float
    results: float


def look(costs: Costs, trigger: str, bound: frozenset[str], names: frozenset[str], *, is_list: bool) -> Looking:
    """Join stored events or partial matches over `names` to one over `bound` and the trigger, the newest of all."""
    shape, selectivity = costs.figures.shape, costs.figures.selectivity
    known = bound | {trigger}
    if is_list:
        (name,) = names
        return Looking(0.0, costs.growth(bound - names, name))
    candidates = costs.card(names) * share(shape.before, bound | names)
    candidates /= share(shape.before, bound) * share(shape.before, names)
    pairs = [(x, y) for x in shape.names if x in known for y in shape.names if y in names]
    follows = {frozenset(pair) for pair, _ in shape.implied}
    keyed = [pair for pair in pairs if frozenset(pair) in shape.keyed - follows]
    for x, y in keyed[:1]:
        candidates *= selectivity(x, y)
    asked = sum(c <= known | names and bool(c & known) and bool(c & names) for c in shape.conditions)
    asked = max(asked - len(keyed[:1]), 0)
    results = candidates
    for x, y in pairs:
        if (x, y) not in keyed[:1]:
            results *= selectivity(x, y)
    return Looking(candidates * (asked if len(names) == 1 else STALE * (asked + 1)), results)


def latency_of(costs: Costs, tree: Tree, timings: Timings) -> Latency:
    """What to expect of a plan's tree under some figures, if events come one by one."""
    figures = costs.figures
    variables = {v.name: v for v in figures.shape.variables}
    rates = {v.type: figures.values.get(rate_name(v.type), 0.0) * figures.pace for v in figures.shape.variables}
    served = dict.fromkeys(rates, timings.insert)
    last: list[tuple[float, float]] = []  # of events that can be last in a match: how often, and how long it takes
    for program in programs_of(figures.shape, tree):
        kind = variables[program.trigger].type
        seconds, matches = _serve(costs, program, timings)
        often = figures.arrivals(program.trigger) * figures.pace
        passes = often / rates[kind] if rates[kind] > 0 else 1.0
        if program.completes:
            last.append((often, seconds))
            seconds -= timings.report * math.expm1(-matches)  # if it has a match
        served[kind] += passes * seconds
    rate = sum(rates.values())
    weights = {kind: often / rate if rate > 0 else 1.0 / len(rates) for kind, often in rates.items()}
    mean = sum(weight * served[kind] for kind, weight in weights.items())
    variance = sum(weight * (served[kind] - mean) ** 2 for kind, weight in weights.items())
    utilisation = rate * mean
    wait = rate * (mean**2 + variance) / (2.0 * (1.0 - utilisation)) if utilisation < 1.0 else math.inf
    return Latency(wait, timings.insert + _average(last) + timings.report, utilisation, mean)


def _serve(costs: Costs, program: Program, timings: Timings) -> tuple[float, float]:
    """What a trigger's steps take, and how many results the last of them makes."""
    seconds, number = 0.0, 1.0
    bound: frozenset[str] = frozenset()
    for step in program.steps:
        names = frozenset(step.variables)
        one = look(costs, program.trigger, bound, names, is_list=step.is_list)
        seconds += number * (one.predicates * timings.predicate + one.results * timings.result)
        number *= one.results
        bound |= names
    return seconds, number


def _average(weighted: Sequence[tuple[float, float]]) -> float:
    total = sum(weight for weight, _ in weighted)
    if total > 0:
        return sum(weight * value for weight, value in weighted) / total
    return sum(value for _, value in weighted) / max(len(weighted), 1)


@lru_cache(maxsize=1024)
def programs_of(shape: Shape, tree: Tree) -> tuple[Program, ...]:
    """The programs of a tree."""
    return derive_storage(Branch(shape.variables, shape.before), tree).programs
