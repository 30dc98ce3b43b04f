"""What a query means, by brute force: every rule is evaluated as the language defines it, none of it cleverly.

A pattern is evaluated from the leaves up. Each node gives all the ways in which events can fill it (`Filling`): an item
one per event or list, SEQ and AND the combinations of their parts' fillings, OR the union. A filling remembers
for each negated item which events the pattern puts before and after its place. Fillings are dropped early only for
what no larger filling can mend: an event used twice, a window overrun, a condition on bound variables that fails.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from ensue.errors import LimitError
from ensue.events.schema import Schema
from ensue.pattern.expressions import Aggregate, At, Attribute, Expression, conjuncts_of, variables_of
from ensue.pattern.query import (
    And,
    CountWindow,
    Item,
    Or,
    Pattern,
    Policy,
    Quantifier,
    Query,
    Seq,
    TimeWindow,
    items_of,
)
from ensue.testing.evaluation import Bound, Scope, evaluate, holds, read_attribute
from ensue.testing.runs import Run
from ensue.testing.values import Event, Value, measure_duration, read_events


@dataclass(frozen=True, slots=True)
class OracleMatch:
    """One match. Times are in the time column's units (µs for timestamps); positions are indices into the input."""

    begin: int
    end: int
    detected_at: int | None
    assignment: Mapping[str, int | tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a negated item stands in a match: the events that the pattern puts before it and after it."""

    item: Item
    before: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Filling:
    """One way to fill a part of the pattern with events."""

    bound: Mapping[str, Bound]
    events: tuple[Event, ...]
    places: tuple[Place, ...] = ()


def find_matches(
    events: Sequence[Mapping[str, Any]], query: Query, schema: Schema, *, limit: int | None = None
) -> list[OracleMatch]:
    """All matches of a query in a finite input, in the order of their ends. More than `limit` fillings: LimitError.

    >>> from ensue.events.schema import DType
    >>> pattern = Seq((Item("A", "a"), Item("B", "b")))
    >>> stream = [{"type": "B", "ts": 3}, {"type": "A", "ts": 1}, {"type": "B", "ts": 1}]
    >>> find_matches(stream, Query(pattern), Schema({"type": DType.STRING, "ts": DType.INT}))
    [OracleMatch(begin=1, end=3, detected_at=3, assignment={'a': 1, 'b': 0})]
    """
    found: dict[tuple[Any, ...], OracleMatch] = {}
    for partition in partition_events(read_events(events, schema), query.partition_by, schema):
        for match in Search(query, schema, partition, limit).matches():
            found.setdefault(tuple(match.assignment.items()), match)  # branches of OR may meet in one match
    return sorted(found.values(), key=lambda m: (m.end, m.begin))


def partition_events(events: Sequence[Event], attributes: Sequence[str], schema: Schema) -> list[list[Event]]:
    """The events with equal, non-null values of the attributes, each group in order; one group without attributes."""
    groups: defaultdict[tuple[Value, ...], list[Event]] = defaultdict(list)
    for event in events:
        key = tuple(read_attribute(event, name, schema) for name in attributes)
        if None not in key:
            groups[key].append(event)
    return list(groups.values())


def evaluate_returns(
    query: Query, match: OracleMatch, events: Sequence[Mapping[str, Any]], schema: Schema
) -> dict[str, Value | list[Value]]:
    """The RETURN columns of a match; timestamps and durations as integers."""
    by_position = {event.position: event for event in read_events(events, schema)}
    bound: dict[str, Bound] = {}
    for variable, places in match.assignment.items():
        match places:
            case None:
                bound[variable] = None
            case int():
                bound[variable] = by_position[places]
            case _:
                bound[variable] = tuple(by_position[place] for place in places)
    row: dict[str, Value | list[Value]] = {}
    for number, column in enumerate(query.returns, start=1):
        expression = column.expression
        name = column.name or _column_name(expression, number)
        if isinstance(expression, Attribute) and expression.at is At.EACH:
            listed = bound[expression.variable]
            if isinstance(listed, tuple):
                row[name] = [read_attribute(event, expression.name, schema) for event in listed]
                continue
        row[name] = evaluate(expression, Scope(schema, bound))
    return row


def _column_name(expression: Expression, number: int) -> str:
    match expression:
        case Attribute(variable=variable, name=name, at=At.EACH):
            return f"{variable}_{name}"
        case Attribute(variable=variable, name=name, at=(At.FIRST | At.LAST) as at):
            return f"{at.value}_{variable}_{name}"
        case Aggregate(function=function, variable=variable, name=None):
            return f"{function.lower()}_{variable}"
        case Aggregate(function=function, variable=variable, name=name):
            return f"{function.lower()}_{variable}_{name}"
        case _:
            return f"column{number}"


@dataclass(slots=True)
class Search:
    """The search for the matches of a query in one partition (its events in order)."""

    query: Query
    schema: Schema
    partition: Sequence[Event]
    limit: int | None = None
    conjuncts: tuple[Expression, ...] = field(init=False)
    names: dict[Expression, frozenset[str]] = field(init=False)
    number: dict[int, int] = field(init=False)
    counted: list[Event] = field(init=False)
    span: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.conjuncts = conjuncts_of(self.query.where)
        self.names = {conjunct: variables_of(conjunct) for conjunct in self.conjuncts}
        types = set(self.query.types)
        self.counted = [event for event in self.partition if event.type in types]
        self.number = {event.position: number for number, event in enumerate(self.counted)}
        within = self.query.within
        self.span = None
        if isinstance(within, TimeWindow):  # times are integers: less than 1.5 is less than 2
            self.span = math.ceil(measure_duration(within.duration, self.schema))

    def matches(self) -> Iterator[OracleMatch]:
        """The matches of the partition."""
        if not all(holds(c, {}, self.schema) for c in self.conjuncts if not self.names[c]):
            return
        if self.query.policy is Policy.ANY:
            for filling in self.fill(self.query.pattern):
                if filling.events and not self.refused(filling):
                    yield self.report(filling, max(event.end for event in filling.events))
        else:
            for branch in flatten(self.query.pattern):
                for filling, known_at in self.follow(branch):
                    if not self.refused(filling):
                        yield self.report(filling, known_at)

    # -- the events that a part of the pattern can take -------------------------------------------------------------

    def fill(self, pattern: Pattern) -> list[Filling]:
        """All fillings of a part of the pattern that satisfy the conjuncts over its own variables."""
        match pattern:
            case Item(negated=True):
                return [Filling({}, (), (Place(pattern),))]
            case Item(variable=variable, quantifier=quantifier):
                events = [event for event in self.partition if event.type == pattern.type and self.fits((event,))]
                if quantifier is None:
                    found = [Filling({variable: event}, (event,)) for event in events]
                else:
                    found = [Filling({variable: taken}, taken) for taken in self.lists(events, (), quantifier)]
                return [filling for filling in found if self.allows(filling)]
            case Seq(items=parts):
                return self.combine(parts, in_order=True)
            case And(items=parts):
                return self.combine(parts, in_order=False)
            case Or(items=parts):
                return [filling for part in parts for filling in self.fill(part)]
            case _:
                assert_never(pattern)

    def lists(
        self, events: Sequence[Event], taken: tuple[Event, ...], quantifier: Quantifier
    ) -> Iterator[tuple[Event, ...]]:
        """All lists in strict time order that begin with `taken` and are not too short."""
        if len(taken) >= quantifier.minimum:
            yield taken
        if quantifier.maximum is not None and len(taken) >= quantifier.maximum:
            return
        for event in events:
            longer = (*taken, event)
            if (not taken or taken[-1].end < event.begin) and self.fits(longer):
                yield from self.lists(events, longer, quantifier)

    def combine(self, parts: Sequence[Pattern], *, in_order: bool) -> list[Filling]:
        """The fillings of SEQ or AND: one of each part, put together."""
        fillings = [Filling({}, ())]
        for part in parts:
            choices = self.fill(part)
            fillings = [
                joined
                for left in fillings
                for right in choices
                if not in_order or _precedes(left.events, right.events)
                if (joined := self.join(left, right, in_order=in_order)) is not None
            ]
            if self.limit is not None and len(fillings) > self.limit:
                raise LimitError(f"more than {self.limit} partial results in the oracle")
        return fillings

    def join(self, left: Filling, right: Filling, *, in_order: bool) -> Filling | None:
        """Two fillings as one, or None if they cannot stand together."""
        events = left.events + right.events
        if len({event.position for event in events}) < len(events) or not self.fits(events):
            return None
        places = left.places + right.places
        if in_order:
            places = (
                *(replace(place, after=place.after + right.events) for place in left.places),
                *(replace(place, before=place.before + left.events) for place in right.places),
            )
        joined = Filling({**left.bound, **right.bound}, events, places)
        return joined if self.allows(joined, left.bound, right.bound) else None

    def allows(self, filling: Filling, *parts: Mapping[str, Bound]) -> bool:
        """Whether the conjuncts over the bound variables hold; those within one of `parts` are known to."""
        return all(
            holds(conjunct, filling.bound, self.schema)
            for conjunct, names in self.names.items()
            if names and names <= filling.bound.keys() and not any(names <= part.keys() for part in parts)
        )

    def fits(self, events: Iterable[Event]) -> bool:
        """Whether events fit in one window."""
        events = list(events)
        if not events:
            return True
        if self.span is not None:
            return max(e.end for e in events) - min(e.begin for e in events) < self.span
        if isinstance(self.query.within, CountWindow):
            numbers = [self.number[e.position] for e in events]
            return max(numbers) - min(numbers) < self.query.within.events
        return True

    # -- negation ---------------------------------------------------------------------------------------------------

    def refused(self, filling: Filling) -> bool:
        """Whether some event could be put in the place of a negated item."""
        return any(self.violates(event, place, filling) for place in filling.places for event in self.partition)

    def violates(self, event: Event, place: Place, filling: Filling) -> bool:
        """Whether an event outside the match could be put in the place of a negated item."""
        variable = place.item.variable
        bound = {**filling.bound, variable: event}
        return (
            event.type == place.item.type
            and all(event.position != own.position for own in filling.events)
            and _precedes(place.before, (event,))
            and _precedes((event,), place.after)
            and self.fits((*filling.events, event))
            and all(
                holds(conjunct, bound, self.schema)
                for conjunct, names in self.names.items()
                if variable in names and names <= bound.keys()
            )
        )

    def report(self, filling: Filling, known_at: int | None) -> OracleMatch:
        """The match of a complete filling, known at `known_at` unless a negation keeps it open longer."""
        begin = min(event.begin for event in filling.events)
        end = max(event.end for event in filling.events)
        if any(not place.after for place in filling.places):
            known_at = self.window_end(filling.events)
        assignment: dict[str, int | tuple[int, ...] | None] = {}
        for item in self.query.items:
            if item.negated:
                continue
            match filling.bound.get(item.variable):
                case None:
                    assignment[item.variable] = None
                case Event(position=position):
                    assignment[item.variable] = position
                case events:
                    assignment[item.variable] = tuple(event.position for event in events)
        return OracleMatch(begin, end, known_at, assignment)

    def window_end(self, events: Iterable[Event]) -> int | None:
        """The time at which no further event can be in one window with `events`; None if that never comes."""
        events = list(events)
        if self.span is not None:
            return min(event.begin for event in events) + self.span
        if isinstance(self.query.within, CountWindow):
            last = min(self.number[event.position] for event in events) + self.query.within.events - 1
            return self.counted[last].end if last < len(self.counted) else None
        return None

    # -- NEXT and STRICT --------------------------------------------------------------------------------------------

    def follow(self, branch: Sequence[Item]) -> Iterator[tuple[Filling, int | None]]:
        """The runs of a sequence, one from each event that can be its first, with the time at which each is known."""
        positive = tuple(item for item in branch if not item.negated)
        local = {item.variable for item in branch}
        conjuncts = tuple(c for c, names in self.names.items() if names and names <= local)
        for start, first in enumerate(self.partition):
            run = Run(positive, conjuncts, self.schema).take_first(first)
            if run is None or not self.fits((first,)):  # an event may be longer than the window
                continue
            finished = self.advance(run, start)
            if finished is None:
                continue
            run, known_at = finished
            yield _fill_sequence(branch, run.bound()), known_at

    def advance(self, run: Run, start: int) -> tuple[Run, int | None] | None:
        """A run taken to its end: the finished run with the time at which it is known, or None if it found nothing."""
        known_at = self.window_end(run.events)
        if not run.is_full:
            for event in self.partition[start + 1 :]:
                taken = None
                if run.events[-1].end < event.begin and self.in_reach(run.events, event):
                    taken = run.offer(event)
                if taken is not None:
                    run = taken
                    if run.is_full:
                        break
                elif self.query.policy is Policy.STRICT:
                    known_at = event.end if known_at is None else min(known_at, event.end)
                    break
        if run.is_full:
            known_at = run.events[-1].end
        return (run, known_at) if run.may_end() else None

    def in_reach(self, events: Sequence[Event], event: Event) -> bool:
        """Whether an event of a type that the pattern names fits in the window of a run."""
        return event.position in self.number and self.fits((*events, event))


def flatten(pattern: Pattern) -> list[tuple[Item, ...]]:
    """The plain sequences that a pattern without AND stands for: nested SEQ flattened, OR distributed."""
    match pattern:
        case Item():
            return [(pattern,)]
        case Seq(items=parts):
            branches: list[tuple[Item, ...]] = [()]
            for part in parts:
                branches = [left + right for left in branches for right in flatten(part)]
            return branches
        case Or(items=parts):
            return [branch for part in parts for branch in flatten(part)]
        case And():
            names = ", ".join(item.variable for item in items_of(pattern))
            raise ValueError(f"AND over {names} has no meaning under NEXT or STRICT")
        case _:
            assert_never(pattern)


def _fill_sequence(branch: Sequence[Item], bound: Mapping[str, Bound]) -> Filling:
    """The filling of a plain sequence whose variables are bound."""
    spread = [_events_of(None if item.negated else bound[item.variable]) for item in branch]
    places = tuple(
        Place(item, before=tuple(e for s in spread[:i] for e in s), after=tuple(e for s in spread[i + 1 :] for e in s))
        for i, item in enumerate(branch)
        if item.negated
    )
    return Filling(bound, tuple(e for s in spread for e in s), places)


def _events_of(bound: Bound) -> tuple[Event, ...]:
    match bound:
        case None:
            return ()
        case Event():
            return (bound,)
        case _:
            return bound


def _precedes(left: Iterable[Event], right: Iterable[Event]) -> bool:
    """Whether all of `left` end before any of `right` begins (true if one of them is empty)."""
    begins = [event.begin for event in right]
    return not begins or all(event.end < min(begins) for event in left)
