"""The folder that says how far a stream has come: Spark's own checkpoint in `spark`, and in `ensue.json` of what it is.

A stream that goes on with other queries or other columns would give neither the old answer nor the new one, so that is
refused before anything runs.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ensue.errors import StateError
from ensue.spark.files import Folder
from ensue.spark.logs import check_logs
from ensue.spark.manifest import VERSION, describe_changes, name_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ensue.spark.settings import Pipeline

FILE = "ensue.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that fits the pipeline: the name of the run, its number of buckets, and the folder for Spark.

    `description` is what a new one has still to write down of itself.
    """

    run: str
    buckets: int
    path: str
    description: Mapping[str, Any] | None

    @property
    def spark_path(self) -> str:
        """The folder of Spark's own checkpoint."""
        return f"{self.path.rstrip('/')}/spark"

    def save(self, spark: SparkSession) -> None:
        """Write down what a new checkpoint is of, before its first micro-batch."""
        if self.description is not None:
            values = {"run": self.run, **self.description}
            text = json.dumps({**values, "checksum": _checksum(values)}, indent=1)
            Folder(spark, self.path).write_text(FILE, text)


def open_checkpoint(spark: SparkSession, pipeline: Pipeline, columns: StructType) -> Checkpoint:
    """The checkpoint of a pipeline's stream, new if there is none; one of another pipeline, or damaged, is refused."""
    assert pipeline.stream is not None
    path = pipeline.stream.checkpoint
    folder = Folder(spark, path)
    begun = bool(folder.names("spark/offsets"))
    if begun:
        check_logs(spark, folder.join("spark"))
    stored = _read(folder, path) if begun else None
    buckets = pipeline.detection.buckets
    if buckets is None:
        buckets = stored["buckets"] if stored else int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    now = _describe(pipeline, columns, buckets)
    if stored is None:
        if begun:
            raise StateError(
                f"the checkpoint {path} has no {FILE}, which says what it is of: it is damaged. Give a new checkpoint "
                "folder, or bring the file back from a copy"
            )
        return Checkpoint(uuid.uuid4().hex, buckets, path, now)
    changes = describe_changes(stored, now)
    if changes is not None:
        raise StateError(f"{path}: {changes}")
    return Checkpoint(stored["run"], buckets, path, None)


def _describe(pipeline: Pipeline, columns: StructType, buckets: int) -> dict[str, Any]:
    """What has to stay the same while a checkpoint lives."""
    source, detection = pipeline.source, pipeline.detection
    key = () if detection.key is None else (detection.key,)
    queries = [replace(q, partition_by=tuple(dict.fromkeys([*q.partition_by, *key]))) for q in pipeline.queries]
    return {
        "version": VERSION,
        "queries": {**name_rules(pipeline.rules), **{query.name or "": str(query) for query in queries}},
        "columns": {field.name: field.dataType.simpleString() for field in columns},
        "type": source.type,
        "ts": source.ts,
        "begin": source.begin,
        "unit": source.unit,
        "lateness": str(detection.lateness),
        "buckets": buckets,
    }


def _read(folder: Folder, path: str) -> dict[str, Any] | None:
    if not folder.exists(FILE):
        return None
    try:
        stored = json.loads(folder.read_text(FILE))
        checksum = stored.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path) from error
    if checksum != _checksum(stored):
        raise _damaged(path)
    return dict(stored)


def _checksum(values: dict[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _damaged(path: str) -> StateError:
    return StateError(
        f"the file {FILE} of the checkpoint {path} is damaged, so that no one can say what the checkpoint is of. Bring "
        "it back from a copy, or start anew with another checkpoint folder"
    )
