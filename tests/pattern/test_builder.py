"""The fluent API builds the values that the language reads."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import date, datetime, timedelta

import pytest

from ensue.errors import QueryError, QuerySyntaxError, QueryTypeError
from ensue.language import parse_query
from ensue.pattern.builder import (
    Event,
    PatternQuery,
    Value,
    abs_,
    and_,
    avg,
    ceil,
    coalesce,
    col,
    count,
    event,
    first,
    floor,
    last,
    length,
    lit,
    lower,
    max_,
    min_,
    not_,
    or_,
    pattern,
    round_,
    seq,
    sum_,
    upper,
)
from ensue.pattern.expressions import Duration
from ensue.pattern.query import Policy

A, B, C = event("A").alias("a"), event("B").alias("b"), event("C").alias("c")
AX, BX = col("a.x"), col("b.x")
AB = seq(A, B)

QUERIES: list[tuple[PatternQuery, str]] = [
    (pattern(A), "PATTERN A a"),
    (pattern("A"), "PATTERN A"),
    (seq(A), "PATTERN SEQ(A a)"),
    (seq("A", "B"), "PATTERN A; B"),
    (seq(A, and_(B, C)), "PATTERN SEQ(A a, AND(B b, C c))"),
    (seq(A, or_(B, seq(C, "D"))), "PATTERN SEQ(A a, OR(B b, SEQ(C c, D)))"),
    (seq(A, not_(event("N").alias("n")), B), "PATTERN SEQ(A a, NOT N n, B b)"),
    (seq(A, not_("N"), B), "PATTERN SEQ(A a, NOT N, B b)"),
    (pattern(B.one_or_more()), "PATTERN B+ b[]"),
    (pattern(B.zero_or_more()), "PATTERN B* b[]"),
    (pattern(B.optional()), "PATTERN B? b[]"),
    (pattern(B.times(3)), "PATTERN B{3} b[]"),
    (pattern(B.times(2, 5)), "PATTERN B{2,5} b[]"),
    (pattern(B.at_least(2)), "PATTERN B{2,} b[]"),
    (pattern(event("B").one_or_more().alias("b")), "PATTERN B+ b[]"),
    (AB.where(BX > 1), "PATTERN SEQ(A a, B b) WHERE b.x > 1"),
    (AB.where(AX == 1, BX == 2).where(BX < 3), "PATTERN SEQ(A a, B b) WHERE a.x = 1 AND b.x = 2 AND b.x < 3"),
    (AB.where().where(AX == 1), "PATTERN SEQ(A a, B b) WHERE a.x = 1"),
    (AB.within("10m"), "PATTERN SEQ(A a, B b) WITHIN 10m"),
    (AB.within("10 minutes"), "PATTERN SEQ(A a, B b) WITHIN 10m"),
    (AB.within("1.5 H"), "PATTERN SEQ(A a, B b) WITHIN 1.5h"),
    (AB.within(10), "PATTERN SEQ(A a, B b) WITHIN 10"),
    (AB.within("10"), "PATTERN SEQ(A a, B b) WITHIN 10"),
    (AB.within(timedelta(minutes=10)), "PATTERN SEQ(A a, B b) WITHIN 10m"),
    (AB.within(timedelta(milliseconds=1500)), "PATTERN SEQ(A a, B b) WITHIN 1500ms"),
    (AB.within(Duration(3, "d")), "PATTERN SEQ(A a, B b) WITHIN 3d"),
    (AB.within(events=5), "PATTERN SEQ(A a, B b) WITHIN 5 EVENTS"),
    (AB.within("5 events"), "PATTERN SEQ(A a, B b) WITHIN 5 EVENTS"),
    (AB.within("unbounded"), "PATTERN SEQ(A a, B b) WITHIN UNBOUNDED"),
    (AB.partition_by("k", "odd name"), "PATTERN SEQ(A a, B b) PARTITION BY k, `odd name`"),
    (AB.using("next"), "PATTERN SEQ(A a, B b) USING NEXT"),
    (AB.using(Policy.STRICT), "PATTERN SEQ(A a, B b) USING STRICT"),
    (AB.returns(AX, "b.x", total=AX + BX), "PATTERN SEQ(A a, B b) RETURN a.x, b.x, a.x + b.x AS total"),
    (AB.returns(lit("b.x"), one=1), "PATTERN SEQ(A a, B b) RETURN 'b.x', 1 AS one"),
    (AB.named("q"), "QUERY q PATTERN SEQ(A a, B b)"),
    (
        AB.agg(count(), avg("b.x"), n=count(), low=min_("a.x"), k=count("a.x")).group_by("k", "a.v").emit_on_change(),
        "PATTERN SEQ(A a, B b) AGG COUNT(*), AVG(b.x), COUNT(*) AS n, MIN(a.x) AS low, COUNT(a.x) AS k "
        "GROUP BY k, a.v EMIT ON CHANGE",
    ),
]


@pytest.mark.parametrize(("built", "text"), QUERIES, ids=[text for _, text in QUERIES])
def test_queries(built: PatternQuery, text: str) -> None:
    assert built.query == parse_query(text)


CONDITIONS: list[tuple[Value, str]] = [
    (AX == BX, "a.x = b.x"),
    (AX != None, "a.x != NULL"),  # noqa: E711
    (AX < 1, "a.x < 1"),
    (AX <= 1.5, "a.x <= 1.5"),
    (AX > "it's", "a.x > 'it''s'"),
    (AX >= True, "a.x >= TRUE"),
    (1 < AX, "a.x > 1"),  # noqa: SIM300
    (AX + 1 == BX - 2, "a.x + 1 = b.x - 2"),
    (1 + AX == 2 - BX, "1 + a.x = 2 - b.x"),
    (2 * AX / 3 == 4 % BX, "2 * a.x / 3 = 4 % b.x"),
    (2 / AX == AX % 2, "2 / a.x = a.x % 2"),
    (AX * (BX + 1) == -AX, "a.x * (b.x + 1) = -a.x"),
    ((AX < 1) & (BX < 2) & (AX > 0), "a.x < 1 AND b.x < 2 AND a.x > 0"),
    ((AX < 1) | (BX < 2) & (AX > 0), "a.x < 1 OR b.x < 2 AND a.x > 0"),
    (((AX < 1) | (BX < 2)) & (AX > 0), "(a.x < 1 OR b.x < 2) AND a.x > 0"),
    (True & (AX < 1), "TRUE AND a.x < 1"),
    (False | (AX < 1), "FALSE OR a.x < 1"),
    (~(AX < 1), "NOT a.x < 1"),
    (AX.isin(1, 2), "a.x IN (1, 2)"),
    (AX.isin([1, "b"]), "a.x IN (1, 'b')"),
    (AX.isin("abc"), "a.x IN ('abc')"),
    (~AX.isin(1), "a.x NOT IN (1)"),
    (AX.between(1, BX), "a.x BETWEEN 1 AND b.x"),
    (~AX.between(1, 2), "a.x NOT BETWEEN 1 AND 2"),
    (AX.like("a%"), "a.x LIKE 'a%'"),
    (~AX.like("a%"), "a.x NOT LIKE 'a%'"),
    (AX.is_null(), "a.x IS NULL"),
    (AX.is_not_null(), "a.x IS NOT NULL"),
    (~AX.is_not_null(), "NOT a.x IS NOT NULL"),
    (col("b[i].x") > col("b[i-1].x"), "b[i].x > b[i-1].x"),
    (col("b[ i - 1 ].x") > 1, "b[i-1].x > 1"),
    (col("a", "odd.name") == 1, "a.`odd.name` = 1"),
    (first("b.x") == last("b.x"), "FIRST(b).x = LAST(b).x"),
    (count("b") > count("b.x"), "COUNT(b) > COUNT(b.x)"),
    (sum_("b.x") > avg("b.x"), "SUM(b.x) > AVG(b.x)"),
    (min_("b.x") < max_("b.x"), "MIN(b.x) < MAX(b.x)"),
    (abs_(AX) == round_(BX), "abs(a.x) = round(b.x)"),
    (round_(AX, 2) == floor(ceil(BX)), "round(a.x, 2) = floor(ceil(b.x))"),
    (lower(AX) == upper("x"), "lower(a.x) = upper('x')"),
    (coalesce(AX, BX, 0) == length(AX), "coalesce(a.x, b.x, 0) = length(a.x)"),
    (col("b.ts") - col("a.ts") < timedelta(seconds=5), "b.ts - a.ts < 5s"),
    (col("a.ts") > datetime(2024, 5, 1, 12), "a.ts > '2024-05-01T12:00:00'"),
    (col("a.ts") > date(2024, 5, 1), "a.ts > '2024-05-01'"),
]


@pytest.mark.parametrize(("built", "text"), CONDITIONS, ids=[text for _, text in CONDITIONS])
def test_conditions(built: Value, text: str) -> None:
    assert built.expression == parse_query(f"PATTERN A a WHERE {text}").where
    assert str(built) == text


def test_how_values_show_themselves() -> None:
    query = seq(A, B.one_or_more()).where(AX < BX).within("10s")
    text = "PATTERN SEQ(A a, B+ b[])\nWHERE a.x < b.x\nWITHIN 10s"
    assert str(query) == str(query.query) == text
    assert repr(query) == "PatternQuery(\n  PATTERN SEQ(A a, B+ b[])\n  WHERE a.x < b.x\n  WITHIN 10s\n)"
    assert "a.x &lt; b.x" in query._repr_html_()
    assert repr(B.one_or_more()) == "Event(B+ b[])"
    assert repr(AX + 1) == "Value(a.x + 1)"


def test_values_do_not_change() -> None:
    AB.where(AX > 1).within(5)
    assert AB.query == parse_query("PATTERN SEQ(A a, B b)")
    with pytest.raises(FrozenInstanceError):
        AB.query = parse_query("PATTERN A")  # type: ignore[misc]
    A.one_or_more()
    assert event("A").alias("a") == A == Event(A.item)


def test_a_condition_is_not_a_truth_value() -> None:
    with pytest.raises(QueryTypeError, match="no truth value"):
        bool(AX < 1)
    with pytest.raises(QueryTypeError, match="no truth value"):
        _ = 0 < AX < 1
    with pytest.raises(QueryTypeError, match="no truth value"):
        _ = (AX < 1) and (BX < 2)
    with pytest.raises(TypeError):
        hash(AX)


def test_misuse() -> None:
    misuses = [
        lambda: seq(),
        lambda: seq(A, AB.within(5)),
        lambda: seq(A, 5),  # type: ignore[arg-type]
        lambda: AB.within(),
        lambda: AB.within(5, events=5),
        lambda: AB.within("5 parsecs"),
        lambda: AB.within("soon"),
        lambda: AB.using("nxt"),
        lambda: AB.agg(AX),
        lambda: AB.agg(count("b")),
        lambda: AX.isin(),
        lambda: AX == [1],  # type: ignore[comparison-overlap]
        lambda: col("a"),
        lambda: col(".x"),
        lambda: col("b[2].x"),
        lambda: first("b"),
    ]
    for misuse in misuses:
        with pytest.raises(QueryError):
            misuse()
    with pytest.raises(QueryTypeError) as caught:
        AB.using("nxt")
    assert caught.value.hint == "did you mean `next`?"
    with pytest.raises(QuerySyntaxError) as caught_unit:
        AB.within("5 secnds")
    assert caught_unit.value.hint == "did you mean `seconds`?"
