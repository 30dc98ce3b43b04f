"""What an engine knows of its stream outlives a restart after every batch, as on Spark; and what it never knew."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ensue.runtime.cadence import Cadence

BATCH = 1024


def called(restarts: bool, pace: Callable[[int], float], first: int = 0, batches: int = 4_000) -> list[int]:
    """The batches at which slow events call for a check, if each takes as long as the pace says, in microseconds."""
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    if first:
        cadence.begin(first)
    found = []
    for number in range(batches):
        start, stop = first + number * BATCH, first + (number + 1) * BATCH
        if restarts:
            state = json.loads(json.dumps(cadence.dump()))
            clock = [0.0]  # an engine lives for a batch, and counts its own time
            cadence = Cadence(None, 0.01, lambda now=clock: now[0])  # type: ignore[misc]
            cadence.load(state, start)
        is_far = cadence.is_quiet(stop) or cadence.is_far(start, stop, 4_096)
        clock[0] += BATCH * pace(number) * 1e-6
        if not is_far and cadence.is_due(stop):
            if cadence._is_called:
                found.append(number)
            cadence.checked(stop, 0.001, found=False)
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_slow_events_are_noticed(restarts: bool) -> None:
    found = called(restarts, lambda number: 4.0 if number >= 1_500 else 1.0)
    assert found and 1_500 <= found[0] < 1_520
    assert not called(restarts, lambda number: 1.0)


def test_how_uneven_events_are_is_known_as_well() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    for number in range(100):
        cadence.is_far(number * BATCH, (number + 1) * BATCH, 4_096)
        clock[0] += 0.01
        state = cadence.dump()
        clock = [0.0]
        cadence = Cadence(None, 0.01, lambda now=clock: now[0])  # type: ignore[misc]
        cadence.load(state, (number + 1) * BATCH)
    assert cadence.unevenness.stretches == 99
    assert cadence.unevenness.seconds == pytest.approx(0.99)


def test_events_that_another_engine_took_in_took_no_time() -> None:
    """An engine that begins to adapt knows nothing of those: they were not quick."""
    assert not called(False, lambda number: 1.0, first=10_000_000)
    assert called(False, lambda number: 4.0 if number >= 1_500 else 1.0, first=10_000_000)


def test_however_often_plans_are_tried_in_vain() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    for number in range(10_000, 20_000_000, 10_000):
        clock[0] += 0.1
        cadence.checked(number, 0.001, found=False, trying=0.001, more=True)
    assert 1.0 < cadence._try_wait < 60.0, "they are tried ever more rarely, but not never"
