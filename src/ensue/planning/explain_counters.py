"""How an AGG query is evaluated, in words: what each variable's events do to the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ensue.pattern.expressions import Attribute, IsNull, rewrite
from ensue.pattern.format import format_expression
from ensue.planning.aggregates import AggregatePlan, Counters, Role
from ensue.planning.sharing import choose_sharing, expected_saving
from ensue.planning.sub_patterns import share_counters


@dataclass(frozen=True, slots=True)
class CounterExplanation:
    """The events of a variable, and what each does."""

    variable: str
    type: str
    filters: tuple[str, ...]
    does: str


@dataclass(frozen=True, slots=True)
class AggregateExplanation:
    """How the numbers are made. `obstacles` are what needs the matches themselves; `key` keeps states apart.

    `shared` are the other queries that are counted together with this one; `shared_counters` how many counters they
    have, and how many they would have apart; `saving` is how many times less work that is, by the cost model.
    """

    method: str
    reason: str
    obstacles: tuple[str, ...]
    key: tuple[str, ...]
    counters: tuple[CounterExplanation, ...]
    shared: tuple[str, ...] = ()
    shared_counters: tuple[int, int] = (0, 0)
    saving: float = 1.0


def describe_aggregates(plan: AggregatePlan) -> AggregateExplanation:
    """Explain a choice."""
    counters: tuple[CounterExplanation, ...] = ()
    if plan.counters is not None:
        counters = tuple(_describe_leaf(plan.counters, leaf) for leaf in range(len(plan.counters.leaves)))
    return AggregateExplanation(plan.method.value, plan.reason, plan.obstacles, plan.key, counters)


def describe_sharing(
    found: Sequence[AggregateExplanation | None],
    names: Sequence[str],
    counters: Sequence[Counters | None],
    rates: Mapping[str, float] | None = None,
    sharing: Sequence[Sequence[str]] | None = None,
) -> list[AggregateExplanation | None]:
    """Say which queries are counted together: those of `sharing`, by name, or what would be chosen with such rates.

    `counters` are those of the queries that can be.
    """
    told = list(found)
    numbers = [number for number, one in enumerate(counters) if one is not None]
    chains = [one for one in counters if one is not None]
    if sharing is None:
        sets = choose_sharing(chains, rates) if len(chains) > 1 else []
    else:
        places = {names[number]: k for k, number in enumerate(numbers)}
        sets = [[places[name] for name in one if name in places] for one in sharing]
    for together in sets:
        if len(together) < 2:
            continue
        mine = [chains[k] for k in together]
        counts = (share_counters(mine).nodes - 1, sum(share_counters([one]).nodes - 1 for one in mine))
        saving = expected_saving(mine, rates)
        for k in together:
            explained = told[numbers[k]]
            others = tuple(names[numbers[other]] for other in together if other != k)
            if explained is not None:
                told[numbers[k]] = replace(explained, shared=others, shared_counters=counts, saving=saving)
    return told


def tell_sharing(aggregate: AggregateExplanation) -> list[str]:
    """What is said of queries that are counted together."""
    if not aggregate.shared:
        return []
    shown = ", ".join(aggregate.shared[:3])
    if len(aggregate.shared) > 3:
        shown += f" and {len(aggregate.shared) - 3} more"
    few, many = aggregate.shared_counters
    return [
        f"counted together with {shown}: {few} counters in place of {many}, about {aggregate.saving:.1f}x less work"
    ]


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
