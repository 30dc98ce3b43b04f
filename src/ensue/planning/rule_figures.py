"""What planners work on for a rule: how many tuples its events give, and the share of pairs that join.

A rule has no window as a pattern has one. But its conditions on time bound how far apart two of its events may end:
their reach. W is the longest of all reaches (without a bound: the time that the statistics are of), and the conditions
on time let through of each pair a share as large as its reach is of W. With that the cost model of patterns counts the
tuples that a rule's joins make in a time W.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from ensue.pattern.expressions import Expression
from ensue.pattern.normalize import Variable
from ensue.planning.figures import Figures, Shape, rate_name, selectivity_name
from ensue.planning.rules import RulePlan
from ensue.rules.lowering import Body, condition_events, condition_variables
from ensue.statistics.snapshot import Estimate, Statistics


@dataclass(frozen=True, slots=True)
class Tie:
    """What two events of a rule have to do with each other besides time: variables in common, and conditions."""

    left: str
    right: str
    variables: tuple[str, ...]
    conditions: tuple[Expression, ...]


def find_ties(body: Body) -> Iterator[Tie]:
    """The pairs of events that have something to do with each other; a condition on three belongs to none."""
    for one, other in combinations(body.sources, 2):
        shared = tuple(sorted(one.variables.keys() & other.variables.keys()))
        both = one.variables.keys() | other.variables.keys()
        conditions = []
        for condition in body.rule.conditions:
            variables, events = condition_variables(condition), condition_events(condition, body)
            alone = any(variables <= s.variables.keys() and events <= {s.name} for s in body.sources)
            if not alone and variables <= both and events <= {one.name, other.name}:
                conditions.append(condition)
        if shared or conditions:
            yield Tie(one.name, other.name, shared, tuple(conditions))


def reach_of(plan: RulePlan, one: str, other: str) -> int | None:
    """In how many steps of time two events of a rule may end, seen from either; None if nothing bounds it."""
    ends = (one, "end"), (other, "end")
    later, earlier = plan.closure.difference(*ends), plan.closure.difference(*reversed(ends))
    return None if later is None or earlier is None else later + earlier + 1


def longest_reach(plan: RulePlan) -> int | None:
    """The longest reach of all pairs; None if one is not bounded."""
    reaches = [reach_of(plan, a.name, b.name) for a, b in combinations(plan.body.sources, 2)]
    known = [reach for reach in reaches if reach is not None]
    return max(known, default=1) if len(known) == len(reaches) else None


def rule_figures(plan: RulePlan, statistics: Statistics) -> Figures:
    """The figures of a rule; its statistics have the names of its events in place of types."""
    names = [source.name for source in plan.body.sources]
    window = float(longest_reach(plan) or max(statistics.window, 1.0))
    found = {rate_name(name): statistics.rate(name) for name in names}
    for one, other in combinations(names, 2):
        reach = reach_of(plan, one, other)
        time = 1.0 if reach is None else min(1.0, reach / window)
        data = statistics.pair(one, other)
        found[selectivity_name(one, other)] = Estimate(data.value * time, data.variance * time**2)
    shape = Shape(tuple(Variable(name, name) for name in names))
    values = {name: estimate.value for name, estimate in found.items()}
    return Figures(shape, window, values, {name: estimate.variance for name, estimate in found.items()})
