"""Streams in the one form that all engines read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.peers.queries import find
from benchmarks.peers.streams import Columns, common_form, generate, open_stream, read


def test_equal_seeds_give_equal_streams_and_both_forms_the_same(tmp_path):
    first = open_stream("stock-skewed", 500, tmp_path / "a")
    again = open_stream("stock-skewed", 500, tmp_path / "b", form="csv")
    assert first.path.suffix == ".parquet" and again.path.suffix == ".csv"
    assert first.table.select(["ts", "diff", "k"]).equals(again.table.select(["ts", "diff", "k"]))
    assert first.codes.tolist() == again.codes.tolist()


def test_stock_times_differ_and_traffic_times_tie(tmp_path):
    assert not open_stream("stock", 2_000, tmp_path).has_ties
    assert open_stream("traffic", 2_000, tmp_path).has_ties


def test_windows_hold_as_many_events_as_asked_for(tmp_path):
    stream = open_stream("stock", 20_000, tmp_path)
    window = stream.window(find("Q1"), 100)
    ts = stream.ts[stream.codes == 0]
    live = np.searchsorted(ts, ts + window) - np.arange(len(ts))
    assert live[:-200].mean() == pytest.approx(100, rel=0.05)


def test_absent_types_come_last_among_events_of_one_time():
    table = pa.table({"type": ["n", "b", "a", "n", "c"], "ts": [5, 5, 5, 6, 7], "diff": [1, 2, 3, 4, 5], "k": [0] * 5})
    found = common_form(table, Columns(), ["a", "b", "c", "n"])
    assert found["type"].to_pylist() == ["B", "A", "N", "N", "C"]


def test_rows_without_a_value_are_left_out_and_texts_can_be_keys():
    table = pa.table(
        {"symbol": ["u", "v", "v"], "at": [3, 2, 1], "rise": [1.0, None, 2.0], "exchange": ["x", "y", "x"]}
    )
    found = common_form(table, Columns("symbol", "at", "rise", "exchange"), ())
    assert found.select(["type", "ts", "diff", "k"]).to_pylist() == [
        {"type": "A", "ts": 1, "diff": 2.0, "k": 0},
        {"type": "B", "ts": 3, "diff": 1.0, "k": 0},
    ]


def test_a_file_of_few_types_lacks_some_queries(tmp_path):
    path = tmp_path / "given.parquet"
    kinds = ["p", "q", "q", "r", "r", "r", "s", "s", "s", "s"]
    at = pa.array(range(1_700_000_000_000, 1_700_000_000_010), pa.timestamp("ms"))
    pq.write_table(pa.table({"name": kinds, "at": at, "value": range(10)}), path)
    stream = open_stream(str(path), 100, tmp_path, columns=Columns("name", "at", "value", "none"))
    assert stream.counts == {"A": 4, "B": 3, "C": 2, "D": 0, "E": 0, "N": 1}
    assert stream.lacks(find("Q1")) is None
    assert stream.lacks(find("Q5")) == "the stream has only 4 types"
    assert stream.lacks(find("Q6")) == stream.lacks(find("Q3")) == "the stream has no key"
    assert stream.ts[0] == 1_700_000_000_000


def test_java_reads_the_same_columns(tmp_path):
    stream = open_stream("stock", 300, tmp_path)
    raw = stream.binary.read_bytes()
    size = int(np.frombuffer(raw, "<i8", 1)[0])
    assert size == len(stream.table) and len(raw) == 8 + 25 * size
    assert np.frombuffer(raw, "<i8", size, 8).tolist() == stream.ts.tolist()
    assert np.frombuffer(raw, "<f8", size, 8 + 8 * size).tolist() == stream.table["diff"].to_pylist()
    assert np.frombuffer(raw, "i1", size, 8 + 24 * size).tolist() == stream.codes.tolist()


def test_skewed_rates_differ_more_than_uniform_ones():
    def spread(name):
        counts = [row["counts"] for row in generate(name, 20_000, 1)["type"].value_counts().to_pylist()]
        return max(counts) / min(counts)

    assert spread("stock") < 1.2 < 5 < spread("stock-skewed")


def test_types_are_read_as_dictionaries(tmp_path):
    stream = open_stream("traffic", 100, tmp_path)
    assert pa.types.is_dictionary(read(stream.path)["type"].type)
