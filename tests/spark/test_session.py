"""Sessions: what they are made with, and that batch and stateful streaming queries run on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import col
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, Row, StructField, StructType

from ensue.spark.session import STREAMING_CONFIG, configure, make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTED = StructType([StructField("key", LongType()), StructField("events", LongType())])


def counter() -> StatefulProcessor:
    """Counts the events of a key in state. A class of this function, since workers cannot import the tests' modules."""

    class CountEvents(StatefulProcessor):
        """Counts the events of a key in state."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.total = handle.getValueState("total", StructType([StructField("n", LongType())]))

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            before = self.total.get()[0] if self.total.exists() else 0
            after = before + sum(1 for _ in rows)
            self.total.update((after,))
            yield Row(key=key[0], events=after)

        def close(self) -> None:
            pass

    return CountEvents()


def test_workers_run_this_python(spark: SparkSession) -> None:
    def interpreter(batches: Any) -> Any:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"executable": [sys.executable]})

    rows = spark.range(1).mapInArrow(interpreter, "executable string").collect()
    assert {row.executable for row in rows} == {sys.executable}


def test_workers_are_forked_with_the_engine_loaded_and_without_threads(spark: SparkSession) -> None:
    def look(batches: Any) -> Any:
        import os

        import pyarrow as pa

        loaded = [name in sys.modules for name in ("ensue.runtime.kernels.runs", "ensue.spark.streaming")]
        zipped = sys.modules["pyspark"].__file__.count(".zip")
        for _ in batches:
            threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
            yield pa.RecordBatch.from_pydict({"loaded": [all(loaded)], "zipped": [zipped], "threads": [threads]})

    (row,) = spark.range(1).mapInArrow(look, "loaded boolean, zipped long, threads long").collect()
    assert (row.loaded, row.zipped, row.threads) == (True, 0, 1)


def test_session_has_the_streaming_settings(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in STREAMING_CONFIG} == STREAMING_CONFIG


def test_config_has_the_last_word_and_session_is_shared(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert make_session(master="local[2]", config={"spark.sql.shuffle.partitions": "2"}).sparkContext is (
        spark.sparkContext
    )


def test_configure_sets_a_session_made_elsewhere(spark: SparkSession) -> None:
    other = spark.newSession()
    for name in STREAMING_CONFIG:
        other.conf.unset(name)
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other.conf.set("spark.sql.streaming.stateStore.rowChecksum.enabled", "false")
    assert configure(other) is other
    assert {name: other.conf.get(name) for name in STREAMING_CONFIG} == STREAMING_CONFIG


def test_stateful_stream_goes_on_after_a_restart_with_checksums(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    seen: list[tuple[int, int]] = []

    def keep(batch: DataFrame, _: int) -> None:
        seen.extend((row.key, row.events) for row in batch.collect())

    for first in (0, 100):
        spark.range(first, first + 100).write.mode("append").parquet(str(source))
        query = (
            spark.readStream.schema("id long")
            .parquet(str(source))
            .withColumn("key", col("id") % 2)
            .groupBy("key")
            .transformWithState(counter(), COUNTED, "Update", "None")
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(checkpoint))
            .outputMode("update")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sorted(seen) == [(0, 50), (0, 100), (1, 50), (1, 100)]
    changes = list((checkpoint / "state").rglob("[!.]*.changelog"))
    assert changes and all((path.parent / f".{path.name}.crc").exists() for path in changes)
