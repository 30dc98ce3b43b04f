"""What AGG means, by enumeration: find all matches, then ask at each moment which are live and what they add up to.

Nothing is counted cleverly here. It is the other opinion on every way to aggregate without building matches.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from ensue.errors import LimitError
from ensue.events.schema import Schema
from ensue.pattern.columns import aggregate_name, group_name
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    At,
    Attribute,
    Comparison,
    Expression,
    conjuncts_of,
    variables_of,
    walk,
)
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import And, CountWindow, GroupKey, Item, Or, Pattern, PatternAggregate, Query, Seq
from ensue.testing.evaluation import holds, read_attribute
from ensue.testing.oracle import OracleMatch, Search, find_matches, partition_events
from ensue.testing.values import LARGEST, Event, Value, read_events

Group: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class OracleRow:
    """One row of AGG. The time is in the time column's units (µs for timestamps), as are times among the values."""

    time: int
    group: Mapping[str, Value]
    values: Mapping[str, Value]


def aggregate_matches(
    events: Sequence[Mapping[str, Any]], query: Query, schema: Schema, *, limit: int | None = None
) -> list[OracleRow]:
    """All rows of an AGG query over a finite input, in the order of time. More than `limit` fillings: LimitError.

    >>> from ensue.events.schema import DType
    >>> from ensue.language import parse_query
    >>> query = parse_query("PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)")
    >>> stream = [{"type": "A", "ts": 1}, {"type": "B", "ts": 3}]
    >>> aggregate_matches(stream, query, Schema({"type": DType.STRING, "ts": DType.INT}))
    [OracleRow(time=3, group={}, values={'count': 1})]
    """
    return _Tally(query, schema, read_events(events, schema), events, limit).rows()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A match with what matters here: from when on and until when it is live (None: for ever), and its group."""

    known: int
    expires: int | None
    group: Group
    bound: Mapping[str, Event | None]


class _Tally:
    def __init__(
        self,
        query: Query,
        schema: Schema,
        events: Sequence[Event],
        rows: Sequence[Mapping[str, Any]],
        limit: int | None,
    ) -> None:
        shared = [key.name for key in query.group_by if key.variable is None]
        self.plain = replace(
            query,
            aggregates=(),
            group_by=(),
            emit_on_change=False,
            partition_by=tuple(dict.fromkeys([*query.partition_by, *shared])),
        )
        self.query, self.schema, self.events = query, schema, events
        self.by_position = {event.position: event for event in events}
        self.partitions = partition_events(events, self.plain.partition_by, schema)
        self.search = Search(self.plain, schema, events)
        found = find_matches(rows, self.plain, schema, limit=limit)
        self.matches = [self.count(match) for match in found if match.detected_at is not None]

    # -- matches ----------------------------------------------------------------------------------------------------

    def count(self, match: OracleMatch) -> _Counted:
        """A match with the time from which on it is no longer live, and its group."""
        assert match.detected_at is not None
        bound = {name: self.by_position[p] if isinstance(p, int) else None for name, p in match.assignment.items()}
        used = [p for places in match.assignment.values() for p in _places(places)]
        group = tuple(
            read_attribute(self.by_position[used[0]], key.name, self.schema)
            if key.variable is None
            else self.value_of(bound[key.variable], key.name)
            for key in self.query.group_by
        )
        return _Counted(match.detected_at, self.expiry(match.begin, used), group, bound)

    def expiry(self, begin: int, used: Sequence[int]) -> int | None:
        """When a match ceases to be live: time reaches its begin + W, or n events have come since its first."""
        if self.search.span is not None:
            return begin + self.search.span
        if isinstance(self.query.within, CountWindow):
            (own,) = (p for p in self.partitions if any(event.position == used[0] for event in p))
            counted = [event for event in own if event.type in self.query.types]
            first = min(k for k, event in enumerate(counted) if event.position in used)
            last = first + self.query.within.events
            return counted[last].end if last < len(counted) else None
        return None

    def value_of(self, event: Event | None, name: str) -> Value:
        return None if event is None else read_attribute(event, name, self.schema)

    # -- rows -------------------------------------------------------------------------------------------------------

    def rows(self) -> list[OracleRow]:
        """The rows, in the order of time."""
        return list(self.changes()) if self.query.emit_on_change else list(self.triggered())

    def triggered(self) -> Iterator[OracleRow]:
        """A row for each group that had a trigger at a time."""
        groups: defaultdict[int, dict[Group, None]] = defaultdict(dict)
        for event in self.events:
            for group in self.groups_of(event):
                groups[event.end][group] = None
        for time in sorted(groups):
            for group in groups[time]:
                yield self.row(time, group, self.live(time, group))

    def changes(self) -> Iterator[OracleRow]:
        """A row whenever a group's values differ from those that were reported last; none are reported at first."""
        moments = {match.known for match in self.matches} | {event.end for event in self.events}
        moments |= {match.expires for match in self.matches if match.expires is not None}
        groups = dict.fromkeys(match.group for match in self.matches)
        last = {group: self.row(0, group, []).values for group in groups}
        for time in sorted(moments):
            for group in groups:
                row = self.row(time, group, self.live(time, group))
                if row.values != last[group]:
                    last[group] = row.values
                    yield row

    def live(self, time: int, group: Group) -> list[_Counted]:
        return [
            match
            for match in self.matches
            if match.group == group and match.known <= time and (match.expires is None or time < match.expires)
        ]

    def row(self, time: int, group: Group, live: Sequence[_Counted]) -> OracleRow:
        names = [group_name(key) for key in self.query.group_by]
        values = {aggregate_name(one): self.aggregate(one, live) for one in self.query.aggregates}
        return OracleRow(time, dict(zip(names, group, strict=True)), values)

    def aggregate(self, one: PatternAggregate, live: Sequence[_Counted]) -> Value:
        """One number about the live matches; null values are skipped."""
        if one.variable is None or one.name is None:
            return _fitting(len(live))
        found = [value for m in live if (value := self.value_of(m.bound.get(one.variable), one.name)) is not None]
        if one.function == "COUNT":
            return _fitting(len(found))
        if not found:
            return None
        if one.function in ("SUM", "AVG"):
            numbers = [value for value in found if isinstance(value, int | float)]
            exact = all(isinstance(value, int) for value in numbers)
            total: int | float = sum(numbers) if exact else math.fsum(numbers)
            return total / len(numbers) if one.function == "AVG" else _fitting(total)
        ordered: list[Any] = sorted(found)
        least: Value = ordered[0]
        most: Value = ordered[-1]
        return least if one.function == "MIN" else most

    # -- triggers ---------------------------------------------------------------------------------------------------

    def groups_of(self, event: Event) -> Iterator[Group]:
        """The groups that an event is a trigger of."""
        if any(read_attribute(event, name, self.schema) is None for name in self.plain.partition_by):
            return
        for item in self.query.items:
            if item.variable not in last_variables(self.query.pattern) or not self.can_be(event, item):
                continue
            for branch in normalize(self.query):
                if item.variable in branch.names:
                    yield from self.told(event, item, branch)

    def can_be(self, event: Event, item: Item) -> bool:
        """Whether an event by itself can be a variable's."""
        local = [c for c in conjuncts_of(self.query.where) if variables_of(c) <= {item.variable} and _is_local(c)]
        bound = {item.variable: event if item.quantifier is None else (event,)}
        fits = event.type == item.type and self.search.fits((event,))
        return fits and all(holds(conjunct, bound, self.schema) for conjunct in local)

    def told(self, event: Event, item: Item, branch: Branch) -> Iterator[Group]:
        """The group that a trigger tells by itself; where it does not, those of the matches that become known."""
        group: list[Value] = []
        for key in self.query.group_by:
            alike = {key.name: False} if key.variable is None else self.ties(key, item, branch)
            if alike is None:
                yield from (match.group for match in self.matches if match.known == event.end)
                return
            name, must = next(iter(alike.items()), (None, False))
            value = None if name is None else read_attribute(event, name, self.schema)
            if value is None and must:
                return
            group.append(value)
        yield tuple(group)

    def ties(self, key: GroupKey, item: Item, branch: Branch) -> dict[str, bool] | None:
        """The trigger's attribute that equals `key` in every match, and whether it may not be null; None: none does.

        Empty where the key's variable is of another branch: it is null there.
        """
        assert key.variable is not None
        if key.variable not in branch.names:
            return {}
        firm = {v.name for v in branch.variables if v.minimum > 0} | {item.variable, key.variable}
        equal = {(key.variable, key.name)}
        for _ in branch.conjuncts:
            for left, right in _equalities(branch.conjuncts, self.schema):
                pair = {(left.variable, left.name), (right.variable, right.name)}
                if {left.variable, right.variable} <= firm and pair & equal:
                    equal |= pair
        own = sorted(name for variable, name in equal if variable == item.variable)
        if key.variable == item.variable:
            own = [key.name]
        return {own[0]: len(equal) > 1} if own else None


def last_variables(pattern: Pattern) -> frozenset[str]:
    """The variables whose event can be the last of a match."""
    match pattern:
        case Item(variable=variable, negated=negated):
            return frozenset() if negated else frozenset({variable})
        case And(items=parts) | Or(items=parts):
            return frozenset().union(*(last_variables(part) for part in parts))
        case Seq(items=parts):
            found: frozenset[str] = frozenset()
            for part in reversed(parts):
                found |= last_variables(part)
                if _is_sure(part):
                    break
            return found
        case _:
            assert_never(pattern)


def _is_sure(pattern: Pattern) -> bool:
    """Whether every match has an event of this part."""
    match pattern:
        case Item(negated=negated, quantifier=quantifier):
            return not negated and (quantifier is None or quantifier.minimum > 0)
        case Seq(items=parts) | And(items=parts):
            return any(_is_sure(part) for part in parts)
        case Or(items=parts):
            return all(_is_sure(part) for part in parts)
        case _:
            assert_never(pattern)


def _is_local(conjunct: Expression) -> bool:
    """Whether a conjunct speaks of no list as a whole."""
    nodes = [node for node in walk(conjunct) if isinstance(node, Attribute | Aggregate)]
    return all(isinstance(node, Attribute) and node.at in (At.EACH, At.CURRENT) for node in nodes)


def _equalities(conjuncts: Sequence[Expression], schema: Schema) -> Iterator[tuple[Attribute, Attribute]]:
    """The conjuncts that say that columns of one type are equal in two events."""
    times = {*TIME_ATTRIBUTES, schema.time, schema.begin}
    for conjunct in conjuncts:
        match conjunct:
            case Comparison(
                operands=(Attribute(at=At.EACH) as left, Attribute(at=At.EACH) as right), operators=("=",)
            ) if left.variable != right.variable and not {left.name, right.name} & times:
                if schema.columns.get(left.name) is schema.columns.get(right.name):
                    yield left, right


def _places(places: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if places is None else places if isinstance(places, tuple) else (places,)


def _fitting(number: int | float) -> int | float:
    if isinstance(number, int) and abs(number) > LARGEST:
        raise LimitError("a number is beyond 2^63")
    return number
