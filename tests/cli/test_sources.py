"""Reading files: types found out, rows set aside, disorder measured, blocks cut where records end."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue.cli import sources
from ensue.cli.blocks import Pipe, cut_blocks, whole_records
from ensue.cli.rows import CsvRows, JsonRows
from ensue.cli.schemas import ColumnNames
from ensue.cli.sources import Disorder, Source, open_source
from ensue.errors import InputError
from ensue.events.schema import DType

COLUMNS = ColumnNames()


def rows_of(source: Source) -> list[dict[str, Any]]:
    rows = []
    for parsed in source.batches():
        table = parsed.table
        if not isinstance(table, pa.Table):
            lists = {n: c if isinstance(c, list) else c.to_pylist() for n, c in table.items()}
            rows += [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
        else:
            rows += table.to_pylist()
    return rows


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_a_line_end_in_quotes_is_part_of_the_value() -> None:
    assert whole_records(b'a,b\n1,"x\ny', b'"') == 4
    assert whole_records(b'a,b\n1,"x\ny"\n2', b'"') == 12
    assert whole_records(b"no end", b'"') == 0


def _reader(data: bytes, step: int) -> Any:
    stream = io.BytesIO(data)
    return lambda _size: stream.read(step)


@given(st.lists(st.text('ab",\n', max_size=5), max_size=8), st.integers(1, 7))
def test_blocks_are_the_whole_input_cut_at_record_ends(values: list[str], step: int) -> None:
    quoted = ['"' + value.replace('"', '""') + '"' for value in values]
    data = "".join(value + "\n" for value in quoted).encode()
    blocks = list(cut_blocks(_reader(data, step), 1000, b'"'))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") and block.count(b'"') % 2 == 0 for block in blocks)


def test_a_stray_quote_does_not_hold_back_the_whole_input() -> None:
    data = b'1,5" pipe\n' + b"2,x\n" * 1000
    blocks = list(cut_blocks(_reader(data, 50), 50, b'"'))
    assert b"".join(blocks) == data
    assert len(blocks) > 3


def test_the_last_line_needs_no_end() -> None:
    assert list(cut_blocks(_reader(b"a\nb", 100), 100, None)) == [b"a\n", b"b"]


def test_a_pipe_that_was_peeked_at_gives_all_its_bytes() -> None:
    pipe = Pipe(io.BytesIO(b"abcdef"))
    assert pipe.peek(3) == b"abc"
    assert pipe.read(100) + pipe.read(100) == b"abcdef"


# -- CSV ---------------------------------------------------------------------------------------------------------------


def test_csv_types_are_found_out(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "type,ts,x,y,s,b,when\nA,1,3,1.5,q,true,2024-01-01T00:00:00\nB,2,,,,false,\n")
    source = open_source(path, columns=COLUMNS)
    assert source.survey() == 0
    kinds = {name: str(kind) for name, kind in source.types().items()}
    assert kinds | {"when": ""} == {
        "type": "string",
        "ts": "int64",
        "x": "int64",
        "y": "double",
        "s": "string",
        "b": "bool",
        "when": "",
    }
    assert kinds["when"].startswith("timestamp")
    second = rows_of(source)[1]
    assert (second["type"], second["x"], second["y"], second["s"], second["b"]) == ("B", None, None, None, False)


def test_event_types_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "e.csv", "type,ts\n007,1\n8,2\n"), columns=COLUMNS)
    assert [row["type"] for row in rows_of(source)] == ["007", "8"]


def test_one_bad_number_leaves_a_column_that_queries_calculate_with_a_number(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "type,ts,x\nA,1,3\nA,2,abc\nA,3,4.5\n")
    source = open_source(path, columns=COLUMNS, numeric={"x", "ts"})
    source.survey()
    assert source.types()["x"] == pa.float64()
    assert [row["x"] for row in rows_of(source)] == [3.0, "abc", 4.5]
    plain = open_source(path, columns=COLUMNS)
    plain.survey()
    assert plain.types()["x"] == pa.string()
    assert [row["x"] for row in rows_of(plain)] == ["3", "abc", "4.5"]


def test_later_blocks_widen_the_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 16)
    path = write(tmp_path / "e.csv", "type,ts,x,k,e\n" + "A,1,1,007,\n" * 3 + "A,2,2.5,A12,9\n")
    source = open_source(path, columns=COLUMNS, numeric={"x"})
    source.survey()
    assert {n: str(t) for n, t in source.types().items() if n in "xke"} == {"x": "double", "k": "string", "e": "int64"}
    assert [row["k"] for row in rows_of(source)] == ["007", "007", "007", "A12"]
    assert [row["x"] for row in rows_of(source)] == [1.0, 1.0, 1.0, 2.5]


def test_a_row_with_too_few_values_is_set_aside(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "e.csv", "type,ts,x\nA,1,3\nB,2\nA,3,4\n"), columns=COLUMNS)
    (parsed,) = list(source.batches())
    assert parsed.table.num_rows == 2
    assert [(row.text, row.reason) for row in parsed.unreadable] == [("B,2", "expected 3 values, found 2")]


def test_given_types_win(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "type,ts,k\nA,1,007\n")
    source = open_source(path, columns=COLUMNS, fixed={"k": DType.STRING, "other": DType.INT})
    assert rows_of(source) == [{"type": "A", "ts": 1, "k": "007"}]
    assert "other" not in source.types()


def test_a_header_with_quotes_a_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", '\ufefftype,"a ""b""",ts\r\nA,"x\r\ny",1\r\n')
    assert rows_of(open_source(path, columns=COLUMNS)) == [{"type": "A", 'a "b"': "x\r\ny", "ts": 1}]


def test_a_column_named_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'ts' twice"):
        list(open_source(write(tmp_path / "e.csv", "type,ts,ts\nA,1,2\n"), columns=COLUMNS).batches())


@pytest.mark.parametrize("text", ["", "type,ts\n", "type,ts"])
def test_no_rows(tmp_path: Path, text: str) -> None:
    source = open_source(write(tmp_path / "e.csv", text), columns=COLUMNS)
    assert source.survey() == 0
    assert rows_of(source) == []


# -- JSON lines --------------------------------------------------------------------------------------------------------


def test_json_types_nesting_and_missing_keys(tmp_path: Path) -> None:
    lines = [
        {"type": "A", "ts": 1, "x": 1, "deep": {"a": [1]}},
        {"type": 7, "ts": 2, "x": 2.5, "s": "q"},
        {"type": "B", "ts": 3, "flag": True},
    ]
    path = write(tmp_path / "e.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    source = open_source(path, columns=COLUMNS)
    assert source.survey() == 0
    rows = rows_of(source)
    assert [row["type"] for row in rows] == ["A", "7", "B"]
    assert [row["x"] for row in rows] == [1.0, 2.5, None]
    assert rows[0]["deep"] == {"a": [1]}
    assert rows[2]["flag"] is True


def test_lines_that_are_not_objects_are_set_aside(tmp_path: Path) -> None:
    path = write(tmp_path / "e.jsonl", '{"type": "A", "ts": 1}\n[1]\n{"type": \n{"type": "B", "ts": 2}\n')
    (parsed,) = list(open_source(path, columns=COLUMNS).batches())
    assert [row.text for row in parsed.unreadable] == ["[1]", '{"type":']
    assert len(parsed.table["ts"]) == 2


def test_a_bad_value_in_json_stays_as_it_is(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.jsonl", '{"type":"A","ts":1,"x":1}\n{"type":"A","ts":2,"x":"abc"}\n{"type":"A","ts":3,"x":2}\n'
    )
    source = open_source(path, columns=COLUMNS, numeric={"x"})
    source.survey()
    assert source.types()["x"] == pa.int64()
    assert [row["x"] for row in rows_of(source)] == [1, "abc", 2]


def test_new_keys_in_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 30)
    path = write(tmp_path / "e.jsonl", '{"type":"A","ts":1,"x":1}\n{"type":"A","ts":2,"new":"v"}\n')
    source = open_source(path, columns=COLUMNS)
    source.survey()
    assert list(source.types()) == ["type", "ts", "x", "new"]
    assert [row["new"] for row in rows_of(source)] == [None, "v"]


# -- Parquet, gzip, names ----------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"type": ["A", "B", "A"], "ts": [1, 9, 4]}), path)
    source = open_source(str(path), columns=COLUMNS, batch_size=2)
    assert source.survey() == 5
    assert [batch.table.num_rows for batch in source.batches()] == [2, 1]


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "e.parquet", "nonsense"), columns=COLUMNS)
    with pytest.raises(InputError, match="not a Parquet file"):
        source.survey()


@pytest.mark.parametrize("name", ["e.csv.gz", "e.csv", "noname"])
def test_gzip_is_told_by_its_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"type,ts\nA,1\n"))
    assert rows_of(open_source(str(tmp_path / name), columns=COLUMNS)) == [{"type": "A", "ts": 1}]


def test_gzipped_parquet(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"type": ["A"], "ts": [1]}), buffer)
    (tmp_path / "e.parquet.gz").write_bytes(gzip.compress(buffer.getvalue()))
    assert rows_of(open_source(str(tmp_path / "e.parquet.gz"), columns=COLUMNS)) == [{"type": "A", "ts": 1}]


def test_the_format_is_told_by_the_first_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "events", '{"type":"A","ts":1}\n')
    assert rows_of(open_source(path, columns=COLUMNS)) == [{"type": "A", "ts": 1}]


def test_no_such_file() -> None:
    with pytest.raises(click.UsageError, match="no such file"):
        open_source("nowhere.csv", columns=COLUMNS)


def test_a_missing_time_column_names_the_nearest(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "e.csv", "type,tss\nA,1\n"), columns=COLUMNS)
    with pytest.raises(InputError, match="did you mean `tss`"):
        source.survey()


# -- disorder ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), max_size=12), st.integers(0, 12))
def test_disorder_is_the_least_lateness_that_makes_no_event_late(times: list[int], cut: int) -> None:
    disorder = Disorder()
    for part in (times[:cut], times[cut:]):
        disorder.add(pa.chunked_array([pa.array(part, pa.int64())]), pa.int64())
    expected = max((max(times[: i + 1]) - t for i, t in enumerate(times)), default=0)
    assert disorder.most == expected


def test_disorder_of_the_extremes() -> None:
    disorder = Disorder()
    disorder.add(pa.chunked_array([[2**63 - 1, -(2**63) + 1]]), pa.int64())
    assert disorder.most == 2**64 - 2


def test_disorder_of_texts_is_in_microseconds() -> None:
    disorder = Disorder()
    disorder.add(pa.chunked_array([["2024-01-01T00:00:02", "bad", None, "2024-01-01T00:00:00Z"]]), pa.string())
    assert disorder.most == 2_000_000


def test_formats_know_their_quotes() -> None:
    assert CsvRows().quote == b'"'
    assert JsonRows().quote is None


def test_a_pipe_loses_nothing_when_its_types_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"type,ts\nA,1\nB,2\n")))
    source = open_source("-", columns=COLUMNS, live=True)
    assert list(source.types()) == ["type", "ts"]
    assert [row["ts"] for row in rows_of(source)] == [1, 2]
