"""The type of each kind of expression, and durations in the units of the time column."""

from __future__ import annotations

import pytest

from ensue.errors import QueryTypeError
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.language import parse_query
from ensue.pattern.expressions import Duration
from ensue.pattern.types import ValueType, fold_duration, infer

COLUMNS = {
    "type": DType.STRING,
    "ts": DType.INT,
    "n": DType.INT,
    "f": DType.FLOAT,
    "s": DType.STRING,
    "b": DType.BOOL,
    "t": DType.TIMESTAMP,
    "begin": DType.STRING,  # the time attribute of that name comes first
}
COUNTED = Schema(COLUMNS)
STAMPED = Schema({**COLUMNS, "ts": DType.TIMESTAMP})
ISO = Schema({**COLUMNS, "at": DType.STRING}, time="at")

TYPES = [
    ("1", "INT"),
    ("1.0", "FLOAT"),
    ("'x'", "STRING"),
    ("TRUE", "BOOL"),
    ("NULL", "NULL"),
    ("5s", "DURATION"),
    ("a.n", "INT"),
    ("a.f", "FLOAT"),
    ("a.s", "STRING"),
    ("a.b", "BOOL"),
    ("a.t", "TIMESTAMP"),
    ("a.n + 1", "INT"),
    ("a.n * a.f", "FLOAT"),
    ("a.n / 2", "FLOAT"),
    ("a.n % 2", "INT"),
    ("a.n % 2.0", "FLOAT"),
    ("-a.n", "INT"),
    ("-a.f", "FLOAT"),
    ("-(5s)", "DURATION"),
    ("a.n + NULL", "NULL"),
    ("a.t - a.t", "DURATION"),
    ("a.t - 5s", "TIMESTAMP"),
    ("5s + a.t", "TIMESTAMP"),
    ("5s + 1m", "DURATION"),
    ("2 * 5s", "DURATION"),
    ("5s / 2", "DURATION"),
    ("(a.t - a.t) / 1h", "FLOAT"),
    ("a.n < 1", "BOOL"),
    ("a.n = 1.5", "BOOL"),
    ("a.b = TRUE", "BOOL"),
    ("a.t > '2024-01-01'", "BOOL"),
    ("a.s IS NULL", "BOOL"),
    ("a.s LIKE 'x'", "BOOL"),
    ("a.n IN (1, 2.5)", "BOOL"),
    ("a.n BETWEEN 1 AND 2", "BOOL"),
    ("a.b OR NOT a.b", "BOOL"),
    ("COUNT(k)", "INT"),
    ("COUNT(k.s)", "INT"),
    ("SUM(k.n)", "INT"),
    ("SUM(k.f)", "FLOAT"),
    ("AVG(k.n)", "FLOAT"),
    ("MIN(k.s)", "STRING"),
    ("MAX(k.t)", "TIMESTAMP"),
    ("FIRST(k).s", "STRING"),
    ("abs(a.n)", "INT"),
    ("abs(a.t - a.t)", "DURATION"),
    ("round(a.f)", "FLOAT"),
    ("floor(a.f)", "FLOAT"),
    ("ceil(a.n)", "INT"),
    ("lower(a.s)", "STRING"),
    ("length(a.s)", "INT"),
    ("coalesce(a.n, a.f)", "FLOAT"),
    ("coalesce(NULL, a.n)", "INT"),
    ("coalesce(NULL)", "NULL"),
    ("coalesce(a.s, 'x')", "STRING"),
]


def type_of(text: str, schema: Schema | None) -> ValueType:
    query = parse_query(f"PATTERN SEQ(A a, K+ k[]) RETURN {text}")
    return infer(query.returns[0].expression, query.items, schema)


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_types(text: str, expected: str) -> None:
    for schema in (COUNTED, STAMPED, ISO):
        assert type_of(text, schema) is ValueType[expected]


@pytest.mark.parametrize("name", ["ts", "begin", "end"])
def test_time_attributes(name: str) -> None:
    assert type_of(f"a.{name}", COUNTED) is ValueType.INT
    assert type_of(f"a.{name}", STAMPED) is ValueType.TIMESTAMP
    assert type_of(f"a.{name}", ISO) is ValueType.TIMESTAMP
    assert type_of(f"a.{name}", None) is ValueType.UNKNOWN


def test_the_time_column_by_its_own_name() -> None:
    assert type_of("a.at", ISO) is ValueType.TIMESTAMP


def test_without_a_schema() -> None:
    assert type_of("a.n", None) is ValueType.UNKNOWN
    assert type_of("a.n + 1", None) is ValueType.UNKNOWN
    assert type_of("a.n / 1", None) is ValueType.FLOAT
    assert type_of("coalesce(1, a.n)", None) is ValueType.UNKNOWN
    assert type_of("a.n < 'x'", None) is ValueType.BOOL


def test_a_duration_beside_a_number_needs_integer_time() -> None:
    for text in ("a.n < 5s", "a.ts - a.ts < 5s", "a.ts + 5s < a.ts"):
        assert type_of(text, COUNTED) is ValueType.BOOL
    with pytest.raises(QueryTypeError, match="cannot be compared"):
        type_of("a.n < 5s", STAMPED)
    with pytest.raises(QueryTypeError, match="does not go with"):
        type_of("a.n + 5s", STAMPED)


@pytest.mark.parametrize("text", ["a.t * 2", "a.t + a.t", "5s - a.t", "5s * 5s", "a.t % 2", "2 / 5s", "5s % 2s"])
def test_time_arithmetic_without_meaning(text: str) -> None:
    with pytest.raises(QueryTypeError, match="does not go with"):
        type_of(text, STAMPED)


@pytest.mark.parametrize(
    ("duration", "schema", "expected"),
    [
        (Duration(10), COUNTED, 10),
        (Duration(2.5), COUNTED, 2.5),
        (Duration(10, "s"), COUNTED, 10_000),
        (Duration(1, "us"), COUNTED, 0.001),
        (Duration(0.1, "s"), COUNTED, 100),
        (Duration(10, "s"), Schema(COLUMNS, unit=TimeUnit.S), 10),
        (Duration(10, "s"), Schema(COLUMNS, unit=TimeUnit.US), 10_000_000),
        (Duration(1, "m"), STAMPED, 60_000_000),
        (Duration(0.1, "ms"), ISO, 100),
        (Duration(1, "w"), ISO, 604_800_000_000),
    ],
)
def test_durations_in_the_units_of_the_time_column(duration: Duration, schema: Schema, expected: int | float) -> None:
    found = fold_duration(duration, schema)
    assert found == expected
    assert type(found) is type(expected)


def test_a_duration_without_unit_on_timestamps() -> None:
    for schema in (STAMPED, ISO):
        with pytest.raises(QueryTypeError, match="has no unit"):
            fold_duration(Duration(10), schema)
