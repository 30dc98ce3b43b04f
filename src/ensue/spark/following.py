"""Following a stream that runs: what each micro-batch did, until the stream ends or is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from ensue.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_EVERY = 0.25  # seconds


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one micro-batch did. `watermark` is ISO-8601 text, None before there is one."""

    number: int
    received: int
    late: int
    rejected: int
    matches: int
    seconds: float
    watermark: str | None
    state_rows: int
    state_bytes: int
    planned: int = 0
    replaced: int = 0


@dataclass(slots=True)
class Totals:
    """What a stream did since it was started: `received = processed + late + rejected`, `processed` with those held."""

    batches: int = 0
    received: int = 0
    late: int = 0
    rejected: int = 0
    matches: int = 0
    seconds: float = 0.0
    planned: int = 0
    replaced: int = 0

    @property
    def processed(self) -> int:
        """Events that take part: matched against, of no interest to any query, or held until the watermark is there."""
        return self.received - self.late - self.rejected

    def add(self, batch: MicroBatch) -> None:
        """Count a micro-batch in."""
        self.batches += 1
        self.received += batch.received
        self.late += batch.late
        self.rejected += batch.rejected
        self.matches += batch.matches
        self.seconds += batch.seconds
        self.planned += batch.planned
        self.replaced += batch.replaced


def follow(
    query: StreamingQuery,
    report: Callable[[MicroBatch], object] = lambda batch: None,
    stop: threading.Event | None = None,
) -> Totals:
    """Wait until a stream ends, or until `stop` is set and the micro-batch that runs is done; report each micro-batch.

    A failure of the stream is raised. What a stopped stream has not done it does when it is started again.
    """
    totals = Totals()
    seen: set[tuple[int, str]] = set()

    def look() -> int:
        """Report what is new; give how many micro-batches that was."""
        new = 0
        for batch, moment in _executed(query):
            if (batch.number, moment) not in seen:
                seen.add((batch.number, moment))
                totals.add(batch)
                report(batch)
                new += 1
        return new

    with translated():
        while not query.awaitTermination(_LOOK_EVERY):  # type: ignore[arg-type]  # takes fractions of a second too
            finished = look()
            if stop is not None and stop.is_set() and (finished or not query.status["isTriggerActive"]):
                query.stop()
                break
        look()
    return totals


def halt(query: StreamingQuery) -> None:
    """Stop a stream now; one whose Spark is gone has stopped already."""
    with suppress(Py4JError, OSError):
        query.stop()


def _executed(query: StreamingQuery) -> Iterator[tuple[MicroBatch, str]]:
    for progress in query.recentProgress:
        if "addBatch" in progress.durationMs:  # others only say that nothing has come
            yield _micro_batch(progress), str(progress.timestamp)


def _micro_batch(progress: Any) -> MicroBatch:
    metrics: Mapping[str, Any] = progress.observedMetrics
    came, found = metrics.get("ensue_input"), metrics.get("ensue")
    operators = progress.stateOperators
    watermark = progress.eventTime.get("watermark")
    return MicroBatch(
        number=progress.batchId,
        received=came.received if came else 0,
        late=found.late if found else 0,
        rejected=found.rejected if found else 0,
        matches=found.matches if found else 0,
        seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
        watermark=None if watermark is None or watermark.startswith("1970-01-01T00:00:00.000") else watermark,
        state_rows=sum(operator.numRowsTotal for operator in operators),
        state_bytes=sum(operator.memoryUsedBytes for operator in operators),
        planned=found.planned if found else 0,
        replaced=found.replaced if found else 0,
    )
