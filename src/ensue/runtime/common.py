"""Common leaves at work: the events that several queries look at, stored once, with a view of them in each state.

A batch is written here before any query takes it in. A query's state has a head and a tail of its own for each common
leaf: what lies behind the tail has not come yet for it, and what lies before the head has left its window. Rows go when
no view holds them any more, and no window that a new plan might have to look back on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ensue.errors import StateError
from ensue.events.batch import Int64s
from ensue.planning.common import CommonLeaf
from ensue.planning.conditions import Column
from ensue.runtime import layout as at
from ensue.runtime.arena import PADDING, SMALLEST, header
from ensue.runtime.assembly import Assembly, LeafSource, Store
from ensue.runtime.preparing import Reading, prepare

NewRows: TypeAlias = tuple[int, Int64s]
"""The number of a common leaf and rows to append to it, columns by rows."""
View: TypeAlias = tuple[Sequence[Store], Int64s]
"""A state's stores, some of them views of common leaves, and its array."""


class Table:
    """The rows of one common leaf, laid out as in a store."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.tail = 0
        self.base = 0  # absolute position of row 0
        self._words = np.zeros(columns * SMALLEST + PADDING, dtype=np.int64)

    @property
    def capacity(self) -> int:
        """The rows that there is room for."""
        return (len(self._words) - PADDING) // self.columns

    @property
    def nbytes(self) -> int:
        """Memory."""
        return int(self._words.nbytes)

    @property
    def address(self) -> int:
        """Where the first word lies."""
        return int(self._words.__array_interface__["data"][0])

    @property
    def rows(self) -> Int64s:
        """The rows, columns by rows."""
        return self._grid[:, : self.tail]

    @property
    def _grid(self) -> Int64s:
        return self._words[: self.columns * self.capacity].reshape(self.columns, self.capacity)

    def append(self, rows: Int64s) -> None:
        """Append rows that there is room for."""
        stop = self.tail + rows.shape[1]
        self._grid[:, self.tail : stop] = rows
        self.tail = stop

    def drop_front(self, count: int) -> None:
        """Drop the oldest rows."""
        grid = self._grid
        grid[:, : self.tail - count] = grid[:, count : self.tail].copy()
        self.tail -= count
        self.base += count

    def resize(self, capacity: int) -> None:
        """Make it as large as that."""
        rows = self.rows
        self._words = np.zeros(self.columns * capacity + PADDING, dtype=np.int64)
        self._grid[:, : self.tail] = rows

    def load(self, rows: Int64s, base: int) -> None:
        """Take up what was saved."""
        self.base, self.tail = base, 0
        self.resize(_room_for(rows.shape[1]))
        self.append(rows)


class CommonLeaves:
    """The common leaves of an engine's queries."""

    def __init__(self, leaves: Sequence[CommonLeaf] = (), intervals: bool = False) -> None:
        self.leaves = tuple(leaves)
        self.tables = [Table(at.C_FIRST + len(leaf.key.partition) + len(leaf.columns)) for leaf in leaves]
        self.readers = _readers(self.leaves, intervals)

    def __bool__(self) -> bool:
        return bool(self.leaves)

    @property
    def nbytes(self) -> int:
        """Memory of all rows."""
        return sum(table.nbytes for table in self.tables)

    @property
    def oldest_event(self) -> int | None:
        """The least sequence number that is still held."""
        firsts = [int(table.rows[at.LEAF_SEQ, 0]) for table in self.tables if table.tail]
        return min(firsts, default=None)

    @property
    def live_strings(self) -> list[Int64s]:
        """The string codes that are still held."""
        found = []
        for leaf, table in zip(self.leaves, self.tables, strict=True):
            for k, column in enumerate([*leaf.key.partition, *leaf.columns]):
                if column.is_string:
                    found.append(table.rows[at.C_FIRST + k])
        return found

    # -- events ------------------------------------------------------------------------------------------------------
    def take(self, reading: Reading) -> list[NewRows]:
        """The new rows of each leaf that has some."""
        return [rows for reader in self.readers for rows in reader.rows(prepare(reader.assembly, reading).columns)]

    def lacks_room(self, rows: Iterable[NewRows]) -> bool:
        """Whether rows have to be dropped or tables to grow before these can be appended."""
        return any(self.tables[n].tail + new.shape[1] > self.tables[n].capacity for n, new in rows)

    def append(self, rows: Iterable[NewRows]) -> None:
        """Append rows that there is room for."""
        for number, new in rows:
            self.tables[number].append(new)

    # -- views -------------------------------------------------------------------------------------------------------
    def attach(self, arena: Int64s, stores: Iterable[Store]) -> None:
        """Let a state's views point to where the rows lie now."""
        own = int(arena.__array_interface__["data"][0])
        for store in stores:
            if store.shared is not None:
                table = self.tables[store.shared]
                arena[header(store.number) + at.H_OFFSET] = (table.address - own) // 8
                arena[header(store.number) + at.H_CAPACITY] = table.capacity

    def place(self, arena: Int64s, stores: Iterable[Store], first: int | None = None) -> None:
        """Let a new state's views begin at an event, None for the next one."""
        for store in stores:
            if store.shared is not None:
                table = self.tables[store.shared]
                row = table.tail if first is None else int(np.searchsorted(table.rows[at.LEAF_SEQ], first))
                h = header(store.number)
                arena[h + at.H_HEAD] = arena[h + at.H_TAIL] = row
                arena[h + at.H_BASE] = table.base

    def make_room(self, rows: Iterable[NewRows], views: Sequence[View], now: int | None) -> None:
        """Make room for rows: by dropping the oldest if that frees half of a table, else by doubling it."""
        for number, new in rows:
            table = self.tables[number]
            need = new.shape[1]
            if table.tail + need > table.capacity:
                unused = self._unused(number, views, now)
                if 2 * unused >= table.tail:
                    self._drop_front(number, unused, views)
            if table.tail + need > table.capacity:
                table.resize(_room_for(table.tail + need, table.capacity))

    def tidy(self, views: Sequence[View], now: int | None) -> bool:
        """Release rows that nothing needs and memory that is far larger than the rest; whether tables have moved."""
        moved = False
        for number, table in enumerate(self.tables):
            unused = self._unused(number, views, now)
            if unused:
                self._drop_front(number, unused, views)
            capacity = table.capacity
            while capacity > 1024 and capacity > 8 * table.tail:
                capacity //= 2
            if capacity != table.capacity:
                table.resize(capacity)
                moved = True
        return moved

    def _unused(self, number: int, views: Sequence[View], now: int | None) -> int:
        """How many of a leaf's oldest rows no view holds, and no window may look back on."""
        leaf, table = self.leaves[number], self.tables[number]
        if leaf.keep is None or now is None:
            return 0
        count = int(np.searchsorted(table.rows[at.C_END], now - leaf.keep, side="right"))
        for stores, arena in views:
            for store in stores:
                if store.shared == number:
                    count = min(count, int(arena[header(store.number) + at.H_HEAD]))
        return count

    def _drop_front(self, number: int, count: int, views: Sequence[View]) -> None:
        """Drop a leaf's oldest rows; the views move with what is left."""
        self.tables[number].drop_front(count)
        for stores, arena in views:
            for store in stores:
                if store.shared != number:
                    continue
                h = header(store.number)
                if store.key is not None:
                    links = int(arena[h + at.H_LINKS])
                    tail = int(arena[h + at.H_TAIL])
                    arena[links : links + tail - count] = arena[links + count : links + tail].copy()
                arena[h + at.H_HEAD] -= count
                arena[h + at.H_TAIL] -= count
                arena[h + at.H_BASE] += count

    # -- snapshots ---------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[list[dict[str, Any]], list[Int64s]]:
        """The rows as arrays, and where they begin."""
        return [{"base": table.base, "rows": table.tail} for table in self.tables], [
            np.ascontiguousarray(table.rows).reshape(-1) for table in self.tables
        ]

    def load(self, dumped: Sequence[dict[str, Any]], arrays: Sequence[Int64s]) -> None:
        """Take up what `dump` gave."""
        if len(dumped) != len(self.tables):
            raise StateError("the snapshot is of another version of ensue: queries share other events now")
        for table, one, words in zip(self.tables, dumped, arrays, strict=True):
            if len(words) != table.columns * one["rows"]:
                raise StateError("the snapshot is of another version of ensue: shared events have other columns now")
            table.load(words.reshape(table.columns, one["rows"]), one["base"])


class Reader:
    """Leaves of one partition key: how their rows are read from a batch."""

    def __init__(self, leaves: Sequence[tuple[int, CommonLeaf]], intervals: bool) -> None:
        key = leaves[0][1].key
        attributes: dict[Column, None] = dict.fromkeys(key.partition)
        for _, leaf in leaves:
            attributes |= dict.fromkeys(leaf.columns)
        known = list(attributes)
        self.numbers = [number for number, _ in leaves]
        first = [at.T_END, at.T_BEGIN, at.T_POSITION, at.T_KEY, at.T_SEQ]
        first += range(at.T_ATTRIBUTES, at.T_ATTRIBUTES + len(key.partition))
        self.places = [[*first, *(at.T_ATTRIBUTES + known.index(c) for c in leaf.columns)] for _, leaf in leaves]
        self.assembly = Assembly(
            program=np.empty(0, dtype=np.int64),
            stores=(),
            leaves=tuple(LeafSource(leaf.key.type, leaf.key.filter, False, list(leaf.columns)) for _, leaf in leaves),
            attributes=tuple(known),
            partition=key.partition,
            variables=(),
            has_lists=False,
            head=0,
            window=key.longest,
            count_window=None,
            intervals=intervals,
            strings=frozenset(),
            uses_ranks=False,
            string_columns=(),
            seq_columns=(),
            types=tuple(dict.fromkeys(leaf.key.type for _, leaf in leaves)),
        )

    def rows(self, columns: Int64s) -> list[NewRows]:
        """What each leaf takes of prepared events."""
        found = []
        for bit, number in enumerate(self.numbers):
            chosen = np.flatnonzero((columns[at.T_MASK] >> bit) & 1)
            if len(chosen):
                rows = columns[self.places[bit]][:, chosen]
                rows[at.C_POSITION] = 0  # of WITHIN n EVENTS, which no common leaf serves
                found.append((number, rows))
        return found


def _readers(leaves: Sequence[CommonLeaf], intervals: bool) -> list[Reader]:
    groups: dict[tuple[object, object], list[tuple[int, CommonLeaf]]] = {}
    for number, leaf in enumerate(leaves):
        groups.setdefault((leaf.key.partition, leaf.key.longest), []).append((number, leaf))
    return [
        Reader(group[start : start + at.PRESENT_BIT], intervals)
        for group in groups.values()
        for start in range(0, len(group), at.PRESENT_BIT)
    ]


def _room_for(rows: int, capacity: int = SMALLEST) -> int:
    while capacity < rows:
        capacity *= 2
    return capacity
