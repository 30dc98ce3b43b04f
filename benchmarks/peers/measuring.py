"""The run over all cells: each engine in each, its count compared with ensue's on the same events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.cells import Effort, Job, Reading, make_job
from benchmarks.peers.engines import ensue_local
from benchmarks.peers.processes import Workers
from benchmarks.peers.queries import Query
from benchmarks.peers.registry import Engine
from benchmarks.peers.streams import Stream


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of an engine in a cell: a reading, or the reason why there is none."""

    job: Job
    reading: Reading | None
    reason: str = ""  # why the engine was left out
    expected: int | None = None  # what ensue finds in the same events
    own_cpu: float | None = None  # and the CPU seconds that it takes for them

    @property
    def is_whole(self) -> bool:
        """Whether all events were worked through."""
        return self.reading is not None and self.reading.events >= self.job.events

    @property
    def is_measured(self) -> bool:
        """Whether there is a rate to show."""
        return self.reading is not None and self.reading.events > 0

    @property
    def fault(self) -> str | None:
        """What is wrong with it, in words: a failure, or another number of matches than ensue found."""
        if self.reading is None:
            return None
        where = f"{self.job.engine} in {self.job.query} on {self.job.stream}, {self.job.live} live"
        if self.reading.note.startswith("failed"):
            return f"{where}: {self.reading.note}"
        if None not in (self.expected, self.reading.matches) and self.expected != self.reading.matches:
            found, events = self.reading.matches, self.reading.events
            return f"{where}: found {found:,} in {events:,} events, ensue {self.expected:,}"
        return None

    def to_json(self) -> str:
        """The entry as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Entry:
        """The entry that `to_json` wrote."""
        given = json.loads(line)
        reading = Reading(**given["reading"]) if given["reading"] else None
        return cls(Job(**given["job"]), reading, given["reason"], given["expected"], given["own_cpu"])


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cells are measured: queries with numbers of live events, on a stream."""

    stream: Stream
    queries: tuple[Query, ...]
    lives: tuple[int, ...]


def measure_all(
    plans: Iterable[Plan],
    engines: Iterable[Engine],
    effort: Effort,
    workers: Workers,
    log: Path,
    tell: Callable[[str], None],
) -> list[Entry]:
    """Measure cell by cell, each engine in turn, so that what they are compared with was measured beside them.

    Every entry is written to `log` at once; what is there already is not measured again.
    """
    done = {(entry.job.engine, *entry.job.cell): entry for entry in read_log(log)}
    expect = Expected()
    found = []
    for plan in plans:
        for query in plan.queries:
            for live in plan.lives:
                for engine in engines:
                    job = make_job(engine.name, query, plan.stream, live, effort)
                    entry = done.get((engine.name, *job.cell))
                    if entry is None or entry.job != job:
                        entry = measure_one(engine, job, plan.stream, workers, expect)
                        with log.open("a", encoding="utf-8") as file:
                            file.write(entry.to_json() + "\n")
                        tell(describe(entry))
                    found.append(entry)
    return found


class Expected:
    """What ensue makes of the first events of a cell, worked out once for each number of events."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, int], Reading] = {}

    def __call__(self, job: Job, stream: Stream, events: int) -> Reading:
        place = (*job.cell, events)
        if place not in self._known:
            self._known[place] = ensue_local.run_first(job, stream, events)
        return self._known[place]


def measure_one(engine: Engine, job: Job, stream: Stream, workers: Workers, expect: Expected) -> Entry:
    """One engine in one cell."""
    reason = stream.lacks(job.asked) or engine.load().lacks(job.asked) or workers.missing(engine)
    if reason:
        return Entry(job, None, reason)
    reading = workers.run(engine, job)
    if not reading.events or reading.matches is None:
        return Entry(job, reading)
    own = expect(job, stream, reading.events)
    return Entry(job, reading, expected=own.matches, own_cpu=own.cpu)


def read_log(log: Path) -> list[Entry]:
    """The entries that a log holds; of one cell and engine the last."""
    if not log.exists():
        return []
    entries = [Entry.from_json(line) for line in log.read_text(encoding="utf-8").splitlines() if line]
    return list({(entry.job.engine, *entry.job.cell): entry for entry in entries}.values())


def describe(entry: Entry) -> str:
    """An entry in one line, for the terminal."""
    job, reading = entry.job, entry.reading
    where = f"{job.stream} {job.query} live {job.live:>3} {job.engine:<14}"
    if reading is None:
        return f"{where} left out: {entry.reason}"
    if not reading.events:
        return f"{where} {reading.note}"
    part = "" if entry.is_whole else f" (managed {reading.events:,} of {job.events:,})"
    fault = " DIFFERS" if entry.fault else ""
    return f"{where} {reading.rate:>12,.0f} events/s, {reading.matches} found{part}{fault} {reading.note}"
