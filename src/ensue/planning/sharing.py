"""Which AGG queries share counters: a cost model over the rates of events and the lengths of patterns [A-Seq 4].

Queries can share if they have the same window and the same kind of key. What they have in common is then counted once,
and an event is looked at once for all of them. But a key's counters lie together, and a key that is new has to clear
all of them: where there are keys, queries that have little in common are better kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ensue.planning.aggregates import Counters
from ensue.planning.sub_patterns import Leaf, Run, is_total, number_leaves, runs_of

EVENT = 15.0  # ns for an event, about, as the others: what counts is how they compare
KEYED = 25.0  # more to find its key
STEP = 1.3  # ns to change a counter
FRESH = 0.08  # ns an event for each counter of a key: some events are the first of theirs


@dataclass(slots=True, eq=False)
class _Set:
    """Queries that share, by number; their leaves and sub-patterns."""

    queries: list[int] = field(default_factory=list)
    leaves: set[int] = field(default_factory=set)
    parts: set[Run] = field(default_factory=set)
    rate: float = 0.0
    steps: float = 0.0

    def cost(self, keyed: bool) -> float:
        """Nanoseconds for the events of a unit of time."""
        fresh = FRESH * len(self.parts) if keyed else 0.0
        return self.rate * (EVENT + (KEYED + fresh if keyed else 0.0)) + STEP * self.steps

    def take(self, other: _Set, rates: Sequence[float]) -> None:
        """Become this and another one."""
        self.queries += other.queries
        self.rate += sum(rates[leaf] for leaf in other.leaves - self.leaves)
        self.leaves |= other.leaves
        new = other.parts - self.parts
        self.steps += sum(_steps(part, rates) for part in new)
        self.parts |= new

    def added_cost(self, other: _Set, rates: Sequence[float], keyed: bool) -> float:
        """What the queries of another set cost more in this one."""
        new = [part for part in other.parts if part not in self.parts]
        rate = sum(rates[leaf] for leaf in other.leaves if leaf not in self.leaves)
        added = rate * EVENT + STEP * sum(_steps(part, rates) for part in new)
        if keyed:
            fresh = len(new) * (self.rate + rate) + len(self.parts) * rate
            added += rate * KEYED + FRESH * fresh
        return added


def choose_sharing(queries: Sequence[Counters], rates: Mapping[str, float] | None = None) -> list[list[int]]:
    """Sets of queries, by number, that share counters; `rates` are events of each type in some unit of time.

    Each query in turn goes where it costs least, if that is less than what it costs by itself; then each set does, from
    the one with the least queries on.
    """
    found: list[list[int]] = []
    for numbers in _alike(queries).values():
        keyed = bool(queries[numbers[0]].leaves[0].key)
        leaves: dict[Leaf, int] = {}
        singles = [_alone(number, queries[number], leaves) for number in numbers]
        known = [1.0 if rates is None else rates.get(leaf.type, 0.0) for leaf in leaves]
        sets: list[_Set] = []
        for one in singles:
            own = _Set()
            own.take(one, known)
            if not _join(own, sets, known, keyed):
                sets.append(own)
        for one in sorted(sets, key=lambda one: len(one.queries)):
            sets.remove(one)
            if not _join(one, sets, known, keyed):
                sets.append(one)
        found += sorted(sorted(one.queries) for one in sets)
    return found


def _join(one: _Set, sets: Sequence[_Set], rates: Sequence[float], keyed: bool) -> bool:
    """Let a set become part of the one where it costs least; False if it costs less by itself."""
    near = (s for s in sets if not keyed or s.leaves & one.leaves)
    costs = ((s.added_cost(one, rates, keyed), k, s) for k, s in enumerate(near))
    best = min(costs, default=None, key=lambda pair: pair[:2])
    if best is None or best[0] > one.cost(keyed):
        return False
    best[2].take(one, rates)
    return True


def expected_saving(queries: Sequence[Counters], rates: Mapping[str, float] | None = None) -> float:
    """How many times less work a set of queries that share is, by the cost model."""
    leaves: dict[Leaf, int] = {}
    singles = [_alone(number, counters, leaves) for number, counters in enumerate(queries)]
    known = [1.0 if rates is None else rates.get(leaf.type, 0.0) for leaf in leaves]
    keyed = bool(queries[0].leaves[0].key)
    together, apart = _Set(), 0.0
    for one in singles:
        own = _Set()
        own.take(one, known)
        apart += own.cost(keyed)
        together.take(one, known)
    cost = together.cost(keyed)
    return apart / cost if cost else 1.0


def _alike(queries: Sequence[Counters]) -> dict[object, list[int]]:
    """Queries that could share."""
    found: dict[object, list[int]] = {}
    for number, counters in enumerate(queries):
        kind = (counters.window, len(counters.leaves[0].key), is_total(counters))
        found.setdefault(kind, []).append(number)
    return found


def _alone(number: int, counters: Counters, leaves: dict[Leaf, int]) -> _Set:
    """A query by itself."""
    chain, gaps = number_leaves(counters, leaves)
    used = {*chain, *(leaf for gap in gaps for leaf in gap)}
    return _Set([number], used, set(runs_of(chain, gaps, expires=counters.window is not None)))


def _steps(run: Run, rates: Sequence[float]) -> float:
    """How often a counter is changed: by events at either end, or by one that must be absent."""
    ends = [run[0], run[-1], *run[-2:-1]] if isinstance(run[-1], tuple) else [run[0], run[-1]]
    return sum(rates[one] if isinstance(one, int) else sum(rates[leaf] for leaf in one) for one in ends)
