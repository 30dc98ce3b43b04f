"""Aggregates over many lists at once, against Python's own over one list at a time."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from ensue.events.times import LARGEST
from ensue.runtime.lists import aggregate
from ensue.runtime.values import Column, Kind


def plain(function: str, values: list[Any]) -> Any:
    known = [v for v in values if v is not None]
    if function == "COUNT":
        return len(known)
    if not known:
        return None
    if function in ("MIN", "MAX"):
        return min(known) if function == "MIN" else max(known)
    total: Any = 0
    for value in known:  # not sum(): newer Pythons add floats more exactly than one after the other
        total += value
    if function == "AVG":
        total = float(total) / len(known)
    unfit = math.isnan(total) if isinstance(total, float) else abs(total) > LARGEST
    return None if unfit else total


def make_column(values: list[Any], kind: Kind) -> Column:
    null = np.array([v is None for v in values], dtype=np.bool_)
    if kind is Kind.STRING:
        words = tuple(dict.fromkeys(v for v in values if v is not None)) or ("",)
        places = [0 if v is None else words.index(v) for v in values]
        return Column(kind, np.array(places, dtype=np.int64), null if null.any() else None, words)
    dtype = np.float64 if kind is Kind.FLOAT else np.int64
    return Column(kind, np.array([0 if v is None else v for v in values], dtype=dtype), null if null.any() else None)


CHOICES: dict[Kind, list[Any]] = {
    Kind.INT: [None, 1, -7, 2**62, -(2**62), LARGEST, 3],
    Kind.FLOAT: [None, 0.1, 0.2, 0.3, -1e16, 1e16, 1e308, math.inf],
    Kind.STRING: [None, "", "a", "b", "ß", "\U0001f600"],
}


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("function", ["COUNT", "SUM", "AVG", "MIN", "MAX"])
@pytest.mark.parametrize("nulls", [True, False])
def test_aggregates(kind: Kind, function: str, nulls: bool) -> None:
    if kind is Kind.STRING and function in ("SUM", "AVG"):
        return
    pick = random.Random(f"{kind}{function}{nulls}")
    choices = CHOICES[kind][0 if nulls else 1 :]
    lists = [pick.choices(choices, k=pick.choice([0, 1, 2, 3, 5, 64, 65, 200])) for _ in range(120)]
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    result = aggregate(function, make_column([v for one in lists for v in one], kind), offsets)
    values = [result.words[v] for v in result.values] if result.words else result.values.tolist()
    got = [None if null else value for null, value in zip(result.nulls(), values, strict=True)]
    assert got == [plain(function, one) for one in lists]
    assert any(value is not None for value in got)
