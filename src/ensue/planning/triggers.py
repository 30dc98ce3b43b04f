"""The events that can be last in a match, and what each tells of its group: for AGG after detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ensue.events.schema import Schema
from ensue.pattern.expressions import Attribute, Expression, IsNull, variables_of
from ensue.pattern.normalize import Branch
from ensue.pattern.query import GroupKey, Query
from ensue.planning.aggregates import find_ties
from ensue.planning.conditions import EVENT, Filter, about_event, is_local


@dataclass(frozen=True, slots=True)
class Told:
    """A value of GROUP BY as a trigger tells it: its own attribute (None: null). `must`: null is no group."""

    name: str | None
    must: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    """A variable whose event can be last. `told` is None where the matches that it ends have to tell the group."""

    type: str
    filter: Filter
    told: tuple[Told, ...] | None


def find_triggers(query: Query, branches: Sequence[Branch], schema: Schema) -> list[Trigger]:
    """The triggers of a query, one for each variable and branch."""
    shared = [*query.partition_by, *(key.name for key in query.group_by if key.variable is None)]
    there = [IsNull(Attribute(EVENT, name), negated=True) for name in dict.fromkeys(shared)]
    found: dict[Trigger, None] = {}
    for branch in branches:
        for variable in branch.variables:
            if any(branch.variable(name).minimum > 0 for name in branch.successors(variable.name)):
                continue
            own: list[Expression] = [c for c in branch.conjuncts if not variables_of(c)]
            own += [about_event(c) for c in branch.conjuncts if variables_of(c) == {variable.name} and is_local(c)]
            told = [_tell(key, variable.name, branch, schema) for key in query.group_by]
            known = None if None in told else tuple(one for one in told if one is not None)
            found[Trigger(variable.type, Filter((*there, *own)), known)] = None
    return list(found)


def _tell(key: GroupKey, variable: str, branch: Branch, schema: Schema) -> Told | None:
    if key.variable is None:
        return Told(key.name, must=True)
    if key.variable not in branch.names:
        return Told(None)
    firm = {v.name for v in branch.variables if v.minimum > 0} | {variable, key.variable}
    equal = {(key.variable, key.name)}
    for _ in branch.conjuncts:
        for _, left, right in find_ties(branch.conjuncts, schema):
            pair = {(left.variable, left.name), (right.variable, right.name)}
            if {left.variable, right.variable} <= firm and pair & equal:
                equal |= pair
    if key.variable == variable:
        return Told(key.name, must=len(equal) > 1)
    own = sorted(name for other, name in equal if other == variable)
    return Told(own[0], must=True) if own else None
