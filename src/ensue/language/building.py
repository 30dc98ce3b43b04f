"""What each rule of the grammar means: the parser calls one method here whenever it has read a rule's parts.

The methods give query values directly; a `Part` carries a value with the stretch of text it came from.
"""

# ruff: noqa: D102  (a method means the rule of the grammar that it is named after)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lark import Token

from ensue.errors import QuerySyntaxError, Span
from ensue.pattern.expressions import (
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
    Return,
    Seq,
    TimeWindow,
    Unbounded,
)

LONGEST_NUMBER = 1000
"""Characters of a number: far beyond what a value can hold, and below where reading one becomes slow."""


class Part(NamedTuple):
    """A value read from the text, and where it stands there."""

    value: Any
    start: int
    end: int
    bare_number: bool = False  # a number literal without sign or parentheses: a minus before it belongs to it

    @property
    def span(self) -> Span:
        """The stretch of text."""
        return Span(self.start, self.end)


class Clause(NamedTuple):
    """A clause after PATTERN: the fields of the query that it sets."""

    keyword: str
    fields: dict[str, Any]
    span: Span


Read = Part | Clause | Token


def _span(parts: list[Read]) -> Span:
    return Span(_start(parts[0]), _end(parts[-1]))


def _start(part: Read) -> int:
    if isinstance(part, Token):
        return part.start_pos or 0
    return part.span.start


def _end(part: Read) -> int:
    if isinstance(part, Token):
        return part.end_pos or 0
    return part.span.end


def _span_of(token: Token) -> Span:
    return Span(_start(token), _end(token))


def _part(parts: list[Read], make: Callable[[Span], object]) -> Part:
    span = _span(parts)
    return Part(make(span), span.start, span.end)


def _values(parts: list[Read]) -> list[Any]:
    """The values among the parts of a rule, without the signs and keywords."""
    return [part.value for part in parts if isinstance(part, Part)]


def _names(parts: list[Read]) -> list[Token]:
    return [part for part in parts if isinstance(part, Token) and part.type == "NAME"]


def _tokens(parts: list[Read], kind: str) -> list[Token]:
    return [part for part in parts if isinstance(part, Token) and part.type == kind]


def _has(parts: list[Read], kind: str) -> bool:
    return any(isinstance(part, Token) and part.type == kind for part in parts)


def _clause(keyword: str, parts: list[Read], **fields: object) -> Clause:
    return Clause(keyword, fields, _span(parts[:1]))


def read_number(text: str, span: Span) -> int | float:
    """The number that a literal writes: an int if it has neither point nor exponent."""
    if len(text) > LONGEST_NUMBER:
        raise QuerySyntaxError(f"the number is longer than the limit of {LONGEST_NUMBER} characters", span=span)
    return int(text) if text.isdigit() else float(text)


def _read_duration(token: Token) -> Duration:
    amount, unit = token.split(" ")
    return Duration(read_number(amount, _span_of(token)), unit)


def _read_count(token: Token) -> int:
    value = read_number(token, _span_of(token))
    if not isinstance(value, int):
        raise QuerySyntaxError(f"expected a whole number, found `{token}`", span=_span_of(token))
    return value


class QueryBuilding:
    """One method a rule of the grammar."""

    # Queries and clauses

    def start(self, parts: list[Read]) -> list[Query]:
        return [part.value for part in parts if isinstance(part, Part)]

    def query(self, parts: list[Read]) -> Part:
        fields: dict[str, Any] = {}
        seen: set[str] = set()
        for part in parts:
            if not isinstance(part, Clause):
                continue
            if part.keyword in seen:
                raise QuerySyntaxError(
                    f"there are two {part.keyword} clauses in this query",
                    hint="keep one" if part.keyword != "WHERE" else "join their conditions with AND",
                    span=part.span,
                )
            seen.add(part.keyword)
            fields |= part.fields
        return _part(parts, lambda span: Query(**fields))

    def query_name(self, parts: list[Read]) -> Clause:
        return Clause("QUERY", {"name": str(parts[1])}, _span(parts))

    def pattern_clause(self, parts: list[Read]) -> Clause:
        return _clause("PATTERN", parts, pattern=_values(parts)[0])

    def where(self, parts: list[Read]) -> Clause:
        return _clause("WHERE", parts, where=_values(parts)[0])

    def partition(self, parts: list[Read]) -> Clause:
        names = _names(parts)
        return _clause(
            "PARTITION BY",
            parts,
            partition_by=tuple(str(name) for name in names),
            partition_spans=tuple(_span_of(name) for name in names),
        )

    def within(self, parts: list[Read]) -> Clause:
        return _clause("WITHIN", parts, within=_values(parts)[0])

    def unbounded(self, parts: list[Read]) -> Part:
        return _part(parts, Unbounded)

    def time_window(self, parts: list[Read]) -> Part:
        token = parts[-1]
        assert isinstance(token, Token)
        duration = _read_duration(token) if token.type == "DURATION" else Duration(read_number(token, _span_of(token)))
        if len(parts) == 2:
            duration = Duration(-duration.amount, duration.unit)
        return _part(parts, lambda span: TimeWindow(duration, span))

    def count_window(self, parts: list[Read]) -> Part:
        events = _read_count(_tokens(parts, "NUMBER")[0]) * (-1 if len(parts) == 3 else 1)
        return _part(parts, lambda span: CountWindow(events, span))

    def using(self, parts: list[Read]) -> Clause:
        return _clause("USING", parts, policy=Policy[str(_tokens(parts, "POLICY")[0])])

    def aggregates(self, parts: list[Read]) -> Clause:
        return _clause("AGG", parts, aggregates=tuple(_values(parts)))

    def aggregate_column(self, parts: list[Read]) -> Part:
        one: PatternAggregate = _values(parts)[0]
        alias = str(parts[-1]) if len(parts) > 1 else None
        return _part(parts, lambda span: PatternAggregate(one.function, one.variable, one.name, alias, one.span))

    def pattern_aggregate(self, parts: list[Read]) -> Part:
        function, names, span = str(parts[0]), [str(name) for name in _names(parts)], _span(parts)
        if len(names) == 2:
            return _part(parts, lambda span: PatternAggregate(function, names[0], names[1], span=span))
        if names:
            raise QuerySyntaxError(
                f"{function} over matches needs an attribute: found `{function}({names[0]})`",
                hint=f"write `{function}({names[0]}.attribute)`" + (", or `COUNT(*)`" if function == "COUNT" else ""),
                span=span,
            )
        if function != "COUNT":
            raise QuerySyntaxError(
                f"{function} over matches needs an attribute",
                hint=f"write `{function}(variable.attribute)`",
                span=span,
            )
        return _part(parts, lambda span: PatternAggregate(function, span=span))

    def group(self, parts: list[Read]) -> Clause:
        return _clause("GROUP BY", parts, group_by=tuple(_values(parts)))

    def group_key(self, parts: list[Read]) -> Part:
        names = [str(name) for name in _names(parts)]
        return _part(parts, lambda span: GroupKey(names[-1], names[0] if len(names) == 2 else None, span))

    def emit(self, parts: list[Read]) -> Clause:
        return _clause("EMIT ON CHANGE", parts, emit_on_change=True, emit_span=_span(parts))

    def returns(self, parts: list[Read]) -> Clause:
        return _clause("RETURN", parts, returns=tuple(_values(parts)))

    def column(self, parts: list[Read]) -> Part:
        names = _names(parts)
        name = str(names[0]) if names else None
        return _part(parts, lambda span: Return(_values(parts)[0], name, span))

    # Patterns

    def sequence(self, parts: list[Read]) -> Part:
        items = _values(parts)
        return _part(parts, lambda span: items[0] if len(items) == 1 else Seq(tuple(items), span))

    def group_of_items(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: _values(parts)[0])

    def operator(self, parts: list[Read]) -> Part:
        make: type[Seq] | type[And] | type[Or]
        match _kind(parts[0]):
            case "SEQ":
                make = Seq
            case "AND":
                make = And
            case _:
                make = Or
        return _part(parts, lambda span: make(tuple(_values(parts)), span))

    def negated(self, parts: list[Read]) -> Part:
        inner: Pattern = _values(parts)[0]
        if not isinstance(inner, Item):
            raise QuerySyntaxError(
                "only a single event type can be negated",
                hint="write NOT before each event type that must be absent",
                span=_span(parts),
            )
        if inner.negated:
            raise QuerySyntaxError(
                f"`{inner.type}` is negated twice", hint="write NOT once, or not at all", span=_span(parts)
            )
        return _part(parts, lambda span: Item(inner.type, inner.variable, True, inner.quantifier, span))

    def item(self, parts: list[Read]) -> Part:
        type_ = str(parts[0])
        quantifier: Quantifier | None = None
        variable = type_
        for part in parts[1:]:
            assert isinstance(part, Part)
            if isinstance(part.value, Quantifier):
                quantifier = part.value
                continue
            variable, is_list = part.value
            if is_list and quantifier is None:
                raise QuerySyntaxError(
                    f"`{variable}[]` is a list of events, but `{type_}` takes a single one",
                    hint=f"write `{type_}+ {variable}[]`, or `{type_} {variable}`",
                    span=part.span,
                )
        return _part(parts, lambda span: Item(type_, variable, False, quantifier, span))

    def quantifier(self, parts: list[Read]) -> Part:
        bounds = [_read_count(token) for token in _tokens(parts, "NUMBER")]
        match _kind(parts[0]):
            case "PLUS":
                value = Quantifier(1, None)
            case "STAR":
                value = Quantifier(0, None)
            case "QMARK":
                value = Quantifier(0, 1)
            case _ if len(bounds) == 2:
                value = Quantifier(bounds[0], bounds[1])
            case _:
                value = Quantifier(bounds[0], None if _has(parts, "COMMA") else bounds[0])
        return _part(parts, lambda span: value)

    def variable(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: (str(parts[0]), len(parts) > 1))

    # Conditions and values

    def disjunction(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Logical("OR", tuple(_values(parts)), span))

    def conjunction(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Logical("AND", tuple(_values(parts)), span))

    def not_(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Not(_values(parts)[0], span))

    def comparison(self, parts: list[Read]) -> Part:
        operators = tuple(str(token) for token in _tokens(parts, "COMPARE"))
        return _part(parts, lambda span: Comparison(tuple(_values(parts)), operators, span))

    def in_list(self, parts: list[Read]) -> Part:
        operand, *items = _values(parts)
        return _part(parts, lambda span: InList(operand, tuple(items), _has(parts, "NOT"), span))

    def between(self, parts: list[Read]) -> Part:
        operand, low, high = _values(parts)
        return _part(parts, lambda span: Between(operand, low, high, _has(parts, "NOT"), span))

    def like(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Like(_values(parts)[0], str(parts[-1]), _has(parts, "NOT"), span))

    def is_null(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: IsNull(_values(parts)[0], _has(parts, "NOT"), span))

    def arithmetic(self, parts: list[Read]) -> Part:
        left, right = _values(parts)
        return _part(parts, lambda span: Arithmetic(str(parts[1]), left, right, span))

    def negative(self, parts: list[Read]) -> Part:
        operand = parts[1]
        assert isinstance(operand, Part)
        value: Expression = operand.value
        if operand.bare_number and isinstance(value, Literal):
            match value.value:
                case Duration(amount=amount, unit=unit):
                    return _part(parts, lambda span: Literal(Duration(-amount, unit), span))
                case int(number) | float(number):
                    return _part(parts, lambda span: Literal(-number, span))
        return _part(parts, lambda span: Negate(value, span))

    def literal(self, parts: list[Read]) -> Part:
        token = parts[0]
        assert isinstance(token, Token)
        span = _span_of(token)
        match token.type:
            case "NUMBER":
                return Part(Literal(read_number(token, span), span), span.start, span.end, bare_number=True)
            case "DURATION":
                return Part(Literal(_read_duration(token), span), span.start, span.end, bare_number=True)
            case "STRING":
                return Part(Literal(str(token), span), span.start, span.end)
            case kind:
                return Part(Literal({"TRUE": True, "FALSE": False}.get(kind), span), span.start, span.end)

    def parenthesised(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: _values(parts)[0])

    def attribute(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Attribute(str(parts[0]), str(parts[2]), At.EACH, span))

    def index(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: "".join(str(part) for part in parts))

    def indexed(self, parts: list[Read]) -> Part:
        variable, name = str(parts[0]), str(parts[-1])
        index = next((part for part in parts if isinstance(part, Part)), None)
        at = {"": At.EACH, "i": At.CURRENT, "i-1": At.PREVIOUS}.get("" if index is None else index.value)
        if at is None and index is not None:
            raise QuerySyntaxError(
                f"`[{index.value}]` is not a place in a list; the places are `[i]` and `[i-1]`",
                hint=f"the first and last event of the list are `FIRST({variable})` and `LAST({variable})`",
                span=index.span,
            )
        return _part(parts, lambda span: Attribute(variable, name, at or At.EACH, span))

    def edge(self, parts: list[Read]) -> Part:
        variable, name = (str(token) for token in _names(parts))
        return _part(parts, lambda span: Attribute(variable, name, At[str(parts[0])], span))

    def aggregate(self, parts: list[Read]) -> Part:
        function, names = str(parts[0]), [str(name) for name in _names(parts)]
        if len(names) == 1 and function != "COUNT":
            raise QuerySyntaxError(
                f"{function} needs an attribute: found `{function}({names[0]})`",
                hint=f"write `{function}({names[0]}.attribute)`",
                span=_span(parts),
            )
        return _part(parts, lambda span: Aggregate(function, names[0], names[1] if len(names) == 2 else None, span))

    def call(self, parts: list[Read]) -> Part:
        return _part(parts, lambda span: Call(str(parts[0]), tuple(_values(parts)), span))


def _kind(part: Read) -> str:
    return part.type if isinstance(part, Token) else ""
