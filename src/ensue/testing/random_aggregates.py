"""Random AGG queries with streams, small enough for the oracle: groups, keys, lists, absences, ties and nulls."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ensue.errors import QueryError
from ensue.events.schema import Schema
from ensue.pattern.check import check
from ensue.pattern.expressions import Attribute, Comparison, Expression, Logical
from ensue.pattern.query import GroupKey, Item, PatternAggregate, Policy, Query
from ensue.testing.choices import Choices, SeededChoices
from ensue.testing.random_conditions import build_condition
from ensue.testing.random_queries import INTERVAL_SCHEMA, POINT_SCHEMA, Shape, build_query, build_stream

COUNTED = Shape(
    policies=(Policy.ANY,),
    variables=4,
    conjunction=False,
    nesting=False,
    kleene=0.2,
    negation=0.2,
    conditions=0,
    windows=("time", "time", "time", "none"),
    intervals=0.0,
    work=1_500,
)
"""Mostly queries that can be counted without building matches."""

ANYTHING = Shape(variables=4, kleene=0.2, work=1_500, windows=("time", "time", "count", "none"))
"""Queries of every kind."""

_FUNCTIONS = ("COUNT", "SUM", "SUM", "AVG", "MIN", "MAX")


def random_aggregate_case(rng: random.Random, shape: Shape = COUNTED) -> tuple[Query, list[dict[str, Any]], Schema]:
    """A valid AGG query, a stream of events of types A to E, and its schema.

    >>> query, events, schema = random_aggregate_case(random.Random(7))
    >>> query == random_aggregate_case(random.Random(7))[0] and bool(query.aggregates)
    True
    """
    choices = SeededChoices(rng)
    schema = INTERVAL_SCHEMA if choices.chance(shape.intervals) else POINT_SCHEMA
    while True:
        query = _aggregated(choices, build_query(choices, shape))
        try:
            check(query, schema)
        except QueryError:  # an absence at the end, say
            continue
        return query, build_stream(choices, shape, schema, query), schema


def _aggregated(choices: Choices, query: Query) -> Query:
    """A query for matches with AGG, and maybe with equal keys and GROUP BY."""
    single = [item.variable for item in query.items if not item.negated and item.quantifier is None]
    functions = [PatternAggregate("COUNT")] if choices.chance(0.6) or not single else []
    for _ in range(choices.integer(0 if functions else 1, 2) if single else 0):
        function = choices.pick(_FUNCTIONS)
        names = ("x", "y", "x", "ts") if function in ("SUM", "AVG") else ("x", "y", "s", "ts")
        one = PatternAggregate(function, choices.pick(single), choices.pick(names))
        functions += [] if one in functions else [one]
    if choices.chance(0.35):
        query = _and(query, _keys(choices, query))
    if choices.chance(0.25):  # a condition on one event
        positive = [item for item in query.items if not item.negated]
        query = _and(query, [build_condition(choices, (choices.pick(positive),))])
    return replace(
        query,
        aggregates=tuple(functions),
        group_by=_groups(choices, single),
        emit_on_change=choices.chance(0.25),
        name="q1",
    )


def _and(query: Query, conditions: Sequence[Expression]) -> Query:
    """A query with more conditions."""
    parts = [*([] if query.where is None else [query.where]), *conditions]
    where = None if not parts else parts[0] if len(parts) == 1 else Logical("AND", tuple(parts))
    return replace(query, where=where)


def _keys(choices: Choices, query: Query) -> list[Expression]:
    """Equalities that tie events together: all, or all but some absent ones."""
    items: list[Item] = [item for item in query.items if not item.negated or choices.chance(0.8)]
    positive = [item for item in items if not item.negated]
    name = choices.pick(("k", "k", "s", "y"))
    ties: list[Expression] = []
    for left, right in pairwise(positive):
        ties.append(Comparison((Attribute(left.variable, name), Attribute(right.variable, name)), ("=",)))
    for item in items:
        if item.negated and positive:
            other = choices.pick(positive).variable
            ties.append(Comparison((Attribute(item.variable, name), Attribute(other, name)), ("=",)))
    return ties


def _groups(choices: Choices, single: list[str]) -> tuple[GroupKey, ...]:
    kinds = ("none", "none", "none", "shared", "shared", "two", "variable", "variable", "mixed")
    match choices.pick(kinds) if single else choices.pick(kinds[:6]):
        case "shared":
            return (GroupKey(choices.pick(("k", "k", "s", "b"))),)
        case "two":
            return (GroupKey("k"), GroupKey("b"))
        case "variable":
            return (GroupKey(choices.pick(("k", "s", "y")), choices.pick(single)),)
        case "mixed":
            return (GroupKey("b"), GroupKey("k", choices.pick(single)))
        case _:
            return ()
