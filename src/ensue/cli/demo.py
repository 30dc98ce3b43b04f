"""`ensue demo`: three queries over a made-up stream of trades, and what they find."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

QUERIES = """\
-- Three symbols rise one after the other, each by more than the last.
QUERY rising
PATTERN SEQ(A a, B b, C c)
WHERE 0.04 < a.diff < b.diff < c.diff
WITHIN 1 minute;

-- A large trade that no other symbol's large trade follows within two seconds.
QUERY lonely
PATTERN SEQ(D big, !E other)
WHERE big.volume >= 900 AND other.volume >= 400
WITHIN 2 seconds;

-- A run of four or more falling prices of one symbol, from each trade to the next.
QUERY slide
PATTERN F+ f[]
WHERE f[i].price < f[i-1].price AND COUNT(f) >= 4
PARTITION BY type
WITHIN 30 seconds
USING STRICT
RETURN FIRST(f).price AS start, LAST(f).price AS low, COUNT(f) AS trades;
"""


@click.command("demo")
@click.option(
    "--events", type=click.IntRange(1), default=100_000, show_default=True, metavar="N", help="Trades to make."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same stream.")
@click.option("--folder", default="results", show_default=True, help="Where a folder for the files is made.")
@click.option(
    "--backend",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="On Spark, as a batch and as a stream; or in this process.",
)
def demo_command(events: int, seed: int, folder: str, backend: str) -> None:
    """Run three queries over a made-up stream of trades, show what was found and say where the files lie.

    On Spark they run twice, over all trades at once and over the same trades as a stream of files; both find the same.

    \b
    Examples:
      ensue demo
      ensue demo --events 1000000 --seed 7
      ensue demo --backend local
    """
    from rich.console import Console

    from ensue.testing.generators import stock_like

    console = Console(highlight=False)
    Path(folder).mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="demo-", dir=folder))
    trades = stock_like(events, seed)
    (place / "queries.ensue").write_text(QUERIES, encoding="utf-8")
    first, last = trades["ts"][0].as_py(), trades["ts"][len(trades) - 1].as_py()
    console.print(
        f"{len(trades):,} trades of {len(trades['type'].unique())} symbols, {first:%H:%M:%S} to {last:%H:%M:%S}\n"
    )
    if backend == "spark":
        from ensue.cli.demo_spark import run_demo

        run_demo(console, trades, place)
    else:
        _run_local(console, trades, place)


def _run_local(console: Console, trades: pa.Table, place: Path) -> None:
    """The demo in this process."""
    import pyarrow.parquet as pq

    import ensue
    from ensue.cli.sinks import JsonSink

    pq.write_table(trades, place / "trades.parquet")
    click.echo("Loading the engine. The first time it compiles its kernels, which takes a minute or so.", err=True)
    queries = ensue.parse(QUERIES)
    ensue.run(trades.slice(0, 1), queries)  # so that the speeds below are those of the runs
    for query in queries:
        started = time.perf_counter()
        matches = ensue.run(trades, [query])
        seconds = time.perf_counter() - started
        with (place / f"{query.name}.jsonl").open("wb") as stream:
            JsonSink(stream).write_rows(matches.to_pylist())
        console.print(f"{query.name}: {len(matches):,} matches ({len(trades) / seconds:,.0f} events/s)")
        show_matches(console, matches.to_arrow())
    click.echo(f"The trades, the queries and all matches are in {place}/. Try, for example:")
    click.echo(
        f"  {own_name()} run {place}/queries.ensue --input {place}/trades.parquet --query slide --format csv "
        "--backend local"
    )


def own_name() -> str:
    """What to type for this program: its name, or its path where the shell does not find it by name."""
    return sys.argv[0] if Path(sys.argv[0]).name == "ensue" and shutil.which("ensue") is None else "ensue"


def show_matches(console: Console, found: pa.Table) -> None:
    """A table of the first matches of a query."""
    from rich.table import Table

    table = Table()
    rows = found.slice(0, 5).to_pylist()
    hidden = {"match_id", "query", "detected_at", "partition"}
    if any(isinstance(value, dict) for row in rows for key, value in row.items() if key not in hidden):
        hidden |= {"begin", "end"}  # the events tell
    shown = [key for key in found.column_names if key not in hidden]
    for key in shown:
        table.add_column(key)
    for row in rows:
        table.add_row(*(_brief(row[key]) for key in shown))
    if found.num_rows > len(rows) > 0:
        table.add_row(*("…" for _ in shown))
    console.print(table)
    console.print()


def _brief(value: Any) -> str:
    """A value for a cell of a narrow table: of an event its time, change of price and volume."""
    match value:
        case None:
            return "-"
        case {"ts": at, "volume": volume, "diff": diff}:
            return f"{at:%H:%M:%S} {diff or 0:+.2f} x{volume}"
        case list():
            return f"{len(value)} events"
        case float():
            return f"{value:.2f}"
        case _:
            return f"{value:%H:%M:%S.%f}"[:-3] if hasattr(value, "hour") else str(value)
