"""`ensue run --backend local`: a file or standard input, in batches, through an engine in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from ensue.cli.progress import describe_plans
from ensue.cli.quantities import count_found, read_lateness, read_size
from ensue.cli.queries import choose_program, parse_whole, pointing_into, read_text
from ensue.cli.schemas import load_schema
from ensue.cli.top_groups import TopGroups
from ensue.errors import InputError, LimitError

if TYPE_CHECKING:
    from ensue.cli.rows import Unreadable
    from ensue.cli.run import RunOptions
    from ensue.cli.schemas import ColumnNames
    from ensue.cli.sinks import Output
    from ensue.cli.sources import Source
    from ensue.rules.program import Program, Statement
    from ensue.runtime.engine import Engine
    from ensue.runtime.matches import Matches
    from ensue.runtime.rule_engine import RuleEngine


def run_local(asked: RunOptions) -> None:
    """Find the matches and write them as they become known.

    The order of a file does not matter: it is read through once to see how far events are out of order, and then in
    batches that are held back just that much. With a lateness it is taken as a stream instead.
    """
    import ensue
    from ensue.cli.sinks import Output, refuse_binary_terminal
    from ensue.cli.sources import open_source
    from ensue.pattern.numbers import numeric_columns
    from ensue.rules.program import declared_numbers

    if asked.input_format in ("delta", "kafka", "generator"):
        raise click.UsageError(f"--backend local cannot read {asked.input_format}; leave --backend out to use Spark")
    if asked.format == "table":
        raise click.UsageError("--format table is Spark's; --backend local writes jsonl, csv or parquet")
    text = read_text(asked.queries)
    program = choose_program(parse_whole(text), asked.names)
    allowed = None if asked.lateness is None else read_lateness(asked.lateness)
    limits: dict[str, Any] = {
        "max_matches": asked.max_matches,
        "max_partial_matches": asked.max_partial_matches,
        "memory_budget": None if asked.memory is None else read_size(asked.memory),
    }
    options = replace(
        ensue.Options(),
        on_limit=asked.on_limit,
        unbounded_rules=asked.unbounded_rules,
        **{k: v for k, v in limits.items() if v is not None},
    )
    columns, most = asked.columns, asked.max_matches
    given = None if asked.schema is None else load_schema(asked.schema, columns).columns
    events = open_source(
        asked.source,
        columns=columns,
        format=asked.input_format,
        fixed=given,
        numeric={*numeric_columns(program.queries), *declared_numbers(program), *_times(columns)},
        batch_size=asked.batch_size,
        live=allowed is not None,
    )
    clock = _Clock()
    with ExitStack() as stack:
        top = None if asked.top is None or asked.quiet else TopGroups(asked.top, program.queries)
        is_terminal = sys.stderr.isatty()
        progress = stack.enter_context(_Progress(events, top, shown=not asked.quiet and is_terminal))
        if allowed is None:
            allowed = events.survey()
            program, options = (
                _allow_unbounded(program),
                replace(options, unbounded_rules=True),
            )  # this input has an end
        clock.stop("survey")
        out = stack.enter_context(Output(asked.output, asked.format))
        refuse_binary_terminal(out)
        aside = Asides(
            late=stack.enter_context(Output(asked.late)) if asked.late else None,
            rejects=stack.enter_context(Output(asked.rejects)) if asked.rejects else None,
            strict=asked.strict,
        )
        journal = None if asked.journal is None else stack.enter_context(_open_journal(asked.journal))
        with pointing_into(text.origin):
            engine = ensue.compile(
                program,
                type=columns.type,
                ts=columns.time,
                begin=columns.begin,
                unit=columns.unit,
                lateness=allowed,
                strict=asked.strict,
                options=options,
                adapt=asked.adaptation,
            )
            engine.take_journal()  # all of it from now on
            for matches in find_matches(engine, events, asked.batch_size, aside):
                if most is not None and asked.on_limit == "error" and engine.counts.matches > most:
                    raise LimitError(f"there are more than {most:,} matches; narrow the query or raise --max-matches")
                write_matches(matches, out)
                if journal is not None:
                    _write_journal(journal, engine)
                if top is not None:
                    top.take(matches)
                progress.update()
                clock.stop("start" if "start" not in clock.seconds else "run")
    if top is not None:
        top.show(is_terminal)
    if not asked.quiet:
        click.echo(summarize(engine, aside, clock), err=True)


def _open_journal(path: str) -> TextIO:
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another file with --journal") from error


def _write_journal(stream: TextIO, engine: Engine | RuleEngine) -> None:
    """Write what was decided about plans since the last time, an object a line: a live stream may have no end."""
    from ensue.events.json_text import to_json

    for entry in engine.take_journal():
        stream.write(to_json(entry.to_json()) + "\n")
    stream.flush()


def _allow_unbounded(program: Program) -> Program:
    """The program with WITHIN UNBOUNDED in queries that have no window."""
    from ensue.pattern.query import Query, Unbounded
    from ensue.rules.program import Program

    def allow(statement: Statement) -> Statement:
        if isinstance(statement, Query) and statement.within is None:
            return replace(statement, within=Unbounded())
        return statement

    return Program(tuple(map(allow, program)))


def _times(columns: ColumnNames) -> tuple[str, ...]:
    return (columns.time,) if columns.begin is None else (columns.time, columns.begin)


@dataclass(slots=True)
class Asides:
    """What takes no part: late events and rejected rows, written where asked for and counted."""

    late: Output | None
    rejects: Output | None
    strict: bool
    unreadable: int = 0
    first_reason: str | None = None

    def add_unreadable(self, rows: Sequence[Unreadable]) -> None:
        """Take rows that are not even rows of the format."""
        for row in rows:
            if self.strict:
                raise InputError(f"a row of the input: {row.reason}: {row.text[:80]}")
            self.first_reason = self.first_reason or row.reason
        self.unreadable += len(rows)
        self._reject([{"reason": row.reason, "row": row.text} for row in rows])

    def collect(self, engine: Engine | RuleEngine) -> None:
        """Take what the engine has set aside since the last time."""
        rejected, late = engine.take_rejected(), engine.take_late()
        if rejected is not None:
            if self.first_reason is None:
                self.first_reason = str(rejected.column(rejected.num_columns - 1)[0].as_py())  # the reason is last
            self._reject([{"reason": row.popitem()[1], "row": row} for row in rejected.to_pylist()])
        if late is not None and self.late is not None:
            self.late.open().write_table(late)

    def _reject(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rejected rows: the reason, and the row as it came (as JSON text where the format has no objects)."""
        if self.rejects is None or not rows:
            return
        import pyarrow as pa

        from ensue.cli.sinks import JsonSink
        from ensue.events.json_text import to_json

        sink = self.rejects.open()
        if isinstance(sink, JsonSink):
            sink.write_rows(rows)
        else:
            text = [row["row"] if isinstance(row["row"], str) else to_json(row["row"]) for row in rows]
            sink.write_table(pa.table({"reason": [row["reason"] for row in rows], "row": text}))


def find_matches(engine: Engine | RuleEngine, events: Source, batch_size: int, aside: Asides) -> Iterator[Matches]:
    """Push the events of a source through an engine, a batch at a time; give the matches as they become known."""
    import pyarrow as pa

    types = events.types()
    if types:
        # An empty batch first: it says which columns there are and of what type, whatever the first rows hold.
        yield engine.push(pa.schema(list(types.items())).empty_table())
    for parsed in events.batches():
        aside.add_unreadable(parsed.unreadable)
        table = parsed.table
        pieces: list[Any] = [table]
        if isinstance(table, pa.Table) and table.num_rows > batch_size:
            pieces = [table.slice(start, batch_size) for start in range(0, table.num_rows, batch_size)]
        for piece in pieces:
            yield engine.push(piece)
            aside.collect(engine)
    yield engine.flush()
    aside.collect(engine)


def write_matches(matches: Matches, output: Output) -> None:
    """Write matches in the output's format; the objects of JSON are those of `Matches.to_pylist`."""
    from ensue.cli.sinks import JsonSink

    sink = output.open()
    if isinstance(sink, JsonSink):
        if len(matches):
            sink.write_rows(matches.to_pylist())
    else:
        sink.write_table(matches.to_arrow())


class _Clock:
    """Where the time goes: the survey, the start (loading the engine) and the run itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def stop(self, part: str) -> None:
        """Count the time since the last stop to this part."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.last
        self.last = now


def summarize(engine: Engine | RuleEngine, aside: Asides, clock: _Clock) -> str:
    """What came in, what became of it and what was found, in two or three lines."""
    counts = engine.counts
    received, rejected = counts.received + aside.unreadable, counts.rejected + aside.unreadable
    working = clock.seconds.get("survey", 0.0) + clock.seconds.get("run", 0.0)
    speed = f"{received / working:,.0f} events/s" if working > 0 else "no time"
    lines = [
        f"{received:,} events in: {counts.processed:,} processed, {counts.late:,} late, {rejected:,} rejected"
        f" ({counts.ignored:,} of types that no query names)",
        f"{count_found(counts.matches, engine.queries)} in {sum(clock.seconds.values()):.2f} s ({speed} once started)",
    ]
    if aside.first_reason is not None:
        where = "" if aside.rejects is not None else " (--rejects FILE keeps them)"
        lines.insert(1, f"first rejected: {aside.first_reason}{where}")
    if counts.planned:
        lines.append(describe_plans(counts))
    if counts.shed_matches or counts.shed_partial_matches:
        lines.append(f"dropped: {counts.shed_matches:,} matches, {counts.shed_partial_matches:,} partial matches")
    return "\n".join(lines)


class _Progress:
    """A bar on standard error, with the greatest groups above it if they are asked for; on a terminal only."""

    def __init__(self, events: Source, top: TopGroups | None, *, shown: bool) -> None:
        self.events = events
        self.top = top
        self.bar: Any = None
        if shown:
            from rich.console import Console
            from rich.live import Live
            from rich.progress import Progress

            console = Console(stderr=True)
            self.bar = Progress(console=console, transient=True)
            self.task = self.bar.add_task("events", total=events.size)
            self.live = Live(self.bar, console=console, transient=True)

    def update(self) -> None:
        """Show how far reading has come."""
        if self.bar is not None:
            from rich.console import Group

            self.bar.update(self.task, completed=self.events.read)
            tables = [] if self.top is None else self.top.tables()
            self.live.update(Group(*tables, self.bar))

    def __enter__(self) -> _Progress:
        if self.bar is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.live.stop()
