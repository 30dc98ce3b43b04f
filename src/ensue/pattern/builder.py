"""The fluent API: queries built in Python, equal to those that the language reads from text.

>>> query = (
...     seq(event("Login").alias("a"), event("Failure").one_or_more().alias("f"), not_(event("Logout")))
...     .where(col("a.user") == col("f.user"), count("f") >= 3)
...     .within("10m")
... )
>>> print(query)
PATTERN SEQ(Login a, Failure+ f[], NOT Logout)
WHERE a.user = f.user AND COUNT(f) >= 3
WITHIN 10m
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from datetime import timedelta

from ensue.errors import QuerySyntaxError, QueryTypeError
from ensue.pattern.expressions import UNIT_SPELLINGS, Aggregate, Duration
from ensue.pattern.format import format_pattern, format_query
from ensue.pattern.nearest import did_you_mean
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
    Return,
    Seq,
    TimeWindow,
    Unbounded,
    Window,
)
from ensue.pattern.values import (
    Operand,
    Value,
    abs_,
    avg,
    ceil,
    coalesce,
    col,
    count,
    duration_of,
    expression_of,
    first,
    floor,
    join_conditions,
    last,
    length,
    lit,
    lower,
    max_,
    min_,
    round_,
    sum_,
    upper,
)

__all__ = [
    "Event",
    "PatternQuery",
    "Value",
    "abs_",
    "and_",
    "avg",
    "ceil",
    "coalesce",
    "col",
    "count",
    "event",
    "first",
    "floor",
    "last",
    "length",
    "lit",
    "lower",
    "max_",
    "min_",
    "not_",
    "or_",
    "pattern",
    "round_",
    "seq",
    "sum_",
    "upper",
]


@dataclass(frozen=True, slots=True)
class Event:
    """An item of a pattern: events of one type. Each method gives a new value."""

    item: Item

    def __str__(self) -> str:
        return format_pattern(self.item)

    def __repr__(self) -> str:
        return f"Event({self})"

    def alias(self, variable: str) -> Event:
        """Known by this variable; without it, by its type's name."""
        return Event(replace(self.item, variable=variable))

    def one_or_more(self) -> Event:
        """A list of one or more events: `+`."""
        return self._quantified(1, None)

    def zero_or_more(self) -> Event:
        """A list of any number of events: `*`."""
        return self._quantified(0, None)

    def optional(self) -> Event:
        """A list of one event or none: `?`."""
        return self._quantified(0, 1)

    def times(self, n: int, m: int | None = None) -> Event:
        """A list of n events, or of n to m: `{n}`, `{n,m}`."""
        return self._quantified(n, n if m is None else m)

    def at_least(self, n: int) -> Event:
        """A list of n events or more: `{n,}`."""
        return self._quantified(n, None)

    def _quantified(self, low: int, high: int | None) -> Event:
        return Event(replace(self.item, quantifier=Quantifier(low, high)))


@dataclass(frozen=True, slots=True)
class PatternQuery:
    """A query under construction, and whole at each moment: `query` is its value. Each method gives a new value."""

    query: Query

    def __str__(self) -> str:
        return format_query(self.query)

    def __repr__(self) -> str:
        return "PatternQuery(\n  " + str(self).replace("\n", "\n  ") + "\n)"

    def _repr_html_(self) -> str:
        return f"<pre><code>{html.escape(str(self))}</code></pre>"

    def named(self, name: str) -> PatternQuery:
        """With this name (QUERY)."""
        return PatternQuery(replace(self.query, name=name))

    def where(self, *conditions: Operand) -> PatternQuery:
        """With these conditions as well as those it has (WHERE)."""
        if not conditions:
            return self
        before = () if self.query.where is None else (self.query.where,)
        joined = join_conditions("AND", *before, *(expression_of(condition) for condition in conditions))
        return PatternQuery(replace(self.query, where=joined))

    def partition_by(self, *attributes: str) -> PatternQuery:
        """With all events of a match equal in these attributes (PARTITION BY)."""
        return PatternQuery(replace(self.query, partition_by=attributes))

    def within(
        self, duration: str | int | float | timedelta | Duration | None = None, *, events: int | None = None
    ) -> PatternQuery:
        """Within a window (WITHIN): `"10m"`, a timedelta, a number of the time column's units, or a number of events.

        >>> print(seq("A", "B").within(events=5))
        PATTERN SEQ(A, B)
        WITHIN 5 EVENTS
        """
        if (duration is None) == (events is None):
            raise QueryTypeError("within needs either a duration or `events`")
        window = CountWindow(events) if events is not None else window_of(duration)
        return PatternQuery(replace(self.query, within=window))

    def using(self, policy: str | Policy) -> PatternQuery:
        """Reporting the matches that the policy names (USING): `"any"`, `"next"` or `"strict"`."""
        if isinstance(policy, str):
            if policy.upper() not in Policy.__members__:
                raise QueryTypeError(f"unknown policy `{policy}`", hint=did_you_mean(policy, ("any", "next", "strict")))
            policy = Policy[policy.upper()]
        return PatternQuery(replace(self.query, policy=policy))

    def returns(self, *columns: Operand, **named: Operand) -> PatternQuery:
        """With these columns in place of the events (RETURN).

        >>> print(seq("A", "B").returns("A.x", total=col("A.x") + col("B.x")))
        PATTERN SEQ(A, B)
        RETURN A.x, A.x + B.x AS total
        """
        listed = [Return(_column(column).expression) for column in columns]
        listed += [Return(_column(column).expression, name) for name, column in named.items()]
        return PatternQuery(replace(self.query, returns=tuple(listed)))

    def agg(self, *aggregates: Value | PatternAggregate, **named: Value | PatternAggregate) -> PatternQuery:
        """With these numbers about the matches in place of the matches (AGG).

        >>> print(seq("A", "B").agg(count(), total=sum_("B.x")))
        PATTERN SEQ(A, B)
        AGG COUNT(*), SUM(B.x) AS total
        """
        listed = [_pattern_aggregate(one, None) for one in aggregates]
        listed += [_pattern_aggregate(one, name) for name, one in named.items()]
        return PatternQuery(replace(self.query, aggregates=tuple(listed)))

    def group_by(self, *keys: str) -> PatternQuery:
        """With one row of AGG for each value of these (GROUP BY): `"k"`, shared by all events, or `"a.k"`."""
        found = []
        for key in keys:
            variable, dot, name = key.partition(".")
            found.append(GroupKey(name, variable) if dot else GroupKey(key))
        return PatternQuery(replace(self.query, group_by=tuple(found)))

    def emit_on_change(self, on: bool = True) -> PatternQuery:
        """With a row of AGG whenever a number changes (EMIT ON CHANGE)."""
        return PatternQuery(replace(self.query, emit_on_change=on))


def event(type: str) -> Event:
    """An event of a type.

    >>> event("Order").one_or_more().alias("o")
    Event(Order+ o[])
    """
    return Event(Item(type, type))


def not_(part: Event | str) -> Event:
    """No such event in this place: `NOT`."""
    item = (event(part) if isinstance(part, str) else part).item
    return Event(replace(item, negated=True))


def seq(*parts: Event | PatternQuery | str) -> PatternQuery:
    """One after the other: `SEQ(…)`. A part is an event, the name of a type, or another pattern."""
    return PatternQuery(Query(Seq(_parts("seq", parts))))


def and_(*parts: Event | PatternQuery | str) -> PatternQuery:
    """All of them, in any order: `AND(…)`."""
    return PatternQuery(Query(And(_parts("and_", parts))))


def or_(*parts: Event | PatternQuery | str) -> PatternQuery:
    """One of them: `OR(…)`."""
    return PatternQuery(Query(Or(_parts("or_", parts))))


def pattern(part: Event | PatternQuery | str) -> PatternQuery:
    """A query of a single part, without an operator."""
    return PatternQuery(Query(_parts("pattern", (part,))[0]))


def _parts(operator: str, parts: tuple[Event | PatternQuery | str, ...]) -> tuple[Pattern, ...]:
    if not parts:
        raise QueryTypeError(f"{operator} needs at least one event")
    return tuple(_pattern_of(operator, part) for part in parts)


def _pattern_of(operator: str, part: Event | PatternQuery | str) -> Pattern:
    match part:
        case str():
            return Item(part, part)
        case Event(item=item):
            return item
        case PatternQuery(query=query):
            if query != Query(query.pattern):
                raise QueryTypeError(
                    f"a part of {operator} is a pattern only, and cannot have clauses of its own",
                    hint="put where, within and the like on the whole query",
                )
            return query.pattern
        case _:
            raise QueryTypeError(f"a {type(part).__name__} cannot be part of a pattern", hint='use event("…")')


_LENGTH = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def window_of(length: str | int | float | timedelta | Duration | None) -> Window:
    """The window that a length says: a duration, text such as "10s" or "5 events", or a number of time units."""
    match length:
        case Duration():
            return TimeWindow(length)
        case timedelta():
            return TimeWindow(duration_of(length))
        case int() | float():
            return TimeWindow(Duration(length))
        case str() if length.strip().lower() == "unbounded":
            return Unbounded()
        case _:
            return _read_window(str(length))


def _read_window(text: str) -> Window:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise QuerySyntaxError(
            f"`{text}` is not a duration", hint="write a number and a unit, such as `10s` or `5 minutes`"
        )
    number, unit = found.group(1), found.group(2).lower()
    if unit in ("event", "events") and number.isdigit():
        return CountWindow(int(number))
    if unit and unit not in UNIT_SPELLINGS:
        raise QuerySyntaxError(f"`{unit}` is not a unit of time", hint=did_you_mean(unit, UNIT_SPELLINGS))
    amount = int(number) if number.isdigit() else float(number)
    return TimeWindow(Duration(amount, UNIT_SPELLINGS[unit] if unit else None))


def _column(column: Operand) -> Value:
    """A column of RETURN; a text is the name of an attribute, `lit` makes a constant of it."""
    return col(column) if isinstance(column, str) else Value(expression_of(column))


def _pattern_aggregate(one: Value | PatternAggregate, alias: str | None) -> PatternAggregate:
    if isinstance(one, PatternAggregate):
        return one if alias is None else replace(one, alias=alias)
    match one.expression:
        case Aggregate(function=function, variable=variable, name=str(name)):
            return PatternAggregate(function, variable, name, alias)
        case _:
            raise QueryTypeError(
                f"`{one}` is not a number about the matches", hint='use count(), sum_("b.x"), avg, min_ or max_'
            )
