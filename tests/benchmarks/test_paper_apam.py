"""What the latencies of `make paper-apam` rest on: the stream's selectivities, and how long events wait."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from paper_apam import EXPERIMENTS, make_events, queue, selectivities_of


def test_each_waits_for_what_is_left_of_those_before_it() -> None:
    services, gaps = [3.0, 1.0, 4.0, 1.0, 1.0], [9.0, 1.0, 5.0, 1.0, 2.0]
    free, arrived, expected = 0.0, 0.0, []
    for service, gap in zip(services, gaps, strict=True):
        arrived += gap
        expected.append(max(free - arrived, 0.0))
        free = max(free, arrived) + service
    assert expected == [0.0, 2.0, 0.0, 3.0, 2.0]
    assert queue(np.array(services), np.array(gaps)).tolist() == expected


@pytest.mark.parametrize("number", EXPERIMENTS)
def test_pairs_pass_about_as_often_as_they_should(number: int) -> None:
    found = selectivities_of([make_events(25_000, EXPERIMENTS[number], seed) for seed in range(4)])
    assert found == pytest.approx(EXPERIMENTS[number], rel=0.4)
