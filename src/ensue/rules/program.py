"""A program: events that are declared, rules that derive events, queries. Immutable, equal when they say the same.

Variables of a rule carry values and stand alone (`id`); events and timers have their names before a colon (`o:
order(…)`). In expressions a variable is an `Attribute` of BARE, and `o.begin` or `o.end` one of the event `o`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from ensue.errors import Span
from ensue.events.schema import DType
from ensue.pattern.expressions import BARE, Attribute, Duration, Expression, Literal, walk
from ensue.pattern.query import Query, Return

TYPE_SPELLINGS: Mapping[str, DType] = {
    "bool": DType.BOOL,
    "int": DType.INT,
    "int64": DType.INT,
    "float": DType.FLOAT,
    "float64": DType.FLOAT,
    "string": DType.STRING,
    "timestamp": DType.TIMESTAMP,
}
"""How an attribute's type may be written."""

TYPE_NAMES: Mapping[DType, str] = {
    DType.BOOL: "bool",
    DType.INT: "int",
    DType.FLOAT: "float",
    DType.STRING: "string",
    DType.TIMESTAMP: "timestamp",
}
"""How it is written by the formatter and in messages."""


class TimerKind(Enum):
    """How the interval of a relative timer follows from that of an event."""

    EXTEND = "EXTEND"
    EXTEND_BACKWARD = "EXTEND_BACKWARD"
    SHIFT = "SHIFT"
    FROM_END = "FROM_END"


@dataclass(frozen=True, slots=True)
class Declared:
    """One attribute of a declared event."""

    name: str
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EventType:
    """`EVENT name(attribute: type, …)`: what the positions of its arguments mean."""

    name: str
    attributes: tuple[Declared, ...]
    source: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        from ensue.rules.format import format_event_type  # not at the top: the formatter imports this module

        return format_event_type(self)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an atom: a variable, a constant, or None for `_`; by position unless it has a name."""

    term: Attribute | Literal | None
    name: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Atom:
    """`type(arguments)`: the events of a type whose attributes are as the arguments say."""

    type: str
    arguments: tuple[Argument, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables among the arguments, each once."""
        return tuple(dict.fromkeys(a.term.name for a in self.arguments if isinstance(a.term, Attribute)))


@dataclass(frozen=True, slots=True)
class EventQuery:
    """`name: atom`."""

    name: str
    atom: Atom
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Timer:
    """`name: EXTEND(of, duration)` and its kin."""

    name: str
    kind: TimerKind
    of: str
    duration: Duration
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`WHILE window: NOT atom`, or COLLECT: the absence of events in a window, or all that lie in it."""

    window: str
    collects: bool
    atom: Atom
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """`BY operator duration`: how long the gaps of a relation may be."""

    operator: str
    duration: Duration
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """`left BEFORE right`, or another of Allen's relations (a key of `ensue.rules.allen.RELATIONS`)."""

    left: str
    allen: str
    right: str
    bound: Bound | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Proximity:
    """`{names} WITHIN duration`: max end − min begin < duration."""

    names: tuple[str, ...]
    duration: Duration
    span: Span | None = field(default=None, compare=False, repr=False)


Element: TypeAlias = EventQuery | Timer | Accumulation | Relation | Proximity | Expression
"""A part of a rule's body; an expression is a condition on the data."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`RULE type(head) <- body`. `source` is the text that it came from, for error messages only."""

    type: str
    head: tuple[Return, ...]
    body: tuple[Element, ...]
    source: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        from ensue.rules.format import format_rule  # not at the top: the formatter imports this module

        return format_rule(self)

    @property
    def events(self) -> tuple[EventQuery, ...]:
        """The event queries of the body: what has to have happened."""
        return tuple(e for e in self.body if isinstance(e, EventQuery))

    @property
    def timers(self) -> tuple[Timer, ...]:
        """The timers of the body."""
        return tuple(e for e in self.body if isinstance(e, Timer))

    @property
    def accumulations(self) -> tuple[Accumulation, ...]:
        """The absences and collections of the body."""
        return tuple(e for e in self.body if isinstance(e, Accumulation))

    @property
    def collections(self) -> tuple[Accumulation, ...]:
        """The collections alone."""
        return tuple(e for e in self.accumulations if e.collects)

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions on the data."""
        structural = EventQuery | Timer | Accumulation | Relation | Proximity
        return tuple(e for e in self.body if not isinstance(e, structural))

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """All atoms of the body, in the order of the text."""
        return tuple(e.atom for e in self.body if isinstance(e, EventQuery | Accumulation))

    @property
    def types(self) -> tuple[str, ...]:
        """The event types that the body names, each once."""
        return tuple(dict.fromkeys(atom.type for atom in self.atoms))


Statement: TypeAlias = EventType | Rule | Query


@dataclass(frozen=True, slots=True)
class Program:
    """The statements of a text, in its order."""

    statements: tuple[Statement, ...]

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    @property
    def events(self) -> tuple[EventType, ...]:
        """The declared events."""
        return tuple(s for s in self.statements if isinstance(s, EventType))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules."""
        return tuple(s for s in self.statements if isinstance(s, Rule))

    @property
    def queries(self) -> tuple[Query, ...]:
        """The pattern queries."""
        return tuple(s for s in self.statements if isinstance(s, Query))

    @property
    def definitions(self) -> tuple[Statement, ...]:
        """The declarations and the rules; nothing where there are no rules."""
        rules: tuple[Statement, ...] = self.rules
        return (*self.events, *rules) if rules else ()

    @property
    def derived(self) -> tuple[str, ...]:
        """The types of the events that rules derive, each once, in the order of the text."""
        return tuple(dict.fromkeys(rule.type for rule in self.rules))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The types that rules and queries name and no rule derives: what has to come from outside."""
        named = [name for rule in self.rules for name in rule.types]
        named += [name for query in self.queries for name in query.types]
        derived = set(self.derived)
        return tuple(name for name in dict.fromkeys(named) if name not in derived)


def bare_variables(expression: Expression) -> tuple[Attribute, ...]:
    """The variables that an expression reads, as often as it does, aggregates' arguments left out."""
    return tuple(n for n in walk(expression) if isinstance(n, Attribute) and n.variable == BARE)


def declared_numbers(program: Program) -> frozenset[str]:
    """The attributes that are declared as numbers: text that is read from a file has to become one."""
    numbers = (DType.INT, DType.FLOAT)
    return frozenset(a.name for event in program.events for a in event.attributes if a.dtype in numbers)
