"""How an AGG query is evaluated, in words: what each variable's events do to the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ensue.pattern.expressions import Attribute, IsNull, rewrite
from ensue.pattern.format import format_expression
from ensue.planning.aggregates import AggregatePlan, Counters, Role


@dataclass(frozen=True, slots=True)
class CounterExplanation:
    """The events of a variable, and what each does."""

    variable: str
    type: str
    filters: tuple[str, ...]
    does: str


@dataclass(frozen=True, slots=True)
class AggregateExplanation:
    """How the numbers are made. `obstacles` are what needs the matches themselves; `key` keeps states apart."""

    method: str
    reason: str
    obstacles: tuple[str, ...]
    key: tuple[str, ...]
    counters: tuple[CounterExplanation, ...]


def describe_aggregates(plan: AggregatePlan) -> AggregateExplanation:
    """Explain a choice."""
    counters: tuple[CounterExplanation, ...] = ()
    if plan.counters is not None:
        counters = tuple(_describe_leaf(plan.counters, leaf) for leaf in range(len(plan.counters.leaves)))
    return AggregateExplanation(plan.method.value, plan.reason, plan.obstacles, plan.key, counters)


def _describe_leaf(counters: Counters, leaf: int) -> CounterExplanation:
    source = counters.leaves[leaf]
    filters = [
        format_expression(rewrite(e, lambda node: Attribute(source.variable, node.name or "")))
        for e in source.filter.expressions
        if not isinstance(e, IsNull)
    ]
    ends = {column: role for role in counters.roles for column in role.targets}
    own = [role for role in counters.roles if role.leaf == leaf]
    resets = [_name(counters, ends, column) for role in own for column in role.resets]
    if resets:
        does = f"clears what ends with {_listed(resets)}"
    else:
        before = [column for role in own for column in role.sources if not (0 < column in _targets(own))]
        follows = [_name(counters, ends, column) for column in dict.fromkeys(before) if column]
        parts = ["begins a match"] if 0 in before else []
        parts += [f"follows {_listed(follows)}"] if follows else []
        parts += ["goes on with its list"] if _targets(own) & {c for role in own for c in role.sources} else []
        parts += ["gives a row"] if source.is_trigger else []
        does = ", ".join(parts)
    return CounterExplanation(source.variable, source.type, tuple(filters), does)


def _targets(roles: list[Role]) -> set[int]:
    return {column for role in roles for column in role.targets}


def _name(counters: Counters, ends: Mapping[int, Role], column: int) -> str:
    return counters.leaves[ends[column].leaf].variable


def _listed(names: list[str]) -> str:
    return " or ".join(dict.fromkeys(names))
