"""AGG on Spark gives the rows that the engine gives in one process, over a finite input; a stream is refused."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ensue
from ensue.errors import PlanError
from ensue.spark import detect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """
QUERY each  PATTERN SEQ(A a, B b) WITHIN 20 AGG COUNT(*), SUM(a.x), MAX(b.x) AS most GROUP BY k;
QUERY tied  PATTERN SEQ(A a, !N n, B+ b[], C c) WHERE a.k = b.k = c.k = n.k WITHIN 30 AGG COUNT(*) GROUP BY a.k;
QUERY whole PATTERN SEQ(A a, B b, C c) WITHIN 15 AGG COUNT(*), AVG(b.x) AS mean;
QUERY built PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 AGG COUNT(*) EMIT ON CHANGE;
QUERY found PATTERN SEQ(C c, A a) WITHIN 3 RETURN a.x AS it
"""


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
    assert {row["query"] for row in expected} == {"each", "tied", "whole", "built", "found"}


def test_aggregates_of_a_stream_are_refused(spark: SparkSession) -> None:
    events = spark.readStream.format("rate").load().selectExpr("'A' AS type", "value AS ts")
    with pytest.raises(PlanError, match=r"query `q1`: AGG runs in-process and on finite DataFrames"):
        detect(events, "PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)")
