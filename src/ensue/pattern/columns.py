"""What the columns of a result are called."""

from __future__ import annotations

from ensue.pattern.expressions import Aggregate, At, Attribute
from ensue.pattern.query import GroupKey, PatternAggregate, Return

MATCH_COLUMNS = ("match_id", "query", "begin", "end", "detected_at", "partition")
"""Columns that every match has: RETURN may not use their names."""

AGGREGATE_COLUMNS = ("query", "time")
"""Columns that every row of aggregates has: AGG and GROUP BY may not use their names."""


def return_name(ret: Return, place: int) -> str:
    """The name of a RETURN column; `place` counts from 1.

    >>> return_name(Return(Attribute("b", "price", At.FIRST)), 1)
    'first_b_price'
    """
    if ret.name is not None:
        return ret.name
    match ret.expression:
        case Attribute(variable=variable, name=name, at=(At.FIRST | At.LAST) as at):
            return f"{at.value}_{variable}_{name}"
        case Attribute(variable=variable, name=name):
            return f"{variable}_{name}"
        case Aggregate(function=function, variable=variable, name=None):
            return f"{function.lower()}_{variable}"
        case Aggregate(function=function, variable=variable, name=name):
            return f"{function.lower()}_{variable}_{name}"
        case _:
            return f"column{place}"


def aggregate_name(one: PatternAggregate) -> str:
    """The name of an AGG column.

    >>> aggregate_name(PatternAggregate("COUNT")), aggregate_name(PatternAggregate("SUM", "b", "price"))
    ('count', 'sum_b_price')
    """
    if one.alias is not None:
        return one.alias
    if one.variable is None:
        return one.function.lower()
    return f"{one.function.lower()}_{one.variable}_{one.name}"


def group_name(key: GroupKey) -> str:
    """The name of a GROUP BY column: the attribute's."""
    return key.name
