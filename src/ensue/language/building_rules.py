"""What each rule of the grammar of declarations and rules means; see `building`."""

# ruff: noqa: D102  (a method means the rule of the grammar that it is named after)

from __future__ import annotations

from lark import Token

from ensue.errors import QueryNameError, QuerySyntaxError
from ensue.language.parts import Part, Read, make_part, names_in, read_duration, read_number, span_of, values_in
from ensue.pattern.expressions import BARE, Aggregate, Attribute, Duration, Literal
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.query import Return
from ensue.rules.program import (
    TYPE_SPELLINGS,
    Accumulation,
    Argument,
    Atom,
    Bound,
    Declared,
    EventQuery,
    EventType,
    Proximity,
    Relation,
    Rule,
    Timer,
    TimerKind,
)


class RuleBuilding:
    """One method a rule of the grammar."""

    def event_type(self, parts: list[Read]) -> Part:
        name, attributes = str(parts[1]), tuple(values_in(parts))
        return make_part(parts, lambda span: EventType(name, attributes, span=span))

    def declared(self, parts: list[Read]) -> Part:
        name, kind = names_in(parts)
        dtype = TYPE_SPELLINGS.get(kind.lower())
        if dtype is None:
            raise QueryNameError(
                f"`{kind}` is not a type of attributes",
                hint=did_you_mean(kind, TYPE_SPELLINGS) or "the types are bool, int, float, string and timestamp",
                span=span_of(kind),
            )
        return make_part(parts, lambda span: Declared(str(name), dtype, span))

    def rule(self, parts: list[Read]) -> Part:
        arrow = next(k for k, part in enumerate(parts) if isinstance(part, Token) and part.type == "ARROW")
        head: list[Return] = values_in(parts[:arrow])
        body = values_in(parts[arrow:])
        return make_part(parts, lambda span: Rule(str(parts[1]), tuple(head), tuple(body), span=span))

    def event_query(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: EventQuery(str(parts[0]), values_in(parts)[0], span))

    def timer(self, parts: list[Read]) -> Part:
        name, of = names_in(parts)
        duration: Duration = values_in(parts)[0]
        return make_part(parts, lambda span: Timer(str(name), TimerKind(str(parts[2])), str(of), duration, span))

    def accumulation(self, parts: list[Read]) -> Part:
        collects = isinstance(parts[3], Token) and parts[3].type == "COLLECT"
        return make_part(parts, lambda span: Accumulation(str(parts[1]), collects, values_in(parts)[0], span))

    def relation(self, parts: list[Read]) -> Part:
        left, right = (str(name) for name in names_in(parts))
        bound: Bound | None = next(iter(values_in(parts)), None)
        return make_part(parts, lambda span: Relation(left, str(parts[1]), right, bound, span))

    def bound(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Bound(str(parts[1]), values_in(parts)[0], span))

    def proximity(self, parts: list[Read]) -> Part:
        names = tuple(str(name) for name in names_in(parts))
        return make_part(parts, lambda span: Proximity(names, values_in(parts)[0], span))

    def atom(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Atom(str(parts[0]), tuple(values_in(parts)), span))

    def argument(self, parts: list[Read]) -> Part:
        if len(parts) > 1 and str(parts[1]) != "=":
            raise QuerySyntaxError(
                f"an argument is a value or `{parts[0]} = value`, found `{parts[0]} {parts[1]}`",
                hint="a condition stands beside the event, such as `o: order(id, q), q < 10`",
                span=span_of(parts[1]),
            )
        name = str(parts[0]) if len(parts) > 1 else None
        value: Attribute | Literal = values_in(parts)[0]
        term = None if isinstance(value, Attribute) and value.name == "_" else value
        return make_part(parts, lambda span: Argument(term, name, span))

    def constant(self, parts: list[Read]) -> Part:
        token = parts[-1]
        assert isinstance(token, Token)
        value: bool | int | float | str
        match token.type:
            case "NUMBER":
                value = read_number(token, span_of(token)) * (-1 if len(parts) == 2 else 1)
            case "STRING":
                value = str(token)
            case kind:
                value = kind == "TRUE"
        return make_part(parts, lambda span: Literal(value, span))

    def length(self, parts: list[Read]) -> Part:
        token = parts[-1]
        assert isinstance(token, Token)
        duration = read_duration(token)
        if len(parts) == 2:
            duration = Duration(-duration.amount, duration.unit)
        return make_part(parts, lambda span: duration)

    def bare(self, parts: list[Read]) -> Part:
        return make_part(parts, lambda span: Attribute(BARE, str(parts[0]), span=span))

    def rule_aggregate(self, parts: list[Read]) -> Part:
        function, argument = str(parts[0]), parts[2]
        assert isinstance(argument, Token)
        name = None if argument.type == "STAR" else str(argument)
        if name is None and function != "COUNT":
            raise QuerySyntaxError(
                f"{function} needs a variable: found `{function}(*)`", hint="only COUNT takes `*`", span=span_of(parts)
            )
        return make_part(parts, lambda span: Aggregate(function, BARE, name, span))
