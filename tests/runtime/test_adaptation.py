"""What a user can say about adaptation, and what is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ensue
from ensue.errors import PlanError
from ensue.planning.decisions import ByInvariants

RISING = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"planner": "best"}, "no planner"),
        ({"planner": ["greedy"]}, "take the name of one"),
        ({"decision": "sometimes"}, "no decision 'sometimes': take one of invariants"),
        ({"decision": None}, "None is no decision"),
        ({"decision": ByInvariants}, r"as in ByInvariants\(\)"),
        ({"every": 0}, "take 1 or more"),
        ({"every": 2.5}, "take a whole number"),
        ({"every": True}, "take a whole number"),
        ({"budget": 0.0}, "no share of the time"),
        ({"gain": 1.0}, "cannot save a share of 1.0"),
        ({"gain": "much"}, "take a number"),
        ({"windows": None}, "take a number"),
        ({"recalibrate": "5"}, "take a number"),
        ({"tried": "no"}, "take True, False or None"),
        ({"timings": 5}, "take those of"),
        ({"method": "leap"}, "take auto, replay or side by side"),
    ],
)
def test_wrong_settings_are_told_at_once(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        ensue.Adaptation(**wrong)


def test_adapt_takes_a_name_or_an_adaptation() -> None:
    for adapt in (3, 0.5, {"every": 3}, ensue.Adaptation, ByInvariants()):
        with pytest.raises(PlanError, match="take True, one of 'invariants'") as caught:
            ensue.compile(RISING, adapt=adapt)  # type: ignore[arg-type]
        assert ("Adaptation(decision=…)" in str(caught.value)) == isinstance(adapt, ByInvariants)


def test_numbers_of_numpy_are_numbers() -> None:
    told = ensue.Adaptation(every=np.int64(1000), windows=np.float32(2), gain=np.float64(0.25))  # type: ignore[arg-type]
    assert told == ensue.Adaptation(every=1000, windows=2.0, gain=0.25) and type(told.every) is int


@pytest.mark.parametrize("windows", [0.0, -1.0, float("inf"), float("nan")])
def test_statistics_are_of_some_windows(windows: float) -> None:
    with pytest.raises(PlanError, match="take a number above 0"):
        ensue.Adaptation(windows=windows)
