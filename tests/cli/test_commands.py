"""`check`, `fmt`, `generate` and the group itself: what they print and the exit codes they leave with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from ensue.cli.app import COMMANDS
from ensue.cli.quantities import read_lateness, read_size
from ensue.language import parse
from ensue.pattern.expressions import Duration
from ensue.pattern.numbers import numeric_columns

from .conftest import Shell

GOOD = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s"


# -- the group -------------------------------------------------------------------------------------------------------


def test_help_lists_the_commands(shell: Shell) -> None:
    code, out, _ = shell("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_examples(shell: Shell, name: str) -> None:
    code, out, _ = shell(name, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"ensue {name}" in out


def test_unknown_commands_and_options_are_usage_errors(shell: Shell) -> None:
    assert shell("runn")[0] == 2
    assert shell("check", "--nope", GOOD)[0] == 2
    assert shell("check")[0] == 2


def test_version() -> None:
    done = subprocess.run([sys.executable, "-m", "ensue", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("ensue")


# -- check -----------------------------------------------------------------------------------------------------------


def test_check_says_what_is_right(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "two.ensue"
    file.write_text(f"QUERY first {GOOD};\n{GOOD};\n")
    assert shell("check", file) == (0, f"{file}: 2 queries right (first, q2)\n", "")
    assert shell("check", GOOD)[0] == 0
    assert shell("check", "-", stdin=GOOD)[0] == 0
    assert shell("check", "-q", file) == (0, "", "")


def test_check_shows_line_column_and_caret(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bad.ensue"
    file.write_text("PATTERN SEQ(A a, B b)\nWHERE a.x < c.x\n")
    code, out, err = shell("check", file)
    assert (code, out) == (2, "")
    assert f"error: {file}: line 2, column 13: unknown variable `c`" in err
    assert "  WHERE a.x < c.x\n" + " " * 14 + "^" in err
    assert "Traceback" not in err


def test_check_shows_the_fault_of_every_query(shell: Shell) -> None:
    code, _, err = shell("check", "PATTERN SEQ(A a) WHERE b.x = 1; PATTERN SEQ(A a) WHERE c.x = 1; " + GOOD)
    assert code == 2
    assert "`b`" in err
    assert "`c`" in err


def test_check_of_what_is_neither_file_nor_query(shell: Shell) -> None:
    code, _, err = shell("check", "nowhere.ensue")
    assert code == 2
    assert "no file 'nowhere.ensue'" in err


def test_a_query_longer_than_a_file_name(shell: Shell) -> None:
    assert shell("check", "PATTERN SEQ(A a, B b) WHERE " + " AND ".join(["a.x < b.x"] * 500))[0] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("columns.json", '{"type": "string", "ts": "int64", "x": "float64"}'),
        ("columns.toml", 'type = "string"\nts = "int"\nx = "double"\n'),
        ("data.csv", "type,ts,x\nA,1,2.5\n"),
        ("data.jsonl", '{"type": "A", "ts": 1, "x": 2.5}\n'),
    ],
)
def test_check_against_a_schema(shell: Shell, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert shell("check", GOOD, "--schema", tmp_path / name)[0] == 0
    code, _, err = shell("check", "PATTERN SEQ(A a, B b) WHERE a.z < b.x WITHIN 10s", "--schema", tmp_path / name)
    assert code == 2
    assert "`z`" in err


def test_check_against_a_parquet_file(shell: Shell, tmp_path: Path) -> None:
    pq.write_table(pa.table({"type": ["A"], "time": [1], "x": ["text"]}), tmp_path / "d.parquet")
    query = "PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 10s"
    code, _, err = shell("check", query, "--schema", tmp_path / "d.parquet", "--time-column", "time")
    assert code == 2
    assert "cannot be compared" in err


@pytest.mark.parametrize("text", ["[1]", "{", '{"x": "complex"}', "{}"])
def test_a_schema_that_is_none(shell: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    code, _, err = shell("check", GOOD, "--schema", tmp_path / "s.json")
    assert code == 2
    assert "s.json" in err


# -- fmt -------------------------------------------------------------------------------------------------------------


def test_fmt_rewrites_in_place_and_is_then_content(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "q.ensue"
    file.write_text("-- rising\npattern seq(A a,B b) within 10 seconds")
    assert shell("fmt", "--check", file)[0] == 1
    assert "within 10 seconds" in file.read_text()
    code, out, _ = shell("fmt", "--diff", file)
    assert (code, "-pattern seq(A a,B b)" in out, "+WITHIN 10s" in out) == (0, True, True)
    assert shell("fmt", file)[0] == 0
    assert file.read_text() == "-- rising\nPATTERN SEQ(A a, B b)\nWITHIN 10s\n"
    assert shell("fmt", "--check", file) == (0, "", "")


def test_fmt_of_standard_input(shell: Shell) -> None:
    assert shell("fmt", "-", stdin="pattern A a") == (0, "PATTERN A a\n", "")


def test_fmt_leaves_a_wrong_file_alone(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "q.ensue"
    file.write_text("PATTERN SEQ(A a,")
    code, _, err = shell("fmt", file)
    assert (code, f"{file}: line 1" in err, file.read_text()) == (2, True, "PATTERN SEQ(A a,")


# -- generate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stock", "traffic", "uniform"])
def test_generate_in_every_format(shell: Shell, tmp_path: Path, kind: str) -> None:
    def rows(name: str, read: Any) -> Any:
        assert shell("generate", kind, 50, "--output", tmp_path / name, "--seed", 3)[0] == 0
        return read(tmp_path / name)

    parquet = rows("e.parquet", pq.read_table)
    csv = rows("e.csv", pacsv.read_csv)
    lines = rows("e.jsonl", lambda path: [json.loads(line) for line in path.read_text().splitlines()])
    assert parquet.num_rows == csv.num_rows == len(lines) == 50
    assert parquet.column_names == csv.column_names == list(lines[0])
    assert [str(v) for v in parquet["type"].to_pylist()] == [line["type"] for line in lines]


def test_generate_is_the_same_for_the_same_seed(shell: Shell) -> None:
    assert shell("generate", "stock", 20, "--seed", 1) == shell("generate", "stock", 20, "--seed", 1)
    assert shell("generate", "stock", 20, "--seed", 1) != shell("generate", "stock", 20, "--seed", 2)


# -- small parts -----------------------------------------------------------------------------------------------------


def test_sizes_and_lateness() -> None:
    assert [read_size(text) for text in ("10", "1kB", "2GB", "1.5GiB")] == [10, 1000, 2 * 10**9, 3 * 2**29]
    assert [read_lateness(text) for text in ("0", "5 minutes", "1.5s")] == [0, Duration(5, "m"), Duration(1.5, "s")]


def test_columns_that_queries_take_for_numbers() -> None:
    text = """PATTERN SEQ(A a, B+ b[], C c)
    WHERE a.p < c.p AND a.k = c.k AND c.name = 'x' AND a.n = 3 AND b.q + 1 = a.r AND abs(c.s) = c.t
      AND c.u BETWEEN 1 AND 5 AND SUM(b.v) > 1 AND a.day > '2024-01-01'
    RETURN a.w * 2"""
    assert sorted(numeric_columns(parse(text))) == ["n", "p", "q", "s", "u", "v", "w"]
