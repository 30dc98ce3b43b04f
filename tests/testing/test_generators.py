"""The generators: the same table for the same seed, and the figures that their docstrings name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ensue.errors import InputError
from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.testing.generators import planted, stock_like, traffic_like, uniform
from ensue.testing.oracle import find_matches

GENERATORS: list[Callable[..., pa.Table]] = [stock_like, traffic_like, uniform, planted]


@pytest.mark.parametrize("generate", GENERATORS)
def test_seeds(generate: Callable[..., pa.Table]) -> None:
    table = generate(2_000, seed=3)
    assert table.num_rows == 2_000
    assert table.equals(generate(2_000, seed=3))
    assert not table.equals(generate(2_000, seed=4))
    ts = table["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(ts) >= 0).all()
    assert table["type"].null_count == 0


@pytest.mark.parametrize("generate", [stock_like, traffic_like, uniform])
def test_no_events(generate: Callable[..., pa.Table]) -> None:
    table = generate(0)
    assert table.num_rows == 0
    assert table.schema == generate(10).schema


def gini(counts: np.ndarray) -> float:
    counts = np.sort(counts.astype(float))
    return float(np.abs(counts[:, None] - counts).sum() / (2 * len(counts) ** 2 * counts.mean()))


@pytest.mark.parametrize("wanted", [0.15, 0.25, 0.36, 0.6])
def test_stock_rates(wanted: float) -> None:
    table = stock_like(100_000, gini=wanted)
    counts = table["type"].value_counts().field("counts").to_numpy(zero_copy_only=False)
    assert len(counts) == 17
    assert gini(counts) == pytest.approx(wanted, abs=0.03)
    minutes = table["ts"].cast(pa.int64()).to_numpy() // 60_000_000
    assert np.median(np.unique(minutes, return_counts=True)[1]) == pytest.approx(1092, rel=0.05)


def test_stock_differences() -> None:
    table = stock_like(5_000, symbols=("P", "Q"))
    for symbol in ("P", "Q"):
        rows = table.filter(pc.equal(table["type"], symbol))
        price, diff = rows["price"].to_numpy(), rows["diff"].to_pylist()
        assert diff[0] is None
        assert np.allclose(np.diff(price), diff[1:])
    assert table["diff"].null_count == 2
    assert pc.min(table["price"]).as_py() > 0
    assert pc.min(table["volume"]).as_py() >= 100


def test_traffic() -> None:
    table = traffic_like(400_000, seed=1)
    ts = table["ts"].cast(pa.int64()).to_numpy()
    times, sizes = np.unique(ts, return_counts=True)
    assert set(np.diff(times)) == {300_000_000}
    assert sizes[:-1].mean() == pytest.approx(416, rel=0.02)
    count, speed = table["vehicle_count"].to_numpy(), table["avg_speed"].to_numpy()
    assert (count == 0).mean() == pytest.approx(0.46, abs=0.05)
    assert count.min() == 0
    assert speed.min() == 0
    hour = ts // 3_600_000_000 % 24
    assert count[hour == 12].mean() > 10 * count[hour == 0].mean()


def test_traffic_that_is_skewed_and_shifts() -> None:
    table = traffic_like(30_000, seed=2, points=10, skew=50.0, shifts=2)
    assert table.num_rows == 30_000
    names = table["type"].combine_chunks()
    thirds = np.array_split(np.array(names.indices), 3)
    counts = np.array([np.bincount(part, minlength=10) for part in thirds])
    assert (counts.max(axis=1) > 20 * counts.min(axis=1)).all()
    assert len({tuple(np.argsort(row)) for row in counts}) == 3, "other points are busy after each shift"
    early = np.bincount(thirds[0][: len(thirds[0]) // 2], minlength=10)
    assert np.corrcoef(early, counts[0])[0, 1] > 0.99, "and none between"


def test_stock_rates_move_as_often_as_wanted() -> None:
    table = stock_like(100_000, seed=1, symbols=4, drift=0.5, stretches=50)
    codes = np.array(table["type"].combine_chunks().indices).reshape(50, 2_000)
    counts = np.array([np.bincount(row, minlength=4) for row in codes])
    assert np.log(counts).std(axis=0).min() > 0.2


def test_traffic_selectivity() -> None:
    points = 60
    table = traffic_like(288 * 56, seed=2, points=points)
    step = (table["ts"].cast(pa.int64()).to_numpy() - table["ts"].cast(pa.int64())[0].as_py()) // 300_000_000
    point = table["type"].combine_chunks().indices.to_numpy()
    speed = np.full((step.max() + 1, points), np.nan)
    count = np.full((step.max() + 1, points), np.nan)
    speed[step, point], count[step, point] = table["avg_speed"], table["vehicle_count"]
    shares = [
        np.mean((speed[:-3, a] < speed[3:, b]) & (count[:-3, a] < count[3:, b]))
        for a in range(points)
        for b in range(points)
        if a != b
    ]
    low, middle, high = np.quantile(shares, [0.1, 0.5, 0.9])
    assert low < 0.03
    assert 0.05 < middle < 0.2
    assert 0.45 < high < 0.75


def test_uniform() -> None:
    table = uniform(200_000, 20, live=100, window=5_000, keys=50, selectivity=0.2)
    ts = table["ts"].to_numpy()
    first = table.filter(pc.equal(table["type"], "A"))
    second = table.filter(pc.equal(table["type"], "B"))
    live = np.searchsorted(first["ts"].to_numpy(), first["ts"].to_numpy() + 5_000) - np.arange(len(first))
    assert live[:5_000].mean() == pytest.approx(100, rel=0.05)
    assert ts[-1] == 199_999 * 5_000 // 2_000
    pairs = min(len(first), len(second))
    below = first["diff"].to_numpy()[:pairs] < second["diff"].to_numpy()[:pairs]
    assert below.mean() == pytest.approx(0.2, abs=0.02)
    assert len(table["key"].unique()) == 50


@pytest.mark.parametrize(("n", "matches"), [(300, 7), (90, 30), (50, 0)])
def test_planted_matches_are_found(n: int, matches: int) -> None:
    table = planted(n, ("A", "B", "C"), matches, seed=n, window=20)
    schema = Schema({"type": DType.STRING, "ts": DType.INT, "id": DType.INT})
    query = parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id = c.id WITHIN 20")
    assert len(find_matches(table.to_pylist(), query, schema)) == matches


def test_planted_refuses_what_does_not_fit() -> None:
    with pytest.raises(InputError, match="do not fit"):
        planted(10, ("A", "B", "C"), 4)
