"""`ensue check`: say whether queries are right, and where not."""

from __future__ import annotations

import click

from ensue.cli.options import schema_options
from ensue.cli.queries import QueryFault, name_queries, parse_text, read_text
from ensue.cli.schemas import ColumnNames, load_schema
from ensue.errors import QueryError


@click.command("check")
@click.argument("queries", metavar="FILE|TEXT")
@schema_options
@click.option("-q", "--quiet", is_flag=True, help="Say nothing when all is right.")
def check_command(queries: str, schema: str | None, columns: ColumnNames, quiet: bool) -> None:
    """Say whether queries are right, and where not.

    FILE holds one or more queries, ended by ';' (- for standard input); or give the TEXT of a query. With --schema the
    attributes and their types are checked too. The exit code is 0 if every query is right and 2 if not.

    \b
    Examples:
      ensue check queries.ensue
      ensue check "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s"
      ensue check queries.ensue --schema columns.json
      ensue check queries.ensue --schema trades.parquet --time-column time
    """
    from ensue.pattern.check import check

    source = read_text(queries)
    parsed = parse_text(source)
    known = load_schema(schema, columns) if schema is not None else None
    faults = []
    for query in parsed:
        try:
            check(query, known)
        except QueryError as error:
            faults.append(error.with_source(source.text))
    if faults:
        raise QueryFault(faults, source.origin)
    if not quiet:
        named = name_queries(parsed)
        count = "1 query" if len(named) == 1 else f"{len(named)} queries"
        click.echo(f"{source.origin or 'ok'}: {count} right ({', '.join(named)})")
