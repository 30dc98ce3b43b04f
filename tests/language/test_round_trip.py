"""Every query survives being written and read again, and the layout of a laid-out text is that text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.language import format_query, format_text, parse, parse_query
from ensue.pattern.expressions import (
    AGGREGATES,
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    UNITS,
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
)

WORDS = [
    "PATTERN",
    "WHERE",
    "WITHIN",
    "USING",
    "RETURN",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "AS",
    "QUERY",
    "PARTITION",
    "GROUP",
    "BY",
    "EMIT",
    "ON",
    "CHANGE",
    "AGG",
    "SEQ",
    "COUNT",
    "SUM",
    "FIRST",
    "LAST",
    "ABS",
    "EVENTS",
    "UNBOUNDED",
    "ANY",
    "NEXT",
    "STRICT",
    "i",
    "s",
    "min",
    "hour",
    "ts",
    "end",
]
names = st.one_of(
    st.sampled_from(["a", "b", "c", "x", "price"]),
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(str.lower),
    st.text(max_size=5),
    st.text(alphabet="`\"'-/*;.<>[]() \n1aÄſ", max_size=6),
)
numbers = st.one_of(st.integers(), st.floats(allow_nan=False))
units = st.sampled_from(sorted(UNITS))
values = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8), st.builds(Duration, numbers, units))
leaves = st.one_of(
    st.builds(Literal, values),
    st.builds(Attribute, names, names, st.sampled_from(At)),
    st.builds(Aggregate, st.sampled_from(AGGREGATES), names, names),
    st.builds(Aggregate, st.just("COUNT"), names),
)


def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    two = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Negate, inner),
        st.builds(Not, inner),
        st.builds(Arithmetic, st.sampled_from(ARITHMETIC), inner, inner),
        two.flatmap(
            lambda operands: st.lists(
                st.sampled_from(COMPARISONS), min_size=len(operands) - 1, max_size=len(operands) - 1
            ).map(lambda operators: Comparison(operands, tuple(operators)))
        ),
        st.builds(Logical, st.sampled_from(["AND", "OR"]), two),
        st.builds(InList, inner, some, st.booleans()),
        st.builds(Between, inner, inner, inner, st.booleans()),
        st.builds(Like, inner, st.text(max_size=5), st.booleans()),
        st.builds(IsNull, inner, st.booleans()),
        st.builds(Call, st.sampled_from(FUNCTIONS), st.lists(inner, max_size=3).map(tuple)),
    )


expressions: st.SearchStrategy[Expression] = st.recursive(leaves, extend, max_leaves=12)
counts = st.integers(0, 9)
items = st.builds(
    Item,
    names,
    names,
    st.booleans(),
    st.none() | st.builds(Quantifier, counts, st.none() | counts),
)
patterns: st.SearchStrategy[Pattern] = st.recursive(
    items,
    lambda inner: st.one_of(
        *(st.builds(make, st.lists(inner, min_size=1, max_size=3).map(tuple)) for make in (Seq, And, Or))
    ),
    max_leaves=8,
)
windows = st.one_of(
    st.none(),
    st.builds(Unbounded),
    st.builds(CountWindow, st.integers()),
    st.builds(TimeWindow, st.builds(Duration, numbers, st.none() | units)),
)
aggregates = st.one_of(
    st.builds(PatternAggregate, st.just("COUNT"), alias=st.none() | names),
    st.builds(PatternAggregate, st.sampled_from(AGGREGATES), names, names, st.none() | names),
)
queries = st.builds(
    Query,
    patterns,
    st.none() | expressions,
    st.lists(names, max_size=3).map(tuple),
    windows,
    st.sampled_from(Policy),
    st.lists(aggregates, max_size=2).map(tuple),
    st.lists(st.builds(GroupKey, names, st.none() | names), max_size=2).map(tuple),
    st.booleans(),
    st.lists(st.builds(Return, expressions, st.none() | names), max_size=2).map(tuple),
    st.none() | names,
)


@settings(max_examples=600, deadline=None)
@given(queries)
def test_a_written_query_reads_back_as_itself(query: Query) -> None:
    assert parse_query(format_query(query)) == query


@settings(max_examples=150, deadline=None)
@given(st.lists(queries, max_size=3))
def test_written_queries_read_back_together(several: list[Query]) -> None:
    text = ";\n".join(format_query(query) for query in several)
    assert list(parse(text)) == several
    laid_out = format_text(text)
    assert list(parse(laid_out)) == several
    assert format_text(laid_out) == laid_out


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_layout_keeps_comments_and_is_stable(data: st.DataObject) -> None:
    pieces = [
        "QUERY",
        "one",
        "PATTERN",
        "SEQ(",
        "A",
        "a",
        ",",
        "B",
        "b",
        ")",
        "[",
        "WHERE",
        "a",
        ".",
        "x",
        "<",
        "b",
        ".",
        "x",
        "]",
        "USING",
        "ANY",
        "PARTITION",
        "BY",
        "k",
        "WITHIN",
        "10s",
        ";",
        "PATTERN",
        "<",
        "A",
        "a",
        ";",
        "B",
        "b",
        ">",
        "WITHIN",
        "5",
        "EVENTS",
        "RETURN",
        "a",
        ".",
        "x",
        "AS",
        "y",
        ",",
        "b",
        ".",
        "x",
        ";",
    ]
    text, count = "", 0
    for piece in pieces:
        gap = data.draw(
            st.sampled_from([" ", " ", " ", "\n", " -- c{}\n", "\n-- c{}\n", " /* c{} */ ", "/* c{}\n  x */"])
        )
        if "{}" in gap:
            gap = gap.format(count)
            count += 1
        text += gap + piece
    laid_out = format_text(text)
    assert parse(laid_out) == parse(text)
    assert format_text(laid_out) == laid_out
    for number in range(count):
        assert laid_out.count(f" c{number}\n") + laid_out.count(f" c{number} ") == 1
