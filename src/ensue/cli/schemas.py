"""The columns of a stream as a file says them: JSON or TOML of column and type, or a data file's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ensue.events.schema import DType, Schema, TimeUnit
from ensue.events.type_names import TYPE_NAMES


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Which columns hold an event's type and time, and what one step of an integer time is."""

    type: str = "type"
    time: str = "ts"
    begin: str | None = None
    unit: str = "ms"

    def schema(self, columns: Mapping[str, DType]) -> Schema:
        """The schema of a stream with these columns."""
        return Schema(dict(columns), type=self.type, time=self.time, begin=self.begin, unit=TimeUnit(self.unit))


def load_schema(path: str, columns: ColumnNames) -> Schema:
    """The schema in a file: `.json` or `.toml` with a type for each column, or the columns of a data file."""
    if not Path(path).is_file():
        raise click.UsageError(f"no such file: {path}")
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        return columns.schema(_read_types(path, _load(path, json.loads)))
    if suffix == ".toml":
        import tomllib

        return columns.schema(_read_types(path, _load(path, tomllib.loads)))
    import pyarrow as pa

    from ensue.cli.sources import open_source
    from ensue.events.intake import infer_columns
    from ensue.events.readers import read_table

    rows = read_table(pa.schema(open_source(path, columns=columns).types()).empty_table())
    return columns.schema(infer_columns(rows, columns.type, (columns.time, columns.begin)))


def _load(path: str, loads: Any) -> Any:
    try:
        return loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # JSON and TOML errors, and bytes that are not UTF-8
        raise click.UsageError(f"{path} cannot be read: {error}") from error


def _read_types(path: str, types: Any) -> dict[str, DType]:
    if not isinstance(types, dict) or not types:
        raise click.UsageError(f'{path} has to give a type for each column, such as {{"ts": "int64"}}')
    found = {}
    for name, given in types.items():
        if not isinstance(given, str) or given.lower() not in TYPE_NAMES:
            known = ", ".join(dtype.value for dtype in DType)
            raise click.UsageError(f"{path}: column {name!r} has the unknown type {given!r}; types are {known}")
        found[name] = TYPE_NAMES[given.lower()]
    return found
