"""What is measured: a cell is a query on a stream with so many live events of a type; engines get it as a job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.queries import Query, find
from benchmarks.peers.streams import Stream


@dataclass(frozen=True, slots=True)
class Effort:
    """How much time a cell may take."""

    events: int
    budget: float  # CPU seconds of one engine's run; what takes longer gives the events it managed
    warm_up: float  # CPU seconds before it, so that nothing is compiled while the clock runs
    repeats: int  # runs of which the cheapest counts, while the budget lasts


@dataclass(frozen=True, slots=True)
class Job:
    """One cell for one engine, as it is handed to another process."""

    engine: str
    query: str
    stream: str
    live: int
    path: str
    window: int
    rise: float
    has_ties: bool
    events: int
    budget: float
    warm_up: float
    repeats: int

    @property
    def asked(self) -> Query:
        """The query."""
        return find(self.query)

    @property
    def text(self) -> str:
        """The query as ensue reads it."""
        return self.asked.text(self.window, self.rise)

    @property
    def cell(self) -> tuple[str, str, int]:
        """Which cell it is of."""
        return (self.stream, self.query, self.live)

    def to_json(self) -> str:
        """The job as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Job:
        """The job that `to_json` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class Reading:
    """What an engine did: `matches` found in the first `events` events, in so many seconds.

    For a query that counts, `matches` is the sum of the counts reported. It is None where nothing was left to compare.
    """

    events: int = 0
    matches: int | None = None
    cpu: float = 0.0
    wall: float = 0.0
    note: str = ""
    memory: int = 0  # peak, in bytes
    inside: float | None = None  # CPU seconds in the kernel, of ensue
    version: str = ""

    @property
    def rate(self) -> float:
        """Events a CPU second."""
        return self.events / self.cpu if self.cpu > 0 else 0.0

    @property
    def wall_rate(self) -> float:
        """Events a second on the clock."""
        return self.events / self.wall if self.wall > 0 else 0.0


def make_job(engine: str, query: Query, stream: Stream, live: int, effort: Effort) -> Job:
    """The job of an engine in a cell."""
    return Job(
        engine=engine,
        query=query.name,
        stream=stream.name,
        live=live,
        path=str(stream.path),
        window=stream.window(query, live),
        rise=stream.rise,
        has_ties=stream.has_ties,
        events=min(effort.events, len(stream.table)),
        budget=effort.budget,
        warm_up=effort.warm_up,
        repeats=effort.repeats,
    )


def columns_path(job: Job) -> Path:
    """Where the stream's columns lie for Java."""
    return Path(job.path).with_suffix(".columns")
