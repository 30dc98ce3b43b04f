"""Values of the fluent API: attributes, aggregates and functions, combined by Python's operators.

`col("a.price") * 2 < first("b.price")` is the condition `a.price * 2 < FIRST(b).price`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import NoReturn, TypeAlias, overload

from ensue.errors import QuerySyntaxError, QueryTypeError
from ensue.pattern.expressions import (
    UNITS,
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
)
from ensue.pattern.format import format_expression
from ensue.pattern.query import PatternAggregate


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An expression that Python's operators build on: `== != < <= > >= + - * / % & | ~`.

    >>> (col("a.x") + 1 < col("b.x")) & ~col("a.kind").isin("x", "y")
    Value(a.x + 1 < b.x AND a.kind NOT IN ('x', 'y'))
    """

    expression: Expression

    def __str__(self) -> str:
        return format_expression(self.expression)

    def __repr__(self) -> str:
        return f"Value({self})"

    def __bool__(self) -> NoReturn:
        raise QueryTypeError(
            "a condition has no truth value before it is run",
            hint="combine conditions with `&`, `|` and `~`; write `(a < b) & (b < c)` for `a < b < c`",
        )

    __hash__ = None  # type: ignore[assignment]  # `==` builds a condition, so values cannot be keys

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return _compare(self, "=", other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return _compare(self, "!=", other)

    def __lt__(self, other: Operand) -> Value:
        return _compare(self, "<", other)

    def __le__(self, other: Operand) -> Value:
        return _compare(self, "<=", other)

    def __gt__(self, other: Operand) -> Value:
        return _compare(self, ">", other)

    def __ge__(self, other: Operand) -> Value:
        return _compare(self, ">=", other)

    def __add__(self, other: Operand) -> Value:
        return _calculate(self, "+", other)

    def __radd__(self, other: Operand) -> Value:
        return _calculate(other, "+", self)

    def __sub__(self, other: Operand) -> Value:
        return _calculate(self, "-", other)

    def __rsub__(self, other: Operand) -> Value:
        return _calculate(other, "-", self)

    def __mul__(self, other: Operand) -> Value:
        return _calculate(self, "*", other)

    def __rmul__(self, other: Operand) -> Value:
        return _calculate(other, "*", self)

    def __truediv__(self, other: Operand) -> Value:
        return _calculate(self, "/", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _calculate(other, "/", self)

    def __mod__(self, other: Operand) -> Value:
        return _calculate(self, "%", other)

    def __rmod__(self, other: Operand) -> Value:
        return _calculate(other, "%", self)

    def __neg__(self) -> Value:
        return Value(Negate(self.expression))

    def __and__(self, other: Operand) -> Value:
        return Value(join_conditions("AND", self.expression, expression_of(other)))

    def __rand__(self, other: Operand) -> Value:
        return Value(join_conditions("AND", expression_of(other), self.expression))

    def __or__(self, other: Operand) -> Value:
        return Value(join_conditions("OR", self.expression, expression_of(other)))

    def __ror__(self, other: Operand) -> Value:
        return Value(join_conditions("OR", expression_of(other), self.expression))

    def __invert__(self) -> Value:
        match self.expression:
            case (InList(negated=False) | Between(negated=False) | Like(negated=False) | IsNull(negated=False)) as test:
                return Value(replace(test, negated=True))
            case condition:
                return Value(Not(condition))

    def isin(self, *values: Operand | Iterable[Operand]) -> Value:
        """`IN (…)`; takes the values one by one, or in one list."""
        listed: list[Operand] = []
        for value in values:
            if isinstance(value, Iterable) and not isinstance(value, str | Value):
                listed += value
            else:
                listed.append(value)
        if not listed:
            raise QueryTypeError("isin needs at least one value")
        return Value(InList(self.expression, tuple(expression_of(value) for value in listed)))

    def between(self, low: Operand, high: Operand) -> Value:
        """`BETWEEN low AND high`, both ends included."""
        return Value(Between(self.expression, expression_of(low), expression_of(high)))

    def like(self, pattern: str) -> Value:
        r"""`LIKE pattern`: `%` is any run of characters, `_` any one, `\` escapes."""
        return Value(Like(self.expression, pattern))

    def is_null(self) -> Value:
        """`IS NULL`."""
        return Value(IsNull(self.expression))

    def is_not_null(self) -> Value:
        """`IS NOT NULL`."""
        return Value(IsNull(self.expression, negated=True))


Operand: TypeAlias = Value | bool | int | float | str | timedelta | date | Duration | None
"""What may stand beside a Value: another one, or a constant."""


def lit(value: bool | int | float | str | timedelta | date | Duration | None) -> Value:
    """A constant; a timedelta is a duration, a date or datetime its ISO-8601 text."""
    return Value(expression_of(value))


def expression_of(value: Operand) -> Expression:
    """The expression of a value or a constant."""
    match value:
        case Value(expression=expression):
            return expression
        case timedelta():
            return Literal(duration_of(value))
        case datetime() | date():
            return Literal(value.isoformat())
        case None | bool() | int() | float() | str() | Duration():
            return Literal(value)
        case _:
            raise QueryTypeError(
                f"a {type(value).__name__} cannot stand in a query", hint="use a bool, int, float or str"
            )


def duration_of(length: timedelta) -> Duration:
    """A timedelta in the largest unit that it is a whole number of.

    >>> duration_of(timedelta(minutes=90))
    Duration(amount=90, unit='m')
    """
    total = length // timedelta(microseconds=1)
    unit = next(name for name, size in reversed(UNITS.items()) if total % size == 0)
    return Duration(total // UNITS[unit], unit)


def join_conditions(operator: str, *conditions: Expression) -> Expression:
    """AND or OR of conditions, flat: what the operator has joined already is taken apart."""
    flat: list[Expression] = []
    for condition in conditions:
        if isinstance(condition, Logical) and condition.operator == operator:
            flat += condition.operands
        else:
            flat.append(condition)
    return flat[0] if len(flat) == 1 else Logical(operator, tuple(flat))


def _compare(left: Operand, operator: str, right: Operand) -> Value:
    return Value(Comparison((expression_of(left), expression_of(right)), (operator,)))


def _calculate(left: Operand, operator: str, right: Operand) -> Value:
    return Value(Arithmetic(operator, expression_of(left), expression_of(right)))


_PLACES = {"": At.EACH, "[]": At.EACH, "[i]": At.CURRENT, "[i-1]": At.PREVIOUS}
_PLACED = re.compile(r"(.*?)(\[[^\]]*\])?", re.DOTALL)


def col(name: str, attribute: str | None = None) -> Value:
    """An attribute of a variable: `col("a.x")`, `col("b[i].x")`, `col("b[i-1].x")`, or `col("a", "odd.name")`.

    >>> col("b[i].x") > col("b[i-1].x")
    Value(b[i].x > b[i-1].x)
    """
    variable, found = _split(name, attribute)
    match = _PLACED.fullmatch(variable)
    place = (match.group(2) or "").replace(" ", "") if match else ""
    if match is None or place not in _PLACES:
        raise QuerySyntaxError(
            f"`{name}` is not an attribute", hint="the places in a list are `[i]` and `[i-1]`: `b[i].x`, `b[i-1].x`"
        )
    return Value(Attribute(match.group(1), found, _PLACES[place]))


def _split(name: str, attribute: str | None = None) -> tuple[str, str]:
    if attribute is not None:
        return name, attribute
    variable, dot, found = name.partition(".")
    if not dot or not variable or not found:
        raise QuerySyntaxError(
            f"`{name}` is not an attribute of a variable", hint="write the variable, a dot and the attribute: `a.x`"
        )
    return variable, found


def first(name: str) -> Value:
    """`FIRST(b).x` for `first("b.x")`."""
    variable, attribute = _split(name)
    return Value(Attribute(variable, attribute, At.FIRST))


def last(name: str) -> Value:
    """`LAST(b).x` for `last("b.x")`."""
    variable, attribute = _split(name)
    return Value(Attribute(variable, attribute, At.LAST))


@overload
def count() -> PatternAggregate: ...
@overload
def count(name: str) -> Value: ...
def count(name: str | None = None) -> Value | PatternAggregate:
    """`COUNT(b)` for `count("b")`, `COUNT(b.x)` for `count("b.x")`; `count()` is `COUNT(*)`, the number of matches."""
    if name is None:
        return PatternAggregate("COUNT")
    if "." not in name:
        return Value(Aggregate("COUNT", name))
    return _aggregate("COUNT", name)


def sum_(name: str) -> Value:
    """`SUM(b.x)` for `sum_("b.x")`."""
    return _aggregate("SUM", name)


def avg(name: str) -> Value:
    """`AVG(b.x)` for `avg("b.x")`."""
    return _aggregate("AVG", name)


def min_(name: str) -> Value:
    """`MIN(b.x)` for `min_("b.x")`."""
    return _aggregate("MIN", name)


def max_(name: str) -> Value:
    """`MAX(b.x)` for `max_("b.x")`."""
    return _aggregate("MAX", name)


def _aggregate(function: str, name: str) -> Value:
    variable, attribute = _split(name)
    return Value(Aggregate(function, variable, attribute))


def _call(function: str, *arguments: Operand) -> Value:
    return Value(Call(function, tuple(expression_of(argument) for argument in arguments)))


def abs_(value: Operand) -> Value:
    """The absolute value."""
    return _call("abs", value)


def round_(value: Operand, digits: Operand = None) -> Value:
    """Rounded to a number of digits, none unless said; halves go away from zero."""
    return _call("round", value) if digits is None else _call("round", value, digits)


def floor(value: Operand) -> Value:
    """The next whole number below."""
    return _call("floor", value)


def ceil(value: Operand) -> Value:
    """The next whole number above."""
    return _call("ceil", value)


def lower(value: Operand) -> Value:
    """In small letters."""
    return _call("lower", value)


def upper(value: Operand) -> Value:
    """In capital letters."""
    return _call("upper", value)


def length(value: Operand) -> Value:
    """The number of characters."""
    return _call("length", value)


def coalesce(*values: Operand) -> Value:
    """The first value that is not null."""
    return _call("coalesce", *values)
