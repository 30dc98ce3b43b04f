"""Events one by one from a queue, and how soon their matches are known: for when latency matters.

Whoever has events puts them into the queue, from any thread. It is bounded: when it is full, `put` waits, so that a
pipe or socket behind it fills up and its sender waits too; or, if that was asked for, the event is dropped and counted.
One thread takes events out in order. The latency of a match is the time from when its last event was put (its wait in
the queue) to when the engine has given the match (its service); what is done with the match then is not part of it.

With a lateness events are held back in the engine until time has passed them. Then latency is that of the event that
let time pass, and so it is where an absence had to be waited for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from ensue.errors import PlanError
from ensue.runtime.engine import Engine
from ensue.runtime.latencies import Latencies
from ensue.runtime.matches import Matches
from ensue.runtime.rule_engine import RuleEngine

_SLOW = 1e-4
"""From so many seconds for an event by itself, those that wait are taken in together."""
_TOGETHER = 1024
_LOOK_EVERY = 0.5
"""Seconds of arrivals after which the pace of the stream's time is measured again."""


class LiveRunner:
    """Runs an engine over a queue of events, and measures.

    `deliver` is given the matches of an event, where there are any; `attend` is called about twice a second while
    events come, in the same thread. As a context manager it runs in a thread of its own until the block ends; `run`
    runs it here until someone calls `close`.

    >>> import ensue
    >>> found = []
    >>> with ensue.LiveRunner(ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10"), found.extend) as live:
    ...     _ = live.put({"type": "A", "ts": 1}), live.put({"type": "B", "ts": 2})
    >>> len(found), live.latency.count, live.dropped
    (1, 1, 0)
    """

    def __init__(
        self,
        engine: Engine | RuleEngine,
        deliver: Callable[[Matches], object],
        *,
        capacity: int = 65_536,
        drop: bool = False,
        attend: Callable[[], object] | None = None,
    ) -> None:
        if capacity < 1:
            raise PlanError(f"a queue for {capacity} events holds none: take 1 or more")
        self.engine = engine
        self.latency, self.wait, self.service = Latencies(), Latencies(), Latencies()
        self.taken = 0
        self.dropped = 0
        self._deliver, self._attend = deliver, attend
        self._capacity = capacity
        self._drop = drop
        self._waiting: deque[tuple[float, Mapping[str, Any]]] = deque()
        self._changed = threading.Condition()
        self._is_idle = False  # whether the consumer waits for an event
        self._blocked = 0  # how many producers wait for room
        self._is_closed = False
        self._is_slow = False  # whether an event by itself takes long
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._next_look = 0.0
        self._paced: tuple[float, int] | None = None  # when an event arrived, and the stream's time then

    @property
    def waiting(self) -> int:
        """How many events are in the queue."""
        return len(self._waiting)

    # -- the producers' side -----------------------------------------------------------------------------------------
    def put(self, event: Mapping[str, Any]) -> bool:
        """Put an event, which must not be changed afterwards, into the queue; False if it was dropped or came too late.

        Its arrival is the moment of the call, also if it has to wait for room then.
        """
        arrived = time.perf_counter()
        if len(self._waiting) >= self._capacity and not self._find_room():
            return False
        if self._is_closed:
            return False
        self._waiting.append((arrived, event))
        if self._is_idle:
            with self._changed:
                self._changed.notify_all()
        return True

    def _find_room(self) -> bool:
        """Wait until the queue is not full; False if events are dropped instead."""
        if self._drop:
            self.dropped += 1
            return False
        with self._changed:
            self._blocked += 1
            while len(self._waiting) >= self._capacity and not self._is_closed:
                self._changed.wait()
            self._blocked -= 1
        return True

    def close(self) -> None:
        """Take no more events; those in the queue are still served."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # -- the consumer's side -----------------------------------------------------------------------------------------
    def run(self) -> None:
        """Serve events as they come, until the queue is closed and empty."""
        while self._wait_for_event():
            self._serve_waiting()

    def _wait_for_event(self) -> bool:
        if self._waiting:
            return True
        with self._changed:
            self._is_idle = True  # before looking again: who puts an event after that look sees it
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            self._is_idle = False
        return bool(self._waiting)

    def _serve_waiting(self) -> None:
        """Serve as many events as there are, in order."""
        waiting = self._waiting
        while waiting:
            many = len(waiting)
            if self._is_slow and many > 1:
                arrived = self._serve_together([waiting.popleft() for _ in range(min(many, _TOGETHER))])
            else:
                arrived = self._serve_one(*waiting.popleft())
            if self._blocked:
                with self._changed:
                    self._changed.notify_all()
            if arrived >= self._next_look:
                self._next_look = arrived + _LOOK_EVERY
                self._measure_pace(arrived)
                if self._attend is not None:
                    self._attend()

    def _serve_one(self, arrived: float, event: Mapping[str, Any]) -> float:
        started = time.perf_counter()
        matches = self.engine.push_event(event)
        known = time.perf_counter()
        self.taken += 1
        number = len(matches)
        if number:
            self._note(arrived, started, known, number)
            self._deliver(matches)
        else:
            self._is_slow = known - started > _SLOW
        return arrived

    def _serve_together(self, taken: Sequence[tuple[float, Mapping[str, Any]]]) -> float:
        """Take events in as a batch: one that cannot take the quick way costs nearly as much as many together."""
        started = time.perf_counter()
        before = self.engine.counts.processed
        matches = self.engine.push([event for _, event in taken])
        known = time.perf_counter()
        self.taken += len(taken)
        self._is_slow = known - started > _SLOW
        if len(matches):
            in_turn = self.engine.counts.processed == before + len(
                taken
            )  # the events have the numbers from `before` on
            for last, number in matches.last_events():
                place = last - before if in_turn and last is not None else 0
                self._note(taken[max(place, 0)][0], started, known, number)
            self._deliver(matches)
        return taken[-1][0]

    def _note(self, arrived: float, started: float, known: float, number: int) -> None:
        self.latency.add(known - arrived, number)
        self.wait.add(started - arrived, number)
        self.service.add(known - started, number)

    def _measure_pace(self, arrived: float) -> None:
        """Tell the engine how fast the stream's time passes by the clock: plans for latency depend on it."""
        now = self.engine.watermark
        if now is None or not isinstance(self.engine, Engine):
            return
        if self._paced is not None and now > self._paced[1]:
            self.engine.set_pace((now - self._paced[1]) / (arrived - self._paced[0]))
        self._paced = arrived, now

    # -- in a thread of its own --------------------------------------------------------------------------------------
    def __enter__(self) -> LiveRunner:
        self._thread = threading.Thread(target=self._run_guarded, name="ensue live", daemon=True)
        self._thread.start()
        return self

    def _run_guarded(self) -> None:
        try:
            self.run()
        except BaseException as failure:
            self._failure = failure
            self.close()
            self._waiting.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        assert self._thread is not None
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure
