"""A query as it runs: an evaluator with its state, and how another plan takes over from it while events come.

Two ways lead from one plan to another, and neither loses or doubles a match:

- **replay**: the new plan's state is made from the rows of the last window (or two: `Branch.reach`), what it finds in
  them is known already and dropped, and it takes over at once;
- **side by side** [Kolchinsky/Schuster 2.2]: the new plan starts empty, and the old one goes on for a window. A match
  that holds an event from before the start is the old one's, every other the new one's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ensue.errors import LimitError, PlanError, StateError
from ensue.events.batch import EventBatch, Int64s
from ensue.planning.plan import Plan, dump_plan, load_plan
from ensue.runtime.blocks import MatchBlock, first_events, select_matches
from ensue.runtime.common import CommonLeaves
from ensue.runtime.evaluator import Evaluator, State
from ensue.runtime.layout import NULL
from ensue.runtime.preparing import Reading
from ensue.runtime.rows import RowStore
from ensue.runtime.strings import StringTable

Method: TypeAlias = Literal["replay", "side by side"]
METHODS: tuple[Method, ...] = get_args(Method)
_REPLAY = 0.05
"""Seconds that it may always take to go through events again."""
_FEW = 64
"""Events that plans side by side take at least before it is looked at the clock."""


class Swapped(NamedTuple):
    """How a plan has taken over, None if it has not, and how many events were gone through again for it."""

    method: Method | None
    replayed: int


@dataclass(slots=True)
class Retiring:
    """A plan that has been replaced: it finds the matches with an event before `first`, until time reaches `until`."""

    evaluator: Evaluator
    state: State
    first: int
    until: int


class Lane:
    """One query's evaluators and states."""

    def __init__(self, evaluator: Evaluator, state: State) -> None:
        self.evaluator = evaluator
        self.state = state
        self.retiring: list[Retiring] = []

    @property
    def pairs(self) -> list[tuple[Evaluator, State]]:
        """All evaluators with their states."""
        return [(self.evaluator, self.state), *((old.evaluator, old.state) for old in self.retiring)]

    @property
    def window(self) -> int:
        """The window in the time column's units."""
        window = self.evaluator.assembly.window
        if window is None:
            raise PlanError(f"query `{self.evaluator.name}` has no window of time: its plan cannot be replaced")
        return window

    @property
    def reach(self) -> int:
        """How far back a new plan has to look, in the time column's units."""
        return self.window * max(branch.reach for branch in self.evaluator.branches)

    def dump(self) -> list[dict[str, Any]]:
        """What the pairs are, beside their states' arrays, as JSON-able values."""
        found = []
        limits: list[tuple[int | None, int | None]] = [(None, None), *((old.first, old.until) for old in self.retiring)]
        for (evaluator, state), (first, until) in zip(self.pairs, limits, strict=True):
            shed = [state.shed_matches, state.shed_partial]
            plan = dump_plan(evaluator.plan)
            found.append({"plan": plan, "program": evaluator.digest, "shed": shed, "first": first, "until": until})
        return found

    @classmethod
    def load(
        cls,
        dumped: Sequence[Mapping[str, Any]],
        states: Sequence[Int64s],
        common: CommonLeaves,
        make: Callable[[Plan], Evaluator],
    ) -> Lane:
        """A lane as `dump` told, with the states' arrays; `make` gives an evaluator of a plan."""
        pairs = []
        for one, arena in zip(dumped, states, strict=True):
            evaluator = make(load_plan(one["plan"]))
            if evaluator.digest != one["program"]:
                raise StateError("the snapshot is of another version of ensue: the same plan is run in another way now")
            state = State(arena, common, *one["shed"])
            evaluator.refit(state)
            pairs.append((evaluator, state))
        lane = cls(*pairs[0])
        for one, pair in zip(dumped[1:], pairs[1:], strict=True):
            lane.retiring.append(Retiring(*pair, one["first"], one["until"]))
        return lane

    def step(self, reading: Reading) -> list[MatchBlock]:
        """Take a batch in; the matches that are known now."""
        found = self.evaluator.step(self.state, reading)
        for old in self.retiring:
            found += [holding_old(block, old.first) for block in old.evaluator.step(old.state, reading)]
        return found

    def step_within(self, reading: Reading, patience: float) -> tuple[list[MatchBlock], int]:
        """Take a batch in, or as much of it as so many seconds allow: the matches, and how many events that was.

        Where plans run side by side all of them must have taken the same events: so it is looked at the clock between
        parts, which are short as long as it is not known how long they take.
        """
        if not self.retiring:
            return self.evaluator.step_within(self.state, reading, patience)
        batch, clock = reading.batch, self.evaluator.seconds
        found: list[MatchBlock] = []
        taken, size, left = 0, _FEW, patience
        while taken < len(batch) and left >= 0.0:
            before = clock[0]
            part = batch.slice(taken, min(taken + size, len(batch)))
            found += self.step(Reading(part, reading.schema, reading.strings))
            taken += len(part)
            took = clock[0] - before
            left -= took
            size = 2 * size if 4.0 * took < left else max(size // 2, _FEW)
        return found, taken

    def advance(self, now: int, strings: StringTable, *, ended: bool = False) -> list[MatchBlock]:
        """Let time reach `now`, or the input end."""
        found = self.evaluator.advance(self.state, now, self.evaluator.ranks(strings), ended=ended)
        for old in self.retiring:
            later = old.evaluator.advance(old.state, now, old.evaluator.ranks(strings), ended=ended)
            found += [holding_old(block, old.first) for block in later]
        if self.retiring and not ended:
            self._retire(now)
        return found

    def _retire(self, now: int | None = None) -> None:
        """Let go of the replaced plans that are done, or of all; what they have dropped stays counted."""
        staying = []
        for old in self.retiring:
            if now is not None and old.until > now:
                staying.append(old)
            else:
                self.state.shed_matches += old.state.shed_matches
                self.state.shed_partial += old.state.shed_partial
        self.retiring = staying

    def take_over(
        self,
        evaluator: Evaluator,
        method: Method,
        rows: RowStore,
        *,
        now: int | None,
        first: int,
        strings: StringTable,
        pace: float | None = None,
    ) -> Swapped:
        """Let another evaluator of the same query take over.

        `now` is the time that has been reached, `first` the number of the next event. If events take `pace` seconds
        now, it may not take longer to go through some again: what is quick from now on need not be so for the events
        of the last window. Then both run side by side.
        """
        looks_back = any(branch.looks_back(n) for branch in evaluator.branches for n in branch.negations)
        if now is None or looks_back:
            method = "replay"  # an absence before the match may be of an event that a new plan would not have seen
        reached = NULL + 1 if now is None else now
        recent: list[EventBatch] = []  # all events that may still count, in order
        if now is not None and method == "replay":
            oldest = rows.first_after(now - self.reach)
            recent = [] if oldest is None else rows.batches(oldest)
        number = sum(map(len, recent))
        state: State | None = None
        if method == "replay":
            seconds = math.inf if pace is None else max(_REPLAY, pace * number)
            start = recent[0].number(0) if recent else first
            state = _replayed(evaluator, self.state.common, start, recent, reached, strings, seconds)
            if state is None and looks_back:
                return Swapped(None, number)
        if state is None:
            method, state = "side by side", evaluator.new_state(self.state.common, first)
        else:
            self._retire()
        state.shed_matches, state.shed_partial = self.state.shed_matches, self.state.shed_partial
        if method == "side by side":
            self.retiring.append(Retiring(self.evaluator, self.state, first, reached + self.window))
            self.state.shed_matches = self.state.shed_partial = 0
        self.evaluator, self.state = evaluator, state
        return Swapped(method, number)


def _replayed(
    evaluator: Evaluator,
    common: CommonLeaves,
    first: int,
    recent: Sequence[EventBatch],
    reached: int,
    strings: StringTable,
    seconds: float,
) -> State | None:
    """A state made from the events of the last window; None if that takes longer than it may, or too much room."""
    state = evaluator.new_state(common, first)
    again = unlimited(evaluator)
    end = time.thread_time() + seconds
    for batch in recent:
        try:
            _, taken = again.step_within(state, Reading(batch, evaluator.schema, strings), end - time.thread_time())
        except LimitError:
            return None
        if taken < len(batch):
            return None
    again.advance(state, reached, again.ranks(strings), ended=False)
    return state


def unlimited(evaluator: Evaluator) -> Evaluator:
    """The same without a limit of matches: what it finds is dropped at once."""
    return replace(evaluator, options=replace(evaluator.options, max_matches=None))


def holding_old(block: MatchBlock, first: int) -> MatchBlock:
    """The matches that hold an event from before one."""
    return select_matches(block, first_events(block) < first)
