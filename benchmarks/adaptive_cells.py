"""The cells of the adaptive experiment: streams that drift, and the five sets of patterns over their types.

Kolchinsky and Schuster, section 5.1. Their traffic data has rates and selectivities that differ much and change seldom,
but then by much; their stock data has nearly equal ones that change all the time by little. The generated streams do
the same; with --traffic and --stocks the user's own files take part too. A stream holds the types of its pattern only:
what others cost is the same for all methods.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ensue.testing.generators import stock_like, traffic_like

SETS = ("sequence", "negation", "conjunction", "kleene", "disjunction")
SIZES = (3, 4, 5, 6, 7, 8)
EVENTS = 393_216
SHIFTS = 3
SETTLED, REPORTED = 11, 163
"""The seed of the streams on which parameters were settled, and that of those that are reported."""


@dataclass(frozen=True)
class Dataset:
    """Streams of so many types and events, and the conditions that patterns over them have."""

    name: str
    make: Callable[[int, int, int], pa.Table] = field(repr=False)  # of so many types and events, with a seed
    minutes: float  # that the window of the first try spans
    rising: tuple[str, ...]  # the attributes that grow from one event of a pattern to the next
    unwanted: str  # what an event must satisfy to be a forbidden one


@lru_cache(maxsize=2)
def traffic_stream(types: int, events: int, seed: int) -> pa.Table:
    return traffic_like(events, seed, points=types, skew=10.0, shifts=SHIFTS)


@lru_cache(maxsize=2)
def stock_stream(types: int, events: int, seed: int) -> pa.Table:
    return stock_like(events, seed, symbols=types, gini=0.15, drift=0.25, stretches=40, events_per_minute=1000.0)


@lru_cache(maxsize=2)
def steady_stream(types: int, events: int, seed: int) -> pa.Table:
    """Trades whose rates differ and stay: what adapting costs where there is nothing to adapt to."""
    return stock_like(events, seed + 1, symbols=types, gini=0.4, drift=0.0, events_per_minute=1000.0)


SPEEDS, PRICES = ("avg_speed", "vehicle_count"), ("diff",)
STOPPED, LARGE = "{n}.avg_speed = 0", "{n}.volume > 1000"
GENERATED = {
    "traffic-like": Dataset("traffic-like", traffic_stream, 100.0, SPEEDS, STOPPED),
    "stock-like": Dataset("stock-like", stock_stream, 0.01, PRICES, LARGE),
    "steady": Dataset("steady", steady_stream, 0.01, PRICES, LARGE),
}


def read_traffic(path: Path) -> Dataset:
    """A file of readings: `point_id ts avg_speed vehicle_count`."""
    table = pq.read_table(path, columns=["point_id", "ts", *SPEEDS])
    return Dataset("traffic file", _of_file(table, "point_id"), 10.0, SPEEDS, STOPPED)


def read_stocks(path: Path) -> Dataset:
    """A file of trades or bars: `symbol ts volume diff`."""
    table = pq.read_table(path, columns=["symbol", "ts", "volume", "diff"])
    large = float(np.quantile(table["volume"].to_numpy(), 0.95))
    return Dataset("stocks file", _of_file(table, "symbol"), 1.0, PRICES, f"{{n}}.volume > {large:.0f}")


def _of_file(table: pa.Table, column: str) -> Callable[[int, int, int], pa.Table]:
    names = sorted(pc.unique(table[column]).to_pylist())

    @lru_cache(maxsize=2)
    def make(types: int, events: int, seed: int) -> pa.Table:
        """Stretches from all over the file: its start alone would say little of how it changes."""
        chosen = pa.array(random.Random(seed).sample(names, min(types, len(names))), table[column].type)
        rows = table.filter(pc.is_in(table[column], chosen))
        parts = 8
        length = min(events, rows.num_rows) // parts
        rows = pa.concat_tables([rows.slice(rows.num_rows * k // parts, length) for k in range(parts)])
        kind = rows[column].cast(pa.string()).dictionary_encode().combine_chunks()
        return rows.drop_columns([column]).add_column(0, "type", kind).combine_chunks()

    return make


# -- patterns --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pattern:
    """A pattern of a set over so many types, without its window."""

    kind: str
    size: int
    types: int
    text: str

    def query(self, microseconds: int) -> str:
        """The query with a window of that length."""
        return f"{self.text} WITHIN {microseconds} us"


def make_pattern(dataset: Dataset, kind: str, size: int, seed: int) -> Pattern:
    """The pattern of a set and a size, its types in an order drawn at random but the same at each run."""
    rng = random.Random(f"{dataset.name} {kind} {size}")
    wanted = size + {"negation": 1, "disjunction": 3}.get(kind, 0)
    types = sorted(pc.unique(dataset.make(wanted, 20_000, seed)["type"]).to_pylist())
    types *= -(-wanted // len(types))  # a file may have fewer
    if kind == "disjunction":
        names = [[f"{letter}{i}" for i in range(size)] for letter in "xyz"]
        parts = [f"SEQ({', '.join(_items(rng.sample(types, size), some))})" for some in names]
        conditions = [condition for some in names for condition in _chain(dataset, some)]
        return Pattern(kind, size, wanted, f"PATTERN OR({', '.join(parts)}) WHERE {' AND '.join(conditions)}")
    names_of_one = [f"x{i}" for i in range(size)]
    conditions = _chain(dataset, names_of_one)
    drawn = rng.sample(types, wanted)
    items = _items(drawn, names_of_one)
    if kind == "negation":
        items.insert(rng.randrange(1, size), f"!`{drawn[-1]}` n")
        conditions.append(dataset.unwanted.format(n="n"))
    elif kind == "kleene":
        place = rng.randrange(1, size - 1)
        name, attribute = names_of_one[place], dataset.rising[0]
        items[place] = f"`{drawn[place]}`+ {name}[]"
        conditions.append(f"{name}[i].{attribute} > {name}[i-1].{attribute}")
    operator = "AND" if kind == "conjunction" else "SEQ"
    return Pattern(kind, size, wanted, f"PATTERN {operator}({', '.join(items)}) WHERE {' AND '.join(conditions)}")


def _items(types: list[str], names: list[str]) -> list[str]:
    return [f"`{kind}` {name}" for kind, name in zip(types, names, strict=False)]


def _chain(dataset: Dataset, names: list[str]) -> list[str]:
    return [f"{x}.{attribute} < {y}.{attribute}" for x, y in pairwise(names) for attribute in dataset.rising]
