"""Points in time as integers: microseconds since 1970 in UTC, or the number as it is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ensue.events.schema import TimeUnit

NULL = -(2**63)
"""The int64 that stands for null in arrays; no value of an event is equal to it."""

LARGEST = 2**63 - 1

MICROSECONDS: dict[TimeUnit, int] = {TimeUnit.US: 1, TimeUnit.MS: 1_000, TimeUnit.S: 1_000_000}
"""How many microseconds one step of an integer time column is."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_time(text: str) -> int:
    """An ISO-8601 text as microseconds since 1970; UTC unless it names a zone. Raises ValueError.

    >>> parse_time("1970-01-01T00:00:01.5Z")
    1500000
    """
    return to_microseconds(datetime.fromisoformat(text.strip()))


def to_microseconds(moment: date) -> int:
    """A date or datetime as microseconds since 1970; UTC if it has no zone.

    >>> to_microseconds(date(1970, 1, 2))
    86400000000
    """
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def read_time(value: object) -> int:
    """A time as rows hold it (integer, text, date or datetime) as an integer. Raises ValueError.

    >>> read_time(7), read_time("1970-01-01")
    (7, 0)
    """
    if isinstance(value, str):
        return parse_time(value)
    if isinstance(value, date):
        return to_microseconds(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValueError(f"{value!r} is not a time")
