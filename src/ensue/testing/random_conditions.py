"""Random conditions over the variables of a pattern, of every kind that WHERE knows, all of them well typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ensue.pattern.expressions import (
    Aggregate,
    Arithmetic,
    At,
    Attribute,
    Between,
    Call,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from ensue.pattern.query import Item
from ensue.testing.choices import Choices

_ORDER = ("<", "<=", ">", ">=", "=", "!=")


def build_condition(choices: Choices, items: Sequence[Item]) -> Expression:
    """One conjunct over the variables of the items: at most one of them negated."""
    negated = [item for item in items if item.negated]
    pool = [item for item in items if not item.negated]
    if negated and choices.chance(0.5):
        chosen = choices.pick(negated)
        pool = [chosen, chosen, *pool]
    lists = [item for item in pool if item.quantifier is not None]
    if lists and choices.chance(0.6):
        return choices.pick((_build_aggregate, _build_adjacent, _build_element_against_list))(choices, pool, lists)
    condition = choices.pick(_ATOMS)(choices, pool)
    if choices.chance(0.2):
        condition = Logical(choices.pick(("OR", "OR", "AND")), (condition, choices.pick(_ATOMS)(choices, pool)))
    if choices.chance(0.1):
        condition = Not(condition)
    return condition


# -- plain conditions ----------------------------------------------------------------------------------------------


def _pick(choices: Choices, *options: Expression) -> Expression:
    return choices.pick(options)


def _attribute(choices: Choices, pool: Sequence[Item], name: str) -> Attribute:
    return Attribute(choices.pick(pool).variable, name)


def _number(choices: Choices, pool: Sequence[Item]) -> Expression:
    name = choices.pick(("x", "x", "x", "y", "k", "ts", "begin", "end"))
    return _attribute(choices, pool, name)


def _compare_variables(choices: Choices, pool: Sequence[Item]) -> Expression:
    name = choices.pick(("x", "k", "y", "s", "ts"))
    return Comparison((_attribute(choices, pool, name), _attribute(choices, pool, name)), (choices.pick(_ORDER),))


def _compare_constant(choices: Choices, pool: Sequence[Item]) -> Expression:
    if choices.chance(0.25):
        value: str | int | float = choices.pick(("a", "ab", "B"))
        return Comparison((_attribute(choices, pool, "s"), Literal(value)), (choices.pick(_ORDER),))
    value = choices.pick((1, 0, 2, 0.5, -1))
    return Comparison((_number(choices, pool), Literal(value)), (choices.pick(_ORDER),))


def _compare_sum(choices: Choices, pool: Sequence[Item]) -> Expression:
    operator = choices.pick(("+", "-", "*", "/", "%"))
    left = Arithmetic(operator, _number(choices, pool), _number(choices, pool))
    right: Expression = _pick(choices, Literal(1), Literal(2), Literal(0.5), Negate(_number(choices, pool)))
    return Comparison((left, right), (choices.pick(_ORDER),))


def _compare_times(choices: Choices, pool: Sequence[Item]) -> Expression:
    gap = Arithmetic("-", _attribute(choices, pool, "ts"), _attribute(choices, pool, choices.pick(("ts", "begin"))))
    return Comparison((gap, Literal(choices.integer(0, 6))), (choices.pick(("<", "<=", ">", ">=")),))


def _chain(choices: Choices, pool: Sequence[Item]) -> Expression:
    name = choices.pick(("k", "x"))
    operators = choices.pick((("=", "="), ("<", "<"), ("<=", "<"), ("=",)))
    return Comparison(tuple(_attribute(choices, pool, name) for _ in range(len(operators) + 1)), operators)


def _test_null(choices: Choices, pool: Sequence[Item]) -> Expression:
    return IsNull(_attribute(choices, pool, choices.pick(("x", "y", "s", "b"))), choices.chance(0.6))


def _test_list(choices: Choices, pool: Sequence[Item]) -> Expression:
    if choices.chance(0.3):
        return InList(_attribute(choices, pool, "s"), (Literal("a"), Literal("B")), choices.chance(0.3))
    items: tuple[Expression, ...] = choices.pick(
        ((Literal(1), Literal(2)), (Literal(0), Literal(None)), (Literal(1), _attribute(choices, pool, "k")))
    )
    return InList(_attribute(choices, pool, "x"), items, choices.chance(0.3))


def _test_between(choices: Choices, pool: Sequence[Item]) -> Expression:
    high: Expression = _pick(choices, Literal(2), _attribute(choices, pool, "x"))
    return Between(_number(choices, pool), Literal(choices.pick((0, 1))), high, choices.chance(0.3))


def _test_like(choices: Choices, pool: Sequence[Item]) -> Expression:
    pattern = choices.pick(("a%", "%b", "_", "%", "a_", "B"))
    return Like(_attribute(choices, pool, "s"), pattern, choices.chance(0.3))


def _test_bool(choices: Choices, pool: Sequence[Item]) -> Expression:
    flag = _attribute(choices, pool, "b")
    return _pick(
        choices,
        flag,
        Not(flag),
        Comparison((flag, Literal(True)), ("!=",)),
        Comparison((flag, _attribute(choices, pool, "b")), ("=",)),
    )


def _call(choices: Choices, pool: Sequence[Item]) -> Expression:
    text = _attribute(choices, pool, "s")
    number = _number(choices, pool)
    sides: tuple[tuple[Expression, Expression], ...] = (
        (Call("abs", (number,)), Literal(1)),
        (Call("round", (Attribute(text.variable, "y"),)), Literal(1)),
        (Call("floor", (Attribute(text.variable, "y"),)), _attribute(choices, pool, "x")),
        (Call("ceil", (Attribute(text.variable, "y"),)), Literal(3)),
        (Call("length", (text,)), _attribute(choices, pool, "x")),
        (Call("lower", (text,)), Literal("b")),
        (Call("upper", (text,)), Literal("AB")),
        (Call("coalesce", (Attribute(text.variable, "x"), number, Literal(1))), Literal(2)),
        (Call("coalesce", (text, Literal("a"))), Literal("a")),
    )
    return Comparison(choices.pick(sides), (choices.pick(_ORDER),))


_ATOMS: tuple[Callable[[Choices, Sequence[Item]], Expression], ...] = (
    _compare_variables,
    _compare_variables,
    _compare_variables,
    _compare_constant,
    _compare_constant,
    _compare_sum,
    _compare_times,
    _chain,
    _test_null,
    _test_list,
    _test_between,
    _test_like,
    _test_bool,
    _call,
)


# -- conditions on lists -------------------------------------------------------------------------------------------


def _whole(choices: Choices, lists: Sequence[Item]) -> Expression:
    """A number that speaks of a list as a whole."""
    variable = choices.pick(lists).variable
    name = choices.pick(("x", "y"))
    return _pick(
        choices,
        Aggregate("COUNT", variable),
        Aggregate("SUM", variable, name),
        Aggregate("AVG", variable, name),
        Aggregate("MIN", variable, name),
        Aggregate("MAX", variable, name),
        Aggregate("COUNT", variable, name),
        Attribute(variable, name, At.FIRST),
        Attribute(variable, name, At.LAST),
    )


def _build_aggregate(choices: Choices, pool: Sequence[Item], lists: Sequence[Item]) -> Expression:
    others: list[Expression] = [Literal(choices.integer(0, 3)), _whole(choices, lists)]
    singles = [item for item in pool if item.quantifier is None]
    if singles:
        others.append(_attribute(choices, singles, "x"))
    return Comparison((_whole(choices, lists), choices.pick(others)), (choices.pick(_ORDER),))


def _build_adjacent(choices: Choices, pool: Sequence[Item], lists: Sequence[Item]) -> Expression:
    variable = choices.pick(lists).variable
    name = choices.pick(("x", "y", "k", "ts"))
    current, previous = Attribute(variable, name, At.CURRENT), Attribute(variable, name, At.PREVIOUS)
    rest = [item for item in pool if item.variable != variable]
    if choices.chance(0.3):
        return Comparison((Arithmetic("-", current, previous), Literal(1)), (choices.pick(_ORDER),))
    condition = Comparison((current, previous), (choices.pick(_ORDER),))
    if rest and choices.chance(0.25):
        return Logical("OR", (condition, _compare_constant(choices, rest)))
    return condition


def _build_element_against_list(choices: Choices, pool: Sequence[Item], lists: Sequence[Item]) -> Expression:
    return Comparison((_attribute(choices, lists, "x"), _whole(choices, lists)), (choices.pick(_ORDER),))
