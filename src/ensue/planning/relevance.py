"""What of the input can matter to queries: which events, as far as each tells by itself, and which columns.

A source that leaves out what cannot matter, before anything is moved or sorted, gives the same matches for less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ensue.events.schema import Schema
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    Attribute,
    Expression,
    conjuncts_of,
    variables_of,
    walk,
)
from ensue.pattern.query import CountWindow, Policy, Query
from ensue.planning.conditions import about_event, is_local

Alternatives: TypeAlias = tuple[tuple[Expression, ...], ...]
"""Conditions over EVENT: an event can matter if all of at least one tuple are true. An empty tuple is always true."""


def relevant_events(queries: Iterable[Query]) -> dict[str, Alternatives] | None:
    """For each event type that some query names, when an event of it can matter; events of other types cannot.

    Each variable, negated ones included, adds one alternative: the conjuncts of WHERE that speak of its event alone.
    A window of events counts all events of the pattern's types, so that there each of them matters. USING STRICT asks
    for neighbours among events of all types: then the result is None, and everything matters.

    >>> from ensue.pattern.format import format_expression
    >>> from ensue.language import parse_query
    >>> found = relevant_events([parse_query("PATTERN SEQ(A a, !N n, B b) WHERE a.x > 1 AND a.k = b.k AND n.x < 5")])
    >>> {kind: [[format_expression(c) for c in one] for one in ways] for kind, ways in found.items()}
    {'A': [['_.x > 1']], 'N': [['_.x < 5']], 'B': [[]]}
    """
    found: dict[str, dict[tuple[Expression, ...], None]] = {}
    for query in queries:
        if query.policy is Policy.STRICT:
            return None
        counted = isinstance(query.within, CountWindow)
        local = () if counted else tuple(c for c in conjuncts_of(query.where) if is_local(c))
        for item in query.items:
            own = (about_event(c) for c in local if item.variable in variables_of(c))
            found.setdefault(item.type, {})[tuple(dict.fromkeys(own))] = None
    return {kind: ((),) if () in ways else tuple(ways) for kind, ways in found.items()}


def needed_columns(query: Query, schema: Schema) -> tuple[str, ...] | None:
    """The columns that a query's results are made from, in the order of the schema; None: all of them.

    These are the type, the times, and what WHERE, PARTITION BY and RETURN, or AGG and GROUP BY, name.

    >>> from ensue.events.schema import DType
    >>> from ensue.language import parse_query
    >>> schema = Schema({name: DType.INT for name in ("type", "ts", "x", "y", "z")})
    >>> needed_columns(parse_query("PATTERN A a WHERE a.x > 1 RETURN a.z"), schema)
    ('type', 'ts', 'x', 'z')
    """
    if not query.returns and not query.aggregates:
        return None
    expressions = [ret.expression for ret in query.returns]
    if query.where is not None:
        expressions.append(query.where)
    nodes = [node for expression in expressions for node in walk(expression)]
    named = {node.name for node in nodes if isinstance(node, Attribute | Aggregate)} | set(query.partition_by)
    named |= {one.name for one in query.aggregates if one.name is not None} | {key.name for key in query.group_by}
    named -= set(TIME_ATTRIBUTES)  # the event's times, whatever columns are called so
    roles = {schema.type, schema.time, schema.begin}
    return tuple(name for name in schema.columns if name in named | roles)
