"""Kolchinsky and Schuster's experiment: adaptation methods over streams that drift (`make paper-adaptive`).

Five sets of patterns of sizes 3 to 8, over generated streams (and your files, with --traffic and --stocks), by the
greedy planner and ZStream's: a plan that stays, one that is made anew at each check, by a threshold, and by invariants.
In the parts called fixed, methods are checked at the same events and costs alone decide, as in the paper, so that runs
can be repeated and nothing but D tells methods apart; in the others they check, race and replace as the engine does by
itself. Before that t and d are scanned on sequences in the same way as in the fixed parts, on streams of another seed
than those that are reported; beside it there are a stream whose rates invert half way and one without drift. Each part
adds its numbers to results/paper-adaptive.json; results/paper-adaptive.md and the plots are made of all that is there.
Time is CPU time; the methods take turns of some batches.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import adaptive_report
import numpy as np
import pyarrow as pa
from adaptive_cells import (
    EVENTS,
    GENERATED,
    REPORTED,
    SETS,
    SETTLED,
    SIZES,
    Dataset,
    make_pattern,
    read_stocks,
    read_traffic,
)
from adaptive_plots import draw_plots
from adaptive_results import BASIC, DEFAULT, FILES, FIXED, STATIC_TWIN, STREAMS, CellResult, best_parameters, read_cell
from adaptive_runs import (
    BATCH,
    MOST_RUNS,
    REPEATS,
    RUN,
    Cell,
    Outcome,
    Runner,
    first_plan,
    fit_length,
    fit_window,
    invariants,
    methods,
    warm_up,
)
from adaptive_windows import WINDOWS
from rich.console import Console
from workers import make_pool, results_of

from ensue.planning.decisions import ByInvariants, Decision, Threshold
from ensue.planning.distances import AverageDistance, ConstantDistance, TunedDistance

PLANNERS = ("greedy", "zstream")
DISTANCES = (0.0, 0.1, 0.2, 0.3, 0.5)
THRESHOLDS = (0.25, 0.5, 1.0)
PARTS = ("inverted", "steady", "scan", *STREAMS)
CHECKS = 63.6
"""How many checks a stream sees where all methods are checked at the same events. Shifts come at quarters of it: with
4 k + 3.6 checks a tenth, two and three tenths of the time between two checks before the next one. How dear the plan in
use becomes at a shift is chance, and where checks come with shifts, or just before, it is most of what one sees."""
STREAMS_A_CELL = 3
"""Over how many streams each pattern is run: what a shift does to the plan in use, until the next check, is chance."""


@dataclass(frozen=True)
class Job:
    """One pattern over one dataset, by both planners."""

    part: str
    dataset: str
    path: Path | None
    kind: str
    size: int
    events: int | None
    seed: int
    run: float  # seconds, if the number of events is not given
    repeats: int
    checks: float
    parameters: tuple[tuple[str, tuple[float, float]], ...] = ()  # t and d, of each planner

    def tried(self, planner: str) -> dict[str, Decision | None]:
        if self.part == "scan":
            found: dict[str, Decision | None] = {f"d = {d:g}": invariants(ConstantDistance(d)) for d in DISTANCES}
            found |= {f"t = {t:g}": Threshold(t) for t in THRESHOLDS}
            return found | {"d_avg": invariants(AverageDistance()), BASIC: ByInvariants()}
        return methods(*dict(self.parameters).get(planner, (0.5, 0.1)))


def dataset_named(name: str, path: Path | None) -> Dataset:
    if path is not None:
        return (read_traffic if name == "traffic file" else read_stocks)(path)
    return GENERATED[name]


def make_cell(
    dataset: Dataset, kind: str, size: int, events: int | None, seed: int, run: float = RUN, checks: float | None = None
) -> Cell:
    """A pattern with its window and its stream: one that is known, or else one that is found out."""
    pattern = make_pattern(dataset, kind, size, seed)
    known = WINDOWS.get(seed, {}).get(f"{dataset.name} {kind}", {}).get(size)
    window = known or fit_window(dataset, pattern, EVENTS, seed)
    length = events or fit_length(dataset, pattern, window, seed, run)
    every = None
    if checks is not None:
        every = max(1, round(length / checks / BATCH)) * BATCH
        length = events or round(checks * every)
    table = dataset.make(pattern.types, length, seed)
    return Cell(dataset, pattern, window, table, every)


def is_fixed(part: str) -> bool:
    """Whether all methods are checked at the same events, and costs alone decide."""
    return part == "scan" or part.endswith(FIXED)


def do(job: Job) -> list[dict[str, Any]]:
    """Run all methods by both planners."""
    checks = job.checks if is_fixed(job.part) else None
    cell = make_cell(dataset_named(job.dataset, job.path), job.kind, job.size, job.events, job.seed, job.run, checks)
    repeats = 1 if job.part == "scan" else job.repeats
    most = MOST_RUNS * job.run
    return [summarize(cell, job, one, cell.run(one, job.tried(one), repeats, most)) for one in PLANNERS]


def summarize(cell: Cell, job: Job, planner: str, outcomes: list[Outcome]) -> dict[str, Any]:
    pattern, name = cell.pattern, cell.dataset.name
    of_stream = (cell.query, outcomes[0].events, cell.table.num_rows)
    return asdict(CellResult(name, pattern.kind, pattern.size, planner, *of_stream, outcomes, job.seed))


# -- two streams for themselves --------------------------------------------------------------------------------------
INVERTED = "PATTERN AND(A a, B b, C c, D d) WHERE a.x < b.x AND b.y < c.y AND c.z < d.z WITHIN 1600"


def inverted_stream(events: int) -> pa.Table:
    """Four types with rates as 100 : 22 : 5 : 1, from the middle on the other way round; attributes fall by type."""
    dice = np.random.default_rng(3)
    shares = np.array((100, 22, 5, 1)) / 128
    kinds = np.concatenate([dice.choice(4, events // 2, p=p) for p in (shares, shares[::-1])])
    names = pa.DictionaryArray.from_arrays(pa.array(kinds, pa.int32()), pa.array(list("ABCD")))
    falling = {name: dice.normal(-2.3 * kinds) for name in "xyz"}
    return pa.table({"type": names, "ts": np.arange(len(kinds)), **falling})


def do_inverted(planner: str, events: int) -> list[dict[str, Any]]:
    """CPU seconds of each sixteenth of the stream, of the plan that stays and of the engine as it adapts by default."""
    events = events // (16 * BATCH) * 16 * BATCH
    table = inverted_stream(events)
    plan = first_plan(INVERTED, table.slice(0, events // 8), planner)
    default = invariants(TunedDistance(start=0.1))
    runners = [Runner(name, INVERTED, plan, planner, one) for name, one in (("static", None), ("adaptive", default))]
    marks: dict[str, list[float]] = {runner.method: [] for runner in runners}
    for start in range(0, events, BATCH):
        for runner in runners:
            runner.push(table.slice(start, BATCH))
            if (start + BATCH) % (events // 16) == 0:
                marks[runner.method].append(runner.seconds)
    found = [runner.finish() for runner in runners]
    assert found[0].checksum == found[1].checksum, "the plans find different matches"
    parts = {name: np.diff([0.0, *ends]).tolist() for name, ends in marks.items()}
    told = {"planner": planner, "events": events, "query": INVERTED}
    return [{**told, "replaced": found[1].replaced, "seconds": parts}]


def do_steady(job: Job) -> list[dict[str, Any]]:
    """A stream without drift: the plan that stays, and the engine as it adapts by default."""
    cell = make_cell(GENERATED["steady"], job.kind, job.size, job.events, job.seed, job.run)
    tried = {"static": None, STATIC_TWIN: None, DEFAULT: invariants(TunedDistance(start=0.1))}
    most = MOST_RUNS * job.run
    return [summarize(cell, job, one, cell.run(one, tried, job.repeats + 1, most)) for one in PLANNERS]


def fit_all(
    pool: ProcessPoolExecutor, seed: int, parts: Sequence[str], sets: Sequence[str], sizes: Sequence[int]
) -> None:
    """Print the windows of some parts anew, to be put into adaptive_windows.py."""
    names = [name for name in GENERATED if name in parts]
    wanted = [(name, kind, size, seed) for name in names for kind in sets for size in sizes]
    found = pool.map(fit_one, *zip(*wanted, strict=True))
    for (name, kind, size, _), window in zip(wanted, found, strict=True):
        print(json.dumps([f"{name} {kind}", size, window]), flush=True)


def fit_one(name: str, kind: str, size: int, seed: int) -> int:
    return fit_window(GENERATED[name], make_pattern(GENERATED[name], kind, size, seed), EVENTS, seed)


# -- the command -----------------------------------------------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes 3, 5 and 7 and short streams: a first look")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="one part (can be repeated); others stay as they are"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="some sets of patterns")
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, help="some sizes")
    parser.add_argument(
        "--events", type=int, help=f"of each stream (as many as take --run seconds; quick {EVENTS // 6:,})"
    )
    parser.add_argument("--run", type=float, default=RUN, help=f"seconds that a run should take ({RUN:g})")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"runs a method ({REPEATS}); the best counts")
    parser.add_argument("--checks", type=float, default=CHECKS, help=f"of a stream where they are fixed ({CHECKS})")
    parser.add_argument("--seed", type=int, default=REPORTED, help=f"of the streams ({REPORTED}; not of the scan)")
    parser.add_argument(
        "--streams", type=int, default=STREAMS_A_CELL, help=f"of a cell, each of a seed of its own ({STREAMS_A_CELL})"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after so many; --resume goes on")
    parser.add_argument("--resume", action="store_true", help="keep what is there, and go on with the rest")
    parser.add_argument("--fit", action="store_true", help="only find out windows for adaptive_windows.py")
    parser.add_argument("--traffic", type=Path, metavar="FILE", help="Parquet: point_id ts avg_speed vehicle_count")
    parser.add_argument("--stocks", type=Path, metavar="FILE", help="Parquet: symbol ts volume diff")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--folder", type=Path, default=Path("results"))
    asked = parser.parse_args()
    events = asked.events or (EVENTS // 6 if asked.quick else None)
    sizes = asked.sizes or (SIZES[::2] if asked.quick else SIZES)
    files = dict(zip(FILES, (asked.traffic, asked.stocks), strict=True))
    parts = asked.only or [part for part in PARTS if files.get(part.removesuffix(FIXED), True)]
    asked.folder.mkdir(parents=True, exist_ok=True)
    kept = asked.folder / "paper-adaptive.json"
    known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    console = Console(soft_wrap=True)
    stop = time.time() + 60 * asked.minutes
    with make_pool(asked.jobs, warm_up) as pool:
        if asked.fit:
            return fit_all(pool, asked.seed, parts, asked.sets, sizes)
        for part in parts:
            seed = SETTLED if part == "scan" else asked.seed
            settings = {"quick": asked.quick, "seed": seed, "run": asked.run, "repeats": asked.repeats}
            if is_fixed(part):
                settings["checks"] = asked.checks
            if not asked.resume or not is_alike(known.get(part), settings):
                known.pop(part, None)
            done = known.get(part, {"cells": []})["cells"]
            if part == "inverted":
                planners = [planner for planner in PLANNERS if planner not in {cell["planner"] for cell in done}]
                one = partial(do_inverted, events=2_000_000 // (4 if asked.quick else 1))
                running = [pool.submit(one, planner) for planner in planners]
            else:
                jobs = list_jobs(part, asked, sizes, events, seed, files, known)
                there = {(cell["kind"], cell["size"], cell["dataset"], cell["seed"]) for cell in done}
                jobs = [job for job in jobs if (job.kind, job.size, job.dataset, job.seed) not in there]
                running = [pool.submit(do_steady if part == "steady" else do, job) for job in jobs]
            started = time.time()
            for cells in results_of(running, stop):  # what is there is kept if the rest is broken off
                before = known.get(part, {"cells": [], "seconds": 0.0, **settings})
                took = before["seconds"] + time.time() - started
                known[part] = {**before, "cells": before["cells"] + cells, "seconds": took}
                kept.write_text(json.dumps(known))
                started = time.time()
                for cell in cells:
                    console.print(read_cell(cell).line if part != "inverted" else part, highlight=False)
            if time.time() > stop:
                console.print("time is up: --resume goes on with what there is left to measure", highlight=False)
                break
    adaptive_report.write(asked.folder / "paper-adaptive.md", known)
    draw_plots(asked.folder, known)
    console.print((asked.folder / "paper-adaptive.md").read_text().split("\n## ", 2)[1], highlight=False, markup=False)
    console.print(f"written to {asked.folder}/paper-adaptive.md, with plots beside it")


def is_alike(before: dict[str, Any] | None, settings: dict[str, Any]) -> bool:
    """Whether what was measured before goes together with what is measured with these settings."""
    return before is not None and all(before.get(name) == value for name, value in settings.items())


def list_jobs(
    part: str,
    asked: argparse.Namespace,
    sizes: Sequence[int],
    events: int | None,
    seed: int,
    files: dict[str, Path | None],
    known: dict[str, Any],
) -> list[Job]:
    """The jobs of a part: the scan takes sequences of both generated datasets, the others all sets of theirs.

    The first stream of all patterns comes before the second of any.
    """

    def make(name: str, kind: str, size: int, seed: int) -> Job:
        return Job(part, name, path, kind, size, events, seed, asked.run, asked.repeats, asked.checks, parameters)

    name = part.removesuffix(FIXED)
    path = files.get(name)
    parameters: tuple[tuple[str, tuple[float, float]], ...] = ()
    if part == "scan":
        return [make(one, "sequence", size, seed) for size in sizes for one in ("traffic-like", "stock-like")]
    if part != "steady":
        like = {"traffic file": "traffic-like", "stocks file": "stock-like"}.get(name, name)
        parameters = tuple((p, best_parameters(known, like, p)) for p in PLANNERS)
    if name in files and path is None:
        raise SystemExit(f"{part}: say which with --{part.split()[0]} FILE")
    wanted = sizes[::2] if part == "steady" else sizes
    seeds = range(seed, seed + asked.streams)
    return [make(name, kind, size, one) for one in seeds for size in wanted for kind in asked.sets]


if __name__ == "__main__":
    main()
