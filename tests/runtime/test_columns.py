"""Expressions over whole batches, against the oracle's evaluator that looks at one event at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import QueryTypeError
from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.events.times import LARGEST, NULL
from ensue.pattern.expressions import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Duration,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from ensue.runtime.columns import evaluate
from ensue.runtime.strings import StringTable
from ensue.testing.evaluation import Scope
from ensue.testing.evaluation import evaluate as evaluate_plainly
from ensue.testing.values import read_event

SCHEMA = Schema(
    {
        "type": DType.STRING,
        "ts": DType.INT,
        "i": DType.INT,
        "j": DType.INT,
        "f": DType.FLOAT,
        "g": DType.FLOAT,
        "b": DType.BOOL,
        "s": DType.STRING,
        "t": DType.STRING,
        "w": DType.TIMESTAMP,
    }
)


def attribute(name: str) -> Attribute:
    return Attribute("a", name)


ints = st.one_of(
    st.integers(-5, 5), st.integers(-LARGEST, LARGEST), st.sampled_from([LARGEST, -LARGEST, 2**31, 2**53 + 1])
)
doubles = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e300, math.inf, -math.inf, 0.49999999999999994, 2.0**53]),
    st.floats(-10, 10),
    st.floats(),
)
texts = st.one_of(
    st.sampled_from(["", "a", "A", "ab", "a%b", "a_b", "ß", "İ", "\U0001f600", "a\nb"]), st.text(max_size=3)
)
times = st.integers(-(10**15), 10**15)

rows = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["A", "B"]),
        "ts": st.integers(-100, 100),
        "i": st.none() | ints,
        "j": st.none() | ints,
        "f": st.none() | doubles,
        "g": st.none() | doubles,
        "b": st.none() | st.booleans(),
        "s": st.none() | texts,
        "t": st.none() | texts,
        "w": st.none() | times,
    }
)

comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def whole_numbers(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(st.sampled_from([attribute("i"), attribute("j"), attribute("ts")]), ints.map(Literal))
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: whole_numbers(depth - 1))
    return st.one_of(
        leaves,
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "%"]), inner, inner),
        st.builds(Negate, inner),
        st.builds(lambda f, x: Call(f, (x,)), st.sampled_from(["abs", "floor", "ceil", "round"]), inner),
        st.builds(lambda x, d: Call("round", (x, Literal(d))), inner, st.integers(-21, 3)),
        st.builds(lambda x: Call("length", (x,)), strings(depth - 1)),
        st.builds(lambda x, y: Call("coalesce", (x, y)), inner, inner),
    )


def numbers(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(
        st.sampled_from([attribute("f"), attribute("g")]),
        doubles.filter(lambda x: not math.isnan(x)).map(Literal),
        whole_numbers(0),
    )
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: numbers(depth - 1))
    return st.one_of(
        leaves,
        whole_numbers(depth),
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
        st.builds(Negate, inner),
        st.builds(lambda f, x: Call(f, (x,)), st.sampled_from(["abs", "floor", "ceil", "round"]), inner),
        st.builds(lambda x, d: Call("round", (x, Literal(d))), inner, st.integers(-4, 4)),
        st.builds(lambda x, y: Call("coalesce", (x, y)), inner, inner),
    )


def strings(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(st.sampled_from([attribute("s"), attribute("t"), attribute("type")]), texts.map(Literal))
    if depth <= 0:
        return leaves
    inner = st.deferred(lambda: strings(depth - 1))
    return st.one_of(
        leaves,
        st.builds(lambda f, x: Call(f, (x,)), st.sampled_from(["lower", "upper"]), inner),
        st.builds(lambda x, y: Call("coalesce", (x, y)), inner, inner),
    )


def conditions(depth: int) -> st.SearchStrategy[Expression]:
    pairs = st.one_of(
        st.tuples(numbers(1), numbers(1)),
        st.tuples(strings(1), strings(1)),
        st.tuples(st.just(attribute("w")), st.sampled_from(["1970-01-01", "2001-09-09T01:46:40Z"]).map(Literal)),
    )
    leaves = st.one_of(
        st.builds(lambda p, o: Comparison(p, (o,)), pairs, comparisons),
        st.builds(lambda x, y, z, o, q: Comparison((x, y, z), (o, q)), *[numbers(1)] * 3, comparisons, comparisons),
        st.builds(
            InList,
            numbers(1),
            st.lists(st.one_of(numbers(0), st.just(Literal(None))), min_size=1, max_size=3).map(tuple),
            st.booleans(),
        ),
        st.builds(InList, strings(1), st.lists(strings(0), min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(Between, numbers(1), numbers(0), numbers(0), st.booleans()),
        st.builds(
            Like, strings(1), st.sampled_from(["%", "a%", "_", "a\\%b", "a\\_b", "", "%b", "a_b", "\\"]), st.booleans()
        ),
        st.builds(IsNull, st.one_of(numbers(1), strings(1)), st.booleans()),
        st.just(attribute("b")),
        st.sampled_from([Literal(True), Literal(False)]),
    )
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: conditions(depth - 1))
    return st.one_of(
        leaves,
        st.builds(Not, inner),
        st.builds(Logical, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(lambda x, y, o: Comparison((x, y), (o,)), inner, inner, st.sampled_from(["=", "!="])),
    )


def run(expression: Expression, events: list[dict[str, Any]], schema: Schema = SCHEMA) -> list[Any]:
    strings = StringTable()
    strings.encode_words(["left", "over"])
    batch = Intake(schema).sort_all(events)
    result = evaluate(expression, batch, schema, strings)
    assert len(result) == len(events)
    if result.dtype == np.float64:
        return [None if math.isnan(x) else x for x in result.tolist()]
    assert result.dtype == np.int64
    return [None if x == NULL else x for x in result.tolist()]


def run_plainly(expression: Expression, events: list[dict[str, Any]]) -> list[Any]:
    ordered = sorted((read_event(i, row, SCHEMA) for i, row in enumerate(events)), key=lambda e: (e.end, e.position))
    return [evaluate_plainly(expression, Scope(SCHEMA, {"a": event})) for event in ordered]


@settings(max_examples=400, deadline=None)
@given(st.lists(rows, max_size=6), st.one_of(conditions(2), numbers(3), whole_numbers(2)))
def test_a_batch_gives_what_each_event_gives(events: list[dict[str, Any]], expression: Expression) -> None:
    assert run(expression, events) == run_plainly(expression, events)


@settings(max_examples=150, deadline=None)
@given(st.lists(rows, max_size=6), strings(2))
def test_strings_come_out_as_codes_of_the_table(events: list[dict[str, Any]], expression: Expression) -> None:
    table = StringTable()
    codes = evaluate(expression, Intake(SCHEMA).sort_all(events), SCHEMA, table)
    assert [None if c == NULL else table.decode(c) for c in codes.tolist()] == run_plainly(expression, events)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Arithmetic("+", attribute("i"), Literal(1)), [None, None, 8]),
        (Arithmetic("%", Negate(attribute("j")), Literal(3)), [-1, None, -2]),
        (Arithmetic("/", attribute("j"), Literal(2)), [3.5, None, 1.0]),
        (Arithmetic("/", attribute("j"), Literal(0)), [None, None, None]),
        (Comparison((attribute("ts"), Literal(Duration(2, "ms"))), (">=",)), [0, 1, 1]),
        (Comparison((attribute("ts"), Literal(Duration(2, "us"))), (">=",)), [1, 1, 1]),
        (Literal(None), [None, None, None]),
        (IsNull(Literal(None)), [1, 1, 1]),
        (Literal("x"), [2, 2, 2]),
        (InList(attribute("j"), (Literal(7), Literal(None))), [1, None, None]),
    ],
)
def test_fine_points(expression: Expression, expected: list[Any]) -> None:
    events = [
        {"type": "A", "ts": 1, "i": LARGEST, "j": 7},
        {"type": "A", "ts": 2, "i": None, "j": None},
        {"type": "B", "ts": 3, "i": 7, "j": 2},
    ]
    assert run(expression, events) == expected


def test_time_arithmetic_over_timestamps() -> None:
    schema = Schema({"type": DType.STRING, "ts": DType.TIMESTAMP, "w": DType.TIMESTAMP}, unit=TimeUnit.S)
    events = [{"type": "A", "ts": "1970-01-01T00:00:10Z", "w": "1970-01-01T00:00:04"}]
    gap = Arithmetic("-", attribute("ts"), attribute("w"))
    assert run(gap, events, schema) == [6_000_000]
    assert run(Comparison((gap, Literal(Duration(6, "s"))), ("=",)), events, schema) == [1]
    assert run(Arithmetic("+", attribute("w"), Literal(Duration(1.5, "s"))), events, schema) == [5_500_000]
    assert run(Comparison((attribute("end"), Literal("1970-01-01T00:00:10+00:00")), ("=",)), events, schema) == [1]
    assert run(Comparison((attribute("begin"), attribute("ts")), ("=",)), events, schema) == [1]
    second = Literal(Duration(1, "s"))
    assert run(Comparison((gap, Arithmetic("*", second, Literal(6))), ("=",)), events, schema) == [1]
    assert run(Arithmetic("*", Literal(0.5), second), events, schema) == [500_000]
    assert run(Arithmetic("/", gap, Literal(4)), events, schema) == [1_500_000]
    assert run(Arithmetic("/", gap, second), events, schema) == [6.0]
    assert run(Arithmetic("-", gap, second), events, schema) == [5_000_000]
    assert run(Comparison((Arithmetic("-", gap, gap), Literal(Duration(0.5, "us"))), ("<",)), events, schema) == [1]
    with pytest.raises(QueryTypeError, match="ISO-8601"):
        run(Comparison((attribute("end"), Literal("noon")), ("=",)), events, schema)


def test_an_integer_time_column_with_timestamps_beside_it() -> None:
    events = [{"type": "A", "ts": 1, "w": "1970-01-01T00:00:04Z"}]
    gap = Arithmetic("-", attribute("w"), attribute("w"))
    assert run(Comparison((gap, Literal(Duration(1, "ms"))), ("<",)), events) == [1]
    later = Arithmetic("+", attribute("w"), Literal(Duration(1, "ms")))
    assert run(later, events) == [4_001_000]


def test_the_time_attributes_hide_columns_of_their_name() -> None:
    schema = Schema({"kind": DType.STRING, "at": DType.INT, "end": DType.INT, "ts": DType.STRING}, "kind", "at")
    events = [{"kind": "A", "at": 5, "end": 99, "ts": "x"}]
    for name in ("ts", "end", "begin", "at"):
        assert run(attribute(name), events, schema) == [5]


def test_dictionaries_and_chunks_are_read_as_they_are() -> None:
    words = pa.chunked_array([pa.array(["x", None]).dictionary_encode(), pa.array(["y", "x"]).dictionary_encode()])
    table = pa.table({"type": ["A"] * 4, "ts": [1, 2, 3, 4], "s": words})
    intake = Intake()
    batch = intake.push(table)
    assert intake.schema is not None
    result = evaluate(Comparison((attribute("s"), Literal("x")), ("=",)), batch, intake.schema, StringTable())
    assert result.tolist() == [1, NULL, 0, 1]
