"""Detection on Spark beside what Spark itself takes: a no-op over the same rows, and the same query as self-joins.

python benchmarks/spark.py [--rows N] [--repeats N] [--only NAME]...

Costs are CPU microseconds an event, of the JVM and all Python workers: the least of some runs. Ratios are of one run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import report
from report import Grid
from rich.console import Console

RESULT = Path(__file__).parent.parent / "results" / "bench-spark.md"
WIDTH = 130
PARTS = ("batch", "joins", "scaling", "stream", "adapting", "aggregates")
KEYS = (1, 100, 100_000)
TYPES = ("A", "B", "C")
WINDOW_MS = 600  # 1 ms an event: 200 live events of a type without a key
KEYED = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k = c.k AND a.diff < b.diff AND b.diff < c.diff "
    "AND a.diff > {floor} WITHIN {window} ms"
)
COUNTED = "PATTERN SEQ(A a, B b, C c) WITHIN {window} ms AGG COUNT(*) GROUP BY k"
UNKEYED = "PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff AND a.diff > {floor} WITHIN {window} ms"


def read_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure detection on Spark beside Spark itself.")
    parser.add_argument("--rows", type=int, default=3_000_000, help="events of the finite runs [3,000,000]")
    parser.add_argument(
        "--join-rows",
        type=int,
        default=1_000_000,
        help="events of the self-joins [1,000,000]",
    )
    parser.add_argument("--stream-rows", type=int, default=200_000, help="events of a micro-batch [200,000]")
    parser.add_argument("--batches", type=int, default=8, help="micro-batches of a stream [8]")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the cheapest counts [3]")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--inside", metavar="PART", help=argparse.SUPPRESS)
    parser.add_argument("--master", default="local[2]", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args(words)


# -- the stream of events ---------------------------------------------------------------------------------------------


def make_events(
    rows: int, keys: int, seed: int = 1, start: int = 0, shares: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)
) -> pa.Table:
    """One event a millisecond, of three types with these shares, with keys as many as asked for."""
    dice = np.random.default_rng(seed)
    return pa.table(
        {
            "type": pa.array(np.array(TYPES)[dice.choice(3, rows, p=shares)]),
            "ts": pa.array(np.arange(start, start + rows) * 1000, pa.timestamp("us", "UTC")),
            "k": dice.integers(0, keys, rows),
            "price": dice.random(rows),
            "diff": dice.random(rows),
        }
    )


def query_for(keys: int | None, rows: int, many: bool = False) -> str:
    """A query that finds about a match in a hundred events, or many: windows are longer if a key has fewer events."""
    if keys is None:
        return UNKEYED.format(floor=0.98, window=WINDOW_MS)
    window = min(WINDOW_MS * keys, rows)
    live = window / keys / 3
    return KEYED.format(floor=0.5 if many else 0.98 if live > 60 else 0.8, window=window)


# -- measuring --------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """The CPU time of this process and all it has started, the ended ones too."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
        if process.pid != me.pid:
            total += spent.children_user + spent.children_system
    return total


def measure(job: Callable[[], Any], repeats: int, warm: bool = False) -> tuple[float, float]:
    """The least CPU and wall seconds of some runs, after one that does not count unless the job has run before."""
    if not warm:
        job()
    runs = []
    for _ in range(repeats):
        cpu, wall = cpu_seconds(), time.perf_counter()
        job()
        runs.append((cpu_seconds() - cpu, time.perf_counter() - wall))
    return min(cpu for cpu, _ in runs), min(wall for _, wall in runs)


# -- what runs in a process of its own, with a session of its own -----------------------------------------------------


def pass_through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def store_events(chosen: argparse.Namespace, keys: int) -> str:
    """The folder of four files of events with so many keys."""
    path = f"{chosen.folder}/keys-{keys}"
    if not Path(path).exists():
        Path(path).mkdir()
        table = make_events(chosen.rows, keys)
        for part in range(4):
            size = chosen.rows // 4
            pq.write_table(table.slice(part * size, size), f"{path}/{part}.parquet")
    return path


def move_rows(spark: Any, path: str) -> None:
    """A no-op: all rows through a shuffle by key and through Python."""
    events = spark.read.parquet(path)
    moved = events.repartition(int(spark.conf.get("spark.sql.shuffle.partitions")), "k")
    moved.mapInArrow(pass_through, events.schema).write.format("noop").mode("overwrite").save()


def run_batch(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """No-op and detection over the same rows."""
    from ensue.spark import detect

    found = []
    for keys, many in (*((keys, False) for keys in KEYS), (KEYS[-1], True), (None, False)):
        path = store_events(chosen, keys or 1)
        rows = chosen.rows // 4 * 4

        def find(path: str = path, query: str = query_for(keys, rows, many)) -> None:
            detect(spark.read.parquet(path), query).write.format("noop").mode("overwrite").save()

        matches = detect(spark.read.parquet(path), query_for(keys, rows, many)).count()
        floor, own = measure(partial(move_rows, spark, path), chosen.repeats), measure(find, chosen.repeats)
        line = {"keys": keys, "many": many, "rows": rows, "matches": matches, "no_op": floor, "detect": own}
        found.append(line)
    return found


def run_aggregates(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """No-op and counting over the same rows: a row for each event that can be last."""
    from ensue.spark import detect

    found = []
    rows = chosen.rows // 4 * 4
    for keys in KEYS[1:]:
        path = store_events(chosen, keys)
        query = COUNTED.format(window=min(WINDOW_MS * keys, rows))

        def count(path: str = path, query: str = query) -> None:
            detect(spark.read.parquet(path), query).write.format("noop").mode("overwrite").save()

        told = detect(spark.read.parquet(path), query).count()
        floor, own = measure(partial(move_rows, spark, path), chosen.repeats), measure(count, chosen.repeats)
        found.append({"keys": keys, "rows": rows, "told": told, "no_op": floor, "detect": own})
    return found


def run_joins(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """Detection and the same query as self-joins in SQL, over fewer rows; both count what they find.

    Two kinds of conditions: one that lets few As through, so that joins have little to do, and one on the last event
    that leaves all pairs of A and B to be looked at. A Spark job with Python workers and a look at the rows before it
    takes most of a second however few the rows are: there are enough of them that this is not what is measured.
    """
    from ensue.spark import detect

    found = []
    for keys, kind in itertools.product((100, 10_000, None), ("few first events", "all pairs")):
        light = kind == "few first events" or keys == 10_000
        rows = chosen.join_rows if light else chosen.join_rows // 8  # self-joins would take many minutes with all
        spark.createDataFrame(make_events(rows, keys or 1)).write.mode("overwrite").parquet(f"{chosen.folder}/joined")
        spark.read.parquet(f"{chosen.folder}/joined").createOrReplaceTempView("events")
        query = query_for(keys, rows)
        if kind == "all pairs":
            first = re.search(r"a\.diff > [0-9.]+", query)
            assert first is not None
            query = query.replace(first[0], "c.diff - a.diff > 0.99")
        window = query.split(" WITHIN ")[1].split()[0]
        events = f"(SELECT *, unix_millis(ts) AS at, unix_millis(ts) DIV {window} AS slice FROM events)"
        left = right = events
        ties = "AND a.k = b.k AND b.k = c.k"
        if keys is None:
            # Without a key, Spark can only try all pairs. Slices of time as long as the window make it an equality
            # join, as an expert would write it.
            right = f"(SELECT *, explode(array(slice, slice - 1)) AS home FROM {events})"
            ties = "AND b.home = a.slice AND c.home = a.slice"
        conditions = query.split(" WHERE ")[1].split(" WITHIN ")[0]
        sql = f"""
            SELECT count(*) FROM {left} a, {right} b, {right} c
            WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C' {ties}
              AND a.at < b.at AND b.at < c.at AND c.at - a.at < {window} AND {conditions_in_sql(conditions)}"""
        table = spark.table("events")
        counted = spark.sql(sql).first()[0]
        own_count = detect(table, query).count()
        if counted != own_count:
            raise SystemExit(f"self-joins count {counted}, detect {own_count} ({query})")
        own = measure(lambda table=table, query=query: detect(table, query).count(), chosen.repeats, warm=True)
        joins = measure(lambda sql=sql: spark.sql(sql).first(), max(1, chosen.repeats - 1), warm=True)
        line = {"keys": keys, "kind": kind, "rows": rows, "matches": counted, "joins": joins, "detect": own}
        found.append(line)
    return found


def conditions_in_sql(conditions: str) -> str:
    """The conditions of a query for Spark SQL, which knows no chains of comparisons."""
    parts = []
    for conjunct in conditions.split(" AND "):
        words = re.split(r" (=|<=|>=|<|>) ", conjunct)
        parts += [" ".join(words[k : k + 3]) for k in range(0, len(words) - 2, 2)]
    return " AND ".join(parts)


def run_scaling(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """The un-keyed query with this master's cores: a heavier one, so that finding is most of the work."""
    from ensue.spark import detect

    path = f"{chosen.folder}/scaling"
    if not Path(path).exists():
        pq.write_table(make_events(chosen.rows // 6, 1), path)
    query = UNKEYED.format(floor=0.9, window=WINDOW_MS * 4)
    events = spark.read.parquet(path)
    cpu, wall = measure(lambda: detect(events, query).write.format("noop").mode("overwrite").save(), chosen.repeats)
    return [{"master": chosen.master, "rows": chosen.rows // 6, "cpu": cpu, "wall": wall}]


def run_stream(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """Micro-batches of detection beside those of a state operator that only counts the bytes of its packets."""
    from ensue.spark import detect

    found = []
    for keys in (100, 10_000, None):
        path = Path(chosen.folder) / f"stream-{keys}"
        path.mkdir()
        for number in range(chosen.batches):
            rows = chosen.stream_rows
            name = path / f"{number}.parquet"
            pq.write_table(make_events(rows, keys or 1, seed=number, start=number * rows), name)
            os.utime(name, (1e9 + number, 1e9 + number))
        events = follow_files(spark, path)
        query = query_for(keys, chosen.stream_rows // 2)
        for name, stream in (("no-op", no_op_state(events)), ("detect", detect(events, query))):
            spent, progress = drain(stream)
            batches = progress[2:]  # the first ones warm up
            found.append(
                {
                    "keys": keys,
                    "what": name,
                    "seconds": statistics.median(p.durationMs["triggerExecution"] / 1000 for p in batches),
                    "rows": chosen.stream_rows,
                    "cpu": spent / chosen.batches,
                }
            )
    return found


def follow_files(spark: Any, path: Path) -> Any:
    """The files of a folder as a stream, one a micro-batch."""
    schema = spark.read.parquet(str(path)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path))


def drain(stream: Any) -> tuple[float, list[Any]]:
    """Run a stream over all that there is: the CPU seconds, and the progress of each micro-batch with events."""
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
    return cpu_seconds() - cpu, [p for p in running.recentProgress if p.numInputRows]


STEADY = (1 / 3, 1 / 3, 1 / 3)
TURNING = ((0.004, 0.096, 0.9), (0.9, 0.096, 0.004))
"""The shares of the types in the first and in the second half of a stream whose rates invert."""


def run_adapting(chosen: argparse.Namespace, spark: Any) -> list[dict[str, Any]]:
    """Streams with and without adaptive plans: what these cost where nothing drifts, and gain where rates invert."""
    from ensue.spark import detect

    found = []
    query = KEYED.format(floor=0.8, window=4000)
    for name, rows, batches, shares in (
        ("steady", 1_000, 24, (STEADY, STEADY)),
        ("steady", 100_000, 8, (STEADY, STEADY)),
        ("rates invert", 100_000, 8, TURNING),
    ):
        path = Path(chosen.folder) / f"adapting-{name}-{rows}"
        path.mkdir()
        for number in range(batches):
            file = path / f"{number:03}.parquet"
            share = shares[number >= batches // 2]
            pq.write_table(make_events(rows, 100, seed=number, start=number * rows, shares=share), file)
            os.utime(file, (1e9 + number, 1e9 + number))
        events = follow_files(spark, path)
        runs: dict[bool, list[tuple[float, float, float, int, int]]] = {False: [], True: []}
        for adapt in [False, True] * (chosen.repeats + 1):
            cpu, progress = drain(detect(events, query, adapt=adapt))
            second = [p.durationMs["addBatch"] / 1000 for p in progress[len(progress) * 5 // 8 :]]
            state = progress[-1].stateOperators[0].memoryUsedBytes
            counts = [p.observedMetrics["ensue"] for p in progress]
            replaced = sum(one.replaced for one in counts)
            runs[adapt].append((cpu, statistics.median(second), state, replaced, sum(one.matches for one in counts)))
        assert len({run[4] for own in runs.values() for run in own}) == 1, "adapting changed the matches"
        for adapt, own in runs.items():
            best = {"cpu": min(run[0] for run in own[1:]), "seconds": min(run[1] for run in own[1:])}
            last = own[-1]
            found.append(
                {"name": name, "rows": rows, "batches": batches, "adapt": adapt, **best, "state": last[2]}
                | {"replaced": last[3], "matches": last[4]}
            )
    return found


def no_op_state(events: Any) -> Any:
    """Rows packed by bucket and handed to a state operator that keeps a number."""
    from pyspark.sql import Row
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._seen = handle.getValueState("seen", "rows long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            before = self._seen.get()[0] if self._seen.exists() else 0
            self._seen.update((before + sum(row.rows for row in rows),))
            yield from ()

        def close(self) -> None:
            pass

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        table = pa.Table.from_batches(held)
        buckets = table["bucket"].to_numpy()
        for bucket in np.unique(buckets):
            part = table.filter(pa.array(buckets == bucket))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(part)
            yield pa.record_batch(
                {
                    "bucket": pa.array([bucket], pa.int32()),
                    "rows": pa.array([part.num_rows]),
                    "data": pa.array([sink.getvalue().to_pybytes()]),
                }
            )

    timed = events.withWatermark("ts", "0 seconds").withColumn("bucket", F.pmod(F.hash("k"), F.lit(2)))
    packed = timed.mapInArrow(pack, "bucket int, rows long, data binary")
    return packed.groupBy("bucket").transformWithState(Count(), "rows long", "Append", "EventTime")


# -- running the parts and telling what came out ----------------------------------------------------------------------


def run_inside(chosen: argparse.Namespace) -> None:
    from ensue.spark import make_session

    spark = make_session("benchmark", master=chosen.master, config={"spark.driver.memory": "4g"})
    parts = (run_batch, run_joins, run_scaling, run_stream, run_adapting, run_aggregates)
    print(json.dumps(dict(zip(PARTS, parts, strict=True))[chosen.inside](chosen, spark)))
    spark.stop()


def run_apart(part: str, chosen: argparse.Namespace, folder: str, master: str = "local[2]") -> list[dict[str, Any]]:
    """A part in a process of its own, so that no session warms up another."""
    command = [sys.executable, __file__, *sys.argv[1:], "--inside", part, "--folder", folder, "--master", master]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def named(keys: int | None) -> str:
    return "no key" if keys is None else f"{keys:,} key{'' if keys == 1 else 's'}"


def main() -> int:
    chosen = read_arguments()
    if chosen.inside:
        run_inside(chosen)
        return 0
    folder = tempfile.mkdtemp(prefix="ensue-bench-")
    grids = []
    wanted = chosen.only or PARTS
    try:
        if "batch" in wanted:
            lines = [
                (
                    named(line["keys"]) + (", many matches" if line["many"] else ""),
                    f"{line['matches']:,}",
                    *(f"{line[what][0] / line['rows'] * 1e6:.2f}" for what in ("no_op", "detect")),
                    f"{line['detect'][0] / line['no_op'][0]:.2f}x",
                    f"{line['rows'] / line['detect'][1]:,.0f}",
                )
                for line in run_apart("batch", chosen, folder)
            ]
            head = ("events", "matches", "no-op, µs", "detect, µs", "detect / no-op", "detect, events/s")
            grids.append(
                Grid("CPU an event: passing rows through a shuffle and Python, and detection", head, tuple(lines))
            )
        if "joins" in wanted:
            lines = [
                (
                    f"{named(line['keys'])}, {line['kind']}",
                    f"{line['matches']:,}",
                    *(f"{line['rows'] / line[what][1]:,.0f}" for what in ("joins", "detect")),
                    f"{line['joins'][1] / line['detect'][1]:.1f}x",
                    f"{line['joins'][0] / line['detect'][0]:.1f}x",
                )
                for line in run_apart("joins", chosen, folder)
            ]
            head = ("events", "matches", "self-joins, events/s", "detect, events/s", "faster", "less CPU")
            grids.append(Grid("The same query as self-joins in Spark SQL, 2 cores", head, tuple(lines)))
        if "scaling" in wanted:
            one, two = (run_apart("scaling", chosen, folder, f"local[{n}]")[0] for n in (1, 2))
            lines = [(f"{one['wall']:.2f}", f"{two['wall']:.2f}", f"{one['wall'] / two['wall']:.2f}x")]
            grids.append(Grid("Slices of time: an un-keyed query", ("1 core, s", "2 cores, s", "faster"), tuple(lines)))
        if "stream" in wanted:
            lines = []
            found = run_apart("stream", chosen, folder)
            for floor, own in zip(found[::2], found[1::2], strict=True):
                lines.append(
                    (
                        named(own["keys"]),
                        *(f"{line['seconds']:.2f}" for line in (floor, own)),
                        f"{own['seconds'] / floor['seconds']:.2f}x",
                        f"{own['rows'] / own['seconds']:,.0f}",
                        *(f"{line['cpu'] / line['rows'] * 1e6:.2f}" for line in (floor, own)),
                    )
                )
            head = ("events", "no-op, s", "detect, s", "detect / no-op", "events/s", "no-op, µs CPU", "detect, µs CPU")
            grids.append(Grid(f"A micro-batch of {chosen.stream_rows:,} events", head, tuple(lines)))
        if "adapting" in wanted:
            found = run_apart("adapting", chosen, folder)
            lines = [
                (
                    f"{still['name']}, {still['rows']:,} a micro-batch",
                    f"{still['matches']:,}",
                    *(f"{line['cpu'] / line['batches']:.2f}" for line in (still, own)),
                    f"{own['cpu'] / still['cpu']:.2f}x",
                    f"{still['seconds'] / own['seconds']:.2f}x",
                    *(f"{line['state'] / 1e6:.1f}" for line in (still, own)),
                    f"{own['replaced']}",
                )
                for still, own in zip(found[::2], found[1::2], strict=True)
            ]
            head = (
                "events",
                "matches",
                "CPU s",
                "adapting",
                "ratio",
                "second half faster",
                "state, MB",
                "adapting",
                "replaced",
            )
            grids.append(
                Grid("Adaptive plans: CPU a micro-batch, its time in the second half, state", head, tuple(lines))
            )
        if "aggregates" in wanted:
            lines = [
                (
                    f"{line['keys']:,} groups",
                    f"{line['told']:,}",
                    *(f"{line[what][0] / line['rows'] * 1e6:.2f}" for what in ("no_op", "detect")),
                    f"{line['detect'][0] / line['no_op'][0]:.2f}x",
                    f"{line['rows'] / line['detect'][1]:,.0f}",
                )
                for line in run_apart("aggregates", chosen, folder)
            ]
            head = ("events", "rows out", "no-op, µs", "counting, µs", "counting / no-op", "events/s")
            grids.append(Grid("CPU an event: COUNT with GROUP BY, and the no-op", head, tuple(lines)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console = Console(width=WIDTH)
    for grid in grids:
        grid.show(console)
    command = " ".join(["make bench-spark", *([f'ARGS="{" ".join(sys.argv[1:])}"'] if sys.argv[1:] else [])])
    report.write(RESULT, command, [], grids)
    return 0


if __name__ == "__main__":
    sys.exit(main())
