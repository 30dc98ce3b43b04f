"""The condition that Spark filters by: it lets through all that can matter, and really takes away the rest."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.expressions import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from ensue.pattern.format import format_expression
from ensue.planning.conditions import EVENT
from ensue.planning.relevance import Alternatives, relevant_events
from ensue.spark.pushdown import MOST_ALTERNATIVES, can_be, relevance_filter
from ensue.testing.evaluation import Scope, evaluate
from ensue.testing.values import read_event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: dict[str, tuple[st.DataType, DType]] = {
    "type": (st.StringType(), DType.STRING),
    "ts": (st.LongType(), DType.INT),
    "tiny": (st.ByteType(), DType.INT),
    "small": (st.ShortType(), DType.INT),
    "plain": (st.IntegerType(), DType.INT),
    "long": (st.LongType(), DType.INT),
    "half": (st.FloatType(), DType.FLOAT),
    "full": (st.DoubleType(), DType.FLOAT),
    "text": (st.StringType(), DType.STRING),
    "flag": (st.BooleanType(), DType.BOOL),
}
SCHEMA = Schema({name: dtype for name, (_, dtype) in COLUMNS.items()})
FIELDS = st.StructType([st.StructField(name, kind) for name, (kind, _) in COLUMNS.items()])
ATTRIBUTES = {name: kind for name, (kind, _) in COLUMNS.items() if name != "ts"}

LARGEST = 2**63 - 1
INTS = (0, 1, -1, 2, 3)
FLOATS = (0.0, -0.0, 1.0, 1.5, -1.5, 0.1, math.inf, -math.inf, math.nan)
TEXTS = ("", "a", "ab", "aB", "b", "%", "_", "\\", "a\nb", "é", "\uffee", "\U0001f600", "a\U0001f600b", "a ")
VALUES: dict[str, Sequence[Any]] = {
    "type": ("A", "B"),
    "tiny": (*INTS, 127, -128),
    "small": (*INTS, 32767, -32768),
    "plain": (*INTS, 2**31 - 1, -(2**31)),
    "long": (*INTS, 2**53, 2**53 + 1, LARGEST, LARGEST - 1, -LARGEST),
    "half": [struct.unpack("f", struct.pack("f", value))[0] for value in FLOATS],
    "full": (*FLOATS, 2.0**53, 2.0**63, 1e308),
    "text": TEXTS,
    "flag": (True, False),
}


def random_rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        row = {name: None if rng.random() < 0.15 else rng.choice(values) for name, values in VALUES.items()}
        rows.append(row | {"ts": number, "type": rng.choice("AB")})
    return rows


# -- random conditions -------------------------------------------------------------------------------------------------

NUMBERS = ("tiny", "small", "plain", "long", "half", "full")
CONSTANTS: tuple[Any, ...] = (*INTS, 1.5, 0.1, -0.0, 0.0, 1000, math.inf, math.nan, LARGEST, 2.0**63, None)
CONSTANTS += (2**53, 2**53 + 1, 2.0**53)
ORDER = ("=", "!=", "<", "<=", ">", ">=")
PATTERNS = ("", "%", "_", "a%", "%b", "a_", "_%b", r"\%", r"\_", "\\", r"\\", r"\a%", "a%b", "A%", "é%", "\U0001f600%")


def attribute(name: str) -> Attribute:
    return Attribute(EVENT, name)


def constant(rng: random.Random, values: Sequence[Any]) -> Expression:
    value = rng.choice(values)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Negate(Literal(value)) if is_number and rng.random() < 0.2 else Literal(value)


def random_atom(rng: random.Random) -> Expression:
    name = rng.choice((*NUMBERS, *NUMBERS, "text", "text", "flag"))
    values = CONSTANTS if name in NUMBERS else (*VALUES[name], None)
    one, negated = attribute(name), rng.random() < 0.4
    kind = rng.randrange(9)
    if name == "flag":
        return rng.choice((one, Comparison((one, constant(rng, values)), (rng.choice("="),)), IsNull(one, negated)))
    if kind == 0:
        return IsNull(one, negated)
    if kind == 1:
        return Between(one, constant(rng, values), constant(rng, values), negated)
    if kind == 2:
        return InList(one, tuple(constant(rng, values) for _ in range(rng.randint(1, 14))), negated)
    if kind == 3 and name == "text":
        return Like(one, rng.choice(PATTERNS), negated)
    if kind == 4 and name in NUMBERS:  # what Spark is not asked
        other = attribute(rng.choice(NUMBERS))
        strange = rng.choice((Arithmetic("/", one, other), Call("abs", (one,)), other))
        return Comparison((strange, constant(rng, values)), (rng.choice(ORDER),))
    if kind == 5:
        return Comparison((constant(rng, values), one, constant(rng, values)), (rng.choice(ORDER), rng.choice(ORDER)))
    sides = (one, constant(rng, values))
    return Comparison(sides if rng.random() < 0.6 else sides[::-1], (rng.choice(ORDER),))


def random_condition(rng: random.Random, depth: int = 2) -> Expression:
    if depth == 0 or rng.random() < 0.4:
        return random_atom(rng)
    if rng.random() < 0.25:
        return Not(random_condition(rng, depth - 1))
    parts = tuple(random_condition(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    return Logical(rng.choice(("AND", "OR")), parts)


def truth(condition: Expression, rows: Sequence[dict[str, Any]]) -> list[bool | None]:
    """What a condition is for each row, by the oracle's evaluator."""
    return [evaluate(condition, Scope(SCHEMA, {EVENT: read_event(0, row, SCHEMA)})) for row in rows]  # type: ignore[misc]


# -- what can be true passes -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return random_rows(random.Random(11), 300)


@pytest.fixture(scope="module")
def stored(spark: SparkSession, rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """The rows in a Parquet file: Spark compiles its expressions for it, and the file's reader filters too."""
    path = str(tmp_path_factory.mktemp("pushdown") / "rows")
    data = [tuple(row[name] for name in COLUMNS) for row in rows]
    spark.createDataFrame(data, FIELDS).coalesce(1).write.option("parquet.block.size", 1024).parquet(path)
    return spark.read.parquet(path)


def select(frame: DataFrame, columns: Sequence[Any], at_once: int = 20) -> Iterator[list[bool]]:
    """For each condition, whether it is true, row by row in the order of `ts`."""
    for start in range(0, len(columns), at_once):
        part = columns[start : start + at_once]
        named = [sf.coalesce(column, sf.lit(False)).alias(f"c{k}") for k, column in enumerate(part)]
        found = sorted(frame.select("ts", *named).collect(), key=lambda row: row.ts)
        for k in range(len(part)):
            yield [row[k + 1] for row in found]


def test_whatever_a_condition_can_be_passes(stored: DataFrame, rows: list[dict[str, Any]]) -> None:
    rng = random.Random(5)
    asked = [(random_condition(rng), wanted) for _ in range(150) for wanted in (True, False)]
    known = [(c, wanted, found) for c, wanted in asked if (found := can_be(c, wanted, ATTRIBUTES)) is not None]
    assert len(known) > 200
    exact = 0
    for (condition, wanted, _), passes in zip(known, select(stored, [found for _, _, found in known]), strict=True):
        values = truth(condition, rows)
        for row, value, passed in zip(rows, values, passes, strict=True):
            assert passed or value is not wanted, f"{format_expression(condition)} is {value} for {row}"
        exact += [value is wanted for value in values] == passes
    assert exact > len(known) / 2  # the rest is arithmetic and NaN


def test_atoms_are_exact(stored: DataFrame, rows: list[dict[str, Any]]) -> None:
    rng = random.Random(6)
    atoms = [random_atom(rng) for _ in range(200)]
    known = [(atom, found) for atom in atoms if (found := can_be(atom, True, ATTRIBUTES)) is not None]
    for (atom, _), passes in zip(known, select(stored, [found for _, found in known]), strict=True):
        for row, value, passed in zip(rows, truth(atom, rows), passes, strict=True):
            if not any(isinstance(v, float) and math.isnan(v) for v in row.values()):
                assert passed is (value is True), f"{format_expression(atom)} is {value} for {row}"


def test_filters_of_whole_files(stored: DataFrame, rows: list[dict[str, Any]]) -> None:
    rng = random.Random(7)
    removed = 0
    for _ in range(20):
        ways: Alternatives = tuple(
            tuple(random_condition(rng, 1) for _ in range(rng.randint(1, 2))) for _ in range(rng.randint(1, 2))
        )
        passed = passing(stored, {"A": ways})
        for row in rows:
            can = row["type"] == "A" and any(all(truth(c, [row])[0] is True for c in way) for way in ways)
            assert not can or row["ts"] in passed, f"{ways} for {row}"
        removed += len(rows) - len(passed)
    assert removed > 20 * len(rows) / 2


def passing(frame: DataFrame, alternatives: dict[str, Alternatives] | None, **roles: Any) -> set[Any]:
    """The times of the rows that pass."""
    condition = relevance_filter(frame, alternatives, **roles)
    assert condition is not None
    return {row[0] for row in frame.where(condition).select(roles.get("ts", "ts")).collect()}


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_both_zeros_are_one_to_the_readers_of_files(spark: SparkSession, tmp_path: Path, form: str) -> None:
    path = str(tmp_path / "zeros")
    for number, zero in enumerate((0.0, -0.0)):  # a file each, which a reader can leave out by what it says of itself
        frame = spark.createDataFrame([("A", number, zero)] * 50, "type string, ts long, full double")
        frame.coalesce(1).write.format(form).mode("append").save(path)
    stored = spark.read.format(form).load(path)
    for zero in (0.0, -0.0, 0):
        for operator in ORDER:
            condition: Expression = Comparison((attribute("full"), Literal(zero)), (operator,))
            expected = {0, 1} if operator in ("=", "<=", ">=") else set()
            assert passing(stored, {"A": ((condition,),)}) == expected, operator
        condition = InList(attribute("full"), (Literal(zero), Literal(7)))
        assert passing(stored, {"A": ((condition,),)}) == {0, 1}


# -- what cannot matter is taken away ----------------------------------------------------------------------------------


def alternatives_of(*texts: str) -> dict[str, Alternatives] | None:
    return relevant_events([parse_query(text) for text in texts])


def test_rows_of_other_types_and_values_go(spark: SparkSession) -> None:
    data = [("A", 1, 5.0), ("A", 2, 0.5), ("B", 3, 0.0), ("C", 4, 9.0), (None, 5, 0.0), ("C", None, 0.0)]
    frame = spark.createDataFrame(data, "type string, ts long, x double")
    found = alternatives_of("PATTERN SEQ(A a, B b) WHERE a.x > 1 AND a.x < b.x")
    assert passing(frame, found) == {1, 3, 5, None}
    found = alternatives_of("PATTERN SEQ(A a, B b) WHERE a.x > 1", "PATTERN A a WHERE a.x < 1")
    assert passing(frame, found) == {1, 2, 3, 5, None}
    found = alternatives_of("PATTERN SEQ(A a, B b) WHERE a.x * 2 > 5 OR a.x = 7")  # arithmetic is not Spark's
    assert passing(frame, found) == {1, 2, 3, 5, None}
    assert passing(frame, {}) == {5, None}


def test_all_rows_go_on_where_all_count(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1)], "type string, ts long")
    assert relevance_filter(frame, alternatives_of("PATTERN SEQ(A a, B b) USING STRICT")) is None
    everything = {"A": ((),)}
    of_floats = st.StructType.fromDDL("type string, ts double, kind double")
    assert relevance_filter(of_floats, everything) is None
    assert relevance_filter(st.StructType.fromDDL("type double, ts long"), everything) is None
    mixed = st.StructType.fromDDL("type string, ts timestamp, since timestamp_ntz")
    assert relevance_filter(mixed, everything, begin="since") is None


def test_a_type_with_very_many_alternatives_goes_on_whole(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1, -1), ("B", 2, -1)], "type string, ts long, x int")
    ways = tuple((Comparison((attribute("x"), Literal(k)), ("=",)),) for k in range(MOST_ALTERNATIVES + 1))
    assert passing(frame, {"A": ways}) == {1}
    assert passing(frame, {"A": ways[1:]}) == set()


def test_long_lists(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1, 5.0, 5), ("A", 2, 0.5, -5)], "type string, ts long, x double, k int")
    items = tuple(Literal(k) for k in range(2000))
    for name in "xk":
        assert passing(frame, {"A": ((InList(attribute(name), items),),)}) == {1}


def test_integers_are_types_by_their_text(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(7, 1, 1), (7, 2, 9), (8, 3, 1), (None, 4, 1), (-3, 5, 1)], "kind int, at long, x int"
    )
    found = alternatives_of(
        "PATTERN SEQ(`7` a, `-3` b) WHERE a.x > 5", "PATTERN SEQ(`08` a, `8.0` b, A c, `99999999999999999999` d)"
    )
    assert passing(frame, found, type="kind", ts="at") == {2, 4, 5}


def test_names_of_any_characters(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("A", 1, 1), ("A", 2, 9)], "`the type` string, `a.b` long, `c``d` int")
    ways = ((Comparison((attribute("c`d"), Literal(5)), (">",)),),)
    condition = relevance_filter(frame, {"A": ways}, "the type", "a.b")
    assert condition is not None
    assert [row[1] for row in frame.where(condition).collect()] == [2]


def test_times_are_not_columns(spark: SparkSession) -> None:
    """`v.begin` and `v.end` are the event's, whatever columns are called so; the time column is left to the engine."""
    frame = spark.createDataFrame([("A", 1, 1, 2)], "type string, at long, end long, begin long")
    for name in ("ts", "end", "begin", "at"):
        condition = Comparison((attribute(name), Literal(100)), (">",))
        assert passing(frame, {"A": ((condition,),)}, ts="at") == {1}


def test_texts_of_another_collation_are_not_compared(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'A' AS type, 1L AS ts, 'x' COLLATE UTF8_LCASE AS s")
    condition = Comparison((attribute("s"), Literal("X")), ("!=",))  # not so for Spark
    assert passing(frame, {"A": ((condition,),)}) == {1}


# -- what will be rejected goes on -------------------------------------------------------------------------------------


def test_rows_that_will_be_rejected_pass(spark: SparkSession) -> None:
    least = -(2**63)
    data = [
        (0, "Z", 5, 3, 1),
        (1, None, 5, 3, 1),
        (2, "Z", None, 3, 1),
        (3, "Z", 5, None, 1),
        (4, "Z", 5, 6, 1),
        (5, "Z", 5, 3, least),
        (6, "Z", least, 3, 1),
        (7, "Z", 5, least, 1),
        (8, "Z", 5, 5, None),
    ]
    fields = "n int, type string, ts long, since long, other long"
    frame = spark.createDataFrame(data, fields)
    intake = Intake(type="type", ts="ts", begin="since")
    intake.sort_all(frame.toArrow())
    aside = intake.take_rejected()
    assert aside is not None
    rejected = set(aside["n"].to_pylist())
    assert len(rejected) == 7
    condition = relevance_filter(frame, {"A": ((),)}, begin="since")
    assert condition is not None
    assert {row.n for row in frame.where(condition).collect()} == rejected


def test_texts_that_are_no_times_pass(spark: SparkSession) -> None:
    texts = ["2024-05-01", "2024-05-01T12:30:00Z", "2024-05-01 12:30", "2024-05-01T12:30:00.123+02:00", "1999-12-28"]
    bad = [
        "",
        "x",
        "2024-13-01",
        "2024-02-30",
        "2023-02-29",
        "2024-05-01T25:00",
        "2024-05-01T12:61:00",
        "12:30",
        "0000-01-01",
    ]
    bad += ["2024-05-01T12:30:00.123+24:00", "2024-05-01T12:30:00.1234567890123", "２０２４-05-01", "2024-05-01x"]
    frame = spark.createDataFrame([("Z", text) for text in [*texts, *bad, None]], "type string, ts string")
    intake = Intake(Schema({"type": DType.STRING, "ts": DType.TIMESTAMP}))
    intake.sort_all(frame.toArrow())
    aside = intake.take_rejected()
    assert aside is not None
    rejected = set(aside["ts"].to_pylist())
    assert set(bad[:5]) < rejected
    passed = passing(frame, {"A": ((),)})
    assert rejected <= passed
    assert not passed & set(texts)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "int", "smallint"])
def test_times_of_every_kind(spark: SparkSession, kind: str) -> None:
    value = {
        "timestamp": dt.datetime(2024, 1, 2),
        "timestamp_ntz": dt.datetime(2024, 1, 2),
        "date": dt.date(2024, 1, 2),
    }
    frame = spark.createDataFrame(
        [("A", value.get(kind, 5)), ("Z", value.get(kind, 6)), ("Z", None)], f"type string, ts {kind}"
    )
    assert passing(frame, {"A": ((),)}) == {value.get(kind, 5), None}


# -- where Spark puts it -----------------------------------------------------------------------------------------------


def test_the_plan_shows_it_and_files_are_read_by_it(spark: SparkSession, stored: DataFrame) -> None:
    found = alternatives_of("PATTERN SEQ(A a, B b) WHERE a.long > 5 AND b.text IN ('x', 'y')")
    condition = relevance_filter(stored, found)
    assert condition is not None
    spark.conf.set("spark.sql.maxMetadataStringLength", 5000)
    try:
        plan = stored.where(condition)._jdf.queryExecution().toString()
    finally:
        spark.conf.unset("spark.sql.maxMetadataStringLength")
    physical = plan[plan.index("== Physical Plan ==") :]
    assert "(type#" in physical
    assert "> 5)" in physical
    pushed = physical[physical.index("PushedFilters") :]
    assert "GreaterThan(long,5)" in pushed
    assert "In(text, [x,y])" in pushed


@pytest.mark.parametrize("times", ["timestamp", "coalesce(timestamp, TIMESTAMP '2024-01-01 00:00:00')"])
def test_it_stays_after_a_watermark(spark: SparkSession, times: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where Spark knows that there are no nulls, and takes IS NULL away."""
    source = (
        spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS type", f"{times} AS ts", "value")
    )
    found = alternatives_of("PATTERN A a WHERE a.value > 5")
    condition = relevance_filter(source, found)
    assert condition is not None
    plan = optimized(source.withWatermark("ts", "1 minute").where(condition), capsys)
    assert plan.index("Filter") < plan.index("EventTimeWatermark")
    assert plan.count("Filter") == 1
    assert ("isnull(ts" in plan) is (times == "timestamp")
    alone = optimized(source.withWatermark("ts", "1 minute").where("type = 'A'"), capsys)
    assert alone.index("Filter") > alone.index("EventTimeWatermark")  # what does not speak of the time is moved


def optimized(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """The optimized plan of a stream, which cannot be asked for otherwise before it runs."""
    frame.explain("extended")
    text = capsys.readouterr().out
    return text[text.index("== Optimized Logical Plan ==") : text.index("== Physical Plan ==")]
