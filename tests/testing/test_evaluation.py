"""The oracle's evaluator: values that SQL and the language reference give."""

from __future__ import annotations

import math

import pytest

from ensue.events.schema import DType, Schema, TimeUnit
from ensue.language import parse_query
from ensue.pattern.expressions import Duration
from ensue.testing.evaluation import Scope, evaluate
from ensue.testing.values import LARGEST, Unreadable, Value, measure_duration, parse_timestamp, read_event, read_value

SCHEMA = Schema(
    {"type": DType.STRING, "ts": DType.INT, "x": DType.INT, "y": DType.FLOAT, "s": DType.STRING, "b": DType.BOOL}
)


def value_of(text: str, **columns: object) -> Value:
    """The value of an expression over one event `a`."""
    query = parse_query(f"PATTERN A a RETURN {text} AS value")
    event = read_event(0, {"type": "A", "ts": 1, **columns}, SCHEMA)
    return evaluate(query.returns[0].expression, Scope(SCHEMA, {"a": event}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("7 - 2 - 1", 4),
        ("7 / 2", 3.5),
        ("6 / 2", 3.0),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("-7.5 % 2", -1.5),
        ("1 % 0", None),
        ("1.0 / 0", None),
        ("9223372036854775807 + 1", None),
        ("9223372036854775807 + 1.0", 9223372036854775808.0),
        ("-9223372036854775807 - 1", None),
        ("1e308 * 10", math.inf),
        ("1e308 * 10 - 1e308 * 10", None),
        ("NULL + 1", None),
        ("round(2.5)", 3.0),
        ("round(-2.5)", -3.0),
        ("round(0.49999999999999994)", 0.0),
        ("round(2.675, 2)", 2.68),
        ("round(1234.5, -2)", 1200.0),
        ("round(1250, -2)", 1300),
        ("round(-1250, -2)", -1300),
        ("round(7, 2)", 7),
        ("floor(-1.5)", -2.0),
        ("ceil(-1.5)", -1.0),
        ("floor(3)", 3),
        ("abs(-3)", 3),
        ("length('äöü')", 3),
        ("upper('straße')", "STRASSE"),
        ("lower('ÄB')", "äb"),
        ("coalesce(NULL, 1, 2.5)", 1.0),
        ("coalesce(NULL, NULL)", None),
        ("1 < 2 < 3", True),
        ("3 > 2 > 2", False),
        ("1 = 1.0", True),
        ("'a' < 'B'", False),
        ("NULL = NULL", None),
        ("NULL != 1", None),
        ("NOT NULL = 1", None),
        ("NULL IS NULL", True),
        ("1 IS NOT NULL", True),
        ("1 = 1 OR NULL = 1", True),
        ("1 = 2 OR NULL = 1", None),
        ("1 = 2 AND NULL = 1", False),
        ("1 = 1 AND NULL = 1", None),
        ("1 IN (1, NULL)", True),
        ("2 IN (1, NULL)", None),
        ("2 NOT IN (1, NULL)", None),
        ("2 NOT IN (1, 3)", True),
        ("NULL IN (1)", None),
        ("2 BETWEEN 2 AND 3", True),
        ("1 BETWEEN 2 AND NULL", False),
        ("3 BETWEEN 2 AND NULL", None),
        ("1 NOT BETWEEN 2 AND NULL", True),
        ("'abc' LIKE 'a%'", True),
        ("'abc' LIKE 'a'", False),
        ("'a%c' LIKE 'a\\%c'", True),
        ("'abc' LIKE 'a\\%c'", False),
        ("'Abc' LIKE 'a%'", False),
        ("'a.c' LIKE 'a.c'", True),
        ("'abc' NOT LIKE '___'", False),
        ("5 minutes > 299s", True),
        ("a.ts + 1s", 1001),
        ("a.end - a.begin", 0),
    ],
)
def test_values(text: str, expected: Value) -> None:
    value = value_of(text)
    assert repr(value) == repr(expected)  # tells 1 from 1.0 and from True


def test_attributes() -> None:
    assert value_of("a.x + a.y", x=1, y=2) == 3.0
    assert isinstance(value_of("a.y", y=2), float)
    assert value_of("a.y", y=math.nan) is None
    assert value_of("a.s LIKE '%\n%'", s="p\nq") is True
    assert value_of("a.b = TRUE", b=False) is False
    assert value_of("a.type") == "A"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (LARGEST + 1, DType.INT),
        (-LARGEST - 1, DType.INT),
        (1.5, DType.INT),
        (True, DType.INT),
        ("1", DType.INT),
        ("x", DType.FLOAT),
        (1, DType.BOOL),
        (1, DType.STRING),
        ("soon", DType.TIMESTAMP),
    ],
)
def test_unreadable_values(value: object, dtype: DType) -> None:
    with pytest.raises(Unreadable):
        read_value(value, dtype)


def test_times() -> None:
    assert parse_timestamp("1970-01-02") == 86_400_000_000
    assert parse_timestamp("1970-01-01T01:00:00+01:00") == 0
    assert parse_timestamp("1969-12-31T23:59:59.999999Z") == -1


@pytest.mark.parametrize(
    ("duration", "dtype", "unit", "expected"),
    [
        (Duration(10), DType.INT, TimeUnit.S, 10),
        (Duration(10, "s"), DType.INT, TimeUnit.MS, 10_000),
        (Duration(1, "h"), DType.INT, TimeUnit.S, 3600),
        (Duration(5, "ms"), DType.INT, TimeUnit.S, 0.005),
        (Duration(0.1, "s"), DType.INT, TimeUnit.US, 100_000),
        (Duration(10, "s"), DType.TIMESTAMP, TimeUnit.MS, 10_000_000),
        (Duration(1, "d"), DType.STRING, TimeUnit.MS, 86_400_000_000),
    ],
)
def test_durations(duration: Duration, dtype: DType, unit: TimeUnit, expected: float) -> None:
    length = measure_duration(duration, Schema({"type": DType.STRING, "ts": dtype}, unit=unit))
    assert repr(length) == repr(expected)
