"""The plan that is taken when nothing is known of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from ensue.events.schema import Schema
from ensue.pattern.normalize import Branch
from ensue.pattern.query import Query
from ensue.planning.conditions import Condition, analyze
from ensue.planning.plan import Plan, Tree, left_deep


def default_plan(query: Query, branches: Sequence[Branch], schema: Schema | None) -> Plan:
    """Orders that start where a match ends and go on to whatever is tied most closely to what is bound already.

    No partial matches are stored: with unknown rates, searching back from the last event is the choice that cannot
    pile up state.
    """
    return Plan(tuple(_order(branch, analyze(query, branch, schema).conditions) for branch in branches))


def _order(branch: Branch, conditions: Sequence[Condition]) -> Tree:
    left = list(branch.names)
    last = [name for name in left if not branch.successors(name)]
    order = [last[-1]]
    left.remove(last[-1])
    while left:
        best = max(
            left, key=lambda name: (_tie(branch, conditions, order, name), -abs(_place(branch, order[-1], name)))
        )
        order.append(best)
        left.remove(best)
    return left_deep(order)


def _place(branch: Branch, one: str, other: str) -> int:
    return branch.names.index(one) - branch.names.index(other)


def _tie(branch: Branch, conditions: Sequence[Condition], bound: Sequence[str], name: str) -> float:
    """How much the conditions with what is bound cut down a variable's events: equality counts most."""
    known = {*bound, name}
    tie = 0.0
    for condition in conditions:
        if name in condition.variables and condition.variables <= known and not condition.lists:
            if condition.comparison is not None and condition.comparison[0] == "=":
                tie += 10.0
            else:
                tie += 1.0 + 0.5 * len(condition.via)  # what follows from several comparisons is rarer than each
    if any((name, b) in branch.before or (b, name) in branch.before for b in bound):
        tie += 0.5
    return tie - (100.0 if branch.variable(name).kleene else 0.0)
