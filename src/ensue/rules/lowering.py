"""A rule's body as a conjunctive query: sources of events, windows, constraints between time points, conditions.

Timers disappear: each is a pair of time points at fixed distances from those of an event.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import Aggregate, Attribute, Expression, Literal, walk
from ensue.pattern.types import fold_duration
from ensue.rules.allen import RELATIONS
from ensue.rules.allen import Point as AllenPoint
from ensue.rules.format import format_element
from ensue.rules.program import Accumulation, Atom, Bound, Proximity, Relation, Rule, Timer, TimerKind, bare_variables
from ensue.rules.reasoner import Constraint, Point
from ensue.rules.signatures import Signature, bind_variables, name_columns, resolve


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at a fixed distance from a begin or an end of an event."""

    point: Point
    offset: int = 0

    def later(self, by: int) -> Moment:
        """The moment so much later."""
        return Moment(self.point, self.offset + by)


@dataclass(frozen=True, slots=True)
class Source:
    """The events of an atom: which attribute each variable is read from, and what the atom itself demands.

    `equal` are pairs of attributes that one variable stands for.
    """

    name: str
    type: str
    variables: Mapping[str, str]
    constants: tuple[tuple[str, Literal], ...] = ()
    equal: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """`WHILE window: NOT source`, or COLLECT. Its constraints speak of the source and of the body's events."""

    source: Source
    collects: bool
    constraints: tuple[Constraint, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Body:
    """A rule as a conjunctive query over events.

    `spans` are the begin and end of every event and timer: the derived event covers them all. `types` are those of the
    variables, `columns` the head's attributes with their types.
    """

    rule: Rule
    sources: tuple[Source, ...]
    windows: tuple[Window, ...]
    spans: Mapping[str, tuple[Moment, Moment]]
    constraints: tuple[Constraint, ...]
    types: Mapping[str, DType]
    columns: Mapping[str, DType]

    @property
    def carried(self) -> frozenset[str]:
        """The variables whose values are needed beyond the event that binds them."""
        needed = {n.name for column in self.rule.head for n in bare_variables(column.expression)}
        needed |= {n.name for condition in self.rule.conditions for n in bare_variables(condition)}
        seen: set[str] = set()
        for source in (*self.sources, *(window.source for window in self.windows)):
            needed |= seen & source.variables.keys()
            seen |= source.variables.keys()
        return frozenset(needed & {name for source in self.sources for name in source.variables})

    def aggregated(self, window: Window) -> frozenset[str]:
        """The variables of a collection that aggregates range over."""
        used = {n.name for c in self.rule.head for n in walk(c.expression) if isinstance(n, Aggregate)}
        return frozenset(name for name in window.source.variables if name in used)


def lower(rule: Rule, signatures: Mapping[str, Signature], schema: Schema) -> Body:
    """The conjunctive query of a rule that has been checked against a schema."""
    sources = tuple(_read_atom(event.name, event.atom, signatures) for event in rule.events)
    spans = {s.name: (Moment((s.name, "begin")), Moment((s.name, "end"))) for s in sources}
    timers = {timer.name: timer for timer in rule.timers}
    for name in timers:
        spans[name] = _span(name, timers, spans, schema)
    types = bind_variables([event.atom for event in rule.events], signatures)
    windows = []
    for number, element in enumerate(rule.accumulations):
        windows.append(_window(element, number, spans, signatures))
        if element.collects:
            types = {**bind_variables([element.atom], signatures, types), **types}
    signature = signatures[rule.type]
    return Body(
        rule,
        sources,
        tuple(windows),
        spans,
        tuple(_constraints(rule, spans, schema)),
        {name: _known(dtype) for name, dtype in types.items()},
        {name: _known(signature[name]) for name in name_columns(rule, signature)},
    )


def _known(dtype: DType | None) -> DType:
    assert dtype is not None  # with a schema every type is known
    return dtype


def _read_atom(name: str, atom: Atom, signatures: Mapping[str, Signature]) -> Source:
    variables: dict[str, str] = {}
    constants: list[tuple[str, Literal]] = []
    equal: list[tuple[str, str]] = []
    for attribute, term in resolve(atom, signatures).items():
        if isinstance(term, Literal):
            constants.append((attribute, term))
        elif term.name in variables:
            equal.append((variables[term.name], attribute))
        else:
            variables[term.name] = attribute
    return Source(name, atom.type, variables, tuple(constants), tuple(equal))


def _span(
    name: str, timers: Mapping[str, Timer], spans: Mapping[str, tuple[Moment, Moment]], schema: Schema
) -> tuple[Moment, Moment]:
    if name in spans:
        return spans[name]
    timer = timers[name]
    begin, end = _span(timer.of, timers, spans, schema)
    length = fold_duration(timer.duration, schema, timer.span)
    assert isinstance(length, int)
    match timer.kind:
        case TimerKind.EXTEND:
            return begin, end.later(length)
        case TimerKind.EXTEND_BACKWARD:
            return begin.later(-length), end
        case TimerKind.SHIFT:
            return begin.later(length), end.later(length)
        case TimerKind.FROM_END:
            return end, end.later(length)


def _window(
    element: Accumulation,
    number: int,
    spans: Mapping[str, tuple[Moment, Moment]],
    signatures: Mapping[str, Signature],
) -> Window:
    source = _read_atom(f"{element.atom.type}#{number}", element.atom, signatures)
    begin, end = spans[element.window]
    text = format_element(element)
    inside = (
        at_most(begin, Moment((source.name, "begin")), -1, text),
        at_most(Moment((source.name, "end")), end, -1, text),
    )
    return Window(source, element.collects, inside, text)


def at_most(a: Moment, b: Moment, most: int, text: str) -> Constraint:
    """`a − b <= most`."""
    return Constraint(a.point, b.point, most - a.offset + b.offset, text)


def _constraints(rule: Rule, spans: Mapping[str, tuple[Moment, Moment]], schema: Schema) -> Iterator[Constraint]:
    for element in rule.body:
        match element:
            case Relation(left=left, right=right, allen=allen, bound=bound):
                text = format_element(element)
                relation = RELATIONS[allen]
                ends = {"i": spans[left], "j": spans[right]}
                for a, b in relation.before:
                    yield at_most(_moment(ends, a), _moment(ends, b), -1, text)
                for a, b in relation.equal:
                    yield at_most(_moment(ends, a), _moment(ends, b), 0, text)
                    yield at_most(_moment(ends, b), _moment(ends, a), 0, text)
                for a, b in relation.gaps if bound is not None else ():
                    assert bound is not None
                    yield from _gap(_moment(ends, a), _moment(ends, b), bound, schema, text)
            case Proximity(names=names, duration=duration):
                most = _less_than(fold_duration(duration, schema, element.span))
                for one in names:
                    for other in names:
                        yield at_most(spans[one][1], spans[other][0], most, format_element(element))
            case _:
                pass


def _moment(ends: Mapping[str, tuple[Moment, Moment]], point: AllenPoint) -> Moment:
    return ends[point[0]][point[1] == "end"]


def _gap(a: Moment, b: Moment, bound: Bound, schema: Schema, text: str) -> Iterator[Constraint]:
    """`b − a operator duration`."""
    length = fold_duration(bound.duration, schema, bound.span)
    match bound.operator:
        case "<":
            yield at_most(b, a, _less_than(length), text)
        case "<=":
            yield at_most(b, a, math.floor(length), text)
        case ">":
            yield at_most(a, b, -math.floor(length) - 1, text)
        case ">=":
            yield at_most(a, b, -math.ceil(length), text)
        case _:  # a length that is no whole number leaves nothing: both cannot hold
            yield at_most(b, a, math.floor(length), text)
            yield at_most(a, b, -math.ceil(length), text)


def _less_than(length: int | float) -> int:
    """The greatest whole number below a length."""
    return math.ceil(length) - 1


def condition_variables(condition: Expression) -> frozenset[str]:
    """The variables that a condition reads."""
    return frozenset(n.name for n in bare_variables(condition))


def condition_events(condition: Expression, body: Body) -> frozenset[str]:
    """The events whose times a condition reads, directly or by a timer."""
    names = {n.variable for n in walk(condition) if isinstance(n, Attribute) and n.variable in body.spans}
    return frozenset(moment.point[0] for name in names for moment in body.spans[name])
