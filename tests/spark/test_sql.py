"""`ensue_match` in SQL gives what the engine gives."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

import ensue
from ensue.spark.sql import register
from ensue.testing.generators import stock_like

RISING = "PATTERN SEQ(A a, B b, C c) WHERE 0.01 < a.diff < b.diff < c.diff WITHIN 1 minute"
KEYED = (
    "PATTERN SEQ(A a, !B x, A b) WHERE a.volume = b.volume = x.volume WITHIN 2 minutes "
    "RETURN a.ts, b.ts AS later, b.price"
)


@pytest.fixture
def trades(spark: SparkSession) -> pa.Table:
    register(spark)
    table = stock_like(2_000, 1)
    zoned = table["ts"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("ts"), "ts", zoned)
    spark.createDataFrame(table).createOrReplaceTempView("trades")
    return table


@pytest.mark.parametrize("query", [RISING, KEYED, f"QUERY one {RISING}; QUERY two {RISING.replace('0.01', '0.06')}"])
def test_the_same_matches(spark: SparkSession, trades: pa.Table, query: str) -> None:
    found = spark.sql(f"SELECT * FROM ensue_match(TABLE(trades), '{query}')").toArrow()
    expected = ensue.run(trades, query).to_arrow()
    assert expected.num_rows > 0
    assert found.column_names == expected.column_names
    assert sorted(found["match_id"].to_pylist()) == sorted(expected["match_id"].to_pylist())
    first, same = (
        table.sort_by("match_id").slice(0, 5).drop_columns(["partition"]).to_pylist() for table in (found, expected)
    )
    assert first == same


def test_events_of_a_key_are_brought_together(spark: SparkSession, trades: pa.Table) -> None:
    plan = spark.sql(f"EXPLAIN SELECT * FROM ensue_match(TABLE(trades), '{KEYED}')").first()[0]
    assert "pmod(xxhash64(volume" in plan
    assert "SinglePartition" in spark.sql(f"EXPLAIN SELECT * FROM ensue_match(TABLE(trades), '{RISING}')").first()[0]


def test_columns_by_name_and_local_times(spark: SparkSession) -> None:
    register(spark)
    start = datetime(2026, 3, 29, 1, 30)
    rows = [(kind, start + timedelta(minutes=n)) for n, kind in enumerate(["in", "out", "in", "out"])]
    frame = spark.createDataFrame(rows, "action string, at timestamp_ntz")
    frame.createOrReplaceTempView("visits")
    query = "PATTERN SEQ(in a, out b) WITHIN 2 minutes RETURN a.ts AS came, b.ts AS went"
    found = spark.sql(f"SELECT came, went FROM ensue_match(TABLE(visits), '{query}', type => 'action', ts => 'at')")
    assert sorted(tuple(row) for row in found.collect()) == [(rows[0][1], rows[1][1]), (rows[2][1], rows[3][1])]


def test_nothing_found_and_nothing_given(spark: SparkSession, trades: pa.Table) -> None:
    assert spark.sql(f"SELECT * FROM ensue_match(TABLE(trades), '{RISING.replace('0.01', '1e9')}')").count() == 0
    assert spark.sql(f"SELECT * FROM ensue_match(TABLE(SELECT * FROM trades LIMIT 0), '{RISING}')").count() == 0


def test_a_row_that_cannot_be_read(spark: SparkSession) -> None:
    register(spark)
    spark.createDataFrame([("A", 1), (None, 2), ("B", 3)], "type string, ts long").createOrReplaceTempView("holes")
    with pytest.raises(PythonException, match="the type is null"):
        spark.sql("SELECT * FROM ensue_match(TABLE(holes), 'PATTERN SEQ(A a, B b)')").collect()
    kept = spark.sql("SELECT * FROM ensue_match(TABLE(holes), 'PATTERN SEQ(A a, B b)', strict => false)")
    assert kept.count() == 1


def test_errors_say_what_is_wrong(spark: SparkSession, trades: pa.Table) -> None:
    with pytest.raises(AnalysisException, match="did you mean `diff`"):
        spark.sql("SELECT * FROM ensue_match(TABLE(trades), 'PATTERN SEQ(A a, B b) WHERE a.dif > 3')")
    with pytest.raises(AnalysisException, match="no argument `tipe`"):
        spark.sql("SELECT * FROM ensue_match(TABLE(trades), 'PATTERN A a', tipe => 'x')")
    with pytest.raises(AnalysisException, match="is a table"):
        spark.sql("SELECT * FROM ensue_match('trades', 'PATTERN A a')")
