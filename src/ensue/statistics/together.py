"""How often the conditions of several events hold at once, from samples of each.

What is known of pairs says little of four events in a row: where `a.x < b.x` holds for few, those b are large, and
hardly any c is larger still. So all pairs of some sampled events are asked. Where conditions make no circle, the tuples
that pass all of them are counted without making one: each event counts the tuples that end in it, pair by pair, as one
counts the paths of a graph by products of matrices. A few hundred events of each variable make so many tuples that also
what one in 10^12 passes is counted. What passes still more rarely is taken from what is known of its parts.

Tuples come in bursts: one extreme event may be in more of them than all others of its window together. So they are
counted in several windows, each of which says as much as any other, and what was counted before stays in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.statistics.conditions import Pair, Together
from ensue.statistics.estimates import share
from ensue.statistics.sampling import Floats, Mask, Near, near

_TOLD = 1.0
"""So many tuples that pass are added to those that were counted, of as many as it takes by what is known of parts."""
MOST_WINDOWS = 32.0
"""Of how many windows it is the mean at most: as new ones come, those before count less."""

Counts: TypeAlias = npt.NDArray[np.float32]
Pairs: TypeAlias = frozenset[Pair]


def tally(pairs: Mask) -> tuple[Counts, Counts]:
    """How many pairs the event of each row is in, and that of each column; of each window."""
    return np.count_nonzero(pairs, axis=2).astype(np.float32), np.count_nonzero(pairs, axis=1).astype(np.float32)


def extend(counts: Counts, pairs: Mask) -> Counts:
    """From how many tuples end in each event of a variable, and which pairs it is in, how many end in another's events.

    That is the product of the two matrices of each window: of the counts there may be several rows.
    """
    found: Counts = np.einsum("rks,kst->rkt", counts, pairs.astype(np.float32))
    return found


class Arithmetic(NamedTuple):
    """What tuples are counted with: NumPy, or loops that are compiled."""

    near: Near = near
    tally: Callable[[Mask], tuple[Counts, Counts]] = tally
    extend: Callable[[Counts, Mask], Counts] = extend


NUMPY = Arithmetic()


class AllPairs(NamedTuple):
    """Which pairs of two variables could be in one match, and which pass the conditions between them as well.

    There is a matrix for each window, with a row for each event of the first variable and a column for each of the
    second.
    """

    could: Mask
    passed: Mask

    @property
    def turned(self) -> AllPairs:
        """The same with the variables in the other order."""
        return AllPairs(self.could.swapaxes(1, 2), self.passed.swapaxes(1, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """Of tuples over pairs of variables that hang together: the share of those that could be in one match that pass.

    All are arrays with a number for each such set of pairs: the mean share of `windows` windows, how many tuples that
    pass have been `found`, and of how many that could that was (`seen`).
    """

    windows: Floats
    shares: Floats
    found: Floats
    seen: Floats

    @classmethod
    def of(cls, seen: Floats, found: Floats, windows: float = 1.0) -> Tallies:
        """From the numbers of some stretches of so many windows, a row for each.

        One with few tuples says less, one with many not more.
        """
        weights = np.minimum(seen, seen.mean(axis=0))
        total = weights.sum(axis=0)
        sums = (weights * found / np.maximum(seen, 1.0)).sum(axis=0)
        shares = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
        return cls(windows * (seen > 0).sum(axis=0), shares, found.sum(axis=0), seen.sum(axis=0))

    def fade(self, most: float) -> Tallies:
        """The same as if it were of no more than so many windows."""
        return self._scaled(np.minimum(1.0, most / np.maximum(self.windows, 1.0)))

    def then(self, later: Tallies, fresh: float) -> Tallies:
        """These and later ones, of which a share is of windows that are not among these."""
        before, after = self.fade(MOST_WINDOWS), later._scaled(np.float64(fresh))
        windows = before.windows + after.windows
        sums = before.windows * before.shares + after.windows * after.shares
        shares = np.divide(sums, windows, out=np.zeros_like(sums), where=windows > 0)
        return Tallies(windows, shares, before.found + after.found, before.seen + after.seen)

    def _scaled(self, factor: Any) -> Tallies:
        return Tallies(self.windows * factor, self.shares, self.found * factor, self.seen * factor)

    def number(self, place: int) -> tuple[float, float]:
        """How many tuples pass, and of how many, as if all windows had been as dense."""
        found, mean = float(self.found[place]), float(self.shares[place])
        return (found, found / mean) if found > 0 and mean > 0 else (0.0, float(self.seen[place]))

    def dump(self) -> list[list[float]]:
        """As data that JSON can hold."""
        return [one.tolist() for one in (self.windows, self.shares, self.found, self.seen)]

    @classmethod
    def load(cls, data: Sequence[Sequence[float]]) -> Tallies:
        """What `dump` gave."""
        return cls(*(np.array(one, dtype=np.float64) for one in data))


def count_tuples(
    sets: Sequence[Together],
    asked: Mapping[Pair, AllPairs],
    arithmetic: Arithmetic = NUMPY,
    windows: float = 1.0,
) -> Tallies:
    """Count what each estimate rests on: pairs, and all that hangs together in the sets; in stretches of `windows`."""
    counting = _Counting(asked, arithmetic)
    for pair, end, steps in _in_turn(_pairs_of(sets)):
        counting.add(pair, end, steps)
    order = _places(_pairs_of(sets), tuple(sorted(asked)))
    seen, found = (np.array([counting.numbers[part][k] for part in order], np.float64).T for k in range(2))
    return Tallies.of(seen, found, windows)


def estimate_pairs(sets: Sequence[Together], wanted: Iterable[Pair], tallies: Tallies) -> dict[Pairs, float]:
    """The share of pairs that pass, and of all tuples over several pairs that hang together in the sets."""
    places = _places(_pairs_of(sets), tuple(sorted(wanted)))
    shares: dict[Pairs, float] = {frozenset(): 1.0}
    for part, place in places.items():
        if len(part) == 1:
            shares[part] = share(*tallies.number(place)).value
    for pair, _, steps in _in_turn(_pairs_of(sets)):
        for step in steps:
            found, seen = tallies.number(places[step.part])
            shares[step.part] = (found + _TOLD) / (seen + _TOLD / _expect(shares, step, pair))
    return shares


def estimate_together(sets: Sequence[Together], shares: Mapping[Pairs, float]) -> dict[tuple[str, ...], float]:
    """The share of each set's tuples, of those that could be in one match, that pass all that is asked of its pairs."""
    return {one.names: math.prod(shares[part] for part in _parts(one.pairs)) for one in sets}


def _expect(shares: Mapping[Pairs, float], step: _Step, pair: Pair) -> float:
    """The share that passes by what is known of parts, as if its first and last pair had only these in common."""
    rest, other, both = map(shares.get, step[1:])
    assert rest is not None
    if other is None or both is None:
        return rest * shares[frozenset((pair,))]
    return rest * other / both


def _pairs_of(sets: Iterable[Together]) -> frozenset[Pairs]:
    return frozenset(one.pairs for one in sets)


@lru_cache(maxsize=64)
def _places(sets: frozenset[Pairs], wanted: tuple[Pair, ...]) -> dict[Pairs, int]:
    """Where the numbers of what is counted stand in `Tallies`: of each pair, and of what hangs together, in turn."""
    parts = [frozenset((pair,)) for pair in wanted]
    parts += [step.part for _, _, steps in _in_turn(sets) for step in steps]
    return {part: place for place, part in enumerate(parts)}


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
        self.numbers: dict[Pairs, list[Floats]] = {}  # of the tuples that could and that pass, for each window
        self._ends: dict[tuple[Pairs, str], Sequence[Counts]] = {}  # for each event of a variable at an end
        for pair, matrices in asked.items():
            one = frozenset((pair,))
            tallies = [
                arithmetic.tally(m) if m.flags.c_contiguous else arithmetic.tally(m.swapaxes(1, 2))[::-1]
                for m in matrices
            ]
            self.numbers[one] = [rows.sum(axis=1, dtype=np.float64) for rows, _ in tallies]
            for name, counts in zip(pair, zip(*tallies, strict=True), strict=True):
                self._ends[one, name] = counts

    def add(self, pair: Pair, end: str, steps: Sequence[_Step]) -> None:
        """Count what ends with one variable of one and the same pair; what is left without it has been counted."""
        middle = pair[pair[0] == end]
        counted = [self._count(step.rest, middle) for step in steps]
        before = (np.stack(side) for side in zip(*counted, strict=True))
        could, passed = map(self._arithmetic.extend, before, self._ending(pair, end))
        numbers = could.sum(axis=2, dtype=np.float64), passed.sum(axis=2, dtype=np.float64)
        for step, *counts, seen, found in zip(steps, could, passed, *numbers, strict=True):
            self.numbers[step.part] = [seen, found]
            self._ends[step.part, end] = counts

    def _count(self, pairs: Pairs, name: str) -> Sequence[Counts]:
        """For each event of a variable the tuples that it is in."""
        found = self._ends.get((pairs, name))
        if found is None:  # it is in their midst
            found = [np.ones((1, 1), np.float32)] * 2
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
