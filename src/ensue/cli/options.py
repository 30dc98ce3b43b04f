"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from typing import Any

import click
from click.core import ParameterSource

from ensue.cli.schemas import ColumnNames

NO_PLANNER = "--planner is for throughput; with --objective latency plans are made in a way of their own"


def column_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which columns hold type and time; the command gets them as one `columns`."""

    @click.option("--type-column", default="type", show_default=True, help="The column of the event's type.")
    @click.option("--time-column", default="ts", show_default=True, help="The column of the event's time (its end).")
    @click.option("--begin-column", help="The column of the event's begin, for events that last.")
    @click.option(
        "--time-unit",
        type=click.Choice(["us", "ms", "s"]),
        default="ms",
        show_default=True,
        help="What one step of an integer time column is.",
    )
    @functools.wraps(command)
    def with_columns(
        *, type_column: str, time_column: str, begin_column: str | None, time_unit: str, **others: Any
    ) -> None:
        command(columns=ColumnNames(type_column, time_column, begin_column, time_unit), **others)

    return with_columns


def schema_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--schema` and the options of `column_options`."""
    with_schema = click.option(
        "--schema",
        metavar="FILE",
        help='The columns and their types: JSON or TOML such as {"price": "float64"}, or a data file.',
    )
    return with_schema(column_options(command))


def objective_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--objective`."""
    return click.option(
        "--objective",
        type=click.Choice(["throughput", "latency"]),
        default="throughput",
        show_default=True,
        help="What plans are for; latency adapts them, so that a match is known soon after its last event.",
    )(command)


def given_options(ctx: click.Context) -> set[str]:
    """The names of the parameters that were given, not left to their defaults."""
    return {name for name in ctx.params if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}


def refuse(names: Container[str | None], ctx: click.Context, why: str) -> None:
    """An error if an option of one of those names is there."""
    for parameter in ctx.command.params:
        if parameter.name in names:
            raise click.UsageError(f"{parameter.opts[-1]} cannot be given {why}")
