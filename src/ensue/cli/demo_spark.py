"""The demo on Spark: the same trades as a batch and as a stream of files, by two pipeline files, and one answer."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ensue.cli.demo import own_name, show_matches
from ensue.errors import InternalError

if TYPE_CHECKING:
    from rich.console import Console

FILES = 4
BATCH = """\
# All trades at once:  ensue run {place}/batch.toml
queries = "queries.ensue"

[source]
format = "parquet"
path = "trades"

[sink]
format = "parquet"
path = "batch"
"""
STREAM = """\
# The files of trades one after the other:  ensue run {place}/stream.toml
queries = "queries.ensue"

[source]
format = "parquet"
path = "trades"
options = {{ maxFilesPerTrigger = 1 }}

[sink]
format = "parquet"
path = "stream"

[stream]
trigger = "available-now"
checkpoint = "checkpoint"
"""


def run_demo(console: Console, trades: pa.Table, place: Path) -> None:
    """Run both pipelines, show what they find, and check that it is the same."""
    from ensue.spark.following import follow
    from ensue.spark.pipeline import run_batch, start_stream
    from ensue.spark.pipeline_file import load_pipeline
    from ensue.spark.session import make_session

    write_trades(trades, place / "trades")
    for name, text in (("batch", BATCH), ("stream", STREAM)):
        (place / f"{name}.toml").write_text(text.format(place=place), encoding="utf-8")
    click.echo("Starting Spark. The first time the engine compiles its kernels, which takes a minute more.", err=True)
    spark = make_session("ensue demo")
    try:
        started = time.perf_counter()
        counts = run_batch(spark, load_pipeline(place / "batch.toml"))
        console.print(f"As a batch: {counts.matches:,} matches, {time.perf_counter() - started:.1f} s\n")
        batch = pq.read_table(place / "batch")
        for name in ("rising", "lonely", "slide"):
            _show(console, name, batch)
        started = time.perf_counter()
        totals = follow(
            start_stream(spark, load_pipeline(place / "stream.toml")),
            lambda one: console.print(
                f"  micro-batch {one.number}: {one.received:,} trades, {one.matches:,} matches, {one.seconds:.1f} s"
            ),
        )
        console.print(
            f"As a stream: {totals.matches:,} matches in {totals.batches} micro-batches, "
            f"{time.perf_counter() - started:.1f} s"
        )
    finally:
        spark.stop()
    found = ds.dataset(place / "stream", format="parquet", exclude_invalid_files=True).to_table(columns=["match_id"])
    click.echo(compare(batch, found, pc.max(trades["ts"]).as_py()))
    click.echo(f"The trades, the queries, the pipelines and all matches are in {place}/. Try, for example:")
    click.echo(f"  {own_name()} run {place}/queries.ensue --input {place}/trades --query slide --format csv")
    click.echo(f"  {own_name()} run {place}/stream.toml      (it has seen all files: add one to {place}/trades first)")


def write_trades(trades: pa.Table, folder: Path) -> None:
    """The trades in a few files; a stream takes files in the order in which they were written."""
    folder.mkdir()
    size = -(-len(trades) // FILES)
    for number, start in enumerate(range(0, len(trades), size)):
        file = folder / f"{number}.parquet"
        pq.write_table(trades.slice(start, size), file)
        written = time.time() - 60 + number
        os.utime(file, (written, written))


def _show(console: Console, name: str, found: pa.Table) -> None:
    """The first matches of a query, and of the other queries' columns none."""
    own = found.filter(pc.equal(found["query"], name)).sort_by("end")
    columns = [column for column in own.column_names if own[column].null_count < len(own) or not len(own)]
    console.print(f"{name}: {len(own):,} matches")
    show_matches(console, own.select(columns))


def compare(batch: pa.Table, stream: pa.Table, last: object) -> str:
    """What both runs have in common, in a sentence; a stream has no end, so what only an end decides is still open."""
    ids = stream["match_id"].to_pylist()
    known = dict(zip(batch["match_id"].to_pylist(), batch["detected_at"].to_pylist(), strict=True))
    open_ = {name for name, at in known.items() if at.replace(tzinfo=None) >= last.replace(tzinfo=None)}  # type: ignore[attr-defined]
    if len(ids) != len(set(ids)) or not set(ids) <= known.keys() or not known.keys() - set(ids) <= open_:
        raise InternalError("the batch and the stream do not agree; please report this with the folder of the demo")
    missing = len(known) - len(ids)
    if not missing:
        return f"Both agree: the same {len(ids):,} matches, each once."
    others = f"{missing:,} more of the batch are" if missing > 1 else "One more of the batch is"
    return (
        f"Both agree: the same {len(ids):,} matches, each once. {others} known only when time goes on after the last "
        "trade, which the stream waits for."
    )
