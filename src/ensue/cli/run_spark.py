"""`ensue run` on Spark: options become a pipeline, as a TOML file does, and the pipeline is run."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ensue.cli.progress import describe_plans
from ensue.cli.quantities import count_found, read_lateness, read_size
from ensue.cli.queries import QueryFault, choose_program, parse_whole, pointing_into, read_text
from ensue.cli.schemas import load_schema
from ensue.cli.sources import SUFFIXES
from ensue.errors import PlanError, QueryError
from ensue.options import Options
from ensue.rules.check import check_program

if TYPE_CHECKING:
    from types import FrameType

    from ensue.cli.run import RunOptions
    from ensue.pattern.query import Query
    from ensue.rules.program import Program
    from ensue.runtime.counts import Counts
    from ensue.spark.settings import Pipeline, Sink, Source, Stream

_FORMATS = {"csv": "csv", "tsv": "csv", "jsonl": "json", "json": "json", "parquet": "parquet"}


def run_file(asked: RunOptions) -> None:
    """Run the pipeline of a TOML file; `--master`, `--packages` and `--conf` are added to what it says of Spark."""
    from ensue.spark.pipeline_file import load_pipeline

    if not Path(asked.queries).is_file():
        raise click.UsageError(f"no such file: {asked.queries}")
    try:
        pipeline = load_pipeline(asked.queries)
    except PlanError as error:
        raise click.UsageError(str(error)) from error
    except QueryError as error:
        raise QueryFault([error], asked.queries) from error
    own = pipeline.spark
    spark = replace(
        own,
        master=asked.master or own.master,
        config={**own.config, **dict(asked.config)},
        packages=(*own.packages, *_packages(asked)),
    )
    run_pipeline(replace(pipeline, spark=spark), asked, asked.queries)


def run_spark(asked: RunOptions) -> None:
    """Run the pipeline that the options describe."""
    text = read_text(asked.queries)
    program = choose_program(parse_whole(text), asked.names)
    with pointing_into(text.origin):
        check_program(program)
    try:
        pipeline = make_pipeline(asked, program)
    except PlanError as error:
        raise click.UsageError(str(error)) from error
    run_pipeline(pipeline, asked, text.origin)


def make_pipeline(asked: RunOptions, program: Program) -> Pipeline:
    """The pipeline that the options of the command line describe."""
    from ensue.spark.settings import Detection, FileSink, Pipeline, SparkSettings

    limits: dict[str, Any] = {
        "max_matches": asked.max_matches,
        "max_partial_matches": asked.max_partial_matches,
        "memory_budget": None if asked.memory is None else read_size(asked.memory),
    }
    given = {name: value for name, value in limits.items() if value is not None}
    options = Options(on_limit=asked.on_limit, unbounded_rules=asked.unbounded_rules, **given)
    if asked.lateness is not None:
        read_lateness(asked.lateness)
        if not asked.stream:
            raise click.UsageError("--lateness is of streams: add --stream and --checkpoint, or --backend local")
    lateness = 0 if asked.lateness is None else asked.lateness.strip()
    return Pipeline(
        program.queries,
        make_source(asked),
        make_sink(asked),
        Detection(
            lateness=int(lateness) if isinstance(lateness, str) and lateness.isdecimal() else lateness,
            key=asked.key,
            strict=asked.strict,
            options=options,
            adapt=asked.adaptation,
        ),
        journal=None if asked.journal is None else FileSink(*_file(asked.journal, None, asked.stream)),
        aside=None if asked.aside is None else FileSink(*_file(asked.aside, None, asked.stream)),
        stream=make_stream(asked),
        spark=SparkSettings(asked.master, dict(asked.config), _packages(asked)),
        rules=program.definitions,
    )


def make_source(asked: RunOptions) -> Source:
    """The source that `--input` and the options for columns describe."""
    from ensue.spark.settings import Source

    columns, path, options = asked.columns, asked.source, dict(asked.input_options)
    kind = asked.input_format or guess_format(path)
    schema = None
    if asked.schema is not None:
        schema = {name: dtype.value for name, dtype in load_schema(asked.schema, columns).columns.items()}
    place: str | None = path
    match kind:
        case "kafka":
            place, options = None, {"subscribe": path, "startingOffsets": "earliest", **options}
        case "generator":
            place, options = None, {"kind": path, **options}
        case "tsv":
            options = {"sep": "\t", **options}
    format_ = _FORMATS.get(kind, kind)
    return Source(format_, place, schema, options, columns.type, columns.time, columns.begin, columns.unit)


def guess_format(path: str) -> str:
    """The format that a path's name asks for; of a folder, that of the first file in it."""
    place = Path(path)
    names = [place.name]
    if place.is_dir():
        names += sorted(file.name for file in place.rglob("*") if not file.name.startswith(("_", ".")))
    for name in names:
        kind = SUFFIXES.get(Path(name.lower().removesuffix(".gz").removesuffix(".bz2")).suffix)
        if kind is not None:
            return kind
    if "://" not in path and not place.exists():
        raise click.UsageError(f"no such file: {path}")
    raise click.UsageError(f"the name of {path} does not tell its format; say it with --input-format")


def make_sink(asked: RunOptions) -> Sink:
    """The sink that `--output` and `--format` describe."""
    from ensue.spark.settings import ConsoleSink, FileSink, WebhookSink

    if asked.output.startswith(("http://", "https://")):
        return WebhookSink(asked.output)
    if asked.output != "-":
        if asked.format == "table":
            raise click.UsageError("--format table is for standard output; files are jsonl, csv or parquet")
        return FileSink(*_file(asked.output, asked.format, asked.stream))
    match asked.format:
        case "parquet":
            raise click.UsageError("Spark does not write Parquet to standard output; give --output PATH")
        case "csv" | "table" as style:
            return ConsoleSink(style)
        case _:
            return ConsoleSink("json")


def _file(path: str, format_: str | None, stream: bool) -> tuple[Any, str, bool]:
    """The format and path of a file sink, and whether it is one file: a batch's, if it is named like one."""
    kind = SUFFIXES.get(Path(path.lower().removesuffix(".gz")).suffix)
    single = kind is not None and "://" not in path and not stream and not path.endswith("/")
    chosen = _FORMATS[format_ or kind or "jsonl"]
    return chosen, path if "://" in path else str(Path(path).absolute()), single


def make_stream(asked: RunOptions) -> Stream | None:
    """The stream that was asked for, None if it is to be a batch."""
    from ensue.spark.settings import Stream

    if not asked.stream:
        for name in ("trigger", "checkpoint"):
            if getattr(asked, name) is not None:
                raise click.UsageError(f"--{name} is of streams; add --stream")
        return None
    if asked.checkpoint is None:
        raise click.UsageError("--stream needs --checkpoint FOLDER, where it notes how far it has come")
    place = asked.checkpoint
    return Stream(place if "://" in place else str(Path(place).absolute()), asked.trigger)


def _packages(asked: RunOptions) -> tuple[str, ...]:
    return tuple(name.strip() for names in asked.packages for name in names.split(",") if name.strip())


def run_pipeline(pipeline: Pipeline, asked: RunOptions, origin: str | None) -> None:
    """Start Spark, run the pipeline as a batch or as a stream, and sum up."""
    from ensue.spark.pipeline import read_trigger, session_for

    if pipeline.stream is not None:
        try:
            read_trigger(pipeline.stream.trigger)
        except PlanError as error:
            raise click.UsageError(str(error)) from error
    with ExitStack() as stack:
        stack.enter_context(pointing_into(origin))
        spark = stack.enter_context(session_for(pipeline.spark, verbose=asked.verbose))
        if pipeline.stream is not None:
            run_stream(spark, pipeline, asked)
        else:
            run_batch(spark, pipeline, asked)


def run_batch(spark: Any, pipeline: Pipeline, asked: RunOptions) -> None:
    """Run the pipeline over what is there."""
    from ensue.spark import pipeline as pipelines

    started = time.perf_counter()
    counts = pipelines.run_batch(spark, pipeline)
    if not asked.quiet:
        click.echo(
            summarize(counts, pipeline.queries, time.perf_counter() - started, pipeline.aside is not None), err=True
        )


def summarize(counts: Counts, queries: Sequence[Query], seconds: float, aside: bool) -> str:
    """What came in, what became of it and what was found."""
    lines = [
        f"{counts.received:,} events in: {counts.processed:,} processed, {counts.late:,} late, {counts.rejected:,} "
        f"rejected ({counts.ignored:,} of types that no query names)",
        f"{count_found(counts.matches, queries)} in {seconds:.2f} s ({counts.received / seconds:,.0f} events/s)",
    ]
    if counts.rejected and not aside:
        lines.insert(1, "--aside PATH keeps the rejected rows, each with the reason")
    if counts.planned:
        lines.append(describe_plans(counts))
    return "\n".join(lines)


def run_stream(spark: Any, pipeline: Pipeline, asked: RunOptions) -> None:
    """Run the pipeline until its source ends, or until Ctrl-C or SIGTERM: then the running micro-batch is finished."""
    from ensue.cli.progress import make_display
    from ensue.spark.following import follow, halt
    from ensue.spark.pipeline import start_stream

    with stopping() as stop, make_display(asked.quiet, asked.progress, sys.stderr.isatty()) as report:
        query = start_stream(spark, pipeline)
        try:
            totals = follow(query, report, stop)
        finally:
            halt(query)
    if not asked.quiet:
        lines = [
            f"{'stopped' if stop.is_set() else 'ended'} after {totals.batches:,} micro-batches",
            f"{totals.received:,} events in: {totals.processed:,} processed or held, {totals.late:,} late, "
            f"{totals.rejected:,} rejected",
            f"{count_found(totals.matches, pipeline.queries)}; the same command goes on from here",
        ]
        if totals.planned:
            lines.append(describe_plans(totals))
        click.echo("\n".join(lines), err=True)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one interrupts at once."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        click.echo("stopping when the running micro-batch is done; once more to stop at once", err=True)

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
