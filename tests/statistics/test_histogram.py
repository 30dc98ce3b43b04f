"""Exponential histograms: the error bound against exact counts, memory, and state."""

from __future__ import annotations

import json
import math
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import InputError, StateError
from ensue.statistics.histogram import ExponentialHistogram

gaps = st.lists(st.sampled_from([0, 0, 0, 0, 1, 1, 7, 100]), min_size=1, max_size=30)
errors = st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 0.9])


@st.composite
def streams(draw: st.DrawFn) -> list[list[int]]:
    """Times in order, cut into batches: bursts and gaps, so that what is in a bucket lies anywhere but evenly."""
    batches, now = [], draw(st.integers(-50, 50))
    for _ in range(draw(st.integers(1, 8))):
        steps = draw(gaps) * draw(st.sampled_from([1, 1, 5, 20]))
        batch = [now + step for step in accumulate(steps)]
        batches.append(batch)
        now = batch[-1]
    return batches


def check(histogram: ExponentialHistogram, came: list[tuple[int, float]], now: int, window: int) -> None:
    true = sum(count for time, count in came if now - window < time <= now)
    assert abs(histogram.estimate(now) - true) <= histogram.error * true + 1e-9 * (true + 1)


@settings(max_examples=200, deadline=None)
@given(streams(), errors, st.sampled_from([1, 10, 300, 3000, 30_000]), st.data())
def test_the_relative_error_is_bounded_whatever_the_batches(
    stream: list[list[int]], error: float, window: int, data: st.DataObject
) -> None:
    histogram = ExponentialHistogram(window, error)
    came: list[tuple[int, float]] = []
    for batch in stream:
        if data.draw(st.booleans()):
            histogram.add_many(np.array(batch, dtype=np.int64))
        else:
            for time in batch:
                histogram.add(time)
        came += [(time, 1) for time in batch]
        if data.draw(st.booleans()):
            histogram = ExponentialHistogram.load(json.loads(json.dumps(histogram.dump())))
        last = batch[-1]
        times = sorted({time for time, _ in came})
        for time in times[:: max(1, len(times) // 40)]:  # the window's edge just before and just after these
            for now in (time + window - 1, time + window):
                if now >= last:
                    check(histogram, came, now, window)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1e6) | st.integers(0, 1000)), min_size=1, max_size=400),
    errors,
    st.integers(1, 300),
)
def test_sums_of_values_have_the_same_bound(steps: list[tuple[int, float]], error: float, window: int) -> None:
    histogram = ExponentialHistogram(window, error)
    came: list[tuple[int, float]] = []
    now = 0
    for k, (gap, value) in enumerate(steps):
        now += gap
        histogram.add(now, value)
        came.append((now, value))
        if k % 40 == 0 or k == len(steps) - 1:
            for later in (now, now + window // 3, now + window - 1):
                check(histogram, came, later, window)


@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_memory_is_logarithmic_and_the_bound_holds_on_long_streams(error: float, batch: int) -> None:
    size = 50_000
    times = np.sort(np.random.default_rng(1).integers(0, 20_000, size))
    histogram = ExponentialHistogram(15_000, error)
    most = 0
    for start in range(0, size, batch):
        histogram.add_many(times[start : start + batch])
        most = max(most, len(histogram))
    # Two neighbours that could not be merged weigh more than `error` of what is newer; before buckets are merged there
    # may be twice as many, and those of the next batch.
    merged = 2 / error + 2 * math.log(size) / math.log1p(error)
    assert most <= 3 * merged + 128
    for now in range(int(times[-1]), int(times[-1]) + 15_000, 371):
        true = int(np.count_nonzero(times > now - 15_000))
        assert abs(histogram.estimate(now) - true) <= error * true


def test_a_batch_of_any_length_becomes_few_buckets() -> None:
    histogram = ExponentialHistogram(10**9, 0.1)
    histogram.add_many(np.arange(10**6))
    assert len(histogram) < 200
    assert histogram.estimate() == 10**6


def test_without_a_window_nothing_is_forgotten() -> None:
    histogram = ExponentialHistogram(None, 0.5)
    for time in range(5000):
        histogram.add(time)
    assert histogram.estimate(10**12) == 5000
    assert len(histogram) < 200


def test_a_span_is_exact_but_for_the_time_in_which_it_leaves() -> None:
    histogram = ExponentialHistogram(100, 0.05)
    histogram.add_span(0, 9, 20)
    histogram.add_span(10, 50, 5)
    assert [histogram.estimate(now) for now in (50, 99, 104, 109, 150)] == [25, 25, 15, 5, 0]


def test_what_cannot_be_is_refused() -> None:
    histogram = ExponentialHistogram(10)
    histogram.add(5)
    for wrong in (
        lambda: histogram.add(4),
        lambda: histogram.add_many(np.array([3, 6])),
        lambda: histogram.add(6, -1),
        lambda: histogram.estimate(4),
        lambda: ExponentialHistogram(0),
        lambda: ExponentialHistogram(5, 0.0),
    ):
        with pytest.raises(InputError):
            wrong()
    assert histogram.estimate(5) == 1
    for state in ({}, {"window": 5, "error": 0.1, "buckets": [[1, 2]]}, {"window": -1, "error": 0.1, "buckets": []}):
        with pytest.raises(StateError):
            ExponentialHistogram.load(state)
