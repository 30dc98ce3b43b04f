"""`ensue generate`: write a made-up stream of events to a file."""

from __future__ import annotations

import click

KINDS = {"stock": "stock_like", "traffic": "traffic_like", "uniform": "uniform"}


@click.command("generate")
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("events", type=click.IntRange(0), metavar="N")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE|-",
    help="A .csv, .jsonl or .parquet file. [default: JSON lines to standard output]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same stream.")
def generate_command(kind: str, events: int, output: str, seed: int) -> None:
    """Write a made-up stream of N events: trades (stock), measuring points (traffic), or uniform noise.

    \b
    Examples:
      ensue generate stock 100000 --output trades.parquet
      ensue generate traffic 10000 --output traffic.csv --seed 7
      ensue generate uniform 5 --output -
    """
    from ensue.cli.sinks import Output, refuse_binary_terminal
    from ensue.testing import generators

    table = getattr(generators, KINDS[kind])(events, seed=seed)
    with Output(output) as out:
        refuse_binary_terminal(out)
        out.open().write_table(table)
    if output != "-":
        click.echo(f"{table.num_rows:,} events in {output}", err=True)
