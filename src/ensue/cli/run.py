"""`ensue run`: find the matches of queries in files or streams of events, on Spark or in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from ensue.cli.options import NO_PLANNER, given_options, objective_option, refuse, schema_options
from ensue.cli.schemas import ColumnNames

if TYPE_CHECKING:
    from ensue.runtime.adaptation import Adaptation

_LOCAL_ONLY = {
    "late": "--late",
    "rejects": "--rejects",
    "batch_size": "--batch-size",
    "top": "--top",
}
_SPARK_ONLY = {
    "aside": "--aside",
    "stream": "--stream",
    "trigger": "--trigger",
    "checkpoint": "--checkpoint",
    "key": "--key",
    "input_options": "--input-option",
    "master": "--master",
    "packages": "--packages",
    "config": "--conf",
    "progress": "--progress",
    "verbose": "--verbose",
}
_BESIDE_A_FILE = {"queries", "backend", "master", "packages", "config", "progress", "verbose", "quiet"}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What was asked for on the command line."""

    queries: str
    source: str
    output: str
    format: str | None
    input_format: str | None
    input_options: tuple[tuple[str, str], ...]
    schema: str | None
    columns: ColumnNames
    names: tuple[str, ...]
    key: str | None
    lateness: str | None
    late: str | None
    rejects: str | None
    aside: str | None
    strict: bool
    batch_size: int
    max_matches: int | None
    max_partial_matches: int | None
    memory: str | None
    on_limit: Literal["error", "shed"]
    unbounded_rules: bool
    adapt: str | None
    planner: str
    objective: str
    journal: str | None
    stream: bool
    trigger: str | None
    checkpoint: str | None
    master: str | None
    packages: tuple[str, ...]
    config: tuple[tuple[str, str], ...]
    progress: bool
    top: int | None
    verbose: bool
    quiet: bool

    @property
    def adaptation(self) -> Adaptation | None:
        """How plans are to be adapted."""
        from ensue.runtime.adaptation import Adaptation, read_adapt

        asked = None if self.adapt is None else Adaptation(planner=self.planner, decision=self.adapt)
        return read_adapt(asked, self.objective)


def _read_settings(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Take `name=value` apart."""
    found = []
    for text in value:
        name, sign, rest = text.partition("=")
        if not sign or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, param)
        found.append((name.strip(), rest.strip()))
    return tuple(found)


@click.command("run")
@click.argument("queries", metavar="QUERIES|PIPELINE.toml")
@click.option(
    "-i", "--input", "source", metavar="PATH|-", help="The events: a file, a folder of files, - for standard input."
)
@click.option("-o", "--output", default="-", metavar="PATH|URL|-", help="Where matches go. [default: standard output]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "csv", "parquet", "table"]),
    help="Of the output. [default: jsonl, or as the output is named]",
)
@click.option(
    "--input-format",
    type=click.Choice(["csv", "tsv", "jsonl", "parquet", "delta", "kafka", "generator"]),
    help="Of the input. [default: as it is named, or as it begins]",
)
@click.option(
    "--input-option",
    "input_options",
    callback=_read_settings,
    multiple=True,
    metavar="NAME=VALUE",
    help="For Spark's reader; may be repeated.",
)
@schema_options
@click.option(
    "--query", "names", multiple=True, metavar="NAME", help="Run only the query of this name; may be repeated."
)
@click.option("--key", metavar="COLUMN", help="Keep matches of each value of this column apart.")
@click.option(
    "--backend",
    type=click.Choice(["spark", "local"]),
    help="Where to run. [default: spark; local for standard input]",
)
@click.option(
    "--lateness", metavar="DURATION", help="Take the input as a stream and let an event come this late (10s)."
)
@click.option("--late", metavar="FILE", help="Local: where events go that came later than that.")
@click.option("--rejects", metavar="FILE", help="Local: where rows go that cannot be read, with the reason.")
@click.option("--aside", metavar="PATH", help="Spark: where late and rejected rows go, with the reason.")
@click.option("--strict", is_flag=True, help="A row that cannot be read is an error.")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=65_536,
    show_default=True,
    metavar="N",
    help="Local: events at a time.",
)
@click.option("--max-matches", type=click.IntRange(1), metavar="N", help="Stop when there are more matches.")
@click.option(
    "--max-partial-matches", type=click.IntRange(1), metavar="N", help="Stop when there are more unfinished ones."
)
@click.option("--memory", metavar="SIZE", help="Stop when more memory would be needed, such as 2GB.")
@click.option(
    "--adapt",
    is_flag=False,
    flag_value="invariants",
    type=click.Choice(["invariants", "threshold", "unconditional", "static"]),
    help="Keep plans fit for the stream, replanning by this rule. [with no value: invariants]",
)
@click.option(
    "--planner",
    type=click.Choice(["rate", "greedy", "order", "zstream", "bushy"]),
    default="greedy",
    show_default=True,
    help="How --adapt makes plans.",
)
@objective_option
@click.option(
    "--journal",
    metavar="PATH",
    help="Where --adapt tells what it decided and why: JSON lines; on Spark as the path is named.",
)
@click.option(
    "--on-limit",
    type=click.Choice(["error", "shed"]),
    default="error",
    show_default=True,
    help="At a limit: stop, or drop the oldest and count them.",
)
@click.option("--unbounded-rules", is_flag=True, help="Stream: allow rules whose state grows for as long as it runs.")
@click.option("--stream", is_flag=True, help="Spark: go on for as long as events come.")
@click.option(
    "--trigger", metavar="TIME", help="Stream: a micro-batch every '10 seconds', or 'available-now' and stop."
)
@click.option("--checkpoint", metavar="FOLDER", help="Stream: how far it has come, to go on from after a stop.")
@click.option("--master", metavar="URL", help="Spark: where it runs. [default: all cores of this machine]")
@click.option(
    "--packages", multiple=True, metavar="NAMES", help="Spark: what it needs more: kafka, delta, Maven coordinates."
)
@click.option(
    "--conf", "config", callback=_read_settings, multiple=True, metavar="NAME=VALUE", help="Spark: a setting."
)
@click.option("--progress", is_flag=True, help="Stream: show the running numbers even if this is not a terminal.")
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    help="Local: show the N greatest groups of AGG: live on a terminal, else when it is done.",
)
@click.option("--verbose", is_flag=True, help="Spark: show the errors in its log, with their stack traces.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@click.pass_context
def run_command(
    ctx: click.Context, /, backend: str | None, format_: str | None, source: str | None, **others: object
) -> None:
    """Find the matches of QUERIES, a file of queries and rules or the text of one; or run the pipeline in a TOML file.

    What rules derive comes out beside the matches, as objects with `rule`, `type`, `begin`, `end` and the attributes.

    On Spark the input is CSV with a header, JSON lines, Parquet or a Delta table, a file or a folder of files; or a
    Kafka topic. The order of a finite input does not matter. With --stream it is followed: files that come into the
    folder, records that come into the topic; an event that comes later than --lateness goes to --aside. A stream that
    was stopped goes on where it was, by its --checkpoint, and no match is lost or doubled.

    With --backend local all is done in this process, which starts quicker: one file, gzip too, or standard input.

    An output named .jsonl, .csv or .parquet is one file; another path is a folder; a URL gets a POST for each match.
    The types of CSV and JSON columns are found out by reading; --schema settles them. A summary goes to standard error.

    \b
    Examples:
      ensue run queries.ensue --input trades.csv
      ensue run "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s" -i events.jsonl -o matches.parquet
      ensue run queries.ensue -i trades.csv.gz --type-column symbol --time-column time --query rising --format csv
      ensue run queries.ensue -i incoming/ -o matches/ --stream --checkpoint state/ --lateness "10 seconds"
      ensue run queries.ensue -i trades.csv -o matches/ --adapt --journal plans.jsonl
      ensue run counts.ensue -i trades.csv -o counts.csv --backend local --top 10
      ensue run queries.ensue -i incoming/ -o matches/ --stream --checkpoint state/ --objective latency
      ensue run queries.ensue -i stock --input-format generator --input-option rows=100000 --format table
      ensue run queries.ensue -i trades --input-format kafka --input-option kafka.bootstrap.servers=localhost:9092 \\
        --schema columns.toml --packages kafka
      ensue run pipeline.toml --master spark://host:7077
      tail -f events.jsonl | ensue run queries.ensue -i - --lateness 5s --late late.jsonl
    """
    given = given_options(ctx)
    if str(others["queries"]).endswith(".toml"):
        from ensue.cli.run_spark import run_file

        refuse(given - _BESIDE_A_FILE, ctx, "with a pipeline file, which says this itself")
        if backend == "local":
            raise click.UsageError("a pipeline file is run on Spark; give the queries and --input for --backend local")
        options = RunOptions(source="", format=None, **others)  # type: ignore[arg-type]
        run_file(options)
        return
    if source is None:
        raise click.UsageError("Missing option '-i' / '--input': the events.")
    options = RunOptions(source=source, format=format_, **others)  # type: ignore[arg-type]
    if options.journal is not None and options.adaptation is None:
        raise click.UsageError("--journal tells what --adapt decides; give --adapt too")
    if options.journal == "-":
        raise click.UsageError("--journal is a file beside the matches; give it a name")
    if "planner" in given and options.adaptation is None:
        raise click.UsageError("--planner says how --adapt makes plans; give --adapt too")
    if "planner" in given and options.objective == "latency":
        raise click.UsageError(NO_PLANNER)
    if backend == "spark" and source == "-":
        raise click.UsageError(
            "Spark cannot read standard input; leave --backend out to run in this process, or give a file"
        )
    if backend == "local" or source == "-":
        from ensue.cli.run_local import run_local

        refuse([name for name in _SPARK_ONLY if name in given], ctx, "with --backend local; it is Spark's")
        run_local(options)
    else:
        from ensue.cli.run_spark import run_spark

        refuse([name for name in _LOCAL_ONLY if name in given], ctx, _instead(given))
        run_spark(options)


def _instead(given: set[str]) -> str:
    if given & {"late", "rejects"}:
        return "on Spark, where late and rejected rows go together to --aside PATH; or run with --backend local"
    return "on Spark; it is of --backend local"
