"""The adaptive experiment, small: it runs, its methods find the same, and its report and plots are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "paper_adaptive.py"


@pytest.mark.parametrize("parts", [("scan", "traffic-like fixed"), ("stock-like",)], ids=["fixed", "by itself"])
def test_the_experiment_runs(tmp_path: Path, parts: tuple[str, ...]) -> None:
    wanted = [word for part in parts for word in ("--only", part)]
    small = [
        "--events",
        "30000",
        "--sizes",
        "3",
        "--sets",
        "sequence",
        "--seed",
        "11",
        "--repeats",
        "1",
        "--checks",
        "4",
        "--streams",
        "2",
    ]
    command = [sys.executable, str(COMMAND), *wanted, *small, "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    known = json.loads((tmp_path / "paper-adaptive.json").read_text())
    assert list(known) == list(parts)
    for part in parts:
        seeds = [cell["seed"] for cell in known[part]["cells"] if cell["planner"] == "greedy"]
        assert seeds == ([11, 11] if part == "scan" else [11, 12])
        for cell in known[part]["cells"]:
            matches = {one["matches"] for one in cell["outcomes"] if not one["is_stopped"]}
            assert len(matches) == 1 and cell["events"] == 30_000
            if part != "stock-like":
                assert any(one["planned"] for one in cell["outcomes"])
    report = (tmp_path / "paper-adaptive.md").read_text()
    assert ("Table 1" in report) == ("scan" in parts) and "What was aimed at" in report
    assert list(tmp_path.glob("*.png"))
