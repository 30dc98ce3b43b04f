"""`ensue stats`: what it prints and saves."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from ensue.cli.app import run_command
from ensue.statistics.snapshot import Statistics

LATENCY = ("--objective", "latency")
QUERIES = """
QUERY rising PATTERN SEQ(A a, B b) WHERE a.x > 0.5 AND a.x < b.x WITHIN 10s;
QUERY plain PATTERN SEQ(A a, C c) WITHIN 10s
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run_command([str(argument) for argument in ("stats", *arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def table() -> pa.Table:
    """100 s of 20 A and 10 B a second, C only in the last 10 s, 10 a second."""
    random = np.random.default_rng(0)
    kinds = np.repeat(["A", "B", "C"], [2000, 1000, 100])
    times = np.concatenate([random.integers(0, 100_000, 3000), random.integers(90_000, 100_000, 100)])
    return pa.table({"type": kinds, "ts": times, "x": random.random(3100)})


def read(path: Path) -> dict[str, Statistics]:
    return {name: Statistics.from_json(one) for name, one in json.loads(path.read_text()).items()}


def test_of_a_file_in_any_order(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pacsv.write_csv(table, tmp_path / "events.csv")
    (tmp_path / "queries.ensue").write_text(QUERIES)
    saved = tmp_path / "stats.json"
    code, out, err = run(capsys, tmp_path / "queries.ensue", "--input", tmp_path / "events.csv", "-o", saved)
    assert (code, err) == (0, "")
    assert "rising: over" in out
    assert "a, b" in out
    found = read(saved)
    assert list(found) == ["rising", "plain"]
    rising = found["rising"]
    assert rising.rate("A").value == pytest.approx(0.02, rel=0.01)
    assert rising.rate("B").value == pytest.approx(0.01, rel=0.01)
    assert rising.share("a").value == pytest.approx(0.5, abs=0.15)
    assert rising.pair("a", "b").value == pytest.approx(0.25, abs=0.1)
    assert found["plain"].rate("C").value == pytest.approx(0.001, rel=0.01)


def test_what_conditions_imply(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 10s"
    code, out, _ = run(capsys, query, "--input", tmp_path / "events.parquet", "-o", tmp_path / "stats.json")
    assert code == 0 and "share of pairs, implied" in out and "a, c" in out
    assert "all, times" not in out, "of three variables, all that there are, no plan needs to know it"
    assert read(tmp_path / "stats.json")["q1"].implied["a", "c"].value == pytest.approx(0.5, abs=0.2)


def test_several_conditions_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    names = "abcde"
    rising = " AND ".join(f"{x}.x < {y}.x" for x, y in pairwise(names))
    query = f"PATTERN SEQ(A a, B b, C c, A d, B e) WHERE {rising} WITHIN 10s"
    code, out, _ = run(capsys, query, "--input", tmp_path / "events.parquet", "-o", tmp_path / "stats.json")
    assert code == 0 and "all, times as often" in out and "a, b, d, e" not in out
    assert "6 sets of four and more" in out
    assert len(read(tmp_path / "stats.json")["q1"].together) == 16


def test_of_the_end_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    saved = tmp_path / "stats.json"
    query = "PATTERN SEQ(A a, C c) WITHIN 5s"
    code, out, _ = run(capsys, query, "-i", tmp_path / "events.parquet", "-o", saved, "--window", "10s")
    assert code == 0
    assert "over 10,000 unit of `ts`" in out
    assert read(saved)["q1"].rate("C").value == pytest.approx(0.01, rel=0.1)


def test_rates_of_timestamps_are_a_second(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    stamped = table.set_column(1, "ts", pa.array(table["ts"].to_numpy() * 1000).cast(pa.timestamp("us", "UTC")))
    pq.write_table(stamped, tmp_path / "events.parquet")
    code, out, _ = run(capsys, QUERIES, "-i", tmp_path / "events.parquet", "--query", "plain")
    assert code == 0
    assert "rising" not in out
    row = next(line for line in out.splitlines() if "events / s" in line and " A " in line)
    assert float(row.split("│")[3]) == pytest.approx(20, rel=0.02)


def test_the_same_file_gives_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    once, again, other = (
        run(capsys, QUERIES, "-i", tmp_path / "events.parquet", "--seed", seed)[1] for seed in (1, 1, 2)
    )
    assert once == again != other


def test_rejected_rows_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"type": "A", "ts": 1}\n{"type": null, "ts": 2}\n{"ty\n')
    code, _, err = run(capsys, "PATTERN A a", "-i", tmp_path / "events.jsonl")
    assert code == 0
    assert "2 rows were rejected" in err


def test_what_goes_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    events = ("-i", tmp_path / "events.parquet")
    wrong_attribute = run(capsys, "PATTERN A a WHERE a.y > 1", *events)
    assert wrong_attribute[0] == 2
    assert "unknown attribute `y`" in wrong_attribute[2]
    assert run(capsys, "PATTERN A a", "-i", tmp_path / "none.csv")[0] == 2
    assert run(capsys, "PATTERN A a")[0] == 2
    assert run(capsys, "PATTERN A a", *events, "--window", "0")[0] == 2
    code, _, err = run(capsys, "PATTERN A a", "-i", tmp_path / "empty.parquet")
    assert (code, "no event" in err) == (1, True)
    code, _, err = run(capsys, "PATTERN A a", *events, "-o", tmp_path / "no" / "where.json")
    assert (code, "choose another file" in err) == (1, True)


def test_what_was_saved_is_shown_again(capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    saved = tmp_path / "stats.json"
    _, measured, _ = run(capsys, QUERIES, "--input", tmp_path / "events.parquet", "--output", saved)
    assert run(capsys, "--saved", saved) == (0, measured, "")
    _, plain, _ = run(capsys, "--saved", saved, "--query", "plain")
    assert plain in measured and "rising" not in plain
    for wrong, hint in (
        (("--saved", saved, "--input", "x"), "leave QUERIES, --input and --output out"),
        ((QUERIES,), "--input is missing"),
        (("--input", "x"), "QUERIES is missing"),
        (("--saved", tmp_path / "events.parquet"), "does not hold statistics"),
    ):
        code, _, err = run(capsys, *wrong)
        assert code and hint in " ".join(err.replace("│", " ").split())


def test_saved_statistics_are_of_their_query(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table
) -> None:
    """Queries without a name are all called q1; what was asked of others says nothing of this one."""
    pq.write_table(table, tmp_path / "events.parquet")
    saved = tmp_path / "stats.json"
    asked = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN {}"
    assert run(capsys, asked.format("10s"), "--input", tmp_path / "events.parquet", "--output", saved)[0] == 0
    assert run_command(["explain", asked.format("20s"), "--stats", str(saved)]) == 0
    capsys.readouterr()
    for other in ("PATTERN SEQ(A a, B b) WITHIN 10s", "PATTERN SEQ(A a, B b) WHERE a.x > b.x WITHIN 10s"):
        assert run_command(["explain", other, "--stats", str(saved)]) == 1
        assert "`q1` were taken for another pattern or other conditions: " in capsys.readouterr().err
    data = json.loads(saved.read_text())
    del data["q1"]["query"]  # as before it was saved
    saved.write_text(json.dumps(data))
    assert run_command(["explain", "PATTERN SEQ(A a, B b) WITHIN 10s", "--stats", str(saved)]) == 0


def test_what_saved_statistics_do_not_go_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table
) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    saved = tmp_path / "stats.json"
    run(capsys, QUERIES, "--input", tmp_path / "events.parquet", "--output", saved)
    code, out, _ = run(capsys, "--saved", saved, "--query", "plain")
    assert code == 0 and "plain: over" in out and "rising" not in out
    code, _, err = run(capsys, "--saved", saved, "--query", "plane")
    assert code == 1 and "no statistics of query `plane`; did you mean `plain`" in err
    code, _, err = run(capsys, "--saved", saved, "--window", "10m")
    assert code == 2 and "--window cannot be given with --saved, which measures nothing" in err
    code, _, err = run(capsys, "--saved", tmp_path / "events.parquet")
    assert code == 1 and "--output FILE" in err, "not over the events"


def test_rules_have_no_statistics(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = "EVENT a(id: int); RULE b(id) <- e: a(id)"
    code, _, err = run(capsys, rules, "--input", tmp_path / "any.csv")
    assert code == 2 and "ensue explain" in err


def test_windows_of_events_are_explained_as_they_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, table: pa.Table
) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    for within, is_planned in (("10s", True), ("500 EVENTS", False)):
        query = f"PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN {within}"
        assert run_command(["explain", query, "--input", str(tmp_path / "events.parquet")]) == 0
        assert ("planned anew" in capsys.readouterr().out) == is_planned


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["explain", "PATTERN A WITHIN 1s", "--planner", "bushy"], "give --input or --stats too"),
        (["run", "PATTERN A WITHIN 1s", "-i", "x.csv", "--backend", "local", "--planner", "bushy"], "give --adapt too"),
        (["run", "PATTERN A WITHIN 1s", "-i", "x.csv", "--adapt", "static", "--journal", "-"], "give it a name"),
        (["run", "PATTERN A WITHIN 1s", "-i", "x.csv", *LATENCY, "--planner", "bushy"], "--planner is for throughput"),
        (
            ["explain", "PATTERN A WITHIN 1s", "-i", "x.csv", *LATENCY, "--planner", "rate"],
            "--planner is for throughput",
        ),
        (["stats", "--saved", "x.json", "--seed", "3"], "--seed cannot be given with --saved"),
        (["stats", "--saved", "x.json", "--time-column", "t"], "--time-column cannot be given with --saved"),
    ],
)
def test_options_that_would_do_nothing(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    assert run_command(arguments) == 2
    assert told in capsys.readouterr().err
