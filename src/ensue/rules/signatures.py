"""The attributes of events, declared and derived: their names and types, and those of a rule's variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ensue.errors import QueryNameError, QueryTypeError, Span
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import (
    BARE,
    TIME_ATTRIBUTES,
    Aggregate,
    Attribute,
    Comparison,
    Expression,
    Literal,
    rewrite,
    walk,
)
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.query import Item, Return
from ensue.pattern.types import ValueType, infer
from ensue.rules.program import TYPE_NAMES, Atom, EventType, Rule, TimerKind

Signature: TypeAlias = Mapping[str, DType | None]
"""The attributes of an event type, in the order of its arguments; None where only the columns of events will tell."""

RESULT_COLUMNS = ("rule", "type", "begin", "end")
"""Columns that every derived event has: attributes may not have their names, nor `ts`."""

_DTYPES = {
    ValueType.BOOL: DType.BOOL,
    ValueType.INT: DType.INT,
    ValueType.FLOAT: DType.FLOAT,
    ValueType.STRING: DType.STRING,
    ValueType.TIMESTAMP: DType.TIMESTAMP,
}
_MARK = "$"  # keeps variables apart from the names of times, which mean the same in every query


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names in a rule's expressions stand for: variables with their types, and events and timers."""

    variables: Mapping[str, DType | None]
    events: frozenset[str]
    schema: Schema | None

    def infer(self, expression: Expression) -> ValueType:
        """The type of an expression; UNKNOWN if it reads times and nothing tells what these are."""
        times = [n for n in walk(expression) if isinstance(n, Attribute) and n.variable != BARE]
        for node in times:
            self._check_time(node)
        read = {n.name for n in walk(expression) if isinstance(n, Attribute | Aggregate) and n.variable == BARE}
        if (times and self.schema is None) or any(self.variables.get(name, "") is None for name in read if name):
            return ValueType.UNKNOWN
        columns = {_MARK + name: dtype for name, dtype in self.variables.items() if dtype is not None}
        time = DType.INT if self.schema is None else self.schema.columns[self.schema.time]
        schema = Schema({**columns, "ts": time})
        items = [Item("", BARE), *(Item("", name) for name in self.events)]
        return infer(rewrite(expression, _mark), items, schema)

    def _check_time(self, node: Attribute) -> None:
        if node.variable not in self.events:
            raise QueryNameError(
                f"no event or timer of the rule is called `{node.variable}`",
                hint=did_you_mean(node.variable, self.events),
                span=node.span,
            )
        if node.name not in TIME_ATTRIBUTES:
            raise QueryNameError(
                f"`{node.variable}.{node.name}`: only begin and end are read like that",
                hint=f"give the attribute a variable, such as `{node.variable}: …({node.name} = x)`",
                span=node.span,
            )


def _mark(node: Attribute | Aggregate) -> Expression:
    match node:
        case Attribute(variable=variable, name=name, span=span) if variable == BARE:
            return Attribute(variable, _MARK + name, span=span)
        case Aggregate(function=function, variable=variable, name=str(name), span=span):
            return Aggregate(function, variable, _MARK + name, span)
    return node


def declare(events: Sequence[EventType]) -> dict[str, Signature]:
    """The signatures of declared events; two events may share an attribute only if it has one type in both."""
    found: dict[str, Signature] = {}
    dtypes: dict[str, tuple[DType, str]] = {}
    for event in events:
        if event.name in found:
            raise QueryNameError(
                f"the event `{event.name}` is declared twice", hint="keep one", span=event.span, source=event.source
            )
        own: dict[str, DType | None] = {}
        for attribute in event.attributes:
            check_name(attribute.name, own, attribute.span, event.source)
            known = dtypes.setdefault(attribute.name, (attribute.dtype, event.name))
            if known[0] is not attribute.dtype:
                raise _two_types(attribute.name, known, (attribute.dtype, event.name), attribute.span, event.source)
            own[attribute.name] = attribute.dtype
        found[event.name] = own
    return found


def check_name(name: str, known: Collection[str], span: Span | None, source: str | None) -> None:
    """Refuse the name of an attribute that stands twice, or belongs to every event."""
    if name in known:
        raise QueryNameError(f"the attribute `{name}` stands twice", hint="name it with AS", span=span, source=source)
    if name in (*RESULT_COLUMNS, "ts"):
        raise QueryNameError(
            f"`{name}` is something that every event has, and cannot be an attribute",
            hint="give the attribute another name",
            span=span,
            source=source,
        )


def _two_types(
    name: str, known: tuple[DType, str], other: tuple[DType, str], span: Span | None, source: str | None
) -> QueryTypeError:
    return QueryTypeError(
        f"the attribute `{name}` is {TYPE_NAMES[other[0]]} in `{other[1]}` and {TYPE_NAMES[known[0]]} in `{known[1]}`",
        hint="a column of the stream has one type: call one of them otherwise",
        span=span,
        source=source,
    )


def resolve(atom: Atom, signatures: Mapping[str, Signature]) -> dict[str, Attribute | Literal]:
    """What an atom says of each attribute, by the attribute's name; raises for an unknown event or a wrong argument."""
    signature = signatures.get(atom.type)
    if signature is None:
        raise QueryNameError(
            f"unknown event `{atom.type}`",
            hint=did_you_mean(atom.type, [*signatures, *(kind.value for kind in TimerKind)])
            or f"declare it: EVENT {atom.type}(attribute: type, …)",
            span=atom.span,
        )
    names = list(signature)
    positional = [a for a in atom.arguments if a.name is None]
    if positional and len(positional) != len(atom.arguments):
        mixed = next(a for a in atom.arguments if a.name is not None)
        raise QueryTypeError("arguments stand all by position or all by name, not mixed", span=mixed.span)
    if len(positional) != len(names) and (positional or not atom.arguments):
        raise QueryTypeError(
            f"`{atom.type}` has {_count(len(names))} ({', '.join(names)}), but {len(positional)} "
            f"{'stands' if len(positional) == 1 else 'stand'} here",
            hint="write `_` for those that do not matter, or name those that do: "
            f"`{atom.type}({names[0] if names else 'name'} = x)`",
            span=atom.span,
        )
    given: dict[str, Attribute | Literal | None] = {}
    for place, argument in enumerate(atom.arguments):
        name = names[place] if argument.name is None else argument.name
        if name not in signature:
            raise QueryNameError(
                f"`{atom.type}` has no attribute `{name}`", hint=did_you_mean(name, names), span=argument.span
            )
        if name in given:
            raise QueryNameError(f"the attribute `{name}` stands twice", hint="keep one", span=argument.span)
        given[name] = argument.term
    for name, term in given.items():
        if isinstance(term, Literal):
            equal = Comparison((Attribute(BARE, name, span=term.span), term), ("=",), term.span)
            Scope({name: signature[name]}, frozenset(), None).infer(equal)
    return {name: term for name, term in given.items() if term is not None}


def _count(number: int) -> str:
    return {0: "no attributes", 1: "1 attribute"}.get(number, f"{number} attributes")


def bind_variables(
    atoms: Sequence[Atom], signatures: Mapping[str, Signature], bound: Mapping[str, DType | None] | None = None
) -> dict[str, DType | None]:
    """The variables of atoms with their types, beside those that are bound already; int with float is float."""
    types: dict[str, DType | None] = dict(bound or {})
    for atom in atoms:
        for name, term in resolve(atom, signatures).items():
            if not isinstance(term, Attribute):
                continue
            dtype = signatures[atom.type][name]
            known = types.setdefault(term.name, dtype)
            if known is dtype or known is None or dtype is None:
                continue
            if {known, dtype} != {DType.INT, DType.FLOAT}:
                raise QueryTypeError(
                    f"the variable `{term.name}` is {TYPE_NAMES[known]}, but `{name}` of `{atom.type}` is "
                    f"{TYPE_NAMES[dtype]}",
                    span=term.span,
                )
            types[term.name] = DType.FLOAT
    return types


def name_columns(rule: Rule, declared: Signature | None) -> tuple[str, ...]:
    """The names of a head's attributes: those declared, else AS, the variable, or the function and its variable."""
    if declared is not None:
        if len(declared) != len(rule.head):
            raise QueryTypeError(
                f"`{rule.type}` has {_count(len(declared))} ({', '.join(declared)}), but this head has "
                f"{len(rule.head)}",
                span=rule.span,
            )
        return tuple(declared)
    return tuple(name_column(column, place) for place, column in enumerate(rule.head, 1))


def name_column(column: Return, place: int) -> str:
    """The name of an attribute of a head that nothing declares; `place` counts from 1.

    >>> name_column(Return(Aggregate("COUNT", BARE, "sid")), 1)
    'count_sid'
    """
    if column.name is not None:
        return column.name
    match column.expression:
        case Attribute(variable=variable, name=name):
            return name if variable == BARE else f"{variable}_{name}"
        case Aggregate(function=function, name=None):
            return function.lower()
        case Aggregate(function=function, name=name):
            return f"{function.lower()}_{name}"
        case _:
            return f"column{place}"


def head_dtype(column: Return, scope: Scope, wanted: DType | None) -> DType | None:
    """The type of an attribute of a head; None where only the events' columns will tell."""
    found = scope.infer(column.expression)
    if found is ValueType.UNKNOWN:
        return wanted
    dtype = _DTYPES.get(found)
    if dtype is None and not (found is ValueType.NULL and wanted is not None):
        raise QueryTypeError(
            f"an attribute of an event cannot be {found.value}",
            hint="divide it by a duration, such as `/ 1s`, for a number" if found is ValueType.DURATION else None,
            span=column.span,
        )
    if wanted is None or dtype is None or dtype is wanted or (dtype, wanted) == (DType.INT, DType.FLOAT):
        return wanted or dtype
    raise QueryTypeError(f"this is {TYPE_NAMES[dtype]}, but the attribute is {TYPE_NAMES[wanted]}", span=column.span)
