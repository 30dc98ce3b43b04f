"""The stream that the chaos and damage tests run: queries, events in files, and what must be found in them.

Files are read in order, one a micro-batch. Events come out of order within the lateness; from the fourth file on some
are far too late, however the stream is cut, and some cannot be read. The last file lets time run on, so that all is
decided.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import ensue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = """
QUERY rising PATTERN SEQ(A a, B b) WHERE a.user = b.user AND b.price > a.price WITHIN 40;
QUERY alone PATTERN SEQ(A a, C c, !B x) WHERE x.price > a.price AND c.price < 3 WITHIN 15;
QUERY climb PATTERN SEQ(A a, B+ bs[], C c)
  WHERE a.user = bs.user = c.user AND bs[i].price > bs[i-1].price WITHIN 60
"""
ADAPT = ensue.Adaptation(decision="unconditional", every=30, method="side by side")
LATENESS = 25
ROWS = 60
"""Events in a file."""
STEP = 60
"""Event time between files."""
SCHEMA = pa.schema(
    [("type", pa.string()), ("ts", pa.int64()), ("user", pa.int64()), ("price", pa.int64()), ("id", pa.int64())]
)
COLUMNS = "type string, ts long, user long, price long, id long"

Rows = list[dict[str, Any]]
Answer = Counter[tuple[str, str]]
"""How often there is each match (by its `match_id`), late row and rejected row (by its `id`)."""


def make_files(seed: int, count: int) -> list[Rows]:
    """The rows of each file, in the order of arrival."""
    rng = random.Random(seed)
    events = [
        {
            "type": rng.choice("AAABBBBCCX"),
            "ts": 1000 + place * STEP // ROWS,
            "user": rng.randrange(5),
            "price": rng.randrange(10),
            "id": place,
        }
        for place in range(count * ROWS)
    ]
    events.sort(key=lambda event: event["ts"] + rng.randrange(LATENESS))
    files = [events[start : start + ROWS] for start in range(0, len(events), ROWS)]
    for number, file in enumerate(files):
        late = {"type": "A", "ts": 1, "user": 1, "price": 1, "id": 1_000_000 + number}
        unreadable = {"type": "A", "ts": None, "user": 1, "price": 1, "id": 2_000_000 + number}
        if number >= 3:
            file[rng.randrange(ROWS) : 0] = [late, unreadable]
    files.append([{"type": "X", "ts": 1_000_000, "user": None, "price": None, "id": 3_000_000}])
    return files


def expect(files: Sequence[Rows]) -> Answer:
    """What a run over all files has to find, worked out in this process from the events that are in time."""
    rows = [row for file in files for row in file]
    taken = [row for row in rows if row["id"] < 1_000_000]
    matches = ensue.run(pa.Table.from_pylist(taken, SCHEMA), QUERIES).to_arrow()["match_id"].to_pylist()
    answer: Answer = Counter(("match", identity) for identity in matches)
    answer.update(("late", str(row["id"])) for row in rows if row["id"] // 1_000_000 == 1)
    answer.update(("rejected", str(row["id"])) for row in rows if row["id"] // 1_000_000 == 2)
    return answer


def add_file(folder: Path, number: int, rows: Rows) -> None:
    """Put a file in its place, whole, with a time that keeps its turn."""
    beside = folder / f".{number:04d}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), beside)
    os.utime(beside, (1_700_000_000 + number, 1_700_000_000 + number))
    beside.rename(folder / f"{number:04d}.parquet")


def read_events(spark: SparkSession, folder: Path) -> DataFrame:
    """The stream of the files' rows, a file at a time."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def count_rows(rows: DataFrame) -> Answer:
    """What there is in the output of `detect_with_aside`."""
    found = rows.filter("kind != 'journal'")
    found = found.selectExpr("kind", "coalesce(match.match_id, cast(event.id as string)) as name").collect()
    return Counter((row["kind"], row["name"]) for row in found)


def describe_difference(found: Answer, expected: Answer) -> str | None:
    """What is lost and what is too much; None if nothing is."""
    lost, doubled = expected - found, found - expected
    if not lost and not doubled:
        return None
    return f"{lost.total()} lost, {doubled.total()} too many, such as {list((lost or doubled).elements())[:3]}"
