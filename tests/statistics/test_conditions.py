"""Which conditions of a query statistics are kept of."""

from __future__ import annotations

from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.format import format_expression
from ensue.statistics.conditions import Conditions, find_conditions


def found(text: str) -> Conditions:
    return find_conditions(parse_query(text))


def pairs(text: str) -> dict[tuple[str, str], list[str]]:
    return {pair: [format_expression(c) for c in group] for pair, group in found(text).pairs.items()}


def test_conditions_are_told_apart_by_the_events_they_speak_of() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x > 1 AND a.x < b.x < c.x AND b.y + a.y > c.y AND b.x IN (1, 2) WITHIN 5"
    assert {name: len(group) for name, group in found(text).local.items()} == {"a": 1, "b": 1}
    assert pairs(text) == {("a", "b"): ["a.x < b.x"], ("b", "c"): ["b.x < c.x"]}
    schema = Schema(dict.fromkeys(("type", "ts", "x", "y", "z"), DType.INT))
    assert found(text).columns(schema) == ("x",)


def test_absent_events_have_conditions_and_an_order_too() -> None:
    text = "PATTERN SEQ(A a, !N n, B b) WHERE n.x = a.x AND n.y > 3 WITHIN 5"
    assert pairs(text) == {("a", "n"): ["n.x = a.x"]}
    assert list(found(text).local) == ["n"]
    assert found(text).before == {("a", "n"), ("n", "b"), ("a", "b")}


def test_a_partition_is_an_equality_of_every_pair_that_can_meet() -> None:
    text = "PATTERN SEQ(A a, OR(B b, C+ c[]), !N n, D d) PARTITION BY k WITHIN 5"
    assert set(pairs(text)) == {
        ("a", "b"), ("a", "c"), ("a", "d"), ("a", "n"), ("b", "d"), ("b", "n"),
        ("c", "c"), ("c", "d"), ("c", "n"), ("d", "n"),
    }  # fmt: skip
    assert pairs(text)["a", "d"] == ["a.k = d.k"]


def test_lists() -> None:
    text = (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE b.x > 1 AND b[i].x > b[i-1].x AND FIRST(b).x > 7 AND LAST(b).x < c.x"
        " AND COUNT(b) > 2 AND SUM(b.x) < c.x AND b[i].x > b[i-1].x + a.x WITHIN 5"
    )
    assert [format_expression(c) for c in found(text).local["b"]] == ["b.x > 1"]
    assert set(pairs(text)) == {("b", "b"), ("b", "c")}
    assert ("b", "b") in found(text).before


def test_nothing_is_asked_of_a_plain_pattern() -> None:
    nothing = found("PATTERN AND(A a, B b) WITHIN 5")
    assert not nothing.local
    assert not nothing.pairs
    assert not nothing.before
