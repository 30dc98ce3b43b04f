"""The benchmark: ensue beside a loop in Python, a join in DuckDB and a kernel in C, all of which have to agree.

python benchmarks/run.py [--quick] [--events N] [--only NAME]... [--budget SECONDS] [--repeats N] [--peers-only]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import c_kernel
import duckdb_join
import python_loop
import report
from footprint import measure_apart, measure_start
from measuring import Job, Prepare, Timing, measure
from report import Grid, Line
from rich.console import Console
from workloads import BLOCK, WORKLOADS, Columns, Workload, find

RESULT = Path(__file__).parent.parent / "results" / "bench.md"
WHOLE = ("strings", "memory", "latency", "start")
"""What is measured besides the table of queries, by the name that --only takes."""

WIDTH = 150
"""The tables need so many columns; a narrower terminal wraps their lines, which is better than words cut in two."""

TYPICAL = "kernel-0.2"
"""The workload on which memory, latency and plain strings are measured."""


def read_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure ensue beside a Python loop, DuckDB and C.")
    parser.add_argument("--quick", action="store_true", help="100,000 events and one run each: a first look")
    parser.add_argument("--events", type=int, help="events of each stream [1,000,000; with --quick 100,000]")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help=f"only these: a workload or the start of its name ({', '.join(w.name for w in WORKLOADS)}), "
        f"or one of {', '.join(WHOLE)}; may be repeated",
    )
    parser.add_argument("--budget", type=float, help="CPU seconds for one engine on one query [60; with --quick 5]")
    parser.add_argument("--repeats", type=int, help="runs of which the fastest counts [3; with --quick 1]")
    parser.add_argument(
        "--peers-only", action="store_true", help="leave ensue out, to compare the peers with each other"
    )
    chosen = parser.parse_args(words)
    chosen.events = chosen.events or (100_000 if chosen.quick else 1_000_000)
    chosen.budget = chosen.budget or (5.0 if chosen.quick else 60.0)
    chosen.repeats = chosen.repeats or (1 if chosen.quick else 3)
    known = (*(w.name for w in WORKLOADS), *WHOLE)
    for name in chosen.only or ():
        if not any(k.startswith(name) for k in known):
            parser.error(f"--only {name}: there are {', '.join(known)}")
    return chosen


def wanted(name: str, only: Sequence[str] | None) -> bool:
    return only is None or any(name.startswith(part) for part in only)


def measure_line(workload: Workload, chosen: argparse.Namespace) -> Line:
    """Everything about one workload; its stream is made before any clock runs."""
    columns = workload.columns(chosen.events)

    def timed(prepare: Prepare) -> Timing:
        return measure(prepare, chosen.events, budget=chosen.budget, repeats=chosen.repeats)

    def loop(events: int) -> Job:
        head = columns.head(events)
        return lambda: (python_loop.count_matches(workload, head), None)

    def join(events: int) -> Job:
        table = workload.to_arrow(columns.head(events))
        return lambda: (duckdb_join.count_matches(workload, table), None)

    line = Line(workload)
    ensue = None if chosen.peers_only else ensue_over(workload, columns)
    if ensue is not None:
        line.ensue = timed(ensue)
    line.python = timed(loop)
    line.duckdb = timed(join)
    if workload.kind == "kernel" and c_kernel.load() is not None:
        measure_c(line, columns, timed)
    line.faults = compare(line, ensue)
    return line


def ensue_over(workload: Workload, columns: Columns, *, plain: bool = False) -> Prepare:
    """ensue on the first events of a stream, its compiled code loaded."""
    from ensue_engine import count_matches

    def prepare(events: int) -> Job:
        head = columns.head(events)
        starts = range(0, len(head), BLOCK)
        tables = [workload.to_arrow(head.part(start, start + BLOCK), plain=plain) for start in starts]
        return lambda: count_matches(workload, tables)

    prepare(1_000)()
    return prepare


def measure_c(line: Line, columns: Columns, timed: Callable[[Prepare], Timing]) -> None:
    """The C kernel in each order of search: the fastest is the yardstick."""

    def searching(order: c_kernel.Order) -> Prepare:
        return lambda events: lambda: (c_kernel.count_matches(line.workload, columns.head(events), order), None)

    timings = {order: timed(searching(order)) for order in c_kernel.Order}
    best = max(timings, key=lambda order: timings[order].rate)
    line.c, line.c_order = timings[best], best.name
    line.c_others = {order.name: timing for order, timing in timings.items() if order is not best}


def compare(line: Line, ensue: Prepare | None) -> list[str]:
    """Every peer has to find as many matches as ensue in the same events; what does not agree, in words."""
    peers = {"the Python loop": line.python, "DuckDB": line.duckdb, "C": line.c}
    peers |= {f"C in the order {order}": timing for order, timing in line.c_others.items()}
    counts: dict[int, int] = {line.ensue.events: line.ensue.matches} if line.ensue else {}
    faults = []
    for name, timing in peers.items():
        if timing is None:
            continue
        if timing.events not in counts:
            counts[timing.events] = ensue(timing.events)()[0] if ensue else timing.matches
        if counts[timing.events] != timing.matches:
            reference = "ensue" if ensue else "another peer"
            faults.append(
                f"{line.workload.name}: in {timing.events:,} events {name} found {timing.matches:,} matches, "
                f"{reference} {counts[timing.events]:,}"
            )
    return faults


def measure_strings(chosen: argparse.Namespace) -> Grid:
    """The same stream with `type` as plain strings: what reading them costs."""
    workload = find(TYPICAL)
    columns = workload.columns(chosen.events)
    rows = []
    for label, plain in (("dictionary", False), ("plain strings", True)):
        run = ensue_over(workload, columns, plain=plain)
        timing = measure(run, chosen.events, budget=chosen.budget, repeats=chosen.repeats)
        rows.append((label, f"{report.short(timing.rate)}/s", f"{1e9 / timing.rate:.0f} ns"))
    return Grid(f"How the type column comes ({TYPICAL})", ("type column", "events", "an event"), tuple(rows))


def measure_memory(chosen: argparse.Namespace) -> Grid:
    """Peak memory over a stream and one ten times as long: they should not differ by much."""
    rows = []
    for events in (chosen.events, 10 * chosen.events):
        seen = measure_apart("memory", find(TYPICAL), events)
        state = f"{seen['state'] / 1e6:.2f} MB" if seen["state"] is not None else "–"
        rows.append(
            (
                report.short(events),
                f"{seen['before'] / 1e6:.0f} MB",
                f"{seen['peak'] / 1e6:.0f} MB",
                state,
                f"{seen['matches']:,}",
            )
        )
    heads = ("events", "before the first event", "peak", "the engine's state", "matches")
    return Grid(f"Resident memory ({TYPICAL}, {BLOCK:,} events at a time, matches dropped)", heads, tuple(rows))


def measure_latency(chosen: argparse.Namespace) -> Grid:
    """One event at a time."""
    seen = measure_apart("latency", find(TYPICAL), min(200_000, chosen.events))
    row = (f"{seen['events']:,}", *(f"{seen[name] / 1000:.1f} µs" for name in ("median", "p99", "most")))
    heads = ("events that completed nothing", "median", "p99", "slowest")
    return Grid(f"{seen['call']}, one dict at a time ({TYPICAL})", heads, (row,))


def measure_cold(chosen: argparse.Namespace) -> Grid:
    """What a process pays before it does anything."""
    taken = measure_start(find(TYPICAL).query)
    rows = []
    for place, clock in enumerate(("wall", "CPU")):
        nothing, loaded, checked = (1000 * taken[name][place] for name in ("nothing", "import", "check"))
        rows.append((clock, f"{nothing:.0f} ms", f"{loaded - nothing:.0f} ms", f"{checked:.0f} ms"))
    heads = ("time", "python -c pass", "import ensue adds", "ensue check, whole")
    return Grid("Cold start, median of five", heads, tuple(rows))


def main() -> int:
    chosen = read_arguments()
    console = Console(width=max(WIDTH, Console().width))
    load = [os.getloadavg()[0]]
    lines = []
    for workload in WORKLOADS:
        if wanted(workload.name, chosen.only):
            console.print(f"{workload.name}: {workload.query}", style="dim", markup=False, soft_wrap=True)
            lines.append(measure_line(workload, chosen))
    faults = [fault for line in lines for fault in line.faults]
    grids = [report.overview(lines), report.absolute(lines)] if lines else []
    for grid in grids:
        grid.show(console)
    if lines:
        grids.append(report.queries(lines))
    others = {"strings": measure_strings, "memory": measure_memory, "latency": measure_latency, "start": measure_cold}
    for name, measure_other in others.items():
        if wanted(name, chosen.only) and not chosen.peers_only:
            try:
                grids.append(measure_other(chosen))
            except (RuntimeError, OSError, subprocess.CalledProcessError) as error:  # keep what was measured before
                faults.append(f"{name}: {error}")
            else:
                grids[-1].show(console)
    for fault in faults:
        console.print(fault, style="red", markup=False)
    load.append(os.getloadavg()[0])
    busy = f"load average {load[0]:.1f} before and {load[1]:.1f} after; the benchmark alone makes about 1"
    console.print(busy, style="dim")
    notes = [
        busy,
        f"{chosen.events:,} events a stream, {BLOCK:,} pushed at a time; least CPU time of up to {chosen.repeats} runs",
        f"{chosen.budget:g} s for one engine on one query, beyond which it ran on the first events only",
        *faults,
    ]
    command = " ".join(["python benchmarks/run.py", *sys.argv[1:]])
    report.write(RESULT, command, notes, grids)
    console.print(f"written to {RESULT}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
