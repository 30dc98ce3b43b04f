"""`ensue run`: files in, matches out, whatever the format and the order; and what it does when things go wrong."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.cli import run_local
from ensue.runtime.cadence import Cadence

from .conftest import Shell

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 100"
ROWS = [
    {"type": "A", "ts": 1, "x": 3},
    {"type": "C", "ts": 2, "x": 0},
    {"type": "B", "ts": 5, "x": 4},
    {"type": "A", "ts": 7, "x": 9},
    {"type": "B", "ts": 8, "x": 2},
    {"type": "B", "ts": 9, "x": 10},
]
PAIRS = [(1, 5), (1, 9), (7, 9)]
PYTHON = [sys.executable, "-m", "ensue"]


def to_csv(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = [",".join("" if row.get(n) is None else str(row[n]) for n in names) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"


def to_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    data = (to_csv(rows) if name.endswith(".csv") else to_jsonl(rows)).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def pairs(out: str) -> list[tuple[Any, Any]]:
    matches = [json.loads(line) for line in out.splitlines()]
    return sorted((m["events"]["a"]["ts"], m["events"]["b"]["ts"]) for m in matches)


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl", "e.parquet", "e.csv.gz", "e.jsonl.gz"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_format_in_any_order(shell: Shell, tmp_path: Path, name: str, shuffled: bool) -> None:
    rows = list(ROWS)
    if shuffled:
        random.Random(3).shuffle(rows)
    code, out, err = shell(
        "run", "--backend", "local", SEQUENCE, "--input", save(tmp_path / name, rows), "--batch-size", 2
    )
    assert code == 0
    assert pairs(out) == PAIRS
    assert "6 events in: 6 processed, 0 late, 0 rejected (1 of types that no query names)" in err
    assert "3 matches" in err


def test_the_answer_is_that_of_the_api(shell: Shell, tmp_path: Path) -> None:
    _, out, _ = shell("run", "--backend", "local", SEQUENCE, "--input", save(tmp_path / "e.jsonl", ROWS), "-q")
    key = lambda match: match["match_id"]  # noqa: E731
    found = sorted(map(json.loads, out.splitlines()), key=key)
    assert found == sorted(ensue.run(ROWS, SEQUENCE).to_pylist(), key=key)


def test_standard_input_and_quiet(shell: Shell) -> None:
    for text in (to_csv(ROWS), to_jsonl(ROWS)):
        code, out, err = shell("run", "--backend", "local", SEQUENCE, "--input", "-", "--quiet", stdin=text)
        assert (code, pairs(out), err) == (0, PAIRS, "")


def test_a_query_without_a_window_over_a_file(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell(
        "run", "--backend", "local", "PATTERN SEQ(A a, B b) WHERE a.x < b.x", "-i", save(tmp_path / "e.csv", ROWS)
    )
    assert (code, pairs(out)) == (0, PAIRS)


def test_a_query_without_a_window_on_a_stream_is_an_error(shell: Shell, tmp_path: Path) -> None:
    path = save(tmp_path / "e.csv", ROWS)
    code, out, err = shell("run", "--backend", "local", "PATTERN SEQ(A a, B b)", "-i", path, "--lateness", "10")
    assert (code, out) == (2, "")
    assert "UNBOUNDED" in err


# -- output ----------------------------------------------------------------------------------------------------------


def test_csv_output_is_flat(shell: Shell, tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B+ b[]) WHERE a.x < b.x AND a.x < 5 WITHIN 6"
    code, out, _ = shell("run", "--backend", "local", query, "-i", save(tmp_path / "e.csv", ROWS), "--format", "csv")
    assert code == 0
    (tmp_path / "out.csv").write_text(out)
    (row,) = pacsv.read_csv(tmp_path / "out.csv").to_pylist()
    assert (row["query"], row["a.type"], row["a.ts"], row["a.x"]) == ("q1", "A", 1, 3)
    assert json.loads(row["b"]) == [{"type": "B", "ts": 5, "x": 4}]


def test_parquet_output_keeps_structs(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.parquet"
    code, printed, _ = shell(
        "run", "--backend", "local", SEQUENCE, "-i", save(tmp_path / "e.csv", ROWS), "-o", out, "--batch-size", 1
    )
    assert (code, printed) == (0, "")
    table = pq.read_table(out)
    assert sorted((row["a"]["ts"], row["b"]["ts"]) for row in table.to_pylist()) == PAIRS
    assert table.column_names[:5] == ["match_id", "query", "begin", "end", "detected_at"]


@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonl"])
def test_no_matches_still_give_a_file(shell: Shell, tmp_path: Path, format_: str) -> None:
    out = tmp_path / f"out.{format_}"
    query = "PATTERN SEQ(A a, B b) WHERE a.x > 1000 WITHIN 10"
    assert shell("run", "--backend", "local", query, "-i", save(tmp_path / "e.csv", ROWS), "-o", out)[0] == 0
    read = {"csv": pacsv.read_csv, "parquet": pq.read_table, "jsonl": lambda path: path.read_text()}[format_]
    table = read(out)
    assert table == "" if format_ == "jsonl" else table.num_rows == 0 and "match_id" in table.column_names


@pytest.mark.parametrize("format_", ["csv", "parquet", "jsonl"])
def test_several_queries(shell: Shell, tmp_path: Path, format_: str) -> None:
    file = tmp_path / "q.ensue"
    file.write_text(f"QUERY late PATTERN B b WHERE b.ts > 8 RETURN b.x AS big;\n{SEQUENCE};\nPATTERN C c WITHIN 5;")
    events = save(tmp_path / "e.csv", ROWS)
    out = tmp_path / f"out.{format_}"
    assert shell("run", "--backend", "local", file, "-i", events, "-o", out, "--batch-size", 1)[0] == 0
    if format_ == "jsonl":
        names = [json.loads(line)["query"] for line in out.read_text().splitlines()]
    else:
        table = (pacsv.read_csv if format_ == "csv" else pq.read_table)(out)
        names = table["query"].to_pylist()
        assert [row["big"] for row in table.to_pylist() if row["query"] == "late"] == [10]
    assert sorted(names) == ["late", "q2", "q2", "q2", "q3"]
    _, printed, _ = shell("run", "--backend", "local", file, "-i", events, "--query", "q3")
    assert [json.loads(line)["query"] for line in printed.splitlines()] == ["q3"]


def test_a_query_name_that_is_not_there(shell: Shell, tmp_path: Path) -> None:
    code, _, err = shell(
        "run",
        "--backend",
        "local",
        "QUERY rising " + SEQUENCE,
        "-i",
        save(tmp_path / "e.csv", ROWS),
        "--query",
        "risng",
    )
    assert code == 2
    assert "did you mean 'rising'?" in err


# -- columns and time ------------------------------------------------------------------------------------------------


def test_other_columns_and_units(shell: Shell, tmp_path: Path) -> None:
    rows = [{"kind": r["type"], "at": r["ts"], "from": r["ts"], "x": r["x"]} for r in ROWS]
    path = save(tmp_path / "e.csv", rows)
    names = ["--type-column", "kind", "--time-column", "at", "--begin-column", "from", "--time-unit", "s"]
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5s"
    code, out, _ = shell("run", "--backend", "local", query, "-i", path, *names)
    assert code == 0
    matches = [json.loads(line)["events"] for line in out.splitlines()]
    assert sorted((m["a"]["at"], m["b"]["at"]) for m in matches) == [(1, 5), (7, 9)]


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl"])
def test_times_as_text(shell: Shell, tmp_path: Path, name: str) -> None:
    rows = [{**row, "ts": f"2024-05-01T10:00:0{row['ts']}Z"} for row in reversed(ROWS)]
    code, out, _ = shell(
        "run",
        "--backend",
        "local",
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5s",
        "-i",
        save(tmp_path / name, rows),
    )
    assert code == 0
    assert [(a[17:19], b[17:19]) for a, b in pairs(out)] == [("01", "05"), ("07", "09")]


def test_a_missing_column_is_an_error(shell: Shell, tmp_path: Path) -> None:
    path = save(tmp_path / "e.csv", [{"typ": "A", "ts": 1}])
    code, _, err = shell("run", "--backend", "local", "PATTERN A a WITHIN 5", "-i", path)
    assert code == 1
    assert "`type`" in err
    assert "Traceback" not in err


def test_a_schema_settles_types(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"x": "string"}')
    path = save(tmp_path / "e.csv", ROWS)
    code, out, _ = shell("run", "--backend", "local", SEQUENCE, "-i", path, "--schema", tmp_path / "s.json")
    assert code == 0
    assert pairs(out) == [(1, 5)]  # as texts, '10' is before '3' and '9'


# -- late and bad input ----------------------------------------------------------------------------------------------


def test_rejected_rows(shell: Shell, tmp_path: Path) -> None:
    text = "type,ts,x\nA,1,3\nB,5,4\nA,,1\n,6,1\nB,soon,1\nB,7,many\nB,8\nB,9,5\n"
    path = tmp_path / "e.csv"
    path.write_text(text)
    rejects = tmp_path / "rejects.jsonl"
    code, out, err = shell("run", "--backend", "local", SEQUENCE, "-i", path, "--rejects", rejects)
    assert code == 0
    assert pairs(out) == [(1, 5), (1, 9)]
    assert "8 events in: 3 processed, 0 late, 5 rejected" in err
    found = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert len(found) == 5
    assert sorted("values" in row["reason"] for row in found) == [False] * 4 + [True]
    assert any(row["row"] == "B,8" for row in found)
    assert any("many" in row["reason"] for row in found)
    code, out, err = shell("run", "--backend", "local", SEQUENCE, "-i", path, "--strict")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


def test_rejected_rows_as_a_table(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"type": "A", "ts": 1, "x": 1}\nnonsense\n{"type": "A", "ts": null, "x": 2}\n')
    rejects = tmp_path / "rejects.csv"
    assert shell("run", "--backend", "local", SEQUENCE, "-i", path, "--rejects", rejects)[0] == 0
    table = pacsv.read_csv(rejects)
    assert table.column_names == ["reason", "row"]
    assert table["row"].to_pylist()[0] == "nonsense"
    assert json.loads(table["row"].to_pylist()[1]) == {"type": "A", "ts": None, "x": 2}


def test_late_events(shell: Shell, tmp_path: Path) -> None:
    rows = [ROWS[0], ROWS[3], ROWS[2], *ROWS[4:]]  # ts 5 comes after ts 7
    path, late = save(tmp_path / "e.csv", rows), tmp_path / "late.jsonl"
    code, out, err = shell("run", "--backend", "local", SEQUENCE, "-i", path, "--lateness", "1", "--late", late)
    assert code == 0
    assert pairs(out) == [(1, 9), (7, 9)]
    assert "5 events in: 4 processed, 1 late, 0 rejected" in err
    (event,) = [json.loads(line) for line in late.read_text().splitlines()]
    assert (event["ts"], "watermark" in event["reason"]) == (5, True)
    assert pairs(shell("run", "--backend", "local", SEQUENCE, "-i", path, "--lateness", "2ms")[1]) == PAIRS


def test_limits(shell: Shell, tmp_path: Path) -> None:
    path = save(tmp_path / "e.csv", ROWS)
    code, _, err = shell("run", "--backend", "local", SEQUENCE, "-i", path, "--max-matches", 2)
    assert code == 1
    assert "2" in err
    assert "Traceback" not in err


# -- wrong use -------------------------------------------------------------------------------------------------------


def test_a_wrong_query_leaves_an_older_result_alone(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("older")
    path = save(tmp_path / "e.csv", ROWS)
    code, _, err = shell(
        "run", "--backend", "local", "PATTERN SEQ(A a, B b) WHERE a.y < b.x WITHIN 10", "-i", path, "-o", out
    )
    assert code == 2
    assert "line 1, column 29" in err
    assert "^^^" in err
    assert out.read_text() == "older"


@pytest.mark.parametrize("options", [["--lateness", "soon"], ["--memory", "much"], ["--batch-size", "0"]])
def test_amounts_that_are_none(shell: Shell, tmp_path: Path, options: list[str]) -> None:
    assert shell("run", "--backend", "local", SEQUENCE, "-i", save(tmp_path / "e.csv", ROWS), *options)[0] == 2


def test_an_input_that_is_not_there(shell: Shell) -> None:
    code, _, err = shell("run", "--backend", "local", SEQUENCE, "-i", "nowhere.csv")
    assert code == 2
    assert "no such file: nowhere.csv" in err


def test_an_output_that_cannot_be_written(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = shell(
        "run",
        "--backend",
        "local",
        SEQUENCE,
        "-i",
        save(tmp_path / "e.csv", ROWS),
        "-o",
        tmp_path / "file" / "out.jsonl",
    )
    assert code == 1
    assert "cannot write" in err


# -- explain and demo ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["text", "mermaid", "json"])
def test_explain(shell: Shell, format_: str) -> None:
    code, out, _ = shell("explain", SEQUENCE, "--format", format_)
    assert code == 0
    assert out.strip()
    if format_ == "json":
        json.loads(out)


def test_explain_of_a_wrong_query(shell: Shell) -> None:
    assert shell("explain", "PATTERN SEQ(A a, B b) WHERE c.x = 1")[0] == 2


def test_demo(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("demo", "--backend", "local", "--folder", tmp_path)
    assert code == 0
    (place,) = tmp_path.iterdir()
    assert sorted(path.name for path in place.iterdir()) == [
        "lonely.jsonl",
        "queries.ensue",
        "rising.jsonl",
        "slide.jsonl",
        "trades.parquet",
    ]
    for name in ("rising", "lonely", "slide"):
        assert f"{name}: " in out
        assert (place / f"{name}.jsonl").read_text().count("\n") > 0


# -- as a process ----------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    rows = [{"type": "A", "ts": i, "x": 1} for i in range(20000)]
    path = save(tmp_path / "e.csv", rows)
    command = f"'{sys.executable}' -m ensue run --backend local 'PATTERN A a WITHIN 5' -i '{path}' -q | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_live_pipe_gives_matches_as_they_come(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PYTHON, "run", SEQUENCE, "-i", "-", "--lateness", "0", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(to_jsonl(ROWS[:3]).encode())
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # comes while the input is still open
        assert first["events"]["b"]["ts"] == 5
        process.stdin.write(to_jsonl(ROWS[3:]).encode())
        process.stdin.close()
        rest = process.stdout.read().decode()
        assert process.wait(300) == 0
    assert sorted([(1, 5), *pairs(rest)]) == PAIRS


def test_an_interrupt_gives_130() -> None:
    process = subprocess.Popen(
        [*PYTHON, "run", SEQUENCE, "-i", "-", "--lateness", "0", "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(to_jsonl(ROWS[:3]).encode())
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 130
    assert b"Traceback" not in err


# -- what was decided about plans ------------------------------------------------------------------------------------
def test_the_journal_is_written_as_the_stream_goes(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, journal = save(tmp_path / "e.csv", [{**ROWS[k % 6], "ts": k} for k in range(600)]), tmp_path / "plans.jsonl"
    monkeypatch.setattr(Cadence, "is_far", lambda *_: False)  # a check after each batch
    monkeypatch.setattr(Cadence, "is_due", lambda *_, **__: True)
    written: list[int] = []
    write = run_local.write_matches

    def watch(*arguments: Any) -> None:
        written.append(journal.stat().st_size)
        write(*arguments)

    monkeypatch.setattr(run_local, "write_matches", watch)
    more = ("--batch-size", 100, "-o", tmp_path / "m.jsonl")
    assert shell("run", "--backend", "local", SEQUENCE, "-i", source, "--adapt", "--journal", journal, *more)[0] == 0
    first, *_ = [json.loads(line) for line in journal.read_text().splitlines()]
    assert "no plan has been made" in first["reason"]
    assert written[0] == 0 < written[-1]


def test_a_journal_that_cannot_be_written_is_told_first(shell: Shell, tmp_path: Path) -> None:
    source = save(tmp_path / "e.csv", ROWS)
    path = tmp_path / "nowhere" / "plans.jsonl"
    code, out, err = shell("run", "--backend", "local", SEQUENCE, "-i", source, "--adapt", "--journal", path)
    assert (code, out) == (1, "")
    assert "choose another file with --journal" in err
