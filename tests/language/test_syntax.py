"""The language in all its spellings: each text on the left means the query on the right."""

from __future__ import annotations

import pytest

from ensue.errors import QuerySyntaxError, Span
from ensue.language import format_query, parse, parse_query
from ensue.pattern.expressions import (
    Aggregate,
    Arithmetic,
    At,
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
from ensue.pattern.query import (
    And,
    CountWindow,
    GroupKey,
    Item,
    Or,
    Pattern,
    PatternAggregate,
    Policy,
    Quantifier,
    Query,
    Return,
    Seq,
    TimeWindow,
    Unbounded,
    Window,
)

A, B, C = Item("A", "a"), Item("B", "b"), Item("C", "c")
AX, BX = Attribute("a", "x"), Attribute("b", "x")
N = Item("N", "n", negated=True)


def kleene(low: int, high: int | None) -> Item:
    return Item("B", "b", quantifier=Quantifier(low, high))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A", Item("A", "A")),
        ("A a", A),
        ("(A a)", A),
        ("SEQ(A a)", Seq((A,))),
        ("SEQ(A a, B b)", Seq((A, B))),
        ("SEQ (A a, B b)", Seq((A, B))),
        ("seq(A a, B b)", Seq((A, B))),
        ("A a; B b", Seq((A, B))),
        ("A a;B b;C c", Seq((A, B, C))),
        ("A;B;C", Seq((Item("A", "A"), Item("B", "B"), Item("C", "C")))),
        ("<SEQ(A a, B b)>", Seq((A, B))),
        ("<A a; B b>", Seq((A, B))),
        ("AND(A a, B b)", And((A, B))),
        ("or(A a, B b)", Or((A, B))),
        ("SEQ(A a, AND(B b, C c))", Seq((A, And((B, C))))),
        ("A a; OR(B b, C c)", Seq((A, Or((B, C))))),
        ("A a; (B b; C c)", Seq((A, Seq((B, C))))),
        ("SEQ(A a, !N n, B b)", Seq((A, N, B))),
        ("SEQ(A a, ~N n, B b)", Seq((A, N, B))),
        ("SEQ(A a, NOT N n, B b)", Seq((A, N, B))),
        ("SEQ(A a, ¬N n, B b)", Seq((A, N, B))),
        ("SEQ(A a, not(N n), B b)", Seq((A, N, B))),
        ("A a; !N n; B b", Seq((A, N, B))),
        ("B+ b[]", kleene(1, None)),
        ("B+ b", kleene(1, None)),
        ("B + b [ ]", kleene(1, None)),
        ("B* b[]", kleene(0, None)),
        ("B? b", kleene(0, 1)),
        ("B{3} b[]", kleene(3, 3)),
        ("B{2,5} b[]", kleene(2, 5)),
        ("B{2,} b[]", kleene(2, None)),
        ("B { 2 , 5 } b[]", kleene(2, 5)),
        ("B+", Item("B", "B", quantifier=Quantifier(1, None))),
        ("`158324` a", Item("158324", "a")),
        ('"158324" a', Item("158324", "a")),
        ("`a``b` `c d`", Item("a`b", "c d")),
        ('"a""b" x', Item('a"b', "x")),
        ("Füße größe", Item("Füße", "größe")),
        ("日本 x", Item("日本", "x")),
        ("Like like", Item("Like", "like")),
        ("In in", Item("In", "in")),
        ("query count", Item("query", "count")),
        ("agg group", Item("agg", "group")),
        ("partition emit", Item("partition", "emit")),
        ("seq first", Item("seq", "first")),
        ("events s", Item("events", "s")),
        ("`where` `pattern`", Item("where", "pattern")),
    ],
)
def test_patterns(text: str, pattern: Pattern) -> None:
    assert parse_query(f"PATTERN {text}").pattern == pattern


def compare(*parts: Expression | str) -> Comparison:
    return Comparison(tuple(p for p in parts if not isinstance(p, str)), tuple(p for p in parts if isinstance(p, str)))


ONE, TWO = Literal(1), Literal(2)
IS_ONE, IS_TWO = compare(AX, "=", ONE), compare(BX, "=", TWO)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("a.x = 1", IS_ONE),
        ("a.x == 1", IS_ONE),
        ("a.x=1", IS_ONE),
        ("<a.x = 1>", IS_ONE),
        ("<a.x < b.x>", compare(AX, "<", BX)),
        ("<a.x > b.x>", compare(AX, ">", BX)),
        ("<a.x>b.x>", compare(AX, ">", BX)),
        ("<a.x >= b.x>", compare(AX, ">=", BX)),
        ("<a.x <> b.x>", compare(AX, "!=", BX)),
        ("a.x != b.x", compare(AX, "!=", BX)),
        ("a.x ≠ b.x", compare(AX, "!=", BX)),
        ("a.x ≤ b.x", compare(AX, "<=", BX)),
        ("a.x ≥ b.x", compare(AX, ">=", BX)),
        ("a.x < b.x <= 2", compare(AX, "<", BX, "<=", TWO)),
        ("a.x = 1 AND b.x = 2", Logical("AND", (IS_ONE, IS_TWO))),
        ("a.x = 1 ∧ b.x = 2", Logical("AND", (IS_ONE, IS_TWO))),
        ("a.x = 1 or b.x = 2", Logical("OR", (IS_ONE, IS_TWO))),
        ("a.x = 1 ∨ b.x = 2", Logical("OR", (IS_ONE, IS_TWO))),
        ("NOT a.x = 1", Not(IS_ONE)),
        ("¬(a.x = 1)", Not(IS_ONE)),
        ("!a.x = 1", Not(IS_ONE)),
        ("a.x = 1 OR b.x = 2 AND a.x = 1", Logical("OR", (IS_ONE, Logical("AND", (IS_TWO, IS_ONE))))),
        ("(a.x = 1 OR b.x = 2) AND a.x = 1", Logical("AND", (Logical("OR", (IS_ONE, IS_TWO)), IS_ONE))),
        ("a.x = 1 AND b.x = 2 AND a.x = 1", Logical("AND", (IS_ONE, IS_TWO, IS_ONE))),
        ("(a.x = 1 AND b.x = 2) AND a.x = 1", Logical("AND", (Logical("AND", (IS_ONE, IS_TWO)), IS_ONE))),
        ("a.x IN (1, 'it''s', NULL)", InList(AX, (ONE, Literal("it's"), Literal(None)))),
        ("a.x NOT IN (1)", InList(AX, (ONE,), True)),
        ("a.x BETWEEN 1 AND 2 AND b.x = 2", Logical("AND", (Between(AX, ONE, TWO), IS_TWO))),
        ("a.x not between 1 and 2", Between(AX, ONE, TWO, True)),
        ("a.x LIKE 'a%'", Like(AX, "a%")),
        ("a.x NOT LIKE 'a%'", Like(AX, "a%", True)),
        ("a.x IS NULL", IsNull(AX)),
        ("a.x IS NOT NULL", IsNull(AX, True)),
        ("a.x", AX),
        ("TRUE", Literal(True)),
        ("false", Literal(False)),
        ("a.type = a.count", compare(Attribute("a", "type"), "=", Attribute("a", "count"))),
        ("a.end = a.begin", compare(Attribute("a", "end"), "=", Attribute("a", "begin"))),
        ("a.name = a.query", compare(Attribute("a", "name"), "=", Attribute("a", "query"))),
        ("a.first = a.events", compare(Attribute("a", "first"), "=", Attribute("a", "events"))),
        ("a.where = a.within", compare(Attribute("a", "where"), "=", Attribute("a", "within"))),
        ('a.`unit price` = b."x"', compare(Attribute("a", "unit price"), "=", BX)),
        ("count.x = in.x", compare(Attribute("count", "x"), "=", Attribute("in", "x"))),
        ("b[i].x > b[i-1].x", compare(Attribute("b", "x", At.CURRENT), ">", Attribute("b", "x", At.PREVIOUS))),
        ("b[i].x > b[ i - 1 ].x", compare(Attribute("b", "x", At.CURRENT), ">", Attribute("b", "x", At.PREVIOUS))),
        ("b[].x = 1", compare(BX, "=", ONE)),
        ("FIRST(b).x = LAST(b).x", compare(Attribute("b", "x", At.FIRST), "=", Attribute("b", "x", At.LAST))),
        ("first(b.x) = 1", compare(Attribute("b", "x", At.FIRST), "=", ONE)),
        ("COUNT(b) = 1", compare(Aggregate("COUNT", "b"), "=", ONE)),
        ("count(b.x) = 1", compare(Aggregate("COUNT", "b", "x"), "=", ONE)),
        ("Sum(b.x) = Avg(b.x)", compare(Aggregate("SUM", "b", "x"), "=", Aggregate("AVG", "b", "x"))),
        ("MIN(b.x) = MAX(b.x)", compare(Aggregate("MIN", "b", "x"), "=", Aggregate("MAX", "b", "x"))),
        ("ABS(a.x) = 1", compare(Call("abs", (AX,)), "=", ONE)),
        ("round(a.x, 2) = 1", compare(Call("round", (AX, TWO)), "=", ONE)),
        ("coalesce(a.x, b.x, 1) = 1", compare(Call("coalesce", (AX, BX, ONE)), "=", ONE)),
        ("a.x > -1.5e3", compare(AX, ">", Literal(-1500.0))),
        ("a.x > .5", compare(AX, ">", Literal(0.5))),
        ("a.x > 1E-2", compare(AX, ">", Literal(0.01))),
        ("a.x > - 1", compare(AX, ">", Literal(-1))),
        ("a.x > -(1)", compare(AX, ">", Negate(ONE))),
        ("a.x > -b.x", compare(AX, ">", Negate(BX))),
        ("a.x -1 = 1", compare(Arithmetic("-", AX, ONE), "=", ONE)),
        (
            "a.x + 1 * 2 - b.x = 1",
            compare(Arithmetic("-", Arithmetic("+", AX, Arithmetic("*", ONE, TWO)), BX), "=", ONE),
        ),
        ("a.x / 2 % 2 = 1", compare(Arithmetic("%", Arithmetic("/", AX, TWO), TWO), "=", ONE)),
        ("b.ts - a.ts < 5s", None),
        ("b.ts - a.ts < 5 seconds", None),
        ("b.ts - a.ts < 5 SEC", None),
    ],
)
def test_conditions(text: str, condition: Expression | None) -> None:
    if condition is None:
        condition = compare(Arithmetic("-", Attribute("b", "ts"), Attribute("a", "ts")), "<", Literal(Duration(5, "s")))
    for form in (f"PATTERN A a WHERE {text}", f"PATTERN A a [WHERE {text}] [WITHIN 10s]"):
        assert parse_query(form).where == condition
    assert parse_query(f"PATTERN A a WHERE {text} WITHIN <10s>;").where == condition


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10", TimeWindow(Duration(10))),
        ("10s", TimeWindow(Duration(10, "s"))),
        ("10 s", TimeWindow(Duration(10, "s"))),
        ("<10s>", TimeWindow(Duration(10, "s"))),
        ("10 Seconds", TimeWindow(Duration(10, "s"))),
        ("10sec", TimeWindow(Duration(10, "s"))),
        ("1.5h", TimeWindow(Duration(1.5, "h"))),
        ("1hour", TimeWindow(Duration(1, "h"))),
        ("10 minutes.", TimeWindow(Duration(10, "m"))),
        ("10 min", TimeWindow(Duration(10, "m"))),
        ("5ms", TimeWindow(Duration(5, "ms"))),
        ("5us", TimeWindow(Duration(5, "us"))),
        ("2 days", TimeWindow(Duration(2, "d"))),
        ("1 week", TimeWindow(Duration(1, "w"))),
        ("-1s", TimeWindow(Duration(-1, "s"))),
        ("2000 events", CountWindow(2000)),
        ("<1 EVENT>", CountWindow(1)),
        ("unbounded", Unbounded()),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert parse_query(f"PATTERN A a WITHIN {text}").within == window


def test_all_clauses_in_any_order() -> None:
    expected = Query(
        Seq((A, B)),
        where=compare(AX, "<", BX),
        partition_by=("k", "type"),
        within=TimeWindow(Duration(10, "m")),
        policy=Policy.STRICT,
        returns=(Return(AX), Return(BX, "end of b"), Return(Arithmetic("+", AX, ONE), "total")),
        name="q",
    )
    text = "QUERY q PATTERN SEQ(A a, B b) "
    clauses = [
        "WHERE <a.x < b.x>",
        "PARTITION BY k, type",
        "WITHIN 10 minutes",
        "USING strict",
        "RETURN a.x, b.x AS `end of b`, a.x + 1 AS total",
    ]
    assert parse_query(text + " ".join(clauses)) == expected
    assert parse_query(text + " ".join(reversed(clauses))) == expected
    assert parse_query(text + " ".join(f"[{clause}]" for clause in clauses)) == expected
    assert parse_query((text + " ".join(clauses)).lower().replace("a a, b b", "A a, B b")) == expected


def test_aggregates() -> None:
    query = parse_query(
        "PATTERN SEQ(A a, B b) AGG COUNT(*) AS n, SUM(b.x), min(a.x) AS low GROUP BY k, a.v EMIT ON CHANGE"
    )
    assert query.aggregates == (
        PatternAggregate("COUNT", alias="n"),
        PatternAggregate("SUM", "b", "x"),
        PatternAggregate("MIN", "a", "x", "low"),
    )
    assert query.group_by == (GroupKey("k"), GroupKey("v", "a"))
    assert query.emit_on_change


def test_aggregates_as_the_papers_print_them() -> None:
    query = parse_query(
        """PATTERN <SEQ(TypeUsername, TypePassword, ClickSubmit)>
           WHERE <TypePassword.value!=TypeUsername.Password>
           GROUP BY <IP>
           [AGG COUNT] [WITHIN 10s]"""
    )
    assert query.aggregates == (PatternAggregate("COUNT"),)
    assert query.group_by == (GroupKey("IP"),)
    assert query.within == TimeWindow(Duration(10, "s"))


def test_comments_and_blanks() -> None:
    text = "-- first\nPATTERN /* a; b\n WHERE */ A a -- PATTERN\r\n WHERE a.x = 1 -- '\n"
    assert parse_query(text) == parse_query("PATTERN A a WHERE a.x = 1")


def test_several_queries() -> None:
    text = "QUERY one PATTERN A a; B b WITHIN 5s;; PATTERN SEQ(A a); QUERY `2` PATTERN A; B;"
    queries = parse(text)
    assert [query.name for query in queries] == ["one", None, "2"]
    assert [len(query.items) for query in queries] == [2, 1, 2]
    assert all(query.source == text for query in queries)
    assert parse("") == parse(" -- nothing\n;") == ()


def test_spans_point_into_the_text() -> None:
    text = "PATTERN A a;\nPATTERN SEQ(B b, NOT C c) WHERE (b.x + 1) * 2 < 3 PARTITION BY k, l RETURN b.x AS y"
    query = parse(text)[1]

    def shown(span: Span | None) -> str:
        assert span is not None
        return text[span.start : span.end]

    assert shown(query.pattern.span) == "SEQ(B b, NOT C c)"
    assert [shown(item.span) for item in query.items] == ["B b", "NOT C c"]
    assert query.where is not None
    assert shown(query.where.span) == "(b.x + 1) * 2 < 3"
    assert [shown(span) for span in query.partition_spans] == ["k", "l"]
    assert shown(query.returns[0].span) == "b.x AS y"


def test_an_unknown_number_of_queries_is_refused_by_parse_query() -> None:
    with pytest.raises(QuerySyntaxError, match="no query"):
        parse_query("-- only this")
    with pytest.raises(QuerySyntaxError, match="found 2"):
        parse_query("PATTERN A; PATTERN B")


def test_str_of_a_query_is_its_text() -> None:
    query = parse_query("pattern seq(A a,B+ b[]) where a.x<b.x within 10 seconds")
    assert str(query) == format_query(query) == "PATTERN SEQ(A a, B+ b[])\nWHERE a.x < b.x\nWITHIN 10s"


def test_long_clauses_are_spread_over_lines() -> None:
    names = [f"variable_number_{k}" for k in range(8)]
    text = "PATTERN SEQ(" + ", ".join(f"SomeType {n}" for n in names) + ") WHERE "
    text += " AND ".join(f"{n}.price > 10" for n in names)
    query = parse_query(text)
    lines = str(query).split("\n")
    assert len(lines) == 2 + 8 + 8
    assert max(map(len, lines)) < 60
    assert parse_query(str(query)) == query
