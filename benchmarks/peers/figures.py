"""What the readings say: rates, the best peer of a cell, ratios, and whether the aims are met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.peers.measuring import Entry
from benchmarks.peers.registry import ENGINES, find

Cell = tuple[str, str, int]
OWN = "ensue"
STREAM_PEERS = tuple(engine.name for engine in ENGINES if engine.family == "stream")
TABLE_PEERS = ("duckdb", "spark-sql")
PEERS = tuple(engine.name for engine in ENGINES if engine.family != "ensue")

# Why a peer is ahead, or nearer than aimed at, where that was looked into. By peer and query, or by query alone.
REASONS: dict[tuple[str, str], str] = {
    ("duckdb", "Q4"): (
        "where few lists come of an A and a C, most of the work is to look at the Bs between them, which both do in "
        "blocks; ensue also writes out each list, of which DuckDB gives the number only"
    ),
    ("duckdb", "Q6"): "a hash join by the key does nearly all the work, and only counts",
    ("pandas", "Q6"): "a merge by the key leaves few rows, which are only counted",
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the CPU time of ensue the best of some peers takes for the same events."""

    times: float
    peer: str
    is_whole: bool  # whether the peer got through all events; else both are measured on those that it managed


class Table:
    """The entries by cell and engine."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self._by_place = {(*entry.job.cell, entry.job.engine): entry for entry in self.entries}

    @property
    def cells(self) -> list[Cell]:
        """The cells, in the order in which they were measured."""
        return list(dict.fromkeys(entry.job.cell for entry in self.entries))

    @property
    def streams(self) -> list[str]:
        """The streams."""
        return list(dict.fromkeys(entry.job.stream for entry in self.entries))

    @property
    def engines(self) -> list[str]:
        """The engines that were asked, in the order of tables."""
        asked = {entry.job.engine for entry in self.entries}
        return [engine.name for engine in ENGINES if engine.name in asked]

    @property
    def faults(self) -> list[str]:
        """What is wrong, one a line."""
        return [entry.fault for entry in self.entries if entry.fault]

    def get(self, cell: Cell, engine: str) -> Entry | None:
        """What became of an engine in a cell; None if it was not asked."""
        return self._by_place.get((*cell, engine))

    def rate(self, cell: Cell, engine: str) -> float | None:
        """Events a CPU second; None where there is no count to trust."""
        entry = self.get(cell, engine)
        if entry is None or not entry.is_measured or entry.fault or entry.reading is None:
            return None
        return entry.reading.rate

    def best(self, cell: Cell, engines: Sequence[str]) -> str | None:
        """The fastest of some engines in a cell."""
        rates = {name: rate for name in engines if (rate := self.rate(cell, name))}
        return max(rates, key=lambda name: rates[name], default=None)

    def ratio(self, cell: Cell, peers: Sequence[str], own: str = OWN) -> Ratio | None:
        """ensue against the best of some peers in a cell."""
        ratios = [ratio for peer in peers if (ratio := self._ratio_to(cell, peer, own)) is not None]
        return min(ratios, key=lambda ratio: ratio.times, default=None)

    def _ratio_to(self, cell: Cell, peer: str, own: str) -> Ratio | None:
        mine, theirs, entry = self.rate(cell, own), self.rate(cell, peer), self.get(cell, peer)
        if not mine or not theirs or entry is None or entry.reading is None:
            return None
        if own == OWN and not entry.is_whole and entry.own_cpu:
            return Ratio(entry.reading.cpu / entry.own_cpu, peer, is_whole=False)
        return Ratio(mine / theirs, peer, entry.is_whole)

    def behind(self) -> list[str]:
        """The cells in which a peer wins, with the reason."""
        lines = []
        for cell in self.cells:
            ratio = self.ratio(cell, PEERS)
            if ratio is not None and ratio.times < 1:
                stream, query, live = cell
                why = REASONS.get((ratio.peer, query)) or REASONS.get(("", query)) or "not looked into"
                ahead = f"{find(ratio.peer).title} is {1 / ratio.times:.2g} times as fast"
                lines.append(f"{stream} {query}, {live} live: {ahead}: {why}")
        return lines


def short(number: float) -> str:
    """A number with three digits that count.

    >>> short(65_536), short(1_000_000), short(950), short(0.5)
    ('65.5k', '1M', '950', '0.5')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.3g}"


def times(ratio: Ratio | None) -> str:
    """A ratio as tables show it.

    >>> times(Ratio(123.4, "esper", True)), times(Ratio(0.52, "duckdb", True)), times(Ratio(12.3, "flink", False))
    ('123x', '**0.52x**', '12x*')
    """
    if ratio is None:
        return "–"
    text = f"{ratio.times:.0f}x" if ratio.times >= 9.95 else f"{ratio.times:.2g}x"
    text += "" if ratio.is_whole else "*"
    return text if ratio.times >= 1 else f"**{text}**"
