"""The types of values and of expressions, with an error at the place that breaks a rule of the language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from typing import assert_never

from ensue.errors import QueryNameError, QueryTypeError, Span
from ensue.events.schema import DType, Schema
from ensue.events.times import MICROSECONDS, parse_time
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    UNITS,
    Aggregate,
    Arithmetic,
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
)
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.query import Item

LARGEST_INT = 2**63 - 1


class ValueType(Enum):
    """The type of a value; UNKNOWN where no schema tells."""

    BOOL = "a truth value"
    INT = "an integer"
    FLOAT = "a float"
    STRING = "a text"
    TIMESTAMP = "a timestamp"
    DURATION = "a duration"
    NULL = "NULL"
    UNKNOWN = "of unknown type"


_OF_COLUMN = {
    DType.BOOL: ValueType.BOOL,
    DType.INT: ValueType.INT,
    DType.FLOAT: ValueType.FLOAT,
    DType.STRING: ValueType.STRING,
    DType.TIMESTAMP: ValueType.TIMESTAMP,
}
_NUMBERS = frozenset((ValueType.INT, ValueType.FLOAT))
_OPEN = frozenset((ValueType.NULL, ValueType.UNKNOWN))  # these go with any type


def infer(expression: Expression, items: Sequence[Item], schema: Schema | None) -> ValueType:
    """The type of an expression over the items of a pattern; raises QueryTypeError or QueryNameError.

    >>> from ensue.pattern.expressions import Arithmetic, Literal
    >>> infer(Arithmetic("/", Literal(1), Literal(2)), (), None)
    <ValueType.FLOAT: 'a float'>
    """
    return _Inference({item.variable: item for item in items}, schema).of(expression)


def time_type(schema: Schema | None) -> ValueType:
    """The type of `ts`, `begin` and `end`."""
    if schema is None:
        return ValueType.UNKNOWN
    return ValueType.INT if schema.columns.get(schema.time) is DType.INT else ValueType.TIMESTAMP


def attribute_type(name: str, schema: Schema | None) -> ValueType | None:
    """The type of an attribute by its name; None if events have no such attribute."""
    if schema is None:
        return time_type(schema) if name in TIME_ATTRIBUTES else ValueType.UNKNOWN
    if name in (*TIME_ATTRIBUTES, schema.time, schema.begin):
        return time_type(schema)
    column = schema.columns.get(name)
    return None if column is None else _OF_COLUMN[column]


def fold_duration(duration: Duration, schema: Schema, span: Span | None = None) -> int | float:
    """A duration in the units of the time column: microseconds for timestamps, `schema.unit` for integers.

    It is an int where it is a whole number of units. Without a unit of its own it is taken as it is for integers, and
    refused for timestamps.

    >>> fold_duration(Duration(1.5, "s"), Schema({"type": DType.STRING, "ts": DType.INT}))
    1500
    """
    is_int = time_type(schema) is ValueType.INT
    if duration.unit is None and not is_int:
        raise QueryTypeError(
            f"`{duration.amount}` has no unit, and the time column `{schema.time}` holds timestamps",
            hint=f"write the unit, such as `{duration.amount}s` or `{duration.amount}m`",
            span=span,
        )
    if isinstance(duration.amount, float) and not math.isfinite(duration.amount):
        return duration.amount
    length = Fraction(repr(duration.amount))  # of what is written: 0.1s is exactly 100,000 µs
    if duration.unit is not None:
        length *= UNITS[duration.unit]
        if is_int:
            length /= MICROSECONDS[schema.unit]
    return int(length) if length.denominator == 1 else float(length)


class _Inference:
    """One walk over an expression, with what the names in it stand for."""

    def __init__(self, items: dict[str, Item], schema: Schema | None) -> None:
        self.items = items
        self.schema = schema

    def of(self, expression: Expression) -> ValueType:
        match expression:
            case Literal():
                return self._literal(expression)
            case Attribute(variable=variable, name=name):
                self._known_variable(variable, expression.span)
                return self._attribute(name, expression.span)
            case Aggregate():
                return self._aggregate(expression)
            case Negate(operand=operand):
                inner = self.of(operand)
                if inner not in _NUMBERS | _OPEN | {ValueType.DURATION}:
                    raise QueryTypeError(f"`-` needs a number, but this is {inner.value}", span=operand.span)
                return inner
            case Arithmetic():
                return self._arithmetic(expression)
            case Comparison(operands=operands, operators=operators):
                types = [self.of(operand) for operand in operands]
                for k, operator in enumerate(operators):
                    self._comparable(operator, operands[k], types[k], operands[k + 1], types[k + 1])
                return ValueType.BOOL
            case Logical(operator=operator, operands=operands):
                for operand in operands:
                    self._truth(operand, operator)
                return ValueType.BOOL
            case Not(operand=operand):
                self._truth(operand, "NOT")
                return ValueType.BOOL
            case InList(operand=operand, items=items):
                subject = self.of(operand)
                for item in items:
                    self._comparable("=", operand, subject, item, self.of(item))
                return ValueType.BOOL
            case Between(operand=operand, low=low, high=high):
                subject = self.of(operand)
                for bound in (low, high):
                    self._comparable("<=", operand, subject, bound, self.of(bound))
                return ValueType.BOOL
            case Like(operand=operand):
                self._text(operand, "LIKE")
                return ValueType.BOOL
            case IsNull(operand=operand):
                self.of(operand)
                return ValueType.BOOL
            case Call():
                return self._call(expression)
            case _:
                assert_never(expression)

    def _literal(self, literal: Literal) -> ValueType:
        match literal.value:
            case None:
                return ValueType.NULL
            case bool():
                return ValueType.BOOL
            case int(value):
                if abs(value) > LARGEST_INT:
                    raise QueryTypeError("the integer does not fit in 64 bits", span=literal.span)
                return ValueType.INT
            case float():
                return ValueType.FLOAT
            case str():
                return ValueType.STRING
            case Duration():
                return ValueType.DURATION
            case _:
                assert_never(literal.value)

    def _known_variable(self, variable: str, span: Span | None) -> None:
        if variable not in self.items:
            raise QueryNameError(f"unknown variable `{variable}`", hint=did_you_mean(variable, self.items), span=span)

    def _attribute(self, name: str, span: Span | None) -> ValueType:
        found = attribute_type(name, self.schema)
        if found is None:
            known = (*self.schema.columns, *TIME_ATTRIBUTES) if self.schema is not None else ()
            raise QueryNameError(f"unknown attribute `{name}`", hint=did_you_mean(name, known), span=span)
        return found

    def _aggregate(self, aggregate: Aggregate) -> ValueType:
        self._known_variable(aggregate.variable, aggregate.span)
        if aggregate.name is None:
            return ValueType.INT
        return aggregated_type(aggregate.function, self._attribute(aggregate.name, aggregate.span), aggregate.span)

    def _arithmetic(self, node: Arithmetic) -> ValueType:
        left, right = self.of(node.left), self.of(node.right)
        for operand, kind in ((node.left, left), (node.right, right)):
            if kind in (ValueType.BOOL, ValueType.STRING):
                raise QueryTypeError(f"`{node.operator}` needs numbers, but this is {kind.value}", span=operand.span)
        if node.operator == "/" and not {left, right} & {ValueType.TIMESTAMP, ValueType.DURATION}:
            return ValueType.FLOAT
        if left in _OPEN or right in _OPEN:
            return ValueType.NULL if ValueType.NULL in (left, right) else ValueType.UNKNOWN
        if left in _NUMBERS and right in _NUMBERS:
            return ValueType.FLOAT if ValueType.FLOAT in (left, right) else ValueType.INT
        found = self._time_arithmetic(node.operator, left, right)
        if found is None:
            raise QueryTypeError(
                f"`{node.operator}` does not go with {left.value} and {right.value}",
                hint="write the number with a unit, such as `5s`"
                if node.operator in "+-" and {left, right} & _NUMBERS
                else None,
                span=node.span,
            )
        return found

    def _time_arithmetic(self, operator: str, left: ValueType, right: ValueType) -> ValueType | None:
        """The type of an arithmetic with timestamps or durations; None if it has no meaning."""
        number_is_time = time_type(self.schema) is not ValueType.TIMESTAMP  # a duration counts in the column's unit
        match operator, left, right:
            case "-", ValueType.TIMESTAMP, ValueType.TIMESTAMP:
                return ValueType.DURATION
            case "+" | "-", ValueType.TIMESTAMP, ValueType.DURATION:
                return ValueType.TIMESTAMP
            case "+", ValueType.DURATION, ValueType.TIMESTAMP:
                return ValueType.TIMESTAMP
            case "+" | "-", ValueType.DURATION, ValueType.DURATION:
                return ValueType.DURATION
            case "+" | "-", ValueType.DURATION, number if number in _NUMBERS and number_is_time:
                return number
            case "+" | "-", number, ValueType.DURATION if number in _NUMBERS and number_is_time:
                return number
            case "*" | "/", ValueType.DURATION, number if number in _NUMBERS:
                return ValueType.DURATION
            case "*", number, ValueType.DURATION if number in _NUMBERS:
                return ValueType.DURATION
            case "/", ValueType.DURATION, ValueType.DURATION:
                return ValueType.FLOAT
            case "/", number, ValueType.DURATION if number in _NUMBERS and number_is_time:
                return ValueType.FLOAT
            case _:
                return None

    def _comparable(self, operator: str, a: Expression, left: ValueType, b: Expression, right: ValueType) -> None:
        kinds = {left, right}
        if ValueType.BOOL in kinds and operator not in ("=", "!=") and kinds <= {ValueType.BOOL, *_OPEN}:
            raise QueryTypeError(
                f"truth values have no order: `{operator}` does not go with them",
                hint="compare them with `=` or `!=`",
                span=_join(a, b),
            )
        if kinds & _OPEN or left is right or kinds == _NUMBERS:
            return
        if kinds == {ValueType.TIMESTAMP, ValueType.STRING}:
            self._time_literal(b if right is ValueType.STRING else a)
            return
        if ValueType.DURATION in kinds and kinds & _NUMBERS:
            if time_type(self.schema) is not ValueType.TIMESTAMP:
                return  # the duration counts in the unit of the integer time column
            hint = "write the number with a unit, such as `5s`"
        else:
            hint = None
        raise QueryTypeError(f"{left.value} cannot be compared with {right.value}", hint=hint, span=_join(a, b))

    def _time_literal(self, text: Expression) -> None:
        if not isinstance(text, Literal) or not isinstance(text.value, str):
            raise QueryTypeError(
                "a timestamp can be compared with another or with a constant text, not with a text column",
                span=text.span,
            )
        try:
            parse_time(text.value)
        except (ValueError, OverflowError):
            raise QueryTypeError(
                f"'{text.value}' is not a time",
                hint="times are written by ISO-8601, such as '2024-05-01T12:30:00Z'",
                span=text.span,
            ) from None

    def _truth(self, operand: Expression, operator: str) -> None:
        found = self.of(operand)
        if found not in _OPEN | {ValueType.BOOL}:
            raise QueryTypeError(f"{operator} needs conditions, but this is {found.value}", span=operand.span)

    def _text(self, operand: Expression, function: str) -> None:
        found = self.of(operand)
        if found not in _OPEN | {ValueType.STRING}:
            raise QueryTypeError(f"{function} needs a text, but this is {found.value}", span=operand.span)

    def _number(self, operand: Expression, function: str, also: ValueType | None = None) -> ValueType:
        found = self.of(operand)
        if found not in _OPEN | _NUMBERS and found is not also:
            raise QueryTypeError(f"{function} needs a number, but this is {found.value}", span=operand.span)
        return found

    def _call(self, call: Call) -> ValueType:
        function, arguments = call.function, call.arguments
        low, high = {"round": (1, 2), "coalesce": (1, len(arguments))}.get(function, (1, 1))
        if not low <= len(arguments) <= max(low, high):
            wanted = {"round": "one or two arguments", "coalesce": "at least one argument"}.get(
                function, "one argument"
            )
            raise QueryTypeError(f"{function} takes {wanted}, found {len(arguments)}", span=call.span)
        match function:
            case "lower" | "upper":
                self._text(arguments[0], function)
                return ValueType.STRING
            case "length":
                self._text(arguments[0], function)
                return ValueType.INT
            case "coalesce":
                return self._coalesce(arguments)
            case "round":
                for digits in arguments[1:]:
                    if self.of(digits) not in _OPEN | {ValueType.INT}:
                        raise QueryTypeError("the digits of round are an integer", span=digits.span)
                return self._number(arguments[0], function)
            case "abs":
                return self._number(arguments[0], function, ValueType.DURATION)
            case _:
                return self._number(arguments[0], function)

    def _coalesce(self, arguments: tuple[Expression, ...]) -> ValueType:
        found = ValueType.NULL
        for argument in arguments:
            kind = self.of(argument)
            if kind is found or kind is ValueType.NULL:
                continue
            if found in _OPEN or kind is ValueType.UNKNOWN:
                found = kind if found is ValueType.NULL else ValueType.UNKNOWN
            elif {found, kind} == _NUMBERS:
                found = ValueType.FLOAT
            else:
                raise QueryTypeError(
                    f"coalesce needs values of one type, but this is {kind.value} after {found.value}",
                    span=argument.span,
                )
        return found


def aggregated_type(function: str, of: ValueType, span: Span | None = None) -> ValueType:
    """The type of COUNT, SUM, AVG, MIN or MAX over values of a type; raises QueryTypeError where it has no meaning."""
    match function:
        case "COUNT":
            return ValueType.INT
        case "SUM" | "AVG":
            if of not in _NUMBERS | _OPEN:
                raise QueryTypeError(f"{function} needs numbers, but this is {of.value}", span=span)
            return ValueType.FLOAT if function == "AVG" else of
        case _:
            if of is ValueType.BOOL:
                raise QueryTypeError(f"{function} needs values that have an order; truth values have none", span=span)
            return of


def _join(a: Expression, b: Expression) -> Span | None:
    """The stretch of text from one expression to another."""
    if a.span is None or b.span is None:
        return a.span or b.span
    return Span(min(a.span.start, b.span.start), max(a.span.end, b.span.end))
