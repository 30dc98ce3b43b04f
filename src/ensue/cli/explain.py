"""`ensue explain`: show how queries would be run."""

from __future__ import annotations

import click

from ensue.cli.options import schema_options
from ensue.cli.queries import choose_queries, parse_text, pointing_into, read_text
from ensue.cli.schemas import ColumnNames, load_schema


@click.command("explain")
@click.argument("queries", metavar="QUERIES")
@click.option("--format", "format_", type=click.Choice(["text", "mermaid", "json"]), default="text", show_default=True)
@schema_options
@click.option("--query", "names", multiple=True, metavar="NAME", help="Only the query of this name; may be repeated.")
def explain_command(
    queries: str, format_: str, schema: str | None, columns: ColumnNames, names: tuple[str, ...]
) -> None:
    """Show how QUERIES, a file of queries or the text of one, would be run.

    \b
    Examples:
      ensue explain queries.ensue
      ensue explain "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s" --format mermaid
      ensue explain queries.ensue --schema trades.parquet --query rising
    """
    import ensue

    text = read_text(queries)
    chosen = choose_queries(parse_text(text), names)
    known = None if schema is None else load_schema(schema, columns)
    with pointing_into(text.origin):
        engine = ensue.compile(
            chosen, known, type=columns.type, ts=columns.time, begin=columns.begin, unit=columns.unit
        )
        click.echo(engine.explain(format=format_))
