"""How AGG is evaluated: by counters in place of joins [A-Seq 3, 5], or by detection where counters cannot tell.

A pattern becomes a machine of columns. Column 0 stands for no event yet; every other one counts the ways to have come
as far as some item of the pattern. An event plays **roles**: a role adds the columns that may come just before
(`sources`) to the columns of its item (`targets`). An absent event clears columns (`resets`). What is live in the end
columns (`accepts`) are the matches.

Within one timestamp, roles of later items are played first: so no event follows another one of the same time. An
absence comes between the items after it and those before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    At,
    Attribute,
    Comparison,
    Expression,
    IsNull,
    variables_of,
)
from ensue.pattern.format import format_expression
from ensue.pattern.normalize import Branch, Variable, normalize
from ensue.pattern.query import CountWindow, Policy, Query, TimeWindow
from ensue.pattern.types import fold_duration
from ensue.planning.conditions import EVENT, Filter, about_event, is_local
from ensue.planning.plan import Plan, dump_plan, load_plan

MAX_COLUMNS = 60
MAX_LEAVES = 60


class Method(Enum):
    """How matches are counted without being built; DETECTION: they are built."""

    SUB_PATTERNS = "a counter for each part of the pattern, which queries can share"
    PREFIX = "prefix counts"
    PER_START = "counters for each start"
    INVERSE = "a prefix matrix that takes expired events back"
    STACKS = "two stacks of prefix matrices"
    LINKED = "a counter for each event"
    DETECTION = "detection first"


class Kind(Enum):
    """What a component adds up over the live matches."""

    COUNT = "matches"
    PRESENT = "values that are not null"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"


@dataclass(frozen=True, slots=True)
class Measure:
    """An attribute that some aggregate speaks of; `is_float`: its values are held as float64."""

    variable: str
    name: str
    is_float: bool


@dataclass(frozen=True, slots=True)
class Component:
    """A number that is carried along for a measure (None: the matches themselves)."""

    kind: Kind
    measure: int | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """What an event of a leaf does: add the sources to the targets, or clear the `resets`. Greater `order` first."""

    leaf: int
    order: int
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    resets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The events of a variable: their type, what each must satisfy, its key's attributes, whether it can be last."""

    variable: str
    type: str
    filter: Filter
    key: tuple[str, ...]
    is_trigger: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A condition between the event of a place in the pattern and the one before it, by their attributes."""

    place: int
    left: str
    operator: str
    right: str
    is_float: bool
    text: str


@dataclass(frozen=True, slots=True)
class Counters:
    """A query as a machine of columns. `group`: the places of GROUP BY in the key; `window` None: nothing expires.

    `chain` are the leaves of the items, in order, of a pattern whose sub-patterns can be counted; else it is empty.
    `absent` are then the leaves of which no event may lie just before each item.
    """

    columns: int
    leaves: tuple[Source, ...]
    roles: tuple[Role, ...]
    accepts: tuple[int, ...]
    measures: tuple[Measure, ...]
    components: tuple[Component, ...]
    group: tuple[int, ...]
    window: int | None
    chain: tuple[int, ...] = ()
    absent: tuple[tuple[int, ...], ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def link_names(self) -> tuple[str, ...]:
        """The attributes that conditions between neighbours speak of."""
        return tuple(dict.fromkeys(name for link in self.links for name in (link.left, link.right)))

    @property
    def has_loops(self) -> bool:
        """Whether a list may go on: then a role reads a column that it adds to."""
        return any(set(role.sources) & set(role.targets) for role in self.roles)


Choice: TypeAlias = Plan | Method
"""How a query is run: a tree of joins, or a way of counting."""


def dump_choice(choice: Choice) -> dict[str, Any]:
    """A choice as JSON-able values, for `load_choice`."""
    return {"method": choice.name} if isinstance(choice, Method) else dump_plan(choice)


def load_choice(data: Mapping[str, Any]) -> Choice:
    """The choice that `dump_choice` was given."""
    return Method[data["method"]] if "method" in data else load_plan(data)


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """What is chosen for an AGG query, and why. Without counters it is DETECTION, and `obstacles` say what needs it."""

    method: Method
    reason: str
    counters: Counters | None = None
    obstacles: tuple[str, ...] = ()
    key: tuple[str, ...] = field(default=())  # in words


class _Obstacle(Exception):
    """Something that counters cannot tell."""


def plan_aggregates(
    query: Query, branches: Sequence[Branch], schema: Schema | None, method: Method | None = None
) -> AggregatePlan:
    """Choose how to aggregate a checked query; `method` if it is one that can.

    >>> from ensue.language import parse_query
    >>> from ensue.pattern.normalize import normalize
    >>> query = parse_query("PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)")
    >>> plan_aggregates(query, normalize(query), None).method.name
    'SUB_PATTERNS'
    """
    obstacles = tuple(dict.fromkeys(_obstacles(query, branches, schema)))
    counters = None
    if not obstacles:
        try:
            counters = _make_counters(query, branches, schema)
        except _Obstacle as obstacle:
            obstacles = (str(obstacle),)
    if counters is None:
        return AggregatePlan(Method.DETECTION, "matches are found first, then aggregated", None, obstacles)
    chosen, reason = _choose(counters)
    if method is not None and method is not chosen:
        chosen, reason = method, "as asked for"
    key = tuple(dict.fromkeys(", ".join(source.key) for source in counters.leaves if source.key))
    return AggregatePlan(chosen, reason, None if chosen is Method.DETECTION else counters, (), key)


def is_counted(query: Query, schema: Schema | None) -> bool:
    """Whether a query is an AGG query whose matches need not be built."""
    return bool(query.aggregates) and plan_aggregates(query, normalize(query), schema).counters is not None


def fits(method: Method, counters: Counters) -> bool:
    """Whether a way of counting can be used."""
    if counters.links:
        return method in (Method.LINKED, Method.DETECTION)
    match method:
        case Method.LINKED:
            return False
        case Method.SUB_PATTERNS:
            return bool(counters.chain)
        case Method.PREFIX:
            return counters.window is None
        case Method.INVERSE:
            return counters.window is not None and not _inversion_obstacles(counters)
        case Method.PER_START | Method.STACKS:
            return counters.window is not None
        case Method.DETECTION:
            return True


def _choose(counters: Counters) -> tuple[Method, str]:
    if counters.links:
        told = ", ".join(link.text for link in counters.links)
        return Method.LINKED, f"which events it can follow is decided by {told}"
    if counters.chain:
        if counters.window is None:
            return Method.SUB_PATTERNS, "nothing expires"
        return Method.SUB_PATTERNS, "what an event added to integers is taken back when it expires"
    if counters.window is None:
        return Method.PREFIX, "nothing expires: one counter for each part of the pattern"
    obstacles = _inversion_obstacles(counters)
    if not obstacles:
        return Method.INVERSE, "sums of integers can be taken back when an event expires"
    return Method.STACKS, f"{' and '.join(obstacles)} cannot be taken back when an event expires"


def _inversion_obstacles(counters: Counters) -> list[str]:
    places = {role.resets for role in counters.roles if role.resets}
    found = ["an absence" if len(places) == 1 else "absences at several places"] if places else []
    return found + _taking_back_obstacles(counters)


def _taking_back_obstacles(counters: Counters) -> list[str]:
    """What cannot be taken back from the numbers that are carried along."""
    found = []
    if counters.has_loops:
        found.append("a list without bound")
    kinds = {component.kind for component in counters.components}
    if kinds & {Kind.LEAST, Kind.GREATEST}:
        found.append("MIN or MAX")
    if any(c.kind is Kind.SUM and counters.measures[c.measure or 0].is_float for c in counters.components):
        found.append("a sum of floats")
    return found


# -- what counters cannot tell ---------------------------------------------------------------------------------------


def _obstacles(query: Query, branches: Sequence[Branch], schema: Schema | None) -> Iterator[str]:
    if query.policy is not Policy.ANY:
        yield f"USING {query.policy.value}"
    if schema is not None and schema.begin is not None:
        yield "events that last"
    if isinstance(query.within, CountWindow):
        yield "WITHIN n EVENTS"
    for branch in branches:
        if not branch.is_chain:
            yield "AND"
        for negation in branch.negations:
            if branch.looks_back(negation):
                yield f"the absence of `{negation.name}` before the first event"
    for one in query.aggregates:
        is_text = schema is not None and schema.columns.get(one.name or "") is DType.STRING
        if one.function in ("MIN", "MAX") and is_text:
            yield f"{one.function} of text"


# -- keys ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Keys:
    """The attributes that keep the events of a branch apart: one tuple a variable. `tied` are those of WHERE."""

    shared: tuple[str, ...]
    tied: dict[str, list[str]]  # variable -> attribute of each tie
    links: list[Link] = field(default_factory=list)


def _find_keys(query: Query, branch: Branch, schema: Schema | None) -> _Keys:
    """Keys from PARTITION BY, GROUP BY and equalities; raises where a condition between events is left over."""
    shared = [*query.partition_by, *(key.name for key in query.group_by if key.variable is None)]
    keys = _Keys(tuple(dict.fromkeys(shared)), {name: [] for name in _all_names(branch)})
    ties = list(find_ties(branch.conjuncts, schema))
    firm = [v.name for v in branch.variables if v.minimum > 0]
    used: set[Expression] = set()
    starts = dict.fromkeys(a.name for _, *pair in ties for a in pair if firm and a.variable == firm[0])
    for start in starts if len(firm) > 1 else ():  # what only optional events tie may match alone, its key null
        bound = _follow(firm, ties, start)
        if bound is None:
            continue
        mine = {c for c, *pair in ties if all(bound.get(a.variable) == a.name for a in pair)}
        for negation in branch.negations:
            for conjunct, left, right in find_ties(negation.conjuncts, schema):
                own, other = (left, right) if left.variable == negation.name else (right, left)
                if other.variable in firm and bound.get(other.variable) == other.name:
                    bound.setdefault(negation.name, own.name)
                if bound.get(own.variable) == own.name and bound.get(other.variable) == other.name:
                    mine.add(conjunct)
        if all(name in bound for name in keys.tied) and not mine <= used:
            for name, attributes in keys.tied.items():
                attributes.append(bound[name])
            used |= mine
    for conjunct in branch.conjuncts:
        if conjunct not in used and not is_local(conjunct) and variables_of(conjunct):
            link = _find_link(conjunct, branch, schema)
            if link is None:
                raise _Obstacle(f"the condition {format_expression(conjunct)}")
            keys.links.append(link)
    for negation in branch.negations:
        for conjunct in negation.conjuncts:
            if conjunct not in used and not is_local(conjunct):
                raise _Obstacle(f"the condition {format_expression(conjunct)}")
    return keys


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def _find_link(conjunct: Expression, branch: Branch, schema: Schema | None) -> Link | None:
    """A condition on an attribute of each of two neighbours, None if it is something else."""
    match conjunct:
        case Comparison(operands=(Attribute(at=At.EACH) as left, Attribute(at=At.EACH) as right), operators=(op,)):
            places = [branch.names.index(one.variable) for one in (left, right)]
            if places[0] > places[1]:
                left, right, op = right, left, _TURNED.get(op, op)
            kinds = {_kind(one.name, schema) for one in (left, right)}
            is_text = DType.STRING in kinds
            if abs(places[0] - places[1]) != 1 or op not in _TURNED or len(kinds) > 1 or (is_text and op not in "!="):
                return None
            text = format_expression(conjunct)
            return Link(max(places), left.name, op, right.name, kinds == {DType.FLOAT}, text)
        case _:
            return None


def _kind(name: str, schema: Schema | None) -> DType | None:
    """The type of an attribute, INT for a time; None if it is not known."""
    if schema is None:
        return None
    return DType.INT if name in (*TIME_ATTRIBUTES, schema.time, schema.begin) else schema.columns[name]


def _follow(
    firm: Sequence[str], ties: Sequence[tuple[Expression, Attribute, Attribute]], start: str
) -> dict[str, str] | None:
    """The attribute of each variable that equalities tie to the first one's; None if some event is left out.

    What an optional event ties to others is not tied where it is missing: only `firm` ones pass a tie on.
    """
    bound = {firm[0]: start}
    for _ in ties:
        for _, left, right in ties:
            for mine, other in ((left, right), (right, left)):
                if other.variable in firm and bound.get(other.variable) == other.name:
                    bound.setdefault(mine.variable, mine.name)
    return bound if all(name in bound for name in firm) else None


def find_ties(
    conjuncts: Sequence[Expression], schema: Schema | None
) -> Iterator[tuple[Expression, Attribute, Attribute]]:
    """The conjuncts that say that an attribute of one event equals one of another, of the same type."""
    times = {*TIME_ATTRIBUTES, *((schema.time, schema.begin) if schema is not None else ())}
    for conjunct in conjuncts:
        match conjunct:
            case Comparison(
                operands=(Attribute(at=At.EACH) as left, Attribute(at=At.EACH) as right), operators=("=",)
            ) if left.variable != right.variable and not {left.name, right.name} & times:
                if schema is None or schema.columns[left.name] is schema.columns[right.name]:
                    yield conjunct, left, right


def _all_names(branch: Branch) -> list[str]:
    return [*branch.names, *(negation.name for negation in branch.negations)]


# -- the machine -----------------------------------------------------------------------------------------------------


def _make_counters(query: Query, branches: Sequence[Branch], schema: Schema | None) -> Counters:
    keys = [_find_keys(query, branch, schema) for branch in branches]
    widths = {tuple(_types_of(attributes, schema)) for one in keys for attributes in one.tied.values()}
    if len(widths) > 1:
        raise _Obstacle("branches of OR with different keys")
    machine = _Machine()
    leaves: dict[str, Source] = {}  # a variable may stand in several branches
    for branch, own in zip(branches, keys, strict=True):
        sources = [_source(branch, v.name, v.type, own, _can_be_last(branch, v.name)) for v in branch.variables]
        sources += [_source(branch, n.name, n.type, own, False) for n in branch.negations]
        for source in sources:
            known = leaves.get(source.variable, source)
            if known.key != source.key or known.filter != source.filter:
                raise _Obstacle("branches of OR with different keys")
            leaves[source.variable] = replace(source, is_trigger=source.is_trigger or known.is_trigger)
        machine.add(branch, list(leaves).index)
    if machine.count > MAX_COLUMNS or len(leaves) > MAX_LEAVES:
        raise _Obstacle(f"a pattern of more than {MAX_COLUMNS} items")
    measures, components = _measure(query, schema)
    window = None
    if isinstance(query.within, TimeWindow):
        length = fold_duration(query.within.duration, schema or Schema({"ts": DType.INT}))
        window = math.ceil(length)
    found = Counters(
        machine.count,
        tuple(leaves.values()),
        tuple(sorted(machine.roles, key=lambda role: -role.order)),
        tuple(machine.accepts),
        measures,
        components,
        _group_places(query, branches, keys),
        window,
    )
    links = [link for one in keys for link in one.links]
    if links:
        single = all(v.minimum == v.maximum == 1 for v in branches[0].variables)
        if len(branches) > 1 or not single or not _is_chain(found):
            raise _Obstacle(f"the condition {links[0].text}, beside a list, an absence or OR,")
        return replace(found, links=tuple(links))
    return found if query.emit_on_change else _with_chain(found)


def _with_chain(counters: Counters) -> Counters:
    """With the items one after the other, if sub-patterns can be counted and each key or all have a row.

    Where events expire there may be absences at one place: two would have to be looked at from each other's events on.
    """
    items = [role for role in sorted(counters.roles, key=lambda role: role.order) if not role.resets]
    if _taking_back_obstacles(counters) or not _follow_each_other(items, counters.accepts):
        return counters
    if counters.group and len(set(counters.group)) < len(counters.leaves[0].key):
        return counters
    absent = tuple(
        tuple(sorted({role.leaf for role in counters.roles if place in role.resets})) for place in range(len(items))
    )
    if counters.window is not None and sum(map(bool, absent)) > 1:
        return counters
    return replace(counters, chain=tuple(role.leaf for role in items), absent=absent)


def _is_chain(counters: Counters) -> bool:
    """Whether each item is one event, and there are no absences."""
    return _follow_each_other(sorted(counters.roles, key=lambda role: role.order), counters.accepts)


def _follow_each_other(roles: Sequence[Role], accepts: tuple[int, ...]) -> bool:
    links = [(role.sources, role.targets) for role in roles]
    return links == [((k,), (k + 1,)) for k in range(len(links))] and accepts == (len(links),)


def _types_of(names: Sequence[str], schema: Schema | None) -> list[DType | None]:
    return [None if schema is None else schema.columns.get(name) for name in names]


def _can_be_last(branch: Branch, name: str) -> bool:
    return all(branch.variable(after).minimum == 0 for after in branch.successors(name))


def _source(branch: Branch, name: str, kind: str, keys: _Keys, is_trigger: bool) -> Source:
    """The events of a variable. A null in PARTITION BY or GROUP BY keeps one out; in a tie, only out of matches."""
    absent = next((n for n in branch.negations if n.name == name), None)
    conjuncts = branch.conjuncts if absent is None else absent.conjuncts
    own = [about_event(c) for c in conjuncts if variables_of(c) == {name} and is_local(c)]
    constant = [c for c in branch.conjuncts if not variables_of(c)]
    there: list[Expression] = [IsNull(Attribute(EVENT, attribute), negated=True) for attribute in keys.shared]
    return Source(name, kind, Filter(tuple([*constant, *there, *own])), (*keys.shared, *keys.tied[name]), is_trigger)


def _group_places(query: Query, branches: Sequence[Branch], keys: Sequence[_Keys]) -> tuple[int, ...]:
    """Where the values of GROUP BY stand in the key."""
    places = []
    for key in query.group_by:
        if key.variable is None:
            places.append(keys[0].shared.index(key.name))
            continue
        tied = keys[0].tied.get(key.variable, [])
        if len(branches) > 1 or key.name not in tied:
            raise _Obstacle(f"GROUP BY {key.variable}.{key.name}, which equalities do not tie to all events")
        places.append(len(keys[0].shared) + tied.index(key.name))
    return tuple(places)


class _Machine:
    """Columns and roles in the making."""

    def __init__(self) -> None:
        self.count = 1
        self.roles: list[Role] = []
        self.accepts: list[int] = []

    def add(self, branch: Branch, leaf_of: Callable[[str], int]) -> None:
        """The columns of a branch, a chain of variables.

        What stands behind an item, with absences before what follows, has a column for each set of these absences: an
        absent event ends the one and not the other.
        """
        levels: list[_Level] = []
        absences: list[_Absence] = []
        ends: list[_Place] = [(-1, frozenset())]  # what the next item may follow on
        order = 0
        for place, variable in enumerate(branch.variables):
            passed = frozenset(k for k, n in enumerate(branch.negations) if len(n.after) == place)
            if passed:
                order += 1
                absences += [_Absence(k, leaf_of(branch.negations[k].name), order) for k in sorted(passed)]
                ends = [(level, seen | passed) for level, seen in ends]
            exits: list[_Place] = []
            for number in range(_steps(variable)):
                order += 1
                follows = ends if number == 0 else [(len(levels) - 1, frozenset())]
                loops = variable.maximum is None and number == _steps(variable) - 1
                levels.append(_Level(leaf_of(variable.name), order, list(follows), loops))
                if number + 1 >= variable.minimum:
                    exits.append((len(levels) - 1, frozenset()))
            ends = exits + (ends if variable.minimum == 0 else [])
        self._number(levels, absences, [end for end in ends if end[0] >= 0])

    def _number(self, levels: Sequence[_Level], absences: Sequence[_Absence], ends: Sequence[_Place]) -> None:
        """Give each level a column for each set of absences that something behind it looks at; make the roles."""
        asked = {*ends, *(place for level in levels for place in level.follows)}
        asked |= {(k, frozenset()) for k, level in enumerate(levels) if level.loops}
        columns: dict[_Place, int] = {}
        for place in sorted(asked, key=lambda place: (place[0], sorted(place[1]))):
            columns[place] = 0 if place[0] < 0 else self.count
            self.count += place[0] >= 0
        for k, level in enumerate(levels):
            sources = {columns[place] for place in level.follows}
            sources |= {columns[k, frozenset()]} if level.loops else set()
            targets = [column for place, column in columns.items() if place[0] == k]
            self.roles.append(Role(level.leaf, level.order, tuple(sorted(sources)), tuple(targets)))
        for absence in absences:
            resets = tuple(column for place, column in columns.items() if absence.number in place[1])
            self.roles.append(Role(absence.leaf, absence.order, resets=resets))
        self.accepts += sorted({columns[end] for end in ends})


_Place: TypeAlias = tuple[int, frozenset[int]]
"""Behind a level (-1: at the start), with the absences that lie between it and what follows."""


@dataclass(frozen=True, slots=True)
class _Absence:
    number: int
    leaf: int
    order: int


@dataclass(frozen=True, slots=True)
class _Level:
    leaf: int
    order: int
    follows: list[_Place]
    loops: bool


def _steps(variable: Variable) -> int:
    """How many columns a variable takes: one for each element that is counted off, the last one for any further."""
    return max(1, variable.minimum) if variable.maximum is None else variable.maximum


def _measure(query: Query, schema: Schema | None) -> tuple[tuple[Measure, ...], tuple[Component, ...]]:
    """The attributes that are looked at, and the numbers that are carried along for them."""
    measures: dict[tuple[str, str], int] = {}
    found: list[Measure] = []
    components: dict[Component, None] = {Component(Kind.COUNT): None}
    kinds: Mapping[str, tuple[Kind, ...]] = {
        "COUNT": (Kind.PRESENT,),
        "SUM": (Kind.SUM, Kind.PRESENT),
        "AVG": (Kind.SUM, Kind.PRESENT),
        "MIN": (Kind.LEAST,),
        "MAX": (Kind.GREATEST,),
    }
    for one in query.aggregates:
        if one.variable is None or one.name is None:
            continue
        place = (one.variable, one.name)
        if place not in measures:
            measures[place] = len(found)
            is_float = schema is not None and schema.columns.get(one.name) is DType.FLOAT
            found.append(Measure(one.variable, one.name, is_float and one.name not in TIME_ATTRIBUTES))
        for kind in kinds[one.function]:
            components[Component(kind, measures[place])] = None
    return tuple(found), tuple(components)
