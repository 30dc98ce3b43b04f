"""The conditions of a query as statistics see them: on one event, and between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import combinations

from ensue.events.schema import Schema
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    At,
    Attribute,
    Comparison,
    Expression,
    rewrite,
    variables_of,
    walk,
)
from ensue.pattern.implications import implied_comparisons
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Query

Pair = tuple[str, str]
Triple = tuple[str, str, str]

_MOST_TOGETHER = 8
"""Single events of a branch of which all sets are looked at: there are two to the power of it."""


@dataclass(frozen=True, slots=True)
class Together:
    """Some single events, by their names in order, and the pairs of them that have to satisfy something.

    That is a condition of their own, or what follows from others by way of events that are not among them. `needless`
    are pairs whose conditions follow from those of the other pairs: equal keys of PARTITION BY, of a and c if of a and
    b and of b and c.
    """

    names: tuple[str, ...]
    pairs: frozenset[Pair]
    needless: frozenset[Pair] = frozenset()


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is asked of the events of a query's variables, absent ones included.

    `types` gives the event type of each variable. `pairs` has the conditions of WHERE and PARTITION BY between two
    variables, by their names in order; `(x, x)` stands for two neighbours of a list, of which the earlier is called
    `previous(x)`. `before` holds the pairs of variables whose events come one after the other in every match of both.

    `triples` are single events of a match of which the middle one has conditions with both others, these none between
    each other. `implied` has the comparisons of pairs without a condition of their own that follow from others.
    `together` are all sets of three and more single events of which at least three hang together.

    What speaks of three variables or more, or of a list as a whole (COUNT and its kin), is not among them.
    """

    types: dict[str, str]
    local: dict[str, tuple[Expression, ...]]
    pairs: dict[Pair, tuple[Expression, ...]]
    before: frozenset[Pair]
    triples: tuple[Triple, ...] = ()
    implied: dict[Pair, tuple[Expression, ...]] = field(default_factory=dict)
    together: tuple[Together, ...] = ()

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """The columns that they name, in the order of the schema; an event's times are at hand without."""
        conditions = [c for group in (*self.local.values(), *self.pairs.values()) for c in group]
        named = {n.name for c in conditions for n in walk(c) if isinstance(n, Attribute)}
        times = {*TIME_ATTRIBUTES, schema.time, schema.begin}
        return tuple(name for name in schema.columns if name in named - times)


def previous(variable: str) -> str:
    """What the event before another one in a list is called in a condition on the two."""
    return f"{variable}[i-1]"


def find_conditions(query: Query) -> Conditions:
    """The conditions of a query on single events and on pairs.

    >>> from ensue.language import parse_query
    >>> query = parse_query("PATTERN SEQ(A a, B+ b[], C c) WHERE a.x > 1 AND b.x < c.x AND b[i].x > b[i-1].x")
    >>> found = find_conditions(query)
    >>> list(found.local), list(found.pairs), sorted(found.before)
    (['a'], [('b', 'b'), ('b', 'c')], [('a', 'b'), ('a', 'c'), ('b', 'b'), ('b', 'c')])
    """
    local: dict[str, dict[Expression, None]] = {}
    pairs: dict[Pair, dict[Expression, None]] = {}
    types = {item.variable: item.type for item in query.items}
    lists = {item.variable for item in query.items if item.quantifier is not None}
    before: set[Pair] = {(name, name) for name in lists}
    branches = normalize(query)
    for branch in branches:
        for conjunct in _conjuncts(branch):
            nodes = [n for n in walk(conjunct) if isinstance(n, Attribute | Aggregate)]
            names = sorted(variables_of(conjunct))
            places = {n.at for n in nodes if isinstance(n, Attribute)}
            if any(isinstance(n, Aggregate) for n in nodes):
                continue
            if len(names) == 2 and At.PREVIOUS not in places:
                pairs.setdefault((names[0], names[1]), {})[conjunct] = None
            elif len(names) == 1 and At.PREVIOUS in places:
                pairs.setdefault((names[0], names[0]), {})[rewrite(conjunct, _rename)] = None
            elif len(names) == 1 and (places <= {At.EACH, At.CURRENT} or names[0] not in lists):
                local.setdefault(names[0], {})[conjunct] = None
        for x, y in _pairs(branch):
            for key in query.partition_by:
                other = Attribute(previous(x) if x == y else x, key)
                pairs.setdefault((x, y), {})[Comparison((other, Attribute(y, key)), ("=",))] = None
        before |= set(_order(branch))
    implied = _agreeing(
        [(branch, [one for one in find_implied(branch) if one.pair not in pairs]) for branch in branches]
    )
    triples = dict.fromkeys(triple for branch in branches for triple in find_triples(branch, pairs))
    keys = frozenset(pair for pair, of in pairs.items() if query.partition_by and len(of) == len(query.partition_by))
    together = dict.fromkeys(one for branch, some in implied for one in find_together(branch, pairs, some, keys))
    return Conditions(
        types,
        {name: tuple(local[name]) for name in sorted(local)},
        {pair: tuple(pairs[pair]) for pair in sorted(pairs)},
        frozenset(before),
        tuple(triples),
        {one.pair: one.conditions for _, some in implied for one in some},
        tuple(together),
    )


def _agreeing(found: list[tuple[Branch, list[Implied]]]) -> list[tuple[Branch, list[Implied]]]:
    """Without the pairs of which other branches imply something else: a pair has one number for all of them."""
    told: dict[Pair, set[frozenset[Expression]]] = {}
    for _, some in found:
        for one in some:
            told.setdefault(one.pair, set()).add(frozenset(one.conditions))
    return [(branch, [one for one in some if len(told[one.pair]) == 1]) for branch, some in found]


@dataclass(frozen=True, slots=True)
class Implied:
    """Comparisons of a pair of events, its names in order, that follow from others by way of those `via`."""

    pair: Pair
    conditions: tuple[Expression, ...]
    via: frozenset[str]


def find_implied(branch: Branch) -> list[Implied]:
    """The pairs of single events that have no condition, but comparisons that follow from those with others.

    >>> from ensue.language import parse_query
    >>> (branch,) = normalize(parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x"))
    >>> [(one.pair, sorted(one.via)) for one in find_implied(branch)]
    [(('a', 'c'), ['b'])]
    """
    lists = {v.name for v in branch.variables if v.kleene}
    compared = []
    own = {frozenset(names) for conjunct in branch.conjuncts if len(names := variables_of(conjunct)) == 2}
    for conjunct in branch.conjuncts:
        match conjunct:
            case Comparison(operands=(Attribute() as left, Attribute() as right), operators=(symbol,)):
                both = {left.variable, right.variable}
                if len(both) == 2 and not both & lists:
                    compared.append((left, symbol, right))
    found: dict[Pair, Implied] = {}
    for left, symbol, right, via in implied_comparisons(compared, lambda node: node.variable):
        x, y = sorted((left.variable, right.variable))
        if {x, y} not in own:
            before = found.get((x, y), Implied((x, y), (), frozenset()))
            condition = Comparison((left, right), (symbol,))
            found[x, y] = Implied((x, y), (*before.conditions, condition), before.via | via)
    return list(found.values())


def find_triples(branch: Branch, pairs: Iterable[Pair]) -> Iterator[Triple]:
    """The triples of single events with conditions between the middle one and either other, and none between these.

    >>> from ensue.language import parse_query
    >>> (branch,) = normalize(parse_query("PATTERN SEQ(A a, B b, C c, D d)"))
    >>> list(find_triples(branch, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")]))
    [('a', 'c', 'd'), ('b', 'c', 'd')]
    """
    known = {frozenset(pair) for pair in pairs}
    names = [v.name for v in branch.variables if not v.kleene]
    for middle in names:
        sides = sorted(name for name in names if name != middle and frozenset((name, middle)) in known)
        for x, z in combinations(sides, 2):
            if frozenset((x, z)) not in known:
                yield x, middle, z


def find_together(
    branch: Branch, pairs: Iterable[Pair], implied: Iterable[Implied], keys: Set[Pair] = frozenset()
) -> Iterator[Together]:
    """The sets of single events of which three or more hang together by conditions, own ones or implied; no circles.

    Pairs of which nothing is asked but equal `keys` of PARTITION BY are needless where others make them equal. A set of
    three that is all there is is left out, for it is a triple; and all sets if there are very many.

    >>> from ensue.language import parse_query
    >>> rising = "a.x < b.x AND b.x < c.x AND c.x < d.x"
    >>> (branch,) = normalize(parse_query(f"PATTERN SEQ(A a, B b, C c, D d) WHERE {rising}"))
    >>> for one in find_together(branch, [("a", "b"), ("b", "c"), ("c", "d")], find_implied(branch)):
    ...     print(one.names, sorted(one.pairs))
    ('a', 'b', 'c') [('a', 'b'), ('b', 'c')]
    ('a', 'b', 'd') [('a', 'b'), ('b', 'd')]
    ('a', 'c', 'd') [('a', 'c'), ('c', 'd')]
    ('b', 'c', 'd') [('b', 'c'), ('c', 'd')]
    ('a', 'b', 'c', 'd') [('a', 'b'), ('b', 'c'), ('c', 'd')]
    """
    names = sorted(v.name for v in branch.variables if not v.kleene)
    if not 3 < len(names) <= _MOST_TOGETHER:
        return
    own = frozenset(pairs)
    followed = [(one.pair, one.via) for one in implied]
    for size in range(3, len(names) + 1):
        for some in combinations(names, size):
            kept = frozenset(pair for pair in combinations(some, 2) if pair in own)
            found = kept | {pair for pair, via in followed if {*pair} <= {*some} and not via & {*some}}
            closing = frozenset(_close_circles([*sorted(found - keys), *sorted(found & keys)]))
            found -= closing
            if closing <= keys and len(found) > len({name for pair in found for name in pair}) / 2:
                yield Together(some, found, closing)


def _close_circles(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs whose variables hang together already by pairs before them."""
    part: dict[str, str] = {}

    def root(name: str) -> str:
        while part.setdefault(name, name) != name:
            name = part[name]
        return name

    for x, y in pairs:
        one, other = root(x), root(y)
        if one == other:
            yield x, y
        part[one] = other


def _conjuncts(branch: Branch) -> Iterator[Expression]:
    yield from branch.conjuncts
    for negation in branch.negations:
        yield from negation.conjuncts


def _pairs(branch: Branch) -> Iterator[Pair]:
    """The pairs of variables that may have to do with each other: absent events only with those of the match."""
    yield from combinations(sorted(branch.names), 2)
    yield from ((v.name, v.name) for v in branch.variables if v.kleene)
    for negation in branch.negations:
        for name in branch.names:
            yield (name, negation.name) if name < negation.name else (negation.name, name)


def _order(branch: Branch) -> Iterator[Pair]:
    yield from branch.before
    for negation in branch.negations:
        yield from ((name, negation.name) for name in negation.after)
        yield from ((negation.name, name) for name in negation.before)


def _rename(node: Attribute | Aggregate) -> Expression:
    """`x[i-1].attr` as an attribute of a variable of its own."""
    if isinstance(node, Attribute) and node.at is At.PREVIOUS:
        return Attribute(previous(node.variable), node.name)
    return node
