"""What columns events have: attribute types, the type and time columns, and the unit of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class DType(Enum):
    """The type of an attribute."""

    BOOL = "bool"
    INT = "int64"
    FLOAT = "float64"
    STRING = "string"
    TIMESTAMP = "timestamp"


class TimeUnit(Enum):
    """What one step of an integer time column is; timestamps are always microseconds inside."""

    US = "us"
    MS = "ms"
    S = "s"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream of events.

    `columns` maps each column, the type and time columns included, to its type in the order of the input.
    `time` names the column of an event's end, `begin` that of its begin (None: events are points in time).
    A time column of DType.INT counts in `unit`; one of DType.TIMESTAMP or ISO-8601 text is in microseconds inside.
    """

    columns: Mapping[str, DType]
    type: str = "type"
    time: str = "ts"
    begin: str | None = None
    unit: TimeUnit = TimeUnit.MS
    event_types: frozenset[str] | None = None  # None: any


def dump_schema(schema: Schema) -> dict[str, Any]:
    """A schema as JSON-able values, for `load_schema`."""
    return {
        "columns": [[name, dtype.value] for name, dtype in schema.columns.items()],
        "type": schema.type,
        "time": schema.time,
        "begin": schema.begin,
        "unit": schema.unit.value,
        "event_types": None if schema.event_types is None else sorted(schema.event_types),
    }


def load_schema(state: Mapping[str, Any]) -> Schema:
    """What `dump_schema` gave."""
    types = state["event_types"]
    return Schema(
        {name: DType(dtype) for name, dtype in state["columns"]},
        state["type"],
        state["time"],
        state["begin"],
        TimeUnit(state["unit"]),
        None if types is None else frozenset(types),
    )
