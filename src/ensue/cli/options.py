"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from ensue.cli.schemas import ColumnNames


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
