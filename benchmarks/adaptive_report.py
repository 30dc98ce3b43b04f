"""results/paper-adaptive.md: what was aimed at, where the paper's order of methods comes out, and all numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from adaptive_results import (
    BASIC,
    DEFAULT,
    FIXED,
    INVARIANTS,
    MEASURES,
    METHODS,
    STATIC_TWIN,
    STREAMS,
    TWIN,
    CellResult,
    adapting,
    average,
    best_of,
    checking,
    gain_of,
    load_cells,
    mean,
    pick,
    replacing,
)
from adaptive_runs import Outcome
from report import Grid, machine, short

NEAR = 0.03
"""What counts as together with the first."""
RACES = "a plan only takes over if it is quicker in a race, so that all methods end with much the same plans"
CALLS = "slow events call for planning whatever the method, and to plan takes hardly longer than to watch"
STOPPED = "it depends on the stream; and where static was worst it was stopped, so that gains are known to be larger"
WHY = {
    "invariant faster than threshold": RACES,
    "threshold faster than unconditional": RACES,
    "unconditional faster than static": "no other plan was much quicker than the first one",
    "static faster than unconditional": "checks in vain cost little, and what is no quicker does not take over",
    "invariant replaces least, unconditional most": RACES,
    "D and planner cost unconditional most": CALLS,
    "invariants gain more with ZStream than greedy": "the best tree of all races too, whatever the planner",
    "invariants gain more on larger patterns": STOPPED,
    "conjunctions gain most of the single patterns": STOPPED,
    "Kleene closure gains least": STOPPED,
    "twice as fast with d_opt as with d = 0": "what saves little does not take over; to replace costs little",
}
"""Why a finding of the paper may not show here."""
SAME = "both make much the same plans, at the same checks"
WHY_FIXED = {
    "invariant faster than threshold": SAME,
    "threshold faster than unconditional": SAME,
    "invariant replaces least, unconditional most": "a plan takes over only if it saves a tenth of the cost",
    "invariants gain more with ZStream than greedy": "the first plan is another one, and so is the gain over it",
}
"""And why where costs alone decide, at the same checks."""


def write(path: Path, known: dict[str, Any]) -> None:
    """Write the report of all that was measured."""
    cells = {part: load_cells(known, part) for part in (*STREAMS, "steady", "scan")}
    streams = {part: cells[part] for part in STREAMS if cells[part]}
    inverted = known.get("inverted", {"cells": []})["cells"]
    took = ", ".join(
        f"{part} {one['seconds']:.0f} s"
        f" (seed {one['seed']}{_streams(cells.get(part, ()))}, {one['repeats']} runs of {one['run']:g} s"
        f"{', quick' if one['quick'] else ''})"
        for part, one in known.items()
    )
    grids = [_aims(streams, cells["steady"], inverted), *_orders(streams, cells["scan"])]
    if inverted:
        grids.append(_inverted(inverted))
    if cells["steady"]:
        grids.append(_steady(cells["steady"]))
    if cells["scan"]:
        grids += [_distances(cells["scan"]), _table_1(cells["scan"])]
    for part, found in streams.items():
        grids.append(_aims_by_size(part, found))
        grids += _by_size(part, found)
        grids += [_behind(part, found), _by_set(part, found)]
    head = ["# Adaptive detection", "", "Made by `make paper-adaptive`.", "", *(f"- {line}" for line in machine())]
    head.append(f"- measured: {took}")
    if any(part.endswith(FIXED) for part in streams):
        head.append(f"- parts called{FIXED}: all methods are checked at the same events, and costs alone decide")
    head.append("")
    path.write_text("\n".join(head) + "\n" + "\n".join(grid.markdown() for grid in grids), encoding="utf-8")


def _streams(cells: Sequence[CellResult]) -> str:
    """Over how many streams its cells are a mean."""
    numbers = sorted({cell.streams for cell in cells})
    return (
        ""
        if numbers in ([], [1])
        else f" and on, {' to '.join(map(str, dict.fromkeys(numbers[:1] + numbers[-1:])))} streams a cell"
    )


# -- aims ------------------------------------------------------------------------------------------------------------
def _aims(streams: dict[str, list[CellResult]], steady: list[CellResult], inverted: list[dict[str, Any]]) -> Grid:
    rows = []
    for part, all_cells in streams.items():
        cells = [cell for cell in all_cells if not cell.is_broken]
        if not cells:
            continue
        if len(cells) < len(all_cells):
            told = f"{len(all_cells) - len(cells)} of {len(all_cells)} cells, which are left out here"
            rows.append((f"{part}: no method could hold its partial matches", "", told))
        noise = max(cell.noise for cell in cells)  # 0 where each method ran once
        for method in INVARIANTS:
            for rivals, static in (("of the methods that adapt", False), ("of all", True)):
                behind = {cell.name: cell.behind(method, static) for cell in cells}
                near = sum(share <= NEAR for share in behind.values())
                nearly = sum(behind[cell.name] <= NEAR + cell.noise for cell in cells)
                worst = max(behind, key=behind.__getitem__)
                told = f"{near} of {len(cells)} cells, "
                told += f"{nearly} if the cell's noise is added; " if noise else ""
                told += f"{average(behind.values()):.1%} behind on average, {behind[worst]:.1%} at most ({worst})"
                rows.append((f"{part}: {method} first {rivals}, or within 3 %", _met(near == len(cells)), told))
        best = [min(cell.behind(method) for method in INVARIANTS) for cell in cells]
        told = f"{sum(share <= NEAR for share in best)} of {len(cells)} cells; {average(best):.1%} behind on average"
        rows.append((f"{part}: the best of these three first of all, or within 3 %", _met(max(best) <= NEAR), told))
        rows += _of_twins(part, [cell for cell in cells if cell.has(TWIN)])
        told = f"{average(cell.noise for cell in cells):.1%} on average, {noise:.1%} at most"
        told = told if noise else "not known: each method ran once"
        rows.append((f"{part}: noise, by how much two runs of a method differ", "", told))
        stopped = sum(cell.of("static").is_stopped for cell in cells)
        told = f"{stopped} of {len(cells)} cells: there it counts as three times as slow as the fastest"
        rows.append((f"{part}: static stopped, far behind", "", told))
        shares = [adapting(cell.of(DEFAULT)) for cell in cells]
        told = f"{average(shares):.2%} on average, {max(shares):.2%} at most"
        told += f"; under 2 % in {sum(share < 0.02 for share in shares)} of {len(cells)} cells"
        rows.append((f"{part}: statistics, D and planner under 2 % of the time", _met(max(shares) < 0.02), told))
    if steady:
        whole = sum(c.of(DEFAULT).seconds for c in steady) / sum(c.of("static").seconds for c in steady) - 1
        told = f"{whole:+.1%} over all, {_spread([cell.slower(DEFAULT) for cell in steady])}"
        if all(cell.has(STATIC_TWIN) for cell in steady):
            told += f"; static once more {_spread([cell.slower(STATIC_TWIN) for cell in steady])}"
        told += f"; two runs of a method differ by up to {max(cell.noise for cell in steady):.1%}"
        rows.append(("without drift at most 2 % slower than static", _met(whole <= 0.02), told))
    for run in inverted:
        times = _second_half(run)
        told = f"{times:.1f} times as fast"
        rows.append((f"rates that invert, {run['planner']}: five times as fast after it", _met(times >= 5), told))
    return Grid("What was aimed at", ("aim", "met", "measured"), tuple(rows))


def _spread(slower: Sequence[float]) -> str:
    few = sum(one <= 0.02 for one in slower)
    told = f"{median(slower):+.1%} in the median, {max(slower):+.1%} at most"
    return f"{told}, 2 % or less in {few} of {len(slower)} cells"


def _of_twins(part: str, cells: list[CellResult]) -> Iterator[tuple[str, str, str]]:
    """What chance does: the default against itself, and its twin in its place."""
    if not cells:
        return
    chance = sorted(cell.chance for cell in cells)
    told = f"{average(chance):.1%} on average, {chance[len(chance) // 2]:.1%} in the median; more than 3 % in "
    told += f"{sum(one > NEAR for one in chance)} of {len(cells)} cells"
    yield f"{part}: by how much the default and its twin differ", "", told
    behind = {method: [cell.behind(method) <= NEAR for cell in cells] for method in (DEFAULT, TWIN)}
    told = f"{sum(behind[TWIN])} of {len(cells)} cells; one of the two in {sum(map(max, *behind.values()))}"
    yield f"{part}: the twin in its place first of all, or within 3 %", "", told
    allowed = sum(cell.behind(DEFAULT) <= NEAR + cell.chance for cell in cells)
    told = f"{allowed} of {len(cells)} cells"
    yield f"{part}: the default within 3 % and what it differs from its twin", _met(allowed == len(cells)), told


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


def _second_half(run: dict[str, Any]) -> float:
    still, moving = run["seconds"]["static"], run["seconds"]["adaptive"]
    return float(sum(still[len(still) // 2 :]) / sum(moving[len(moving) // 2 :]))


# -- the paper's findings --------------------------------------------------------------------------------------------
def _orders(streams: dict[str, list[CellResult]], scan: list[CellResult]) -> Iterator[Grid]:
    """What the paper found, and whether these numbers say the same."""
    rows = []
    for part, cells in streams.items():
        for planner in dict.fromkeys(cell.planner for cell in cells):
            gains = {m: gain_of(pick(cells, planner=planner), m) for m in METHODS}
            order = sorted(METHODS, key=lambda m: -gains[m])
            rows.append((f"{part}, {planner}", ", ".join(f"{m} {gains[m]:.2f}" for m in order)))
    if rows:
        yield Grid("Methods by their gain over static", ("stream, planner", "first to last"), tuple(rows))
    found = [(part, *one) for part, cells in streams.items() for one in _findings(part, cells)]
    found += [(f"scan, {group}", *one) for group, *one in _of_scan(scan)]
    rows = [
        (part, finding, _HERE[holds], told, _why(part, finding) if holds is False else "")
        for part, finding, holds, told in found
    ]
    if rows:
        yield Grid("Findings of the paper", ("stream", "finding", "here", "numbers", "why not"), tuple(rows))


_HERE = {True: "reproduces", False: "does not", None: "cannot be told: less than chance"}


def _why(part: str, finding: str) -> str:
    return (WHY_FIXED if part.endswith(FIXED) else WHY).get(finding, WHY[finding])


def _findings(part: str, cells: list[CellResult]) -> Iterator[tuple[str, bool | None, str]]:
    is_traffic = part.startswith("traffic")
    chance = [cell.chance for cell in cells if cell.has(TWIN)]

    def is_more(one: float, other: float) -> bool | None:
        """Whether a gain is larger; None: they differ by no more than the default and its twin do on average."""
        return None if chance and max(one, other) <= (1 + average(chance)) * min(one, other) else one > other

    def compare(left: str, right: str) -> tuple[str, bool | None, str]:
        a, b = gain_of(cells, left), gain_of(cells, right)
        return f"{left} faster than {right}", is_more(a, b), f"{a:.2f} and {b:.2f} times static"

    yield compare("invariant", "threshold")
    yield compare("threshold", "unconditional")
    yield compare("unconditional", "static") if is_traffic else compare("static", "unconditional")
    numbers = {m: average(cell.of(m).replaced for cell in cells) for m in METHODS}
    told = ", ".join(f"{m} {number:.1f}" for m, number in numbers.items() if m != "static")
    fewest = all(numbers["invariant"] <= numbers[m] for m in ("unconditional", "threshold"))
    yield (
        "invariant replaces least, unconditional most",
        fewest and max(numbers, key=numbers.__getitem__) == METHODS[1],
        told,
    )
    shares = {m: average(checking(cell.of(m)) for cell in cells) for m in METHODS[1:]}
    told = ", ".join(f"{m} {share:.2%}" for m, share in shares.items())
    yield "D and planner cost unconditional most", max(shares, key=shares.__getitem__) == METHODS[1], told
    trees, orders = (gain_of(pick(cells, planner=p), "invariant") for p in ("zstream", "greedy"))
    yield "invariants gain more with ZStream than greedy", is_more(trees, orders), f"{trees:.2f} and {orders:.2f}"
    sizes = sorted({cell.size for cell in cells})
    if is_traffic and len(sizes) > 1:
        ends = sizes[: len(sizes) // 2][:2], sizes[-(len(sizes) // 2) :][-2:]
        small, large = (gain_of([cell for cell in cells if cell.size in some], "invariant") for some in ends)
        told = ", ".join(
            f"{gain:.2f} ({', '.join(map(str, some))})" for gain, some in zip((small, large), ends, strict=True)
        )
        yield "invariants gain more on larger patterns", is_more(large, small), told
    by_set = {kind: gain_of(pick(cells, kind=kind), "invariant") for kind in dict.fromkeys(c.kind for c in cells)}
    by_set = {kind: gain for kind, gain in by_set.items() if not math.isnan(gain)}  # static was stopped in all of them
    told = ", ".join(f"{kind} {value:.2f}" for kind, value in by_set.items())
    if {"conjunction", "kleene"} <= by_set.keys():
        single = [kind for kind in by_set if kind != "disjunction"]
        yield (
            "conjunctions gain most of the single patterns",
            max(single, key=by_set.__getitem__) == "conjunction",
            told,
        )
        yield "Kleene closure gains least", min(by_set, key=by_set.__getitem__) == "kleene", told


def _of_scan(cells: list[CellResult]) -> Iterator[tuple[str, str, bool, str]]:
    for dataset, planner in dict.fromkeys((cell.dataset, cell.planner) for cell in cells):
        group = pick(cells, dataset=dataset, planner=planner)
        best = best_of(group, "d = ")
        times, basic = (mean(cell.gain(f"d = {best:g}", other) for cell in group) for other in ("d = 0", BASIC))
        told = f"d_opt {best:g}, {times:.2f} times as fast as d = 0, {basic:.2f} times as {BASIC}"
        yield f"{dataset}, {planner}", "twice as fast with d_opt as with d = 0", max(times, basic) >= 2, told


# -- parts -----------------------------------------------------------------------------------------------------------
def _inverted(runs: Sequence[dict[str, Any]]) -> Grid:
    rows = []
    for run in runs:
        half = run["events"] / 2
        speeds = []
        for name in ("static", "adaptive"):
            seconds = run["seconds"][name]
            middle = len(seconds) // 2
            speeds += [f"{short(half / sum(part))}/s" for part in (seconds[:middle], seconds[middle:])]
        rows.append((run["planner"], *speeds, f"{_second_half(run):.1f}x", str(run["replaced"])))
    heads = (
        "planner",
        "static, first half",
        "second half",
        "adaptive, first half",
        "second half",
        "gain",
        "replacements",
    )
    return Grid(
        f"Rates that invert half way ({short(runs[0]['events'])} events): `{runs[0]['query']}`", heads, tuple(rows)
    )


def _steady(cells: Sequence[CellResult]) -> Grid:
    rows = tuple(
        (
            f"{cell.kind} {cell.size}, {cell.planner}",
            f"{short(cell.of('static').rate)}/s",
            f"{cell.slower(DEFAULT):+.1%}",
            f"{cell.slower(STATIC_TWIN):+.1%}" if cell.has(STATIC_TWIN) else "",
            f"{cell.noise:.1%}",
            f"{adapting(cell.of(DEFAULT)):.2%}",
            f"{cell.of(DEFAULT).replaced:g}",
        )
        for cell in cells
    )
    heads = (
        "pattern",
        "static",
        "adaptive takes",
        "static once more",
        "noise",
        "statistics, D, planner",
        "replacements",
    )
    return Grid("A stream without drift", heads, rows)


def _distances(cells: Sequence[CellResult]) -> Grid:
    names = [one.method for one in cells[0].outcomes]
    rows = tuple(
        (cell.name, *(f"{short(cell.of(name).rate)} ({cell.of(name).replaced:g})" for name in names)) for cell in cells
    )
    return Grid("Sequences by distance and threshold: events a second (replacements)", ("cell", *names), rows)


def _table_1(cells: Sequence[CellResult]) -> Grid:
    rows = []
    for cell in cells:
        group = pick(cells, dataset=cell.dataset, planner=cell.planner)
        best, own = best_of(group, "d = "), best_of([cell], "d = ")
        average_d = cell.of("d_avg").distance
        if average_d is None:
            continue
        near = min(average_d / best, best / average_d) if best and average_d else 0.0
        lost = 1 - cell.of("d_avg").rate / cell.of(f"d = {own:g}").rate
        rows.append((cell.name, f"{average_d:.3f}", f"{best:g}", f"{near:.2f}", f"{own:g}", f"{lost:.1%}"))
    heads = ("cell", "d_avg", "d_opt", "smaller / larger", "d_opt of the cell", "d_avg is slower by")
    return Grid("Table 1: d_avg against d_opt", heads, tuple(rows))


def _aims_by_size(part: str, all_cells: list[CellResult]) -> Grid:
    """How near the default comes to what was aimed at, and what it spends, for small and large patterns."""
    rows = []
    cells = [cell for cell in all_cells if not cell.is_broken and cell.has(TWIN)]
    for size in sorted({cell.size for cell in cells}):
        some = pick(cells, size=size)
        best = [min(cell.behind(method) for method in INVARIANTS) for cell in some]
        defaults = [cell.of(DEFAULT) for cell in some]
        rows.append(
            (
                str(size),
                _near([cell.behind(DEFAULT) for cell in some]),
                _near([cell.behind(TWIN) for cell in some]),
                _near(best),
                f"{average(cell.chance for cell in some):.1%}",
                _spent(defaults, adapting),
                _spent(defaults, replacing),
            )
        )
    heads = (
        "size",
        f"{DEFAULT}: within 3 % of the first, behind on average",
        "its twin",
        "the best of the three distances",
        "the default and its twin differ by",
        "statistics, D and planner",
        "races and replacements",
    )
    return Grid(f"{part}: aims by size", heads, tuple(rows))


def _spent(outcomes: Sequence[Outcome], share: Callable[[Outcome], float]) -> str:
    """A share of the time, and the time itself: that goes with how often a stream changes, not with its length."""
    shares = list(map(share, outcomes))
    seconds = [one.seconds * part for one, part in zip(outcomes, shares, strict=True)]
    return f"{average(shares):.1%}, {max(shares):.1%} at most; {average(seconds):.2f} s a run"


def _near(behind: Sequence[float]) -> str:
    return f"{sum(share <= NEAR for share in behind)} of {len(behind)}, {average(behind):.1%}"


def _by_size(part: str, cells: list[CellResult]) -> Iterator[Grid]:
    shown: dict[str, Callable[[float], str]] = {
        "throughput": lambda x: f"{short(x)}/s",
        "gain over static": lambda x: f"{x:.2f}x",
        "replacements": lambda x: f"{x:.1f}",
        "D and planner": lambda x: f"{x:.2%}",
    }
    for planner in dict.fromkeys(cell.planner for cell in cells):
        rows = []
        for name, measure in MEASURES.items():
            for size in sorted({cell.size for cell in cells}):
                some = pick(cells, planner=planner, size=size)
                rows.append((name, str(size), *(shown[name](measure(some, m)) for m in METHODS)))
        yield Grid(f"{part}, {planner}: averages over the sets", ("measure", "size", *METHODS), tuple(rows))


def _behind(part: str, cells: Sequence[CellResult]) -> Grid:
    rows = []
    for cell in cells:
        first = max(map(cell.of, METHODS), key=lambda one: one.rate)
        best = min(INVARIANTS, key=cell.behind)
        if cell.behind(DEFAULT) > NEAR:
            told = [f"{cell.behind(m):.1%} ({cell.of(m).replaced:g})" for m in INVARIANTS]
            share = f"{adapting(cell.of(DEFAULT)):.1%}, {replacing(cell.of(DEFAULT)):.1%}"
            rows.append(
                (cell.name, f"{first.method} ({first.replaced:g})", *told, best if best != DEFAULT else "", share)
            )
    heads = ("cell", "first (replacements)", *(f"{m} behind" for m in INVARIANTS), "better one", "adapting, replacing")
    return Grid(
        f"{part}: cells where {DEFAULT} is more than 3 % behind the first ({len(rows)} of {len(cells)})",
        heads,
        tuple(rows),
    )


def _by_set(part: str, cells: Sequence[CellResult]) -> Grid:
    rows = tuple(
        (
            f"{cell.kind} {cell.size}, {cell.planner}",
            short(cell.events) + (f" of {short(cell.length)}" if cell.events < cell.length else ""),
            short(cell.of(DEFAULT).matches),
            *(f"{_rate(cell.of(m))} ({cell.of(m).replaced:g})" for m in METHODS),
            f"{adapting(cell.of(DEFAULT)):.2%}",
            f"{cell.noise:.1%}",
        )
        for cell in cells
    )
    heads = ("cell", "events", "matches", *METHODS, "adapting", "noise")
    return Grid(f"{part}: all cells, events a second (replacements)", heads, rows)


def _rate(one: Outcome) -> str:
    return f"{'< ' if one.is_stopped else ''}{short(one.rate)}"
