"""The table of strings: codes that stay, an order that is right, and a size that is bounded."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import StateError
from ensue.events.times import NULL
from ensue.runtime.strings import StringTable

words = st.text(alphabet="abß\U0001f600", max_size=4)


def check_order(table: StringTable, live: dict[str, int]) -> None:
    ordered = sorted(live)
    ranks = [int(table.rank[live[word]]) for word in ordered]
    assert all(a < b for a, b in itertools.pairwise(ranks))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.lists(st.none() | words, max_size=8)), max_size=12))
def test_codes_order_and_retention(steps: list[tuple[bool, list[str | None]]]) -> None:
    table = StringTable(ordered=True)
    live: dict[str, int] = {}
    for forget, column in steps:
        codes = table.encode(pa.array(column, pa.string())).tolist()
        for word, code in zip(column, codes, strict=True):
            if word is None:
                assert code == NULL
                continue
            assert live.setdefault(word, code) == code
            assert table.decode(code) == word
        assert len(set(live.values())) == len(live) == len(table)
        check_order(table, live)
        if forget:
            live = {word: code for i, (word, code) in enumerate(sorted(live.items())) if i % 2}
            table.retain(np.array([*live.values(), NULL], dtype=np.int64))
            assert len(table) == len(live)
            assert all(table.decode(code) == word for word, code in live.items())
            check_order(table, live)
        state, tables = table.dump()
        table = StringTable.load(json.loads(json.dumps(state)), tables)
        check_order(table, live)


def test_codes_are_used_again_so_that_the_table_stays_small() -> None:
    table = StringTable(ordered=True)
    for i in range(200):
        codes = table.encode(pa.array([f"{i}-{k}" for k in range(10)]))
        assert codes.max() < 20
        table.retain(codes)
    assert len(table.rank) <= 20


def test_a_gap_that_is_used_up_gives_new_labels() -> None:
    table = StringTable(ordered=True)
    table.encode_words(["a", "b", *(f"c{i:03}" for i in range(100))])
    live = {word: table.encode_one(word) for word in ["a", "b"]}
    word = "b"
    for _ in range(200):  # each lies between `a` and the one before it: the gap is halved each time
        word = "a" + word if word == "b" else word[:-1] + "ab"
        live[word] = table.encode_one(word)
    check_order(table, live)


def test_columns_of_every_layout() -> None:
    table = StringTable()
    column = pa.chunked_array([pa.array(["x", None, "y"]), pa.array(["y", "z"])])
    assert table.encode(column).tolist() == [0, NULL, 1, 1, 2]
    large = pa.DictionaryArray.from_arrays(pa.array([900, None, 7]), pa.array([str(i) for i in range(1000)]))
    codes = table.encode(large)
    assert [table.decode(codes[0]), codes[1], table.decode(codes[2])] == ["900", NULL, "7"]
    assert len(table) == 5  # of a large dictionary only what is used
    assert table.encode(pa.chunked_array([], pa.string())).tolist() == []
    assert table.encode_one(None) == NULL
    with pytest.raises(KeyError):
        table.decode(99)
    with pytest.raises(StateError):
        StringTable.load({"format": 0}, [])
