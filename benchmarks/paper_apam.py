"""How soon a match is known: eager, lazy and hybrid plans as events come faster (`make paper-apam`).

Yi, Lee and Whang, section 6: their query over five types with their three sets of selectivities. Events come by a
Poisson process, scaled so that the plan that does least work is busy for a given share of the time on this machine.

The time that each event takes is measured, one after the other, several times over; the least counts, so that what
else runs on the machine does not. From these times and random arrivals follows the time that each event waits, in the
order of the queue: latency is counted from its arrival. That an event which really has to be waited for takes no longer
is checked beside it (`open loop`): events are pushed at their moments of arrival, and the median latency of the chosen
plan is taken. Besides the paper's window of 2,000 events a larger one is run, in which joins take longer than the way
of an event through Python. results/paper-apam.md gets the tables, results/paper-apam.png the plots.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from report import Grid
from rich.console import Console

import ensue
from ensue.language import parse_query
from ensue.pattern.normalize import normalize
from ensue.planning.cost import Costs
from ensue.planning.eager_lazy import Candidate, find_candidates
from ensue.planning.figures import Figures, by_hand, shape_of
from ensue.planning.latency import Latency, Timings, latency_of
from ensue.planning.plan import Plan
from ensue.runtime.calibration import measure_timings

QUERY = (
    "PATTERN SEQ(A a, B b, C c, D d, E e) WHERE a.p < b.p AND b.q < c.q AND c.r < d.r AND d.s < e.s"
    " WITHIN {window} EVENTS"
)
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))
EXPERIMENTS = {
    1: (0.008, 0.006, 0.004, 0.002),
    2: (0.002, 0.004, 0.006, 0.008),
    3: (0.006, 0.002, 0.004, 0.008),
}
UTILISATIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.1)
OPEN_LOOP = 0.1
ARRIVALS = 5
"""How many random sequences of arrivals are tried with the times that were measured."""
RANGE = 1_000_000
Event: TypeAlias = dict[str, object]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
SCHEMA = ensue.Schema(
    {"type": ensue.DType.STRING, "ts": ensue.DType.INT, **dict.fromkeys("pqrs", ensue.DType.INT)},
)


@dataclass(frozen=True)
class Size:
    """How much is run: streams of so many events after those that fill the window, each so many times over.

    Matches come in bursts that last for a window, and a few bursts make most of a mean: hence many streams.
    """

    window: int
    warm_up: int
    events: int
    streams: int
    repeats: int


@dataclass(frozen=True)
class Measured:
    """Of the last events of matches, in seconds: the mean of the times in the queue and of service; medians of both."""

    wait: float
    service: float
    middle: float

    @property
    def latency(self) -> float:
        """The mean of both together."""
        return self.wait + self.service


@dataclass(frozen=True)
class Cell:
    """A plan at a rate, expected and measured. `names` are the ways to part the types that come to this plan."""

    names: tuple[str, ...]
    expected: Latency
    measured: Measured


@dataclass(frozen=True)
class Row:
    """All plans of an experiment at a rate; `open_loop` is the median latency of the chosen one with real arrivals."""

    experiment: int
    window: int
    utilisation: float
    rate: float
    cells: tuple[Cell, ...]
    open_loop: float | None = None

    @property
    def chosen(self) -> int:
        """The plan that the model takes."""
        ranks = [cell.expected.rank for cell in self.cells]
        return ranks.index(min(ranks))

    def compared(self, place: int) -> float:
        """The measured latency of the chosen plan over that of another."""
        return self.cells[self.chosen].measured.latency / self.cells[place].measured.latency

    @property
    def loss(self) -> float:
        """The measured latency of the chosen plan over the best one's."""
        return max(self.compared(place) for place in range(len(self.cells)))


def make_events(number: int, selectivities: Sequence[float], seed: int) -> list[Event]:
    """Five types, equally often. `x < y` holds for a share s of pairs: x is uniform in [0, R) and y in [0, 2sR)."""
    rng = np.random.default_rng(seed)
    types = rng.integers(0, 5, number)
    columns = []
    for place, s in enumerate(selectivities):
        columns.append(rng.integers(0, np.where(types == place + 1, int(2 * s * RANGE), RANGE)))
    rows = zip(types.tolist(), *(column.tolist() for column in columns), strict=True)
    return [{"type": "ABCDE"[t], "ts": k, "p": p, "q": q, "r": r, "s": s} for k, (t, p, q, r, s) in enumerate(rows)]


def selectivities_of(streams: Sequence[Sequence[Event]]) -> list[float]:
    """What share of pairs really passes, as statistics would tell: few values of x pass at all, so that it varies."""
    found = []
    for name, x, y in zip("pqrs", "ABCD", "BCDE", strict=True):
        shares = []
        for events in streams:
            xs = np.sort([event[name] for event in events if event["type"] == x])
            shares.append(np.searchsorted(xs, [event[name] for event in events if event["type"] == y]).mean() / len(xs))
        found.append(float(np.mean(shares)))
    return found


def figures_at(selectivities: Sequence[float], window: int, rate: float) -> Figures:
    """What is known of the stream, time in seconds."""
    (branch,) = normalize(parse_query(QUERY.format(window=window)))
    pairs = dict(zip(PAIRS, selectivities, strict=True))
    return by_hand(shape_of(branch), window / rate, [rate / 5] * 5, pairs).at_pace(1.0)


def distinct(candidates: Sequence[Candidate]) -> Iterator[tuple[tuple[str, ...], Plan]]:
    """The plans that differ, each with the names of the ways that come to it."""
    names: dict[Plan, list[str]] = {}
    for one in candidates:
        names.setdefault(Plan((one.tree,)), []).append(one.name)
    for plan, known in names.items():
        yield tuple(known), plan


def run(plan: Plan, size: Size, events: Sequence[Event], gaps: Floats | None = None) -> tuple[Floats, Floats]:
    """Push events at their moments (None: one after the other) once the first ones have filled the window.

    Gives for each what it took from its arrival, and how many matches it completed.
    """
    engine = ensue.Engine(QUERY.format(window=size.window), SCHEMA, plan=plan)
    push, clock = engine.push_event, time.perf_counter
    for event in events[: size.warm_up]:
        push(event)
    arrivals = [0.0] * size.events if gaps is None else np.cumsum(gaps).tolist()
    taken, matches = [], []
    gc.collect()
    gc.disable()
    begin = clock() + 1e-3
    for arrival, event in zip(arrivals, events[size.warm_up :], strict=True):
        now = clock()
        arrived = now if gaps is None else begin + arrival
        while now < arrived:
            now = clock()
        found = push(event)
        taken.append(clock() - arrived)
        matches.append(len(found))
    gc.enable()
    return np.array(taken), np.array(matches)


def queue(services: Floats, gaps: Floats) -> Floats:
    """How long each event waits: for what is left of those before it when it arrives."""
    ahead = np.cumsum(np.concatenate([[0.0], services[:-1]]) - np.concatenate([[0.0], gaps[1:]]))
    waits: Floats = ahead - np.minimum.accumulate(np.minimum(ahead, 0.0))
    return waits


def measure(streams: Sequence[tuple[Floats, Mask]], rate: float, seed: int) -> Measured:
    """The times of the last events of matches with random arrivals at that rate, over all streams."""
    rng = np.random.default_rng(seed)
    waits, services = [], []
    for taken, is_last in streams:
        for _ in range(ARRIVALS):
            waits.append(queue(taken, rng.exponential(1 / rate, len(taken)))[is_last])
            services.append(taken[is_last])
    waited, served = np.concatenate(waits), np.concatenate(services)
    return Measured(float(waited.mean()), float(served.mean()), float(np.median(waited + served)))


def experiment(number: int, size: Size, timings: Timings, console: Console, seed: int = 0) -> list[Row]:
    """One of the three, at all rates."""
    seed = 100 * seed + 10 * number
    length = size.warm_up + size.events
    streams = [make_events(length, EXPERIMENTS[number], seed + k) for k in range(size.streams)]
    selectivities = selectivities_of(streams)
    plans = list(distinct(find_candidates(figures_at(selectivities, size.window, 1000.0), timings)))
    taken: list[list[tuple[Floats, Mask]]] = [[] for _ in plans]
    for events in streams:
        # in turns, so that what else the machine does meets all plans alike
        runs = [[run(plan, size, events) for _, plan in plans] for _ in range(size.repeats)]
        for place in range(len(plans)):
            times = np.min([turn[place][0] for turn in runs], axis=0)
            taken[place].append((times, runs[0][place][1] > 0))
    means = [float(np.mean([times.mean() for times, _ in one])) for one in taken]
    console.print(f"experiment {number}, {size.window:,} events: an event takes {', '.join(map(micro, means))} µs")
    rows = []
    for utilisation in UTILISATIONS:
        rate = utilisation / min(means)
        costs = Costs(figures_at(selectivities, size.window, rate))
        cells = [
            Cell(names, latency_of(costs, plan.trees[0], timings), measure(one, rate, seed))
            for (names, plan), one in zip(plans, taken, strict=True)
        ]
        rows.append(Row(number, size.window, utilisation, rate, tuple(cells)))
        if utilisation == OPEN_LOOP:
            gaps = np.random.default_rng(seed).exponential(1 / rate, size.events)
            runs = [run(plans[rows[-1].chosen][1], size, events, gaps) for events in streams[:3]]
            rows[-1] = replace(rows[-1], open_loop=min(float(np.median(found[m > 0])) for found, m in runs))
        console.print(describe(rows[-1]))
    return rows


def micro(seconds: float) -> str:
    """Microseconds, short."""
    return "∞" if math.isinf(seconds) else f"{seconds * 1e6:,.1f}"


def describe(row: Row) -> str:
    """A row in a line: the measured latencies, the chosen one in brackets."""
    parts = []
    for place, cell in enumerate(row.cells):
        text = f"{cell.measured.latency * 1e6:.1f}"
        parts.append(f"[{text}]" if place == row.chosen else text)
    return f"  utilisation {row.utilisation:4.2f}: {'  '.join(parts)} µs, {row.loss:.2f} of the best"


def tabulate(rows: Sequence[Row]) -> Grid:
    """One experiment as a table: a line for each plan and rate."""
    heads = ("ρ", "events/s", "eager / lazy", "queue", "service", "latency", "median", "expected", "expected ρ", "")
    lines = []
    for row in rows:
        best = min(cell.measured.latency for cell in row.cells)
        for place, cell in enumerate(row.cells):
            found, expected = cell.measured, cell.expected
            marks = ["chosen"] * (place == row.chosen) + ["best"] * (found.latency == best)
            times = map(micro, (found.wait, found.service, found.latency, found.middle, expected.expected))
            cause = (f"{row.utilisation:g}", f"{row.rate:,.0f}") if place == 0 else ("", "")
            utilisation = f"{expected.utilisation:.2f}"
            lines.append((*cause, " = ".join(cell.names), *times, utilisation, ", ".join(marks)))
    first = rows[0]
    return Grid(f"Experiment {first.experiment}, a window of {first.window:,} events (µs)", heads, tuple(lines))


def summarize(rows: Sequence[Row]) -> Grid:
    """How good the choices were: against the best plan, all eager and all lazy, the worst of all rates."""
    heads = ("experiment", "window", "chosen is best or within 10 %", "worst: of the best", "of eager", "of lazy")
    lines = []
    for key in dict.fromkeys((row.experiment, row.window) for row in rows):
        mine = [row for row in rows if (row.experiment, row.window) == key]
        near = sum(row.loss <= 1.1 for row in mine)
        worst = (max(row.loss for row in mine), max(row.compared(-1) for row in mine), max(r.compared(0) for r in mine))
        numbers = (f"{one:.2f}" for one in worst)
        lines.append((str(key[0]), f"{key[1]:,}", f"{near} of {len(mine)} rates", *numbers))
    return Grid("The choice by the model", heads, tuple(lines))


def correlate(rows: Sequence[Row]) -> float:
    """The correlation of the logarithms of expected and measured latencies, where both are finite."""
    pairs = [(c.expected.expected, c.measured.latency) for row in rows for c in row.cells]
    finite = np.log([pair for pair in pairs if math.isfinite(pair[0])])
    return float(np.corrcoef(finite.T)[0, 1])


def plot(rows: Sequence[Row], path: Path) -> None:
    """Latencies by utilisation, the chosen plans ringed; and expected against measured ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    keys = list(dict.fromkeys((row.experiment, row.window) for row in rows))
    figure, axes = plt.subplots(2, len(keys), figsize=(4 * len(keys), 7.5), squeeze=False)
    for k, (number, window) in enumerate(keys):
        mine = [row for row in rows if (row.experiment, row.window) == (number, window)]
        by_rate, fit = axes[0][k], axes[1][k]
        for place, cell in enumerate(mine[0].cells):
            latencies = [row.cells[place].measured.latency * 1e6 for row in mine]
            by_rate.plot([row.utilisation for row in mine], latencies, marker=".", label=cell.names[-1])
            finite = [row.cells[place] for row in mine if math.isfinite(row.cells[place].expected.wait)]
            expected = [one.expected.expected * 1e6 for one in finite]
            fit.plot(expected, [one.measured.latency * 1e6 for one in finite], marker=".", ls="", label=cell.names[-1])
        chosen = [row.cells[row.chosen].measured.latency * 1e6 for row in mine]
        by_rate.plot([row.utilisation for row in mine], chosen, "o", mfc="none", mec="black", ms=11, label="chosen")
        low, high = fit.get_xlim()
        fit.plot([low, high], [low, high], color="grey", lw=0.8)
        by_rate.set(title=f"experiment {number}, {window:,} events", xlabel="utilisation", yscale="log")
        fit.set(xlabel="expected, µs", xscale="log", yscale="log")
        by_rate.legend(fontsize=7)
    axes[0][0].set_ylabel("latency, µs")
    axes[1][0].set_ylabel("measured, µs")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def raise_priority() -> str:
    """Keep others from the processor meanwhile, where that is allowed."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        return "with the highest priority"
    except OSError:
        return "with the usual priority: what else ran took its time from it"


def main() -> None:
    """Run the experiments, show the tables and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few events, no repeats: whether it runs, not how fast")
    parser.add_argument("--seed", type=int, default=0, help="other streams and arrivals [0]")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where tables and plots go")
    asked = parser.parse_args()
    console = Console(width=150, highlight=False)
    full = [Size(2000, 10_000, 30_000, 8, 3), Size(6000, 10_000, 30_000, 8, 3)]
    sizes = [Size(2000, 4_000, 12_000, 3, 1)] if asked.quick else full
    priority = raise_priority()
    timings = measure_timings(9)
    console.print(f"{timings}, {priority}")
    parts = [experiment(number, size, timings, console, asked.seed) for size in sizes for number in EXPERIMENTS]
    rows = [row for part in parts for row in part]
    groups = [[row for row in rows if (row.experiment, row.window) == key] for key in dict.fromkeys(map(key_of, rows))]
    grids = [summarize(rows), *map(tabulate, groups)]
    grids[0].show(console)
    idle = [row.open_loop for row in rows if row.open_loop is not None and row.window == sizes[0].window]
    notes = [
        f"With real arrivals at utilisation {OPEN_LOOP} the median latency of the chosen plans is {micro(max(idle))} µs"
        f" at most ({sizes[0].window:,} events).",
        f"Correlation of the logarithms of expected and measured latency: {correlate(rows):.2f}.",
        f"T_PE {timings.predicate * 1e9:.2f} ns, T_RC {timings.result * 1e9:.0f} ns,"
        f" T_BI {timings.insert * 1e6:.2f} µs, to report a match {timings.report * 1e6:.2f} µs; run {priority}.",
    ]
    console.print("\n".join(notes))
    asked.results.mkdir(exist_ok=True)
    title = f"# Latency of eager, lazy and hybrid plans\n\n`make paper-apam` with seed {asked.seed}. "
    text = title + "\n".join(notes) + "\n\n"
    (asked.results / "paper-apam.md").write_text(text + "\n".join(grid.markdown() for grid in grids), encoding="utf-8")
    plot(rows, asked.results / "paper-apam.png")


def key_of(row: Row) -> tuple[int, int]:
    """What one table is about."""
    return row.experiment, row.window


if __name__ == "__main__":
    main()
