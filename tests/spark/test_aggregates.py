"""AGG on Spark gives the rows that the engine gives in one process, in a finite input and in a stream."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import ensue
from ensue.spark import detect

from .agreement import drain, read_files, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """
QUERY each  PATTERN SEQ(A a, B b) WITHIN 20 AGG COUNT(*), SUM(a.x), MAX(b.x) AS most GROUP BY k;
QUERY tied  PATTERN SEQ(A a, !N n, B+ b[], C c) WHERE a.k = b.k = c.k = n.k WITHIN 30 AGG COUNT(*) GROUP BY a.k;
QUERY whole PATTERN SEQ(A a, B b, C c) WITHIN 15 AGG COUNT(*), AVG(b.x) AS mean;
QUERY built PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 AGG COUNT(*) EMIT ON CHANGE;
QUERY moves PATTERN SEQ(A a, B b) WITHIN 7 AGG COUNT(*), SUM(b.x) GROUP BY k EMIT ON CHANGE;
QUERY found PATTERN SEQ(C c, A a) WITHIN 3 RETURN a.x AS it
"""
FAR, LATENESS = 1_000_000, 20


def make_events(count: int) -> pa.Table:
    rng = random.Random(5)
    rows = [
        {"type": rng.choice("ABCN"), "ts": n // 2, "k": rng.randrange(6), "x": rng.randrange(9)} for n in range(count)
    ]
    return pa.Table.from_pylist(rows)


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)


def test_aggregates_in_a_finite_input(spark: SparkSession) -> None:
    events = make_events(400)
    expected = ensue.run(events, QUERIES).to_arrow().to_pylist()
    found = detect(spark.createDataFrame(events), QUERIES)
    assert counted([row.asDict(recursive=True) for row in found.collect()]) == counted(expected)
    assert {row["query"] for row in expected} == {"each", "tied", "whole", "built", "moves", "found"}


def test_aggregates_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Out of order within the lateness, cut anywhere, stopped and started again: the rows of the sorted input.

    The last event lets time pass all that the others lead to.
    """
    events, rng = make_events(400), random.Random(7)
    order = sorted(range(400), key=lambda n: n + rng.randrange(2 * LATENESS))
    cuts = [0, *sorted(rng.sample(range(1, 400), 3)), 400]
    pieces = [events.take(order[start:stop]) for start, stop in pairwise(cuts)]
    last = pa.Table.from_pylist([{"type": "Z", "ts": FAR, "k": 0, "x": 0}], events.schema)
    found = []
    for first, tables in ((0, pieces[:2]), (2, [*pieces[2:], last])):
        write_files(tmp_path / "in", tables, first)
        rows = detect(read_files(spark, tmp_path / "in"), QUERIES, lateness=LATENESS)
        found += drain(rows, tmp_path / "checkpoint")
    expected = ensue.run(events, QUERIES).to_arrow().to_pylist()
    assert counted(pa.concat_tables(found).to_pylist()) == counted(expected)
