"""The evaluator of AGG queries that share counters: sub-patterns as arrays, their state, and the rows of each query."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ensue.events.batch import Int64s
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.query import Query
from ensue.planning.aggregates import Component, Kind, Method
from ensue.planning.sub_patterns import Chain, Step, SubPatterns
from ensue.runtime.aggregate_rows import AggregateBlock, no_rows
from ensue.runtime.aggregate_values import attribute_column, decode_words, key_words, read_value, refuse_rows
from ensue.runtime.counting import CountingState
from ensue.runtime.evaluator import NO_RANKS
from ensue.runtime.kernels import sub_patterns_layout as lay
from ensue.runtime.preparing import Reading, Selection
from ensue.runtime.strings import StringTable

_LARGEST = 1 << 18
_LACKING = {lay.NEED_SLOTS: lay.H_SLOT_ROOM, lay.NEED_ENTRIES: lay.H_ENTRY_ROOM}


@dataclass(frozen=True, slots=True)
class SubPatternEvaluator:
    """AGG queries and the sub-patterns that they are counted by."""

    queries: tuple[Query, ...]
    patterns: SubPatterns
    schema: Schema
    options: Options
    strings: StringTable
    program: Int64s
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
        return cls(tuple(queries), patterns, schema, options, strings, _write_program(patterns), types, empty)

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
        weights = int(self.program[lay.P_ENTRY_WIDTH]) - lay.E_WEIGHTS
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
        types = reading.batch.type_names
        table = np.full(len(types), -1, dtype=np.int64)
        others: list[tuple[Int64s, int]] = []
        for number, leaf in enumerate(self.patterns.leaves):
            if leaf.type not in types:
                continue
            code = types.index(leaf.type)
            if table[code] < 0 and not leaf.filter.expressions:
                table[code] = number
                continue
            here = chosen.codes == code
            for expression in leaf.filter.expressions:
                here &= chosen.values(expression) == 1
            others.append((np.flatnonzero(here), number))
        leaves = table[chosen.codes] if len(types) else np.empty(0, dtype=np.int64)
        at: Int64s | None = None  # the events, where they are not simply all
        if others or (table < 0).any():
            plain = np.flatnonzero(leaves >= 0)
            at = np.concatenate([plain, *(found for found, _ in others)])
            leaves = np.concatenate([leaves[plain], *(np.full(len(found), number) for found, number in others)])
            order = np.argsort(at, kind="stable")
            at, leaves = at[order], leaves[order]
        whole = np.empty((held.shape[0], held.shape[1] + len(leaves)), dtype=np.int64)
        whole[:, : held.shape[1]] = held
        rows = whole[:, held.shape[1] :]
        rows[lay.R_TIME] = chosen.end if at is None else chosen.end[at]
        rows[lay.R_LEAF] = leaves
        if len(leaves):
            self._read_values(chosen, rows, leaves, at)
        return whole

    def _read_values(self, chosen: Selection, rows: Int64s, leaves: Int64s, at: Int64s | None) -> None:
        """Put keys and weights to rows."""

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
        rows[first:] = 0
        for number, weights in enumerate(self.patterns.weights):
            here = np.flatnonzero(leaves == number) if weights else None
            for k, (name, kind) in enumerate(weights):
                values = column(name)[here]
                there = values != lay.NULL
                rows[first + k, here] = there if kind is Kind.PRESENT else values * there

    def advance(self, state: CountingState, now: int, ranks: Int64s, *, ended: bool) -> list[AggregateBlock]:
        """Let time reach `now`, or the input end: the rows of the times before."""
        from ensue.runtime.kernels.sub_patterns import count_parts

        state.counts[lay.H_ROW] = 0
        rows = np.ascontiguousarray(state.held)
        found: list[tuple[Int64s, bool]] = []
        size, total = min(rows.shape[1] * int(self.program[lay.P_TRIGGERED]), _LARGEST), 0
        started = time.thread_time()
        while True:
            wide = bool(state.counts[lay.H_WIDE])
            out = np.empty((size, self._width(wide)), dtype=np.int64)
            status = count_parts(self.program, state.counts, rows, now, int(ended), out)
            used = int(state.counts[lay.H_OUT])
            state.counts[lay.H_OUT] = 0
            if used:
                total += used
                found.append((out[:used], wide))
                self._check_rows(total, found)
            if status in (lay.DONE, lay.BEYOND):  # what is beyond all bounds is refused when its row is read
                break
            slots, entries = int(state.counts[lay.H_SLOT_ROOM]), int(state.counts[lay.H_ENTRY_ROOM])
            if status == lay.OUTPUT_FULL:
                size = size if used else 2 * size
            elif status == lay.NEED_WIDE:
                state.counts = self._resized(state.counts, slots, entries, True)
            elif status == lay.NEED_SLOTS:
                state.counts = self._resized(state.counts, 2 * slots, entries, wide)
            else:
                state.counts = self._resized(state.counts, slots, 2 * entries, wide)
        self.seconds[0] += time.thread_time() - started
        state.held = rows[:, int(state.counts[lay.H_ROW]) :]
        if state.held.shape[1] == 0:
            state.held = self._no_rows()
        blocks = self._decode([some for some, wide in found if not wide], False)
        return blocks + self._decode([some for some, wide in found if wide], True)

    def next_due(self, state: CountingState) -> int | None:
        """A time before which `advance` has nothing to tell."""
        return None if state.held.shape[1] == 0 else int(state.held[lay.R_TIME, 0]) + 1

    # -- rows --------------------------------------------------------------------------------------------------------
    def _width(self, wide: bool) -> int:
        most = max(len(chain.outputs) for chain in self.patterns.chains)
        return lay.O_KEYS + self.patterns.key + most * (1 + wide)

    def _check_rows(self, total: int, found: Sequence[tuple[Int64s, bool]]) -> None:
        limit = self.options.max_matches
        if limit is None or total <= limit:
            return
        members = np.concatenate([some[:, lay.O_MEMBER] for some, _ in found])
        counts = np.bincount(members, minlength=len(self.queries))
        if counts.max() > limit:
            refuse_rows(self.query_names[int(counts.argmax())], limit)

    def _decode(self, found: Sequence[Int64s], wide: bool) -> list[AggregateBlock]:
        """Rows of all queries as a block for each."""
        from ensue.runtime.kernels.sub_patterns import sort_rows

        counts = np.zeros(len(self.queries), dtype=np.int64)
        for out in found:
            counts += np.bincount(out[:, lay.O_MEMBER], minlength=len(counts))
        edges = np.concatenate([[0], np.cumsum(counts)])
        columns = np.empty((self._width(wide), int(edges[-1])), dtype=np.int64)
        starts = edges[:-1].copy()
        for out in found:
            sort_rows(out, len(out), starts, columns)
        blocks = []
        for number in np.flatnonzero(counts):
            mine = columns[:, edges[number] : edges[number + 1]]
            blocks.append(self._block(self.queries[number], self.patterns.chains[number], mine, wide))
        return blocks

    def _block(self, query: Query, chain: Chain, columns: Int64s, wide: bool) -> AggregateBlock:
        keys, first = columns[lay.O_KEYS :], lay.O_KEYS + self.patterns.key

        def words(component: Component) -> tuple[Int64s, Int64s | None]:
            place = first + chain.counters.components.index(component)
            return columns[place], columns[place + len(chain.outputs)] if wide else None

        name, times = query.name or "q1", columns[lay.O_TIME]
        groups = tuple(
            decode_words(keys[place], key.name, self.schema, self.strings)
            for key, place in zip(query.group_by, chain.counters.group, strict=True)
        )
        values = tuple(read_value(name, one, chain.counters, words, times) for one in query.aggregates)
        return AggregateBlock(query, name, times, groups, values)

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


def _table(counts: Int64s, place: int) -> Int64s:
    """The slots that were ever used, as rows."""
    start, width = int(counts[place]), int(counts[lay.H_SLOT_WIDTH])
    return counts[start : start + int(counts[lay.H_SLOTS]) * width].reshape(-1, width)


# -- the program -----------------------------------------------------------------------------------------------------


def _write_program(patterns: SubPatterns) -> Int64s:
    """The counters as numbers."""
    longest = max(len(chain.leaves) for chain in patterns.chains)
    triggered: list[list[int]] = [[] for _ in patterns.leaves]
    for number, chain in enumerate(patterns.chains):
        triggered[chain.leaves[-1]].append(number)
    words: list[int] = [0] * lay.P_TABLES
    words[lay.P_LEAVES], words[lay.P_NODES], words[lay.P_LONGEST] = len(patterns.leaves), patterns.nodes, longest
    words[lay.P_KEY], words[lay.P_TOTALS] = patterns.key, int(patterns.totals)
    words[lay.P_WINDOW] = -1 if patterns.window is None else patterns.window
    words[lay.P_ENTRY_WIDTH] = lay.E_WEIGHTS + max(map(len, patterns.weights))
    words[lay.P_TRIGGERED] = max(map(len, triggered))
    words[lay.P_ARRIVALS] = _write_steps(words, patterns.arrivals, longest, falling=True)
    words[lay.P_EXPIRIES] = _write_steps(words, patterns.expiries, longest, falling=False)
    words[lay.P_TRIGGERS] = _write_lists(words, triggered)
    told = [[*chain.outputs, *chain.singles] for chain in patterns.chains]
    places = _write_lists(words, told)
    members = len(words)
    for number, chain in enumerate(patterns.chains):
        length = len(chain.leaves)
        weighted = any(c.kind is Kind.SUM for c in chain.counters.components)
        record = [0] * lay.MEMBER
        record[lay.M_LENGTH], record[lay.M_OUTPUTS] = length, len(chain.outputs)
        record[lay.M_AT] = words[places + number]
        record[lay.M_SAFE] = 0 if weighted else _safe(62, length)  # of weights nothing is known
        record[lay.M_WIDE_SAFE] = _safe(126, length)
        record[lay.M_WEIGHTED] = int(weighted)
        words += record
    words[lay.P_MEMBERS] = members
    words[lay.P_SAFE] = min(words[members + lay.M_SAFE :: lay.MEMBER])
    words[lay.P_WIDE_SAFE] = min(words[members + lay.M_WIDE_SAFE :: lay.MEMBER])
    return np.array(words, dtype=np.int64)


def _safe(bits: int, length: int) -> int:
    """So many events give no more than 2 ** bits matches: at most the mean number of each item, put together."""
    return int(min(length * 2.0 ** (bits / length), 2.0**61)) - 1


def _write_lists(words: list[int], lists: Sequence[Sequence[int]]) -> int:
    """Put lists of numbers behind; where each begins, and the last one ends, comes first."""
    place = len(words)
    start = place + len(lists) + 1
    for one in lists:
        words.append(start)
        start += len(one)
    words.append(start)
    for one in lists:
        words += one
    return place


def _write_steps(words: list[int], steps: Sequence[Sequence[Step]], longest: int, *, falling: bool) -> int:
    """Put the steps of all leaves behind; where the steps of each length begin comes first."""
    place = len(words)
    start = place + len(steps) * (longest + 1)
    for own in steps:
        for phase in range(longest + 1):
            done = [s for s in own if (longest - s.length if falling else s.length - 1) < phase]
            words.append(start + lay.STEP * len(done))
        start += lay.STEP * len(own)
    for own in steps:
        for s in own:
            words += [s.target, s.source, s.weight, int(s.is_output)]
    return place
