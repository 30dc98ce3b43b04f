"""The evaluator that counts: an AGG query's machine of columns as arrays, its state, and its rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ensue.events.batch import Int64s
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.normalize import Branch
from ensue.pattern.query import PatternAggregate, Query
from ensue.planning.aggregates import Component, Counters, Kind, Measure, Method
from ensue.planning.conditions import Column
from ensue.runtime import layout as at
from ensue.runtime.aggregate_rows import AggregateBlock, no_rows
from ensue.runtime.aggregate_values import attribute_column, decode_words, key_words, read_value, refuse_rows
from ensue.runtime.assembly import Assembly, LeafSource
from ensue.runtime.evaluator import NO_RANKS
from ensue.runtime.kernels import counting_layout as lay
from ensue.runtime.preparing import Reading, prepare
from ensue.runtime.strings import StringTable

_ROWS = 1 << 12
_LARGEST = 1 << 16
_ROOMS = (lay.H_SLOT_ROOM, lay.H_GROUP_ROOM, lay.H_ENTRY_ROOM, lay.H_START_ROOM)
_LACKING = {
    lay.NEED_SLOTS: lay.H_SLOT_ROOM,
    lay.NEED_GROUPS: lay.H_GROUP_ROOM,
    lay.NEED_ENTRIES: lay.H_ENTRY_ROOM,
    lay.NEED_STARTS: lay.H_START_ROOM,
}
_LISTS = {lay.H_DIRTY: lay.H_DIRTY_AT, lay.H_TOUCHED: lay.H_TOUCHED_AT}


class _Ring(NamedTuple):
    """Where the header has what is known of a ring, and the program its width."""

    room: int
    head: int
    tail: int
    width: int


_ENTRIES = _Ring(lay.H_ENTRY_ROOM, lay.H_ENTRY_HEAD, lay.H_ENTRY_TAIL, lay.P_ENTRY_WIDTH)
_STARTS = _Ring(lay.H_START_ROOM, lay.H_START_HEAD, lay.H_START_TAIL, lay.P_START_WIDTH)
_METHODS = {
    Method.PREFIX: lay.PREFIX,
    Method.PER_START: lay.PER_START,
    Method.INVERSE: lay.INVERSE,
    Method.STACKS: lay.STACKS,
    Method.LINKED: lay.LINKED,
}


_OPERATORS = {"=": at.EQ, "!=": at.NE, "<": at.LT, "<=": at.LE, ">": at.GT, ">=": at.GE}


@dataclass(slots=True)
class CountingState:
    """What is counted so far, and the rows of the last time, which may get more: they wait until time has passed it."""

    counts: Int64s  # see `counting_layout`
    held: Int64s  # columns by rows
    shed_matches: int = 0
    shed_partial: int = 0

    @property
    def arena(self) -> Int64s:
        """All of it as one array."""
        sizes = np.array([len(self.counts), *self.held.shape], dtype=np.int64)
        return np.concatenate([sizes, self.counts, self.held.reshape(-1)])

    @classmethod
    def load(cls, arena: Int64s, shed: Sequence[int]) -> CountingState:
        """The state of which `arena` was told."""
        size, columns, rows = arena[:3].tolist()
        return cls(arena[3 : 3 + size].copy(), arena[3 + size :].reshape(columns, rows).copy(), *shed)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.counts.nbytes + self.held.nbytes


@dataclass(frozen=True, slots=True)
class CountingEvaluator:
    """An AGG query with its machine, ready to count."""

    query: Query
    name: str
    branches: tuple[Branch, ...]
    plan: Method
    schema: Schema
    options: Options
    counters: Counters
    strings: StringTable
    assembly: Assembly
    key_columns: tuple[Column, ...]
    seconds: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def make(
        cls,
        query: Query,
        branches: tuple[Branch, ...],
        method: Method,
        counters: Counters,
        schema: Schema,
        strings: StringTable,
        options: Options,
    ) -> CountingEvaluator:
        """Lay out the machine of a query."""
        keys: dict[str, Column] = {}
        for source in counters.leaves:
            for name in source.key:
                keys.setdefault(name, attribute_column(name, schema))
        brought = [*(m.name for m in counters.measures), *counters.link_names]
        columns = [*keys.values(), *(attribute_column(name, schema) for name in brought)]
        assembly = Assembly(
            program=_write_program(query, method, counters, list(keys)),
            stores=(),
            leaves=tuple(LeafSource(s.type, s.filter, False, []) for s in counters.leaves),
            attributes=tuple(columns),
            partition=(),
            variables=(),
            has_lists=False,
            head=1,
            window=counters.window,
            count_window=None,
            intervals=False,
            strings=frozenset(),
            uses_ranks=False,
            string_columns=(),
            seq_columns=(),
            types=tuple(dict.fromkeys(s.type for s in counters.leaves)),
        )
        name = query.name or "q1"
        return cls(query, name, branches, method, schema, options, counters, strings, assembly, tuple(keys.values()))

    @property
    def query_names(self) -> tuple[str, ...]:
        """The query's name."""
        return (self.name,)

    @property
    def uses_ranks(self) -> bool:
        """Texts are compared by order in filters alone."""
        return False

    # -- state -------------------------------------------------------------------------------------------------------
    @property
    def digest(self) -> str:
        """A name for the laid out machine: states of equal digest fit each other's evaluators."""
        return hashlib.blake2b(self.assembly.program.tobytes(), digest_size=16).hexdigest()

    def new_state(self) -> CountingState:
        """The state before the first event."""
        return CountingState(self._lay_out(dict.fromkeys(_ROOMS, 16)), self._no_rows())

    def _lay_out(self, rooms: Mapping[int, int]) -> Int64s:
        """An empty state with room for so many slots, groups, entries and starts."""
        P = self.assembly.program
        n, cell = int(P[lay.P_COLUMNS]), int(P[lay.P_CELL])
        slots, groups = rooms[lay.H_SLOT_ROOM], rooms[lay.H_GROUP_ROOM]
        sizes = {
            lay.H_SLOT_AT: slots * int(P[lay.P_SLOT_WIDTH]),
            lay.H_SLOT_INDEX: 2 * slots,
            lay.H_GROUP_AT: groups * int(P[lay.P_GROUP_WIDTH]),
            lay.H_GROUP_INDEX: 2 * groups,
            lay.H_ENTRY_AT: rooms[lay.H_ENTRY_ROOM] * int(P[lay.P_ENTRY_WIDTH]),
            lay.H_START_AT: rooms[lay.H_START_ROOM] * int(P[lay.P_START_WIDTH]),
            lay.H_DIRTY_AT: slots,
            lay.H_TOUCHED_AT: groups,
            lay.H_KEYS_AT: int(P[lay.P_KEY] + P[lay.P_GROUP]),
            lay.H_WEIGHTS_AT: int(P[lay.P_MEASURES] + P[lay.P_LINKS]),
            lay.H_CELL_AT: max(n, cell),
            lay.H_VALUE_AT: 2 * int(P[lay.P_COMPONENTS]),
            lay.H_WORK_AT: n * (n + 1) // 2 * cell,
        }
        counts = np.zeros(lay.HEADER + sum(sizes.values()), dtype=np.int64)
        place = lay.HEADER
        for name, size in sizes.items():
            counts[name] = place
            place += size
        for name, room in rooms.items():
            counts[name] = room
        for name in (lay.H_SLOT_INDEX, lay.H_GROUP_INDEX):
            counts[counts[name] : counts[name] + sizes[name]] = -1
        counts[lay.H_FREE_SLOT] = counts[lay.H_FREE_GROUP] = -1
        return counts

    def _no_rows(self) -> Int64s:
        return np.empty((at.T_ATTRIBUTES + len(self.assembly.attributes), 0), dtype=np.int64)

    def load_state(self, arena: Int64s, shed: Sequence[int]) -> CountingState:
        """The state of which `arena` was told."""
        return CountingState.load(arena, shed)

    # -- events ------------------------------------------------------------------------------------------------------
    def ranks(self, strings: StringTable) -> Int64s:
        """Counting compares no texts by order."""
        return NO_RANKS

    def step(self, state: CountingState, reading: Reading) -> list[AggregateBlock]:
        """Take a batch of events in; its rows come when time has passed them (`advance`)."""
        prepared = prepare(self.assembly, reading)
        if prepared.rows:
            for k, column in enumerate(self.key_columns):
                if column.is_float:
                    prepared.columns[at.T_ATTRIBUTES + k] = key_words(prepared.columns[at.T_ATTRIBUTES + k])
            held = state.held
            state.held = np.concatenate([held, prepared.columns], axis=1) if held.shape[1] else prepared.columns
        return [no_rows(self.query, self.name)]

    def advance(self, state: CountingState, now: int, ranks: Int64s, *, ended: bool) -> list[AggregateBlock]:
        """Let time reach `now`, or the input end: the rows of the times before."""
        from ensue.runtime.kernels.counting import count

        state.counts[lay.H_ROW] = 0
        rows = np.ascontiguousarray(state.held)
        found: list[Int64s] = []
        size, total, limit = _ROWS, 0, self.options.max_matches
        width = 1 + len(self.counters.group) + 2 * len(self.counters.components)
        out = np.empty((size, width), dtype=np.int64)
        while True:
            started = time.thread_time()
            status = count(self.assembly.program, state.counts, rows, now, int(ended), out)
            self.seconds[0] += time.thread_time() - started
            used = int(state.counts[lay.H_OUT])
            state.counts[lay.H_OUT] = 0
            if used:
                total += used
                found.append(out[:used].copy())
            if limit is not None and total > limit:
                refuse_rows(self.name, limit)
            if status == lay.DONE:
                break
            if status == lay.OUTPUT_FULL:
                if size < _LARGEST:
                    size *= 4
                    out = np.empty((size, width), dtype=np.int64)
            else:
                room = _LACKING[status]
                state.counts = self._resized(state.counts, {room: 2 * int(state.counts[room])})
        state.held = rows[:, int(state.counts[lay.H_ROW]) :]
        if state.held.shape[1] == 0:
            state.held = self._no_rows()
        if not found:
            return []
        return [self._decode(np.concatenate(found) if len(found) > 1 else found[0])]

    def next_due(self, state: CountingState) -> int | None:
        """A time before which `advance` has nothing to tell."""
        due = [] if state.held.shape[1] == 0 else [int(state.held[at.T_END, 0])]
        if self.query.emit_on_change and self.counters.window is not None:
            P, S = self.assembly.program, state.counts
            ring = _STARTS if self.plan in (Method.PER_START, Method.LINKED) else _ENTRIES
            head, tail = int(S[ring.head]), int(S[ring.tail])
            if head < tail:
                place = int(S[ring.room + 1]) + (head & (int(S[ring.room]) - 1)) * int(P[ring.width])
                due.append(int(S[place]) + int(P[lay.P_WINDOW]))
        return min(due) + 1 if due else None

    def _resized(self, counts: Int64s, rooms: Mapping[int, int]) -> Int64s:
        """The state with other rooms for some of its parts."""
        from ensue.runtime.kernels.counting_tables import move_ring, rebuild_index

        P = self.assembly.program
        fresh = self._lay_out({name: int(counts[name]) for name in _ROOMS} | dict(rooms))
        fresh[: lay.H_SLOT_ROOM] = counts[: lay.H_SLOT_ROOM]
        for room, used, width, key_at, words, listed in (
            (lay.H_SLOT_ROOM, lay.H_SLOTS, lay.P_SLOT_WIDTH, lay.S_KEYS, lay.P_KEY, lay.H_DIRTY),
            (lay.H_GROUP_ROOM, lay.H_GROUPS, lay.P_GROUP_WIDTH, lay.G_KEYS, lay.P_GROUP, lay.H_TOUCHED),
        ):
            size, rows = int(P[width]), int(counts[used])
            _copy(counts, fresh, room + 1, rows * size)
            _copy(counts, fresh, _LISTS[listed], int(counts[listed]))
            is_free = np.zeros(rows, dtype=np.int64)
            free = int(counts[used + 1])
            while free >= 0:
                is_free[free] = 1
                free = int(counts[counts[room + 1] + free * size])
            rebuild_index(fresh, is_free, room, used, size, key_at, int(P[words]))
        for ring in (_ENTRIES, _STARTS):
            move_ring(counts, fresh, ring.room, ring.head, ring.tail, int(P[ring.width]))
        return fresh

    # -- rows --------------------------------------------------------------------------------------------------------
    def _decode(self, out: Int64s) -> AggregateBlock:
        groups = []
        for k, key in enumerate(self.query.group_by):
            groups.append(decode_words(out[:, 1 + k].copy(), key.name, self.schema, self.strings))
        numbers = out[:, 1 + len(groups) :]
        components = self.counters.components

        def words(component: Component) -> tuple[Int64s, Int64s | None]:
            place = 2 * components.index(component)
            return numbers[:, place], numbers[:, place + 1]

        values = tuple(read_value(self.name, one, self.counters, words, out[:, 0]) for one in self.query.aggregates)
        return AggregateBlock(self.query, self.name, out[:, 0].copy(), tuple(groups), values)

    # -- memory ------------------------------------------------------------------------------------------------------
    def tidy(self, state: CountingState) -> None:
        """Give back memory that is far larger than what is left needs; tables keep their rows."""
        rooms = {}
        for ring in (_ENTRIES, _STARTS):
            room = int(state.counts[ring.room])
            live = int(state.counts[ring.tail] - state.counts[ring.head])
            while room > 1024 and room > 8 * live:
                room //= 2
            if room < state.counts[ring.room]:
                rooms[ring.room] = room
        if rooms:
            state.counts = self._resized(state.counts, rooms)

    def oldest_event(self, state: CountingState) -> int | None:
        """No event is kept."""
        return None

    def live_strings(self, state: CountingState) -> list[Int64s]:
        """The string codes that keys hold."""
        P, S = self.assembly.program, state.counts
        columns = [k for k, column in enumerate(self.key_columns) if column.is_string]
        found = [state.held[at.T_ATTRIBUTES + k] for k in columns]
        if columns:
            for place, used, width, key_at, words in (
                (lay.H_SLOT_AT, lay.H_SLOTS, lay.P_SLOT_WIDTH, lay.S_KEYS, lay.P_KEY),
                (lay.H_GROUP_AT, lay.H_GROUPS, lay.P_GROUP_WIDTH, lay.G_KEYS, lay.P_GROUP),
            ):
                rows = S[S[place] : S[place] + S[used] * P[width]].reshape(-1, int(P[width]))
                found.append(rows[:, key_at : key_at + int(P[words])].reshape(-1))
        limit = len(self.strings.rank)
        return [codes[(codes >= 0) & (codes < limit)] for codes in found]


def _copy(old: Int64s, new: Int64s, place: int, size: int) -> None:
    """Copy the first words of a part of the state."""
    new[new[place] : new[place] + size] = old[old[place] : old[place] + size]


# -- the program -----------------------------------------------------------------------------------------------------


def _bits(columns: Sequence[int]) -> int:
    return sum(1 << column for column in columns)


def _component_kind(component: Component, measures: Sequence[Measure]) -> int:
    is_float = component.measure is not None and measures[component.measure].is_float
    match component.kind:
        case Kind.COUNT:
            return lay.COUNT
        case Kind.PRESENT:
            return lay.PRESENT
        case Kind.SUM:
            return lay.SUM_FLOAT if is_float else lay.SUM_INT
        case Kind.LEAST:
            return lay.LEAST_FLOAT if is_float else lay.LEAST_INT
        case Kind.GREATEST:
            return lay.GREATEST_FLOAT if is_float else lay.GREATEST_INT


def _write_program(query: Query, method: Method, counters: Counters, keys: Sequence[str]) -> Int64s:
    """The machine as numbers; `keys` are the attributes of keys, in the order of the batch's columns."""
    kinds = [_component_kind(component, counters.measures) for component in counters.components]
    exact = method is Method.INVERSE
    sizes = [2 if exact else lay.WORDS[kind] for kind in kinds]
    cell, n = sum(sizes), counters.columns
    key, group, count = len(counters.leaves[0].key), len(counters.group), len(kinds)
    triangle = n * (n + 1) // 2 * cell
    data = {Method.PREFIX: n * cell, Method.PER_START: 0, Method.LINKED: n}.get(method, triangle)
    share = lay.S_KEYS + key
    tables = [
        [
            word
            for role in counters.roles
            for word in (
                role.leaf,
                _bits(role.sources),
                _bits(role.targets),
                _bits(role.resets),
                int(0 in role.sources),
                int(bool(set(role.sources) & set(role.targets))),
                max(role.targets, default=1) - 1,
            )
        ],
        [word for s in counters.leaves for word in (int(s.is_trigger), *(keys.index(name) for name in s.key))],
        [
            word
            for k, component in enumerate(counters.components)
            for word in (kinds[k], -1 if component.measure is None else component.measure, sum(sizes[:k]))
        ],
        [
            word
            for k, m in enumerate(counters.measures)
            for word in (
                next(place for place, s in enumerate(counters.leaves) if s.variable == m.variable),
                len(keys) + k,
                int(m.is_float),
            )
        ],
        list(counters.group),
        [word for one in query.aggregates for word in _output_row(one, counters)],
        *_link_tables(counters),
    ]
    starts = np.cumsum([lay.P_TABLES, *map(len, tables)])
    P = np.zeros(int(starts[-1]), dtype=np.int64)
    P[lay.P_COLUMNS], P[lay.P_ROLES], P[lay.P_LEAVES] = n, len(counters.roles), len(counters.leaves)
    P[lay.P_KEY], P[lay.P_GROUP] = key, group
    P[lay.P_MEASURES], P[lay.P_COMPONENTS] = len(counters.measures), count
    P[lay.P_METHOD] = _METHODS[method]
    P[lay.P_WINDOW] = -1 if counters.window is None else counters.window
    P[lay.P_ON_CHANGE] = int(query.emit_on_change)
    P[lay.P_SINGLE] = int(sorted(counters.group) == list(range(key)))
    P[lay.P_CELL], P[lay.P_ACCEPTS] = cell, _bits(counters.accepts)
    P[lay.P_SAFE] = int(min(n * (2.0 ** (126 / n) - 1), 2.0**62))
    P[lay.P_SLOT_SHARE], P[lay.P_SLOT_DATA] = share, share + 2 * count
    P[lay.P_SLOT_WIDTH] = share + 2 * count + data
    P[lay.P_GROUP_TOTAL], P[lay.P_GROUP_REPORTED] = lay.G_KEYS + group, lay.G_KEYS + group + 2 * count
    P[lay.P_GROUP_WIDTH] = lay.G_KEYS + group + 4 * count
    P[lay.P_ENTRY_WIDTH] = lay.E_WEIGHTS + len(counters.measures)
    P[lay.P_START_WIDTH] = lay.T_DATA + n * cell
    links = len(counters.link_names)
    P[lay.P_LINKS], P[lay.P_LINK_COLUMN] = links, len(keys) + len(counters.measures)
    if method is Method.LINKED:
        P[lay.P_START_WIDTH] = lay.L_VALUES + links + len(counters.measures) + cell
    P[lay.P_OUTPUTS] = len(query.aggregates)
    names = (
        lay.P_ROLE_TABLE,
        lay.P_LEAF_TABLE,
        lay.P_COMPONENT_TABLE,
        lay.P_MEASURE_TABLE,
        lay.P_GROUP_TABLE,
        lay.P_OUTPUT_TABLE,
        lay.P_LEAF_OF_PLACE,
        lay.P_LINK_TABLE,
    )
    for name, start, table in zip(names, starts, tables, strict=False):
        P[name] = start
        P[start : start + len(table)] = table
    if counters.links:
        P[P[lay.P_LINK_TABLE] : P[lay.P_LINK_TABLE] + n] += P[lay.P_LINK_TABLE]
    return P


def _link_tables(counters: Counters) -> tuple[list[int], list[int]]:
    """The leaf of each place, and the conditions of each place, which begin so far behind the start of their table."""
    if not counters.links:
        return [], []
    leaves = [role.leaf for role in sorted(counters.roles, key=lambda role: role.order)]
    names = counters.link_names
    starts, records = [], list[int]()
    for place in range(len(leaves) + 1):
        starts.append(len(leaves) + 1 + len(records))
        for link in counters.links:
            if link.place == place:
                operator = _OPERATORS[link.operator] + (at.FLOAT if link.is_float else 0)
                records += [operator, names.index(link.left), names.index(link.right)]
    return leaves, starts + records


def _output_row(one: PatternAggregate, counters: Counters) -> tuple[int, int, int]:
    """How two values of an aggregate are compared: the function, its component, and that of values that are there."""
    if one.variable is None:
        return (lay.PLAIN, 0, -1)
    places = [(m.variable, m.name) for m in counters.measures]
    place = places.index((one.variable, one.name or ""))
    find = counters.components.index
    match one.function:
        case "COUNT":
            return (lay.PLAIN, find(Component(Kind.PRESENT, place)), -1)
        case "SUM" | "AVG":
            function = lay.SUM if one.function == "SUM" else lay.AVG
            return (function, find(Component(Kind.SUM, place)), find(Component(Kind.PRESENT, place)))
        case _:
            kind = Kind.LEAST if one.function == "MIN" else Kind.GREATEST
            return (lay.PLAIN, find(Component(kind, place)), -1)
