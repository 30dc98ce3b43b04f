"""Expressions of WHERE and RETURN: immutable values, equal when they say the same (source spans do not count)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias, assert_never

from ensue.errors import Span


class At(Enum):
    """Which events of a variable an attribute speaks of."""

    EACH = "each"  # `x.attr`: the event; for a Kleene variable, each of its events
    CURRENT = "current"  # `x[i].attr`, in a conjunct that also has `x[i-1]`
    PREVIOUS = "previous"  # `x[i-1].attr`
    FIRST = "first"  # `FIRST(x).attr`
    LAST = "last"  # `LAST(x).attr`


TIME_ATTRIBUTES = ("ts", "begin", "end")
"""Attributes that every event has: `ts` and `end` are its end, `begin` its begin."""

BARE = "\x00 variable of a rule"
"""The variable of an attribute that stands alone, in rules (`ensue.rules`); no text can name it."""

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "%")
FUNCTIONS = ("abs", "round", "floor", "ceil", "lower", "upper", "length", "coalesce")
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")


UNITS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""Microseconds in one of each canonical unit."""

UNIT_SPELLINGS: dict[str, str] = {
    "us": "us",
    "ms": "ms",
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `amount` of a canonical unit (a key of UNITS), or of the time column's own unit if None."""

    amount: int | float
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: bool | int | float | str | Duration | None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:  # 1, 1.0 and True are different constants
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Attribute:
    """`variable.name`, of the events of the variable that `at` says."""

    variable: str
    name: str
    at: At = At.EACH
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`COUNT(x)`, or a function of `x.attr`, over a Kleene variable's list (`COUNT(x.attr)`: its non-null values)."""

    function: str  # one of AGGREGATES
    variable: str
    name: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """`-operand`."""

    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, operator one of ARITHMETIC."""

    operator: str
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operands[0] operators[0] operands[1] operators[1] …`: true if each neighbouring pair compares true."""

    operands: tuple[Expression, ...]
    operators: tuple[str, ...]  # of COMPARISONS, one fewer than operands
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """`AND` or `OR` of two or more operands, in SQL's three-valued logic."""

    operator: str
    operands: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT operand`; NOT of null is null."""

    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InList:
    """`operand [NOT] IN (items)`."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Between:
    """`operand [NOT] BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    """`operand [NOT] LIKE 'pattern'`: `%` is any run of characters, `_` any one, `\\` escapes."""

    operand: Expression
    pattern: str
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand IS [NOT] NULL`."""

    operand: Expression
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`, function one of FUNCTIONS (lower case)."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Expression: TypeAlias = (
    Literal
    | Attribute
    | Aggregate
    | Negate
    | Arithmetic
    | Comparison
    | Logical
    | Not
    | InList
    | Between
    | Like
    | IsNull
    | Call
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression."""
    match expression:
        case Literal() | Attribute() | Aggregate():
            return ()
        case Negate(operand=x) | Not(operand=x) | Like(operand=x) | IsNull(operand=x):
            return (x,)
        case Arithmetic(left=left, right=right):
            return (left, right)
        case Comparison(operands=parts) | Logical(operands=parts) | Call(arguments=parts):
            return parts
        case InList(operand=x, items=items):
            return (x, *items)
        case Between(operand=x, low=low, high=high):
            return (x, low, high)
        case _:
            assert_never(expression)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, the outer before the inner, left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def variables_of(expression: Expression) -> frozenset[str]:
    """The names of the variables that an expression speaks of."""
    return frozenset(n.variable for n in walk(expression) if isinstance(n, Attribute | Aggregate))


def conjuncts_of(expression: Expression | None) -> tuple[Expression, ...]:
    """The conditions that an expression ANDs together: nested ANDs and comparison chains are taken apart."""
    match expression:
        case None:
            return ()
        case Logical(operator="AND", operands=parts):
            return tuple(c for part in parts for c in conjuncts_of(part))
        case Comparison(operands=parts, operators=operators) if len(operators) > 1:
            return tuple(
                Comparison((parts[k], parts[k + 1]), (operators[k],), expression.span) for k in range(len(operators))
            )
        case _:
            return (expression,)


def rewrite(expression: Expression, leaf: Callable[[Attribute | Aggregate], Expression]) -> Expression:
    """The expression with each attribute and aggregate in it replaced by what `leaf` makes of it."""
    match expression:
        case Literal():
            return expression
        case Attribute() | Aggregate():
            return leaf(expression)
        case Negate(operand=x) | Not(operand=x) | Like(operand=x) | IsNull(operand=x):
            return replace(expression, operand=rewrite(x, leaf))
        case Arithmetic(left=left, right=right):
            return replace(expression, left=rewrite(left, leaf), right=rewrite(right, leaf))
        case Comparison(operands=parts) | Logical(operands=parts):
            return replace(expression, operands=tuple(rewrite(part, leaf) for part in parts))
        case Call(arguments=parts):
            return replace(expression, arguments=tuple(rewrite(part, leaf) for part in parts))
        case InList(operand=x, items=items):
            return replace(expression, operand=rewrite(x, leaf), items=tuple(rewrite(i, leaf) for i in items))
        case Between(operand=x, low=low, high=high):
            return replace(expression, operand=rewrite(x, leaf), low=rewrite(low, leaf), high=rewrite(high, leaf))
        case _:
            assert_never(expression)
