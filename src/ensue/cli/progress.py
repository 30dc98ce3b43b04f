"""How a stream is doing, on standard error: running numbers on a terminal, else a line for each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from ensue.runtime.counts import Counts
    from ensue.spark.following import MicroBatch, Totals

Report = Callable[["MicroBatch"], object]


@contextmanager
def make_display(quiet: bool, asked: bool, terminal: bool) -> Iterator[Report]:
    """What is told of each micro-batch: nothing if quiet, a live table on a terminal or if asked for, else a line."""
    if quiet:
        yield lambda batch: None
        return
    if not (asked or terminal):
        yield lambda batch: click.echo(describe(batch), err=True)
        return
    from rich.console import Console
    from rich.live import Live

    from ensue.spark.following import Totals

    totals = Totals()
    console = Console(stderr=True, highlight=False)
    with Live("starting", console=console, auto_refresh=False, transient=True) as live:

        def show(batch: MicroBatch) -> None:
            totals.add(batch)
            live.update(make_table(batch, totals), refresh=True)

        yield show


def describe(batch: MicroBatch) -> str:
    """A micro-batch in a line."""
    return (
        f"micro-batch {batch.number}: {batch.received:,} events in {batch.seconds:.1f} s ({_pace(batch)}), "
        f"{batch.matches:,} matches, {batch.late:,} late, {batch.rejected:,} rejected, "
        f"watermark {batch.watermark or '-'}, state {_size(batch.state_bytes)} in {batch.state_rows:,} rows"
        + (f", {batch.replaced:,} plans replaced" if batch.replaced else "")
    )


def describe_plans(counts: Counts | Totals) -> str:
    """What became of the plans, in a line."""
    return f"plans made anew: {counts.planned:,}, of which {counts.replaced:,} took over"


def make_table(batch: MicroBatch, totals: Totals) -> Table:
    """The last micro-batch beside the whole run."""
    from rich.table import Table

    table = Table("", "last micro-batch", "since the start")
    overall = f"{totals.received / totals.seconds:,.0f} events/s" if totals.seconds > 0 else "-"
    table.add_row("micro-batches", f"number {batch.number}, {batch.seconds:.1f} s", f"{totals.batches:,}")
    table.add_row("events", f"{batch.received:,} ({_pace(batch)})", f"{totals.received:,} ({overall})")
    table.add_row("matches", f"{batch.matches:,}", f"{totals.matches:,}")
    table.add_row("late, rejected", f"{batch.late:,}, {batch.rejected:,}", f"{totals.late:,}, {totals.rejected:,}")
    table.add_row("watermark", batch.watermark or "-", "")
    table.add_row("state", f"{_size(batch.state_bytes)} in {batch.state_rows:,} rows", "")
    if totals.planned:
        table.add_row("plans replaced", f"{batch.replaced:,}", f"{totals.replaced:,}")
    return table


def _pace(batch: MicroBatch) -> str:
    return f"{batch.received / batch.seconds:,.0f} events/s" if batch.seconds > 0 else "-"


def _size(count: int) -> str:
    """A number of bytes for people.

    >>> _size(512), _size(1_234_567)
    ('512 B', '1.2 MB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
