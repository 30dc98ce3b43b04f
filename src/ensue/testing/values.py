"""Events as the oracle sees them: plain Python values, times as integers, unreadable rows left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

from ensue.events.schema import DType, Schema, TimeUnit
from ensue.pattern.expressions import UNITS, Duration

Value: TypeAlias = bool | int | float | str | None

LARGEST = 2**63 - 1
"""The largest int64; the smallest is its negative."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """One readable event: its position in the input, its type, its interval, and its columns."""

    position: int
    type: str
    begin: int
    end: int
    values: Mapping[str, Value]


class Unreadable(ValueError):
    """A row that cannot be read as an event (it would be rejected)."""


def read_events(rows: Sequence[Mapping[str, Any]], schema: Schema) -> list[Event]:
    """The readable rows as events, ordered by (end, position).

    >>> schema = Schema({"type": DType.STRING, "ts": DType.INT})
    >>> rows = [{"type": "A", "ts": 2}, {"type": None, "ts": 1}, {"type": "B", "ts": 1}]
    >>> [event.position for event in read_events(rows, schema)]
    [2, 0]
    """
    events = []
    for position, row in enumerate(rows):
        try:
            events.append(read_event(position, row, schema))
        except Unreadable:
            continue
    return sorted(events, key=lambda e: (e.end, e.position))


def read_event(position: int, row: Mapping[str, Any], schema: Schema) -> Event:
    """One row as an event; raises Unreadable for a row that would be rejected."""
    values = {name: read_value(row.get(name), dtype) for name, dtype in schema.columns.items()}
    kind = values.get(schema.type)
    end = _read_time(values, schema.time)
    begin = end if schema.begin is None else _read_time(values, schema.begin)
    if not isinstance(kind, str):
        raise Unreadable("the type is null")
    if begin > end:
        raise Unreadable("the begin is after the end")
    return Event(position, kind, begin, end, values)


def _read_time(values: Mapping[str, Value], column: str) -> int:
    value = values.get(column)
    if isinstance(value, str):
        value = parse_timestamp(value)
    if not isinstance(value, int):
        raise Unreadable("the time is null")
    return value


def read_value(value: Any, dtype: DType) -> Value:
    """A value of a column in the form that expressions work on: NaN is None, a timestamp an int of microseconds."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    match dtype:
        case DType.BOOL:
            if isinstance(value, bool):
                return value
        case DType.INT:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
                return value
        case DType.FLOAT:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        case DType.STRING:
            if isinstance(value, str):
                return value
        case DType.TIMESTAMP:
            if isinstance(value, datetime):
                return _microseconds(value)
            if isinstance(value, date):
                return _microseconds(datetime(value.year, value.month, value.day))
            if isinstance(value, str):
                return parse_timestamp(value)
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
                return value
        case _:
            assert_never(dtype)
    raise Unreadable(f"{value!r} is not a value of a {dtype.value} column")


def parse_timestamp(text: str) -> int:
    """An ISO-8601 text as microseconds since 1970 (UTC unless it names a zone).

    >>> parse_timestamp("1970-01-01T00:00:01.5Z")
    1500000
    """
    try:
        return _microseconds(datetime.fromisoformat(text.strip()))
    except ValueError as error:
        raise Unreadable(f"{text!r} is not an ISO-8601 time") from error


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def measure_duration(duration: Duration, schema: Schema) -> int | float:
    """A duration in the units of the time column: an int where it is a whole number of them.

    >>> measure_duration(Duration(1.5, "s"), Schema({"type": DType.STRING, "ts": DType.INT}))
    1500
    """
    length = Fraction(repr(duration.amount))
    if duration.unit is not None:
        length *= UNITS[duration.unit]
        if schema.columns[schema.time] is DType.INT:
            length /= {TimeUnit.US: UNITS["us"], TimeUnit.MS: UNITS["ms"], TimeUnit.S: UNITS["s"]}[schema.unit]
    return int(length) if length.denominator == 1 else float(length)
