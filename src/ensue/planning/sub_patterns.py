"""Counters for every sub-pattern of a set of chains, each of them once: what queries share of one another.

A chain is a SEQ of single events. How many matches each run of its items has is enough to keep the number of its own
matches when events come and expire (`kernels.sub_patterns` says how). So a prefix [A-Seq 4.1, PreTree] or a part from
the middle [4.2, Chop-Connect] that several queries have in common is counted once, and connecting parts takes no
snapshots. Without a window nothing expires, and prefixes are enough.

An absence [3.3] stands between two items. What ends before it counts the matches that no absent event has followed:
such an event clears it. What begins before it loses, when its first event expires, the matches of the rest that begin
before the first absent event: all of them but those `since` that event, which are counted too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ensue.pattern.expressions import Attribute, IsNull
from ensue.planning.aggregates import Counters, Kind
from ensue.planning.conditions import EVENT, Filter

Gap: TypeAlias = tuple[int, ...]
"""An absence between two items: the leaves of which no event may come."""

Run: TypeAlias = tuple[int | Gap, ...]
"""The leaves of items, one after the other, and what is absent between them."""

NO_WEIGHT, NEGATED = -1, -2
"""Weights of a step that are not values of its event: times 1, and times -1."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Events that are the same to all queries: their type, what each must satisfy, the attributes of its key."""

    type: str
    filter: Filter
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What an event does to a counter: the number of `source`, times a weight, is added or subtracted.

    Events of one time do their steps of one `rank` before those of the next.
    """

    rank: int
    target: int
    source: int
    weight: int = NO_WEIGHT
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """A query: the leaves of its items, and the counter of each of its components."""

    counters: Counters
    leaves: tuple[int, ...]
    gaps: tuple[Gap, ...]  # before each item
    outputs: tuple[int, ...]
    singles: tuple[int, ...]  # the counters of the items by themselves; none without a window


@dataclass(frozen=True, slots=True)
class Since:
    """Counters of what has come since the first live event of a gap, all of them below zero.

    `nothing` is that of the empty run: -1 while there is such an event. `cleared` are the counters of the single items
    just before the gap, since the last event of it. `undo` is what is to be done for an event of each leaf that is not
    to be among them any more, as it is done when events expire.
    """

    gap: Gap
    live: int  # how many events of the gap are live
    nothing: int
    cleared: tuple[int, ...]
    nodes: tuple[int, ...]
    undo: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class SubPatterns:
    """Counters of a set of chains with one window and one kind of key. Counter 0 is that of the empty sub-pattern.

    `arrivals` and `expiries` are what an event of each leaf does, in the order in which it is done; `weights` are the
    values that it brings. With `totals` the numbers of all keys are added up, else each key has rows of its own.
    """

    leaves: tuple[Leaf, ...]
    chains: tuple[Chain, ...]
    nodes: int
    arrivals: tuple[tuple[Step, ...], ...]
    expiries: tuple[tuple[Step, ...], ...]
    sinces: tuple[Since, ...]
    weights: tuple[tuple[tuple[str, Kind], ...], ...]
    window: int | None
    key: int
    totals: bool


class _Weight(NamedTuple):
    """The item of the sub-pattern whose events bring a value, its attribute, and PRESENT or SUM."""

    place: int
    name: str
    kind: Kind

    def moved(self) -> _Weight:
        """The same without the first item."""
        return self._replace(place=self.place - 1)


class _Part(NamedTuple):
    """What a counter counts: the matches of a run, or (`since` a gap) those whose first event is behind one of it."""

    run: Run
    weight: _Weight | None = None
    since: Gap | None = None


def share_counters(queries: Sequence[Counters]) -> SubPatterns:
    """Counters for chains that have the same window and kind of key."""
    making = _Making(queries[0].window is not None)
    chains = tuple(making.add(counters) for counters in queries)
    return making.finish(queries[0], chains)


def is_total(counters: Counters) -> bool:
    """Whether the numbers of all keys are added up."""
    return bool(counters.leaves[0].key) and not counters.group


def number_leaves(counters: Counters, known: dict[Leaf, int]) -> tuple[tuple[int, ...], tuple[Gap, ...]]:
    """The numbers of the leaves of a chain's items, and of what is absent before each; new ones become known."""

    def number(place: int) -> int:
        return known.setdefault(_leaf(counters, place), len(known))

    leaves = tuple(number(place) for place in counters.chain)
    return leaves, tuple(tuple(sorted({number(place) for place in gap})) for gap in counters.absent)


def join_run(leaves: Sequence[int], gaps: Sequence[Gap]) -> Run:
    """Items with what is absent between them."""
    run: list[int | Gap] = []
    for leaf, gap in zip(leaves, gaps, strict=True):
        run += [gap, leaf] if gap else [leaf]
    return tuple(run)


def runs_of(leaves: Sequence[int], gaps: Sequence[Gap], *, expires: bool) -> Iterator[Run]:
    """The runs that are counted for a chain; one that an absence follows ends with it."""
    for start in range(len(leaves) if expires else 1):
        for stop in range(start + 1, len(leaves) + 1):
            behind = gaps[stop : stop + 1] if stop < len(gaps) and gaps[stop] else ()
            yield (*join_run(leaves[start:stop], ((), *gaps[start + 1 : stop])), *behind)


def _leaf(counters: Counters, place: int) -> Leaf:
    """The leaf of a source. That its key is there need not be asked where each key has rows of its own."""
    source = counters.leaves[place]
    asked = source.filter.expressions
    if not is_total(counters):
        there = {IsNull(Attribute(EVENT, name), negated=True) for name in source.key}
        asked = tuple(one for one in asked if one not in there)
    return Leaf(source.type, Filter(asked), source.key)


class _Making:
    """Leaves, counters and steps in the making."""

    def __init__(self, expires: bool) -> None:
        self._expires = expires
        self._leaves: dict[Leaf, int] = {}
        self._nodes: dict[_Part, int] = {_Part(()): 0}
        self._count = 1
        self._weights: list[dict[tuple[str, Kind], int]] = []
        self._arrivals: list[list[Step]] = []
        self._expiries: list[list[Step]] = []
        self._live: dict[Gap, int] = {}
        self._undo: dict[Gap, list[list[Step]]] = {}

    def add(self, counters: Counters) -> Chain:
        leaves, gaps = number_leaves(counters, self._leaves)
        while len(self._arrivals) < len(self._leaves):
            self._weights.append({})
            self._arrivals.append([])
            self._expiries.append([])
        outputs = []
        for component in counters.components:
            weight: _Weight | None = None
            if component.measure is not None:
                measure = counters.measures[component.measure]
                own = next(k for k, s in enumerate(counters.leaves) if s.variable == measure.variable)
                weight = _Weight(counters.chain.index(own), measure.name, component.kind)
            outputs.append(self._node(_Part(join_run(leaves, gaps), weight)))
        singles = tuple(self._node(_Part((leaf,))) for leaf in leaves) if self._expires else ()
        return Chain(counters, leaves, gaps, tuple(outputs), singles)

    def _node(self, part: _Part) -> int:
        """The counter of a sub-pattern, made with those that it is kept by if need be."""
        if part in self._nodes:
            return self._nodes[part]
        node = self._nodes[part] = self._new()
        match part:
            case _Part((), _, gap) if gap is not None:
                self._begin_since(node, gap)
            case _Part(run, weight, since):
                self._add_arrival(node, run, weight, since)
                if since is not None:
                    self._add_undo(node, run, weight, since)
                elif self._expires:
                    self._add_expiry(node, run, weight)
        return node

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _add_arrival(self, node: int, run: Run, weight: _Weight | None, since: Gap | None) -> None:
        """An event of the last item adds what it can follow; one that must be absent behind it clears all."""
        gap = run[-1]
        if isinstance(gap, tuple):
            run = run[:-1]
            for absent in gap:
                self._arrivals[absent].append(Step(2 * _length(run) + 1, node, node, NEGATED))
        leaf, length = run[-1], _length(run)
        assert isinstance(leaf, int)
        is_own = weight is not None and weight.place == length - 1
        source = self._node(_Part(run[:-1], None if is_own else weight, since))
        self._arrivals[leaf].append(Step(2 * length, node, source, self._column(leaf, weight, is_own)))

    def _add_expiry(self, node: int, run: Run, weight: _Weight | None) -> None:
        """The oldest event, if it is of the first item, takes those with it that it is part of."""
        leaf, rest = run[0], run[1:]
        assert isinstance(leaf, int)
        is_own = weight is not None and weight.place == 0
        after = None if weight is None or is_own else weight.moved()
        step = (2 * _length(run), node)
        column = self._column(leaf, weight, is_own)
        if rest and isinstance(rest[0], tuple):
            gap, rest = rest[0], rest[1:]
            self._expiries[leaf].append(Step(*step, self._node(_Part(rest, after, gap)), column))
        self._expiries[leaf].append(Step(*step, self._node(_Part(rest, after)), column))

    def _add_undo(self, node: int, run: Run, weight: _Weight | None, since: Gap) -> None:
        leaf = run[0]
        assert isinstance(leaf, int)
        is_own = weight is not None and weight.place == 0
        after = None if weight is None or is_own else weight.moved()
        source = self._node(_Part(run[1:], after, since))
        undo = self._undo[since]
        undo += [[] for _ in range(len(self._leaves) - len(undo))]
        undo[leaf].append(Step(2 * _length(run), node, source, self._column(leaf, weight, is_own)))

    def _begin_since(self, node: int, gap: Gap) -> None:
        """Count the live events of a gap. While there are any, what comes is behind the first of them."""
        self._undo[gap] = []
        live = self._live[gap] = self._new()
        for leaf in gap:
            self._arrivals[leaf] += [Step(1, node, node, NEGATED), Step(1, node, 0, NEGATED), Step(1, live, 0)]
            self._expiries[leaf].append(Step(1, live, 0))

    def _column(self, leaf: int, weight: _Weight | None, is_own: bool) -> int:
        if weight is None or not is_own:
            return NO_WEIGHT
        known = self._weights[leaf]
        return known.setdefault((weight.name, weight.kind), len(known))

    def finish(self, first: Counters, chains: tuple[Chain, ...]) -> SubPatterns:
        told = {node for chain in chains for node in chain.outputs}

        def put(steps: Sequence[Step], sign: int) -> tuple[Step, ...]:
            """In the order of ranks; what only counts comes before what is weighted."""
            found = sorted(steps, key=lambda step: (sign * step.rank, step.weight >= 0))
            return tuple(Step(s.rank, s.target, s.source, s.weight, s.target in told) for s in found)

        def since(gap: Gap) -> Since:
            nodes = tuple(node for part, node in self._nodes.items() if part.since == gap)
            undo = self._undo[gap] + [[] for _ in range(len(self._leaves) - len(self._undo[gap]))]
            nothing = self._nodes[_Part((), None, gap)]
            cleared = tuple(n for p, n in self._nodes.items() if len(p.run) == 2 and p.run[1] == gap and not p.weight)
            return Since(gap, self._live[gap], nothing, cleared, nodes, tuple(put(steps, 1) for steps in undo))

        return SubPatterns(
            tuple(self._leaves),
            chains,
            self._count,
            tuple(put(steps, -1) for steps in self._arrivals),
            tuple(put(steps, 1) for steps in self._expiries),
            tuple(since(gap) for gap in self._live),
            tuple(tuple(weights) for weights in self._weights),
            first.window,
            len(first.leaves[0].key),
            is_total(first),
        )


def _length(run: Run) -> int:
    """The items of a run."""
    return sum(isinstance(one, int) for one in run)
