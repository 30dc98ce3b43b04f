"""What rules mean, by brute force over a finite input: every combination of events is tried, straight from the rules.

Shares nothing with planning and runtime. A rule's variables are kept as the values of one event of the variable BARE,
so that expressions are evaluated as those of patterns are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, assert_never

from ensue.errors import LimitError
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import BARE, Aggregate, Attribute, Duration, Expression, Literal, rewrite, walk
from ensue.rules.allen import RELATIONS
from ensue.rules.check import check_program
from ensue.rules.program import (
    Accumulation,
    Atom,
    EventQuery,
    Program,
    Proximity,
    Relation,
    Rule,
    Timer,
    TimerKind,
    bare_variables,
)
from ensue.rules.program import Bound as RelationBound
from ensue.rules.signatures import Signature, bind_variables, name_columns, resolve
from ensue.rules.strata import stratify
from ensue.testing.evaluation import Bound, Scope, evaluate
from ensue.testing.values import Event, Value, measure_duration, read_events

Interval = tuple[int, int]
_MARK = "$"  # before the names of variables: no attribute of time is called so


@dataclass(frozen=True, slots=True, order=True)
class DerivedEvent:
    """An event that a rule derives; `values` are its attributes in order, timestamps as integers."""

    type: str
    begin: int
    end: int
    values: tuple[tuple[str, Value], ...]


def derive_events(
    rows: Sequence[Mapping[str, Any]], program: Program, schema: Schema, *, limit: int | None = None
) -> list[DerivedEvent]:
    """All events that a program's rules derive from a finite input, type by type. Beyond `limit` trials: LimitError.

    >>> from ensue.language import parse_program
    >>> program = parse_program("EVENT a(x: int); RULE b(x) <- i: a(x), j: a(x), i BEFORE j;")
    >>> schema = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.INT})
    >>> derive_events([{"type": "a", "ts": t, "x": 7} for t in (1, 2)], program, schema)
    [DerivedEvent(type='b', begin=1, end=2, values=(('x', 7),))]
    """
    signatures = check_program(program, schema)
    events: dict[str, list[Event]] = {}
    for event in read_events(rows, schema):
        if event.type in {e.name for e in program.events} - set(program.derived):
            events.setdefault(event.type, []).append(event)
    derived: list[DerivedEvent] = []
    for name, rules in stratify(program):
        found: set[DerivedEvent] = set()
        for rule in rules:
            found |= set(_Search(rule, signatures, events, schema, limit).derive())
        ordered = sorted(found, key=lambda e: (e.end, e.begin, repr(e.values)))
        derived += ordered
        events[name] = [Event(-1 - k, name, e.begin, e.end, dict(e.values)) for k, e in enumerate(ordered)]
    return derived


@dataclass(frozen=True, slots=True)
class _Solution:
    """One way in which a body holds: intervals of events and timers, values of variables, what is collected."""

    values: Mapping[str, Value]
    intervals: Mapping[str, Interval]
    collected: tuple[tuple[Event, ...], ...]

    @property
    def interval(self) -> Interval:
        return min(b for b, _ in self.intervals.values()), max(e for _, e in self.intervals.values())


class _Search:
    """The search for all that one rule derives."""

    def __init__(
        self,
        rule: Rule,
        signatures: Mapping[str, Signature],
        events: Mapping[str, Sequence[Event]],
        schema: Schema,
        limit: int | None,
    ) -> None:
        self.rule, self.signatures, self.events, self.schema, self.limit = rule, signatures, events, schema, limit
        self.types = bind_variables([e.atom for e in rule.events], signatures)
        for element in rule.collections:
            self.types = {**bind_variables([element.atom], signatures, self.types), **self.types}
        columns = {_MARK + name: dtype for name, dtype in self.types.items() if dtype is not None}
        self.marked = Schema({**columns, "ts": schema.columns[schema.time]}, unit=schema.unit)

    def derive(self) -> Iterator[DerivedEvent]:
        """The events of the head: a solution each, or a group of solutions where something is collected."""
        outside = [n.name for column in self.rule.head for n in bare_variables(column.expression)]
        groups: dict[object, list[_Solution]] = {}
        for number, solution in enumerate(self.solutions()):
            key: object = number
            if self.rule.collections:
                times = tuple(
                    solution.intervals[n.variable][n.name != "begin"]
                    for column in self.rule.head
                    for n in _time_attributes(column.expression)
                )
                key = (tuple(solution.values[name] for name in outside), times, solution.interval)
            groups.setdefault(key, []).append(solution)
        names = name_columns(self.rule, self.signatures[self.rule.type])
        for solutions in groups.values():
            first = solutions[0]
            lists = []
            for k in range(len(self.rule.collections)):
                events = {e.position: e for solution in solutions for e in solution.collected[k]}
                lists.append(tuple(sorted(events.values(), key=lambda e: (e.end, e.position))))
            values = []
            for name, column in zip(names, self.rule.head, strict=True):
                value = self.evaluate(column.expression, first, lists)
                is_float = self.signatures[self.rule.type][name] is DType.FLOAT
                values.append((name, float(value) if is_float and value is not None else value))
            yield DerivedEvent(self.rule.type, *first.interval, tuple(values))

    def solutions(self) -> Iterator[_Solution]:
        """All ways in which the body holds."""
        choices = [self.events.get(e.atom.type, ()) for e in self.rule.events]
        if self.limit is not None and math.prod(map(len, choices)) > self.limit:
            raise LimitError(f"more than {self.limit} combinations of events in the oracle")
        for chosen in product(*choices):
            values: Mapping[str, Value] | None = {}
            intervals: dict[str, Interval] = {}
            for element, event in zip(self.rule.events, chosen, strict=True):
                values = None if values is None else self.unify(element.atom, event, values)
                intervals[element.name] = (event.begin, event.end)
            if values is None:
                continue
            for timer in self.rule.timers:
                intervals[timer.name] = self.timer(timer.name, intervals)
            solution = _Solution(values, intervals, ())
            if not all(self.holds(element, solution) for element in self.rule.body):
                continue
            collected = tuple(tuple(self.inside(element, solution)) for element in self.rule.collections)
            yield _Solution(values, intervals, collected)

    def unify(self, atom: Atom, event: Event, values: Mapping[str, Value]) -> Mapping[str, Value] | None:
        """The values with those that an event gives the variables of an atom; None if they do not go together."""
        found = dict(values)
        for name, term in resolve(atom, self.signatures).items():
            value = event.values[name]
            match term:
                case Literal(value=constant):
                    if value is None or not _equal(value, constant):  # type: ignore[arg-type]
                        return None
                case Attribute(name=variable):
                    if variable not in found:
                        is_float = self.types.get(variable) is DType.FLOAT
                        found[variable] = float(value) if is_float and value is not None else value
                    elif not _equal(found[variable], value):
                        return None
                case _:
                    assert_never(term)
        return found

    def timer(self, name: str, intervals: Mapping[str, Interval]) -> Interval:
        """The interval of a timer."""
        timer = next(t for t in self.rule.timers if t.name == name)
        begin, end = intervals[timer.of] if timer.of in intervals else self.timer(timer.of, intervals)
        length = self.measure(timer.duration)
        assert isinstance(length, int)
        match timer.kind:
            case TimerKind.EXTEND:
                return begin, end + length
            case TimerKind.EXTEND_BACKWARD:
                return begin - length, end
            case TimerKind.SHIFT:
                return begin + length, end + length
            case TimerKind.FROM_END:
                return end, end + length
            case _:
                assert_never(timer.kind)

    def measure(self, duration: Duration) -> int | float:
        """A duration in the units of time."""
        return measure_duration(duration, self.schema)

    def holds(self, element: object, solution: _Solution) -> bool:
        """Whether a part of the body holds."""
        times = solution.intervals
        match element:
            case EventQuery() | Timer() | Accumulation(collects=True):
                return True
            case Accumulation():
                return not any(True for _ in self.inside(element, solution))
            case Proximity(names=names, duration=duration):
                length = max(times[n][1] for n in names) - min(times[n][0] for n in names)
                return length < self.measure(duration)
            case Relation(left=left, right=right, allen=name, bound=bound):
                points = {"i": times[left], "j": times[right]}
                allen = RELATIONS[name]
                gaps = [] if bound is None else [_at(points, b) - _at(points, a) for a, b in allen.gaps]
                return (
                    all(_at(points, a) < _at(points, b) for a, b in allen.before)
                    and all(_at(points, a) == _at(points, b) for a, b in allen.equal)
                    and all(bound is None or self.satisfies(gap, bound) for gap in gaps)
                )
            case _:
                return self.evaluate(element, solution, []) is True  # type: ignore[arg-type]

    def satisfies(self, gap: int, bound: RelationBound) -> bool:
        """Whether the gap of a relation is as BY says."""
        length = self.measure(bound.duration)
        match bound.operator:
            case "=":
                return gap == length
            case "<":
                return gap < length
            case "<=":
                return gap <= length
            case ">":
                return gap > length
            case _:
                return gap >= length

    def inside(self, element: Accumulation, solution: _Solution) -> Iterator[Event]:
        """The events in a window that match an atom under the bindings of a solution."""
        begin, end = solution.intervals[element.window]
        for event in self.events.get(element.atom.type, ()):
            if begin < event.begin and event.end < end and self.unify(element.atom, event, solution.values) is not None:
                yield event

    def evaluate(self, expression: Expression, solution: _Solution, lists: Sequence[tuple[Event, ...]]) -> Value:
        """The value of an expression; `lists` are what each COLLECT has found."""
        bound: dict[str, Bound] = {
            name: Event(0, "", begin, end, {}) for name, (begin, end) in solution.intervals.items()
        }
        bound[BARE] = Event(0, "", 0, 0, {_MARK + name: value for name, value in solution.values.items()})
        for k, events in enumerate(lists):
            bound[f"{BARE} {k}"] = tuple(self.renamed(self.rule.collections[k].atom, event) for event in events)
        return evaluate(rewrite(expression, self.mark), Scope(self.marked, bound))

    def renamed(self, atom: Atom, event: Event) -> Event:
        """A collected event with the variables of its atom in place of its attributes."""
        values = self.unify(atom, event, {})
        assert values is not None
        marked = {_MARK + name: value for name, value in values.items()}
        return Event(event.position, event.type, event.begin, event.end, marked)

    def mark(self, node: Attribute | Aggregate) -> Expression:
        """Variables and aggregates as `evaluate` binds them."""
        match node:
            case Attribute(variable=variable, name=name):
                return Attribute(variable, _MARK + name) if variable == BARE else node
            case Aggregate(function=function, name=argument):
                place = next(
                    k
                    for k, element in enumerate(self.rule.collections)
                    if argument is None or argument in element.atom.variables
                )
                return Aggregate(function, f"{BARE} {place}", None if argument is None else _MARK + argument)
            case _:
                assert_never(node)


def _time_attributes(expression: Expression) -> list[Attribute]:
    return [n for n in walk(expression) if isinstance(n, Attribute) and n.variable != BARE]


def _at(points: Mapping[str, Interval], point: tuple[str, str]) -> int:
    return points[point[0]][point[1] == "end"]


def _equal(a: Value, b: Value) -> bool:
    """SQL's equality: nothing equals null; int and float are compared as floats."""
    if a is None or b is None:
        return False
    if isinstance(a, float) or isinstance(b, float):
        return float(a) == float(b)
    return a == b
