"""Plots as SVG, on logarithmic scales: rates as the window grows, and ratios to each peer."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from benchmarks.peers.figures import OWN, PEERS, Table, short, times
from benchmarks.peers.registry import ENGINES, find

COLOURS = {
    "ensue": "#d6336c",
    "ensue-spark-1": "#f08c9e",
    "ensue-spark-2": "#c2255c",
    "ensue-stream": "#e8a0b8",
    "flink": "#e8590c",
    "esper": "#1971c2",
    "siddhi": "#2f9e44",
    "duckdb": "#f2b705",
    "spark-sql": "#7048e8",
    "pandas": "#868e96",
}
assert set(COLOURS) == {engine.name for engine in ENGINES}


class Scale:
    """From values to places, by their logarithm.

    >>> scale = Scale(1, 100, 0, 200)
    >>> scale(10), list(scale.decades)
    (100.0, [1, 10, 100])
    """

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / ((self.high - self.low) or 1.0)
        return round(self.start + share * (self.stop - self.start), 1)

    @property
    def decades(self) -> Sequence[float]:
        """The powers of ten on it."""
        return [10**power for power in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]


def whole_decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around some values."""
    low, high = 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))
    return (low, high) if high > low else (low, 10 * low)


def grown(table: Table) -> list[tuple[str, str]]:
    """The streams and queries that were measured with several windows."""
    found = []
    for stream in table.streams:
        for query in dict.fromkeys(cell[1] for cell in table.cells if cell[0] == stream):
            if sum(cell[:2] == (stream, query) for cell in table.cells) > 1:
                found.append((stream, query))
    return found


def legend(engines: Sequence[str]) -> str:
    """Which colour is which engine."""
    marks = (f"<span style='color:{COLOURS[name]}'>&#9679;</span> {html.escape(find(name).title)}" for name in engines)
    return "<p>" + " &nbsp; ".join(marks) + ". A hollow mark: not all events within the time.</p>"


def growth(table: Table, stream: str, query: str) -> str:
    """Events a CPU second of each engine against the live events of a type."""
    width, height, left, right, top, bottom = 360, 250, 48, 12, 26, 32
    lives = sorted(cell[2] for cell in table.cells if cell[:2] == (stream, query))
    known = [rate for live in lives for name in table.engines if (rate := table.rate((stream, query, live), name))]
    if not known:
        return ""
    across = Scale(lives[0], lives[-1], left + 8, width - right - 8)
    up = Scale(*whole_decades(known), height - bottom, top)
    parts = [f"<text x='{left}' y='15' font-weight='600'>{query} on {html.escape(stream)}</text>"]
    for decade in up.decades:
        y = up(decade)
        parts.append(f"<line x1='{left}' x2='{width - right}' y1='{y}' y2='{y}' stroke='#8883'/>")
        parts.append(f"<text x='{left - 5}' y='{y + 4}' text-anchor='end'>{short(decade)}</text>")
    for live in lives:
        parts.append(f"<text x='{across(live)}' y='{height - 14}' text-anchor='middle'>{live}</text>")
    for name in table.engines:
        points = [(live, rate) for live in lives if (rate := table.rate((stream, query, live), name))]
        colour = COLOURS[name]
        line = " ".join(f"{across(live)},{up(rate)}" for live, rate in points)
        thick = 2.5 if name == OWN else 1.4
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='{thick}'/>")
        for live, rate in points:
            entry = table.get((stream, query, live), name)
            fill = colour if entry is not None and entry.is_whole else "none"
            parts.append(
                f"<circle cx='{across(live)}' cy='{up(rate)}' r='3.2' fill='{fill}' stroke='{colour}'>"
                f"<title>{html.escape(find(name).title)}, {live} live: {short(rate)} events/s</title></circle>"
            )
    return f"<svg width='{width}' height='{height}' font-size='11' role='img'>{''.join(parts)}</svg>"


def ratios(table: Table, live: int) -> str:
    """Bars from 1x: how many times as fast ensue in-process is as each peer."""
    bars = []
    for cell in table.cells:
        if cell[2] == live:
            bars += [(cell, name, ratio) for name in PEERS if (ratio := table.ratio(cell, [name]))]
    if not bars:
        return ""
    width, left, row, gap = 900, 210, 13, 10
    cells = list(dict.fromkeys(bar[0] for bar in bars))
    values = [bar[2].times for bar in bars]
    low, high = whole_decades([*values, 1.0])
    across = Scale(low, high, left, width - 120)
    parts = []
    y = 24
    places = []
    for cell in cells:
        places.append(f"<text x='0' y='{y + 11}' font-weight='600'>{cell[1]} on {html.escape(cell[0])}</text>")
        for _, name, ratio in (bar for bar in bars if bar[0] == cell):
            start, end = sorted((across(1.0), across(ratio.times)))
            opacity = 1 if ratio.is_whole else 0.55
            shown = times(ratio).replace("**", "")
            places.append(
                f"<text x='{left - 6}' y='{y + 10}' text-anchor='end'>{html.escape(find(name).title)}</text>"
                f"<rect x='{start}' y='{y + 1}' width='{max(end - start, 1):.1f}' height='{row - 3}' "
                f"fill='{COLOURS[name]}' opacity='{opacity}'/><text x='{end + 4}' y='{y + 10}'>{shown}</text>"
            )
            y += row
        y += gap
    for decade in across.decades:
        x = across(decade)
        stroke = "#888" if decade == 1 else "#8883"
        parts.append(f"<line x1='{x}' x2='{x}' y1='18' y2='{y}' stroke='{stroke}'/>")
        parts.append(f"<text x='{x}' y='12' text-anchor='middle'>{short(decade)}x</text>")
    parts += places
    return f"<svg width='{width}' height='{y + 10}' font-size='11' role='img'>{''.join(parts)}</svg>"
