"""Relations of tuples that a rule keeps: rows of int64 in the order of arrival, with an index over some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.planning.rules import Lifetime
from ensue.rules.reasoner import Constraint, Point

Int64s = npt.NDArray[np.int64]
Rows: TypeAlias = Int64s
"""A matrix, a row a tuple; column 0 is the arrival: the latest end among the tuple's events."""

FOREVER = 2**62
"""Longer than any stream."""

_FOUND_AT_ONCE = 1 << 16
_SMALLEST = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the values of a tuple lie: the begins and ends of events (by point), and variables (by name)."""

    points: Mapping[Point, int]
    variables: Mapping[str, int]

    @property
    def width(self) -> int:
        """The number of columns, the arrival included."""
        return 1 + len(self.points) + len(self.variables)

    def places_of(self, other: Layout) -> list[tuple[int, int]]:
        """Where the points and variables of another layout lie: the place here, and that in the other."""
        points = [(self.points[point], place) for point, place in other.points.items() if point in self.points]
        variables = [(self.variables[name], place) for name, place in other.variables.items() if name in self.variables]
        return points + variables

    @classmethod
    def of(cls, events: Sequence[str], variables: Sequence[str]) -> Layout:
        """A layout for events and variables, in this order."""
        points = [(event, kind) for event in events for kind in ("begin", "end")]
        return cls(
            {point: 1 + k for k, point in enumerate(points)},
            {name: 1 + len(points) + k for k, name in enumerate(variables)},
        )


class Pasting:
    """Puts rows side by side: the events of both, and the variables, which are equal where both have them."""

    def __init__(self, left: Layout, right: Layout) -> None:
        events = [point[0] for layout in (left, right) for point in layout.points if point[1] == "end"]
        self.layout = Layout.of(events, list(dict.fromkeys((*left.variables, *right.variables))))
        self._from_left = self.layout.places_of(left)
        self._from_right = [pair for pair in self.layout.places_of(right) if pair[0] not in dict(self._from_left)]

    def paste(self, left: Rows, right: Rows) -> Rows:
        """The rows of both sides, the first beside the first, and so on."""
        rows = np.empty((len(left), self.layout.width), dtype=np.int64)
        np.maximum(left[:, 0], right[:, 0], out=rows[:, 0])
        for place, column in self._from_left:
            rows[:, place] = left[:, column]
        for place, column in self._from_right:
            rows[:, place] = right[:, column]
        return rows


class Relation:
    """Rows that are kept for joins to come. Those that no longer matter are dropped when they are half of all."""

    def __init__(self, layout: Layout, key: Sequence[str], lifetime: Lifetime, *, is_stored: bool) -> None:
        self.layout = layout
        self.is_stored = is_stored
        self.columns: Int64s = np.array([layout.variables[name] for name in key], dtype=np.int64)
        longest = lifetime.longest
        self.life = FOREVER if longest is None else longest
        self._needs = [
            [(layout.points[moment.point], moment.offset) for moment in need] for need in lifetime.needs or ()
        ]
        self._forgets = lifetime.needs is not None
        self.rows: Rows = np.empty((_SMALLEST, layout.width), dtype=np.int64)
        self.count = 0
        self.head: Int64s = np.full(2 * _SMALLEST if len(self.columns) else 1, -1, dtype=np.int64)
        self.previous: Int64s = np.empty(_SMALLEST, dtype=np.int64)
        self._looked = _SMALLEST

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Memory that is held."""
        return self.rows.nbytes + self.head.nbytes + self.previous.nbytes

    def stage(self, new: Rows) -> int:
        """Put new rows behind the others, not in the index yet; the place behind the last."""
        total = self.count + len(new)
        if total > len(self.rows):
            size = max(total, 2 * len(self.rows))
            rows = np.empty((size, self.layout.width), dtype=np.int64)
            rows[: self.count] = self.rows[: self.count]
            self.rows = rows
            previous = np.empty(size, dtype=np.int64)
            previous[: self.count] = self.previous[: self.count]
            self.previous = previous
            if len(self.columns):
                self._index(1 << int(2 * size - 1).bit_length())
        self.rows[self.count : total] = new
        return total

    def settle(self, total: int) -> None:
        """Keep what was staged, if it is to be kept; a join has put it into the index."""
        if self.is_stored:
            self.count = total

    def add(self, new: Rows) -> None:
        """Keep new rows at once."""
        from ensue.runtime.kernels.relations import index_rows

        total = self.stage(new)
        index_rows(self.rows, self.count, total, self.columns, self.head, self.previous)
        self.count = total

    def forget(self, now: int | None) -> None:
        """Drop the rows that no event from `now` on can need (None: the input has ended)."""
        if now is not None and (not self._forgets or self.count < self._looked):
            return
        alive = np.zeros(self.count, dtype=np.bool_)
        if now is not None:
            alive = self._until(self.rows[: self.count]) >= now
        kept = int(alive.sum())
        if 2 * kept <= self.count:
            self.replace(self.rows[: self.count][alive])
        self._looked = max(_SMALLEST, 2 * self.count)

    def live(self, now: int) -> int:
        """How many rows may still be needed."""
        if not self._forgets:
            return self.count
        return int((self._until(self.rows[: self.count]) >= now).sum())

    def _until(self, rows: Rows) -> Int64s:
        until = np.full(len(rows), -FOREVER, dtype=np.int64)
        for need in self._needs:
            soonest = np.full(len(rows), FOREVER, dtype=np.int64)
            for column, offset in need:
                np.minimum(soonest, rows[:, column] + offset, out=soonest)
            np.maximum(until, soonest, out=until)
        return until

    def replace(self, rows: Rows) -> None:
        """Hold these rows and no others."""
        size = max(_SMALLEST, 2 * len(rows))
        self.rows = np.empty((size, self.layout.width), dtype=np.int64)
        self.rows[: len(rows)] = rows
        self.previous = np.empty(size, dtype=np.int64)
        self.count = len(rows)
        self._index((1 << int(2 * size - 1).bit_length()) if len(self.columns) else 1)

    def _index(self, buckets: int) -> None:
        from ensue.runtime.kernels.relations import index_rows

        self.head = np.full(buckets, -1, dtype=np.int64)
        index_rows(self.rows, 0, self.count, self.columns, self.head, self.previous)


@dataclass(frozen=True, slots=True)
class Pairing:
    """What two rows must have in common, as columns: see `kernels.relations.join_rows`."""

    equal: Int64s
    most: Int64s

    @classmethod
    def of(cls, left: Layout, right: Layout, variables: Sequence[str], constraints: Sequence[Constraint]) -> Pairing:
        """Equal variables, and constraints each of which speaks of both sides."""
        equal = [[left.variables[name], right.variables[name]] for name in variables]
        most = []
        for one in constraints:
            if one.left in left.points:
                most.append([1, left.points[one.left], right.points[one.right], one.most])
            else:
                most.append([0, left.points[one.right], right.points[one.left], one.most])
        return cls(
            np.array(equal, dtype=np.int64).reshape(-1, 2),
            np.array(most, dtype=np.int64).reshape(-1, 4),
        )


def join(left: Relation, left_new: Rows, right: Relation, right_new: Rows, pairing: Pairing) -> tuple[Rows, Rows]:
    """The pairs of rows that new rows make with old ones and each other, in the order of time; the new are kept."""
    pairs = find_pairs(left, left_new, right, right_new, pairing)
    return left.rows[pairs[:, 0]], right.rows[pairs[:, 1]]


def find_pairs(
    left: Relation, left_new: Rows, right: Relation, right_new: Rows, pairing: Pairing, *, first_only: bool = False
) -> Int64s:
    """As `join`, but the places of both rows of each pair: good until one of the relations drops or takes rows.

    With `first_only` a row of the left has one partner at most.
    """
    from ensue.runtime.kernels.relations import C_FOUND, C_LEFT, C_RIGHT, C_SIZE, join_rows

    left_total, right_total = left.stage(left_new), right.stage(right_new)
    room = min(_FOUND_AT_ONCE, 256 + 4 * (len(left_new) + len(right_new)))
    cursor = np.zeros(C_SIZE, dtype=np.int64)
    cursor[C_LEFT], cursor[C_RIGHT] = left.count, right.count
    parts: list[Int64s] = []
    done = False
    while not done:
        found = np.empty((room, 2), dtype=np.int64)
        done = join_rows(
            left.rows,
            left_total,
            left.columns,
            left.head,
            left.previous,
            left.is_stored,
            left.life,
            right.rows,
            right_total,
            right.columns,
            right.head,
            right.previous,
            right.is_stored,
            right.life,
            pairing.equal,
            pairing.most,
            first_only,
            cursor,
            found,
        )
        parts.append(found[: cursor[C_FOUND]])
        room = min(2 * room, _FOUND_AT_ONCE)
    left.settle(left_total)
    right.settle(right_total)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def mark_distinct(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows equal none before them."""
    from ensue.runtime.kernels.relations import mark_distinct as mark

    head = np.full(1 << int(2 * len(rows)).bit_length(), -1, dtype=np.int64)
    previous = np.empty(len(rows), dtype=np.int64)
    is_new = np.empty(len(rows), dtype=np.bool_)
    mark(rows, np.arange(rows.shape[1]), head, previous, is_new)
    return is_new
