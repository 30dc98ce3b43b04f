"""What the order of time saves: Bry and Eckert's rules with their optimisations off and on (`make paper-rules`).

Three questions, each a table in results/paper-rules.md: how many tuples are kept and how long an event takes with no
optimisation, one of them, and all, for several shares of relevant events; what suppressing saves when the events that
others wait for come in a part of the time only; and whether the state of a long stream stays flat. Time is CPU time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from report import Grid, short
from rich.console import Console

import ensue
from ensue.language import parse_program
from ensue.planning.rules import Optimizations
from ensue.runtime.rule_engine import RuleEngine

BLOCK = 65_536
EVENTS = "EVENT order(id: int, product: string, quantity: int); EVENT shipped(id: int, note: string);"
RULES = {
    "(1) before": "RULE comp(id, p) <- o: order(id, p, q), s: shipped(id, t), o BEFORE s BY < {w};",
    "(2) absence": "RULE overdue(id) <- o: order(id, p, q), w: EXTEND(o, {w}), WHILE w: NOT shipped(id, t), q < 10;",
    "(4) collection": "RULE overdue(id) <- o: order(id, p, q), w: EXTEND(o, {w}), WHILE w: NOT shipped(id, t);"
    " RULE rep(COUNT(s)) <- o: overdue(id), WHILE o: COLLECT shipped(s, _);",
}
WINDOW = 1000
MODES = {
    "off": Optimizations(streaming=False, suppressing=False, forgetting=False),
    "streaming": Optimizations(streaming=True, suppressing=False, forgetting=False),
    "suppressing": Optimizations(streaming=False, suppressing=True, forgetting=False),
    "both": Optimizations(streaming=True, suppressing=True, forgetting=False),
    "both, forgetting": Optimizations(),
}


@dataclass(frozen=True)
class Stream:
    """Orders and shipments of `keys` ids among other events; `relevant` is their share, `active` that of the time in
    which there are orders at all, in turns of `turn` events."""

    events: int
    relevant: float = 1.0
    active: float = 1.0
    keys: int = 2000
    turn: int = 4 * BLOCK

    def tables(self) -> Iterator[pa.Table]:
        """Blocks that depend on their number alone."""
        products = pa.array([f"product {k}" for k in range(50)])
        notes = pa.array([f"note {k}" for k in range(500)])
        for start in range(0, self.events, BLOCK):
            size = min(BLOCK, self.events - start)
            dice = np.random.default_rng(start)
            ts = np.arange(start, start + size)
            kinds = np.where(dice.random(size) < self.relevant, dice.integers(0, 2, size), 2)
            idle = (ts % self.turn) >= self.active * self.turn
            kinds[idle & (kinds == 0)] = 1
            yield pa.table(
                {
                    "type": pa.DictionaryArray.from_arrays(
                        pa.array(kinds, pa.int32()), pa.array(["order", "shipped", "other"])
                    ),
                    "ts": ts,
                    "id": dice.integers(0, self.keys, size),
                    "product": products.take(pa.array(dice.integers(0, 50, size))),
                    "quantity": dice.integers(1, 20, size),
                    "note": notes.take(pa.array(dice.integers(0, 500, size))),
                }
            )


@dataclass(frozen=True)
class Result:
    derived: int
    stored: int
    skipped: int
    seconds: float
    peak: int


def measure(text: str, stream: Stream, mode: Optimizations) -> Result:
    """One run: what it derives, keeps at the end and at most, passes over, and its CPU time."""
    program = parse_program(EVENTS + text.format(w=WINDOW))
    options = ensue.Options(unbounded_rules=True, max_partial_matches=None)
    engine = RuleEngine(program, options=options, optimizations=mode)
    tables = list(stream.tables())
    engine.push(tables[0].slice(0, 0))
    derived = peak = 0
    started = time.process_time()
    for table in tables:
        derived += len(engine.push(table))
        peak = max(peak, engine.stored_tuples)
    seconds = time.process_time() - started
    return Result(derived, engine.stored_tuples, engine.skipped_events, seconds, peak)


def compare_modes(events: int) -> Grid:
    """Tuples kept and time an event for each optimisation."""
    rows = []
    for name, text in RULES.items():
        number = events // 10 if "collection" in name else events  # without forgetting each collects all of the past
        for share in (1.0, 0.1, 0.01):
            stream = Stream(number, relevant=share)
            found = {mode: measure(text, stream, chosen) for mode, chosen in MODES.items()}
            assert len({one.derived for one in found.values()}) == 1, "the modes derive different events"
            cells = [f"{short(one.peak)}, {1e9 * one.seconds / number:.0f} ns" for one in found.values()]
            rows.append((f"{name}, {share:.0%} of {short(number)} relevant", *cells))
    return Grid("Tuples kept at most, and CPU time an event", ("rule", *MODES), tuple(rows))


def compare_idle(events: int) -> Grid:
    """What suppressing saves: shipments all the time, orders in a part of it; a condition on shipments that costs."""
    text = "RULE comp(id) <- o: order(id, p, q), s: shipped(id, t), o BEFORE s BY < {w}, upper(t) LIKE 'NOTE %7';"
    rows = []
    busy = 0.0  # what it takes if there are orders all the time
    for active in (1.0, 0.5, 0.25, 0.0625):
        stream = Stream(events, active=active)
        off, on = (measure(text, stream, Optimizations(suppressing=value)) for value in (False, True))
        assert off.derived == on.derived
        busy = busy or on.seconds
        share = on.skipped / sum(int((table["type"].to_pandas() == "shipped").sum()) for table in stream.tables())
        rows.append(
            (
                f"{1 - active:.0%}",
                f"{1e9 * off.seconds / events:.0f} ns",
                f"{1e9 * on.seconds / events:.0f} ns",
                f"{share:.0%}",
                f"{on.seconds / busy:.0%}",
            )
        )
    heads = (
        "time without orders",
        "CPU an event, looked at",
        "suppressed",
        "shipments passed over",
        "of that with orders all the time",
    )
    return Grid(f"Suppressing, rule (1) with a condition on shipments ({short(events)} events)", heads, tuple(rows))


def watch_state(events: int) -> Grid:
    """The state over a long stream, and the speed."""
    rows = []
    for name, text in RULES.items():
        program = parse_program(EVENTS + text.format(w=WINDOW))
        engine = RuleEngine(program, is_stream=True)
        derived, marks, peak = 0, [], 0
        spent = 0.0
        for number, table in enumerate(Stream(events).tables(), 1):
            started = time.process_time()
            derived += len(engine.push(table))
            spent += time.process_time() - started
            peak = max(peak, engine.state_bytes)
            if number * BLOCK >= events * (len(marks) + 1) / 4:
                marks.append(f"{engine.stored_tuples:,} ({engine.state_bytes / 1e6:.1f} MB)")
        rows.append((name, short(derived), *marks[:4], f"{peak / 1e6:.1f} MB", f"{short(events / spent)}/s"))
    heads = ("rule", "derived", "kept after 1/4", "1/2", "3/4", "all", "state at most", "events a CPU second")
    return Grid(f"State and speed over {short(events)} events", heads, tuple(rows))


TABLES = {
    "modes": (compare_modes, 400_000),
    "idle": (compare_idle, 2_000_000),
    "state": (watch_state, 10_000_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the events, for a first look")
    parser.add_argument("--only", choices=TABLES, action="append", help="this table alone (several: give it again)")
    parser.add_argument("--output", type=Path, default=Path("results/paper-rules.md"))
    asked = parser.parse_args()
    scale = 10 if asked.quick else 1
    measure(RULES["(1) before"], Stream(1000), Optimizations())  # loads compiled code
    console = Console()
    grids = []
    for name in asked.only or TABLES:
        make, events = TABLES[name]
        grids.append(make(events // scale))
        grids[-1].show(console)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text("\n".join(grid.markdown() for grid in grids), encoding="utf-8")
    console.print(f"written to {asked.output}")


if __name__ == "__main__":
    main()
