"""How often the conditions of several events hold at once, from samples of each.

What is known of pairs says little of four events in a row: where `a.x < b.x` holds for few, those b are large, and
hardly any c is larger still. So all pairs of some sampled events are asked. Where conditions make no circle, the tuples
that pass all of them are counted without making one: each event counts the tuples that end in it, pair by pair, as one
counts the paths of a graph by products of matrices. A few hundred events of each variable make so many tuples that also
what one in 10^12 passes is counted. What passes still more rarely is taken from what is known of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.statistics.conditions import Pair, Together
from ensue.statistics.estimates import Estimate, share
from ensue.statistics.sampling import Mark, Mask, mark

_TOLD = 1.0
"""So many tuples that pass are added to those that were counted, of as many as it takes by what is known of parts."""

Counts: TypeAlias = npt.NDArray[np.float32]
Pairs: TypeAlias = frozenset[Pair]


def tally(pairs: Mask) -> tuple[Counts, Counts]:
    """How many pairs the event of each row is in, and that of each column."""
    return np.count_nonzero(pairs, axis=1).astype(np.float32), np.count_nonzero(pairs, axis=0).astype(np.float32)


def extend(counts: Counts, pairs: Mask) -> Counts:
    """From how many tuples end in each event of a variable, and which pairs it is in, how many end in another's events.

    That is the product of the two matrices: of the counts there may be several rows.
    """
    found: Counts = counts @ pairs.astype(np.float32)
    return found


class Arithmetic(NamedTuple):
    """What tuples are counted with: NumPy, or loops that are compiled."""

    mark: Mark = mark
    tally: Callable[[Mask], tuple[Counts, Counts]] = tally
    extend: Callable[[Counts, Mask], Counts] = extend


NUMPY = Arithmetic()


class AllPairs(NamedTuple):
    """Which pairs of two variables could be in one match, and which pass the conditions between them as well.

    There is a row for each event of the first variable and a column for each of the second.
    """

    could: Mask
    passed: Mask

    @property
    def share(self) -> Estimate:
        """The share of those that could be in one match that pass, as if pairs had nothing to do with each other."""
        return share(float(np.count_nonzero(self.passed)), float(np.count_nonzero(self.could)))

    @property
    def turned(self) -> AllPairs:
        """The same with the variables in the other order."""
        return AllPairs(self.could.T, self.passed.T)


def estimate_together(
    sets: Iterable[Together], asked: Mapping[Pair, AllPairs], arithmetic: Arithmetic = NUMPY
) -> dict[tuple[str, ...], float]:
    """The share of each set's tuples, of those that could be in one match, that pass all that is asked of its pairs."""
    counting = _Counting(asked, arithmetic)
    sets = list(sets)
    for pair, end, steps in _in_turn(frozenset(one.pairs for one in sets)):
        counting.add(pair, end, steps)
    return {one.names: math.prod(counting.shares[part] for part in _parts(one.pairs)) for one in sets}


class _Step(NamedTuple):
    """What hangs together, what is left of it without its last pair, without its first one, and without either."""

    part: Pairs
    rest: Pairs
    other: Pairs
    both: Pairs


@lru_cache(maxsize=64)
def _in_turn(sets: frozenset[Pairs]) -> list[tuple[Pair, str, list[_Step]]]:
    """What hangs together in some sets, and all that is left of it without its last pair: smaller ones first.

    Those of one size are put together by their last pair and the variable of it that is new.
    """
    found: set[Pairs] = set()
    new = {part for pairs in sets for part in _parts(pairs)}
    while new:
        found |= new
        new = {part - {_last_pair(part)} for part in new if len(part) > 1} - found
    in_turn = []
    for part in found:
        if len(part) > 1:
            last = _last_pair(part)
            (end,) = set(last).difference(*(part - {last}))
            in_turn.append((len(part), last, end, sorted(part), part))
    by_end = groupby(sorted(in_turn), lambda one: one[:3])
    return [(pair, end, [_step(part, pair) for *_, part in some]) for (_, pair, end), some in by_end]


def _step(part: Pairs, last: Pair) -> _Step:
    first = min(_end_pairs(part) - {last})
    return _Step(part, part - {last}, part - {first}, part - {last, first})


class _Counting:
    """Counts tuples over pairs of variables that hang together: those that could be in a match, and those that pass."""

    def __init__(self, asked: Mapping[Pair, AllPairs], arithmetic: Arithmetic) -> None:
        self._asked = asked
        self._arithmetic = arithmetic
        self._matrices: dict[tuple[Pair, str], list[Mask]] = {}
        self.shares: dict[Pairs, float] = {frozenset(): 1.0}  # of the tuples that could, those that pass
        self._ends: dict[tuple[Pairs, str], Sequence[Counts]] = {}  # for each event of a variable at an end
        for pair, matrices in asked.items():
            one = frozenset((pair,))
            self.shares[one] = matrices.share.value
            tallies = [arithmetic.tally(m) if m.flags.c_contiguous else arithmetic.tally(m.T)[::-1] for m in matrices]
            for name, counts in zip(pair, zip(*tallies, strict=True), strict=True):
                self._ends[one, name] = counts

    def add(self, pair: Pair, end: str, steps: Sequence[_Step]) -> None:
        """Count what ends with one variable of one and the same pair; what is left without it has been counted."""
        middle = pair[pair[0] == end]
        counted = [self._count(step.rest, middle) for step in steps]
        before = (np.concatenate(side).reshape(len(steps), -1) for side in zip(*counted, strict=True))
        could, passed = map(self._arithmetic.extend, before, self._ending(pair, end))
        numbers = could.sum(axis=1).tolist(), passed.sum(axis=1).tolist()
        for step, *counts, seen, found in zip(steps, could, passed, *numbers, strict=True):
            self.shares[step.part] = (found + _TOLD) / (seen + _TOLD / self._expect(step, pair))
            self._ends[step.part, end] = counts

    def _expect(self, step: _Step, pair: Pair) -> float:
        """The share that passes by what is known of parts, as if its first and last pair had only these in common."""
        rest, other, both = map(self.shares.get, step[1:])
        assert rest is not None
        if other is None or both is None:
            return rest * self.shares[frozenset((pair,))]
        return rest * other / both

    def _count(self, pairs: Pairs, name: str) -> Sequence[Counts]:
        """For each event of a variable the tuples that it is in."""
        found = self._ends.get((pairs, name))
        if found is None:  # it is in their midst
            found = [np.ones(1, np.float32)] * 2
            for pair in sorted(pair for pair in pairs if name in pair):
                other = pair[pair[0] == name]
                ways = self._ends[frozenset((pair,)), name]
                if beyond := _reached(pairs - {pair}, other):
                    both = zip(self._count(beyond, other), self._ending(pair, name), strict=True)
                    ways = [self._arithmetic.extend(counts[None], matrix)[0] for counts, matrix in both]
                found = [one * way for one, way in zip(found, ways, strict=True)]
            self._ends[pairs, name] = found
        return found

    def _ending(self, pair: Pair, name: str) -> list[Mask]:
        """The pairs of two variables, with the events of one of them as columns."""
        found = self._matrices.get((pair, name))
        if found is None:
            asked = self._asked[pair] if pair[1] == name else self._asked[pair].turned
            found = self._matrices[pair, name] = list(map(np.ascontiguousarray, asked))
        return found


@lru_cache(maxsize=4096)
def _parts(pairs: Pairs) -> tuple[Pairs, ...]:
    """What hangs together of some pairs."""
    parts: list[Pairs] = []
    left = pairs
    while left:
        parts.append(_reached(left, min(left)[0]))
        left -= parts[-1]
    return tuple(parts)


def _last_pair(pairs: Pairs) -> Pair:
    """The last of some pairs that is an end of what they make: one of its variables is in no other.

    >>> _last_pair(frozenset([("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("d", "f"), ("e", "g")]))
    ('e', 'g')
    >>> _last_pair(frozenset([("a", "d"), ("b", "c"), ("c", "d")]))
    ('a', 'd')
    """
    return max(_end_pairs(pairs), key=lambda pair: pair[::-1])


def _end_pairs(pairs: Pairs) -> set[Pair]:
    names = [name for pair in pairs for name in pair]
    return {pair for pair in pairs if min(map(names.count, pair)) == 1}


@lru_cache(maxsize=4096)
def _reached(pairs: Pairs, start: str) -> Pairs:
    """Those of some pairs that hang together with a variable."""
    found: set[Pair] = set()
    names, size = {start}, -1
    while len(found) > size:
        size = len(found)
        found |= {pair for pair in pairs if not names.isdisjoint(pair)}
        names.update(*found)
    return frozenset(found)
