"""The value of an expression, given the events of a match: a plain recursive evaluator in three-valued logic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import TypeAlias, assert_never

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    Arithmetic,
    At,
    Attribute,
    Between,
    Call,
    Comparison,
    Duration,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
    children,
    walk,
)
from ensue.testing.values import LARGEST, Event, Value, measure_duration, parse_timestamp

Bound: TypeAlias = Event | tuple[Event, ...] | None
"""What a variable is bound to: an event, a Kleene list, or nothing (a variable of another OR branch)."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names of an expression mean: the events of each variable, and the Kleene elements looked at."""

    schema: Schema
    bound: Mapping[str, Bound]
    current: Mapping[str, Event] = field(default_factory=dict)
    previous: Mapping[str, Event] = field(default_factory=dict)


def holds(conjunct: Expression, bound: Mapping[str, Bound], schema: Schema) -> bool:
    """Whether a conjunct is true: for each element, or adjacent pair, of the Kleene lists that it goes through."""
    return all(evaluate(conjunct, scope) is True for scope in _element_scopes(conjunct, bound, schema))


def _element_scopes(conjunct: Expression, bound: Mapping[str, Bound], schema: Schema) -> Iterator[Scope]:
    elements: dict[str, Sequence[tuple[Event | None, Event]]] = {}
    attributes = [n for n in walk(conjunct) if isinstance(n, Attribute)]
    in_pairs = {n.variable for n in attributes if n.at is At.PREVIOUS}
    for node in attributes:
        events = bound[node.variable]
        if node.at in (At.FIRST, At.LAST) or not isinstance(events, tuple):
            continue
        if node.variable in in_pairs:
            elements[node.variable] = list(pairwise(events))
        else:
            elements[node.variable] = [(None, event) for event in events]
    for combination in product(*elements.values()):
        chosen = dict(zip(elements, combination, strict=True))
        yield Scope(
            schema,
            bound,
            current={v: current for v, (_, current) in chosen.items()},
            previous={v: previous for v, (previous, _) in chosen.items() if previous is not None},
        )


def evaluate(expression: Expression, scope: Scope) -> Value:
    """The value of an expression; None is null (and unknown, for a condition)."""
    match expression:
        case Literal(value=Duration() as duration):
            return measure_duration(duration, scope.schema)
        case Literal(value=value):
            return _no_nan(value) if isinstance(value, float) else value  # type: ignore[return-value]
        case Attribute():
            return _attribute(expression, scope)
        case Aggregate():
            return _aggregate(expression, scope)
        case Negate(operand=operand):
            value = evaluate(operand, scope)
            return None if value is None else -_number(value)
        case Arithmetic(operator=operator, left=left, right=right):
            return _calculate(operator, evaluate(left, scope), evaluate(right, scope))
        case Comparison(operands=operands, operators=operators):
            values = [evaluate(operand, scope) for operand in operands]
            return _and(_compare(op, values[i], values[i + 1]) for i, op in enumerate(operators))
        case Logical(operator="AND", operands=operands):
            return _and(_truth(evaluate(operand, scope)) for operand in operands)
        case Logical(operands=operands):
            return _or(_truth(evaluate(operand, scope)) for operand in operands)
        case Not(operand=operand):
            return _not(_truth(evaluate(operand, scope)))
        case InList(operand=operand, items=items, negated=negated):
            value = evaluate(operand, scope)
            found = _or(_compare("=", value, evaluate(item, scope)) for item in items)
            return _not(found) if negated else found
        case Between(operand=operand, low=low, high=high, negated=negated):
            value = evaluate(operand, scope)
            inside = _and(
                [_compare("<=", evaluate(low, scope), value), _compare("<=", value, evaluate(high, scope))],
            )
            return _not(inside) if negated else inside
        case Like(operand=operand, pattern=pattern, negated=negated):
            value = evaluate(operand, scope)
            alike = None if value is None else _like(str(value), pattern)
            return _not(alike) if negated else alike
        case IsNull(operand=operand, negated=negated):
            return (evaluate(operand, scope) is None) is not negated
        case Call(function=function, arguments=arguments):
            values = [evaluate(argument, scope) for argument in arguments]
            if function == "coalesce":
                first = next((value for value in values if value is not None), None)
                return float(first) if isinstance(first, int) and _is_float(expression, scope.schema) else first
            return None if None in values else _call(function, values)
        case _:
            assert_never(expression)


def read_attribute(event: Event, name: str, schema: Schema) -> Value:
    """An attribute of one event; the time attributes come before columns of the same name."""
    if name in TIME_ATTRIBUTES:
        return event.begin if name == "begin" else event.end
    if name == schema.time:
        return event.end
    if name == schema.begin:
        return event.begin
    return event.values.get(name)


def _attribute(node: Attribute, scope: Scope) -> Value:
    events = scope.bound[node.variable]
    match node.at:
        case At.EACH | At.CURRENT:
            event = scope.current[node.variable] if isinstance(events, tuple) else events
        case At.PREVIOUS:
            event = scope.previous[node.variable]
        case At.FIRST | At.LAST:
            if not isinstance(events, tuple):
                event = events
            elif not events:
                event = None
            else:
                event = events[0] if node.at is At.FIRST else events[-1]
        case _:
            assert_never(node.at)
    return None if event is None else read_attribute(event, node.name, scope.schema)


def _aggregate(node: Aggregate, scope: Scope) -> Value:
    events = scope.bound[node.variable]
    if not isinstance(events, tuple):
        return None
    if node.name is None:
        return len(events)
    values = [v for v in (read_attribute(e, node.name, scope.schema) for e in events) if v is not None]
    if node.function == "COUNT":
        return len(values)
    if not values:
        return None
    if node.function == "MIN":
        return min(values)
    if node.function == "MAX":
        return max(values)
    total: int | float = 0
    for value in values:  # one after the other, in the order of the list; ints are exact whatever their size
        total += _number(value)
    if node.function == "AVG":
        return _no_nan(float(total) / len(values))
    return _fit(total) if isinstance(total, int) else _no_nan(total)


def _calculate(operator: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    a, b = _number(left), _number(right)
    if operator in ("/", "%") and b == 0:
        return None
    if operator == "/":
        return _no_nan(float(a) / float(b))
    if isinstance(a, int) and isinstance(b, int):
        match operator:
            case "+":
                return _fit(a + b)
            case "-":
                return _fit(a - b)
            case "*":
                return _fit(a * b)
            case _:
                return abs(a) % abs(b) * (-1 if a < 0 else 1)
    x, y = float(a), float(b)
    match operator:
        case "+":
            return _no_nan(x + y)
        case "-":
            return _no_nan(x - y)
        case "*":
            return _no_nan(x * y)
        case _:
            return None if math.isinf(x) else math.fmod(x, y)


def _compare(operator: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) and not isinstance(right, str):
        left = parse_timestamp(left)
    elif isinstance(right, str) and not isinstance(left, str):
        right = parse_timestamp(right)
    elif isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    a, b = left, right
    match operator:
        case "=":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b  # type: ignore[operator]
        case "<=":
            return a <= b  # type: ignore[operator]
        case ">":
            return a > b  # type: ignore[operator]
        case _:
            return a >= b  # type: ignore[operator]


def _call(function: str, values: Sequence[Value]) -> Value:
    first = values[0]
    match function:
        case "lower":
            return str(first).lower()
        case "upper":
            return str(first).upper()
        case "length":
            return len(str(first))
        case "abs":
            return abs(_number(first))
        case "floor" | "ceil":
            number = _number(first)
            if isinstance(number, int) or math.isinf(number):
                return number
            return float(math.floor(number) if function == "floor" else math.ceil(number))
        case _:
            digits = int(_number(values[1])) if len(values) > 1 else 0
            return _round(_number(first), digits)


def _round(number: int | float, digits: int) -> int | float | None:
    """Halves away from zero; a float is scaled by the power of ten in float64 first, as databases do."""
    if isinstance(number, int):
        if digits >= 0:
            return number
        step: int = 10**-digits
        nearest = (abs(number) + step // 2) // step * step
        return _fit(-nearest if number < 0 else nearest)
    if math.isinf(number) or digits > 308:
        return number
    if digits < -308:
        return 0.0
    power = 10.0 ** abs(digits)
    scaled = abs(number) * power if digits >= 0 else abs(number) / power
    if math.isinf(scaled):
        return number
    whole = float(math.floor(scaled))
    if scaled - whole >= 0.5:
        whole += 1
    return math.copysign(whole / power if digits >= 0 else whole * power, number)


def _like(text: str, pattern: str) -> bool:
    parts, escaped = [], False
    for character in pattern:
        if escaped or character not in "\\%_":
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    if escaped:
        parts.append(re.escape("\\"))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _is_float(expression: Expression, schema: Schema) -> bool:
    """Whether an expression is of type float, whatever its value."""
    match expression:
        case Literal(value=value):
            return isinstance(value, float)
        case Attribute(name=name):
            return name not in TIME_ATTRIBUTES and schema.columns.get(name) is DType.FLOAT
        case Aggregate(function=function, name=name):
            return function == "AVG" or (
                function != "COUNT" and name is not None and schema.columns.get(name) is DType.FLOAT
            )
        case Arithmetic(operator="/"):
            return True
        case Call(function="round", arguments=arguments):
            return _is_float(arguments[0], schema)
        case _:
            return any(_is_float(part, schema) for part in children(expression))


def _and(values: Iterator[bool | None] | Sequence[bool | None]) -> bool | None:
    known = list(values)
    return False if False in known else None if None in known else True


def _or(values: Iterator[bool | None] | Sequence[bool | None]) -> bool | None:
    known = list(values)
    return True if True in known else None if None in known else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _truth(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")  # a query that passed the checks does not come here
    return value


def _fit(value: int) -> int | None:
    return value if abs(value) <= LARGEST else None


def _no_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
