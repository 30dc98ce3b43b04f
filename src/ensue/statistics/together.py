"""How often the conditions of several events hold at once, from samples of each.

What is known of pairs says little of four events in a row: where `a.x < b.x` holds for few, those b are large, and
hardly any c is larger still. So all pairs of some sampled events are asked. Where conditions make no circle, the tuples
that pass all of them are counted without making one: each event counts the tuples that end in it, pair by pair, as one
counts the paths of a graph by products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.statistics.conditions import Pair, Together
from ensue.statistics.sampling import Floats, Mask, estimate_joint

_ALONE = 0.003
"""What `estimate_joint` adds to events that pass: of several conditions in a row they are few, and tell much."""

Counts: TypeAlias = npt.NDArray[np.float32]
Pairs: TypeAlias = frozenset[Pair]


class AllPairs(NamedTuple):
    """Which pairs of two variables could be in one match, and which pass the conditions between them as well.

    There is a row for each event of the first variable and a column for each of the second.
    """

    could: Mask
    passed: Mask

    @property
    def share(self) -> float:
        """The share of the pairs that could be in one match that pass."""
        return int(np.count_nonzero(self.passed)) / max(int(np.count_nonzero(self.could)), 1)

    @property
    def turned(self) -> AllPairs:
        """The same with the variables in the other order."""
        return AllPairs(self.could.T, self.passed.T)


def estimate_together(sets: Iterable[Together], asked: Mapping[Pair, AllPairs]) -> dict[tuple[str, ...], float]:
    """How many times as often the conditions of each set hold as the product of the shares of its pairs says.

    One pair after the other is taken away at an end of what they make, and it is asked how its share goes with what is
    left, at the event between the two.
    """
    counting = _Counting(asked)
    sets = list(sets)
    for pair, parts in _in_turn(frozenset(one.pairs for one in sets)):
        counting.add(pair, parts)
    return {one.names: math.prod(counting.ratios[part] for part in _parts(one.pairs)) for one in sets}


@lru_cache(maxsize=64)
def _in_turn(sets: frozenset[Pairs]) -> list[tuple[Pair, list[Pairs]]]:
    """What hangs together in some sets, and all that is left of it without its last pair: smaller ones first.

    Those of one size are put together by their last pair.
    """
    found: set[Pairs] = set()
    new = {part for pairs in sets for part in _parts(pairs)}
    while new:
        found |= new
        new = {part - {_last_pair(part)} for part in new if len(part) > 1} - found
    in_turn = sorted((len(part), _last_pair(part), sorted(part), part) for part in found if len(part) > 1)
    return [(pair, [part for *_, part in some]) for (_, pair), some in groupby(in_turn, lambda one: one[:2])]


class _Counting:
    """Counts tuples over pairs of variables that hang together: those that could be in a match, and those that pass."""

    def __init__(self, asked: Mapping[Pair, AllPairs]) -> None:
        self._asked = asked
        self.ratios: dict[Pairs, float] = {}
        self._ends: dict[tuple[Pairs, str], tuple[Counts, Counts]] = {}  # for each event of a variable at an end
        for pair in asked:
            could, passed = self._matrices(pair)
            one = frozenset((pair,))
            self.ratios[one] = 1.0
            self._ends[one, pair[0]] = could.sum(axis=1), passed.sum(axis=1)
            self._ends[one, pair[1]] = could.sum(axis=0), passed.sum(axis=0)

    def add(self, pair: Pair, parts: Sequence[Pairs]) -> None:
        """Count what ends with one and the same pair; what is left without it has been counted."""
        could, passed = self._matrices(pair)
        for middle, end, matrices in ((*pair, (could, passed)), (*pair[::-1], (could.T, passed.T))):
            some = [part for part in parts if any(middle in one for one in part if one != pair)]
            if not some:
                continue
            rests = [part - {pair} for part in some]
            before = [np.stack([self._count(rest, middle)[k] for rest in rests]) for k in (0, 1)]
            joints = estimate_joint(_share(*before), _share(*self._ends[frozenset((pair,)), middle]), _ALONE)
            after = [counts @ matrix for counts, matrix in zip(before, matrices, strict=True)]
            for part, rest, joint, *counts in zip(some, rests, joints, *after, strict=True):
                self.ratios[part] = self.ratios[rest] * (1.0 if np.isnan(joint) else float(joint))
                self._ends[part, end] = counts[0], counts[1]

    def _count(self, pairs: Pairs, name: str) -> tuple[Counts, Counts]:
        """For each event of a variable the tuples that it is in."""
        found = self._ends.get((pairs, name))
        if found is None:  # it is in their midst
            could = passed = np.ones(1, np.float32)
            for pair in sorted(pair for pair in pairs if name in pair):
                other = pair[pair[0] == name]
                ways = self._ends[frozenset((pair,)), name]
                if beyond := _reached(pairs - {pair}, other):
                    both = self._matrices(pair)
                    if pair[0] == name:
                        both = both[0].T, both[1].T
                    before = self._count(beyond, other)
                    ways = before[0] @ both[0], before[1] @ both[1]
                could, passed = could * ways[0], passed * ways[1]
            found = self._ends[pairs, name] = could, passed
        return found

    def _matrices(self, pair: Pair) -> tuple[Counts, Counts]:
        """The pairs of two variables as numbers: kept, they would take four times the room."""
        asked = self._asked[pair]
        return asked.could.astype(np.float32), asked.passed.astype(np.float32)


def _share(could: Counts, passed: Counts) -> Floats:
    found = np.full(could.shape, np.nan)
    np.divide(passed, could, out=found, where=could > 0)
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
    names = [name for pair in pairs for name in pair]
    return max((pair for pair in pairs if min(map(names.count, pair)) == 1), key=lambda pair: pair[::-1])


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
