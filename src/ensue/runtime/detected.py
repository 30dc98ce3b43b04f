"""AGG by detection: matches are found as for any query, and those that are live are added up.

It serves what counters cannot tell, and is the two-step evaluation that counting is measured against. Of a match only
its times, its group and the values that aggregates speak of are kept, for as long as it is live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ensue.errors import LimitError
from ensue.events.batch import Int64s
from ensue.events.schema import DType, Schema
from ensue.options import Options
from ensue.pattern.normalize import Branch
from ensue.pattern.query import CountWindow, Query
from ensue.planning.conditions import Filter
from ensue.planning.plan import Plan
from ensue.planning.triggers import Trigger
from ensue.runtime import layout as at
from ensue.runtime.aggregate_rows import AggregateBlock, Values, is_time, no_rows
from ensue.runtime.aggregate_values import attribute_column, decode_words
from ensue.runtime.assembly import Assembly, LeafSource
from ensue.runtime.blocks import EventLists, MatchBlock, edge_events
from ensue.runtime.evaluator import Evaluator, State
from ensue.runtime.live import Live, add_up
from ensue.runtime.preparing import Reading, prepare
from ensue.runtime.strings import StringTable

LAST = 2**63 - 1
_SEQ, _END, _BEGIN, _PARTITION, _POSITION, _ATTRIBUTES = range(6)  # columns of what is kept of an event
_KNOWN, _EXPIRES, _TARGET, _GROUP = range(4)  # and of a match; the target is the event whose coming makes it expire


@dataclass(slots=True)
class DetectedState:
    """The detection's state, what is kept of events and live matches, and the triggers that time has not passed.

    Tables hold a row an entry. `reported` are groups with the values that were reported last (EMIT ON CHANGE);
    `partitions` are keys with the events counted in them (WITHIN n EVENTS).
    """

    inner: State
    events: Int64s
    matches: Int64s
    points: Int64s  # time, whether the group is told, the group
    partitions: Int64s
    reported: Int64s
    reached: int = at.NULL  # all times before it are reported
    shed_matches: int = 0
    shed_partial: int = 0

    @property
    def tables(self) -> tuple[Int64s, ...]:
        """All tables."""
        return self.events, self.matches, self.points, self.partitions, self.reported

    @property
    def arena(self) -> Int64s:
        """All of it as one array."""
        sizes = [self.reached, len(self.inner.arena), *(size for table in self.tables for size in table.shape)]
        parts = [np.array(sizes, dtype=np.int64), self.inner.arena, *(table.reshape(-1) for table in self.tables)]
        return np.concatenate(parts)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.inner.arena.nbytes + sum(table.nbytes for table in self.tables)


@dataclass(frozen=True, slots=True)
class DetectedEvaluator:
    """An AGG query by detection: the evaluator of its matches, and what is needed of events beside it."""

    query: Query
    name: str
    branches: tuple[Branch, ...]
    schema: Schema
    options: Options
    inner: Evaluator
    triggers: tuple[Trigger, ...]
    strings: StringTable
    names: tuple[str, ...]  # the attributes that are kept of events
    watch: Assembly  # how batches are read here: all events, and which are triggers
    seconds: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def make(
        cls, query: Query, inner: Evaluator, triggers: Sequence[Trigger], strings: StringTable
    ) -> DetectedEvaluator:
        """An evaluator around that of the matches."""
        schema = inner.schema
        needed = [key.name for key in query.group_by]
        needed += [one.name for one in query.aggregates if one.name is not None]
        needed += inner.query.partition_by
        names = tuple(dict.fromkeys(needed))
        leaves = [LeafSource(kind, Filter(), False, []) for kind in query.types]
        leaves += [LeafSource(trigger.type, trigger.filter, False, []) for trigger in triggers]
        watch = Assembly(
            program=np.empty(0, dtype=np.int64),
            stores=(),
            leaves=tuple(leaves),
            attributes=tuple(attribute_column(name, schema) for name in names),
            partition=(),
            variables=(),
            has_lists=False,
            head=1,
            window=inner.assembly.window,
            count_window=None,
            intervals=inner.assembly.intervals,
            strings=frozenset(),
            uses_ranks=False,
            string_columns=(),
            seq_columns=(),
            types=query.types,
        )
        return cls(
            query,
            inner.name,
            inner.branches,
            schema,
            inner.options,
            inner,
            tuple(triggers),
            strings,
            names,
            watch,
        )

    @property
    def plan(self) -> Plan:
        """The plan of the detection."""
        return self.inner.plan

    @property
    def assembly(self) -> Assembly:
        """That of the detection."""
        return self.inner.assembly

    @property
    def query_names(self) -> tuple[str, ...]:
        """The query's name."""
        return (self.name,)

    @property
    def uses_ranks(self) -> bool:
        """That of the detection."""
        return self.inner.assembly.uses_ranks

    @property
    def digest(self) -> str:
        """That of the detection."""
        return self.inner.digest

    # -- state -------------------------------------------------------------------------------------------------------
    def new_state(self) -> DetectedState:
        """The state before the first event."""
        groups, values = len(self.query.group_by), len(self.query.aggregates)
        measured = sum(one.name is not None for one in self.query.aggregates)
        widths = (
            _ATTRIBUTES + len(self.names),
            _GROUP + groups + measured,
            2 + groups,
            len(self.inner.query.partition_by) + 1,
            groups + 2 * values,
        )
        events, matches, points, partitions, reported = (np.empty((0, width), dtype=np.int64) for width in widths)
        return DetectedState(self.inner.new_state(), events, matches, points, partitions, reported)

    def load_state(self, arena: Int64s, shed: Sequence[int]) -> DetectedState:
        """The state of which `arena` was told."""
        sizes = arena[:12].tolist()
        place = 12 + sizes[1]
        inner, tables = State(arena[12:place].copy()), []
        for k in range(2, 12, 2):
            rows, width = sizes[k], sizes[k + 1]
            tables.append(arena[place : place + rows * width].reshape(rows, width).copy())
            place += rows * width
        return DetectedState(inner, tables[0], tables[1], tables[2], tables[3], tables[4], sizes[0], *shed)

    def ranks(self, strings: StringTable) -> Int64s:
        """The order of strings, for the detection."""
        return self.inner.ranks(strings)

    # -- events ------------------------------------------------------------------------------------------------------
    def step(self, state: DetectedState, reading: Reading) -> list[AggregateBlock]:
        """Take a batch of events in; its rows come when time has passed them (`advance`)."""
        prepared = prepare(self.watch, reading)
        if prepared.rows:
            self._keep(state, prepared.columns)
        self._add_matches(state, self.inner.step(state.inner, reading))
        return [no_rows(self.query, self.name)]

    def _keep(self, state: DetectedState, columns: Int64s) -> None:
        """Keep what is needed of events, and note which are triggers."""
        fresh = np.empty((columns.shape[1], _ATTRIBUTES + len(self.names)), dtype=np.int64)
        fresh[:, _SEQ], fresh[:, _END], fresh[:, _BEGIN] = columns[at.T_SEQ], columns[at.T_END], columns[at.T_BEGIN]
        fresh[:, _PARTITION] = fresh[:, _POSITION] = -1
        for k, column in enumerate(self.watch.attributes):
            words = columns[at.T_ATTRIBUTES + k]
            if column.is_float:
                values = words.view(np.float64) + 0.0
                words = np.where(np.isnan(values), at.NULL, values.view(np.int64))
            fresh[:, _ATTRIBUTES + k] = words
        if isinstance(self.query.within, CountWindow):
            self._number(state, fresh)
        state.events = np.concatenate([state.events, fresh])
        points = []
        for bit, trigger in enumerate(self.triggers, start=len(self.query.types)):
            here = fresh[(columns[at.T_MASK] >> bit) & 1 == 1]
            point = np.full((len(here), 2 + len(self.query.group_by)), at.NULL, dtype=np.int64)
            point[:, 0], point[:, 1] = here[:, _END], int(trigger.told is not None)
            keep = np.ones(len(here), dtype=np.bool_)
            for k, told in enumerate(trigger.told or ()):
                if told.name is not None:
                    point[:, 2 + k] = here[:, _ATTRIBUTES + self.names.index(told.name)]
                if told.must:
                    keep &= point[:, 2 + k] != at.NULL
            points.append(point[keep])
        state.points = np.unique(np.concatenate([state.points, *points]), axis=0)

    def _number(self, state: DetectedState, fresh: Int64s) -> None:
        """Give events their place among those of their partition; matches expire that are too old by that."""
        assert isinstance(self.query.within, CountWindow)
        places = [_ATTRIBUTES + self.names.index(name) for name in self.inner.query.partition_by]
        known = {tuple(row[:-1]): k for k, row in enumerate(state.partitions.tolist())}
        counts = state.partitions[:, -1].tolist()
        for row in fresh:
            key = tuple(row[places].tolist())
            if at.NULL in key:
                continue
            number = known.setdefault(key, len(known))
            if number == len(counts):
                counts.append(0)
            row[_PARTITION], row[_POSITION] = number, counts[number]
            counts[number] += 1
        state.partitions = np.array([(*key, counts[number]) for key, number in known.items()], dtype=np.int64).reshape(
            -1, len(places) + 1
        )
        self._expire_by_position(state, fresh)

    def _expire_by_position(self, state: DetectedState, events: Int64s) -> None:
        """Set the time at which matches expire whose last counted event has come."""
        codes = (events[:, _PARTITION] << 32) + events[:, _POSITION]
        order = np.argsort(codes)
        place = np.minimum(np.searchsorted(codes, state.matches[:, _TARGET], sorter=order), len(codes) - 1)
        found = codes[order[place]] == state.matches[:, _TARGET]
        state.matches[found, _EXPIRES] = events[order[place[found]], _END]

    def _add_matches(self, state: DetectedState, blocks: Sequence[MatchBlock]) -> None:
        for block in blocks:
            if len(block):
                state.matches = np.concatenate([state.matches, self._read_matches(state, block)])
        limit = self.options.max_partial_matches
        if limit is not None and len(state.matches) > limit:
            raise LimitError(
                f"query `{self.name}`: more than {limit:,} live matches (max_partial_matches) are held; "
                "narrow the query (a shorter WITHIN, more conditions), or raise max_partial_matches"
            )

    def _read_matches(self, state: DetectedState, block: MatchBlock) -> Int64s:
        """What is kept of matches."""
        count, events = len(block), state.events
        places: dict[str, Int64s] = {}  # of each variable's event, -1: none; of a list the first
        for name, bound in block.variables.items():
            seqs = edge_events(bound, last=False) if isinstance(bound, EventLists) else bound
            if seqs is not None:
                places[name] = np.where(seqs < 0, -1, np.searchsorted(events[:, _SEQ], seqs))
        begin, end = np.full(count, LAST), np.full(count, at.NULL)
        first = np.full(count, LAST)  # position
        some = np.full(count, -1)
        for found in places.values():
            here = found >= 0
            begin[here] = np.minimum(begin[here], events[found[here], _BEGIN])
            end[here] = np.maximum(end[here], events[found[here], _END])
            first[here] = np.minimum(first[here], events[found[here], _POSITION])
            some[here] = found[here]
        rows = np.empty((count, state.matches.shape[1]), dtype=np.int64)
        known = block.detected if block.is_timed else end
        rows[:, _KNOWN] = np.where(known == at.NULL, LAST, known)
        rows[:, _EXPIRES], rows[:, _TARGET] = LAST, -1
        if self.assembly.window is not None:
            rows[:, _EXPIRES] = begin + self.assembly.window
        elif isinstance(self.query.within, CountWindow):
            rows[:, _TARGET] = (events[some, _PARTITION] << 32) + first + self.query.within.events
        column = _GROUP
        for key in self.query.group_by:
            of = some if key.variable is None else places.get(key.variable)
            rows[:, column] = self._attribute(events, of, key.name, count)
            column += 1
        for one in self.query.aggregates:
            if one.variable is not None and one.name is not None:
                rows[:, column] = self._attribute(events, places.get(one.variable), one.name, count)
                column += 1
        if isinstance(self.query.within, CountWindow):
            table = state.matches
            state.matches = rows
            self._expire_by_position(state, events)
            rows, state.matches = state.matches, table
        return rows[rows[:, _KNOWN] < LAST]

    def _attribute(self, events: Int64s, of: Int64s | None, name: str, count: int) -> Int64s:
        if of is None:
            return np.full(count, at.NULL, dtype=np.int64)
        return np.where(of < 0, at.NULL, events[of, _ATTRIBUTES + self.names.index(name)])

    def advance(self, state: DetectedState, now: int, ranks: Int64s, *, ended: bool) -> list[AggregateBlock]:
        """Let time reach `now`, or the input end: the rows of the times before."""
        self._add_matches(state, self.inner.advance(state.inner, now, ranks, ended=ended))
        until = LAST if ended else now
        due = self._changes(state, until) if self.query.emit_on_change else self._due(state, until)
        state.points = state.points[state.points[:, 0] >= until]
        found = self._rows(state, due) if len(due) else []
        state.reached = until
        gone = until if ended else until - int(self.query.emit_on_change)
        state.matches = state.matches[state.matches[:, _EXPIRES] > gone]
        return found

    def _due(self, state: DetectedState, until: int) -> Int64s:
        """The times and groups that give a row: triggers' own, or those of the matches that became known."""
        points = state.points[state.points[:, 0] < until]
        told = points[points[:, 1] == 1]
        times = np.unique(points[points[:, 1] == 0, 0])
        became = state.matches[np.isin(state.matches[:, _KNOWN], times)]
        groups = became[:, _GROUP : _GROUP + len(self.query.group_by)]
        return np.unique(
            np.concatenate([told[:, [0, *range(2, told.shape[1])]], np.column_stack([became[:, _KNOWN], groups])]),
            axis=0,
        )

    def _changes(self, state: DetectedState, until: int) -> Int64s:
        """The times at which groups may have changed."""
        groups = state.matches[:, _GROUP : _GROUP + len(self.query.group_by)]
        parts = [np.column_stack([state.matches[:, column], groups]) for column in (_KNOWN, _EXPIRES)]
        moments = np.concatenate(parts)
        due = (moments[:, 0] >= state.reached) & (moments[:, 0] < until) & (moments[:, 0] < LAST)
        return np.unique(moments[due], axis=0)

    def _rows(self, state: DetectedState, due: Int64s) -> list[AggregateBlock]:
        matches, width = state.matches, len(self.query.group_by)
        live = Live(matches[:, _KNOWN], matches[:, _EXPIRES], matches[:, _GROUP : _GROUP + width], due)
        values: list[Values] = []
        column = _GROUP + width
        for one in self.query.aggregates:
            measured: Values | None = None
            if one.name is not None:
                words = np.ascontiguousarray(matches[:, column])
                measured = decode_words(words, one.name, self.schema, self.strings)
                column += 1
            values.append(add_up(one, live, measured, self.name))
        keep = np.ones(len(due), dtype=np.bool_)
        if self.query.emit_on_change:
            keep = self._differing(state, due, values)
        times = due[keep, 0]
        groups = tuple(
            decode_words(np.ascontiguousarray(due[keep, 1 + k]), key.name, self.schema, self.strings)
            for k, key in enumerate(self.query.group_by)
        )
        kept = tuple((found[keep], null[keep]) for found, null in values)
        return [AggregateBlock(self.query, self.name, times, groups, kept)] if len(times) else []

    def _differing(self, state: DetectedState, due: Int64s, values: Sequence[Values]) -> npt.NDArray[np.bool_]:
        """Which values differ from those that their group reported last; what was reported is noted."""
        width = len(self.query.group_by)
        words = []
        for one, (found, null) in zip(self.query.aggregates, values, strict=True):
            if found.dtype == object:
                bits = self.strings.encode_words([None if n else text for text, n in zip(found, null, strict=True)])
            else:
                bits = found.view(np.int64) if found.dtype == np.int64 else (found + 0.0).view(np.int64)
            is_count = one.function == "COUNT"
            words += [np.where(null, 0, bits), np.where(null, 0, 1) if not is_count else np.zeros(len(due), np.int64)]
        table = np.column_stack(words).tolist()
        last = {tuple(row[:width]): row[width:] for row in state.reported.tolist()}
        nothing = [0] * (2 * len(values))
        keep = np.zeros(len(due), dtype=np.bool_)
        for k, (_, *group) in enumerate(due.tolist()):
            if table[k] != last.get(tuple(group), nothing):
                keep[k] = True
                last[tuple(group)] = table[k]
        rows = [(*group, *row) for group, row in last.items() if row != nothing]
        state.reported = np.array(rows, dtype=np.int64).reshape(-1, state.reported.shape[1])
        return keep

    def next_due(self, state: DetectedState) -> int | None:
        """A time before which `advance` has nothing to tell."""
        due = [int(state.points[0, 0]) + 1] if len(state.points) else []
        if self.query.emit_on_change and len(state.matches):
            moments = state.matches[:, [_KNOWN, _EXPIRES]]
            ahead = moments[(moments >= state.reached) & (moments < LAST)]
            due += [int(ahead.min()) + 1] if len(ahead) else []
        waiting = self.inner.next_due(state.inner)
        return min([*due, *([] if waiting is None else [waiting])], default=None)

    # -- memory ------------------------------------------------------------------------------------------------------
    def tidy(self, state: DetectedState) -> None:
        """Release what the detection does not hold any more."""
        self.inner.tidy(state.inner)
        oldest = self.inner.oldest_event(state.inner)
        keep = len(state.events) if oldest is None else int(np.searchsorted(state.events[:, _SEQ], oldest))
        state.events = state.events[keep:].copy()

    def oldest_event(self, state: DetectedState) -> int | None:
        """Rows are not needed: what is needed of events is kept here."""
        return None

    def live_strings(self, state: DetectedState) -> list[Int64s]:
        """The string codes that the state still holds."""
        found = self.inner.live_strings(state.inner)
        tables = [state.events[:, _ATTRIBUTES:], state.matches[:, _GROUP:], state.points[:, 2:], state.reported]
        codes = np.concatenate([table.reshape(-1) for table in tables])
        limit = len(self.strings.rank)
        texts = [name for name in self.names if not is_time(name, self.schema)]
        if any(self.schema.columns[name] is DType.STRING for name in texts):
            found.append(codes[(codes >= 0) & (codes < limit)])
        return found
