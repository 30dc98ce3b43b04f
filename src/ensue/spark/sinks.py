"""Where a pipeline's matches go, and what it sets aside: files, the console, Kafka, a database, a webhook.

A stream that fails in the middle of a micro-batch repeats it, and the sinks see to it that no match is there twice: a
micro-batch's files replace those of its first try, a database is asked for the matches that it has, and the others
carry the match_id for the receiver to know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from pyspark.sql import functions as F

from ensue.spark.columns import quote
from ensue.spark.database import DatabaseWriter
from ensue.spark.file_sink import CSV_STYLE, FileWriter
from ensue.spark.kafka import require_server
from ensue.spark.objects import flatten
from ensue.spark.settings import ConsoleSink, FileSink, JdbcSink, KafkaSink, Sink, WebhookSink
from ensue.spark.sources import explained
from ensue.spark.webhook import post_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Rows:
    """What a sink gets: the rows, how to have them as JSON, and of which micro-batch they are.

    `objects` gives the column `value`, and for matches `match_id`. `count` is None where it is not known; `batch` is
    None in a batch run.
    """

    frame: DataFrame
    objects: Callable[[], DataFrame]
    count: int | None = None
    batch: int | None = None


class Writer(Protocol):
    """Writes rows where a sink says."""

    def prepare(self) -> None:
        """Refuse what cannot go well, before anything is computed."""
        ...

    def write(self, rows: Rows) -> None:
        """Write all the rows; when it returns they are there."""
        ...


def make_writer(spark: SparkSession, sink: Sink, run: str | None) -> Writer:
    """The writer of a sink; `run` names the stream that writes, None is a batch."""
    match sink:
        case FileSink():
            return FileWriter(spark, sink, run)
        case ConsoleSink():
            return ConsoleWriter(sink)
        case KafkaSink():
            return KafkaWriter(spark, sink)
        case JdbcSink():
            return DatabaseWriter(spark, sink)
        case WebhookSink():
            return WebhookWriter(sink)
        case _:
            assert_never(sink)


class ConsoleWriter:
    """Prints rows on standard output."""

    def __init__(self, sink: ConsoleSink) -> None:
        self.sink = sink
        self._headed = False

    def prepare(self) -> None:
        """Nothing can go wrong."""

    def write(self, rows: Rows) -> None:
        """Print the rows, at once: a reader at the other end of a pipe should not wait."""
        match self.sink.style:
            case "json":
                for row in rows.objects().select("value").toLocalIterator():
                    print(row.value)
            case "csv":
                self._print_csv(flatten(rows.frame))
            case "table":
                if rows.count != 0:
                    print("" if rows.batch is None else f"micro-batch {rows.batch}, {rows.count:,} rows")
                    rows.frame.show(self.sink.rows, truncate=False)
        sys.stdout.flush()

    def _print_csv(self, rows: DataFrame) -> None:
        if not self._headed:
            print(",".join(f'"{name.replace(chr(34), 2 * chr(34))}"' for name in rows.columns))
            self._headed = True
        columns = F.struct(*[F.col(quote(name)) for name in rows.columns])
        for row in rows.select(F.to_csv(columns, CSV_STYLE).alias("line")).toLocalIterator():
            print(row.line)


class KafkaWriter:
    """Sends rows to a topic."""

    def __init__(self, spark: SparkSession, sink: KafkaSink) -> None:
        self.spark = spark
        self.sink = sink

    def prepare(self) -> None:
        """See that Spark knows Kafka, and that its servers are there, where the executors see what is seen here."""
        options = {"kafka.bootstrap.servers": self.sink.servers, "subscribe": self.sink.topic}
        with explained("kafka"):
            self.spark.read.format("kafka").options(**options).load()
        if (self.spark.sparkContext.master or "").startswith("local"):
            require_server(self.sink.servers)

    def write(self, rows: Rows) -> None:
        """Send the rows; of matches the key is the match_id."""
        if rows.count == 0:
            return
        objects = rows.objects()
        if "match_id" in objects.columns:
            objects = objects.withColumnRenamed("match_id", "key")
        options = {**self.sink.options, "kafka.bootstrap.servers": self.sink.servers, "topic": self.sink.topic}
        objects.write.format("kafka").options(**options).save()


class WebhookWriter:
    """Posts matches to a URL."""

    def __init__(self, sink: WebhookSink) -> None:
        self.sink = sink

    def prepare(self) -> None:
        """A receiver is only asked when there is something for it."""

    def write(self, rows: Rows) -> None:
        """Post the matches."""
        if rows.count != 0:
            post_matches(rows.objects(), self.sink)
