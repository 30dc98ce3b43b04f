"""What the adaptive experiment has measured, and what follows from it: shares, orders of methods, best parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from adaptive_cells import SETS
from adaptive_runs import HOPELESS, Outcome

METHODS = ("static", "unconditional", "threshold", "invariant", "invariant, d_avg", "invariant, tuned")
INVARIANTS = METHODS[3:]
DEFAULT = "invariant, tuned"
"""What the engine does if one says no more than adapt=True."""
TWIN, STATIC_TWIN = "invariant, tuned, twin", "static, twin"
"""The same once more, as if it were another method, and so the plan that stays: by how much they differ is chance."""


BASIC = "K = 1, d = 0"
"""The paper's basic method, in the scan: the tightest invariant of each block, and it is broken by the least."""

FIXED = " fixed"
"""What parts are called in which all methods are checked at the same events, and costs alone decide."""
FILES = ("traffic file", "stocks file")
MADE = ("traffic-like", "stock-like")
STREAMS = tuple(name + how for names in (MADE, FILES) for how in (FIXED, "") for name in names)


NOISE = 0.02
"""By what the times of one and the same run differ."""


@dataclass(frozen=True)
class CellResult:
    """All methods on one pattern over one dataset, by one planner: over a stream, or over several in the mean."""

    dataset: str
    kind: str
    size: int
    planner: str
    query: str
    events: int
    length: int  # of the stream; more than `events` if all had to stop for time
    outcomes: list[Outcome]
    seed: int = 0
    streams: int = 1

    def of(self, method: str) -> Outcome:
        return next(one for one in self.outcomes if one.method == method)

    def gain(self, method: str, over: str = "static") -> float:
        """How many times as fast a method is as another one."""
        return self.of(method).rate / self.of(over).rate

    def behind(self, method: str, static: bool = True) -> float:
        """What a method lacks of the fastest, as a share of it; with or without the plan that stays among them."""
        rivals = METHODS if static else METHODS[1:]
        if method == TWIN:
            rivals = tuple(TWIN if one == DEFAULT else one for one in rivals)
        return 1 - self.of(method).rate / max(self.of(one).rate for one in rivals)

    @property
    def is_broken(self) -> bool:
        """Whether no method ran to the end: none of their plans could be held."""
        return all(one.is_stopped for one in self.outcomes)

    @property
    def noise(self) -> float:
        """By what share the runs of one method differ, on average over those that were not stopped."""
        found = [one.again / one.seconds - 1 for one in self.outcomes if not one.is_stopped]
        return average(found) if found else 0.0

    def has(self, method: str) -> bool:
        """Whether a method took part."""
        return any(one.method == method for one in self.outcomes)

    def slower(self, method: str) -> float:
        """How much longer than the plan that stays a method takes, as a share of that."""
        return 1 / self.gain(method) - 1

    @property
    def chance(self) -> float:
        """By what share the default and its twin differ."""
        rates = [self.of(method).rate for method in (DEFAULT, TWIN)]
        return max(rates) / min(rates) - 1

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.kind} {self.size}, {self.planner}"

    @property
    def line(self) -> str:
        """The cell in one line."""
        rates = ", ".join(
            f"{one.method} {'< ' if one.is_stopped else ''}{one.rate / 1e3:.0f}k ({one.replaced:g})"
            for one in self.outcomes
        )
        stopped = f" of {self.length:,}" if self.events < self.length else ""
        return f"{self.name}: {self.events:,}{stopped} events, {self.outcomes[-1].matches:,} matches; {rates}"


def read_cell(stored: dict[str, Any]) -> CellResult:
    """A cell that was stored as JSON.

    Of a method that was stopped, far behind, it is only known what its rate is below: it counts as that far behind.
    """
    outcomes = [Outcome(**one) for one in stored["outcomes"]]
    least = min((one.seconds for one in outcomes if not one.is_stopped), default=0.0)
    outcomes = [replace(one, seconds=max(one.seconds, HOPELESS * least)) if one.is_stopped else one for one in outcomes]
    return CellResult(**{**stored, "outcomes": outcomes})


def load_cells(known: dict[str, Any], part: str) -> list[CellResult]:
    """The cells of a part that were stored, in order; those of several streams together."""
    groups: dict[tuple[Any, ...], list[CellResult]] = {}
    for cell in map(read_cell, known.get(part, {"cells": []})["cells"]):
        groups.setdefault((cell.dataset, cell.planner, cell.size, SETS.index(cell.kind)), []).append(cell)
    return [merge(groups[key]) for key in sorted(groups)]


def merge(cells: Sequence[CellResult]) -> CellResult:
    """One cell of those of several streams: of times the geometric mean, so that each stream counts as much.

    Streams that no method ran through to the end tell nothing, unless there are no others.
    """
    some = [cell for cell in cells if not cell.is_broken] or list(cells)
    if len(some) == 1:
        return some[0]
    outcomes = [_average_outcome([cell.of(one.method) for cell in some]) for one in some[0].outcomes]
    events, length = (round(mean(getattr(cell, name) for cell in some)) for name in ("events", "length"))
    return replace(some[0], outcomes=outcomes, events=events, length=length, streams=len(some))


def _average_outcome(runs: Sequence[Outcome]) -> Outcome:
    """What a method did in several streams: seconds as a geometric mean, of what adapting took the mean share."""
    seconds = mean(one.seconds for one in runs)
    shares = {
        field.name: seconds * average(getattr(one, field.name) / one.seconds for one in runs)
        for field in fields(Outcome)
        if field.name in ("watching", "deciding", "planning", "trying", "replacing")
    }
    distances = [one.distance for one in runs if one.distance is not None]
    return replace(
        runs[0],
        seconds=seconds,
        again=mean(max(one.again, one.seconds) for one in runs),
        events=round(mean(one.events for one in runs)),
        matches=round(average(one.matches for one in runs)),
        planned=round(average(one.planned for one in runs), 1),
        replaced=round(average(one.replaced for one in runs), 1),
        distance=average(distances) if distances else None,
        is_stopped=any(one.is_stopped for one in runs),
        **shares,
    )


def mean(values: Iterable[float]) -> float:
    """The geometric mean: of ratios no other says much."""
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else math.nan


def gain_of(cells: Iterable[CellResult], method: str) -> float:
    """How many times as fast as static a method is, at least: static may have been stopped, far behind."""
    return mean(cell.gain(method) for cell in cells if not cell.is_broken)


def average(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else math.nan


def checking(one: Outcome) -> float:
    """The share of time in D and the planner, which is what the paper calls overhead."""
    return (one.deciding + one.planning) / one.seconds


def adapting(one: Outcome) -> float:
    """The share of time in statistics, D and the planner."""
    return (one.watching + one.deciding + one.planning) / one.seconds


def replacing(one: Outcome) -> float:
    """The share of time that trying plans and letting them take over takes."""
    return (one.trying + one.replacing) / one.seconds


MEASURES: dict[str, Callable[[Sequence[CellResult], str], float]] = {
    "throughput": lambda cells, method: mean(cell.of(method).rate for cell in cells),
    "gain over static": gain_of,
    "replacements": lambda cells, method: average(cell.of(method).replaced for cell in cells),
    "D and planner": lambda cells, method: average(checking(cell.of(method)) for cell in cells),
}


def pick(cells: Sequence[CellResult], **wanted: Any) -> list[CellResult]:
    """The cells with these values."""
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def best_parameters(known: dict[str, Any], dataset: str, planner: str) -> tuple[float, float]:
    """t and d that were fastest on sequences of all sizes; without a scan some usual ones."""
    cells = pick(load_cells(known, "scan"), dataset=dataset, planner=planner)
    if not cells:
        return 0.5, 0.1
    return best_of(cells, "t = "), best_of(cells, "d = ")


def best_of(cells: Sequence[CellResult], start: str) -> float:
    """The parameter that was fastest over some cells; of those that are as fast but for noise, the smallest."""
    names = [one.method for one in cells[0].outcomes if one.method.startswith(start)]
    rates = {float(name.removeprefix(start)): mean(cell.of(name).rate for cell in cells) for name in names}
    return min(value for value, rate in rates.items() if rate >= (1 - NOISE) * max(rates.values()))
