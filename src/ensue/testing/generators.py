"""Seeded streams as Arrow tables, made to resemble what real streams do: rates, ties, nulls, selectivities.

Equal arguments give equal tables. All are sorted by time, and a million events take about a second.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import InputError

_STOCKS_BEGIN = 1_704_205_800_000_000  # 2024-01-02 14:30 UTC, in microseconds
_TRAFFIC_BEGIN = 1_406_851_200_000_000  # 2014-08-01 00:00 UTC

# Vehicles by the hour of the day (UTC), relative to the day's mean.
_DAY = (.06, .055, .085, .25, .91, 1.86, 1.90, 1.58, 1.70, 1.73, 1.79, 1.81, 1.95, 2.11, 2.06, 1.56, 1.06, .72, .57,
        .51, .40, .23, .11, .08)  # fmt: skip


def stock_like(
    n: int,
    seed: int = 0,
    *,
    symbols: int | Sequence[str] = 17,
    gini: float = 0.25,
    drift: float = 0.15,
    stretches: int = 16,
    events_per_minute: float = 1092.0,
    keys: int = 100,
) -> pa.Table:
    """Trades of some symbols: `type ts price volume diff k`, `diff` being the price less the symbol's last one.

    `gini` sets how unequal the symbols' rates are (real minute bars: .15 over a year, .24 to .36 over a week; .6 and
    more is skewed), `drift` how much they change from one of so many `stretches` of the stream to the next, `k` is a
    key of `keys` values. The first `diff` of a symbol is null. Measured at a million events with the defaults: Gini
    .25, median 1,092 events a minute, P(diff > 0) .47.

    >>> stock_like(3).column_names
    ['type', 'ts', 'price', 'volume', 'diff', 'k']
    """
    rng = np.random.default_rng(seed)
    names = _symbol_names(symbols) if isinstance(symbols, int) else list(symbols)
    codes = _draw_types(rng, n, _spread_rates(len(names), gini, rng), drift, stretches)
    ts = _STOCKS_BEGIN + np.cumsum(rng.exponential(60_000 / events_per_minute, n)).astype(np.int64) * 1000
    base = rng.integers(2_000, 50_000, len(names))  # cents
    steps = np.rint(rng.normal(0.0, 1.0, n) * (base[codes] * 2e-4 + 0.8)).astype(np.int64)
    by_symbol = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[by_symbol], prepend=-1))
    walk = np.cumsum(steps[by_symbol])
    walk -= np.repeat(walk[first] - steps[by_symbol][first], np.diff(np.append(first, n)))
    cents = np.empty(n, np.int64)
    # A price stays between a cent and twice its base: the walk is folded back at both ends.
    top = 2 * base[codes[by_symbol]] - 1
    folded = np.abs((base[codes[by_symbol]] - 1 + walk) % (2 * top) - top)
    cents[by_symbol] = top - folded + 1
    change = np.diff(cents[by_symbol], prepend=0)
    diff = np.empty(n, np.float64)
    diff[by_symbol] = change / 100
    unknown = np.zeros(n, np.bool_)
    unknown[by_symbol[first]] = True
    return pa.table(
        {
            "type": _names_column(codes, names),
            "ts": pa.array(ts, pa.timestamp("us")),
            "price": cents / 100,
            "volume": (np.ceil(rng.lognormal(0.6, 1.0, n)) * 100).astype(np.int64),
            "diff": pa.array(diff, mask=unknown),
            "k": rng.integers(0, keys, n),
        }
    )


def traffic_like(
    n: int, seed: int = 0, *, points: int = 449, missing: float = 0.073, skew: float = 1.0, shifts: int = 0
) -> pa.Table:
    """Readings of traffic sensors: `type` (the point) `ts avg_speed vehicle_count`, all points every five minutes.

    With `skew` some points report more rarely than others, the rarest that many times as rarely; at each of so many
    `shifts`, spread evenly over the stream, the points exchange at random how busy and how fast their roads are and how
    often they report: few changes, and extreme ones.

    Ties are universal: about 416 events share each timestamp, since a share of the readings is `missing`. Measured over
    two weeks (1.7 million events): 47 % of the counts are 0; a reading of one point and a reading of another up to 30
    minutes later satisfy `a.avg_speed < b.avg_speed AND a.vehicle_count < b.vehicle_count` with a selectivity that has,
    over 2,000 random pairs of points, the quantiles p10/25/50/75/90/99 = .008/.023/.124/.386/.633/.838 (a real stream:
    .001/.009/.096/.348/.588/.861); at midnight its mean is .09, at 11 o'clock .28 (real: .05, .28).

    >>> traffic_like(500)["ts"][0] == traffic_like(500)["ts"][100]
    True
    """
    rng = np.random.default_rng(seed)
    reports = (1 - missing) * np.geomspace(1.0, 1.0 / skew, points)  # of each point in a step
    steps = max(1, math.ceil(n / reports.sum() * (1.02 + 0.2 * (skew > 1))) + 2)
    normal = rng.normal(0.0, 1.0, (2, points))
    busy = np.exp(0.75 + 1.6 * normal[0] - 0.25 * normal[0] ** 2)  # mean count of a point
    speed = 43.0 * np.exp(0.2 * normal[0] + 0.28 * normal[1])
    hour = np.arange(steps) * 5 / 60 % 24
    swing = np.interp(hour, np.arange(25), (*_DAY, _DAY[0]))
    day = np.arange(steps) * 5 // 1440
    weekend = np.where((day + 4) % 7 >= 5, 0.7, 1.0)
    if skew > 1:
        rng.shuffle(reports)
    phase = np.minimum(np.arange(steps) * (shifts + 1) // max(1, math.ceil(n / reports.sum())), shifts)
    habits = np.array([np.arange(points), *(rng.permutation(points) for _ in range(shifts))])
    habit_at = habits[phase]  # whose habits a point has in a step
    present = np.flatnonzero(rng.random((steps, points)) >= 1 - reports[habit_at])[:n]
    step, point = np.divmod(present, points)
    habit = habit_at[step, point]
    load = (swing * weekend)[step] * busy[habit]
    # Counts vary more than independent arrivals would: the rate itself is drawn from a gamma distribution.
    count = rng.poisson(load * rng.gamma(2.0, 0.5, n))
    slow = 1.0 - 0.16 * np.minimum(swing[step] / 2, 1.0)
    kmh = np.rint(speed[habit] * slow + rng.normal(0.0, 9.0, n)).astype(np.int64)
    kmh = np.where(rng.random(n) < 0.024, 0, np.maximum(kmh, 3))
    return pa.table(
        {
            "type": _names_column(point, [str(158_000 + 53 * number) for number in range(points)]),
            "ts": pa.array(_TRAFFIC_BEGIN + step * 300_000_000, pa.timestamp("us")),
            "avg_speed": kmh,
            "vehicle_count": np.where(kmh == 0, 0, count).astype(np.int64),
        }
    )


def uniform(
    n: int,
    types: int | Sequence[str] = 20,
    seed: int = 0,
    *,
    live: int = 100,
    window: int = 100_000,
    keys: int = 100,
    selectivity: float = 0.5,
) -> pa.Table:
    """Events of equally frequent types at even steps: `type ts diff key`; `live` events of each type in any `window`.

    `diff` is normal with a mean that grows from type to type such that `a.diff < b.diff` holds for a share
    `selectivity` of the pairs of events of a type and of the next one; `key` is one of `keys` values, so that
    `a.key = b.key` holds for one pair in `keys`.

    >>> uniform(4, ("A", "B")).column_names
    ['type', 'ts', 'diff', 'key']
    """
    rng = np.random.default_rng(seed)
    names = _symbol_names(types) if isinstance(types, int) else list(types)
    codes = rng.integers(0, len(names), n)
    shift = math.sqrt(2) * NormalDist().inv_cdf(selectivity)
    return pa.table(
        {
            "type": _names_column(codes, names),
            "ts": np.arange(n, dtype=np.int64) * window // (live * len(names)),
            "diff": rng.normal(0.0, 1.0, n) + codes * shift,
            "key": rng.integers(0, keys, n),
        }
    )


def planted(
    n: int,
    types: Sequence[str] = ("A", "B", "C"),
    matches: int = 10,
    seed: int = 0,
    *,
    window: int = 1000,
    noise: Sequence[str] = ("A", "B", "C", "D", "E", "F"),
) -> pa.Table:
    """Noise with a known number of matches: `type ts id`, one event a time step.

    The events of one planted match share an `id` that nothing else has, and lie in one window. So
    `SEQ(A a, B b, C c) WHERE a.id = b.id = c.id WITHIN <window>` has exactly `matches` matches, although the noise
    holds events of the same types.

    >>> planted(100, matches=2)["id"].value_counts().field("counts").to_pylist().count(3)
    2
    """
    size = len(types)
    block = n // matches if matches else n
    reach = min(block, window)
    if size == 0 or (matches and reach < size):
        raise InputError(f"{matches} matches of {size} events do not fit in {n} events with a window of {window}")
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(noise), n)
    ids = rng.permutation(n) + matches  # all different, and none of those of the planted
    names = [*noise, *types]
    # Sorted offsets with repeats, plus 0, 1, 2, …: distinct places in order.
    offsets = np.sort(rng.integers(0, reach - size + 1, (matches, size)), axis=1) + np.arange(size)
    places = offsets + np.arange(matches)[:, None] * block
    codes[places] = len(noise) + np.arange(size)
    ids[places] = np.arange(matches)[:, None]
    return pa.table({"type": _names_column(codes, names), "ts": np.arange(n, dtype=np.int64), "id": ids})


def _symbol_names(count: int) -> list[str]:
    letters = string.ascii_uppercase
    return list(letters[:count]) if count <= len(letters) else [f"T{number}" for number in range(count)]


def _names_column(codes: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    distinct = list(dict.fromkeys(names))
    number = np.array([distinct.index(name) for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(number[codes]), pa.array(distinct, pa.string()))


def _spread_rates(count: int, gini: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Rates with a given Gini coefficient: quantiles of a log-normal distribution, in random order."""
    quantiles = np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])
    low, high = 0.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _gini(np.exp(middle * quantiles)) < gini else (low, middle)
    rates = np.exp(low * quantiles)
    return rng.permutation(rates / rates.sum())


def _gini(rates: npt.NDArray[np.float64]) -> float:
    ordered = np.sort(rates)
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))


def _draw_types(
    rng: np.random.Generator, n: int, rates: npt.NDArray[np.float64], drift: float, stretches: int
) -> npt.NDArray[np.int64]:
    """Types by their rates, which move at random around their means from one stretch of the stream to the next."""
    bounds = np.linspace(0, n, stretches + 1).astype(np.int64)
    codes = np.empty(n, np.int64)
    for begin, end in pairwise(bounds):
        moved = np.cumsum(rates * np.exp(rng.normal(0.0, drift, len(rates))))
        codes[begin:end] = np.searchsorted(moved[:-1] / moved[-1], rng.random(end - begin), side="right")
    return codes
