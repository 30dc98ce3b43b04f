"""The last two steps of a search at once, and absences noted beside events: against products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.options import Options

ROWS, WINDOW = 1800, 300
QUERY = f"PATTERN SEQ(A a, !N n, B b, C c) WHERE a.k = n.k AND a.x < b.x AND b.x < c.x WITHIN {WINDOW}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cut", [1800, 37])
def test_every_pair_is_found_once_whatever_overflows(seed: int, cut: int) -> None:
    dice = np.random.default_rng(seed)
    kinds = dice.choice(4, ROWS, p=(0.35, 0.35, 0.29, 0.01))
    ts = np.sort(dice.integers(0, ROWS * 3 // 4, ROWS))  # with ties
    k, missing = dice.integers(0, 3, ROWS), dice.random(ROWS) < 0.1
    x, unknown = dice.random(ROWS), dice.random(ROWS) < 0.05
    table = pa.table(
        {
            "type": np.array(list("ABCN"))[kinds],
            "ts": ts,
            "k": pa.array(k, mask=missing),
            "x": pa.array(x, mask=unknown),
        }
    )
    x = np.where(unknown, np.nan, x)
    a, b, c, n = (np.flatnonzero(kinds == kind) for kind in range(4))
    forbids = (ts[a][:, None] < ts[n]) & (k[a][:, None] == k[n]) & ~missing[a][:, None] & ~missing[n]
    allowed = (ts[a][:, None] < ts[b]) & (x[a][:, None] < x[b]) & ~((forbids * 1) @ (ts[n][:, None] < ts[b]) > 0)
    follows = (ts[b][:, None] < ts[c]) & (x[b][:, None] < x[c])
    within = ts[c] - ts[a][:, None] < WINDOW
    expected = int((((allowed * 1) @ follows) * within).sum())
    assert expected > 100_000

    engine = ensue.compile(QUERY, options=Options(max_matches=None))
    parts = [engine.push(table.slice(start, cut)) for start in range(0, ROWS, cut)]
    blocks = [part.block for found in [*parts, engine.flush()] for part in found._parts]
    rows = {name: np.concatenate([np.asarray(block.variables[name]) for block in blocks]) for name in "abc"}
    assert len(rows["a"]) == expected == len(np.unique(np.stack(list(rows.values())), axis=1).T)
    place = np.zeros(ROWS, np.int64)
    for own in (a, b, c):
        place[own] = np.arange(len(own))
    at = {name: place[own] for name, own in rows.items()}
    assert allowed[at["a"], at["b"]].all()
    assert follows[at["b"], at["c"]].all()
    assert within[at["a"], at["c"]].all()


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("a.x < b.x", lambda a, b: a["x"] < b["x"]), ("a.k = b.k", lambda a, b: a["k"] == b["k"])],
    ids=["looked through", "by an index"],
)
@pytest.mark.parametrize("cut", [1800, 37])
def test_a_last_step_is_found_whole_whatever_overflows(condition: str, holds: Any, cut: int) -> None:
    dice = np.random.default_rng(7)
    ts = np.sort(dice.integers(0, ROWS * 3 // 4, ROWS))
    columns = {"type": dice.choice(list("AB"), ROWS), "ts": ts, "k": dice.integers(0, 3, ROWS), "x": dice.random(ROWS)}
    kind = columns["type"]
    one = {name: column[:, None] for name, column in columns.items()}
    pairs = (kind == "A")[:, None] & (kind == "B") & (one["ts"] < ts) & (ts - one["ts"] < WINDOW) & holds(one, columns)
    assert pairs.sum() > 50_000

    engine = ensue.compile(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN {WINDOW}")
    table = pa.table(columns)
    blocks = [part.block for start in range(0, ROWS, cut) for part in engine.push(table.slice(start, cut))._parts]
    found = np.concatenate([np.stack([np.asarray(block.variables[name]) for name in "ab"]) for block in blocks], axis=1)
    assert sorted(zip(*found.tolist(), strict=True)) == sorted(zip(*np.nonzero(pairs), strict=True))
