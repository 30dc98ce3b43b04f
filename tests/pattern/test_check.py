"""Queries that read well and make no sense: each with the error, the place it points at and the hint."""

from __future__ import annotations

import pytest

from ensue.errors import QueryError, QueryNameError, QueryTypeError
from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.check import check
from ensue.pattern.columns import aggregate_name, return_name
from ensue.pattern.query import Item, Or, Query, Seq

COLUMNS = {
    "type": DType.STRING,
    "ts": DType.INT,
    "x": DType.INT,
    "price": DType.FLOAT,
    "name": DType.STRING,
    "ok": DType.BOOL,
    "seen": DType.TIMESTAMP,
}
SCHEMA = Schema(COLUMNS, event_types=frozenset(("A", "B", "C", "N")))
STAMPED = Schema({**COLUMNS, "ts": DType.TIMESTAMP})

# text, the stretch that the error points at, message, hint
WRONG_ANYWHERE: list[tuple[str, str, str, str | None]] = [
    # names
    ("PATTERN SEQ(A a, B b) WHERE c.x = 1", "c.x", "unknown variable `c`", None),
    ("PATTERN B b WHERE c.x = 1", "c.x", "unknown variable `c`", "did you mean `b`?"),
    ("PATTERN SEQ(A order, B b) WHERE odrer.x = 1", "odrer.x", "unknown variable `odrer`", "did you mean `order`?"),
    ("PATTERN A a WHERE A.x = 1", "A.x", "unknown variable `A`", "did you mean `a`?"),
    ("PATTERN A+ a[] WHERE COUNT(b) > 1", "COUNT(b)", "unknown variable `b`", "did you mean `a`?"),
    (
        "PATTERN SEQ(A, B, A)",
        "A",
        "the variable `A` stands twice in the pattern",
        "give them variables, such as `A a1` and `A a2`",
    ),
    (
        "PATTERN OR(A a, B a)",
        "B a",
        "the variable `a` stands twice in the pattern",
        "each variable names one item: choose another name",
    ),
    # quantifiers and branches
    (
        "PATTERN SEQ(A a, B{0} b[])",
        "B{0} b[]",
        "`B` with at most no events can never be there",
        "an absence is written `NOT B`",
    ),
    (
        "PATTERN SEQ(A a, B{3,2} b[])",
        "B{3,2} b[]",
        "`B` can take no number of events that is at least 3 and at most 2",
        None,
    ),
    (
        "PATTERN SEQ(A a, NOT N+ n[], B b)",
        "NOT N+ n[]",
        "the negated `N` cannot have a quantifier",
        "`NOT N` says already that there is none",
    ),
    (
        "PATTERN NOT A a WITHIN 5",
        "NOT A a",
        "a branch of the pattern has no positive item",
        "an absence needs at least one event beside it",
    ),
    (
        "PATTERN SEQ(A a, OR(B b, NOT N n)) WITHIN 5",
        "NOT N n",
        "a branch of OR has no positive item",
        "an absence needs at least one event beside it, in the same branch",
    ),
    # windows
    ("PATTERN A a WITHIN 0s", "0s", "the window must be longer than zero, and finite", None),
    ("PATTERN A a WITHIN -5", "-5", "the window must be longer than zero, and finite", None),
    ("PATTERN A a WITHIN 1e999s", "1e999s", "the window must be longer than zero, and finite", None),
    ("PATTERN A a WITHIN 0 EVENTS", "0 EVENTS", "the window must hold at least one event", None),
    (
        "PATTERN SEQ(NOT N n, A a)",
        "NOT N n",
        "the absence of `N` before the other events needs a window",
        "add WITHIN and a duration: how long there is none",
    ),
    (
        "PATTERN SEQ(A a, NOT N n) WITHIN UNBOUNDED",
        "NOT N n",
        "the absence of `N` after the other events needs a window",
        "add WITHIN and a duration: how long there is none",
    ),
    (
        "PATTERN AND(A a, NOT N n)",
        "NOT N n",
        "the absence of `N` beside the other events needs a window",
        "add WITHIN and a duration: how long there is none",
    ),
    (
        "PATTERN SEQ(A a, NOT N n, B* b[])",
        "NOT N n",
        "the absence of `N` after the other events needs a window",
        "add WITHIN and a duration: how long there is none",
    ),
    # WHERE
    ("PATTERN A a WHERE 5", "5", "WHERE needs a condition, but this is an integer", "compare it with something"),
    ("PATTERN A a WHERE a.x AND 5", "5", "AND needs conditions, but this is an integer", None),
    ("PATTERN A a WHERE NOT 'x'", "'x'", "NOT needs conditions, but this is a text", None),
    (
        "PATTERN SEQ(A a, NOT N n, NOT B b, C c) WHERE n.x = b.x",
        "b.x",
        "a condition cannot name two negated variables, `n` and `b`",
        "each absence is decided by itself: write a condition for each",
    ),
    (
        "PATTERN A a WHERE COUNT(a) > 1",
        "COUNT(a)",
        "COUNT needs a list of events, and `a` is a single event",
        "write `A+ a[]` in the pattern",
    ),
    (
        "PATTERN A a WHERE FIRST(a).x > 1",
        "FIRST(a).x",
        "FIRST needs a list of events, and `a` is a single event",
        "write `a.x`, or `A+ a[]` in the pattern",
    ),
    (
        "PATTERN A a WHERE a[i].x > a[i-1].x",
        "a[i].x",
        "only a list of events has places such as `[i]`, and `a` is a single event",
        "write `a.x`, or `A+ a[]` in the pattern",
    ),
    (
        "PATTERN SEQ(A a, NOT N n, B b) WHERE COUNT(n) = 0",
        "COUNT(n)",
        "COUNT needs a list of events, and `n` is a single event",
        "an event that must be absent is named by `n.attribute` only",
    ),
    (
        "PATTERN B+ b[] WHERE b.x > b[i-1].x",
        "b.x",
        "beside `b[i-1]`, `b.x` is not clear",
        "write `b[i].x`",
    ),
    # values
    ("PATTERN A a WHERE a.x + 'y' = 1", "'y'", "`+` needs numbers, but this is a text", None),
    ("PATTERN A a WHERE a.x = -'y'", "'y'", "`-` needs a number, but this is a text", None),
    ("PATTERN A a WHERE 1 = 'y'", "1 = 'y'", "an integer cannot be compared with a text", None),
    ("PATTERN A a WHERE 1 IN (2, 'y')", "1 IN (2, 'y'", "an integer cannot be compared with a text", None),
    (
        "PATTERN A a WHERE TRUE < FALSE",
        "TRUE < FALSE",
        "truth values have no order: `<` does not go with them",
        "compare them with `=` or `!=`",
    ),
    ("PATTERN A a WHERE 5 LIKE 'x'", "5", "LIKE needs a text, but this is an integer", None),
    ("PATTERN A a WHERE lower(5) = 'x'", "5", "lower needs a text, but this is an integer", None),
    ("PATTERN A a WHERE abs('x') = 1", "'x'", "abs needs a number, but this is a text", None),
    ("PATTERN A a WHERE abs() = 1", "abs()", "abs takes one argument, found 0", None),
    ("PATTERN A a WHERE round(1, 2, 3) = 1", "round(1, 2, 3)", "round takes one or two arguments, found 3", None),
    ("PATTERN A a WHERE round(1, 0.5) = 1", "0.5", "the digits of round are an integer", None),
    (
        "PATTERN A a WHERE coalesce(1, 'x') = 1",
        "'x'",
        "coalesce needs values of one type, but this is a text after an integer",
        None,
    ),
    ("PATTERN A a WHERE a.x = 9223372036854775808", "9223372036854775808", "the integer does not fit in 64 bits", None),
    # RETURN
    (
        "PATTERN SEQ(A a, NOT N n, B b) RETURN a.x, n.x",
        "n.x",
        "RETURN cannot name `n`: the pattern says that there is no such event",
        None,
    ),
    (
        "PATTERN A a RETURN a.x AS match_id",
        "a.x AS match_id",
        "a column cannot be called `match_id`: every row has one of that name",
        "give it another name with AS",
    ),
    (
        "PATTERN A a RETURN a.x, a.y AS a_x",
        "a.y AS a_x",
        "two columns are called `a_x`",
        "give one another name with AS",
    ),
    (
        "PATTERN B+ b[] RETURN b.x + 1",
        "b.x",
        "`b.x` is a list, and stands alone in RETURN",
        "take one value of it, such as `FIRST(b).x` or `MAX(b.x)`",
    ),
    (
        "PATTERN B+ b[] RETURN b[i].x",
        "b[i].x",
        "`[i]` speaks of each pair of neighbours, in WHERE only",
        "write `b.x` for the list, or FIRST or LAST",
    ),
    # policies
    (
        "PATTERN SEQ(A a, AND(B b, C c)) USING NEXT",
        "AND(B b, C c)",
        "USING NEXT needs a sequence, and AND has no order",
        "write SEQ, or leave USING away",
    ),
    (
        "PATTERN SEQ(A* a[], B b) USING STRICT",
        "A* a[]",
        "with USING STRICT a match starts with `a`, which can be empty",
        "write `A+ a[]`, or leave USING away",
    ),
    # AGG
    (
        "PATTERN SEQ(A a, B b) AGG COUNT(*) RETURN a.x",
        "a.x",
        "AGG reports numbers about the matches, so there is nothing to RETURN",
        "leave AGG or RETURN away",
    ),
    (
        "PATTERN SEQ(A a, NOT N n) WITHIN 5 AGG COUNT(*)",
        "NOT N n",
        "matches that end with the absence of `N` cannot be aggregated: "
        "such a match is known only when its window has passed, and then it is no longer live",
        "put an event after the absence, or report the matches without AGG",
    ),
    (
        "PATTERN SEQ(A a, B b) GROUP BY x",
        "x",
        "GROUP BY needs AGG: it groups numbers about the matches",
        "add AGG, such as `AGG COUNT(*)`; to match within equal values use PARTITION BY",
    ),
    (
        "PATTERN SEQ(A a, B b) EMIT ON CHANGE",
        "EMIT ON CHANGE",
        "EMIT ON CHANGE needs AGG",
        "add AGG, such as `AGG COUNT(*)`",
    ),
    ("PATTERN A a AGG SUM(b.x)", "SUM(b.x)", "unknown variable `b`", "did you mean `a`?"),
    (
        "PATTERN SEQ(A a, NOT N n, B b) AGG SUM(n.x)",
        "SUM(n.x)",
        "SUM cannot name `n`: the pattern says that there is no such event",
        None,
    ),
    (
        "PATTERN SEQ(A a, B+ b[]) AGG SUM(b.x)",
        "SUM(b.x)",
        "SUM takes one value from each match, and `b` is a list of events",
        "name a variable that is a single event",
    ),
    (
        "PATTERN SEQ(A a, B b) AGG COUNT(*), COUNT(*)",
        "COUNT(*)",
        "two columns are called `count`",
        "give one another name with AS",
    ),
    (
        "PATTERN SEQ(A a, B b) AGG COUNT(*) AS time",
        "COUNT(*)",
        "a column cannot be called `time`: every row has one of that name",
        "give it another name with AS",
    ),
    ("PATTERN A a PARTITION BY k, k", "k", "the attribute `k` stands twice in PARTITION BY", None),
]

WRONG_BY_SCHEMA: list[tuple[str, Schema, str, str, str | None]] = [
    ("PATTERN SEQ(A a, D d)", SCHEMA, "D d", "unknown event type `D`", None),
    (
        "PATTERN SEQ(Ordr a)",
        Schema(COLUMNS, event_types=frozenset(("Order", "Ship"))),
        "Ordr a",
        "unknown event type `Ordr`",
        "did you mean `Order`?",
    ),
    ("PATTERN A a WHERE a.prize > 1", SCHEMA, "a.prize", "unknown attribute `prize`", "did you mean `price`?"),
    ("PATTERN A a RETURN a.prize", SCHEMA, "a.prize", "unknown attribute `prize`", "did you mean `price`?"),
    ("PATTERN A a PARTITION BY x, nmae", SCHEMA, "nmae", "unknown attribute `nmae`", "did you mean `name`?"),
    ("PATTERN A a AGG SUM(a.prize)", SCHEMA, "SUM(a.prize)", "unknown attribute `prize`", "did you mean `price`?"),
    ("PATTERN A a AGG COUNT(*) GROUP BY nmae", SCHEMA, "nmae", "unknown attribute `nmae`", "did you mean `name`?"),
    ("PATTERN A a AGG SUM(a.name)", SCHEMA, "SUM(a.name)", "SUM needs numbers, but this is a text", None),
    ("PATTERN A+ a[] WHERE AVG(a.ok) > 1", SCHEMA, "AVG(a.ok)", "AVG needs numbers, but this is a truth value", None),
    (
        "PATTERN A+ a[] WHERE MAX(a.ok) = TRUE",
        SCHEMA,
        "MAX(a.ok)",
        "MAX needs values that have an order; truth values have none",
        None,
    ),
    ("PATTERN A a WHERE a.name = 5", SCHEMA, "a.name = 5", "a text cannot be compared with an integer", None),
    ("PATTERN A a WHERE a.ok = 1", SCHEMA, "a.ok = 1", "a truth value cannot be compared with an integer", None),
    (
        "PATTERN A a WHERE a.x",
        SCHEMA,
        "a.x",
        "WHERE needs a condition, but this is an integer",
        "compare it with something",
    ),
    ("PATTERN A a WHERE a.seen = 5", SCHEMA, "a.seen = 5", "a timestamp cannot be compared with an integer", None),
    (
        "PATTERN A a WHERE a.seen > 'yesterday'",
        SCHEMA,
        "'yesterday'",
        "'yesterday' is not a time",
        "times are written by ISO-8601, such as '2024-05-01T12:30:00Z'",
    ),
    (
        "PATTERN A a WHERE a.seen > a.name",
        SCHEMA,
        "a.name",
        "a timestamp can be compared with another or with a constant text, not with a text column",
        None,
    ),
    (
        "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 5",
        STAMPED,
        "b.ts - a.ts < 5",
        "a duration cannot be compared with an integer",
        "write the number with a unit, such as `5s`",
    ),
    (
        "PATTERN SEQ(A a, B b) WHERE b.ts < a.ts + 5",
        STAMPED,
        "a.ts + 5",
        "`+` does not go with a timestamp and an integer",
        "write the number with a unit, such as `5s`",
    ),
    (
        "PATTERN A a WITHIN 10",
        STAMPED,
        "10",
        "`10` has no unit, and the time column `ts` holds timestamps",
        "write the unit, such as `10s` or `10m`",
    ),
    (
        "PATTERN A a WITHIN 99999999999999w",
        STAMPED,
        "99999999999999w",
        "the window is longer than 64 bits can hold",
        "write `WITHIN UNBOUNDED`",
    ),
]


def caught(text: str, schema: Schema | None) -> QueryError:
    with pytest.raises((QueryNameError, QueryTypeError)) as info:
        check(parse_query(text), schema)
    return info.value


def pointed_at(error: QueryError) -> str:
    assert error.source is not None
    assert error.span is not None
    return error.source[error.span.start : error.span.end]


@pytest.mark.parametrize(("text", "place", "message", "hint"), WRONG_ANYWHERE, ids=[case[0] for case in WRONG_ANYWHERE])
def test_wrong_queries(text: str, place: str, message: str, hint: str | None) -> None:
    error = caught(text, None)
    assert (error.message, pointed_at(error), error.hint) == (message, place, hint)


@pytest.mark.parametrize(
    ("text", "schema", "place", "message", "hint"), WRONG_BY_SCHEMA, ids=[case[0] for case in WRONG_BY_SCHEMA]
)
def test_wrong_by_the_schema(text: str, schema: Schema, place: str, message: str, hint: str | None) -> None:
    error = caught(text, schema)
    assert (error.message, pointed_at(error), error.hint) == (message, place, hint)


def test_the_whole_message() -> None:
    error = caught("QUERY q\nPATTERN B b\nWHERE b.x = 1 AND c.x = b.x", SCHEMA)
    assert error.query == "q"
    assert str(error) == (
        "line 3, column 19: unknown variable `c`\n"
        "  WHERE b.x = 1 AND c.x = b.x\n"
        "                    ^^^\n"
        "hint: did you mean `b`?"
    )


RIGHT = [
    "PATTERN SEQ(A a, B+ b[], NOT N n, C c) WHERE a.x < b.x AND n.x = a.x AND b[i].x > b[i-1].x WITHIN 10s",
    "PATTERN SEQ(A a, NOT N n, B b)",
    "PATTERN SEQ(A a, AND(B b, NOT N n), C c)",
    "PATTERN SEQ(NOT N n, A a) WITHIN 5 EVENTS",
    "PATTERN B+ b[] WHERE b.price > AVG(b.price) AND FIRST(b).x < LAST(b).x AND COUNT(b.name) > 2",
    "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 5s AND a.ts + 5s < b.ts AND abs(a.ts - b.ts) < 1m",
    "PATTERN A a WHERE a.seen > '2024-05-01' AND a.seen BETWEEN '2024-05-01T12:00:00Z' AND '2024-06-01'",
    "PATTERN SEQ(A a, B b) WHERE b.seen - a.seen < 5 minutes AND a.seen + 1h < b.seen",
    "PATTERN A a WHERE a.ok AND NOT a.ok = FALSE AND a.ok IN (TRUE, NULL)",
    "PATTERN A a WHERE a.x / 2 > 1 AND a.x % 2 = 0 AND a.price = a.x AND -a.x < round(a.price, 2) AND NULL",
    "PATTERN A a WHERE length(a.name) > 2 AND upper(a.name) LIKE 'X%' AND coalesce(a.x, a.price, 0) > 1",
    "PATTERN SEQ(A a, OR(B b, C+ c[])) WHERE a.x < b.x USING NEXT RETURN a.x, b.price AS p, c.x, a.x + 1, COUNT(c)",
    "PATTERN SEQ(A a, SEQ(B b, C c)) WITHIN 5 USING STRICT",
    "PATTERN SEQ(A a, NOT N n, B b) AGG COUNT(*), SUM(b.x), MAX(b.seen) AS m GROUP BY name, a.x EMIT ON CHANGE",
    "PATTERN SEQ(NOT N n, A a, B b) AGG COUNT(*) WITHIN 5s",
    "PATTERN A a WHERE a.begin <= a.end PARTITION BY name, x WITHIN UNBOUNDED",
]


@pytest.mark.parametrize("text", RIGHT)
def test_right_queries(text: str) -> None:
    check(parse_query(text))
    check(parse_query(text), SCHEMA)


def test_queries_without_text_are_checked_too() -> None:
    for pattern in (Seq(()), Or(()), Seq((Item("A", "x"), Item("B", "x")))):
        with pytest.raises((QueryTypeError, QueryNameError)) as info:
            check(Query(pattern))
        assert info.value.span is None
        assert str(info.value)


def test_names_of_columns() -> None:
    query = parse_query(
        "PATTERN SEQ(A a, B+ b[]) RETURN a.price, SUM(b.price), FIRST(b).price, COUNT(b), a.x + 1, b.x AS y, -a.x"
    )
    names = [return_name(ret, place) for place, ret in enumerate(query.returns, start=1)]
    assert names == ["a_price", "sum_b_price", "first_b_price", "count_b", "column5", "y", "column7"]
    query = parse_query("PATTERN SEQ(A a, B b) AGG COUNT(*), COUNT(a.x), AVG(b.price), MIN(a.x) AS low")
    assert [aggregate_name(one) for one in query.aggregates] == ["count", "count_a_x", "avg_b_price", "low"]
