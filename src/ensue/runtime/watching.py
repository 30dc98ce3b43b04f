"""What is known of a query's stream: the events before a look are held, and looked at when someone asks.

Until then an event costs nothing. What lies further back than statistics look is let go unseen, and is not even held
once it is known how many events that is. Events that came one by
one, or before a restart, are taken from the stored rows, as far as they are still there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.pattern.query import Query
from ensue.runtime.rows import RowStore
from ensue.runtime.sampled import arithmetic, comparing, evaluating
from ensue.runtime.trying import TRIED
from ensue.statistics.collector import Collector, Reach, query_window
from ensue.statistics.sampling import Sampling
from ensue.statistics.snapshot import Statistics

_MOST_HELD = 1 << 17
"""How many events are held at most until the next look."""
_FIRST_REACH = 1 << 15
"""How many are held before the first look: to hold batches makes taking in the next ones slower."""
_TOLD = 4096
"""How many events beside those of a window tell enough of a stream that has changed."""
_SAMPLING = Sampling(size=1024, pairs=8192, every=_MOST_HELD)


class Watcher:
    """Statistics of a query's stream over its last so many `windows`; and its last events, if it `tries` plans."""

    def __init__(self, query: Query, schema: Schema, windows: float, *, tries: bool = False) -> None:
        self._query = query
        self._schema = schema
        self._reach = Reach(windows)
        self._window = query_window(query, schema) or 0.0
        self._back = windows * self._window
        self._least = max(self._reach.calm * self._reach.events * len(query.types), TRIED if tries else 0)
        self._held: deque[EventBatch] = deque()  # without a gap between them
        self._number = 0  # how many events these are
        self._looked = 0  # the number of the first event that has not been looked at
        self._is_other = False  # types were seen to come much more or less often than at the last look
        self.reach = _FIRST_REACH  # how many events before the next look are of use to it, as far as is known
        self._stored: tuple[dict[str, Any], list[pa.Table]] | None = None  # of a snapshot, until it is needed

    @cached_property
    def _collector(self) -> Collector:
        about = self._query, self._schema, evaluating(self._schema, comparing())
        made = Collector(*about, window=self._reach, sampling=_SAMPLING, arithmetic=arithmetic())
        if self._stored is not None:
            made.load(self._stored[0]["collector"], self._stored[1])
        return made

    def observe(self, batch: EventBatch) -> None:
        """Hold a batch of events that the query has taken in."""
        if not len(batch):
            return
        held = self._held
        if held and held[-1].first + len(held[-1]) < batch.first:
            held.clear()  # others came between, one by one: they are among the stored rows, as are these
            self._number = 0
        held.append(batch)
        self._number += len(batch)
        back = int(batch.end[-1]) - self._back
        while len(held) > 1 and (self._number > _MOST_HELD or self._is_enough(back)):
            self._number -= len(held.popleft())

    def _is_enough(self, back: float) -> bool:
        """Whether statistics need no more than what is held after the first batch."""
        return self._held[1].end[0] <= back and self._number - len(self._held[0]) >= self._least

    def recent(self, rows: RowStore, stop: int) -> Callable[[], list[EventBatch]]:
        """The last events before number `stop`, as many as a race needs: those that are held, else those stored.

        Of events before the stream changed it would only tell what was best for them.
        """
        held = list(self._held) if self._held and self._held[-1].first + len(self._held[-1]) >= stop else []

        def find() -> list[EventBatch]:
            found, is_enough = self._cut_recent(held)
            stored = [] if is_enough else self._cut_recent(rows.batches(0))[0]
            return stored if stored and (not found or stored[0].end[0] < found[0].end[0]) else found

        return find

    def _cut_recent(self, batches: Sequence[EventBatch]) -> tuple[list[EventBatch], bool]:
        """The last `TRIED` events and the window before them; whether these are all of them."""
        kept: list[EventBatch] = []
        turned = self._collector.turned
        number, back = 0, math.inf
        for batch in reversed(batches):
            if number < TRIED <= number + len(batch):
                back = float(batch.end[len(batch) - (TRIED - number)]) - self._window
            if turned is not None and batch.end[0] < turned:
                back = turned if back == math.inf else max(back, turned)
            start = 0 if back == math.inf else int(batch.end.searchsorted(back))
            if start < len(batch):
                kept.append(batch.slice(start, len(batch)) if start else batch)
                number += len(kept[-1])
            if start:
                return kept[::-1], True
        return kept[::-1], False

    def has_changed(self, batch: EventBatch) -> bool:
        """Whether the types of some new events come much more or less often than at the last look."""
        has_changed = "_collector" in self.__dict__ and self._collector.has_changed(batch)
        self._is_other |= has_changed
        return has_changed

    @property
    def enough(self) -> int:
        """How many events fill the states of plans and let them race."""
        return _TOLD + self.window_events

    @property
    def window_events(self) -> int:
        """How many events are expected in a window."""
        return self._collector.expect(self._window)

    @property
    def windows(self) -> float:
        """Of how many windows costs are a mean."""
        return self._collector.windows

    def turn(self, since: int | None = None, *, just_now: bool = False) -> None:
        """Take the stream for another one, since a time, a while ago or just now: what was before tells little."""
        now = int(self._held[-1].end[-1]) if self._held else self._collector.latest
        self._collector.turn(since, just_now=now if just_now else None, surely=self._is_other)

    def look_closely(self) -> Statistics:
        """The statistics of the last look, with what conditions imply."""
        return self._collector.snapshot(closely=True)

    def look(self, rows: RowStore, stop: int) -> Statistics:
        """The statistics, once the events before number `stop` have been looked at."""
        held = self._held
        if held and held[-1].first + len(held[-1]) < stop:
            held.clear()  # others came after them, one by one
            self._number = 0
        first = held[0].first if held else stop
        if self._looked < first:
            self._look_at_stored(rows, first)
        self.reach = self._find_reach()
        for batch in held:
            self._collector.observe(batch)
        held.clear()
        self._number = 0
        self._looked, self._is_other = stop, False
        return self._collector.snapshot(closely=False)

    def _look_at_stored(self, rows: RowStore, stop: int) -> None:
        """Look at events that are not held but stored, unless what is held is enough."""
        if rows.lost[0] >= self._looked or self._is_long():
            self._collector.skip()
        if self._is_long():
            return
        for batch in rows.batches(self._looked):
            assert batch.seqs is not None
            self._collector.observe(batch.slice(0, int(batch.seqs.searchsorted(stop))))

    def _is_long(self) -> bool:
        held = self._held
        return bool(held) and self._number >= self._least and held[0].end[0] <= held[-1].end[-1] - self._back

    def _find_reach(self) -> int:
        """As many events as statistics looked back at just now, twice over: they may come more quickly."""
        if not self._is_long():
            return _MOST_HELD
        back = self._held[-1].end[-1] - self._back
        needed = sum(len(batch) - int(batch.end.searchsorted(back, side="right")) for batch in self._held)
        return min(2 * max(self._least, needed), _MOST_HELD)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`; what is held is among the stored rows."""
        if self._stored is not None and "_collector" not in self.__dict__:
            return self._stored  # nobody has looked since: on Spark most micro-batches see no check
        state, tables = self._collector.dump()
        return {"collector": state, "looked": self._looked, "other": self._is_other}, tables

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        """Take up what `dump` gave."""
        self._looked, self._is_other = int(state["looked"]), bool(state.get("other", False))
        self._stored = (dict(state), list(tables))
