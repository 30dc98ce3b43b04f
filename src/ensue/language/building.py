"""What each rule of the grammar means: the parser calls one method here whenever it has read a rule's parts.

The methods give query values directly; a `Part` carries a value with the stretch of text it came from.
"""

# ruff: noqa: D102  (a method means the rule of the grammar that it is named after)

from __future__ import annotations

from typing import Any

from lark import Token

from ensue.errors import QuerySyntaxError
from ensue.language.parts import (
    Clause,
    Part,
    Read,
    has,
    make_part,
    names_in,
    read_duration,
    read_number,
    span_of,
    tokens_in,
    values_in,
)
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


def _clause(keyword: str, parts: list[Read], **fields: object) -> Clause:
    return Clause(keyword, fields, span_of(parts[:1]))


def _read_count(token: Token) -> int:
    value = read_number(token, span_of(token))
    if not isinstance(value, int):
        raise QuerySyntaxError(f"expected a whole number, found `{token}`", span=span_of(token))
    return value


class QueryBuilding:
    """One method a rule of the grammar."""

    # Queries and clauses

    def start(self, parts: list[Read]) -> list[Any]:
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
        return make_part(parts, lambda span: Query(**fields))

    def query_name(self, parts: list[Read]) -> Clause:
        return Clause("QUERY", {"name": str(parts[1])}, span_of(parts))

    def pattern_clause(self, parts: list[Read]) -> Clause:
        return _clause("PATTERN", parts, pattern=values_in(parts)[0])

    def where(self, parts: list[Read]) -> Clause:
        return _clause("WHERE", parts, where=values_in(parts)[0])

    def partition(self, parts: list[Read]) -> Clause:
        names = names_in(parts)
        return _clause(
            "PARTITION BY",
            parts,
            partition_by=tuple(str(name) for name in names),
            partition_spans=tuple(span_of(name) for name in names),
        )

    def within(self, parts: list[Read]) -> Clause:
        return _clause("WITHIN", parts, within=values_in(parts)[0])

    def unbounded(self, parts: list[Read]) -> Part:
        return make_part(parts, Unbounded)

    def time_window(self, parts: list[Read]) -> Part:
        token = parts[-1]
        assert isinstance(token, Token)
        duration = read_duration(token)
        if len(parts) == 2:
            duration = Duration(-duration.amount, duration.unit)
        return make_part(parts, lambda span: TimeWindow(duration, span))

    def count_window(self, parts: list[Read]) -> Part:
        events = _read_count(tokens_in(parts, "NUMBER")[0]) * (-1 if len(parts) == 3 else 1)
        return make_part(parts, lambda span: CountWindow(events, span))

    def using(self, parts: list[Read]) -> Clause:
        return _clause("USING", parts, policy=Policy[str(tokens_in(parts, "POLICY")[0])])

    def aggregates(self, parts: list[Read]) -> Clause:
        return _clause("AGG", parts, aggregates=tuple(values_in(parts)))

    def aggregate_column(self, parts: list[Read]) -> Part:
        one: PatternAggregate = values_in(parts)[0]
        alias = str(parts[-1]) if len(parts) > 1 else None
        return make_part(parts, lambda span: PatternAggregate(one.function, one.variable, one.name, alias, one.span))

    def pattern_aggregate(self, parts: list[Read]) -> Part:
        function, names, span = str(parts[0]), [str(name) for name in names_in(parts)], span_of(parts)
        if len(names) == 2:
            return make_part(parts, lambda span: PatternAggregate(function, names[0], names[1], span=span))
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
        return make_part(parts, lambda span: PatternAggregate(function, span=span))

    def group(self, parts: list[Read]) -> Clause:
        return _clause("GROUP BY", parts, group_by=tuple(values_in(parts)))

    def group_key(self, parts: list[Read]) -> Part:
        names = [str(name) for name in names_in(parts)]
        return make_part(parts, lambda span: GroupKey(names[-1], names[0] if len(names) == 2 else None, span))

    def emit(self, parts: list[Read]) -> Clause:
        return _clause("EMIT ON CHANGE", parts, emit_on_change=True, emit_span=span_of(parts))

    def returns(self, parts: list[Read]) -> Clause:
        return _clause("RETURN", parts, returns=tuple(values_in(parts)))

    def column(self, parts: list[Read]) -> Part:
        names = names_in(parts)
        name = str(names[0]) if names else None
        return make_part(parts, lambda span: Return(values_in(parts)[0], name, span))

    # Patterns

    def sequence(self, parts: list[Read]) -> Part:
        items = values_in(parts)
        return make_part(parts, lambda span: items[0] if len(items) == 1 else Seq(tuple(items), span))

    def group_of_items(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: values_in(parts)[0])

    def operator(self, parts: list[Read]) -> Part:
        make: type[Seq] | type[And] | type[Or]
        match _kind(parts[0]):
            case "SEQ":
                make = Seq
            case "AND":
                make = And
            case _:
                make = Or
        return make_part(parts, lambda span: make(tuple(values_in(parts)), span))

    def negated(self, parts: list[Read]) -> Part:
        inner: Pattern = values_in(parts)[0]
        if not isinstance(inner, Item):
            raise QuerySyntaxError(
                "only a single event type can be negated",
                hint="write NOT before each event type that must be absent",
                span=span_of(parts),
            )
        if inner.negated:
            raise QuerySyntaxError(
                f"`{inner.type}` is negated twice", hint="write NOT once, or not at all", span=span_of(parts)
            )
        return make_part(parts, lambda span: Item(inner.type, inner.variable, True, inner.quantifier, span))

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
        return make_part(parts, lambda span: Item(type_, variable, False, quantifier, span))

    def quantifier(self, parts: list[Read]) -> Part:
        bounds = [_read_count(token) for token in tokens_in(parts, "NUMBER")]
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
                value = Quantifier(bounds[0], None if has(parts, "COMMA") else bounds[0])
        return make_part(parts, lambda span: value)

    def variable(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: (str(parts[0]), len(parts) > 1))

    # Conditions and values

    def disjunction(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Logical("OR", tuple(values_in(parts)), span))

    def conjunction(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Logical("AND", tuple(values_in(parts)), span))

    def not_(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Not(values_in(parts)[0], span))

    def comparison(self, parts: list[Read]) -> Part:
        operators = tuple(str(token) for token in tokens_in(parts, "COMPARE"))
        return make_part(parts, lambda span: Comparison(tuple(values_in(parts)), operators, span))

    def in_list(self, parts: list[Read]) -> Part:
        operand, *items = values_in(parts)
        return make_part(parts, lambda span: InList(operand, tuple(items), has(parts, "NOT"), span))

    def between(self, parts: list[Read]) -> Part:
        operand, low, high = values_in(parts)
        return make_part(parts, lambda span: Between(operand, low, high, has(parts, "NOT"), span))

    def like(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Like(values_in(parts)[0], str(parts[-1]), has(parts, "NOT"), span))

    def is_null(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: IsNull(values_in(parts)[0], has(parts, "NOT"), span))

    def arithmetic(self, parts: list[Read]) -> Part:
        left, right = values_in(parts)
        return make_part(parts, lambda span: Arithmetic(str(parts[1]), left, right, span))

    def negative(self, parts: list[Read]) -> Part:
        operand = parts[1]
        assert isinstance(operand, Part)
        value: Expression = operand.value
        if operand.bare_number and isinstance(value, Literal):
            match value.value:
                case Duration(amount=amount, unit=unit):
                    return make_part(parts, lambda span: Literal(Duration(-amount, unit), span))
                case int(number) | float(number):
                    return make_part(parts, lambda span: Literal(-number, span))
        return make_part(parts, lambda span: Negate(value, span))

    def literal(self, parts: list[Read]) -> Part:
        token = parts[0]
        assert isinstance(token, Token)
        span = span_of(token)
        match token.type:
            case "NUMBER":
                return Part(Literal(read_number(token, span), span), span.start, span.end, bare_number=True)
            case "DURATION":
                return Part(Literal(read_duration(token), span), span.start, span.end, bare_number=True)
            case "STRING":
                return Part(Literal(str(token), span), span.start, span.end)
            case kind:
                return Part(Literal({"TRUE": True, "FALSE": False}.get(kind), span), span.start, span.end)

    def parenthesised(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: values_in(parts)[0])

    def attribute(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Attribute(str(parts[0]), str(parts[2]), At.EACH, span))

    def index(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: "".join(str(part) for part in parts))

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
        return make_part(parts, lambda span: Attribute(variable, name, at or At.EACH, span))

    def edge(self, parts: list[Read]) -> Part:
        variable, name = (str(token) for token in names_in(parts))
        return make_part(parts, lambda span: Attribute(variable, name, At[str(parts[0])], span))

    def aggregate(self, parts: list[Read]) -> Part:
        function, names = str(parts[0]), [str(name) for name in names_in(parts)]
        if len(names) == 1 and function != "COUNT":
            raise QuerySyntaxError(
                f"{function} needs an attribute: found `{function}({names[0]})`",
                hint=f"write `{function}({names[0]}.attribute)`",
                span=span_of(parts),
            )
        return make_part(parts, lambda span: Aggregate(function, names[0], names[1] if len(names) == 2 else None, span))

    def call(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Call(str(parts[0]), tuple(values_in(parts)), span))


def _kind(part: Read) -> str:
    return part.type if isinstance(part, Token) else ""
