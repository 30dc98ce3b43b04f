"""Random valid queries with streams that they match, small enough for the oracle and full of corner cases.

One set of builders serves two sources of choices: `random.Random`, for suites of thousands of seeded cases, and
Hypothesis (see `strategies`), which shrinks a failing case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, assert_never

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import Duration, Expression, Logical
from ensue.pattern.query import (
    And,
    CountWindow,
    Item,
    Or,
    Pattern,
    Policy,
    Quantifier,
    Query,
    Seq,
    TimeWindow,
    Unbounded,
    Window,
    items_of,
)
from ensue.testing.choices import Choices, SeededChoices
from ensue.testing.random_conditions import build_condition

TYPES: tuple[str, ...] = ("A", "B", "C", "D", "E")

POINT_SCHEMA = Schema(
    {
        "type": DType.STRING,
        "ts": DType.INT,
        "x": DType.INT,
        "y": DType.FLOAT,
        "k": DType.INT,
        "s": DType.STRING,
        "b": DType.BOOL,
    }
)
"""The columns of random events that are points in time."""

INTERVAL_SCHEMA = Schema({**POINT_SCHEMA.columns, "start": DType.INT}, begin="start")
"""The columns of random events that last: from `start` to `ts`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What random queries and streams may hold: probabilities, and switches for whole features."""

    policies: tuple[Policy, ...] = (Policy.ANY, Policy.ANY, Policy.ANY, Policy.ANY, Policy.NEXT, Policy.STRICT)
    variables: int = 5  # positive ones, at most
    events: int = 13  # at most
    conjunction: bool = True  # AND
    disjunction: bool = True  # OR
    nesting: bool = True
    kleene: float = 0.25  # of the positive items
    negation: float = 0.28  # of SEQ and AND nodes get a negated item
    conditions: int = 3  # conjuncts, at most
    windows: tuple[str, ...] = ("time", "time", "time", "count", "none", "unbounded")
    partitions: tuple[tuple[str, ...], ...] = ((), (), (), ("k",), ("k", "b"))
    intervals: float = 0.15  # of the cases have events that last
    unsorted: float = 0.0  # of the streams are not in the order of time
    work: int = 4_000  # combinations that the oracle may have to look at; streams are cut to it


DEFAULT_SHAPE = Shape()


def random_case(rng: random.Random, shape: Shape = DEFAULT_SHAPE) -> tuple[Query, list[dict[str, Any]], Schema]:
    """A valid query, a stream of events of types A to E (sorted by time unless the shape says so), and its schema.

    >>> query, events, schema = random_case(random.Random(7))
    >>> query == random_case(random.Random(7))[0]
    True
    """
    return build_case(SeededChoices(rng), shape)


def build_case(choices: Choices, shape: Shape = DEFAULT_SHAPE) -> tuple[Query, list[dict[str, Any]], Schema]:
    """A valid query with a stream and its schema, from any source of choices."""
    schema = INTERVAL_SCHEMA if choices.chance(shape.intervals) else POINT_SCHEMA
    query = build_query(choices, shape)
    return query, build_stream(choices, shape, schema, query), schema


def build_query(choices: Choices, shape: Shape = DEFAULT_SHAPE) -> Query:
    """A valid query over events of types A to E."""
    policy = choices.pick(shape.policies)
    pattern = _build_pattern(choices, shape, policy)
    conditions: list[Expression] = []
    for _ in range(min(choices.pick((0, 0, 1, 1, 2, 3)), shape.conditions)):
        conditions.append(build_condition(choices, tuple(items_of(pattern))))
    where = None if not conditions else conditions[0] if len(conditions) == 1 else Logical("AND", tuple(conditions))
    return Query(
        pattern,
        where,
        choices.pick(shape.partitions),
        _build_window(choices, shape, required=_needs_window(pattern)),
        policy,
    )


# -- patterns ------------------------------------------------------------------------------------------------------


def _build_pattern(choices: Choices, shape: Shape, policy: Policy) -> Pattern:
    operators: list[type[Seq] | type[And] | type[Or]] = [Seq, Seq, Seq]
    if shape.conjunction and policy is Policy.ANY:
        operators.append(And)
    if shape.disjunction:
        operators.append(Or)
    size = min(choices.pick((2, 2, 3, 3, 1, 4, 5)), shape.variables)
    outer = choices.pick(operators)
    names = chain("abcdefghjklm", (f"v{number}" for number in count(1)))
    pattern = _build_node(choices, shape, operators, outer, size, names)
    pattern = _limit_lists(pattern)
    if policy is not Policy.ANY:
        pattern = _map_items(pattern, _first_not_empty(pattern))
    return pattern


def _build_node(
    choices: Choices,
    shape: Shape,
    operators: Sequence[type[Seq] | type[And] | type[Or]],
    operator: type[Seq] | type[And] | type[Or],
    size: int,
    names: Iterator[str],
) -> Pattern:
    parts: list[Pattern] = []
    left = size
    while left > 0:
        most = left if parts else max(1, left - 1)
        share = choices.integer(1, most) if shape.nesting and choices.chance(0.3) else 1
        if share == 1 and not (shape.nesting and choices.chance(0.05)):
            parts.append(_build_item(choices, shape, next(names)))
        else:
            parts.append(_build_node(choices, shape, operators, choices.pick(operators), share, names))
        left -= share
    if operator is Or:
        return Or(tuple(parts)) if len(parts) > 1 else parts[0]
    while choices.chance(shape.negation) and len(parts) < size + 2:
        parts.insert(choices.integer(0, len(parts)), Item(choices.pick(TYPES), next(names), negated=True))
    return operator(tuple(parts))


def _build_item(choices: Choices, shape: Shape, name: str) -> Item:
    quantifier = None
    if choices.chance(shape.kleene):
        bounds = ((1, None), (0, None), (0, 1), (1, 2), (2, 2), (1, 1), (2, None), (0, 2), (2, 3))
        quantifier = Quantifier(*choices.pick(bounds))
    return Item(choices.pick(TYPES), name, quantifier=quantifier)


def _limit_lists(pattern: Pattern) -> Pattern:
    """At most two lists without bound: each multiplies the matches by the number of subsets."""
    unbounded = [i for i in items_of(pattern) if i.quantifier is not None and i.quantifier.maximum is None]
    excess = {item.variable for item in unbounded[2:]}
    return _map_items(
        pattern, lambda item: replace(item, quantifier=Quantifier(1, 2)) if item.variable in excess else item
    )


def _first_not_empty(pattern: Pattern) -> Callable[[Item], Item]:
    """NEXT and STRICT start from a first event: the items that can be first must not be empty."""
    first = _first_items(pattern)

    def mend(item: Item) -> Item:
        if item.variable in first and item.quantifier is not None and item.quantifier.minimum == 0:
            return replace(item, quantifier=Quantifier(1, item.quantifier.maximum))
        return item

    return mend


def _first_items(pattern: Pattern) -> frozenset[str]:
    match pattern:
        case Item(variable=variable, negated=negated):
            return frozenset() if negated else frozenset({variable})
        case Seq(items=parts) | And(items=parts):
            return next((first for part in parts if (first := _first_items(part))), frozenset())
        case Or(items=parts):
            return frozenset().union(*(_first_items(part) for part in parts))
        case _:
            assert_never(pattern)


def _map_items(pattern: Pattern, change: Callable[[Item], Item]) -> Pattern:
    match pattern:
        case Item():
            return change(pattern)
        case Seq(items=parts) | And(items=parts) | Or(items=parts):
            return type(pattern)(tuple(_map_items(part, change) for part in parts))
        case _:
            assert_never(pattern)


def _is_sure(pattern: Pattern) -> bool:
    """Whether every match has an event of this part."""
    match pattern:
        case Item(negated=negated, quantifier=quantifier):
            return not negated and (quantifier is None or quantifier.minimum > 0)
        case Seq(items=parts) | And(items=parts):
            return any(_is_sure(part) for part in parts)
        case Or(items=parts):
            return all(_is_sure(part) for part in parts)
        case _:
            assert_never(pattern)


def _needs_window(pattern: Pattern, *, before: bool = False, after: bool = False) -> bool:
    """Whether some negated item may lack an event before or after it, or stands in AND."""
    match pattern:
        case Item(negated=negated):
            return negated and not (before and after)
        case Seq(items=parts):
            return any(
                _needs_window(
                    part,
                    before=before or any(_is_sure(p) for p in parts[:i]),
                    after=after or any(_is_sure(p) for p in parts[i + 1 :]),
                )
                for i, part in enumerate(parts)
            )
        case And(items=parts):
            own = any(isinstance(part, Item) and part.negated for part in parts)
            return own or any(_needs_window(part, before=before, after=after) for part in parts)
        case Or(items=parts):
            return any(_needs_window(part, before=before, after=after) for part in parts)
        case _:
            assert_never(pattern)


def _build_window(choices: Choices, shape: Shape, *, required: bool) -> Window | None:
    kinds = shape.windows
    if required:
        kinds = tuple(kind for kind in kinds if kind in ("time", "count")) or ("time",)
    match choices.pick(kinds):
        case "time":
            length = choices.pick((6, 4, 8, 10, 12, 16, 3, 2, 1))
            duration = choices.pick(
                (Duration(length), Duration(length), Duration(length, "ms"), Duration(length + 0.5))
            )
            return TimeWindow(duration)
        case "count":
            return CountWindow(choices.pick((6, 4, 5, 8, 10, 3, 2, 1)))
        case "unbounded":
            return Unbounded()
        case _:
            return None


# -- streams -------------------------------------------------------------------------------------------------------


def build_stream(
    choices: Choices, shape: Shape = DEFAULT_SHAPE, schema: Schema = POINT_SCHEMA, query: Query | None = None
) -> list[dict[str, Any]]:
    """Events of types A to E with few distinct times and values; fewer where a query would find too much."""
    fewest = min(7, shape.events) if choices.chance(0.85) else 0
    number = choices.integer(fewest, shape.events)
    span = choices.pick((8, 16, 4, 24))
    types = TYPES
    if query is not None and choices.chance(0.7):  # mostly events that the query looks at
        types = (*query.types, choices.pick(TYPES))
    events = sorted((_build_event(choices, types, span, schema) for _ in range(number)), key=lambda e: int(e["ts"]))
    if query is not None:
        while events and _estimate_work(query, events) > shape.work:
            events.pop(choices.integer(0, len(events) - 1))
    if choices.chance(shape.unsorted):
        for i in range(len(events) - 1, 0, -1):
            j = choices.integer(0, i)
            events[i], events[j] = events[j], events[i]
    return events


def _build_event(choices: Choices, types: Sequence[str], span: int, schema: Schema) -> dict[str, Any]:
    end = choices.integer(0, span)
    event: dict[str, Any] = {
        "type": choices.pick(types),
        "ts": end,
        "x": choices.pick((0, 1, 2, 3, 1, 2, -1, None)),
        "y": choices.pick((0.0, 1.0, 0.5, 2.5, -1.5, None, float("nan"))),
        "k": choices.pick((1, 1, 1, 1, 2, 2, 2, None)),
        "s": choices.pick(("a", "ab", "B", "", None)),
        "b": choices.pick((True, True, True, False, None)),
    }
    if schema.begin is not None:
        event[schema.begin] = end - choices.pick((0, 0, 1, 2, 4))
    return event


def _estimate_work(query: Query, events: Sequence[Mapping[str, Any]]) -> float:
    """Roughly how many combinations of events the oracle looks at."""
    if query.policy is not Policy.ANY:
        return 0
    total = 1.0
    for item in query.items:
        if item.negated:
            continue
        times = len({event["ts"] for event in events if event["type"] == item.type})
        count = sum(event["type"] == item.type for event in events)
        if item.quantifier is None:
            total *= max(1, count)
        elif item.quantifier.maximum is None:
            total *= (1 + count / max(1, times)) ** times
        else:
            total *= (1 + count) ** min(item.quantifier.maximum, count)
    return total / _orderings(query.pattern)


def _orderings(pattern: Pattern) -> float:
    """How much the order of SEQ thins out the combinations, very roughly."""
    match pattern:
        case Seq(items=parts):
            sizes = [1 + sum(not item.negated for item in items_of(part)) / 2 for part in parts]
            result = 1.0
            for size in sizes[1:]:
                result *= size
            return result
        case _:
            return 1.0
