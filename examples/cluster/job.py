"""A Spark job that finds the matches of queries in a folder of Parquet files: once, or as a stream of new files.

spark-submit says where it runs, so nothing here names a master. `submit.sh` does the submitting.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ensue.spark import detect, make_session


def main() -> None:
    asked = arguments()
    spark = make_session("ensue on a cluster")
    queries = Path(asked.queries).read_text(encoding="utf-8")
    if asked.checkpoint:
        stream(spark, queries, asked)
    else:
        matches = detect(spark.read.parquet(asked.events), queries)
        matches.write.mode("overwrite").parquet(asked.output)
    print_found(spark.read.parquet(asked.output))
    spark.stop()


def stream(spark: SparkSession, queries: str, asked: argparse.Namespace) -> None:
    """Take the files that were not taken before, the oldest first; the checkpoint remembers the rest."""
    schema = spark.read.parquet(asked.events).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(asked.events)
    running = (
        detect(files, queries, lateness=asked.lateness)
        .writeStream.format("parquet")
        .option("path", asked.output)
        .option("checkpointLocation", asked.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()


def print_found(matches: DataFrame) -> None:
    for row in matches.groupBy("query").count().orderBy("query").collect():
        print(f"{row['query']}: {row['count']} matches")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", required=True, help="a folder of Parquet files with the columns type and ts")
    parser.add_argument("--queries", required=True, help="a file of queries")
    parser.add_argument("--output", required=True, help="the folder for the matches")
    parser.add_argument("--checkpoint", help="run as a stream that keeps its state in this folder")
    parser.add_argument("--lateness", default="0 seconds", help="how far out of order a stream's events may come")
    return parser.parse_args()


if __name__ == "__main__":
    main()
