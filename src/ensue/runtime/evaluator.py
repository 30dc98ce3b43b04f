"""One query's evaluator: a plan made ready to run. It does not change; what changes is the state it is given."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from ensue.errors import InternalError, LimitError
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.normalize import Branch
from ensue.pattern.query import Query
from ensue.planning.conditions import Conditions
from ensue.planning.plan import Plan
from ensue.runtime import layout as at
from ensue.runtime.arena import (
    SMALLEST,
    capacities_of,
    header,
    index_room,
    larger,
    new_arena,
    resized,
    rows_of,
    smaller,
)
from ensue.runtime.assembly import Assembly, Store
from ensue.runtime.blocks import MatchBlock
from ensue.runtime.common import CommonLeaves
from ensue.runtime.decoding import decode, written
from ensue.runtime.pool import LARGE, Pool
from ensue.runtime.preparing import Reading, prepare
from ensue.runtime.strings import StringTable

Int64s = npt.NDArray[np.int64]

_BLOCK = 1 << 14
_LULL = 8
"""After how many times that the state has been tidied room is given back that has not been needed in between."""
_ENOUGH = 1 << 19
"""After how many rows that were looked at the clock is, where a batch may not take for ever: a millisecond or so."""
NO_RANKS = np.zeros(1, dtype=np.int64)


@dataclass(slots=True)
class State:
    """Everything an evaluator remembers: one array (see layout), and counts for the user.

    Events that other queries look at too lie in the `common` leaves; the array has views of them.
    """

    arena: Int64s
    common: CommonLeaves = field(default_factory=CommonLeaves)
    shed_matches: int = 0
    shed_partial: int = 0
    needed: tuple[int, ...] = ()  # how many rows each store has held at most since room was last given back
    tidied: int = 0  # how often it has been looked since then


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A query with its assembled plan."""

    query: Query
    name: str
    branches: tuple[Branch, ...]
    plan: Plan
    schema: Schema
    assembly: Assembly
    options: Options
    analyses: tuple[Conditions, ...] = ()  # of the branches, which other plans share
    output: list[Int64s] = field(default_factory=lambda: [np.empty(_BLOCK, dtype=np.int64)])
    pool: Pool = field(default_factory=Pool)
    seconds: list[float] = field(default_factory=lambda: [0.0])
    drops: bool = False  # matches, unseen: they are only made for the time that it takes

    @property
    def digest(self) -> str:
        """A name for the assembled plan: states of equal digest fit each other's evaluators."""
        return hashlib.blake2b(self.assembly.program.tobytes(), digest_size=16).hexdigest()

    def new_state(self, common: CommonLeaves | None = None, first: int | None = None, *, room: int = SMALLEST) -> State:
        """The state before the first event, or before the event of a number if common leaves hold events already.

        Stores have `room` for so many rows, a power of two, before they must grow.
        """
        state = State(new_arena(self.assembly.stores, room), common or CommonLeaves())
        state.common.place(state.arena, self.assembly.stores, first)
        self.refit(state)
        return state

    @property
    def shares(self) -> bool:
        """Whether it looks at common leaves."""
        return any(store.shared is not None for store in self.assembly.stores)

    def refit(self, state: State) -> None:
        """Let the views of common leaves fit where those lie now, and how large they are."""
        if not self.shares:
            return
        self._attach(state, state.arena)
        capacities = capacities_of(self.assembly.stores, state.arena)
        for s in self.assembly.stores:
            is_indexed = s.shared is not None and s.key is not None
            if (is_indexed and index_room(state.arena, s) != capacities[s.number]) or (
                s.follows is not None and capacities[s.number] != capacities[s.follows]
            ):
                self._resize(state, capacities)
                return

    def saved(self, state: State) -> Int64s:
        """The state's array as it is saved: without where common leaves happen to lie in memory."""
        if not self.shares:
            return state.arena
        arena = state.arena.copy()
        for store in self.assembly.stores:
            if store.shared is not None:
                arena[header(store.number) + at.H_OFFSET] = 0
        return arena

    def _attach(self, state: State, arena: Int64s) -> None:
        state.common.attach(arena, self.assembly.stores)

    def _resize(self, state: State, capacities: Sequence[int]) -> None:
        state.arena = resized(self.assembly, state.arena, capacities, partial(self._attach, state))

    def step(self, state: State, reading: Reading) -> list[MatchBlock]:
        """Take a batch of events in; the matches that are known now."""
        prepared = prepare(self.assembly, reading)
        return self.run_rows(state, prepared.columns, prepared.rows, self.ranks(reading.strings))

    def step_within(self, state: State, reading: Reading, patience: float) -> tuple[list[MatchBlock], int]:
        """Take a batch in, or as much of it as so many seconds allow: the matches, and how many events were taken."""
        from ensue.runtime.kernels.step import step

        prepared = prepare(self.assembly, reading)
        columns, stop = prepared.columns, prepared.rows
        program, ranks = self.assembly.program, self.ranks(reading.strings)
        end, status = self.seconds[0] + patience, at.DONE

        def call(arena: Int64s, out: Int64s) -> int:
            nonlocal stop, status
            if self.seconds[0] > end:  # a row that it has begun, and lacked room for, is its last
                stop = min(stop, int(arena[at.S_ROW]) + (status != at.LOOKED))
            status = int(step(program, arena, ranks, columns, out, stop))
            return status

        state.arena[at.S_ROW], state.arena[at.S_ENOUGH] = 0, _ENOUGH
        try:
            found = self._drive(state, call)
        finally:
            state.arena[at.S_ENOUGH] = 0
        batch = reading.batch
        return found, len(batch) if stop == prepared.rows else batch.place(int(columns[at.T_SEQ, stop]))

    def ranks(self, strings: StringTable) -> Int64s:
        """The order of strings, for conditions that compare them."""
        return strings.rank if self.assembly.uses_ranks and len(strings.rank) else NO_RANKS

    def run_rows(self, state: State, columns: Int64s, rows: int, ranks: Int64s) -> list[MatchBlock]:
        """Take prepared rows in."""
        state.arena[at.S_ROW] = 0
        if self.assembly.policy == "ANY":
            from ensue.runtime.kernels.step import step
        else:
            from ensue.runtime.kernels.runs import step_runs as step
        return self._drive(state, lambda arena, out: step(self.assembly.program, arena, ranks, columns, out, rows))

    def resume(self, state: State, columns: Int64s) -> list[MatchBlock]:
        """Go on with a batch of one row that the kernel stopped in, or that gave matches.

        Its time is not taken: to ask the processor's clock takes longer than the kernel.
        """
        if state.arena[at.S_ROW] > 0:  # the kernel is done with the row, and only its output is to be taken
            return self._drive(state, _is_done, timed=False)
        from ensue.runtime.kernels.step import step

        program = self.assembly.program
        return self._drive(state, lambda arena, out: step(program, arena, NO_RANKS, columns, out, 1), timed=False)

    def advance(self, state: State, now: int, ranks: Int64s, *, ended: bool) -> list[MatchBlock]:
        """Let time reach `now`, or the input end: the matches that are known by that."""
        if self.assembly.policy != "ANY":
            from ensue.runtime.kernels.runs import advance_runs

            program = self.assembly.program
            return self._drive(state, lambda arena, out: advance_runs(program, arena, ranks, out, now, int(ended)))
        from ensue.runtime.kernels.step import advance

        return self._drive(state, lambda arena, out: advance(self.assembly.program, arena, out, now, int(ended)))

    def next_due(self, state: State) -> int | None:
        """A time before which no waiting match becomes known, None if none waits for a time."""
        due = int(state.arena[at.S_DEADLINE])
        counts = int(self.assembly.program[at.P_COUNT_WINDOW]) != at.NULL  # then it is a position
        return None if counts or due == np.iinfo(np.int64).max else due

    def _drive(self, state: State, call, *, timed: bool = True) -> list[MatchBlock]:  # type: ignore[no-untyped-def]
        """Call a kernel until it is done, taking its output away and giving it room."""
        parts: list[Int64s] = []
        found = 0
        limit = self.options.max_matches
        while True:
            out = self.output[0]
            started = time.thread_time() if timed else 0.0
            status = call(state.arena, out)
            if timed:
                self.seconds[0] += time.thread_time() - started
            if status == at.LOOKED:  # it goes on, and its output too
                continue
            arena = state.arena
            used = int(arena[at.S_OUT])
            found += int(arena[at.S_MATCHES])
            arena[at.S_OUT] = arena[at.S_MATCHES] = 0
            new = written(out, used, int(arena[at.S_STRIDE]), self.assembly)
            if limit is not None and found > limit:
                if self.options.on_limit == "error":
                    raise LimitError(
                        f"query `{self.name}`: more than {limit:,} matches (max_matches) in one call; narrow the query "
                        "(a shorter WITHIN, more conditions, PARTITION BY), push smaller batches, or raise max_matches"
                    )
                state.shed_matches += found - limit
                parts += self._cut(new, found - limit)
                found = limit
            elif self.drops:
                pass
            elif 2 * used > len(out):  # a full block is handed over as it is, and replaced
                parts.append(new)
                self.output[0] = out = self.pool.take(len(out))
            elif used:
                parts.append(new.copy())
            if status == at.DONE:
                break
            if status == at.OUTPUT_FULL:
                if used == 0 or len(out) < LARGE:
                    self.output[0] = np.empty(2 * len(out), dtype=np.int64)
            elif status == at.STORE_FULL:
                started = time.thread_time() if timed else 0.0
                self._make_room(state)
                if timed:  # it is the plan that needs the room
                    self.seconds[0] += time.thread_time() - started
            else:
                raise InternalError(f"kernel returned {status}")
        return decode(parts, self.query, self.name, self.assembly, self.pool)

    def _cut(self, part: Int64s, surplus: int) -> list[Int64s]:
        """A copy of some output without the newest matches of it; nothing if it has no others."""
        if not self.assembly.has_lists:
            return [part[:, :-surplus].copy()] if surplus < part.shape[1] else []
        starts = [0]
        while starts[-1] < len(part):
            starts.append(starts[-1] + int(part[starts[-1]]))
        keep = len(starts) - 1 - surplus
        return [part[: starts[keep]].copy()] if keep > 0 else []

    def _make_room(self, state: State) -> None:
        arena = state.arena
        number, need = int(arena[at.S_FAULT]), int(arena[at.S_NEED])
        store = self.assembly.stores[number]
        if store.kind in (at.KIND_NODE, at.KIND_PENDING, at.KIND_RUNS):
            held = self.partial_matches(state)
            limit = self.options.max_partial_matches
            if limit is not None and held >= limit:
                if self.options.on_limit == "shed":
                    self._shed(state, number)
                    return
                raise LimitError(
                    f"query `{self.name}`: more than {limit:,} partial matches (max_partial_matches) are held "
                    f"({store.title}); narrow the query (a shorter WITHIN, more conditions), take a plan that stores "
                    "less, or raise max_partial_matches"
                )
        self._resize(state, larger(self.assembly.stores, arena, number, need))

    def _shed(self, state: State, number: int) -> None:
        """Drop the older half of a store's partial matches."""
        from ensue.runtime.kernels.stores import rebuild_index

        arena = state.arena
        h = header(number)
        head, tail = int(arena[h + at.H_HEAD]), int(arena[h + at.H_TAIL])
        dropped = max(1, (tail - head) // 2)
        rows = rows_of(arena, self.assembly.stores[number])[:, dropped:].copy()
        offset, capacity = int(arena[h + at.H_OFFSET]), int(arena[h + at.H_CAPACITY])
        for c in range(rows.shape[0]):
            arena[offset + c * capacity : offset + c * capacity + rows.shape[1]] = rows[c]
        arena[h + at.H_HEAD] = 0
        arena[h + at.H_TAIL] = rows.shape[1]
        arena[h + at.H_PURGE] = capacity
        rebuild_index(arena, h)
        state.shed_partial += dropped

    def partial_matches(self, state: State) -> int:
        """The stored partial and waiting matches."""
        kinds = (at.KIND_NODE, at.KIND_PENDING, at.KIND_RUNS)
        return sum(rows_of(state.arena, s).shape[1] for s in self.assembly.stores if s.kind in kinds)

    def tidy(self, state: State, *, quickly: bool = False, sparing: bool = False) -> None:
        """Release whatever has left the window, and now and then the room that stores have not needed for a while.

        For what a burst of partial matches needed, the next one needs again, and would have to wait for. Quickly, no
        store is moved for that; sparing, it only counts what is needed now.
        """
        from ensue.runtime.kernels.stores import purge_all

        arena, stores = state.arena, self.assembly.stores
        if not quickly:
            held = _tails(stores, arena)
            state.needed = tuple(map(max, held, state.needed or held))
            state.tidied += 1
        purge_all(self.assembly.program, arena)
        if quickly or not (sparing or state.tidied >= _LULL):
            return
        capacities = smaller(stores, arena, _tails(stores, arena) if sparing else state.needed)
        if capacities != capacities_of(stores, arena):
            self._resize(state, capacities)
        state.needed, state.tidied = (), 0

    def oldest_event(self, state: State) -> int | None:
        """The least sequence number that the state still holds."""
        oldest: int | None = None
        for number, column in self.assembly.seq_columns:
            values = rows_of(state.arena, self.assembly.stores[number])[column]
            if len(values):
                least = int(values.min())
                oldest = least if oldest is None else min(oldest, least)
        return oldest

    def live_strings(self, state: State) -> list[Int64s]:
        """The string codes that the state still holds."""
        found = [np.array(sorted(self.assembly.strings), dtype=np.int64)]
        found += [
            rows_of(state.arena, self.assembly.stores[number])[column]
            for number, column in self.assembly.string_columns
        ]
        return found


def _tails(stores: Sequence[Store], arena: Int64s) -> list[int]:
    """How many rows each store holds, those that it no longer needs included until they are purged."""
    return [int(arena[header(s.number) + at.H_TAIL]) for s in stores]


def _is_done(arena: Int64s, out: Int64s) -> int:
    return at.DONE


def one_row_kernel() -> Callable[..., int]:
    """The kernel for a batch of one row under ANY."""
    from ensue.runtime.kernels.step import step_one

    kernel: Callable[..., int] = step_one
    return kernel
