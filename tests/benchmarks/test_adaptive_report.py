"""What the report of the adaptive experiment says of its cells."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from adaptive_report import write
from adaptive_results import METHODS, TWIN, CellResult, load_cells
from adaptive_runs import Outcome


def cell(
    size: int,
    seconds: dict[str, float],
    *,
    planner: str = "greedy",
    stopped: tuple[str, ...] = (),
    **spent: float,
) -> dict[str, Any]:
    """A cell in which all methods take 10 seconds but for some."""
    outcomes = [
        Outcome(name, took := seconds.get(name, 10.0), 1000, 5, 1, again=took, is_stopped=name in stopped, **spent)
        for name in (*METHODS, TWIN)
    ]
    return asdict(CellResult("traffic-like", "sequence", size, planner, "PATTERN …", 1000, 1000, outcomes))


def cells_of(*cells: dict[str, Any]) -> list[CellResult]:
    return load_cells({"traffic-like": {"cells": list(cells)}}, "traffic-like")


def report_of(folder: Path, *cells: dict[str, Any], part: str = "traffic-like") -> str:
    settings = {"seconds": 1.0, "seed": 1, "run": 10, "repeats": 2, "quick": False}
    write(folder / "report.md", {part: {"cells": list(cells), **settings}})
    return (folder / "report.md").read_text()


def test_aims_are_told_by_size(tmp_path: Path) -> None:
    ahead, behind = {"invariant, tuned": 9.9}, {"threshold": 9.0, "invariant, tuned, twin": 9.1}
    text = report_of(tmp_path, cell(3, ahead), cell(3, {}, planner="zstream"), cell(8, behind))
    rows = text[text.index("aims by size") :].split("\n## ")[0].splitlines()
    small, large = (next(row for row in rows if row.startswith(f"| {size} ")) for size in (3, 8))
    assert small.startswith("| 3 | 2 of 2, 0.0% | 2 of 2, 0.0% | 2 of 2, 0.0% | 0.5% |")
    assert large.startswith("| 8 | 0 of 1, 10.0% | 1 of 1, 1.1% | 0 of 1, 10.0% | 9.9% |")


def test_what_adapting_takes_is_told_as_a_share_and_in_seconds(tmp_path: Path) -> None:
    other = cell(4, {"invariant, tuned": 5.0}, planner="zstream", watching=0.15)
    text = report_of(tmp_path, cell(4, {}, watching=0.1, deciding=0.05, trying=0.2), other)
    row = next(row for row in text[text.index("aims by size") :].splitlines() if row.startswith("| 4 "))
    assert "| 2.2%, 3.0% at most; 0.15 s a run | 1.0%, 2.0% at most; 0.10 s a run |" in row


def test_a_cell_that_no_method_could_hold_does_not_count(tmp_path: Path) -> None:
    text = report_of(tmp_path, cell(3, {}), cell(5, {}, stopped=(*METHODS, TWIN)))
    assert "| 5 |" not in text[text.index("aims by size") :].split("\n## ")[0]
    assert "1 of 2 cells, which are left out here" in text


def test_what_is_not_known_of_single_runs_is_not_told_as_no_noise(tmp_path: Path) -> None:
    once = cell(3, {})
    assert "not known: each method ran once" in report_of(tmp_path, once)
    twice = cell(3, {}, planner="zstream")
    twice["outcomes"][0]["again"] = 17.0
    told = report_of(tmp_path, once, twice)
    assert "ran once" not in told and "5.0% on average, 10.0% at most" in told


def test_why_a_finding_does_not_show_depends_on_who_decides(tmp_path: Path) -> None:
    slow = cell(4, {"invariant": 11.0})
    told = report_of(tmp_path, slow), report_of(tmp_path, slow, part="traffic-like fixed")
    rows = [next(row for row in text.splitlines() if "invariant faster than threshold" in row) for text in told]
    assert "does not" in rows[0] and "race" in rows[0]
    assert "does not" in rows[1] and "same checks" in rows[1] and "race" not in rows[1]
    assert "costs alone decide" in told[1] and "costs alone decide" not in told[0]


def test_what_chance_may_have_made_is_neither_found_nor_missed(tmp_path: Path) -> None:
    close, far = {"threshold": 9.8}, {"threshold": 7.0}
    twins = {"invariant, tuned": 10.0, "invariant, tuned, twin": 9.5}
    rows = []
    for seconds in (close, close | twins, far | twins):
        text = report_of(tmp_path, cell(4, seconds))
        rows.append(next(row for row in text.splitlines() if "invariant faster than threshold" in row))
    assert ["does not" in row for row in rows] == [True, False, True]
    assert ["cannot be told" in row for row in rows] == [False, True, False]


def test_patterns_of_one_size_say_nothing_of_sizes(tmp_path: Path) -> None:
    assert "gain more on larger patterns" not in report_of(tmp_path, cell(4, {}))
    text = report_of(tmp_path, cell(3, {"invariant": 9.0}), cell(4, {}), cell(5, {"invariant": 5.0}))
    assert "| invariants gain more on larger patterns | reproduces | 1.11 (3), 2.00 (5) |" in text


def test_streams_of_a_cell_count_alike_however_long_they_take() -> None:
    quick = cell(4, {"static": 4.0, "invariant": 1.0}, watching=1.0)
    slow = cell(4, {"static": 90.0, "invariant": 40.0}, watching=0.4)
    (one,) = cells_of(quick, slow)
    assert one.streams == 2 and one.of("invariant").seconds == pytest.approx((1.0 * 40.0) ** 0.5)
    assert one.gain("invariant") == pytest.approx((4.0 * 90.0 / 40.0) ** 0.5)
    shares = [(1.0 / 10.0 + 0.4 / 10.0) / 2, (1.0 / 1.0 + 0.4 / 40.0) / 2]
    assert [one.of(name).watching / one.of(name).seconds for name in ("threshold", "invariant")] == pytest.approx(
        shares
    )


def test_replacements_of_several_streams_are_told_in_the_mean(tmp_path: Path) -> None:
    still, moving = cell(4, {}), cell(4, {})
    moving["outcomes"][1]["replaced"] = 5
    assert "| 100 (2.5) |" in report_of(tmp_path, still, moving)


def test_a_method_that_was_stopped_counts_as_three_times_as_slow_as_the_fastest(tmp_path: Path) -> None:
    early = cell(4, {"static": 4.0, "invariant": 5.0}, stopped=("static",))
    (one,) = cells_of(early)
    assert one.gain("invariant") == 3.0 and one.behind("static") == pytest.approx(2 / 3)
    (several,) = cells_of(early, cell(4, {"static": 5.0, "invariant": 15.0}))
    assert several.gain("invariant") == pytest.approx(1.0) and several.of("static").is_stopped
    assert "static stopped, far behind |  | 1 of 1 cells" in report_of(tmp_path, early)


def test_a_stream_that_no_method_could_hold_does_not_count_beside_others() -> None:
    broken = cell(4, {"static": 1.0}, stopped=(*METHODS, TWIN))
    (one,) = cells_of(broken, cell(4, {"static": 20.0}))
    assert one.streams == 1 and one.gain("invariant") == 2.0 and not one.is_broken
    (alone,) = cells_of(broken)
    assert alone.is_broken
