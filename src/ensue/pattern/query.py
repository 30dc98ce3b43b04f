"""The algebra of patterns, and a query: immutable values, equal when they say the same."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, assert_never

from ensue.errors import Span
from ensue.pattern.expressions import Duration, Expression


class Policy(Enum):
    """Which of the possible matches are reported (USING)."""

    ANY = "ANY"
    NEXT = "NEXT"
    STRICT = "STRICT"


@dataclass(frozen=True, slots=True)
class Quantifier:
    """How many events a Kleene variable takes: `+` (1, None), `*` (0, None), `?` (0, 1), `{n,m}` (n, m)."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Item:
    """One event type of a pattern with the variable it is known by (the type's name if the text gives none)."""

    type: str
    variable: str
    negated: bool = False
    quantifier: Quantifier | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Seq:
    """Its items one after the other, strictly."""

    items: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """All its items, in any order."""

    items: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """One of its items."""

    items: tuple[Pattern, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Pattern: TypeAlias = Item | Seq | And | Or


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """WITHIN duration: max end - min begin < duration."""

    duration: Duration
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CountWindow:
    """WITHIN n EVENTS: last position - first position < n."""

    events: int
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unbounded:
    """WITHIN UNBOUNDED, said on purpose."""

    span: Span | None = field(default=None, compare=False, repr=False)


Window: TypeAlias = TimeWindow | CountWindow | Unbounded


@dataclass(frozen=True, slots=True)
class Return:
    """One column of RETURN: an expression and its AS name (None: named after the expression)."""

    expression: Expression
    name: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PatternAggregate:
    """One number of AGG: `COUNT(*)` (variable and name None), or a function of `variable.name`."""

    function: str
    variable: str | None = None
    name: str | None = None
    alias: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One key of GROUP BY: an attribute that all events of a match share, or one variable's attribute."""

    name: str
    variable: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A pattern query. `source` is the text that it came from, for error messages only."""

    pattern: Pattern
    where: Expression | None = None
    partition_by: tuple[str, ...] = ()
    within: Window | None = None
    policy: Policy = Policy.ANY
    aggregates: tuple[PatternAggregate, ...] = ()
    group_by: tuple[GroupKey, ...] = ()
    emit_on_change: bool = False
    returns: tuple[Return, ...] = ()
    name: str | None = None
    source: str | None = field(default=None, compare=False, repr=False)
    partition_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)  # of partition_by, in the source
    emit_span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        from ensue.pattern.format import format_query  # not at the top: the formatter imports this module

        return format_query(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def items(self) -> tuple[Item, ...]:
        """The items of the pattern in the order of the text, negated ones included."""
        return tuple(items_of(self.pattern))

    @property
    def types(self) -> tuple[str, ...]:
        """The event types that the pattern names, each once, in the order of the text."""
        return tuple(dict.fromkeys(item.type for item in self.items))


def items_of(pattern: Pattern) -> Iterator[Item]:
    """The items of a pattern in the order of the text."""
    match pattern:
        case Item():
            yield pattern
        case Seq(items=parts) | And(items=parts) | Or(items=parts):
            for part in parts:
                yield from items_of(part)
        case _:
            assert_never(pattern)
