"""The journal on Spark: what the engines of shards and buckets decided about their plans, told beside the matches."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ensue.events.json_text import to_json
from ensue.runtime.journal import Entry

KIND = "journal"
"""The kind of output rows that are entries; their `reason` is the entry as a JSON object."""

_ENTRY = (
    "bucket int, query string, at bigint, reason string, left double, right double, old string, new string, "
    "old_cost double, new_cost double, method string, seconds double, switch_seconds double, replayed bigint, "
    "trial double, statistics string"
)


def write_entries(entries: Iterable[Entry], bucket: int) -> list[str]:
    """Entries of a bucket as JSON."""
    return [to_json({"bucket": bucket, **entry.to_json()}) for entry in entries]


def journal_of(detected: DataFrame) -> DataFrame:
    """The journal in what `detect_with_aside` with `adapt` gave: a row for each time that a plan was made anew.

    The columns are those of `ensue.runtime.adapting.Entry`, after `bucket`, the number of the bucket of a stream or the
    shard of a finite DataFrame: `query`, `at` (the event time), `reason`, `left` and `right` (the sides of a broken
    invariant), `old` and `new` (the plans), `old_cost`, `new_cost`, `method` (null: the plan stayed), `seconds`,
    `switch_seconds`, `replayed`, `trial` (how many times as long as the old plan the new one took when it was tried)
    and `statistics`, which is JSON.
    """
    match = detected.schema["match"].dataType
    assert isinstance(match, T.StructType)
    entries = detected.filter(F.col("kind") == KIND).select(F.from_json("reason", _ENTRY).alias("entry"))
    return entries.select("entry.*").withColumn("at", _time(F.col("at"), match["end"].dataType))


def journal_objects(detected: DataFrame) -> DataFrame:
    """The journal as JSON, in the column `value`: the objects that `ensue run --backend local` writes, and `bucket`."""
    return detected.filter(F.col("kind") == KIND).select(F.col("reason").alias("value"))


def is_replacement() -> Column:
    """Whether an output row tells of another plan that took over."""
    return (F.col("kind") == KIND) & F.get_json_object("reason", "$.method").isNotNull()


def _time(units: Column, kind: T.DataType) -> Column:
    """A time of the engine as matches have it."""
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(units)
    if isinstance(kind, T.TimestampNTZType):
        seconds = (units.cast("decimal(20,0)") / F.lit(1_000_000)).cast("decimal(18,6)")
        return F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)
    return units
