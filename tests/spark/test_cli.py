"""`ensue run` on Spark from the command line: the same objects as in process, options, messages, a real signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import ensue
from ensue.cli.app import run_command
from ensue.cli.progress import describe, make_display
from ensue.spark.following import MicroBatch
from ensue.spark.generator import Generator
from ensue.spark.settings import FileSink

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 100"
ROWS = [
    {"type": "A", "ts": 1, "x": 3},
    {"type": "C", "ts": 2, "x": 0},
    {"type": "B", "ts": 5, "x": 4},
    {"type": "A", "ts": 7, "x": 9},
    {"type": "B", "ts": 9, "x": 10},
]


class Shell:
    """Runs commands in this process, on the session of the tests."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        code = run_command([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def save(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("type,ts,x\n" + "".join(f"{r['type']},{r['ts']},{r['x']}\n" for r in rows))
    return path


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: str(one["match_id"]))


# -- without Spark: what is refused before it starts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "-", "--backend", "spark"], "Spark cannot read standard input"),
        (["-i", "e.csv", "--late", "x"], "--aside PATH"),
        (["-i", "e.csv", "--batch-size", "5"], "it is of --backend local"),
        (["-i", "e.csv", "--backend", "local", "--stream"], "--stream cannot be given with --backend local"),
        (["-i", "e.csv", "--lateness", "5s"], "--lateness is of streams"),
        (["-i", "e.csv", "--stream"], "--checkpoint FOLDER"),
        (["-i", "e.csv", "--trigger", "5s"], "add --stream"),
        (["-i", "e.csv", "--stream", "--checkpoint", "c", "--trigger", "often"], "'often'"),
        (["-i", "e.csv", "--format", "parquet"], "give --output PATH"),
        (["-i", "e.csv", "--conf", "x"], "NAME=VALUE"),
        (["-i", "nowhere.csv2"], "no such file"),
        (["-i", "."], "--input-format"),
        (["-i", "e.csv", "--backend", "local", "--format", "table"], "--format table is Spark's"),
        ([], "--input"),
    ],
)
def test_wrong_use(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = shell("run", SEQUENCE, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_what_is_asked_of_plans(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("ensue.cli.run_spark.run_pipeline", lambda pipeline, *_: made.append(pipeline))
    source, journal = save(tmp_path / "e.csv"), tmp_path / "plans.jsonl"
    for more in ([], ["--adapt"], ["--adapt", "threshold", "--planner", "order", "--journal", journal]):
        assert shell("run", SEQUENCE, "-i", source, *more) == (0, "", "")
    assert [pipeline.detection.adapt for pipeline in made] == [
        None,
        ensue.Adaptation(),
        ensue.Adaptation(decision="threshold", planner="order"),
    ]
    assert [pipeline.journal for pipeline in made] == [None, None, FileSink("json", str(journal), single_file=True)]
    code, _, err = shell("run", SEQUENCE, "-i", source, "--journal", journal)
    assert code == 2
    assert "give --adapt too" in err


def test_a_wrong_pipeline_file(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('queries = "PATTERN SEQ(A a, B b"\n')
    code, _, err = shell("run", path)
    assert code == 2
    assert "p.toml" in err
    assert "^" in err
    path.write_text(f'queries = "{SEQUENCE}"\n[sauce]\n')
    code, _, err = shell("run", path)
    assert code == 2
    assert "[source] is missing" in err
    assert shell("run", path, "--strict")[0] == 2
    assert shell("run", path, "--backend", "local")[0] == 2
    assert shell("run", tmp_path / "nowhere.toml")[0] == 2


def test_how_a_micro_batch_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    batch = MicroBatch(3, 1000, 2, 1, 5, 0.5, "2024-01-01T00:00:00.000Z", 4, 1_500_000)
    line = describe(batch)
    for part in ("micro-batch 3: 1,000 events", "2,000 events/s", "5 matches", "2 late", "1 rejected", "1.5 MB"):
        assert part in line
    assert "plans" not in line
    assert describe(replace(batch, planned=3, replaced=2)).endswith("2 plans replaced")
    for quiet, asked, terminal, told in ((True, True, True, ""), (False, False, False, line), (False, True, False, "")):
        with make_display(quiet, asked, terminal) as report:
            report(batch)
        assert told in capsys.readouterr().err


# -- on Spark --------------------------------------------------------------------------------------------------------


def test_objects_as_in_process(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell("run", SEQUENCE, "-i", save(tmp_path / "e.csv"))
    assert code == 0
    assert by_id([json.loads(line) for line in out.splitlines()]) == by_id(ensue.run(ROWS, SEQUENCE).to_pylist())
    assert "5 events in: 5 processed, 0 late, 0 rejected (1 of types that no query names)" in err
    assert "3 matches" in err


def test_files_and_aside(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    path = save(tmp_path / "in" / "e.csv")
    with path.open("a") as file:
        file.write("B,9,many\n")
    out, aside = tmp_path / "deep" / "m.parquet", tmp_path / "aside.jsonl"
    code, _, err = shell("run", SEQUENCE, "-i", path.parent, "-o", out, "--aside", aside)
    assert code == 0
    assert "6 events in: 5 processed, 0 late, 1 rejected" in err
    assert pq.read_table(out).num_rows == 3
    (rejected,) = [json.loads(line) for line in aside.read_text().splitlines()]
    assert rejected["kind"] == "rejected"
    assert "B,9,many" in rejected["reason"]
    code, _, err = shell("run", SEQUENCE, "-i", path.parent, "-o", out, "--strict")
    assert code == 1
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_wrong_query_points_to_its_place(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "q.ensue"
    file.write_text("PATTERN SEQ(A a, B b)\nWHERE a.y < b.x WITHIN 10")
    code, _, err = shell("run", file, "-i", save(tmp_path / "e.csv"))
    assert code == 2
    assert f"{file}: line 2, column 7" in err


def test_a_stream_twice(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    save(tmp_path / "in" / "e.csv")
    arguments = ["-i", tmp_path / "in", "-o", tmp_path / "out", "--checkpoint", tmp_path / "state"]
    arguments = ["run", SEQUENCE, *arguments, "--stream", "--trigger", "available-now"]
    code, out, err = shell(*arguments)
    assert (code, out) == (0, "")
    assert "micro-batch 0: 5 events" in err
    assert "5 events in: 5 processed or held, 0 late, 0 rejected" in err
    code, _, err = shell(*arguments, "-q")
    assert (code, err) == (0, "")
    assert len(list((tmp_path / "out").glob("batch=*/part-*.json"))) == 1
    code, _, err = shell(*[str(a).replace("WITHIN 100", "WITHIN 99") for a in arguments])
    assert code == 1
    assert "has changed" in err

    more = [{"type": "AB"[n * n % 7 % 2], "ts": 10 + n * 10, "x": n * 37 % 11} for n in range(2_500)]
    save(tmp_path / "in" / "more.csv", more)
    (tmp_path / "p.toml").write_text(f"""
        queries = "{SEQUENCE}"
        source = {{ format = "csv", path = "in" }}
        sink = {{ format = "json", path = "out" }}
        stream = {{ checkpoint = "state", trigger = "available-now" }}
        detect.adapt.every = 500
        journal = {{ format = "json", path = "plans" }}
    """)
    code, _, err = shell("run", tmp_path / "p.toml")
    assert code == 0
    files = (tmp_path / "plans").glob("batch=*/part-*.json")
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    replaced = sum(entry["method"] is not None for entry in entries)
    assert f"plans made anew: {len(entries)}, of which {replaced} took over" in err
    assert entries[0]["reason"] == "no plan has been made from statistics yet"
    assert entries[0].keys() >= {"bucket", "query", "at", "old", "new", "statistics"}
    found = ds.dataset(tmp_path / "out", format="json").to_table()["match_id"].to_pylist()
    assert sorted(found) == sorted(match["match_id"] for match in ensue.run(ROWS + more, SEQUENCE))


@pytest.mark.slow
def test_a_stop_by_signal_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """A stream is stopped by a signal in its midst, and then left to end: each match is there once."""
    rows, query = 20_000, "PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.diff < b.diff WITHIN 1 minute"
    (tmp_path / "p.toml").write_text(f"""
        queries = "{query}"
        [source]
        format = "generator"
        options = {{ rows = {rows}, maxRowsPerBatch = 2000, seed = 5 }}
        [sink]
        format = "parquet"
        path = "out"
        [stream]
        checkpoint = "state"
        [spark]
        master = "local[2]"
        config = {{ "spark.driver.memory" = "1g" }}
    """)
    process = subprocess.Popen(
        [sys.executable, "-m", "ensue", "run", str(tmp_path / "p.toml")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    seen = []
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            seen.append(line)
            if line.startswith("micro-batch"):
                os.kill(process.pid, signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 0, "".join(seen) + rest
    assert "stopped after" in rest, rest
    assert "Traceback" not in rest
    text = (tmp_path / "p.toml").read_text().replace("[stream]", '[stream]\ntrigger = "available-now"')
    (tmp_path / "p.toml").write_text(text)
    subprocess.run([sys.executable, "-m", "ensue", "run", str(tmp_path / "p.toml"), "-q"], check=True)
    found = ds.dataset(tmp_path / "out", exclude_invalid_files=True).to_table()["match_id"].to_pylist()

    events = pa.Table.from_batches(Generator(seed=5).read(0, rows))
    assert sorted(found) == sorted(match["match_id"] for match in ensue.run(events, query))
    assert len(found) > 200
