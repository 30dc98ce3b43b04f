"""The tables of results/peers.md, and the page results/peers.html with the same tables and plots."""

from __future__ import annotations

import html
import math
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import charts
from benchmarks.peers.figures import OWN, PEERS, STREAM_PEERS, Cell, Table, short, times
from benchmarks.peers.queries import find as find_query
from benchmarks.peers.registry import find

TYPICAL = 100
"""The number of live events that the summary is about."""

STAR = (
    "`*`: the peer did not get through all events within its time; it is compared with what ensue takes for the first "
    "events that it managed"
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.heads, tuple("---" for _ in self.heads), *self.rows]
        note = f"\n{self.note}.\n" if self.note else ""
        return f"## {self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n{note}"

    def html(self) -> str:
        """The table as HTML."""
        heads = "".join(f"<th>{inline(head)}</th>" for head in self.heads)
        rows = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>\n" for row in self.rows)
        note = f"<p>{inline(self.note)}.</p>" if self.note else ""
        body = f"<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody>"
        return f"<h2>{inline(self.title)}</h2>\n<div class=wide><table>{body}</table></div>{note}\n"


def inline(text: str) -> str:
    """The little Markdown that cells have, as HTML.

    >>> inline("**2x** of `a < b`")
    '<b>2x</b> of <code>a &lt; b</code>'
    """
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(text, quote=False))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", text)


def titles(names: Sequence[str]) -> tuple[str, ...]:
    """Engines as heads of columns."""
    return tuple(find(name).title for name in names)


def summary(table: Table) -> Grid:
    """The one table to look at: ensue in-process beside the best of each kind of peer, at 100 live events a type."""
    rows = []
    for cell in table.cells:
        stream, query, live = cell
        rate = table.rate(cell, OWN)
        if live != TYPICAL or rate is None:
            continue
        best = table.ratio(cell, STREAM_PEERS)
        rows.append(
            (
                f"{query}, {find_query(query).title}",
                stream,
                short(rate),
                times(best) + (f" {find(best.peer).title}" if best else ""),
                *(times(table.ratio(cell, [peer])) for peer in ("duckdb", "spark-sql", "pandas")),
                same(table, cell),
            )
        )
    heads = (
        "query",
        "stream",
        "ensue, events/s",
        "to the best of Flink CEP, Esper, Siddhi",
        "to DuckDB",
        "to Spark SQL",
        "to pandas",
        "counts",
    )
    return Grid(f"ensue on one core and its peers, {TYPICAL} live events of a type", heads, tuple(rows), STAR)


def same(table: Table, cell: Cell) -> str:
    """Whether all engines found the same in a cell."""
    entries = [entry for name in table.engines if (entry := table.get(cell, name)) is not None]
    return "**differ**" if any(entry.fault for entry in entries) else "equal"


def growth(table: Table) -> Grid:
    """Ratios to each peer as the window grows."""
    rows = []
    lives = sorted({cell[2] for cell in table.cells})
    for stream in table.streams:
        for query in dict.fromkeys(cell[1] for cell in table.cells if cell[0] == stream):
            here = [(stream, query, live) for live in lives if (stream, query, live) in table.cells]
            if len(here) < 2:
                continue
            for label, peers in (
                ("best stream engine", STREAM_PEERS),
                ("DuckDB", ("duckdb",)),
                ("Spark SQL", ("spark-sql",)),
            ):
                ratios = {cell[2]: table.ratio(cell, peers) for cell in here}
                rows.append((query, stream, label, *(times(ratios.get(live)) for live in lives)))
    heads = ("query", "stream", "ensue to", *(f"{live} live" for live in lives))
    return Grid("How the factor grows with the window", heads, tuple(rows), STAR)


def bounds(table: Table, per_byte: float) -> Grid:
    """What a match costs, beside what it takes to write the numbers of its events alone."""
    rows = []
    for cell in table.cells:
        query, own = find_query(cell[1]), table.get(cell, OWN)
        if cell[2] != TYPICAL or query.is_counted or query.has_list or own is None or own.reading is None:
            continue
        found = own.reading.matches or 0
        peer = table.ratio(cell, STREAM_PEERS)
        if not found or peer is None:
            continue
        entry = table.get(cell, peer.peer)
        assert entry is not None and entry.reading is not None
        theirs = entry.reading.cpu / entry.reading.matches if entry.reading.matches else math.nan
        rows.append(
            (
                *(cell[1], cell[0], f"{found:,}", nanoseconds(own.reading.cpu / found)),
                "" if own.reading.inside is None else nanoseconds(own.reading.inside / found),
                nanoseconds(per_byte * 8 * len(query.types)),
                f"{nanoseconds(theirs)} {find(peer.peer).title}",
            )
        )
    heads = ("query", "stream", "matches", "ensue", "in the kernel", "writing alone", "best stream engine")
    note = "`writing alone`: filling memory with as many numbers, measured in this run"
    return Grid("Nanoseconds of CPU for a match", heads, tuple(rows), note)


def nanoseconds(seconds: float) -> str:
    """Nanoseconds, with three digits that count."""
    return f"{seconds * 1e9:,.3g}" if seconds < 1e-6 else f"{seconds * 1e9:,.0f}"


def rates(table: Table) -> Grid:
    """Every engine's events a CPU second; the fastest of a cell in bold."""
    rows = []
    for cell in table.cells:
        best = table.best(cell, table.engines)
        shown = []
        for name in table.engines:
            entry = table.get(cell, name)
            if entry is None or entry.reading is None:
                shown.append("–")
            elif not entry.is_measured:
                shown.append(entry.reading.note)
            else:
                text = short(entry.reading.rate) + ("" if entry.is_whole else f" (first {short(entry.reading.events)})")
                shown.append(f"**{text}**" if name == best else text)
        rows.append((cell[0], cell[1], str(cell[2]), *shown))
    return Grid("Events a CPU second", ("stream", "query", "live", *titles(table.engines)), tuple(rows))


def details(table: Table) -> Grid:
    """CPU time, time on the clock, memory and what was found."""
    rows = []
    for entry in table.entries:
        reading, job = entry.reading, entry.job
        if reading is None or not entry.is_measured:
            continue
        found = "not compared" if reading.matches is None else f"{reading.matches:,}"
        inside = f"{reading.inside:.3f}" if reading.inside is not None else ""
        rows.append(
            (
                *(job.stream, job.query, str(job.live), find(job.engine).title, f"{reading.events:,}", found),
                *(f"{reading.cpu:.3f}", inside, f"{reading.wall:.3f}", f"{reading.memory / 1e6:,.0f}", reading.note),
            )
        )
    heads = (
        "stream",
        "query",
        "live",
        "engine",
        "events",
        "found",
        "CPU s",
        "in the kernel",
        "wall s",
        "peak MB",
        "note",
    )
    return Grid("All readings", heads, tuple(rows))


def left_out(table: Table) -> Grid:
    """Which engine is not in which query, and why."""
    why: dict[tuple[str, str], list[str]] = {}
    for entry in table.entries:
        if entry.reason:
            queries = why.setdefault((entry.job.engine, entry.reason), [])
            if entry.job.query not in queries:
                queries.append(entry.job.query)
    rows = tuple((find(name).title, ", ".join(queries), reason) for (name, reason), queries in why.items())
    return Grid("Left out", ("engine", "queries", "reason"), rows)


def queries(table: Table) -> Grid:
    """The queries as ensue reads them."""
    rows = []
    for entry in table.entries:
        if entry.job.engine == OWN:
            rows.append((entry.job.query, entry.job.stream, str(entry.job.live), f"`{entry.job.text}`"))
    return Grid("The queries", ("query", "stream", "live", "text"), tuple(rows))


def machine() -> str:
    """The machine."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = named[0] if named else cpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def versions(table: Table) -> str:
    """The versions of all engines that ran."""
    found = {}
    for entry in table.entries:
        if entry.reading is not None and entry.reading.version:
            engine = find(entry.job.engine)
            found["ensue" if engine.family == "ensue" else engine.title] = entry.reading.version
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version}" for name, version in found.items())])


def write(folder: Path, table: Table, command: str, notes: Sequence[str], per_byte: float) -> None:
    """Write both files; `per_byte` is what it takes to fill memory, in seconds."""
    facts = [f"machine: {machine()}", f"versions: {versions(table)}", *notes]
    wins = table.behind()
    grids = [
        *(summary(table), growth(table), bounds(table, per_byte)),
        *(rates(table), left_out(table), details(table), queries(table)),
    ]
    head = ["# ensue and its peers", "", f"Made by `{command}`.", "", *(f"- {line}" for line in facts), ""]
    won = ["## Where a peer wins", "", *(f"- {line}" for line in wins or ["nowhere"]), ""]
    faults = (
        ["## What does not agree or failed", "", *(f"- {line}" for line in table.faults), ""] if table.faults else []
    )
    parts = [grids[0].markdown(), "\n".join([*won, *faults]), *(grid.markdown() for grid in grids[1:])]
    (folder / "peers.md").write_text("\n".join(head) + "\n" + "\n".join(parts), encoding="utf-8")
    (folder / "peers.html").write_text(page(table, command, facts, wins, grids), encoding="utf-8")


STYLE = """
:root { color-scheme: light dark; --line: #8884; --weak: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
code { font-size: 12px; } .charts { display: flex; flex-wrap: wrap; gap: 1rem; } svg text { fill: currentColor; }
ul.facts { color: var(--weak); padding-left: 1.2rem; } details summary { cursor: pointer; margin-top: 2rem; }
"""


def page(table: Table, command: str, facts: Sequence[str], wins: Sequence[str], grids: Sequence[Grid]) -> str:
    """The page: everything in one file, nothing loaded from elsewhere."""

    def listing(lines: Sequence[str], kind: str = "") -> str:
        return f"<ul class='{kind}'>" + "".join(f"<li>{inline(line)}</li>" for line in lines) + "</ul>"

    panels = "".join(charts.growth(table, stream, query) for stream, query in charts.grown(table))
    body = [
        "<h1>ensue and its peers</h1>",
        f"<p>Made by <code>{html.escape(command)}</code>. Rates are events a CPU second, on logarithmic scales.</p>",
        listing(facts, "facts"),
        grids[0].html(),
        "<h2>Times as fast as each peer, 100 live events of a type</h2>",
        charts.ratios(table, TYPICAL),
        f"<h2>Events a second as the window grows</h2>{charts.legend(table.engines)}<div class=charts>{panels}</div>",
        "<h2>Where a peer wins</h2>" + listing(wins or ["nowhere"]),
        "<h2>What does not agree or failed</h2>" + listing(table.faults) if table.faults else "",
        *(grid.html() for grid in grids[1:5]),
        *(f"<details><summary>{grid.title}</summary>{grid.html()}</details>" for grid in grids[5:]),
    ]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>ensue and its peers</title><style>{STYLE}</style><body>{chr(10).join(body)}</body></html>\n"
    )


__all__ = ["PEERS", "Grid", "inline", "summary", "write"]
