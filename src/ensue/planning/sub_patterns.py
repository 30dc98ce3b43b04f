"""Counters for every sub-pattern of a set of chains, each of them once: what queries share of one another.

A chain is a SEQ of single events. How many matches each run of its items has is enough to keep the number of its own
matches when events come and expire (`kernels.sub_patterns` says how). So a prefix [A-Seq 4.1, PreTree] or a part from
the middle [4.2, Chop-Connect] that several queries have in common is counted once, and connecting parts takes no
snapshots. Without a window nothing expires, and prefixes are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ensue.pattern.expressions import Attribute, IsNull
from ensue.planning.aggregates import Counters, Kind
from ensue.planning.conditions import EVENT, Filter

_Weight: TypeAlias = tuple[int, str, Kind]
"""The place in the sub-pattern whose events bring a value, its attribute, and PRESENT or SUM."""

_Part: TypeAlias = tuple[tuple[int, ...], _Weight | None]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Events that are the same to all queries: their type, what each must satisfy, the attributes of its key."""

    type: str
    filter: Filter
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What an event does to a counter: the number of `source`, times a weight (-1: none), is added or subtracted."""

    length: int
    target: int
    source: int
    weight: int
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """A query: the leaves of its items, and the counter of each of its components."""

    counters: Counters
    leaves: tuple[int, ...]
    outputs: tuple[int, ...]
    singles: tuple[int, ...]  # the counters of the items by themselves; none without a window


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
    weights: tuple[tuple[tuple[str, Kind], ...], ...]
    window: int | None
    key: int
    totals: bool


def share_counters(queries: Sequence[Counters]) -> SubPatterns:
    """Counters for chains that have the same window and kind of key."""
    making = _Making(queries[0].window is not None)
    chains = tuple(making.add(counters) for counters in queries)
    return making.finish(queries[0], chains)


def is_total(counters: Counters) -> bool:
    """Whether the numbers of all keys are added up."""
    return bool(counters.leaves[0].key) and not counters.group


def leaf_of(counters: Counters, place: int) -> Leaf:
    """The leaf of an item. That its key is there need not be asked where each key has rows of its own."""
    source = counters.leaves[counters.chain[place]]
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
        self._nodes: dict[_Part, int] = {((), None): 0}
        self._weights: list[dict[tuple[str, Kind], int]] = []
        self._arrivals: list[list[Step]] = []
        self._expiries: list[list[Step]] = []

    def add(self, counters: Counters) -> Chain:
        leaves = tuple(self._leaf(leaf_of(counters, place)) for place in range(len(counters.chain)))
        outputs = []
        for component in counters.components:
            weight: _Weight | None = None
            if component.measure is not None:
                measure = counters.measures[component.measure]
                own = next(k for k, s in enumerate(counters.leaves) if s.variable == measure.variable)
                weight = (counters.chain.index(own), measure.name, component.kind)
            outputs.append(self._node((leaves, weight)))
        singles = tuple(self._node(((leaf,), None)) for leaf in leaves) if self._expires else ()
        return Chain(counters, leaves, tuple(outputs), singles)

    def _leaf(self, leaf: Leaf) -> int:
        found = self._leaves.setdefault(leaf, len(self._leaves))
        if found == len(self._arrivals):
            self._weights.append({})
            self._arrivals.append([])
            self._expiries.append([])
        return found

    def _node(self, part: _Part) -> int:
        """The counter of a sub-pattern, made with those that it is kept by if need be."""
        if part in self._nodes:
            return self._nodes[part]
        leaves, weight = part
        node = self._nodes[part] = len(self._nodes)
        last = weight is not None and weight[0] == len(leaves) - 1
        source = self._node((leaves[:-1], None if last else weight))
        self._arrivals[leaves[-1]].append(Step(len(leaves), node, source, self._column(leaves[-1], weight, last)))
        if self._expires:
            first = weight is not None and weight[0] == 0
            rest = None if weight is None or first else (weight[0] - 1, *weight[1:])
            source = self._node((leaves[1:], rest))
            self._expiries[leaves[0]].append(Step(len(leaves), node, source, self._column(leaves[0], weight, first)))
        return node

    def _column(self, leaf: int, weight: _Weight | None, is_own: bool) -> int:
        if weight is None or not is_own:
            return -1
        known = self._weights[leaf]
        return known.setdefault(weight[1:], len(known))

    def finish(self, first: Counters, chains: tuple[Chain, ...]) -> SubPatterns:
        told = {node for chain in chains for node in chain.outputs}

        def put(steps: Sequence[Step], sign: int) -> tuple[Step, ...]:
            """In the order of lengths; what only counts comes before what is weighted."""
            found = sorted(steps, key=lambda step: (sign * step.length, step.weight >= 0))
            return tuple(Step(s.length, s.target, s.source, s.weight, s.target in told) for s in found)

        return SubPatterns(
            tuple(self._leaves),
            chains,
            len(self._nodes),
            tuple(put(steps, -1) for steps in self._arrivals),
            tuple(put(steps, 1) for steps in self._expiries),
            tuple(tuple(weights) for weights in self._weights),
            first.window,
            len(first.leaves[0].key),
            is_total(first),
        )
