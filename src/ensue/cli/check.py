"""`ensue check`: say whether queries are right, and where not."""

from __future__ import annotations

import click

from ensue.cli.options import schema_options
from ensue.cli.queries import QueryFault, name_queries, parse_whole, read_text
from ensue.cli.schemas import ColumnNames, load_schema
from ensue.errors import QueryError


@click.command("check")
@click.argument("queries", metavar="FILE|TEXT")
@schema_options
@click.option("-q", "--quiet", is_flag=True, help="Say nothing when all is right.")
def check_command(queries: str, schema: str | None, columns: ColumnNames, quiet: bool) -> None:
    """Say whether queries and rules are right, and where not.

    FILE holds queries, rules and declarations, ended by ';' (- for standard input); or give the TEXT of one. With
    --schema the attributes and their types are checked too. The exit code is 0 if all are right and 2 if not.

    \b
    Examples:
      ensue check queries.ensue
      ensue check "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s"
      ensue check queries.ensue --schema columns.json
      ensue check queries.ensue --schema trades.parquet --time-column time
    """
    from ensue.pattern.check import check
    from ensue.rules.check import check_program, widen_schema

    source = read_text(queries)
    program = parse_whole(source)
    known = load_schema(schema, columns) if schema is not None else None
    faults = []
    try:
        signatures = check_program(program, known)
        known = widen_schema(known, program, signatures)
    except QueryError as error:
        faults.append(error.with_source(source.text))
    for query in program.queries if not faults else ():
        try:
            check(query, known)
        except QueryError as error:
            faults.append(error.with_source(source.text))
    if faults:
        raise QueryFault(faults, source.origin)
    if not quiet:
        counts = []
        if program.rules:
            counts.append(f"{_count(len(program.rules), 'rule', 'rules')} right ({', '.join(program.derived)})")
        if program.queries or not program.rules:
            named = name_queries(program.queries)
            counts.append(f"{_count(len(named), 'query', 'queries')} right ({', '.join(named)})")
        click.echo(f"{source.origin or 'ok'}: {', '.join(counts)}")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
