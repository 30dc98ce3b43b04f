"""`ensue explain`: show how queries would be run, and what that would cost on a stream that has been measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ensue.cli.measuring import Measured, load_measured, measure
from ensue.cli.options import NO_PLANNER, given_options, objective_option, schema_options
from ensue.cli.queries import choose_program, parse_whole, pointing_into, read_text
from ensue.cli.schemas import ColumnNames, load_schema

if TYPE_CHECKING:
    from ensue.pattern.query import Query
    from ensue.rules.program import Program


@click.command("explain")
@click.argument("queries", metavar="QUERIES")
@click.option("--format", "format_", type=click.Choice(["text", "mermaid", "json"]), default="text", show_default=True)
@schema_options
@click.option("--query", "names", multiple=True, metavar="NAME", help="Only the query of this name; may be repeated.")
@click.option("--stats", "saved", metavar="FILE", help="Plan for what `ensue stats --output FILE` saved.")
@click.option("-i", "--input", "source", metavar="FILE|-", help="Plan for these events: measure them first.")
@click.option(
    "--planner",
    type=click.Choice(["rate", "greedy", "order", "zstream", "bushy"]),
    default="greedy",
    show_default=True,
    help="How plans are made for --stats and --input.",
)
@objective_option
def explain_command(
    queries: str,
    format_: str,
    schema: str | None,
    columns: ColumnNames,
    names: tuple[str, ...],
    saved: str | None,
    source: str | None,
    planner: str,
    objective: str,
) -> None:
    """Show how QUERIES, a file of queries and rules or the text of one, would be run.

    Of rules it shows the relational algebra, the joins, and what is kept, streamed past and passed over, and why; with
    --input in which order they are joined once they have seen those events.

    With --stats or --input also what the plan is expected to cost on such a stream, what the other planners' plans
    cost, and which comparisons the plan rests on: what --adapt watches. With --objective latency it shows the time in
    the queue and the service time that each way to part the types into eager and lazy ones would have on this machine.

    \b
    Examples:
      ensue explain queries.ensue
      ensue explain "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s" --format mermaid
      ensue explain queries.ensue --schema trades.parquet --query rising
      ensue explain queries.ensue --input trades.parquet --planner zstream
      ensue explain queries.ensue --stats stats.json
      ensue explain queries.ensue --input trades.parquet --objective latency
    """
    import ensue

    if saved is not None and source is not None:
        raise click.UsageError("--stats and --input both say what the stream is like; give one of them")
    is_chosen = "planner" in given_options(click.get_current_context())
    if is_chosen and saved is None and source is None:
        raise click.UsageError("--planner makes plans for a stream; give --input or --stats too")
    if is_chosen and objective == "latency":
        raise click.UsageError(NO_PLANNER)
    if objective != "throughput" and saved is None and source is None:
        raise click.UsageError("--objective latency depends on how events come; give --input or --stats too")
    text = read_text(queries)
    program = choose_program(parse_whole(text), names)
    chosen = program.queries
    with pointing_into(text.origin):
        if program.rules and source is not None:
            click.echo(_explain_rules(program, source, columns, planner, schema, format_))
            return
        if program.rules and saved is not None:
            raise click.UsageError("--stats holds statistics of queries; what rules do with a stream --input shows")
        if saved is not None or source is not None:
            known = load_measured(saved) if saved is not None else measure(chosen, source or "", columns, schema=schema)
            click.echo(_explain_measured(chosen, known, planner, objective, format_))
            return
        given = None if schema is None else load_schema(schema, columns)
        engine = ensue.compile(
            program,
            given,
            type=columns.type,
            ts=columns.time,
            begin=columns.begin,
            unit=columns.unit,
            options=ensue.Options(unbounded_rules=True),
        )
        click.echo(engine.explain(format=format_))


def _explain_rules(
    program: Program, source: str, columns: ColumnNames, planner: str, schema: str | None, format_: str
) -> str:
    """How rules, and queries over what they derive, are run once they have seen all events of a file."""
    import ensue
    from ensue.cli.run_local import Asides, find_matches
    from ensue.cli.sources import open_source
    from ensue.pattern.numbers import numeric_columns
    from ensue.rules.program import declared_numbers
    from ensue.runtime.adaptation import Adaptation

    given = None if schema is None else load_schema(schema, columns).columns
    times = (columns.time, *((columns.begin,) if columns.begin else ()))
    numeric = {*numeric_columns(program.queries), *declared_numbers(program), *times}
    events = open_source(source, columns=columns, fixed=given, numeric=numeric)
    engine = ensue.compile(
        program,
        type=columns.type,
        ts=columns.time,
        begin=columns.begin,
        unit=columns.unit,
        lateness=events.survey(),
        options=ensue.Options(unbounded_rules=True),
        adapt=Adaptation(planner=planner, every=2048),
    )
    for _ in find_matches(engine, events, 65_536, Asides(None, None, strict=False)):
        pass  # what is derived is for `ensue run`
    return engine.explain(format=format_)


def _explain_measured(queries: Sequence[Query], known: Measured, planner: str, objective: str, format_: str) -> str:
    """The plans of a planner, or for an objective, under what was measured."""
    from ensue.planning.aggregates import is_counted
    from ensue.planning.explain import explain
    from ensue.planning.objectives import check_objective
    from ensue.runtime.adaptation import Adaptation
    from ensue.runtime.adapting import Adapter
    from ensue.runtime.compiling import check_queries

    check_queries(queries, known.schema)
    adaptation = Adaptation(planner=planner, objective=check_objective(objective))
    shown = []
    expected = {}
    for query in queries:
        statistics = known.of(query)
        plan = None
        if Adapter.fits(query) and not is_counted(query, known.schema):
            plan, expected[query.name or ""] = adaptation.plan(query, known.schema, statistics)
        shown.append((query, plan, known.schema))
    rates = {kind: rate.value for one in known.statistics.values() for kind, rate in one.rates.items()}
    return explain(shown, format_, expected, rates=rates)
