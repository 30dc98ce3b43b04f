"""Files as a sink. A batch writes a folder, or one file; a stream a folder for each micro-batch.

All is written beside its place and then put there by one renaming, so that a reader sees a result whole or not at all,
and a failed run leaves the older result as it was.
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING

from ensue.errors import InputError, StateError
from ensue.spark.files import Folder
from ensue.spark.objects import flatten
from ensue.spark.settings import FileSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ensue.spark.sinks import Rows

MARK = "_ensue.json"
ROWS_PER_FILE = 1_000_000
_WRITING = "_writing"
CSV_STYLE = {
    "escape": '"',
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}
"""CSV as the in-process engine writes it: a quote in a text is doubled, times to the microsecond."""


class FileWriter:
    """Writes to files. `run` names the stream whose micro-batches these are; None is a batch."""

    def __init__(self, spark: SparkSession, sink: FileSink, run: str | None) -> None:
        self.spark = spark
        self.sink = sink
        self.run = run
        above, self.name = posixpath.split(sink.path.rstrip("/"))
        self.above = Folder(spark, above or ("/" if sink.path.startswith("/") else "."))
        self.folder = Folder(spark, sink.path)

    def prepare(self) -> None:
        """Refuse to write over what is not a result of this pipeline."""
        # Spark's own default is a format of times that others have given up.
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        if self.run is not None:
            self._claim(self.run)
        elif self.sink.single_file:
            if self.folder.is_folder():
                raise InputError(f"cannot write the file {self.sink.path}: it is a folder; give another name")
        elif self.folder.exists():
            self._require_replaceable()

    def _require_replaceable(self) -> None:
        if not self.folder.is_folder():
            raise InputError(f"cannot write the folder {self.sink.path}: it is a file; give another name, or remove it")
        foreign = [name for name in self.folder.names() if not name.startswith(("part-", "_", "."))]
        if foreign:
            raise InputError(
                f"the folder {self.sink.path} holds more than an older result ({foreign[0]}), and would be replaced; "
                "give a folder of its own"
            )

    def _claim(self, run: str) -> None:
        """Mark the folder as that of a stream; one of another stream would get its micro-batches replaced by ours."""
        if self.folder.exists(MARK):
            try:
                owner = json.loads(self.folder.read_text(MARK)).get("run")
            except ValueError:
                owner = None
            if owner != run:
                raise StateError(
                    f"the folder {self.sink.path} holds the results of a run with another checkpoint; give a new "
                    "folder, or the checkpoint that belongs to it"
                )
            return
        if self.folder.exists() and [name for name in self.folder.names() if not name.startswith(("_", "."))]:
            raise InputError(f"the folder {self.sink.path} is not empty, and not of this stream; give a new folder")
        self.folder.write_text(MARK, json.dumps({"run": run}))

    def write(self, rows: Rows) -> None:
        """Write the rows in place of what an earlier try has written."""
        if rows.batch is None:
            self._write_result(rows)
            return
        place = f"batch={rows.batch:08d}"
        if not rows.count:
            self.folder.delete(place)
            return
        written = f"{_WRITING}/{place}"
        files = -(-(rows.count or 1) // ROWS_PER_FILE)
        self._write_files(rows, self.folder, written, files)
        self.folder.move(written, place)
        self.folder.delete(_WRITING)

    def _write_result(self, rows: Rows) -> None:
        written = f"{self.name}{_WRITING}"
        self._write_files(rows, self.above, written, 1 if self.sink.single_file else None)
        if not self.sink.single_file:
            self.above.move(written, self.name)
            return
        (part,) = [name for name in self.above.names(written) if name.startswith("part-")]
        self.above.move(f"{written}/{part}", self.name)
        self.above.delete(f".{self.name}.crc")
        self.above.delete(written)

    def _write_files(self, rows: Rows, folder: Folder, name: str, files: int | None) -> None:
        """Write a folder; of `files` files, or as many as the rows have partitions."""
        folder.delete(name)
        place, options = folder.join(name), dict(self.sink.options)
        match self.sink.format:
            case "parquet":
                _gather(rows.frame, files).write.options(**options).parquet(place)
            case "csv":
                options = {"header": "true", **CSV_STYLE, **options}
                _gather(flatten(rows.frame), files).write.options(**options).csv(place)
            case "json":
                _gather(rows.objects(), files).select("value").write.options(**options).text(place)
                for part in folder.names(name):
                    if part.startswith("part-"):
                        folder.move(f"{name}/{part}", f"{name}/{part.replace('.txt', '.json', 1)}")
                    elif part.startswith(".part-"):
                        folder.delete(f"{name}/{part}")  # the checksum of the older name


def _gather(rows: DataFrame, files: int | None) -> DataFrame:
    # Not `coalesce`, which would also leave the work before it to so few tasks.
    return rows if files is None else rows.repartition(files)
