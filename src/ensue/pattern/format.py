"""From a query back to its text: one clause a line, keywords in upper case, no parentheses that are not needed.

`parse_query(format_query(query)) == query` holds for every query that can be said in the language. What cannot: an
operator without operands, a NaN (written as NULL, which it is), a duration without a unit as a value of an expression.
"""

from __future__ import annotations

import math
from typing import assert_never

from ensue.pattern.expressions import (
    BARE,
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
from ensue.pattern.query import (
    And,
    CountWindow,
    GroupKey,
    Item,
    Or,
    Pattern,
    PatternAggregate,
    Policy,
    Quantifier,
    Query,
    Seq,
    TimeWindow,
    Unbounded,
    Window,
)
from ensue.pattern.words import quote_name

WIDTH = 100
"""Beyond this many characters a pattern or a condition is spread over several lines."""

# How tightly each form binds, from the loosest: an operand that binds less than its place asks for is parenthesised.
_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(1, 9)


def format_query(query: Query) -> str:
    """The text of a query, one clause a line.

    >>> from ensue.pattern.query import Item, Query, Seq
    >>> print(format_query(Query(Seq((Item("A", "a"), Item("B", "b"))), partition_by=("id",))))
    PATTERN SEQ(A a, B b)
    PARTITION BY id
    """
    return "\n".join(text for _, text in format_clauses(query))


def format_clauses(query: Query) -> tuple[tuple[str, str], ...]:
    """Each clause of a query as its keyword and its text (which may run over several lines), in canonical order."""
    clauses: list[tuple[str, str]] = []
    if query.name is not None:
        clauses.append(("QUERY", f"QUERY {quote_name(query.name)}"))
    clauses.append(("PATTERN", _format_pattern_clause(query.pattern)))
    if query.where is not None:
        clauses.append(("WHERE", _format_where(query.where)))
    if query.partition_by:
        clauses.append(("PARTITION BY", "PARTITION BY " + ", ".join(quote_name(name) for name in query.partition_by)))
    if query.within is not None:
        clauses.append(("WITHIN", "WITHIN " + format_window(query.within)))
    if query.policy is not Policy.ANY:
        clauses.append(("USING", "USING " + query.policy.value))
    if query.aggregates:
        clauses.append(("AGG", "AGG " + ", ".join(_format_aggregate(one) for one in query.aggregates)))
    if query.group_by:
        clauses.append(("GROUP BY", "GROUP BY " + ", ".join(_format_key(key) for key in query.group_by)))
    if query.emit_on_change:
        clauses.append(("EMIT", "EMIT ON CHANGE"))
    if query.returns:
        columns = (format_expression(ret.expression) + _format_alias(ret.name) for ret in query.returns)
        clauses.append(("RETURN", "RETURN " + ", ".join(columns)))
    return tuple(clauses)


def _format_pattern_clause(pattern: Pattern) -> str:
    line = "PATTERN " + format_pattern(pattern)
    if len(line) <= WIDTH or isinstance(pattern, Item):
        return line
    head, parts = _operator_of(pattern)
    body = ",\n  ".join(format_pattern(part) for part in parts)
    return f"PATTERN {head}(\n  {body}\n)"


def _format_where(condition: Expression) -> str:
    line = "WHERE " + format_expression(condition)
    if len(line) <= WIDTH or not isinstance(condition, Logical):
        return line
    level = _level(condition) + 1
    return "WHERE " + f"\n  {condition.operator} ".join(_operand(part, level) for part in condition.operands)


def _format_aggregate(one: PatternAggregate) -> str:
    argument = "*" if one.variable is None else quote_name(one.variable)
    if one.name is not None:
        argument += "." + quote_name(one.name, after_dot=True)
    return f"{one.function}({argument}){_format_alias(one.alias)}"


def _format_key(key: GroupKey) -> str:
    if key.variable is None:
        return quote_name(key.name)
    return f"{quote_name(key.variable)}.{quote_name(key.name, after_dot=True)}"


def _format_alias(name: str | None) -> str:
    return "" if name is None else " AS " + quote_name(name)


def format_window(window: Window) -> str:
    """What stands after WITHIN."""
    match window:
        case TimeWindow(duration=duration):
            return format_duration(duration)
        case CountWindow(events=events):
            return f"{events} EVENTS"
        case Unbounded():
            return "UNBOUNDED"
        case _:
            assert_never(window)


def format_duration(duration: Duration) -> str:
    """A duration, its unit in the short spelling: `10s`."""
    return _format_number(duration.amount) + (duration.unit or "")


def _format_number(value: int | float) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"  # reads back as infinity
    return repr(value)


def _operator_of(pattern: Seq | And | Or) -> tuple[str, tuple[Pattern, ...]]:
    match pattern:
        case Seq(items=parts):
            return "SEQ", parts
        case And(items=parts):
            return "AND", parts
        case Or(items=parts):
            return "OR", parts
        case _:
            assert_never(pattern)


def format_pattern(pattern: Pattern) -> str:
    """A pattern on one line."""
    if isinstance(pattern, Item):
        return _format_item(pattern)
    head, parts = _operator_of(pattern)
    return f"{head}({', '.join(format_pattern(part) for part in parts)})"


def _format_item(item: Item) -> str:
    text = ("NOT " if item.negated else "") + quote_name(item.type)
    many = item.quantifier is not None
    if item.quantifier is not None:
        text += _format_quantifier(item.quantifier)
    if item.variable != item.type:
        text += " " + quote_name(item.variable) + ("[]" if many else "")
    return text


def _format_quantifier(quantifier: Quantifier) -> str:
    match quantifier:
        case Quantifier(minimum=1, maximum=None):
            return "+"
        case Quantifier(minimum=0, maximum=None):
            return "*"
        case Quantifier(minimum=0, maximum=1):
            return "?"
        case Quantifier(minimum=low, maximum=None):
            return f"{{{low},}}"
        case Quantifier(minimum=low, maximum=high):
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def format_expression(expression: Expression) -> str:
    """An expression on one line, with the parentheses that it needs and no others.

    >>> from ensue.pattern.expressions import Arithmetic, Attribute, Literal
    >>> total = Arithmetic("+", Attribute("a", "x"), Literal(1))
    >>> format_expression(Arithmetic("*", total, Literal(2)))
    '(a.x + 1) * 2'
    """
    match expression:
        case Literal(value=value):
            return _format_literal(value)
        case Attribute(variable=variable, name=name) if variable == BARE:
            return quote_name(name)
        case Attribute(variable=variable, name=name, at=at):
            return _format_place(variable, at) + "." + quote_name(name, after_dot=True)
        case Aggregate(function=function, variable=variable, name=argument) if variable == BARE:
            return f"{function}({'*' if argument is None else quote_name(argument)})"
        case Aggregate(function=function, variable=variable, name=attribute):
            suffix = "" if attribute is None else "." + quote_name(attribute, after_dot=True)
            return f"{function}({quote_name(variable)}{suffix})"
        case Negate(operand=Literal() as operand):  # `-5` is a constant: the parentheses keep the two apart
            return f"-({format_expression(operand)})"
        case Negate(operand=operand):
            return "-" + _operand(operand, _PRIMARY)
        case Arithmetic(operator=operator, left=left, right=right):
            level = _level(expression)
            return f"{_operand(left, level)} {operator} {_operand(right, level + 1)}"
        case Comparison(operands=operands, operators=operators):
            parts = [_operand(operands[0], _SUM)]
            for operator, operand in zip(operators, operands[1:], strict=True):
                parts += [operator, _operand(operand, _SUM)]
            return " ".join(parts)
        case Logical(operator=operator, operands=operands):
            level = _level(expression) + 1
            return f" {operator} ".join(_operand(part, level) for part in operands)
        case Not(operand=operand):
            return "NOT " + _operand(operand, _NOT)
        case InList(operand=operand, items=items, negated=negated):
            listed = ", ".join(format_expression(item) for item in items)
            return f"{_operand(operand, _SUM)} {'NOT ' * negated}IN ({listed})"
        case Between(operand=operand, low=low, high=high, negated=negated):
            bounds = f"{_operand(low, _SUM)} AND {_operand(high, _SUM)}"
            return f"{_operand(operand, _SUM)} {'NOT ' * negated}BETWEEN {bounds}"
        case Like(operand=operand, pattern=pattern, negated=negated):
            return f"{_operand(operand, _SUM)} {'NOT ' * negated}LIKE {_format_literal(pattern)}"
        case IsNull(operand=operand, negated=negated):
            return f"{_operand(operand, _SUM)} IS {'NOT ' * negated}NULL"
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(format_expression(argument) for argument in arguments)})"
        case _:
            assert_never(expression)


def _format_place(variable: str, at: At) -> str:
    name = quote_name(variable)
    match at:
        case At.EACH:
            return name
        case At.CURRENT:
            return f"{name}[i]"
        case At.PREVIOUS:
            return f"{name}[i-1]"
        case At.FIRST:
            return f"FIRST({name})"
        case At.LAST:
            return f"LAST({name})"
        case _:
            assert_never(at)


def _format_literal(value: bool | int | float | str | Duration | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return "NULL" if value != value else _format_number(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case Duration():
            return format_duration(value)
        case _:
            assert_never(value)


def _operand(expression: Expression, level: int) -> str:
    """An operand in a place that asks for forms of at least `level`."""
    text = format_expression(expression)
    return text if _level(expression) >= level else f"({text})"


def _level(expression: Expression) -> int:
    match expression:
        case Logical(operator="OR"):
            return _OR
        case Logical():
            return _AND
        case Not():
            return _NOT
        case Comparison() | InList() | Between() | Like() | IsNull():
            return _PREDICATE
        case Arithmetic(operator="+" | "-"):
            return _SUM
        case Arithmetic():
            return _PRODUCT
        case Negate():
            return _UNARY
        case Literal():
            return _UNARY if format_expression(expression).startswith("-") else _PRIMARY
        case Attribute() | Aggregate() | Call():
            return _PRIMARY
        case _:
            assert_never(expression)
