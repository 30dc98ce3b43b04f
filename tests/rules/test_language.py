"""Declarations and rules: what is read, how it is laid out, and what is refused, where."""

from __future__ import annotations

import pytest

from ensue.errors import QueryError
from ensue.events.schema import DType
from ensue.language import format_text, parse, parse_program
from ensue.pattern.expressions import BARE, Aggregate, Attribute, Duration, Literal
from ensue.rules.check import check_program
from ensue.rules.program import Accumulation, Argument, Atom, Bound, EventQuery, Proximity, Relation, Timer, TimerKind

EVENTS = """
EVENT order(id: int, product: string, quantity: int);
EVENT shipped(id: int, tracking: string);
"""

PAPER = (
    EVENTS
    + """
RULE comp(id, p) <- o: order(id, p, q), s: shipped(id, t), o BEFORE s;
RULE overdue(id) <- o: order(id, p, q), w: EXTEND(o, 6h), WHILE w: NOT shipped(id, t), q < 10;
RULE overdue(id) <- o: order(id, p, q), w: EXTEND(o, 12h), WHILE w: NOT shipped(id, t), q >= 10;
RULE rep(COUNT(sid)) <- o: overdue(oid), w: EXTEND_BACKWARD(o, 24h), WHILE w: COLLECT shipped(sid, t);
"""
)


def body(text: str) -> tuple[object, ...]:
    (rule,) = parse_program(f"RULE r() <- {text}").rules
    return rule.body


def test_the_paper_reads_and_is_right() -> None:
    program = parse_program(PAPER)
    assert program.derived == ("comp", "overdue", "rep")
    signatures = check_program(program)
    assert signatures["comp"] == {"id": DType.INT, "p": DType.STRING}
    assert signatures["rep"] == {"count_sid": DType.INT}


def test_parts_of_a_body() -> None:
    x = Attribute(BARE, "x")
    atom = Atom("a", ())
    assert body("i: a(x, _, -3, 'b', TRUE)") == (
        EventQuery("i", Atom("a", tuple(map(Argument, (x, None, Literal(-3), Literal("b"), Literal(True)))))),
    )
    assert body("i: a(k = x)") == (EventQuery("i", Atom("a", (Argument(x, "k"),))),)
    assert body("w: shift(i, -2s)") == (Timer("w", TimerKind.SHIFT, "i", Duration(-2, "s")),)
    assert body("w: FROM_END(i, 5)") == (Timer("w", TimerKind.FROM_END, "i", Duration(5)),)
    assert body("while w: not a()") == (Accumulation("w", False, atom),)
    assert body("WHILE w: collect a()") == (Accumulation("w", True, atom),)
    assert body("i met_by j") == (Relation("i", "MET_BY", "j"),)
    assert body("i OVERLAPS j BY >= 1.5h") == (Relation("i", "OVERLAPS", "j", Bound(">=", Duration(1.5, "h"))),)
    assert body("{i, j, k} WITHIN 10") == (Proximity(("i", "j", "k"), Duration(10)),)


def test_names_are_keywords_only_in_their_place() -> None:
    text = "i: `shift`(count = before, event = rule), j: count(x), before: while(collect, by), before BEFORE i, by < 2"
    program = parse_program(f"RULE extend(COUNT(*), count) <- {text}")
    (rule,) = program.rules
    assert [e.atom.type for e in rule.events] == ["shift", "count", "while"]
    assert rule.head[0].expression == Aggregate("COUNT", BARE)
    assert parse_program(str(rule)).rules == (rule,)


def test_an_arrow_is_a_comparison_elsewhere() -> None:
    assert body("i: a(x), x <-3")[1] == body("i: a(x), x < -3")[1]
    assert parse_program("RULE r(x <-3) ← i: a(x)").rules[0].head[0].expression == body("x < -3")[0]
    assert len(parse("PATTERN A a WHERE a.x <-3")) == 1


def test_statements_of_all_kinds_stand_in_one_text() -> None:
    program = parse_program(PAPER + "PATTERN overdue a; overdue b WITHIN 1d; PATTERN rep; RULE x() <- i: rep(_)")
    assert (len(program.events), len(program.rules), len(program.queries)) == (2, 5, 2)
    with pytest.raises(QueryError, match="expected queries alone, found EVENT"):
        parse(PAPER)


def test_layout_keeps_meaning_and_comments() -> None:
    text = "-- all\n" + PAPER.replace("q < 10;", "q < 10; -- small") + "pattern seq(overdue a, rep b) within 1 hour"
    laid_out = format_text(text)
    assert parse_program(laid_out) == parse_program(text)
    assert format_text(laid_out) == laid_out
    assert laid_out.startswith("-- all\nEVENT order(id: int, product: string, quantity: int);\nEVENT shipped")
    assert "NOT shipped(id, t), q < 10;  -- small\n" in laid_out


WRONG = {
    "RULE r(x) <- o: ordr(x, p, q)": (1, 17, "unknown event `ordr`", "did you mean `order`?"),
    "RULE r(x) <- o: order(x, p)": (
        1,
        17,
        "`order` has 3 attributes (id, product, quantity), but 2 stand",
        "write `_`",
    ),
    "RULE r(x) <- o: order(idd = x)": (1, 23, "`order` has no attribute `idd`", "did you mean `id`?"),
    "RULE r(x) <- o: order(id = x, id = y)": (1, 31, "the attribute `id` stands twice", "keep one"),
    "RULE r(x) <- o: order(id = x, y, z)": (1, 23, "by position or all by name", None),
    "RULE r(y) <- o: order(x, _, _)": (1, 8, "no event of the rule binds the variable `y`", "did you mean `x`?"),
    "RULE r(_) <- o: order(x, _, _)": (1, 8, "`_` has no value", "name it"),
    "RULE r(x) <- o: order(x, _, _), w: EXTEND(o, 1), WHILE w: NOT shipped(x, t), t = 'a'": (
        1,
        78,
        "the variable `t` is bound by NOT alone",
        None,
    ),
    "RULE r(t) <- o: order(x, _, _), w: EXTEND(o, 1), WHILE w: COLLECT shipped(x, t)": (
        1,
        8,
        "the variable `t` is bound by COLLECT alone",
        "aggregate it in the head, such as COUNT(t)",
    ),
    "RULE r(COUNT(x)) <- o: order(x, _, _)": (1, 8, "COUNT needs events to range over", "collect them"),
    "RULE r(COUNT(x)) <- o: order(y, _, _), WHILE o: COLLECT shipped(z, _)": (
        1,
        8,
        "no COLLECT binds the variable `x`",
        "did you mean `z`?",
    ),
    "RULE r(x) <- o: order(x, _, _), o BEFORE s": (1, 33, "is called `s`", "did you mean `o`?"),
    "RULE r(x) <- o: order(x, _, _), o: shipped(x, _)": (1, 33, "the name `o` stands for two things", "another name"),
    "RULE r(x) <- o: order(x, _, _), w: EXTEND(v, 1), v: SHIFT(w, 1)": (1, 33, "depends on itself", None),
    "RULE r(x) <- o: order(x, _, _), w: EXTEND(o, -1s)": (1, 33, "EXTEND needs a duration that is not negative", None),
    "RULE r(x) <- o: order(x, _, _), o MEETS o BY < 1": (1, 43, "MEETS leaves no gap", "leave BY out"),
    "RULE r(x) <- o: order(x, p, p)": (1, 29, "the variable `p` is string, but `quantity` of `order` is int", None),
    "RULE r(x) <- o: order(x, 3, _)": (1, 26, "a text cannot be compared with an integer", None),
    "RULE r(x) <- o: order(x, _, q), q + 1": (1, 33, "this is not a condition", None),
    "RULE r(x) <- o: order(x, p, _), p > 3": (1, 33, "a text cannot be compared with an integer", None),
    "RULE r(x, x) <- o: order(x, p, _)": (1, 11, "the attribute `x` stands twice", "AS"),
    "RULE r(x AS end) <- o: order(x, p, _)": (1, 8, "`end` is something that every event has", None),
    "RULE r(x) <- o: order(x, _, _), o.id = 3": (1, 33, "only begin and end are read like that", "give the attribute"),
    "RULE r(x) <- o: r(x)": (1, 14, "recursion: `r` from `r`", "not from themselves"),
    "RULE r(x) <- o: s(x); RULE s(x) <- o: order(x, _, _), WHILE o: NOT r(x)": (
        1,
        55,
        "recursion through NOT: `r` from `s` from `r`",
        None,
    ),
    "RULE r(x) <- o: order(x, _, _), WHILE o: COLLECT r(y)": (1, 33, "recursion through COLLECT: `r` from `r`", None),
    "RULE r(x) <- o: order(x, p, _); RULE r(p) <- o: order(x, p, _)": (
        1,
        40,
        "this is string, but the attribute",
        None,
    ),
    "RULE product(x AS product) <- o: order(x, p, _)": (1, 1, "the attribute `product` is int in `product`", "AS"),
    "RULE r() <- WHILE o: NOT order(_, _, _)": (1, 1, "a rule needs an event to begin with", None),
    "EVENT e(x: integer)": (1, 12, "`integer` is not a type of attributes", "did you mean `int`?"),
    "EVENT e(id: string)": (1, 9, "the attribute `id` is string in `e` and int in `order`", None),
    "EVENT order()": (1, 1, "the event `order` is declared twice", None),
    "RULE r(x) <- o: order(x, _, _) s: shipped(x, _)": (1, 32, "expected", None),
    "RULE r(x) - o: order(x, _, _)": (1, 11, "expected `<-`, found `-`", None),
    "RULE r(x) <- o: order(x < 3, _, _)": (1, 25, "expected", None),
    "RULE r(x) <- o: order(x, _, _), w: EXTEND(o)": (1, 44, "expected `,`, found `)`", None),
    "RULE r(x) <- order(x, _, _)": (1, 19, "found `(`", "`e: order(…)`"),
    "RULE r(x) <- o: order(x, _, _), o BEFOR o": (1, 35, "found `BEFOR`", "did you mean `BEFORE`?"),
    "RULE r(x) <- o: order(x, _, _), o BEFORE": (1, 35, "found `BEFORE`", "on either side of BEFORE"),
    "RULE r(x) <- o: order(x, _, _), w: EXTENDS(o, 1)": (1, 36, "unknown event", "did you mean `EXTEND`?"),
    "RULE r(x) <- o: order(x, _, _), WHILE o NOT shipped(x, _)": (1, 39, "expected `:`", "WHILE w: NOT"),
    "RULE r(x) <- o: order(x, _, _), NOT shipped(x, _)": (1, 37, "unknown function", "WHILE w: NOT shipped(…)"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said(text: str) -> None:
    line, column, message, hint = WRONG[text]
    events = EVENTS.replace("\n", " ")
    with pytest.raises(QueryError) as caught:
        check_program(parse_program(text + ";\n" + events if not text.startswith("EVENT") else events + "\n" + text))
    error = caught.value
    assert message in error.message
    place = (line, column) if not text.startswith("EVENT") else (line + 1, column)
    assert (error.line, error.column) == place, str(error)
    assert hint is None or hint in (error.hint or "")
