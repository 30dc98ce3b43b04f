"""How a query's events may be spread over machines: by a key that all events of a match share, or by time.

A key is found in PARTITION BY, and in equalities of WHERE that tie every variable of a match together, those of absent
events included. Where there is none, a window allows slices of time: a slice that is read one window further finds
every match that begins in it. What allows neither is for one machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import TIME_ATTRIBUTES, At, Attribute, Comparison, Expression
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import CountWindow, Policy, Query, TimeWindow
from ensue.pattern.types import fold_duration

HASHED = frozenset({DType.BOOL, DType.INT, DType.STRING, DType.TIMESTAMP})
"""Types whose equal values are the same bits: 0.0 and -0.0 are not."""

Tie = tuple[Attribute, Attribute]


@dataclass(frozen=True)
class Key:
    """The attributes whose values all events of a match share: `every` for all types, else by the event's type.

    `null_matches`: an event without the key can be a match by itself, since what the key ties to it may be missing; it
    may then be put anywhere. Otherwise such an event cannot matter.
    """

    every: tuple[str, ...] = ()
    by_type: tuple[tuple[str, tuple[str, ...]], ...] = ()
    null_matches: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """All attributes that the key is read from."""
        return tuple(dict.fromkeys([*self.every, *(name for _, names in self.by_type for name in names)]))

    def __str__(self) -> str:
        if self.every:
            return ", ".join(self.every)
        return ", ".join(f"{name} of {kind}" for kind, names in self.by_type for name in names)


@dataclass(frozen=True, slots=True)
class Spread:
    """What a query allows. `window` is in the time column's units, None where its length in time is not bounded.

    `looks_back`: an absence may lie up to a window before the match. `is_ordered`: which of two events of one time
    comes first makes a difference.
    """

    key: Key | None
    window: int | None
    looks_back: bool
    is_ordered: bool

    def __str__(self) -> str:
        if self.key is not None:
            return f"by {self.key}" + ("" if self.window is None else ", a frequent key by time too")
        return "in one place" if self.window is None else "by slices of time; a stream in one place"


def find_spread(query: Query, schema: Schema) -> Spread:
    """How the events of a checked query may be spread.

    >>> from ensue.language import parse_query
    >>> schema = Schema({"type": DType.STRING, "ts": DType.INT, "id": DType.INT})
    >>> find_spread(parse_query("PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10"), schema).key
    Key(every=('id',), by_type=(), null_matches=False)
    """
    branches = normalize(query)
    looks_back = any(branch.looks_back(negation) for branch in branches for negation in branch.negations)
    counts = isinstance(query.within, CountWindow)
    window = None
    if isinstance(query.within, TimeWindow):
        length = fold_duration(query.within.duration, schema)
        window = math.ceil(length) if math.isfinite(length) else None
    is_ordered = counts or query.policy is not Policy.ANY
    if query.aggregates:  # a group's numbers are about all its live matches: it may not be cut by time
        return Spread(_find_group_key(query, branches, schema), None, looks_back, is_ordered)
    return Spread(_find_key(query, branches, schema), window, looks_back, is_ordered)


def _find_group_key(query: Query, branches: Sequence[Branch], schema: Schema) -> Key | None:
    """A key that keeps the groups of an AGG query whole: values of GROUP BY that all events of a match share."""
    names = [key.name for key in query.group_by if key.variable is None and schema.columns.get(key.name) in HASHED]
    if names:
        return Key(every=tuple(names))
    if len(branches) != 1 or isinstance(query.within, CountWindow) or query.policy is Policy.STRICT:
        return None
    types = {variable.name: variable.type for variable in branches[0].variables}
    for candidate in _keys_of(branches[0], query.policy, schema):
        for key in query.group_by:
            if key.variable is not None and candidate.get(types[key.variable]) == key.name:
                alone = sum(v.minimum > 0 for v in branches[0].variables) == 1
                return Key(
                    by_type=tuple((kind, (name,)) for kind, name in sorted(candidate.items())), null_matches=alone
                )
    return None


def _find_key(query: Query, branches: Sequence[Branch], schema: Schema) -> Key | None:
    partition = tuple(name for name in query.partition_by if schema.columns.get(name) in HASHED)
    if partition:
        return Key(every=partition)
    if isinstance(query.within, CountWindow) or query.policy is Policy.STRICT:
        return None  # events of other keys count for positions and for adjacency
    found: list[dict[str, str]] = []
    first, *others = (_keys_of(branch, query.policy, schema) for branch in branches)
    for candidate in first:
        for further in others:
            merged = (_merge(candidate, other) for other in further)
            candidate = next((m for m in merged if m is not None), {})
            if not candidate:
                break
        if candidate and candidate not in found:
            found.append(candidate)
    if not found:
        return None
    by_type = {kind: tuple(dict.fromkeys(f[kind] for f in found)) for kind in found[0]}
    names = set(by_type.values())
    alone = any(sum(v.minimum > 0 for v in branch.variables) == 1 for branch in branches)
    if len(names) == 1:
        return Key(every=names.pop(), null_matches=alone)
    if len({len(n) for n in names}) > 1:  # one attribute twice for one type: the first key alone will do
        by_type = {kind: (name,) for kind, name in found[0].items()}
    return Key(by_type=tuple(sorted(by_type.items())), null_matches=alone)


def _merge(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str] | None:
    if any(one[kind] != other[kind] for kind in one.keys() & other.keys()):
        return None
    return {**one, **other}


def _keys_of(branch: Branch, policy: Policy, schema: Schema) -> list[dict[str, str]]:
    """The keys of a branch, each as the attribute of every event type in it."""
    firm = [v.name for v in branch.variables if v.minimum > 0]
    ties = list(_ties(branch.conjuncts, schema))
    absent = {negation.name: list(_ties(negation.conjuncts, schema)) for negation in branch.negations}
    in_order = policy is Policy.NEXT  # each variable must be tied when it is bound, by what is bound before it
    if not firm:
        return []
    if branch.variable(firm[0]).maximum != 1 and (in_order or len(firm) == 1):
        return []  # only another variable, already bound, ties the events of a list to each other
    everything = [*ties, *(tie for own in absent.values() for tie in own)]
    starts = [a.name for tie in everything for a in tie if a.variable == firm[0]]
    found = []
    for start in dict.fromkeys(starts):
        bound = {firm[0]: start}
        if in_order:
            for name in firm[1:]:
                _bind(bound, name, ties)
        else:
            for _ in firm:
                for name in firm:
                    _bind(bound, name, ties)
        if any(name not in bound for name in firm):
            continue
        tied = dict(bound)  # an optional or absent event ties no others: it may not be there
        for variable in branch.variables:
            if variable.minimum == 0:
                earlier = branch.predecessors(variable.name)
                known = {name: bound[name] for name in bound if name in earlier} if in_order else bound
                _bind(tied, variable.name, ties, known)
        kinds = [(v.name, v.type) for v in branch.variables]
        for negation in branch.negations:
            _bind(tied, negation.name, absent[negation.name], bound)
            kinds.append((negation.name, negation.type))
        by_type = _by_type(tied, kinds)
        if by_type is not None:
            found.append(by_type)
    return found


def _by_type(bound: Mapping[str, str], kinds: Sequence[tuple[str, str]]) -> dict[str, str] | None:
    """The key attribute of each event type; None where a variable has none, or two of one type have different ones."""
    by_type: dict[str, str] = {}
    for name, kind in kinds:
        attribute = bound.get(name)
        if attribute is None or by_type.setdefault(kind, attribute) != attribute:
            return None
    return by_type


def _bind(into: dict[str, str], name: str, ties: Sequence[Tie], bound: Mapping[str, str] | None = None) -> None:
    """Add the attribute of a variable that is tied to a bound one."""
    bound = into if bound is None else bound
    if name in into:
        return
    for tie in ties:
        for mine, other in (tie, tie[::-1]):
            if mine.variable == name and bound.get(other.variable) == other.name:
                into[name] = mine.name
                return


def _ties(conjuncts: Sequence[Expression], schema: Schema) -> Iterator[Tie]:
    """The conjuncts that say that an attribute of one event equals one of another."""
    for conjunct in conjuncts:
        match conjunct:
            case Comparison(
                operands=(Attribute(at=At.EACH) as left, Attribute(at=At.EACH) as right), operators=("=",)
            ) if left.variable != right.variable:
                kinds = {None if a.name in TIME_ATTRIBUTES else schema.columns.get(a.name) for a in (left, right)}
                if len(kinds) == 1 and kinds <= HASHED and not {left.name, right.name} & {schema.time, schema.begin}:
                    yield left, right
