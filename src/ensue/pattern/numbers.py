"""Which columns queries take for numbers, so that one bad value in a file does not make text of the whole column."""

from __future__ import annotations

from collections.abc import Iterable

from ensue.pattern.expressions import (
    Aggregate,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Expression,
    Literal,
    Negate,
    walk,
)
from ensue.pattern.query import Query

_ORDERS = {"<", "<=", ">", ">="}
_OF_NUMBERS = {"abs", "round", "floor", "ceil"}


def numeric_columns(queries: Iterable[Query]) -> frozenset[str]:
    """The attributes that queries order, calculate with, or compare with a number.

    >>> from ensue.language import parse
    >>> sorted(numeric_columns(parse("PATTERN SEQ(A a, B b) WHERE a.x < b.y AND a.s = b.s AND a.k = 3")))
    ['k', 'x', 'y']
    """
    found: set[str] = set()
    for query in queries:
        expressions = [column.expression for column in query.returns]
        if query.where is not None:
            expressions.append(query.where)
        for expression in expressions:
            for part in walk(expression):
                found |= _numbers_of(part)
        found |= {a.name for a in query.aggregates if a.name is not None and a.function in ("SUM", "AVG")}
    return frozenset(found)


def _numbers_of(part: Expression) -> set[str]:
    match part:
        case Comparison(operands=operands, operators=operators):
            against_text = any(isinstance(x, Literal) and isinstance(x.value, str) for x in operands)
            ordered = any(operator in _ORDERS for operator in operators) or any(map(_is_number, operands))
            return _names(operands) if ordered and not against_text else set()
        case Between(operand=operand, low=low, high=high):
            return _names((operand, low, high)) if _is_number(low) or _is_number(high) else set()
        case Arithmetic(left=left, right=right):
            return _names((left, right))
        case Negate(operand=operand):
            return _names((operand,))
        case Aggregate(function="SUM" | "AVG", name=str() as name):
            return {name}
        case Call(function=function, arguments=arguments) if function in _OF_NUMBERS:
            return _names(arguments)
        case _:
            return set()


def _names(operands: Iterable[Expression]) -> set[str]:
    return {part.name for part in operands if isinstance(part, Attribute)}


def _is_number(expression: Expression) -> bool:
    return (
        isinstance(expression, Literal)
        and isinstance(expression.value, int | float)
        and not isinstance(expression.value, bool)
    )
