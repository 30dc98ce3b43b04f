"""Delta Lake for real: a table as the source of a batch and of a stream, on a Spark that Delta Lake is made for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.language import parse
from ensue.spark.following import follow
from ensue.spark.pipeline import run_batch, start_stream
from ensue.spark.session import make_session
from ensue.spark.settings import Detection, FileSink, Pipeline, Source, Stream
from tests.connectors.artifacts import delta
from tests.spark.killing import read_result
from tests.spark.ordeal import COLUMNS, LATENESS, QUERIES, SCHEMA, Rows, describe_difference, expect, make_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Delta Lake's jars, of which ensue finds out by itself what else has to be set."""
    folder = tmp_path_factory.mktemp("lake")
    config = {
        "spark.jars": ",".join(map(str, delta().jars())),
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    session = make_session("lake", master="local[2]", config=config)
    yield session
    session.stop()


def append(lake: SparkSession, table: Path, rows: Rows) -> None:
    lake.createDataFrame(rows, COLUMNS).coalesce(1).write.format("delta").mode("append").save(str(table))


def test_a_table_as_a_batch(lake: SparkSession, tmp_path: Path) -> None:
    rows = [row for rows in make_files(6, 2) for row in rows]
    for part in (rows[::2], rows[1::2]):
        append(lake, tmp_path / "events", part)
    sink = FileSink("parquet", str(tmp_path / "out.parquet"), single_file=True)
    counts = run_batch(lake, Pipeline(tuple(parse(QUERIES)), Source("delta", str(tmp_path / "events")), sink))
    expected = ensue.run(pa.Table.from_pylist(rows, SCHEMA), QUERIES).to_arrow()["match_id"].to_pylist()
    assert sorted(pq.read_table(tmp_path / "out.parquet")["match_id"].to_pylist()) == sorted(expected)
    assert (counts.received, counts.matches) == (len(rows), len(expected))


def test_a_table_as_a_stream(lake: SparkSession, tmp_path: Path) -> None:
    files = make_files(7, 6)
    pipeline = Pipeline(
        queries=tuple(parse(QUERIES)),
        source=Source("delta", str(tmp_path / "events"), options={"maxFilesPerTrigger": "1"}),
        sink=FileSink("parquet", str(tmp_path / "out")),
        aside=FileSink("parquet", str(tmp_path / "aside")),
        detection=Detection(lateness=LATENESS),
        stream=Stream(str(tmp_path / "state"), "available-now"),
    )
    received = 0
    for part in (files[:4], files[4:]):  # the second start goes on from the checkpoint
        for rows in part:
            append(lake, tmp_path / "events", rows)
        received += follow(start_stream(lake, pipeline)).received
    assert received == sum(map(len, files))
    assert describe_difference(read_result(lake, tmp_path, "pipeline"), expect(files)) is None
