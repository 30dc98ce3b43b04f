"""The adaptive loop of an engine: between which parts of a batch its plans are checked, and the journal of it.

What is decided at a check, query by query, is the adapters' business (`ensue.runtime.adapting`); how a plan takes over
is that of lanes (`ensue.runtime.lanes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.planning.plan import Plan
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.adapting import Adapter, Spent, TryOn
from ensue.runtime.journal import Entry, Journal
from ensue.runtime.lanes import Lane, Method, Swapped
from ensue.runtime.matches import Matches
from ensue.runtime.rows import RowStore
from ensue.runtime.watching import Watcher

Swap: TypeAlias = Callable[[str, float | None, Plan, Method], Swapped]
"""Lets a plan of the query with that name take over, where events take so many seconds, and says how."""
Take: TypeAlias = Callable[[EventBatch, int | None, float | None], tuple[Matches, int]]
"""Takes events in and lets time reach a moment; how many of them it took, for they may only take so long."""
Part: TypeAlias = tuple[dict[str, Any], list[pa.Table]]
"""A part of a snapshot: JSON-able values and tables."""


class AdaptiveLoop:
    """An adapter for each query whose plan can be replaced, and when they are asked; none if there is no adaptation."""

    def __init__(self, adaptation: Adaptation | None, seconds: Sequence[float] = (0.0,)) -> None:
        """`seconds` are those that kernels take for batches, added up by who calls them."""
        self.adaptation = adaptation
        self._batches = seconds
        self._singles = 0.0  # seconds that events took that came one by one
        self._since: float | None = None  # when such events began to come
        self.adapters: dict[str, Adapter] = {}
        self._kept: int | None = None  # for how long rows are kept: as far back as a plan of a query may have to look
        self.journal = Journal()
        self._cadence = None if adaptation is None else adaptation.cadence(self._worked)
        self._reach = 0  # how many events before a check are looked at
        self.event_seconds = 0.0  # that an event took before the last check; 0: not known
        self.since_check = 0.0  # seconds that plans were at work from the check before to the last one

    def bind(self, lanes: Sequence[Lane], schema: Schema) -> None:
        """Make the adapters, now that the columns are known."""
        self.adapters = {}
        if self.adaptation is None:
            return
        for evaluator in (lane.evaluator for lane in lanes):
            if Adapter.fits(evaluator.query):
                arguments = (evaluator.query, evaluator.branches, evaluator.plan, schema, self.adaptation)
                self.adapters[evaluator.name] = Adapter(*arguments)
        for adapter in self.adapters.values():
            adapter.is_alone = len(lanes) == 1
        self._reach = self._find_reach()
        self._kept = max((lane.reach for lane in lanes if lane.evaluator.assembly.window is not None), default=None)

    def _worked(self) -> float:
        """Seconds that plans have been at work: kernels are timed anyway, batch by batch."""
        return self._batches[0] + self._singles

    @property
    def _watchers(self) -> list[Watcher]:
        return [adapter.watcher for adapter in self.adapters.values()]

    def _find_reach(self) -> int:
        return max((watcher.reach for watcher in self._watchers), default=0)

    @property
    def _enough(self) -> int:
        """How many events tell enough of a stream that has changed."""
        return max((watcher.enough for watcher in self._watchers), default=0)

    @property
    def is_on(self) -> bool:
        """Whether there is a plan to be checked now and then."""
        return bool(self.adapters) and self._cadence is not None

    @property
    def spent(self) -> Spent:
        """Processor time that went into keeping plans fit for the stream."""
        return Spent.total(adapter.spent for adapter in self.adapters.values())

    def note_replaced(self, name: str, plan: Plan) -> None:
        """A plan has been put in by hand."""
        self.adapters[name].plan = plan
        if self._cadence is not None:
            self._cadence.replaced()

    def set_pace(self, pace: float) -> None:
        """Say how many units of the stream's time pass in a second of the clock."""
        for adapter in self.adapters.values():
            adapter.pace = pace

    def take(
        self,
        batch: EventBatch,
        until: int | None,
        take: Take,
        check: Callable[[int], None],
    ) -> Matches:
        """Take a batch in, by parts if it is long, so that plans can be replaced between them.

        `take` takes a part in and lets time reach its end, the last one `until`; `check` has the plans checked. Where a
        part takes much longer than expected, the rest of it waits for a check; where one sees at a glance that the
        stream has changed, the check comes as soon as enough is known of what it has become.
        """
        cadence = self._cadence
        assert cadence is not None
        if self._since is not None:
            self._count_singles()
        start, end = 0, len(batch)
        is_quiet = cadence.is_quiet(batch.first + end)  # as most of the time where batches are short
        is_far = is_quiet or cadence.is_far(batch.first, batch.first + end, self._reach)
        is_glance = cadence.is_glance and not is_quiet
        if is_glance and (changed := [one for one in self._watchers if one.has_changed(batch)]):
            for watcher in changed:
                watcher.turn(int(batch.end[-1]))
            cadence.turn()
            cadence.want(batch.first + end + self._enough)
            is_far = False
        found = []
        while True:
            stop = end if is_far else cadence.cut(batch.first + start, batch.first + end) - batch.first
            part = batch if start == 0 and stop == end else batch.slice(start, stop)
            last = until if stop == end else int(part.end[-1])
            matches, taken = take(part, last, cadence.patience(len(part)))
            found.append(matches)
            is_urgent = taken < len(part)
            if is_urgent or not is_far:
                part = part.slice(0, taken) if is_urgent else part
                if is_urgent and any(watcher.has_changed(part) for watcher in self._watchers):
                    cadence.turn()
                for adapter in self.adapters.values():
                    adapter.watcher.observe(part)
                if cadence.is_due(part.first + taken, is_urgent=is_urgent):
                    check(part.first + taken)
            start, is_far = start + taken, False
            if start >= end:
                return found[0] if len(found) == 1 else Matches.concat(found)

    def pause(self, next_event: int, check: Callable[[int], None]) -> int:
        """Check the plans if it is time; how many events may come one by one before it is asked again."""
        assert self._cadence is not None
        self._count_singles()
        if self._cadence.is_due(next_event):
            check(next_event)
        self._since = time.thread_time()  # which is not asked for each of them
        return self._cadence.next - next_event

    def _count_singles(self) -> None:
        if self._since is not None:
            self._singles += time.thread_time() - self._since
            self._since = None

    def check(
        self,
        next_event: int,
        rows: RowStore,
        is_ready: Callable[[str], bool],
        swap: Swap,
        try_plans: Callable[[str], TryOn],
    ) -> None:
        """Let the plan of each query that is ready for another one be checked."""
        assert self._cadence is not None
        started = time.thread_time()
        ready = {name: adapter for name, adapter in self.adapters.items() if is_ready(name)}
        if not ready:
            self._cadence.postpone(next_event)
            return
        entries: list[Entry] = []
        slower, worked = self._cadence.slower(next_event), self._cadence.worked
        is_settling = self._cadence.is_settling(next_event)
        self.event_seconds, self.since_check = self._cadence.lately(next_event), self._cadence.since_check
        before = self.spent
        assert self.adaptation is not None
        is_free = self.adaptation.every is None and self.adaptation.method == "auto"
        is_try, unevenness = self._cadence.is_try, self._cadence.unevenness
        for name, adapter in ready.items():
            ways = partial(swap, name, self.event_seconds if is_free else None), try_plans(name)
            if is_try:
                entry = adapter.explore(rows, next_event, *ways, worked=worked, unevenness=unevenness)
            else:
                told = partial(adapter.check, slower=slower, worked=worked, is_settling=is_settling)
                entry = told(rows, next_event, *ways, unevenness=unevenness)
            if entry is not None:
                entries.append(entry)
        trying = self.spent.trying - before.trying
        self.journal.add(entries)
        is_found = any(entry.replaced for entry in entries)
        more = any(adapter.has_untried for adapter in self.adapters.values())
        if is_try:
            self._cadence.tried(next_event, trying, found=is_found, more=more)
            return
        self._reach = self._find_reach()
        replacing = trying + self.spent.replacing - before.replacing  # which pays: it must not make checks rarer
        spent = time.thread_time() - started - replacing
        self._cadence.checked(next_event, spent, found=is_found, enough=self._enough, trying=trying, more=more)

    def first_needed(self, rows: RowStore, now: int | None) -> int | None:
        """The first event that a plan that takes over might need: as far as the longest window are kept for it."""
        return None if now is None or self._kept is None else rows.first_after(now - self._kept)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> dict[str, Part]:
        """The adapters' states, by names of parts of a snapshot."""
        return {f"adapter {name}": adapter.dump() for name, adapter in self.adapters.items()}

    def load(self, parts: Mapping[str, Part], lanes: Sequence[Lane]) -> None:
        """Take up what `dump` gave, with the plans of the lanes."""
        for lane in lanes:
            name = lane.evaluator.name
            if name in self.adapters and f"adapter {name}" in parts:
                self.adapters[name].load(*parts[f"adapter {name}"], lane.evaluator.plan)

    def dump_cadence(self) -> dict[str, Any] | None:
        """When the next check is due, as JSON-able values."""
        if self._since is not None:
            self._count_singles()
            self._since = time.thread_time()
        return None if self._cadence is None else self._cadence.dump()

    def load_cadence(self, state: Mapping[str, Any] | None, next_event: int) -> None:
        """Take up what `dump_cadence` gave; without it the next check is a while away."""
        if self._cadence is None:
            return
        if state is None:
            self._cadence.begin(next_event)
        else:
            self._cadence.load(state, next_event)
