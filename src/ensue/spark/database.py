"""A table of a database as a sink, over JDBC. Each micro-batch is one transaction, and no match is written twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampNTZType

from ensue.errors import InputError
from ensue.spark.objects import with_plain_columns
from ensue.spark.settings import JdbcSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ensue.spark.sinks import Rows

_KEY_TYPES = "match_id VARCHAR(64), query VARCHAR(255)"  # text of no given length cannot be a key in most databases
_NO_TABLE = re.compile(
    r"does not exist|doesn't exist|not found|no such table|unknown table|invalid object", re.IGNORECASE
)
_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException")


class DatabaseWriter:
    """Appends matches to a table. Only the first micro-batch after a start can be a repeated one: it is compared."""

    def __init__(self, spark: SparkSession, sink: JdbcSink) -> None:
        self.spark = spark
        self.sink = sink
        self._compared = False

    def prepare(self) -> None:
        """See that the database can be reached."""
        self._stored(None)

    def write(self, rows: Rows) -> None:
        """Append the rows that are not there yet."""
        if rows.count == 0:
            return
        matches = with_plain_columns(rows.frame)
        if not self._compared:
            known = self._stored(matches)
            if known is not None:
                matches = matches.join(known, "match_id", "left_anti")
        options = {"createTableColumnTypes": _KEY_TYPES, **self.sink.options}
        writer = matches.repartition(1).write.format("jdbc").mode("append").options(**options)
        writer.option("url", self.sink.url).option("dbtable", self.sink.table).save()
        self._compared = True

    def _stored(self, matches: DataFrame | None) -> DataFrame | None:
        """The ids in the table from about the times of these matches; None if there is no table yet."""
        options = dict(self.sink.options)
        kind = None if matches is None else matches.schema["detected_at"].dataType
        if isinstance(kind, TimestampNTZType):
            options["preferTimestampNTZ"] = "true"
        reader = self.spark.read.format("jdbc").options(**options)
        try:
            table = reader.option("url", self.sink.url).option("dbtable", self.sink.table).load()
        except (PySparkException, Py4JError) as error:
            text = str(error)
            if _NO_TABLE.search(text) and not _NO_DRIVER.search(text):
                return None
            reason = next((line for line in text.splitlines() if "Exception" in line), text.splitlines()[0])
            driver = " (its driver: --packages, or [spark] packages)" if _NO_DRIVER.search(text) else ""
            raise InputError(f"cannot reach the database {self.sink.url}{driver}: {reason}") from error
        if matches is None:
            return None
        first, last = matches.agg(F.min("detected_at"), F.max("detected_at")).collect()[0]
        # A database may keep fewer digits of a second.
        margin = F.lit(0) if isinstance(kind, NumericType) else F.expr("INTERVAL 1 SECOND")
        near = F.col("detected_at").between(F.lit(first) - margin, F.lit(last) + margin)
        return table.where(near).select("match_id")
