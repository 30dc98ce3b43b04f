"""Rules on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Shell

TEXT = """
EVENT order(id: int, quantity: int);
EVENT shipped(id: int);
RULE comp(id) <- o: order(id, _), s: shipped(id), o BEFORE s;
RULE overdue(id) <- o: order(id, q), w: EXTEND(o, 6), WHILE w: NOT shipped(id), q < 10;
QUERY pair PATTERN SEQ(comp a, overdue b) RETURN a.id, b.id;
"""
EVENTS = "type,ts,id,quantity\norder,1,1,2\nshipped,3,1,\norder,4,2,3\norder,5,3,30\n"


def test_check_and_fmt(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "rules.ensue"
    file.write_text(TEXT)
    assert shell("check", str(file)) == (0, f"{file}: 2 rules right (comp, overdue), 1 query right (pair)\n", "")
    assert shell("fmt", str(file))[0] == 0
    assert file.read_text().startswith("EVENT order(id: int, quantity: int);\nEVENT shipped(id: int);\n\nRULE comp(id)")
    code, _, error = shell("check", "EVENT a(x: int); RULE b(y) <- i: a(x)")
    assert code == 2
    assert "line 1, column 25: no event of the rule binds the variable `y`" in error


def test_run_locally(shell: Shell, tmp_path: Path) -> None:
    file, events = tmp_path / "rules.ensue", tmp_path / "events.csv"
    file.write_text(TEXT)
    events.write_text(EVENTS)
    code, out, error = shell("run", str(file), "-i", str(events), "--backend", "local")
    assert code == 0, error
    rows = [json.loads(line) for line in out.splitlines()]
    assert {"rule": "comp", "type": "comp", "begin": 1, "end": 3, "id": 1} in rows
    assert {"rule": "overdue", "type": "overdue", "begin": 4, "end": 10, "id": 2} in rows
    assert [row["b_id"] for row in rows if row.get("query") == "pair"] == [2]
    assert len(rows) == 3
    assert "3 matches" in error
    code, out, error = shell("run", str(file), "-i", str(events), "--backend", "local", "-o", str(tmp_path / "out.csv"))
    assert code == 0 and (tmp_path / "out.csv").read_text().count("\n") == 4


def test_a_stream_refuses_rules_without_bound(shell: Shell, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text(EVENTS)
    stream = ("-i", str(events), "--backend", "local", "--lateness", "0")
    text = TEXT.split("QUERY")[0]
    code, _, error = shell("run", text, *stream)
    assert code == 2 and "would keep events for ever" in error
    code, out, _ = shell("run", text, *stream, "--unbounded-rules")
    assert code == 0 and len(out.splitlines()) == 2


def test_explain(shell: Shell, tmp_path: Path) -> None:
    code, out, error = shell("explain", TEXT.replace("RETURN", "WITHIN 50 RETURN"))
    assert code == 0, error
    assert "rule comp" in out and "s: streams past, since o.end < s.end" in out
    assert "pair: PATTERN SEQ(comp a, overdue b)" in out
    three = "EVENT a(x: int); EVENT b(x: int); RULE r(x) <- i: a(x), j: a(x), k: b(x), {i, j, k} WITHIN 9"
    events = tmp_path / "events.csv"
    rows = [f"{'b' if ts % 50 == 0 else 'a'},{ts},{ts % 7}" for ts in range(3000)]
    events.write_text("\n".join(["type,ts,x", *rows]))
    code, out, error = shell("explain", three, "--input", str(events))
    assert code == 0, error
    assert "joined in the order ((k ⋈ i) ⋈ j) by statistics" in out
    code, _, error = shell("explain", three, "--stats", str(events))
    assert code == 2 and "--input shows" in error
