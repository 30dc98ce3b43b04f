"""`ensue stats`: how often the events of a file come, and how many pass the conditions of queries."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ensue.cli.options import schema_options
from ensue.cli.quantities import read_lateness
from ensue.cli.queries import choose_queries, parse_text, pointing_into, read_text
from ensue.cli.schemas import ColumnNames, load_schema
from ensue.errors import InputError

if TYPE_CHECKING:
    from ensue.cli.rows import Unreadable
    from ensue.cli.sources import Source
    from ensue.events.batch import EventBatch
    from ensue.events.intake import Intake
    from ensue.events.schema import Schema
    from ensue.pattern.query import Query
    from ensue.statistics.collector import Collector
    from ensue.statistics.snapshot import Statistics


@click.command("stats")
@click.argument("queries", metavar="QUERIES")
@click.option("-i", "--input", "source", required=True, metavar="FILE|-", help="The events, - for standard input.")
@click.option("-o", "--output", metavar="FILE", help="Save the statistics as JSON.")
@click.option(
    "--input-format",
    type=click.Choice(["csv", "tsv", "jsonl", "parquet"]),
    help="Of the input. [default: as it is named, or as it begins]",
)
@schema_options
@click.option("--query", "names", multiple=True, metavar="NAME", help="Only the query of this name; may be repeated.")
@click.option("--window", metavar="DURATION", help="Only the end of the input, this long (10s). [default: all of it]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the samples.")
def stats_command(
    queries: str,
    source: str,
    output: str | None,
    input_format: str | None,
    schema: str | None,
    columns: ColumnNames,
    names: tuple[str, ...],
    window: str | None,
    seed: int,
) -> None:
    """Measure the events in FILE for QUERIES, a file of queries or the text of one.

    For each query: how many events of each type come in a second (or a unit of an integer time column), which share of
    them passes the conditions on single events, and which share of pairs those between two.

    \b
    Examples:
      ensue stats queries.ensue --input trades.parquet
      ensue stats "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s" --input events.csv --output stats.json
      ensue stats queries.ensue --input trades.parquet --query rising --window 10m
    """
    from ensue.cli.sources import open_source
    from ensue.events.intake import Intake
    from ensue.events.schema import TimeUnit
    from ensue.pattern.numbers import numeric_columns

    text = read_text(queries)
    chosen = choose_queries(parse_text(text), names)
    given = None if schema is None else load_schema(schema, columns).columns
    numeric = {*numeric_columns(chosen), columns.time, *((columns.begin,) if columns.begin else ())}
    events = open_source(source, columns=columns, format=input_format, fixed=given, numeric=numeric)
    intake = Intake(
        type=columns.type,
        ts=columns.time,
        begin=columns.begin,
        unit=TimeUnit(columns.unit),
        lateness=events.survey(),
    )
    collectors: dict[str, Collector] = {}
    unreadable: list[Unreadable] = []
    with pointing_into(text.origin):
        for batch in read_batches(events, intake, unreadable):
            if not collectors and intake.schema is not None:
                collectors = _make_collectors(chosen, intake.schema, window, seed)
            for collector in collectors.values():
                collector.observe(batch)
    if intake.schema is None or not intake.counts.processed:
        raise InputError("there is no event in the input to measure")
    found = {name: collector.snapshot() for name, collector in collectors.items()}
    for name, statistics in found.items():
        _show(name, statistics, intake.schema)
    rejected = intake.counts.rejected + len(unreadable)
    if rejected:
        click.echo(f"{rejected:,} rows were rejected and not measured", err=True)
    if output is not None:
        data = {name: statistics.to_json() for name, statistics in found.items()}
        try:
            Path(output).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {output}: {error.strerror}; choose another file with --output") from error


def read_batches(events: Source, intake: Intake, unreadable: list[Unreadable]) -> Iterator[EventBatch]:
    """The events of a source that has been surveyed, in order of time; what is not even a row goes to `unreadable`."""
    import pyarrow as pa

    types = events.types()
    if types:
        # An empty batch first: it says which columns there are and of what type, whatever the first rows hold.
        yield intake.push(pa.schema(list(types.items())).empty_table())
    for parsed in events.batches():
        unreadable += parsed.unreadable
        yield intake.push(parsed.table)
        intake.take_rejected()  # they are counted
    yield intake.drain()


def _make_collectors(queries: tuple[Query, ...], schema: Schema, window: str | None, seed: int) -> dict[str, Collector]:
    from ensue.pattern.check import check
    from ensue.pattern.expressions import Duration
    from ensue.pattern.types import fold_duration
    from ensue.runtime.sampled import evaluating
    from ensue.statistics.collector import Collector, Sampling

    length: float = math.inf
    if window is not None:
        asked = read_lateness(window)
        length = fold_duration(asked, schema) if isinstance(asked, Duration) else asked
        if length < 1:
            raise click.BadParameter(f"{window!r} is shorter than one step of the time column", param_hint="--window")
    found = {}
    for query in queries:
        check(query, schema)
        sampling = Sampling(size=256, every=16_384, seed=seed)
        found[query.name or ""] = Collector(query, schema, evaluating(schema), window=length, sampling=sampling)
    return found


def _show(name: str, statistics: Statistics, schema: Schema) -> None:
    """Print one query's statistics as a table; rates are a second where the length of one is known."""
    from rich.console import Console
    from rich.table import Table

    from ensue.events.schema import DType
    from ensue.statistics.snapshot import Estimate

    is_int = schema.columns[schema.time] is DType.INT
    steps = 1 if is_int else 1_000_000
    unit = f"unit of `{schema.time}`" if is_int else "s"
    table = Table(title=f"{name}: over {statistics.window / steps:,.6g} {unit}", title_justify="left")
    for heading in ("what", "of", "value", "± 2 deviations"):
        table.add_column(heading, justify="right" if heading[0] in "v±" else "left")
    words = {"rate": f"events / {unit}", "local": "share that passes", "pair": "share of pairs"}
    for kind, of, found in statistics.rows():
        one = Estimate(found.value * steps, found.variance * steps**2) if kind == "rate" else found
        table.add_row(words[kind], of, f"{one.value:,.4g}", f"{2 * one.deviation:.2g}")
    Console(highlight=False).print(table)
