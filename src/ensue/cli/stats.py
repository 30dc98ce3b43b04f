"""`ensue stats`: how often the events of a file come, and how many pass the conditions of queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ensue.cli.measuring import load_measured, measure
from ensue.cli.options import given_options, refuse, schema_options
from ensue.cli.queries import choose_queries, parse_whole, pointing_into, read_text
from ensue.cli.schemas import ColumnNames

if TYPE_CHECKING:
    from ensue.events.schema import Schema
    from ensue.statistics.snapshot import Statistics


@click.command("stats")
@click.argument("queries", metavar="QUERIES", required=False)
@click.option("-i", "--input", "source", metavar="FILE|-", help="The events, - for standard input.")
@click.option("-o", "--output", metavar="FILE", help="Save the statistics as JSON.")
@click.option("--saved", metavar="FILE", help="Show statistics that --output has saved; nothing is measured.")
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
    queries: str | None,
    source: str | None,
    output: str | None,
    saved: str | None,
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
      ensue stats --saved stats.json
    """
    if saved is not None:
        if queries or source or output:
            raise click.UsageError("--saved shows what was measured before; leave QUERIES, --input and --output out")
        ctx = click.get_current_context()
        refuse(given_options(ctx) - {"saved", "names"}, ctx, "with --saved, which measures nothing")
        found = load_measured(saved).only(names)
    elif queries is None or source is None:
        missing = "QUERIES" if queries is None else "--input"
        raise click.UsageError(f"{missing} is missing: `ensue stats QUERIES --input FILE`, or --saved FILE")
    else:
        text = read_text(queries)
        program = parse_whole(text)
        if program.rules:
            raise click.UsageError("statistics are of queries; `ensue explain RULES --input FILE` shows those of rules")
        chosen = choose_queries(program.queries, names)
        with pointing_into(text.origin):
            found = measure(chosen, source, columns, schema=schema, input_format=input_format, window=window, seed=seed)
    for name, statistics in found.statistics.items():
        _show(name, statistics, found.schema)
    if found.rejected:
        click.echo(f"{found.rejected:,} rows were rejected and not measured", err=True)
    if output is not None:
        found.save(output)


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
    words |= {"triple": "both, times as often", "implied": "share of pairs, implied"}
    words |= {"together": "all, times as often"}
    few = {names: found for names, found in statistics.together.items() if len(names) < 4}  # of hundreds, maybe
    for kind, of, found in replace(statistics, together=few).rows():
        one = Estimate(found.value * steps, found.variance * steps**2) if kind == "rate" else found
        swings = "" if kind in ("triple", "implied", "together") else f"{2 * one.deviation:.2g}"  # else not estimated
        table.add_row(words[kind], of, f"{one.value:,.4g}", swings)
    larger = len(statistics.together) - len(few)
    if larger:
        table.caption = f"and of {larger:,} sets of four and more, which --output saves"
        table.caption_justify = "left"
    Console(highlight=False).print(table)
