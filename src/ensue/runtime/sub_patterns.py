"""The evaluator of AGG queries that share counters: sub-patterns as arrays, their state, and the rows of each query."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np

from ensue.events.batch import Int64s
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.expressions import Expression
from ensue.pattern.query import Query
from ensue.planning.aggregates import Component, Kind, Method
from ensue.planning.sub_patterns import Chain, SubPatterns
from ensue.runtime.aggregate_rows import AggregateBlock, LaterValues, Values, no_rows
from ensue.runtime.aggregate_values import attribute_column, decode_words, key_words, read_value, refuse_rows
from ensue.runtime.counting import CountingState
from ensue.runtime.evaluator import NO_RANKS
from ensue.runtime.kernels import sub_patterns_layout as lay
from ensue.runtime.preparing import Reading, Selection
from ensue.runtime.strings import StringTable
from ensue.runtime.sub_pattern_program import told_nodes, write_program


class _Member(NamedTuple):
    """What is needed of a query to read its rows: side by side, as there may be hundreds, each looked at once a batch.

    `leaf` is that of its last item, `keys` where the values of GROUP BY stand in a key, `places` where its numbers
    stand among those that rows of the leaf tell.
    """

    query: Query
    name: str
    leaf: int
    keys: tuple[tuple[str, int], ...]
    places: dict[Component, int]

    @classmethod
    def make(cls, query: Query, chain: Chain, told: Sequence[int]) -> _Member:
        """A query with its chain, where `told` are the counters that rows of its last leaf tell."""
        counters = chain.counters
        keys = tuple((key.name, place) for key, place in zip(query.group_by, counters.group, strict=True))
        places = {one: told.index(node) for one, node in zip(counters.components, chain.outputs, strict=True)}
        return cls(query, query.name or "q1", chain.leaves[-1], keys, places)


@dataclass(frozen=True, slots=True)
class SubPatternEvaluator:
    """AGG queries and the sub-patterns that they are counted by."""

    queries: tuple[Query, ...]
    patterns: SubPatterns
    schema: Schema
    options: Options
    strings: StringTable
    program: Int64s
    told: tuple[tuple[int, ...], ...]  # of each leaf, in the order of its rows' columns
    members: tuple[_Member, ...]  # the queries
    types: frozenset[str]
    empty: tuple[AggregateBlock, ...]  # they tell that the queries are there
    seconds: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def make(
        cls, queries: Sequence[Query], patterns: SubPatterns, schema: Schema, strings: StringTable, options: Options
    ) -> SubPatternEvaluator:
        """Lay out the counters of queries, in the order of the chains of `patterns`."""
        types = frozenset(leaf.type for leaf in patterns.leaves)
        empty = tuple(no_rows(query, query.name or "q1") for query in queries)
        told = told_nodes(patterns)
        members = tuple(
            _Member.make(query, c, told[c.leaves[-1]]) for query, c in zip(queries, patterns.chains, strict=True)
        )
        program = write_program(patterns)
        return cls(tuple(queries), patterns, schema, options, strings, program, told, members, types, empty)

    @property
    def query_names(self) -> tuple[str, ...]:
        """Those of the queries."""
        return tuple(query.name or "q1" for query in self.queries)

    @property
    def plan(self) -> Method:
        """How it counts."""
        return Method.SUB_PATTERNS

    @property
    def uses_ranks(self) -> bool:
        """Texts are compared by order in filters alone."""
        return False

    @property
    def digest(self) -> str:
        """A name for the laid out counters: states of equal digest fit each other's evaluators."""
        return hashlib.blake2b(self.program.tobytes(), digest_size=16).hexdigest()

    # -- state -------------------------------------------------------------------------------------------------------
    def new_state(self) -> CountingState:
        """The state before the first event. What never expires cannot be counted anew: it has two words at once."""
        wide = self.patterns.window is None
        return CountingState(self._lay_out(16 if self.patterns.key else 1, 64, wide), self._no_rows())

    def _lay_out(self, slots: int, entries: int, wide: bool) -> Int64s:
        """An empty state with so much room."""
        P = self.program
        head = lay.S_KEYS + self.patterns.key + len(self.patterns.leaves)
        width = head + self.patterns.nodes * (1 + wide)
        sizes = {
            lay.H_SLOT_AT: slots * width,
            lay.H_SLOT_INDEX: 2 * slots,
            lay.H_ENTRY_AT: entries * int(P[lay.P_ENTRY_WIDTH]),
            lay.H_TOTAL_AT: width if self.patterns.totals else 0,
            lay.H_KEY_AT: self.patterns.key,
            lay.H_WORK_AT: int(P[lay.P_LONGEST]),
            lay.H_LIMITS_AT: len(self.queries) + len(self.patterns.leaves),
        }
        counts = np.zeros(lay.HEADER + sum(sizes.values()), dtype=np.int64)
        place = lay.HEADER
        for name, size in sizes.items():
            counts[name] = place
            place += size
        counts[lay.H_SLOT_ROOM], counts[lay.H_ENTRY_ROOM], counts[lay.H_SLOT_WIDTH] = slots, entries, width
        counts[lay.H_WIDE], counts[lay.H_MOST], counts[lay.H_FREE_SLOT] = int(wide), 1, -1
        index = int(counts[lay.H_SLOT_INDEX])
        counts[index : index + 2 * slots] = -1
        if not self.patterns.key:  # the one slot that there is
            counts[lay.H_SLOTS] = counts[lay.H_LIVE_SLOTS] = 1
            counts[counts[lay.H_SLOT_AT] + head] = 1
        return counts

    def _no_rows(self) -> Int64s:
        weights = int(self.program[lay.P_WEIGHTS])
        return np.empty((lay.R_KEYS + self.patterns.key + weights, 0), dtype=np.int64)

    def load_state(self, arena: Int64s, shed: Sequence[int]) -> CountingState:
        """The state of which `arena` was told."""
        return CountingState.load(arena, shed)

    def _resized(self, old: Int64s, slots: int, entries: int, wide: bool) -> Int64s:
        """The state with other rooms, or with numbers of two words, for which all live events are counted anew."""
        from ensue.runtime.kernels.counting_tables import move_ring, rebuild_index
        from ensue.runtime.kernels.sub_patterns import recount

        new = self._lay_out(slots, entries, wide)
        head = lay.S_KEYS + self.patterns.key + len(self.patterns.leaves)
        moved = [k for k in range(lay.H_SLOT_ROOM) if k != lay.H_WIDE]
        new[moved] = old[moved]
        again = wide != bool(old[lay.H_WIDE])
        before, after = _table(old, lay.H_SLOT_AT), _table(new, lay.H_SLOT_AT)
        used = head if again else before.shape[1]
        after[:, :used] = before[:, :used]
        if again:
            after[:, head] = 1
        elif self.patterns.totals:
            width, x, y = int(old[lay.H_SLOT_WIDTH]), int(old[lay.H_TOTAL_AT]), int(new[lay.H_TOTAL_AT])
            new[y : y + width] = old[x : x + width]
        if self.patterns.key:
            is_free = np.zeros(len(before), dtype=np.int64)
            free = int(old[lay.H_FREE_SLOT])
            while free >= 0:
                is_free[free] = 1
                free = int(before[free, lay.S_NEXT])
            width = int(new[lay.H_SLOT_WIDTH])
            rebuild_index(new, is_free, lay.H_SLOT_ROOM, lay.H_SLOTS, width, lay.S_KEYS, self.patterns.key)
        move_ring(old, new, lay.H_ENTRY_ROOM, lay.H_HEAD, lay.H_TAIL, int(self.program[lay.P_ENTRY_WIDTH]))
        if again:
            recount(self.program, new)
        return new

    # -- events ------------------------------------------------------------------------------------------------------
    def ranks(self, strings: StringTable) -> Int64s:
        """Counting compares no texts by order."""
        return NO_RANKS

    def step(self, state: CountingState, reading: Reading) -> list[AggregateBlock]:
        """Take a batch of events in; its rows come when time has passed them (`advance`)."""
        first = lay.R_KEYS + self.patterns.key
        state.held = self._read(reading, state.held)
        if state.held.shape[0] > first and state.held.shape[1]:
            state.counts[lay.H_MOST] = max(int(state.counts[lay.H_MOST]), int(np.abs(state.held[first:]).max()))
        return list(self.empty)

    def _read(self, reading: Reading, held: Int64s) -> Int64s:
        """Rows behind those held: the events of a batch that are of some leaf, once for each of their leaves."""
        chosen = reading.of(self.types)
        tables = self._tables(reading.batch.type_names)
        at: Int64s | None = None  # the events, where they are not simply all
        if len(tables) == 1 and not tables[0][0]:
            leaves = tables[0][1].take(chosen.codes)
        else:
            at, leaves = _find_leaves(chosen, tables)
        whole = np.empty((held.shape[0], held.shape[1] + len(leaves)), dtype=np.int64)
        whole[:, : held.shape[1]] = held
        rows = whole[:, held.shape[1] :]
        rows[lay.R_TIME] = chosen.end if at is None else chosen.end[at]
        rows[lay.R_LEAF] = leaves
        if len(leaves):
            self._read_values(chosen, rows, leaves, at)
        return whole

    def _tables(self, types: Sequence[str]) -> list[_Table]:
        """The leaves of types. Several may differ in their keys alone: then several tables have the same conditions."""
        codes = {name: code for code, name in enumerate(types)}
        tables: dict[tuple[tuple[Expression, ...], int], Int64s] = {}
        for number, leaf in enumerate(self.patterns.leaves):
            if leaf.type in codes:
                layer = 0
                while (
                    tables.setdefault((leaf.filter.expressions, layer), np.full(len(types), -1))[codes[leaf.type]] >= 0
                ):
                    layer += 1
                tables[leaf.filter.expressions, layer][codes[leaf.type]] = number
        return [(expressions, table) for (expressions, _), table in tables.items()]

    def _read_values(self, chosen: Selection, rows: Int64s, leaves: Int64s, at: Int64s | None) -> None:
        """Put keys and weights to rows, the events `at` some places (None: all)."""

        @cache
        def column(name: str) -> Int64s:
            """Values by their bits, floats in one form for each; null where there is none."""
            values = chosen.values(attribute_column(name, self.schema).expression)
            bits = key_words(values.view(np.int64)) if values.dtype == np.float64 else values.view(np.int64)
            return bits if at is None else bits[at]

        for k in range(self.patterns.key):
            names = dict.fromkeys(leaf.key[k] for leaf in self.patterns.leaves)
            for name in names:
                if len(names) == 1:
                    rows[lay.R_KEYS + k] = column(name)
                else:
                    mine = np.array([leaf.key[k] == name for leaf in self.patterns.leaves])[leaves]
                    rows[lay.R_KEYS + k, mine] = column(name)[mine]
        first = lay.R_KEYS + self.patterns.key
        for k, row in enumerate(rows[first:]):
            row[:] = 0
            kinds = [weights[k] if k < len(weights) else None for weights in self.patterns.weights]
            for name, kind in {one for one in kinds if one is not None}:
                mine = np.array([one == (name, kind) for one in kinds])[leaves]
                values = column(name)
                mine &= values != lay.NULL
                row += mine if kind is Kind.PRESENT else np.where(mine, values, 0)

    def advance(self, state: CountingState, now: int, ranks: Int64s, *, ended: bool) -> list[AggregateBlock]:
        """Let time reach `now`, or the input end: the rows of the times before."""
        from ensue.runtime.kernels.sub_patterns import count_parts

        state.counts[lay.H_ROW] = 0
        rows = np.ascontiguousarray(state.held)
        events = np.bincount(rows[lay.R_LEAF], minlength=len(self.patterns.leaves))
        wide = bool(state.counts[lay.H_WIDE])
        out = self._make_room(events, wide)
        blocks: list[AggregateBlock] = []
        started = time.thread_time()
        while True:
            status = count_parts(self.program, state.counts, rows, now, int(ended), out)
            if status in (lay.DONE, lay.BEYOND):  # what is beyond all bounds is refused when its row is read
                break
            slots, entries = int(state.counts[lay.H_SLOT_ROOM]), int(state.counts[lay.H_ENTRY_ROOM])
            if status == lay.NEED_WIDE:
                blocks = self._read_rows(out, False)
                state.counts = self._resized(state.counts, slots, entries, True)
                wide, out = True, self._make_room(events, True)
            elif status == lay.NEED_SLOTS:
                state.counts = self._resized(state.counts, 2 * slots, entries, wide)
            else:
                state.counts = self._resized(state.counts, slots, 2 * entries, wide)
        self.seconds[0] += time.thread_time() - started
        state.held = rows[:, int(state.counts[lay.H_ROW]) :]
        if state.held.shape[1] == 0:
            state.held = self._no_rows()
        return blocks + self._read_rows(out, wide)

    def next_due(self, state: CountingState) -> int | None:
        """A time before which `advance` has nothing to tell."""
        return None if state.held.shape[1] == 0 else int(state.held[lay.R_TIME, 0]) + 1

    # -- rows --------------------------------------------------------------------------------------------------------
    def _make_room(self, events: Int64s, wide: bool) -> Int64s:
        """Room for a row for each of so many events of each leaf, where rows are told of it."""
        columns = np.array([len(nodes) and 1 + self.patterns.key + len(nodes) * (1 + wide) for nodes in self.told])
        sizes = events * columns
        head = lay.OUTPUT * len(sizes)
        out = np.empty(head + int(sizes.sum()), dtype=np.int64)
        index = out[:head].reshape(-1, lay.OUTPUT)
        index[:, lay.O_AT] = head + np.cumsum(sizes) - sizes
        index[:, lay.O_ROOM], index[:, lay.O_USED] = events, 0
        return out

    def _read_rows(self, out: Int64s, wide: bool) -> list[AggregateBlock]:
        """The rows of all queries as a block for each that has some."""
        index = out[: lay.OUTPUT * len(self.told)].reshape(-1, lay.OUTPUT).tolist()
        limit, blocks = self.options.max_matches, []
        leaves = {leaf: self._columns(out, leaf, place, wide) for leaf, place in enumerate(index) if place[lay.O_USED]}
        for number, member in enumerate(self.members):
            columns = leaves.get(member.leaf)
            if columns is None:
                continue
            if limit is not None and len(columns[0]) > limit:
                refuse_rows(member.name, limit)
            blocks.append(self._block(number, member, columns, wide))
        return blocks

    def _columns(self, out: Int64s, leaf: int, place: Sequence[int], wide: bool) -> list[Int64s]:
        """The rows of a leaf as columns: their times, keys and numbers, then their upper words if they have any."""
        at, room, used = place
        width = 1 + self.patterns.key + len(self.told[leaf]) * (1 + wide)
        return list(out[at : at + width * room].reshape(width, room)[:, :used])

    def _block(self, number: int, member: _Member, columns: Sequence[Int64s], wide: bool) -> AggregateBlock:
        """The rows of a query out of those of its last leaf. Numbers of one word fit, and need not be looked at now."""
        groups: tuple[Values, ...] = ()
        if member.keys:
            keys = ((name, columns[1 + place]) for name, place in member.keys)
            groups = tuple(decode_words(words, name, self.schema, self.strings) for name, words in keys)
        make = partial(self._values, number, columns, wide)
        return AggregateBlock(member.query, member.name, columns[0], groups, make() if wide else LaterValues(make))

    def _values(self, number: int, columns: Sequence[Int64s], wide: bool) -> tuple[Values, ...]:
        """The numbers of a query's rows."""
        member, counters = self.members[number], self.patterns.chains[number].counters
        first, upper = 1 + self.patterns.key, len(self.told[member.leaf])

        def words(component: Component) -> tuple[Int64s, Int64s | None]:
            place = first + member.places[component]
            return columns[place], columns[place + upper] if wide else None

        return tuple(read_value(member.name, one, counters, words, columns[0]) for one in member.query.aggregates)

    # -- memory ------------------------------------------------------------------------------------------------------
    def tidy(self, state: CountingState) -> None:
        """Give back memory that is far larger than what is left needs; the table of slots keeps its rows."""
        entries = room = int(state.counts[lay.H_ENTRY_ROOM])
        live = int(state.counts[lay.H_TAIL] - state.counts[lay.H_HEAD])
        while entries > 1024 and entries > 8 * live:
            entries //= 2
        if entries < room:
            wide = bool(state.counts[lay.H_WIDE])
            state.counts = self._resized(state.counts, int(state.counts[lay.H_SLOT_ROOM]), entries, wide)

    def live_strings(self, state: CountingState) -> list[Int64s]:
        """The string codes that keys hold."""
        found = []
        slots = _table(state.counts, lay.H_SLOT_AT)
        limit = len(self.strings.rank)
        for k in range(self.patterns.key):
            if any(attribute_column(leaf.key[k], self.schema).is_string for leaf in self.patterns.leaves):
                for codes in (slots[:, lay.S_KEYS + k], state.held[lay.R_KEYS + k]):
                    found.append(codes[(codes >= 0) & (codes < limit)])
        return found


_Table: TypeAlias = tuple[tuple[Expression, ...], Int64s]
"""Conditions, and for each type the leaf whose events must satisfy them (-1: none)."""


def _find_leaves(chosen: Selection, tables: Sequence[_Table]) -> tuple[Int64s, Int64s]:
    """Places of events and their leaves, in the order of the events."""
    pieces = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    for expressions, table in tables:
        found = table.take(chosen.codes)
        here = found >= 0
        for expression in expressions:
            here &= chosen.values(expression) == 1
        pieces.append((np.flatnonzero(here), found[here]))
    at, leaves = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(at, kind="stable")
    return at[order], leaves[order]


def _table(counts: Int64s, place: int) -> Int64s:
    """The slots that were ever used, as rows."""
    start, width = int(counts[place]), int(counts[lay.H_SLOT_WIDTH])
    return counts[start : start + int(counts[lay.H_SLOTS]) * width].reshape(-1, width)
