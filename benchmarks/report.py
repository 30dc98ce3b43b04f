"""The results as tables: on the terminal, and in results/bench.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from measuring import Timing
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from workloads import Workload

PACKAGES = ("ensue", "numpy", "numba", "pyarrow", "pyspark", "duckdb")


@dataclass
class Line:
    """What was measured for one workload; None where an engine has no part in it."""

    workload: Workload
    ensue: Timing | None = None
    python: Timing | None = None
    duckdb: Timing | None = None
    c: Timing | None = None
    c_order: str = ""
    c_others: dict[str, Timing] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """A table of text: a title, heads and rows of the same length."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [self.heads, tuple("---" for _ in self.heads), *self.rows]
        return f"## {self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def show(self, console: Console) -> None:
        table = Table(title=escape(self.title), title_justify="left")
        for place, head in enumerate(self.heads):
            table.add_column(head, justify="left" if place == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


def short(events: float) -> str:
    """A number of events, or of events a second, with three digits that count.

    >>> short(65_536), short(1_000_000), short(34_200_000.0), short(950)
    ('65.5k', '1M', '34.2M', '950')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if events >= size:
            return f"{events / size:.3g}{unit}" if events < 999.5 * size else f"{events / size:.0f}{unit}"
    return f"{events:.3g}"


def ratio(rate: float | None, peer: Timing | None) -> str:
    """How many times as fast; with the stretch that the peer ran on, if it is not all."""
    if rate is None or peer is None:
        return "–"
    times = rate / peer.rate
    return f"{times:.0f}x" if times >= 99.5 else f"{times:.2g}x"


def stretch(line: Line, peer: Timing | None) -> str:
    whole = line.ensue.events if line.ensue else peer.events if peer else 0
    return f" (on {short(peer.events)})" if peer and peer.events < whole else ""


def overview(lines: Sequence[Line]) -> Grid:
    """The one table to look at: ensue's rates and how many times as fast as each peer it is."""
    rows = []
    for line in lines:
        workload, own = line.workload, line.ensue
        push = own.rate if own else None
        inside = own.inside_rate if own else None
        known = own or line.duckdb or line.python
        against_c = ratio(push, line.c) + (f" / {ratio(inside, line.c)}" if inside and line.c else "")
        rows.append(
            (
                workload.name,
                f"{workload.selectivity:g}" if workload.selectivity else "–",
                short(workload.live),
                (short(push) + (f" (on {short(own.events)})" if stretch_of_own(line, lines) else ""))
                if own and push
                else "–",
                short(inside) if inside else "–",
                ratio(push, line.python) + stretch(line, line.python),
                ratio(push, line.duckdb) + stretch(line, line.duckdb),
                against_c,
                f"{known.matches:,}" if known else "–",
                "WRONG" if line.faults else "same",
            )
        )
    heads = (
        "query",
        "selectivity",
        "live",
        "ensue, events/s",
        "in the kernel",
        "to Python loop",
        "to DuckDB",
        "to C (push / kernel)",
        "matches",
        "counts",
    )
    return Grid("ensue and its peers: CPU time, one core", heads, tuple(rows))


def stretch_of_own(line: Line, lines: Sequence[Line]) -> bool:
    """Whether ensue itself ran on less than the longest stretch of all."""
    return line.ensue is not None and line.ensue.events < max(x.ensue.events for x in lines if x.ensue)


def absolute(lines: Sequence[Line]) -> Grid:
    """Every engine's events a second, and the stretch that it ran on."""

    def cell(timing: Timing | None) -> str:
        return f"{short(timing.rate)}/s on {short(timing.events)}" if timing else "–"

    rows = []
    for line in lines:
        c = f"{cell(line.c)}, order d {' '.join(line.c_order.lower())}" if line.c else "–"
        others = ", ".join(f"{order}: {short(timing.rate)}/s" for order, timing in line.c_others.items())
        rows.append((line.workload.name, cell(line.ensue), cell(line.python), cell(line.duckdb), c, others or "–"))
    heads = ("query", "ensue", "Python loop", "DuckDB", "C, best order", "C, other orders")
    return Grid("Events a second of each", heads, tuple(rows))


def queries(lines: Sequence[Line]) -> Grid:
    rows = tuple((line.workload.name, f"`{line.workload.query}`", short(line.workload.keys)) for line in lines)
    return Grid("The queries", ("name", "query", "keys in the stream"), rows)


def machine() -> list[str]:
    """The machine and the versions, one a line."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = named[0] if named else cpu
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (not installed as a package)")
    return [
        f"machine: {cpu}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"versions: Python {platform.python_version()}, {', '.join(found)}",
    ]


def write(path: Path, command: str, notes: Sequence[str], grids: Sequence[Grid]) -> None:
    """Write results/bench.md."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = ["# Benchmark", "", f"Made by `{command}`.", "", *(f"- {line}" for line in (*machine(), *notes)), ""]
    path.write_text("\n".join(head) + "\n" + "\n".join(grid.markdown() for grid in grids), encoding="utf-8")
