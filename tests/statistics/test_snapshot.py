"""Statistics as data: saved, loaded, looked up, printed."""

from __future__ import annotations

import json

import pytest

from ensue.errors import StateError
from ensue.language import parse_query
from ensue.statistics.snapshot import Estimate, Statistics

KNOWN = Statistics(
    600.0,
    {"A": Estimate(2.5, 0.01), "B": Estimate(0.0, 1e-6)},
    {"a": Estimate(0.25, 0.001)},
    {("a", "b"): Estimate(0.1, 0.002), ("b", "b"): Estimate(0.5)},
    at=-40,
)


def test_through_json_and_back() -> None:
    again = Statistics.from_json(json.loads(json.dumps(KNOWN.to_json())))
    assert again == KNOWN
    assert again != Statistics(600.0, KNOWN.rates, KNOWN.local, {}, at=-40)


def test_names_of_a_pair_in_any_order() -> None:
    data = KNOWN.to_json()
    data["pairs"] = [["b", "a", 0.1]]
    assert Statistics.from_json(data).pair("a", "b") == Estimate(0.1) == Statistics.from_json(data).pair("b", "a")


def test_what_is_missing() -> None:
    assert KNOWN.pair("a", "c") == Estimate(1.0) == KNOWN.share("b")
    assert KNOWN.rate("Z") == Estimate(0.0)


def test_before_anything_is_known_all_is_equal() -> None:
    query = parse_query("PATTERN SEQ(A a, !B b, A c, OR(C d, D e)) WHERE a.x = c.x WITHIN 5")
    uniform = Statistics.uniform(query)
    assert dict(uniform.rates) == dict.fromkeys("ABCD", Estimate(1.0))
    assert uniform.pair("a", "c").value == 1.0


def test_printed() -> None:
    assert str(KNOWN).splitlines() == [
        "over 600 up to -40",
        "rate   A     2.5 ± 0.2",
        "rate   B     0 ± 0.002",
        "local  a     0.25 ± 0.063",
        "pair   a, b  0.1 ± 0.089",
        "pair   b, b  0.5",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"rates": None},
        {"rates": {"A": [float("nan"), 0]}},
        {"rates": {"A": ["2", 0]}},
        {"rates": {"A": [-1, 0]}},
        {"pairs": [["a"]]},
        {"local": {"a": 0.5}},
        {"window": None},
    ],
)
def test_what_is_not_statistics_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(StateError, match="ensue stats"):
        Statistics.from_json({**KNOWN.to_json(), **change})
