"""Samples of sliding windows are uniform, repeatable and small; shares of pairs and their variances are right."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ensue.errors import StateError
from ensue.statistics.estimates import Estimate, share
from ensue.statistics.sampling import Chosen, Sample, WindowSample, ask_pairs, draw, estimate_joint, scatter


def events(values: np.ndarray, times: np.ndarray, first: int = 0) -> Chosen:
    sample = Sample(pa.table({"x": values}), times, times, np.arange(first, first + len(times)))
    return Chosen(sample, np.arange(len(times)))


def feed(sample: WindowSample, count: int, batch: int, seed: int) -> None:
    """One event a step of time, whose place is its time."""
    random = np.random.default_rng(seed)
    for start in range(0, count, batch):
        size = min(batch, count - start)
        places, priorities = draw(size, size, sample.size, random)
        times = start + places
        sample.add(times, times, priorities)


@pytest.mark.parametrize("batch", [20, 50, 170])
def test_every_event_of_the_window_is_as_likely(batch: int) -> None:
    """400 samples of 20 of the last 300 events: each tenth of the window gets a tenth, and nothing older any."""
    found = []
    for seed in range(400):
        sample = WindowSample(20, 300)
        feed(sample, 1000, batch, seed)
        now = sample.at(999)
        assert len(now) == 20
        assert (np.diff(now) > 0).all()
        found.append(now)
    counts, _ = np.histogram(np.concatenate(found), bins=10, range=(700, 1000))
    assert counts.sum() == 8_000
    # 800 expected in each with a deviation below 29.
    assert np.abs(counts - 800).max() < 5 * 29


def test_the_sample_follows_the_window_without_new_events() -> None:
    sample = WindowSample(50, 100)
    feed(sample, 400, 64, 0)
    for now, oldest, size in ((399, 300, 50), (449, 350, None), (498, 399, None)):
        found = sample.at(now)
        assert found.min() >= oldest
        assert size is None or len(found) == size
    assert not len(sample.at(499))


def test_little_is_held() -> None:
    sample = WindowSample(32, 10**9)
    for k in range(200):
        places, priorities = draw(1000, 1000, 32, np.random.default_rng(k))
        sample.add(1000 * k + places, 1000 * k + places, priorities)
    # 32 · (1 + log(200,000 / 32)) is 312; before some are forgotten there may be twice as many.
    assert len(sample) < 1000
    assert len(sample.at(200_000)) == 32


def test_priorities_are_those_of_the_highest_of_all() -> None:
    """The highest of n uniform numbers is n/(n+1) on average."""
    highest = [draw(10, 99, 5, np.random.default_rng(seed))[1].max() for seed in range(2000)]
    assert np.exp(highest).mean() == pytest.approx(0.99, abs=0.001)


def test_scattered_places_are_in_order_and_everywhere() -> None:
    random = np.random.default_rng(0)
    for start, stop, most in ((0, 10, 3), (7, 8, 5), (100, 10_000, 1000)):
        places = scatter(start, stop, most, random)
        assert len(places) == min(most, stop - start)
        assert (np.diff(places) > 0).all()
        assert start <= places[0] <= places[-1] < stop
    assert np.bincount(np.concatenate([scatter(0, 10, 2, random) for _ in range(2000)])).min() > 300


def test_state_goes_on_the_same() -> None:
    before = WindowSample(10, 100)
    feed(before, 150, 40, 1)
    after = WindowSample.load(json.loads(json.dumps(before.dump())))
    for sample in (before, after):
        places, priorities = draw(50, 50, 10, np.random.default_rng(9))
        sample.add(150 + places, 150 + places, priorities)
    assert before.at(205).tolist() == after.at(205).tolist()
    assert before.dump() == after.dump()
    assert not len(WindowSample.load(WindowSample(10, None).dump()).at(5))
    with pytest.raises(StateError):
        WindowSample.load({"size": 1})


# -- pairs -----------------------------------------------------------------------------------------------------------


def less(x: Chosen, y: Chosen) -> np.ndarray:
    left, right = (side.sample.table["x"].to_numpy()[side.places] for side in (x, y))
    return np.asarray(left < right)


def equal(x: Chosen, y: Chosen) -> np.ndarray:
    left, right = (side.sample.table["x"].to_numpy()[side.places] for side in (x, y))
    return np.asarray(left == right)


def estimate_pairs(left: Chosen, right: Chosen, passes: Any, **options: Any) -> Estimate | None:
    asked = ask_pairs(left, right, passes, **options)
    return None if asked is None else asked.estimate


def test_what_two_conditions_say_together() -> None:
    """x < y < z: a large y passes with many x and few z; all six orders are equally probable, so that 1/6 pass."""
    found, rare = [], []
    for seed in range(100):
        random = np.random.default_rng(seed)
        x, y, z = (events(random.random(128), np.arange(128), 1000 * k) for k in range(3))
        one, other = ask_pairs(x, y, less), ask_pairs(y, z, less)
        assert one is not None and other is not None
        joint = estimate_joint(one.shares(128, right=True), other.shares(128, right=False))
        apart = estimate_joint(one.shares(128, right=True), ask_pairs(y, z, equal).shares(128, right=False))  # type: ignore[union-attr]
        assert np.isnan(apart)
        found.append(one.estimate.value * other.estimate.value * float(joint))
        few = np.zeros((2, 128))
        few[0, random.integers(128)] = few[1, random.integers(128)] = 1
        rare.append(float(estimate_joint(*few)))
    assert np.mean(found) == pytest.approx(1 / 6, rel=0.03)
    assert np.std(found) < 0.03
    assert max(rare) < 1.6 and min(rare) > 0.99, "one event on either side says next to nothing"
    assert np.isnan(estimate_joint(np.full(4, np.nan), np.ones(4)))


@pytest.mark.parametrize(("passes", "keys"), [(less, None), (equal, 5), (equal, 100)])
def test_shares_of_pairs_and_their_variance_are_right(passes: object, keys: int | None) -> None:
    """Over 300 samples: the mean is near the exact share, and the variance what was said, at least roughly."""
    assert callable(passes)
    values, variances = [], []
    exact = 0.5 - 0.3 + 0.3**2 / 2 if keys is None else 1 / keys  # x in [0.3, 1.3] is less than y in [0, 1]
    for seed in range(300):
        random = np.random.default_rng(seed)
        shape = (2, 100)
        numbers = random.random(shape) if keys is None else random.integers(0, keys, shape).astype(np.float64)
        if keys is None:
            numbers[0] += 0.3
        times = np.arange(100)
        found = estimate_pairs(events(numbers[0], times), events(numbers[1], times, 100), passes)
        assert found is not None
        values.append(found.value)
        variances.append(found.variance)
        assert abs(found.value - exact) < 6 * found.deviation
    assert np.mean(values) == pytest.approx(exact, rel=0.05)
    assert 0.5 < np.mean(variances) / np.var(values) < 2


def test_only_pairs_that_could_match_are_counted() -> None:
    """x is the time: all that are in order pass, none of the others."""
    times = np.arange(100)
    left, right = events(times * 1.0, times), events(times * 1.0, times, 1000)
    in_order = estimate_pairs(left, right, less, ordered=True)
    near = estimate_pairs(left, right, equal, within=10)
    far = estimate_pairs(left, right, equal)
    assert in_order is not None
    assert near is not None
    assert far is not None
    assert in_order.value > 0.999
    assert near.value == pytest.approx(100 / (100 + 2 * sum(range(91, 100))), rel=0.01)
    assert far.value == pytest.approx(0.01, rel=0.1)


def test_where_few_pairs_could_match_all_are_counted() -> None:
    times = np.arange(100)
    found = estimate_pairs(events(times * 1.0, times), events(times * 1.0, times + 10**6, 1000), less, within=10)
    assert found is not None
    assert found.value == pytest.approx(0.495, abs=0.01)


def test_an_event_is_no_pair_with_itself() -> None:
    times = np.arange(50)
    same = events(times * 1.0, times)
    found = estimate_pairs(same, same, equal)
    assert found is not None
    assert found.value < 0.001
    assert estimate_pairs(events(np.ones(1), times[:1]), events(np.ones(1), times[:1]), equal) is None


def test_a_share_is_never_quite_nothing_or_all() -> None:
    assert 0 < share(0, 10).value < share(1, 10).value < share(10, 10).value < 1
    assert share(0, 0).value == 0.5
    assert share(500, 1000).variance == pytest.approx(0.25 / 1000, rel=0.01)
