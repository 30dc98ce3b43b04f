"""How events come to an engine: as they come or all at once, with time that moves on, and what is set aside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from ensue.errors import PlanError
from ensue.events.batch import EventBatch
from ensue.events.intake import Intake
from ensue.events.schema import Schema
from ensue.events.times import read_time
from ensue.runtime.matches import Matches


class Fed(ABC):
    """What engines of queries and of rules have in common: the intake, and an input that ends."""

    _intake: Intake
    _ended: bool

    @property
    def schema(self) -> Schema | None:
        """The columns of events; None before the first event if none was given."""
        return self._intake.schema

    @property
    def watermark(self) -> int | None:
        """The time up to which all events are taken in, in the time column's units; None before the first."""
        return self._intake.watermark

    def push(self, events: object, *, together: bool = False) -> Matches:
        """Take events in, as many as there are; the matches and the derived events that are known by now.

        A table of any kind that speaks Arrow, a pandas or polars DataFrame, or a list of dicts. With `together` the
        events count as come at one moment: none is late because of another one of them.
        """
        self._check_open()
        return self._process(self._intake.push(events, together=together))

    def advance(self, now: int | datetime) -> Matches:
        """Let time reach `now` without an event; what is known by that. What is before it is late then.

        An integer is in the time column's units (microseconds since 1970 where it holds timestamps).

        >>> import ensue
        >>> engine = ensue.compile("PATTERN SEQ(A a, !B b) WITHIN 10")
        >>> len(engine.push([{"type": "A", "ts": 1}])), len(engine.advance(10)), len(engine.advance(11))
        (0, 0, 1)
        """
        self._check_open()
        return self._process(self._intake.advance(read_time(now)))

    def push_sorted(self, events: object) -> Matches:
        """Take a whole finite input in, sorted by time first: nothing in it is late. Ends with `flush`."""
        self._check_open()
        found = self._process(self._intake.sort_all(events))
        return Matches.concat([found, self.flush()])

    def run_sorted(self, events: object, rows: int) -> Iterator[Matches]:
        """As `push_sorted`, giving the results of so many rows at a time, so that not all need be held at once."""
        self._check_open()
        batch = self._intake.sort_all(events)
        for start in range(0, len(batch), rows):
            part = batch.slice(start, min(start + rows, len(batch)))
            yield self._process(part, int(part.end[-1]))
        yield self.flush()

    @abstractmethod
    def flush(self) -> Matches:
        """End the input: events held back are taken in, and time runs on until nothing waits any more."""

    @abstractmethod
    def _process(self, batch: EventBatch, until: int | None = None) -> Matches:
        """Take a batch in and let time reach `until`, else the watermark."""

    def _check_open(self) -> None:
        if self._ended:
            raise PlanError("the input of this engine has ended (flush); compile a new one for a new stream")

    # -- what was set aside ------------------------------------------------------------------------------------------
    def take_late(self) -> pa.Table | None:
        """The late events since the last call, with the reason."""
        return self._intake.take_late()

    def take_rejected(self) -> pa.Table | None:
        """The rejected rows since the last call, with the reason."""
        return self._intake.take_rejected()
