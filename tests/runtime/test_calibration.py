"""Timings of the machine: real measurements, of which only what must hold on any machine is asked."""

from __future__ import annotations

from ensue.runtime.calibration import measure_timings, timings_here


def test_what_takes_longer_is_measured_as_longer() -> None:
    found = measure_timings(rounds=3)
    assert 0 < found.predicate < found.result < found.insert  # a comparison, a partial match, an event from Python
    assert found.predicate < 1e-6 and found.insert < 1e-2


def test_it_is_measured_once_or_again_when_it_is_old() -> None:
    first = timings_here()
    assert timings_here() is first
    assert timings_here(1e-6) is not first  # a microsecond later it is old
