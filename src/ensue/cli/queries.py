"""Where a command's queries come from: a file, standard input, or the text itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ensue.errors import QueryError

if TYPE_CHECKING:
    from ensue.pattern.query import Query
    from ensue.rules.program import Program


class QueryFault(click.ClickException):
    """A wrong query, shown with the file it stands in."""

    exit_code = 2

    def __init__(self, errors: Sequence[QueryError], origin: str | None) -> None:
        super().__init__("\n".join(describe_fault(error, origin) for error in errors))

    def show(self, file: object = None) -> None:
        """Print the errors on standard error, without click's usage lines."""
        click.echo(self.message, err=True)


def describe_fault(error: QueryError, origin: str | None) -> str:
    """The error as the shell sees it: `error: file: line 1, column 2: …` and the line with a caret."""
    return f"error: {origin}: {error}" if origin else f"error: {error}"


@dataclass(frozen=True, slots=True)
class QueryText:
    """The text of one or more queries, and the file it came from (None: given as it is)."""

    text: str
    origin: str | None


def read_text(given: str) -> QueryText:
    """The text in the file `given` (`-`: standard input), or `given` itself if that is a query and not a file."""
    if given == "-":
        return QueryText(sys.stdin.read(), "standard input")
    if _is_file(given):
        try:
            return QueryText(Path(given).read_text(encoding="utf-8"), given)
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"cannot read {given}: {error}") from error
    if "PATTERN" in given.upper() or "RULE" in given.upper():
        return QueryText(given, None)
    raise click.UsageError(f"no file {given!r}, and it is not a query either: a query has a PATTERN clause")


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # a whole query is longer than a file name may be
        return False


@contextmanager
def pointing_into(origin: str | None) -> Iterator[None]:
    """Name the file in every query error that comes from inside."""
    try:
        yield
    except QueryError as error:
        raise QueryFault([error], origin) from error


def parse_text(source: QueryText) -> tuple[Query, ...]:
    """The queries of a text; a wrong one, or none at all, ends the command."""
    from ensue.language import parse

    with pointing_into(source.origin):
        queries = parse(source.text)
    if not queries:
        raise click.UsageError(f"{source.origin or 'the text'} holds no query")
    return queries


def parse_whole(source: QueryText) -> Program:
    """The declarations, rules and queries of a text; a wrong one, or none at all, ends the command."""
    from ensue.language import parse_program

    with pointing_into(source.origin):
        program = parse_program(source.text)
    if not program.statements:
        raise click.UsageError(f"{source.origin or 'the text'} holds no query and no rule")
    return program


def name_queries(queries: Sequence[Query]) -> dict[str, Query]:
    """The queries by name; one without a name is `q1`, `q2`, … by its place."""
    return {query.name or f"q{place}": query for place, query in enumerate(queries, 1)}


def choose_program(program: Program, names: Sequence[str]) -> Program:
    """The program with the queries of these names alone (none given: all), and all its rules."""
    from ensue.rules.program import Program

    chosen = choose_queries(program.queries, names) if program.queries or names else ()
    return Program((*program.events, *program.rules, *chosen))


def choose_queries(queries: Sequence[Query], names: Sequence[str]) -> tuple[Query, ...]:
    """The queries of these names (none given: all), under the names that they have in the whole file."""
    named = name_queries(queries)
    for name in names:
        if name not in named:
            near = get_close_matches(name, named, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(named)}"
            raise click.UsageError(f"no query is called {name!r}; {hint}")
    return tuple(replace(query, name=name) for name, query in named.items() if not names or name in names)
