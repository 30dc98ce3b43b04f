"""Rows come back as they were stored, whatever was merged, released or stored one by one in between."""

from __future__ import annotations

import json
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import InternalError
from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema
from ensue.runtime.rows import RowStore

SCHEMA = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.FLOAT, "s": DType.STRING})


def make_row(i: int) -> dict[str, Any]:
    return {"type": "AB"[i % 2], "ts": i // 3, "x": float(i), "s": None if i % 5 == 0 else f"s{i % 4}"}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 6)),
        st.tuples(st.just("filtered"), st.integers(1, 6)),
        st.tuples(st.just("dictionary"), st.integers(1, 6)),
        st.tuples(st.just("one"), st.integers(1, 4)),
        st.tuples(st.just("release"), st.integers(0, 12)),
        st.tuples(st.just("free"), st.just(1)),
        st.tuples(st.just("take"), st.integers(0, 5)),
        st.tuples(st.just("reload"), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=250, deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_rows_come_back(steps: list[tuple[str, int]], random: Any) -> None:
    intake, store = Intake(SCHEMA), RowStore(SCHEMA)
    stored: dict[int, dict[str, Any]] = {}
    views: list[tuple[Any, dict[int, dict[str, Any]]]] = []
    n = lowest = 0
    for what, size in [*steps, ("take", 20)]:
        rows = [make_row(n + k) for k in range(size)]
        if what in ("batch", "filtered", "dictionary"):
            data = pa.Table.from_pylist(
                rows,
                pa.schema(
                    [(c, t) for c, t in zip(rows[0], (pa.string(), pa.int64(), pa.float64(), pa.string()), strict=True)]
                ),
            )
            if what == "dictionary":
                data = data.set_column(3, "s", data["s"].dictionary_encode())
            batch = intake.push(data)
            keep = np.array([what != "filtered" or k % 2 == 0 for k in range(size)])
            store.append(batch, keep if what == "filtered" else None)
            stored |= {n + k: rows[k] for k in range(size) if keep[k]}
            n += size
        elif what == "one":
            for row in rows:
                intake.push([row])
                store.append_one(n, row)
                stored[n] = row
                n += 1
        elif what == "release":
            lowest = max(lowest, n - size)
            store.release(lowest)
            stored = {seq: row for seq, row in stored.items() if seq >= lowest}
        elif what == "free":
            store.free_forgotten()
        elif what == "reload":
            state, tables = store.dump()
            store = RowStore.load(SCHEMA, json.loads(json.dumps(state)), tables)
        elif stored:
            seqs = random.choices(list(stored), k=size)
            assert store.take(np.array(seqs, dtype=np.int64)).to_pylist() == [stored[s] for s in seqs]
            views.append((store.view(), dict(stored)))
    for view, then in views:
        assert view.take(np.array(list(then), dtype=np.int64)).to_pylist() == list(then.values())


def filled(n: int = 100_000) -> RowStore:
    store = RowStore(SCHEMA)
    intake = Intake(SCHEMA)
    for start in range(0, n, 1000):
        ts = np.arange(start, start + 1000)
        store.append(intake.push({"type": ["A"] * 1000, "ts": ts, "x": ts * 0.5, "s": ["text"] * 1000}))
    return store


def test_released_rows_free_their_memory() -> None:
    store = filled()
    full = store.nbytes
    store.release(99_990)
    assert len(store) == 10
    assert full / 100 < store.nbytes < full / 20, "the rest of a chunk that is not large stays with it"
    assert store.take(np.array([99_990]))["ts"].to_pylist() == [99_990]
    store.free_forgotten()
    assert store.nbytes < full / 100
    assert store.take(np.array([99_990]))["ts"].to_pylist() == [99_990]
    with pytest.raises(InternalError, match="released"):
        store.take(np.array([5]))
    store.release(10**9)
    assert len(store) == 1  # the last one stays: a row of the same time may still come


def test_the_memory_of_a_large_chunk_is_freed_at_once() -> None:
    store, ts = RowStore(SCHEMA), np.arange(100_000)
    store.append(Intake(SCHEMA).push({"type": ["A"] * len(ts), "ts": ts, "x": ts * 0.5, "s": ["text"] * len(ts)}))
    full = store.nbytes
    store.release(99_990)
    assert len(store) == 10
    assert store.nbytes < full / 100


def test_rows_of_the_time_of_the_first_that_stays_are_kept() -> None:
    store, intake = RowStore(SCHEMA), Intake(SCHEMA)
    for ts in ([1, 2, 2], [2, 2], [2, 3]):
        store.append(intake.push({"type": ["A"] * len(ts), "ts": ts}))
    store.release(5)
    assert store.take(np.array([1, 5]))["ts"].to_pylist() == [2, 2]


def test_chunks_stay_few() -> None:
    store = filled()
    assert len(store.view().chunks) < 20


def test_a_long_list_is_not_made_a_table_for_a_short_one() -> None:
    """One event would have to wait for it. Once somebody has looked at the list, it is merged as tables are."""
    store, intake = RowStore(SCHEMA), Intake(SCHEMA)
    store.append(intake.push([make_row(0)]))
    for k in range(1, 5000):
        store.append_one(k, make_row(k))
    chunks = store.view().chunks
    assert [(len(chunk), chunk.is_listed) for chunk in chunks] == [(1, False), (4999, True)]
    for k in range(5000, 6000):
        store.append_one(k, make_row(k))
        if k % 10 == 0:
            assert store.take(np.array([0, k - 5, k]))["x"].to_pylist() == [0.0, k - 5, k]
    assert len(store.view().chunks) < 12


def test_rows_that_came_one_by_one_are_freed_one_by_one() -> None:
    """Thousands at once would keep the next event waiting."""

    class Text(str):
        """Text whose end can be seen."""

    store = RowStore(SCHEMA)
    alive: weakref.WeakSet[Text] = weakref.WeakSet()
    left = []
    for k in range(8_000):
        text = Text(k)
        alive.add(text)
        store.append_one(k, {**make_row(k), "s": text})
        del text
        left.append(len(alive))
        if k % 1_000 == 999:
            store.release(k - 500)
            assert len(alive) == left[-1]
    assert max(before - now for before, now in pairwise(left)) <= 1
    assert max(left[:4_000]) >= max(left[4_000:]) < 5_000
    store.append(Intake(SCHEMA).push([make_row(9_000)]))
    assert len(alive) == len(store) - 1 < 2_500


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(-1, 10))
def test_the_first_row_after_a_time(times: list[int], time: int) -> None:
    """It is found without making a table of rows that came one by one, which would take long."""
    store = RowStore(SCHEMA)
    for k, ts in enumerate(sorted(times)):
        store.append_one(k, {**make_row(k), "ts": ts})
    expected = next((k for k, ts in enumerate(sorted(times)) if ts > time), None)
    assert store.first_after(time) == expected
    assert store.view().chunks[0].is_listed
    store.take(np.array([0]))
    assert store.first_after(time) == expected


def test_new_columns_are_null_in_older_rows() -> None:
    intake = Intake()
    first = intake.push([{"type": "A", "ts": 1}])
    assert intake.schema is not None
    store = RowStore(intake.schema)
    store.append(first)
    store.append(intake.push([{"type": "B", "ts": 2, "note": "new"}]))
    store.append_one(2, {"type": "C", "ts": 3, "extra": [1]})
    assert store.take(np.array([0, 1, 2])).to_pylist() == [
        {"type": "A", "ts": 1, "note": None, "extra": None},
        {"type": "B", "ts": 2, "note": "new", "extra": None},
        {"type": "C", "ts": 3, "note": None, "extra": [1]},
    ]


def test_an_empty_store_knows_its_columns() -> None:
    table = RowStore(SCHEMA).take(np.empty(0, dtype=np.int64))
    assert table.column_names == list(SCHEMA.columns)
    assert table.num_rows == 0
