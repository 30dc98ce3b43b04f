"""AGG on the command line: rows out, a summary that speaks of rows, and the greatest groups, live or plain."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ensue.cli.top_groups import TopGroups
from ensue.language import parse_query

from .conftest import Shell

COUNTED = "QUERY each PATTERN SEQ(A a, B b) WITHIN 100 AGG COUNT(*), MAX(a.x) AS most GROUP BY k"
ROWS = [{"type": "AB"[n % 2], "ts": n, "x": n, "k": "uvw"[n % 7 % 3]} for n in range(60)]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_rows_and_the_greatest_groups(shell: Shell, events: Path) -> None:
    code, out, err = shell("run", COUNTED, "-i", events, "--backend", "local", "--top", 2, "--batch-size", 7)
    assert code == 0
    last: dict[str, tuple[int, int]] = {}
    for row in map(json.loads, out.splitlines()):
        last[row["k"]] = (row["count"], row["most"])
    best = sorted(last.items(), key=lambda pair: -pair[1][0])
    lines = err.splitlines()
    assert lines[0] == "each: the greatest of 3 groups"
    assert lines[1:3] == [f"  k={k} count={count} most={most}" for k, (count, most) in best[:2]]
    assert lines[-1].startswith(f"{len(out.splitlines()):,} rows in ")


@pytest.mark.parametrize("terminal", [False, True])
def test_live_shows_the_greatest_groups(
    shell: Shell, events: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    code, out, err = shell("live", COUNTED, "-i", events, "--top", 2)
    assert code == 0
    last = {row["k"]: row["count"] for row in map(json.loads, out.splitlines())}
    best = sorted(last, key=lambda k: -last[k])[:2]
    assert "each: the greatest" in err
    if not terminal:
        assert [line.split()[0] for line in err.splitlines()[1:3]] == [f"k={k}" for k in best]


def test_the_summary_names_what_there_is(shell: Shell, events: Path) -> None:
    both = f"{COUNTED}; QUERY plain PATTERN SEQ(A a, B b) WITHIN 3"
    code, out, err = shell("run", both, "-i", events, "--backend", "local")
    assert code == 0 and f"{len(out.splitlines()):,} matches and rows in " in err
    assert "groups" not in err
    code, _, err = shell("run", COUNTED, "-i", events, "--top", 2)
    assert code == 2 and "--top cannot be given on Spark" in err


def test_explain_with_events_shows_how_they_are_counted(shell: Shell, events: Path) -> None:
    both = f"{COUNTED}; QUERY other PATTERN SEQ(A a, B b) WITHIN 5 AGG COUNT(*) GROUP BY k"
    code, out, _ = shell("explain", both, "--input", events)
    assert code == 0 and out.count("matches are not built but counted") == 2
    assert "expected cost" not in out
    code, out, _ = shell("explain", f"{both}; QUERY third {both.split('other ')[1]}", "--input", events)
    assert "counted together with third: 3 counters in place of 6" in out


def test_a_live_table_on_a_terminal(shell: Shell, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, _, err = shell(
        "run", COUNTED, "-i", events, "--backend", "local", "--top", 3, "-o", events.with_suffix(".csv")
    )
    assert code == 0
    assert "each: the greatest" in err and "of 3 groups" in err and "│" in err


def test_groups_without_a_number_come_last() -> None:
    top = TopGroups(3, [parse_query("QUERY q PATTERN SEQ(A a, B b) WITHIN 9 AGG SUM(a.x) GROUP BY k")])
    top._rows["q"] = {("u",): [None], ("v",): [3], ("w",): [7]}
    assert top.greatest("q") == [("w", 7), ("v", 3), ("u", None)]
