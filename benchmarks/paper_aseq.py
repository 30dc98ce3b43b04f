"""Counting without matches, beside finding the matches first: the figures of the A-Seq paper (`make paper-aseq`).

Tables in results/paper-aseq.md and plots beside it: time a slide and peak objects against two-step evaluation by the
same engine for several lengths and windows (Fig. 12, 13), longer patterns and windows, and absences (Fig. 14), and
what queries save that share counters (Fig. 15, 16), up to a thousand of them; and on Spark, groups beside a pipeline
that only moves the events. A slide is an event: one comes each millisecond, of one of so many types. Time is CPU time
of a window that is full, the least of a few runs; what is compared takes turns.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from report import Grid, short
from rich.console import Console

import ensue
from ensue.planning.aggregates import Method
from ensue.runtime.detected import DetectedState
from ensue.runtime.kernels import sub_patterns_layout as lay
from ensue.runtime.sub_patterns import SubPatternEvaluator

mpl.use("Agg")

TYPES = 20
UNLIMITED = {"max_matches": None, "max_partial_matches": None}
SHARING = [{"share": False}, {"share": True}]


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Figure:
    """A table, and a plot of it."""

    name: str
    grid: Grid
    x: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Run:
    """Nanoseconds a slide, and the most that was kept at one time: events, counters or matches."""

    nanoseconds: float
    objects: int


def make_stream(events: int, types: int, seed: int) -> pa.Table:
    """Events of so many types, one a millisecond, with a number and a key of 100."""
    dice = np.random.default_rng(seed)
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(dice.integers(0, types, events), pa.int32()), pa.array([f"T{n}" for n in range(types)])
    )
    return pa.table(
        {"type": kinds, "ts": np.arange(events), "x": dice.integers(0, 100, events), "k": dice.integers(0, 100, events)}
    )


def sequence(types: Sequence[int | str], window: int, name: str = "q", more: str = "") -> str:
    """A query that counts the matches of a sequence; `!3` is an absence."""
    items = ", ".join(f"{'!' if str(t)[0] == '!' else ''}T{str(t).lstrip('!')} v{n}" for n, t in enumerate(types))
    return f"QUERY {name} PATTERN SEQ({items}) WITHIN {window} AGG COUNT(*) {more}"


def count_objects(engine: Any) -> int:
    """What an engine keeps for its AGG queries."""
    total = 0
    for tally in engine._tallies:
        state = tally.state
        if isinstance(state, DetectedState):
            total += len(state.events) + len(state.matches)
        elif isinstance(tally.evaluator, SubPatternEvaluator):
            total += int(state.counts[lay.H_TAIL] - state.counts[lay.H_HEAD]) + tally.evaluator.patterns.nodes
    return total


def measure(
    text: str,
    stream: pa.Table,
    window: int,
    *,
    batch: int,
    budget: float,
    repeats: int = 3,
    plan: Any = None,
    share: bool = True,
) -> Run:
    """Fill a window, then push batches until the time is spent or the stream ends; the quickest of a few runs.

    What costs little is pushed in larger batches, so that not the push is measured; only the last size counts.
    """
    best, objects = float("inf"), 0
    spent = 0.0
    for _ in range(repeats):
        engine = ensue.compile(text, plan=plan, options=ensue.Options(**UNLIMITED, share_counters=share))
        engine.push(stream.slice(0, window))
        start, used, size = window, 0.0, batch
        events, seconds = 0, 0.0
        while start < stream.num_rows and used < budget:
            piece = stream.slice(start, size)
            began = time.process_time()
            engine.push(piece)
            took = time.process_time() - began
            used += took
            start += len(piece)
            events, seconds = events + len(piece), seconds + took
            objects = max(objects, count_objects(engine))
            if (
                batch < 4096
                and took < 0.05
                and size < 4096
                and used < budget / 2
                and stream.num_rows - start > 4 * size
            ):
                size, events, seconds = 2 * size, 0, 0.0
        best = min(best, 1e9 * seconds / events)
        spent += used
        if spent > budget:
            break
    return Run(best, objects)


@dataclass(frozen=True)
class Bench:
    """How long things may take: `events` of a stream, and CPU seconds for one cell of two-step evaluation.

    What takes turns is run so many `rounds`.
    """

    events: int
    budget: float
    seed: int
    rounds: int = 5

    def counted(self, text: str, types: int, window: int, **more: Any) -> Run:
        return self.in_turns([text], types, window, [more])[0]

    def in_turns(self, texts: Sequence[str], types: int, window: int, ways: Sequence[dict[str, Any]]) -> list[Run]:
        """Each text in its way, one after the other, several times; the best run of each."""
        stream = make_stream(window + self.events, types, self.seed)
        runs = [
            [
                measure(text, stream, window, batch=65_536, budget=60, repeats=1, **way)
                for text, way in zip(texts, ways, strict=True)
            ]
            for _ in range(self.rounds)
        ]
        return [min(tried, key=lambda run: run.nanoseconds) for tried in zip(*runs, strict=True)]

    def two_step(self, text: str, types: int, window: int) -> Run:
        stream = make_stream(window + 20_000, types, self.seed)
        plan = dict.fromkeys((query.name or "" for query in ensue.compile(text).queries), Method.DETECTION)
        return measure(text, stream, window, batch=20, budget=self.budget, repeats=2, plan=plan)

    # -- one query ---------------------------------------------------------------------------------------------------
    def lengths(self) -> Figure:
        """Fig. 12: length 2 to 5, window 1000."""
        cases = [(length, sequence(range(length), 1000), 1000) for length in range(2, 6)]
        return self._compare("length", "Pattern length, window 1000 ms", "length", cases)

    def windows(self) -> Figure:
        """Fig. 13: window 100 to 1000, length 3."""
        cases = [(window, sequence(range(3), window), window) for window in (100, 200, 400, 600, 800, 1000)]
        return self._compare("window", "Window, pattern length 3", "window (ms)", cases)

    def _compare(self, name: str, title: str, x: str, cases: Sequence[tuple[int, str, int]]) -> Figure:
        rows, slow, fast = [], [], []
        for value, text, window in cases:
            two, one = self.two_step(text, TYPES, window), self.counted(text, TYPES, window)
            slow.append(two.nanoseconds)
            fast.append(one.nanoseconds)
            gain = two.nanoseconds / one.nanoseconds
            rows.append(
                (
                    str(value),
                    f"{two.nanoseconds:,.0f}",
                    f"{one.nanoseconds:.0f}",
                    f"{gain:,.0f}x",
                    short(two.objects),
                    short(one.objects),
                )
            )
        heads = (x, "two-step, ns a slide", "counted, ns a slide", "gain", "objects, two-step", "objects, counted")
        places = tuple(float(value) for value, _, _ in cases)
        series = (Series("two-step", places, tuple(slow)), Series("counted", places, tuple(fast)))
        return Figure(name, Grid(title, heads, tuple(rows)), x, "ns a slide", series)

    def long_patterns(self) -> Figure:
        """Fig. 14a: length 6 to 10, window 2000."""
        found = [(n, self.counted(sequence(range(n), 2000), TYPES, 2000)) for n in range(6, 11)]
        rows = tuple((str(n), f"{run.nanoseconds:.0f}", short(run.objects)) for n, run in found)
        series = Series("counted", tuple(float(n) for n, _ in found), tuple(run.nanoseconds for _, run in found))
        grid = Grid("Long patterns, window 2000 ms", ("length", "ns a slide", "objects"), rows)
        return Figure("long", grid, "length", "ns a slide", (series,))

    def starts(self) -> Figure:
        """The time of an event whatever the window holds."""
        found = []
        for live in (100, 1000, 10_000, 100_000):
            ways = [{}, {"plan": Method.STACKS}, *([{"plan": Method.PER_START}] if live < 1000 else [])]
            runs = self.in_turns([sequence(range(4), 4 * live)] * len(ways), 4, 4 * live, ways)
            found.append((live, [run.nanoseconds for run in runs]))
        rows = tuple((f"{live:,}", *(f"{ns:.0f}" for ns in times), *["–"] * (3 - len(times))) for live, times in found)
        heads = ("live starts", "sub-patterns, ns an event", "two stacks", "a counter a start (the paper)")
        x = tuple(float(live) for live, _ in found)
        names = ("sub-patterns", "two stacks")
        series = tuple(Series(name, x, tuple(times[k] for _, times in found)) for k, name in enumerate(names))
        return Figure("starts", Grid("Live starts, length 4", heads, rows), "live starts", "ns an event", series)

    def absences(self) -> Figure:
        """Fig. 14b: with and without an absence; and with an item in its place, of which as many events are read."""
        patterns: list[list[int | str]] = [[0, 1, 2], [0, 1, "!3", 2], [0, "!3", 1, 2], [0, 1, 3, 2]]
        texts = [sequence(types, 1000) for types in patterns]
        slow = [self.two_step(text, TYPES, 1000).nanoseconds for text in texts[:3]]
        fast = [run.nanoseconds for run in self.in_turns(texts, TYPES, 1000, [{}] * len(texts))]
        rows = tuple(
            (
                ", ".join(f"T{one}".replace("T!", "!T") for one in types),
                *((f"{slow[k]:,.0f}", f"{slow[k] / slow[0]:.2f}x") if k < len(slow) else ("–", "–")),
                f"{fast[k]:.1f}",
                f"{fast[k] / fast[0]:.2f}x",
            )
            for k, types in enumerate(patterns)
        )
        heads = ("pattern", "two-step, ns a slide", "to without", "counted", "to without")
        x = (0.0, 1.0)
        series = (Series("two-step", x, tuple(slow[:2])), Series("counted", x, tuple(fast[:2])))
        return Figure("absence", Grid("An absence, window 1000 ms", heads, rows), "absences", "ns a slide", series)

    # -- several queries ---------------------------------------------------------------------------------------------
    def three_queries(self) -> Figure:
        """Fig. 15: three queries by each way."""
        text = ";".join(sequence([9, *range(3), 10 + n], 400, f"q{n}") for n in range(3))
        two = self.two_step(text, TYPES, 400)
        apart, together = self.in_turns([text] * 2, TYPES, 400, SHARING)
        runs = {"two-step": two, "counted apart": apart, "counted together": together}
        rows = tuple((name, f"{run.nanoseconds:,.0f}", short(run.objects)) for name, run in runs.items())
        places = tuple(float(n) for n in range(3))
        series = (Series("three queries", places, tuple(run.nanoseconds for run in runs.values())),)
        grid = Grid("Three queries with three items in common, window 400 ms", ("way", "ns a slide", "objects"), rows)
        return Figure("three", grid, "way", "ns a slide", series)

    def prefixes(self) -> Figure:
        """Fig. 16b: three queries, a common prefix of 2 to 6 items."""
        cases = [(n, n + 3, [[*range(n), n + k] for k in range(3)]) for n in range(2, 7)]
        return self._share("prefix", "Three queries with a common prefix", "length of the prefix", cases)

    def middles(self) -> Figure:
        """Fig. 16c: three queries, a common part of 2 to 6 items in the middle."""
        cases = [(n, n + 6, [[n + k, *range(n), n + 3 + k] for k in range(3)]) for n in range(2, 7)]
        return self._share("middle", "Three queries with a common part in the middle", "length of the part", cases)

    def prefix_queries(self) -> Figure:
        """Fig. 16a: 2 to 6 queries with a prefix of three."""
        cases = [(k, 3 + k, [[0, 1, 2, 3 + j] for j in range(k)]) for k in range(2, 7)]
        return self._share("prefix-queries", "Queries with a common prefix of three", "queries", cases)

    def middle_queries(self) -> Figure:
        """Fig. 16d: 2 to 6 queries with a part of three."""
        cases = [(k, 3 + 2 * k, [[3 + j, 0, 1, 2, 3 + k + j] for j in range(k)]) for k in range(2, 7)]
        return self._share("middle-queries", "Queries with a common part of three in the middle", "queries", cases)

    def _share(self, name: str, title: str, x: str, cases: Sequence[tuple[int, int, list[list[int]]]]) -> Figure:
        rows, slow, fast = [], [], []
        for value, types, patterns in cases:
            text = ";".join(sequence(one, 1000, f"q{n}") for n, one in enumerate(patterns))
            apart, together = self.in_turns([text] * 2, types, 1000, SHARING)
            slow.append(apart.nanoseconds)
            fast.append(together.nanoseconds)
            gain = apart.nanoseconds / together.nanoseconds
            rows.append((str(value), f"{apart.nanoseconds:.0f}", f"{together.nanoseconds:.0f}", f"{gain:.2f}x"))
        places = tuple(float(value) for value, _, _ in cases)
        series = (Series("apart", places, tuple(slow)), Series("shared", places, tuple(fast)))
        grid = Grid(title, (x, "apart, ns an event", "shared, ns an event", "gain"), tuple(rows))
        return Figure(name, grid, x, "ns an event", series)

    def thousand(self) -> Figure:
        """Many queries on one stream: pieces of a few processes, three windows, some with keys, conditions and sums."""
        rows, slow, fast = [], [], []
        cases = ((10, 65_536), (100, 65_536), (1000, 4096), (1000, 65_536))
        for size, batch in cases:
            text = mixed_queries(size, self.seed)
            stream = make_stream(5_000 + 65_536, TYPES, self.seed)
            tried = [
                [measure(text, stream, 5_000, batch=batch, budget=20, repeats=1, **way) for way in SHARING]
                for _ in range(2)
            ]
            apart, together = (min(run.nanoseconds for run in runs) for runs in zip(*tried, strict=True))
            slow.append(apart)
            fast.append(together)
            rows.append((f"{size:,}", f"{batch:,}", f"{apart:,.0f}", f"{together:,.0f}", f"{apart / together:.1f}x"))
        heads = ("queries", "events a batch", "apart, ns an event", "shared, ns an event", "gain")
        grid = Grid("Mixed queries", heads, tuple(rows))
        places = tuple(float(size) for size, batch in cases if batch > 4096)
        kept = [k for k, (_, batch) in enumerate(cases) if batch > 4096]
        series = tuple(
            Series(name, places, tuple(times[k] for k in kept)) for name, times in (("apart", slow), ("shared", fast))
        )
        return Figure("thousand", grid, "queries", "ns an event", series)

    def on_spark(self) -> Figure:
        """COUNT with GROUP BY on Spark, beside a pipeline that moves the same events and does nothing with them."""
        size = str(2 * self.events)
        with tempfile.TemporaryDirectory() as folder:
            script = str(Path(__file__).with_name("spark.py"))
            command = [sys.executable, script, "--rows", size, "--inside", "aggregates", "--folder", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        times = {what: tuple(line[what][0] / line["rows"] * 1e6 for line in found) for what in ("no_op", "detect")}
        rows = tuple(
            (f"{line['keys']:,}", f"{line['told']:,}", f"{no_op:.2f}", f"{own:.2f}", f"{own / no_op:.2f}x")
            for line, no_op, own in zip(found, times["no_op"], times["detect"], strict=True)
        )
        heads = ("groups", "rows out", "no-op, µs an event", "counted", "counted / no-op")
        places = tuple(float(line["keys"]) for line in found)
        series = (Series("no-op", places, times["no_op"]), Series("counted", places, times["detect"]))
        title = f"On Spark, {found[0]['rows']:,} events, CPU time of all processes"
        return Figure("spark", Grid(title, heads, rows), "groups", "µs an event", series)


def mixed_queries(size: int, seed: int) -> str:
    """Pieces of twenty processes of eight steps."""
    rng = random.Random(seed)
    processes = [[rng.randrange(TYPES) for _ in range(8)] for _ in range(20)]
    texts = []
    for number in range(size):
        process, length = rng.choice(processes), rng.randint(2, 6)
        start = rng.randint(0, 8 - length)
        query = sequence(process[start : start + length], rng.choice((200, 1000, 5000)), f"q{number}")
        kind = rng.random()
        if kind < 0.2:
            query += " GROUP BY k"
        elif kind < 0.4:
            query = query.replace("COUNT(*)", "COUNT(*), SUM(v0.x)")
        elif kind < 0.5:
            query = query.replace(" WITHIN", " WHERE v0.x < 50 WITHIN")
        texts.append(query)
    return ";\n".join(texts)


def plot(figure: Figure, folder: Path) -> None:
    """A figure as a picture."""
    import matplotlib.pyplot as plt

    canvas, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for one in figure.series:
        axes.plot(one.x, one.y, marker="o", label=one.name)
    highest = max(max(one.y) for one in figure.series)
    least = min(min(one.y) for one in figure.series)
    axes.set(title=figure.grid.title, xlabel=figure.x, ylabel=figure.y)
    if highest > 50 * least:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if figure.series[0].x[-1] > 50 * figure.series[0].x[0] > 0:
        axes.set_xscale("log")
    axes.legend()
    canvas.savefig(folder / f"paper-aseq-{figure.name}.svg")
    plt.close(canvas)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter streams, for a first look")
    parser.add_argument("--only", action="append", help="a figure by its name, such as length or prefix; several times")
    parser.add_argument("--seed", type=int, default=2026, help="of the streams and of the mixed queries [2026]")
    parser.add_argument("--output", type=Path, default=Path("results/paper-aseq.md"))
    asked = parser.parse_args()
    bench = Bench(100_000, 2.0, asked.seed, 3) if asked.quick else Bench(1_000_000, 15.0, asked.seed)
    figures: dict[str, Callable[[], Figure]] = {
        "length": bench.lengths,
        "window": bench.windows,
        "long": bench.long_patterns,
        "starts": bench.starts,
        "absence": bench.absences,
        "three": bench.three_queries,
        "prefix": bench.prefixes,
        "prefix-queries": bench.prefix_queries,
        "middle": bench.middles,
        "middle-queries": bench.middle_queries,
        "thousand": bench.thousand,
        "spark": bench.on_spark,
    }
    unknown = set(asked.only or ()) - set(figures)
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: there are {', '.join(figures)}")
    bench.two_step(sequence([0, "!1", 2], 20), 3, 20)  # loads compiled code
    console, made = Console(), []
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    for name, make in figures.items():
        if not asked.only or name in asked.only:
            made.append(make())
            made[-1].grid.show(console)
            plot(made[-1], asked.output.parent)
    parts = [f"{one.grid.markdown()}\n![{one.name}](paper-aseq-{one.name}.svg)\n" for one in made]
    asked.output.write_text("\n".join(parts), encoding="utf-8")
    console.print(f"written to {asked.output}")


if __name__ == "__main__":
    main()
