"""The plots of the adaptive experiment: distances (figure 5 of the paper), methods (6 to 9), rates that invert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from adaptive_results import MEASURES, METHODS, CellResult, load_cells, mean, pick

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

COLOURS = dict(zip(METHODS, ("grey", "tab:red", "tab:orange", "tab:blue", "tab:cyan", "tab:green"), strict=True))


def draw_plots(folder: Path, known: dict[str, Any]) -> None:
    """Write a file for each part that there are numbers of."""
    for part in known:
        if part == "inverted":
            _draw_inverted(folder, known[part]["cells"])
        elif part == "scan":
            _draw_distances(folder, load_cells(known, part))
        elif part != "steady":
            _draw_methods(folder, part, load_cells(known, part))


def _draw_methods(folder: Path, part: str, cells: list[CellResult]) -> None:
    planners = list(dict.fromkeys(cell.planner for cell in cells))
    figure, axes = plt.subplots(len(planners), len(MEASURES), figsize=(16, 3.6 * len(planners)), squeeze=False)
    for row, planner in zip(axes, planners, strict=True):
        for place, (name, measure) in zip(row, MEASURES.items(), strict=True):
            of_planner = pick(cells, planner=planner)
            sizes = sorted({cell.size for cell in of_planner})
            for method in METHODS:
                values = [measure(pick(of_planner, size=size), method) for size in sizes]
                place.plot(sizes, values, marker="o", markersize=3, label=method, color=COLOURS[method])
            _dress(place, f"{part}, {planner}: {name}", "size of the pattern")
            if name in ("throughput", "gain over static"):
                place.set_yscale("log")
    axes[0][0].legend(fontsize=7)
    _save(figure, folder, f"paper-adaptive-{part.replace(' ', '-')}")


def _draw_distances(folder: Path, cells: list[CellResult]) -> None:
    groups = list(dict.fromkeys((cell.dataset, cell.planner) for cell in cells))
    figure, axes = plt.subplots(2, len(groups), figsize=(4 * len(groups), 7), squeeze=False)
    for place, (dataset, planner) in enumerate(groups):
        of_group = pick(cells, dataset=dataset, planner=planner)
        for row, start in zip(axes, ("d = ", "t = "), strict=True):
            names = [one.method for one in of_group[0].outcomes if one.method.startswith(start)]
            values = [float(name.removeprefix(start)) for name in names]
            for cell in of_group:
                row[place].plot(
                    values, [cell.of(name).rate / 1e3 for name in names], marker="o", markersize=3, label=str(cell.size)
                )
            first = names[0]
            _dress(row[place], f"{dataset}, {planner}", f"{start[0]} (thousand events a second, by size)")
            row[place].set_ylim(bottom=0)
            spread = mean(cell.of(names[-1]).rate / cell.of(first).rate for cell in of_group)
            row[place].annotate(f"last / first: {spread:.2f}", (0.5, 0.03), xycoords="axes fraction", fontsize=7)
    axes[0][0].legend(title="size", fontsize=7)
    _save(figure, folder, "paper-adaptive-distances")


def _draw_inverted(folder: Path, runs: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(1, len(runs), figsize=(5 * len(runs), 3.4), squeeze=False)
    for place, run in zip(axes[0], runs, strict=True):
        for name, seconds in run["seconds"].items():
            rates = [run["events"] / len(seconds) / one for one in seconds]
            place.step(range(len(rates)), rates, where="post", label=name)
        place.set_yscale("log")
        _dress(place, f"rates that invert, {run['planner']}", "sixteenth of the stream (events a second)")
        place.legend(fontsize=8)
    _save(figure, folder, "paper-adaptive-inverted")


def _dress(place: Axes, title: str, label: str) -> None:
    place.set_title(title, fontsize=9)
    place.set_xlabel(label, fontsize=8)
    place.tick_params(labelsize=7)
    place.grid(alpha=0.3)


def _save(figure: Any, folder: Path, name: str) -> None:
    figure.tight_layout()
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)
