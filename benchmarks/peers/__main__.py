"""The command: `python -m benchmarks.peers`, or `make bench-peers`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers import report
from benchmarks.peers.cells import Effort
from benchmarks.peers.figures import Table
from benchmarks.peers.measuring import Plan, measure_all
from benchmarks.peers.processes import HEAP, ROOT, Workers
from benchmarks.peers.queries import QUERIES, find
from benchmarks.peers.registry import ENGINES
from benchmarks.peers.streams import GENERATED, Columns, open_stream

EXAMPLES = """examples:
  make bench-peers QUICK=1
  make bench-peers ARGS="--only Q1 --only Q6 --engine ensue --engine esper"
  make bench-peers ARGS="--stream trades.parquet --type symbol --value diff --key exchange --live 100"
  make bench-peers ARGS=--again                        # measure anew what an earlier run has measured
"""

NOT_QUICK = ("ensue-spark-1",)
"""What a first look leaves out, unless it is asked for: Spark on two cores is there."""


def read_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, with their defaults filled in."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Measure ensue beside its peers: the same queries on the same streams, the same number of matches.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a first look, within ten minutes")
    parser.add_argument("--events", type=int, help="events of each stream [500,000; with --quick 100,000]")
    parser.add_argument("--budget", type=float, help="CPU seconds of one engine in one cell [6; with --quick 1]")
    parser.add_argument("--warm-up", type=float, help="CPU seconds before the clock runs [3; with --quick 1.5]")
    parser.add_argument("--repeats", type=int, help="runs of which the cheapest counts [3; with --quick 1.5]")
    parser.add_argument(
        "--only", action="append", metavar="QUERY", choices=[q.name for q in QUERIES], help="only these queries"
    )
    parser.add_argument(
        "--engine",
        action="append",
        metavar="NAME",
        choices=[e.name for e in ENGINES],
        help=f"only these engines: {', '.join(e.name for e in ENGINES)}",
    )
    parser.add_argument(
        "--live",
        action="append",
        type=int,
        help="live events of a type [25, 100 and 400; other streams than the first: 100]",
    )
    parser.add_argument(
        "--stream", action="append", help=f"{', '.join(GENERATED)}, or the path of a Parquet or CSV file"
    )
    parser.add_argument(
        "--format", choices=("parquet", "csv"), default="parquet", help="how the streams are written and read [parquet]"
    )
    parser.add_argument("--type", default="type", help="the column of a file's types [type]")
    parser.add_argument("--ts", default="ts", help="the column of a file's times: timestamps, or integers in ms [ts]")
    parser.add_argument("--value", default="diff", help="the column of the number that is compared [diff]")
    parser.add_argument("--key", default="k", help="the column of the key, if there is one [k]")
    parser.add_argument("--roles", default="", help="a file's types for A,B,C,N,D,E, with commas [by frequency]")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs have measured")
    parser.add_argument("--folder", type=Path, default=ROOT / "results", help="where results go [results]")
    chosen = parser.parse_args(words)
    quick = chosen.quick
    chosen.events = chosen.events or (100_000 if quick else 500_000)
    chosen.budget = chosen.budget or (1.0 if quick else 6.0)
    chosen.warm_up = chosen.warm_up or (1.5 if quick else 3.0)
    chosen.repeats = chosen.repeats or (2 if quick else 3)
    chosen.stream = chosen.stream or (["stock"] if quick else list(GENERATED))
    for name in chosen.stream:
        if name not in GENERATED and not Path(name).is_file():
            parser.error(f"--stream {name}: neither one of {', '.join(GENERATED)} nor a file")
    return chosen


def make_plans(chosen: argparse.Namespace) -> list[Plan]:
    """The cells to be measured: all windows on the first stream, one window on the others."""
    columns = Columns(chosen.type, chosen.ts, chosen.value, chosen.key)
    roles = [name for name in chosen.roles.split(",") if name]
    queries = tuple(find(name) for name in chosen.only) if chosen.only else QUERIES
    plans = []
    for place, name in enumerate(chosen.stream):
        stream = open_stream(
            name, chosen.events, chosen.folder / "peers-data", form=chosen.format, columns=columns, roles=roles
        )
        if chosen.live:
            plans.append(Plan(stream, queries, tuple(chosen.live)))
        elif place > 0:
            plans.append(Plan(stream, queries, (100,)))
        elif chosen.quick:  # growth is shown by one query
            plans.append(Plan(stream, queries, (100,)))
            plans.append(Plan(stream, queries[:1], (25, 400)))
        else:
            plans.append(Plan(stream, queries, (25, 100, 400)))
    return plans


def fill_time() -> float:
    """CPU seconds to write a byte to memory that is there already: no engine hands matches over in less."""
    block = np.ones(1 << 23)
    start = time.process_time()
    for number in range(16):
        block.fill(number)
    return (time.process_time() - start) / (16 * block.nbytes)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, write the results, and say whether all counts agree."""
    chosen = read_arguments(words)
    effort = Effort(chosen.events, chosen.budget, chosen.warm_up, chosen.repeats)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    log = chosen.folder / ("peers-quick.jsonl" if chosen.quick else "peers.jsonl")
    if chosen.again:
        log.unlink(missing_ok=True)
    wanted = chosen.engine or [engine.name for engine in ENGINES if not chosen.quick or engine.name not in NOT_QUICK]
    engines = [engine for engine in ENGINES if engine.name in wanted]
    workers = Workers(chosen.folder / "peers-data")
    load = os.getloadavg()[0]
    try:
        entries = measure_all(make_plans(chosen), engines, effort, workers, log, lambda line: print(line, flush=True))
    finally:
        workers.close()
    table = Table(entries)
    command = " ".join(["python -m benchmarks.peers", *(words if words is not None else sys.argv[1:])])
    notes = [
        f"load average {load:.1f} before and {os.getloadavg()[0]:.1f} after; the benchmark alone makes one to two",
        f"{effort.events:,} events a stream; CPU time of the whole process, the least of up to {effort.repeats} runs; "
        "starting, reading and warming up are not in it",
        f"{effort.budget:g} s of CPU time for a run, beyond which it counts for the events that it managed",
        f"Java with {HEAP} of heap; DuckDB on one thread; Spark SQL on two cores; SQL and pandas only count",
    ]
    report.write(chosen.folder, table, command, notes, fill_time())
    print("\n" + report.summary(table).markdown())
    for fault in table.faults:
        print(fault, file=sys.stderr)
    print(f"written to {chosen.folder / 'peers.md'} and {chosen.folder / 'peers.html'}")
    return 1 if table.faults else 0


if __name__ == "__main__":
    sys.exit(main())
