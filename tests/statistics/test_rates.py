"""Arrival rates over a sliding window, and their variance."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import InputError, StateError
from ensue.statistics.rates import Rates


def feed(rates: Rates, times: np.ndarray, codes: np.ndarray, batch: int) -> None:
    for start in range(0, len(times), batch):
        rates.observe(times[start : start + batch], codes[start : start + batch], ["A", "B", "C"])


@pytest.mark.parametrize("batch", [1, 10, 333, 100_000])
def test_rates_follow_the_stream(batch: int) -> None:
    """The rates of A and B are swapped half way."""
    random = np.random.default_rng(3)
    half = 20_000
    times = np.sort(random.integers(0, 2 * half, 2 * half))
    share_of_a = np.where(times < half, 0.9, 0.1)
    codes = (random.random(2 * half) > share_of_a).astype(np.int32)
    for window, expected in ((5000, (0.1, 0.9)), (10**6, (0.5, 0.5))):
        rates = Rates(["A", "B"], window)
        feed(rates, times, codes, batch)
        now = int(times[-1])
        found = rates.at(now)
        for name, code, rate in (("A", 0, expected[0]), ("B", 1, expected[1])):
            exact = np.count_nonzero((codes == code) & (times > now - window)) / min(window, now - int(times[0]) + 1)
            assert found[name].value == pytest.approx(exact, rel=0.06)
            assert found[name].value == pytest.approx(rate, rel=0.15)
            assert found[name].variance == pytest.approx(found[name].value / min(window, now - times[0] + 1))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([10, 200, 3_000]), st.sampled_from([0.02, 0.05, 0.2]), st.integers(0, 2**32 - 1))
def test_a_count_is_off_by_the_histograms_error_and_a_piece_of_a_batch(window: int, error: float, seed: int) -> None:
    """Though all As of a batch come before its Bs: nobody knows where they lie in the piece that the edge cuts."""
    dice = np.random.default_rng(seed)
    rates = Rates(["A", "B"], window, error)
    all_times, all_codes, largest = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), 0.0
    now = 0
    for _ in range(5):
        size, step, share = dice.integers(1, 2_000), dice.choice([1, 5, 60]), dice.random()
        times = now + np.cumsum(dice.integers(0, step + 1, size))
        codes = (np.arange(size) > share * size).astype(np.int32)
        now = int(times[-1])
        rates.observe(times, codes, ["A", "B"])
        all_times, all_codes = np.concatenate([all_times, times]), np.concatenate([all_codes, codes])
        inside = times[times > now - window]  # the others are not counted
        span = int(inside[-1] - inside[0]) + 1
        largest = max(largest, 16, len(inside) / 16, len(inside) * min(1.0, window / 16 / span))
        for later in (now + window * k // 8 for k in range(8)):
            for code, name in enumerate(("A", "B")):
                exact = np.count_nonzero((all_codes == code) & (all_times > later - window))
                counted = rates.counts[name].estimate(later)
                assert abs(counted - exact) <= error * exact + largest + 1


def test_the_time_seen_stands_for_a_window_that_is_not_full() -> None:
    rates = Rates(["A"], 1000)
    rates.observe(np.arange(100, 200), np.zeros(100, dtype=np.int32), ["A"])
    assert rates.covered(199) == 100
    assert rates.at(199)["A"].value == 1.0
    assert rates.covered(5000) == 1000
    assert rates.at(1150)["A"].value == pytest.approx(0.049)
    assert rates.at(5000)["A"].value == 0.0


def test_time_that_was_not_seen_does_not_count() -> None:
    rates = Rates(["A"], 1000)
    for start in (0, 400, 800):
        rates.observe(np.arange(start, start + 100), np.zeros(100, dtype=np.int32), ["A"])
        rates.skip()
        rates = Rates.load(json.loads(json.dumps(rates.dump())))
    assert rates.covered(899) == 300
    assert rates.at(899)["A"].value == 1.0
    assert rates.covered(1199) == 500  # 1,000 less 200 steps of the first gap and 300 of the second
    rates.observe(np.arange(5000, 5100), np.zeros(100, dtype=np.int32), ["A"])
    assert rates.gaps == [(900, 4999)]
    assert (rates.covered(5099), rates.at(5099)["A"].value) == (100, 1.0)


def test_a_type_that_never_came_has_rate_zero_but_is_not_sure_of_it() -> None:
    rates = Rates(["A", "Z"], 100)
    assert rates.at(0)["Z"].value == 0.0
    rates.observe(np.arange(50), np.zeros(50, dtype=np.int32), ["A"])
    found = rates.at(49)["Z"]
    assert found.value == 0.0
    assert found.variance == 1 / 50**2


def test_state_goes_through_json() -> None:
    rates = Rates(["A", "B"], 50)
    feed(rates, np.arange(200), np.arange(200, dtype=np.int32) % 3, 30)
    again = Rates.load(json.loads(json.dumps(rates.dump())))
    assert again.at(230) == rates.at(230)
    more = (np.arange(200, 260), np.arange(60, dtype=np.int32) % 2, ["A", "B"])
    assert again.observe(*more) == rates.observe(*more)
    assert again.at(260) == rates.at(260)
    with pytest.raises(StateError):
        Rates.load({"window": 3})


def test_time_does_not_run_backwards() -> None:
    rates = Rates(["A"], 50)
    rates.observe(np.array([5]), np.zeros(1, dtype=np.int32), ["A"])
    with pytest.raises(InputError, match="backwards"):
        rates.observe(np.array([4]), np.zeros(1, dtype=np.int32), ["A"])
