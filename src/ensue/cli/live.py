"""`ensue live`: matches as events come one by one, and how soon each is known after its last event."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click

from ensue.cli.options import objective_option, schema_options
from ensue.cli.quantities import read_lateness
from ensue.cli.queries import choose_program, parse_whole, pointing_into, read_text
from ensue.cli.schemas import ColumnNames, load_schema
from ensue.cli.top_groups import TopGroups

if TYPE_CHECKING:
    from rich.table import Table

    from ensue.cli.live_sources import Feed, LineReader
    from ensue.cli.rows import Unreadable
    from ensue.cli.run_local import Asides
    from ensue.runtime.latencies import Latencies
    from ensue.runtime.live_runner import LiveRunner
    from ensue.runtime.matches import Matches

SHOWN = (50.0, 90.0, 99.0, 99.9)
SWITCH = 5e-5
"""Seconds that a thread may keep the others waiting: Python's 5 ms would be most of the latency."""


@click.command("live")
@click.argument("queries", metavar="QUERIES")
@click.option(
    "-i",
    "--input",
    "source",
    default="-",
    metavar="-|tcp://127.0.0.1:PORT|FILE",
    help="The events, one a line: standard input, whoever connects to a port of this machine, or a file. [default: -]",
)
@click.option("--input-format", type=click.Choice(["jsonl", "csv", "tsv"]), help="[default: as the input begins]")
@click.option("-o", "--output", default="-", metavar="FILE|-", help="Where matches go. [default: standard output]")
@schema_options
@click.option(
    "--query", "names", multiple=True, metavar="NAME", help="Run only the query of this name; may be repeated."
)
@click.option("--lateness", metavar="DURATION", help="Let an event come this late (10s). [default: not at all]")
@objective_option
@click.option(
    "--queue", type=click.IntRange(1), default=65_536, show_default=True, metavar="N", help="Events that may wait."
)
@click.option("--drop", is_flag=True, help="When the queue is full, drop events and count them; else the sender waits.")
@click.option("--keep-listening", is_flag=True, help="A port: go on when the first sender has gone.")
@click.option("--late", metavar="FILE", help="Where events go that came later than that.")
@click.option("--rejects", metavar="FILE", help="Where rows go that cannot be read, with the reason.")
@click.option("--top", type=click.IntRange(1), metavar="N", help="AGG: show the N greatest groups as they change.")
@click.option("-q", "--quiet", is_flag=True, help="No running numbers and no table at the end.")
def live_command(
    queries: str,
    source: str,
    input_format: str | None,
    output: str,
    schema: str | None,
    columns: ColumnNames,
    names: tuple[str, ...],
    lateness: str | None,
    objective: str,
    queue: int,
    drop: bool,
    keep_listening: bool,
    late: str | None,
    rejects: str | None,
    top: int | None,
    quiet: bool,
) -> None:
    """Find matches of QUERIES as events come one by one, and say how soon each was known after its last event arrived.

    A reader puts the events into a queue; the time of a match is that in the queue and that of the engine, until the
    match is known. When the queue is full, reading stops until there is room, so that whoever sends has to wait. The
    types of columns are those of the first lines; --schema settles them. Integer times are the quickest.

    Ctrl-C ends it: what waits in the queue is still served. At the end of the input time runs on, as in `ensue run`.

    \b
    Examples:
      tail -f trades.jsonl | ensue live queries.ensue
      ensue live "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s" -i tcp://127.0.0.1:7000 --objective latency
      ensue live queries.ensue -i trades.csv --type-column symbol -o matches.jsonl
      ensue live queries.ensue --queue 1000 --drop --rejects rejects.jsonl < events.jsonl
      ensue live "PATTERN SEQ(View v, Cart c) WITHIN 1h AGG COUNT(*) GROUP BY item" --top 10 -o counts < clicks.jsonl
    """
    import ensue
    from ensue.cli.live_sources import LineReader, open_feed
    from ensue.cli.run_local import Asides, write_matches
    from ensue.cli.sinks import Output
    from ensue.pattern.numbers import numeric_columns
    from ensue.planning.objectives import check_objective
    from ensue.rules.program import declared_numbers
    from ensue.runtime.calibration import load_kernels

    text = read_text(queries)
    program = choose_program(parse_whole(text), names)
    times = (columns.time,) if columns.begin is None else (columns.time, columns.begin)
    given = {} if schema is None else load_schema(schema, columns).columns
    with ExitStack() as stack:
        with pointing_into(text.origin):
            engine = ensue.compile(
                program,
                type=columns.type,
                ts=columns.time,
                begin=columns.begin,
                unit=columns.unit,
                lateness=0 if lateness is None else read_lateness(lateness),
                objective=check_objective(objective),
            )
        out = stack.enter_context(Output(output))
        aside = Asides(
            late=stack.enter_context(Output(late)) if late else None,
            rejects=stack.enter_context(Output(rejects)) if rejects else None,
            strict=False,
        )
        unread: SimpleQueue[Unreadable] = SimpleQueue()  # from the reader's thread

        def attend() -> None:
            aside.add_unreadable([unread.get() for _ in range(unread.qsize())])
            aside.collect(engine)

        greatest = None if top is None or quiet else TopGroups(top, program.queries)

        def deliver(matches: Matches) -> None:
            write_matches(matches, out)
            if greatest is not None:
                greatest.take(matches)

        runner = ensue.LiveRunner(engine, deliver, capacity=queue, drop=drop, attend=attend)
        reader = LineReader(
            started=lambda found: engine.push(found.empty_table()),
            unreadable=unread.put,
            format=input_format,
            fixed=given,
            numeric={*numeric_columns(program.queries), *declared_numbers(program), *times},
            text=(columns.type,),
        )
        feed = open_feed(source, keep_listening=keep_listening)
        load_kernels()
        with _showing(runner, greatest, shown=not quiet and sys.stderr.isatty()), pointing_into(text.origin):
            was_ended = _serve(runner, feed, reader)
            if was_ended:
                deliver(engine.flush())
        attend()
    if greatest is not None:
        greatest.show(sys.stderr.isatty())
    if not quiet:
        _show_end(runner, aside)


def _serve(runner: LiveRunner, feed: Feed, reader: LineReader) -> bool:
    """Read in a thread and serve here, until the input ends (True) or Ctrl-C (False)."""
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for chunks in feed.chunks():
                for event in reader.events(chunks):
                    runner.put(event)
        except BaseException as failure:  # told below, where somebody sees it
            failures.append(failure)
        finally:
            runner.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    thread = threading.Thread(target=read, name="ensue reader", daemon=True)
    was_ended = True
    try:
        thread.start()
        runner.run()
    except KeyboardInterrupt:
        was_ended = False
        runner.close()
        runner.run()
    finally:
        runner.close()
        feed.stop()
        sys.setswitchinterval(before)
    if failures and was_ended:
        raise failures[0]
    return was_ended


@contextmanager
def _showing(runner: LiveRunner, greatest: TopGroups | None, *, shown: bool) -> Iterator[None]:
    """A line of running numbers on a terminal, with the greatest groups below it."""
    if not shown:
        yield
        return
    from rich.console import Console, Group
    from rich.live import Live

    def numbers() -> Group:
        line = (
            f"{runner.taken:,} events, {runner.waiting:,} waiting, {runner.latency.count:,} matches, "
            f"known after {_time(runner.latency.percentile(50))} (half), {_time(runner.latency.percentile(99))} (99 %)"
        )
        return Group(line, *(() if greatest is None else greatest.tables()))

    with Live(
        get_renderable=numbers, console=Console(stderr=True, highlight=False), refresh_per_second=4, transient=True
    ):
        yield


def _show_end(runner: LiveRunner, aside: Asides) -> None:
    """What came in and what became of it, and how soon matches were known."""
    from rich.console import Console

    from ensue.cli.progress import describe_plans

    counts = runner.engine.counts
    received, rejected = counts.received + aside.unreadable, counts.rejected + aside.unreadable
    dropped = f", {runner.dropped:,} dropped" if runner.dropped else ""
    click.echo(
        f"{received + runner.dropped:,} events in: {counts.processed:,} processed, {counts.late:,} late, "
        f"{rejected:,} rejected, {counts.held:,} held{dropped}; {counts.matches:,} matches",
        err=True,
    )
    if aside.first_reason is not None:
        click.echo(f"first rejected: {aside.first_reason}", err=True)
    if counts.planned:
        click.echo(describe_plans(counts), err=True)
    if runner.latency.count:
        Console(stderr=True, highlight=False).print(_make_table(runner))


def _make_table(runner: LiveRunner) -> Table:
    from rich import box
    from rich.table import Table

    table = Table("", "mean", *(f"{percent:g} %" for percent in SHOWN), "most", box=box.SIMPLE)
    for name, times in (("queue", runner.wait), ("service", runner.service), ("latency", runner.latency)):
        table.add_row(name, *_cells(times))
    return table


def _cells(times: Latencies) -> list[str]:
    return [_time(seconds) for seconds in (times.mean, *map(times.percentile, SHOWN), times.most)]


def _time(seconds: float) -> str:
    """A short time for people.

    >>> _time(0.0000123), _time(0.0123), _time(12.3)
    ('12.3 µs', '12.3 ms', '12.3 s')
    """
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds:.1f} s"
