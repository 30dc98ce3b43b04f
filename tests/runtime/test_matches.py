"""Results: identities that depend on content alone, every way out, RETURN against the oracle's evaluator."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue.errors import QueryTypeError
from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema
from ensue.events.times import LARGEST, NULL
from ensue.pattern.expressions import (
    Aggregate,
    Arithmetic,
    At,
    Attribute,
    Call,
    Comparison,
    Duration,
    Expression,
    Literal,
)
from ensue.pattern.query import Item, Or, Quantifier, Query, Return, Seq
from ensue.runtime.matches import EventLists, MatchBlock, Matches
from ensue.runtime.rows import RowStore, RowView
from ensue.testing.evaluation import Scope, evaluate
from ensue.testing.values import read_event

SCHEMA = Schema(
    {"type": DType.STRING, "ts": DType.INT, "k": DType.INT, "p": DType.FLOAT, "s": DType.STRING, "b": DType.BOOL}
)
QUERY = Query(Seq((Item("A", "a"), Item("B", "b", quantifier=Quantifier(0, None)))), name="q")
EVENTS = [
    {"type": "A", "ts": 1, "k": 7, "p": 1.5, "s": "x", "b": True},
    {"type": "B", "ts": 2, "k": 7, "p": None, "s": None, "b": None},
    {"type": "B", "ts": 3, "k": 8, "p": 2.5, "s": "z", "b": False},
    {"type": "A", "ts": 4, "k": 9, "p": 0.5, "s": "y", "b": False},
]


def view(data: Sequence[Any] = EVENTS, schema: Schema | None = SCHEMA, sizes: Sequence[int] = ()) -> RowView:
    """The events stored, taken in by pieces of these sizes."""
    intake = Intake(schema)
    store: RowStore | None = None
    start = 0
    for size in [*sizes, len(data)]:
        batch = intake.push(data[start : start + size])
        start += size
        if intake.schema is not None:
            store = store or RowStore(intake.schema)
            store.append(batch)
    assert store is not None
    return store.view()


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def block(query: Query = QUERY, name: str = "q", **variables: Any) -> MatchBlock:
    """Matches that are not asked about their times."""
    first = next(v for v in variables.values() if v is not None)
    n = len(first.offsets) - 1 if isinstance(first, EventLists) else len(first)
    return MatchBlock(query, name, ints(*range(n)), ints(*range(10, 10 + n)), np.full(n, NULL), variables)


LISTS = EventLists(ints(0, 2, 2), ints(1, 2))


def ids(rows: RowView, *seqs: int, query: str = "q") -> list[str]:
    return Matches([block(name=query, a=ints(*seqs))], rows).to_arrow()["match_id"].to_pylist()


def test_a_match_as_a_dict_and_as_a_row() -> None:
    matches = Matches([block(a=ints(0, 3), b=LISTS)], view(), explanation="the plan")
    assert len(matches) == 2
    first, second = matches
    assert {**first, "match_id": ""} == {
        "match_id": "",
        "query": "q",
        "begin": 0,
        "end": 10,
        "detected_at": None,
        "events": {"a": EVENTS[0], "b": [EVENTS[1], EVENTS[2]]},
    }
    assert second["events"] == {"a": EVENTS[3], "b": []}
    assert len(first["match_id"]) == 32
    assert int(first["match_id"], 16) != int(second["match_id"], 16)
    table = matches.to_arrow()
    assert table.column_names == ["match_id", "query", "begin", "end", "detected_at", "partition", "a", "b"]
    assert table["a"].to_pylist() == [EVENTS[0], EVENTS[3]]
    assert table["b"].to_pylist() == [[EVENTS[1], EVENTS[2]], []]
    assert pa.table(matches).equals(table)
    assert matches[0] == first
    assert matches[-1] == second
    assert matches.to_pylist() == [first, second]
    assert matches.explain() == "the plan"
    with pytest.raises(IndexError):
        matches[2]


def test_pandas_and_polars() -> None:
    matches = Matches([block(a=ints(0, 3), b=LISTS)], view())
    frame = matches.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["end"].tolist() == [10, 11]
    lazy = matches.to_polars()
    assert isinstance(lazy, pl.DataFrame)
    assert lazy["a"].struct.field("ts").to_list() == [1, 4]


def test_variables_of_other_branches_are_null() -> None:
    query = Query(Or((Item("A", "a"), Item("B", "b", quantifier=Quantifier(1, None)), Item("C", "c"))))
    lists = EventLists(ints(0, 0, 1), ints(2), np.array([True, False]))
    matches = Matches([block(query, a=ints(0, -1), b=lists, c=None)], view())
    assert [m["events"] for m in matches] == [
        {"a": EVENTS[0], "b": None, "c": None},
        {"a": None, "b": [EVENTS[2]], "c": None},
    ]
    assert matches.to_arrow()["c"].null_count == 2


def test_the_partition_comes_from_whatever_event_there_is() -> None:
    query = Query(QUERY.pattern, partition_by=("k", "s"))
    lists = EventLists(ints(0, 0, 1), ints(2))
    matches = Matches([block(query, b=lists, a=ints(0, -1))], view())
    assert [m["partition"] for m in matches] == [{"k": 7, "s": "x"}, {"k": 8, "s": "z"}]
    assert pa.types.is_struct(matches.to_arrow()["partition"].type)
    plain = Matches([block(a=ints(0))], view())
    assert "partition" not in plain[0]
    assert plain.to_arrow()["partition"].null_count == 1


# -- identity ----------------------------------------------------------------------------------------------------------

contents = st.fixed_dictionaries(
    {"type": st.sampled_from("AB"), "ts": st.integers(0, 3)},
    optional={
        "k": st.none() | st.integers(0, 1),
        "p": st.none() | st.sampled_from([0.0, 1.0, 0.5, math.inf]),
        "s": st.none() | st.sampled_from(["", "x"]),
        "b": st.none() | st.booleans(),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(contents, min_size=1, max_size=10), st.lists(st.integers(0, 4), max_size=4), st.randoms())
def test_ids_depend_on_content_and_place_among_equals_alone(
    events: list[dict[str, Any]], sizes: list[int], shuffler: random.Random
) -> None:
    events.sort(key=lambda e: e["ts"])
    n = len(events)
    whole = ids(view(events), *range(n))
    seen: dict[Any, int] = {}
    expected: dict[Any, str] = {}
    for event, identity in zip(events, whole, strict=True):
        content = tuple(sorted((k, v) for k, v in event.items() if v is not None))
        number = seen[content] = seen.get(content, -1) + 1
        expected[(content, number)] = identity
    assert len(set(whole)) == len(expected) == n
    assert ids(view(events, sizes=sizes), *range(n)) == whole
    names = list(SCHEMA.columns)
    shuffler.shuffle(names)
    turned = Schema({name: SCHEMA.columns[name] for name in [*names, "more"] if name != "more"} | {"more": DType.FLOAT})
    assert ids(view(events, turned), *range(n)) == whole
    order = list(range(n))
    shuffler.shuffle(order)
    assert ids(view(events), *order) == [whole[i] for i in order]


def test_ids_do_not_depend_on_the_width_of_numbers_nor_the_name_of_the_time() -> None:
    wide = pa.table({"type": ["A", "B"], "ts": [1, 2], "k": [5, 6], "p": [1.0, 2.5]})
    narrow = pa.table(
        {
            "kind": pa.array(["A", "B"]).dictionary_encode(),
            "p": pa.array([1.0, 2.5], pa.float32()),
            "k": pa.array([5, 6], pa.int8()),
            "at": pa.array([1, 2], pa.uint16()),
        }
    )
    stores = []
    for data, intake in ((wide, Intake()), (narrow, Intake(type="kind", ts="at"))):
        batch = intake.push(data)
        assert intake.schema is not None
        store = RowStore(intake.schema)
        store.append(batch)
        stores.append(store.view())
    assert ids(stores[0], 0, 1) == ids(stores[1], 0, 1)


def test_ids_after_rows_were_released_and_stored_one_by_one() -> None:
    same = {"type": "A", "ts": 5}
    events = [{"type": "A", "ts": 1}, same, same, same]
    whole = ids(view(events), 1, 2, 3)
    store, intake = RowStore(SCHEMA), Intake(SCHEMA)
    store.append(intake.push(events[:2]))
    store.append_one(2, same)
    store.append_one(3, same)
    store.release(3)
    assert ids(store.view(), 3) == whole[2:]
    assert len(set(whole)) == 3


def test_ids_tell_queries_variables_places_and_lists_apart() -> None:
    rows = view()
    blocks = [
        block(a=ints(0), b=EventLists(ints(0, 2), ints(1, 2))),
        block(a=ints(0), b=EventLists(ints(0, 2), ints(2, 1))),
        block(a=ints(0), b=EventLists(ints(0, 1), ints(1))),
        block(a=ints(0), b=EventLists(ints(0, 0), ints())),
        block(a=ints(0), b=EventLists(ints(0, 0), ints(), np.array([True]))),
        block(a=ints(0), b=ints(1)),
        block(a=ints(1), b=ints(0)),
        block(a=ints(0), c=ints(1)),
        block(name="r", a=ints(0), b=ints(1)),
    ]
    made = [Matches([b], rows)[0]["match_id"] for b in blocks]
    assert len(set(made)) == len(blocks)
    assert Matches([block(b=ints(1), a=ints(0))], rows)[0]["match_id"] == made[5]
    absent = Matches([block(a=ints(0), b=ints(1), z=None, y=ints(-1))], rows)[0]["match_id"]
    assert absent == made[5]


def test_an_id_stays_what_it_was_in_earlier_versions() -> None:
    assert ids(view(), 0) == ["eeefacec3b9c873be80fa8a9e05fea0d"]


def test_carried_columns_count_too() -> None:
    def identity(tags: Any) -> str:
        return ids(view([{"type": "A", "ts": 1, "tags": tags}], None), 0)[0]

    assert identity([1]) == identity([1])
    assert identity([1]) != identity([2])
    assert identity({"a": 1, "b": 2}) == identity({"b": 2, "a": 1})


RETURNING = Query(
    QUERY.pattern,
    where=Comparison((Attribute("a", "k"), Literal(0)), (">=",)),
    partition_by=("s",),
    returns=(Return(Attribute("a", "ts")),),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(contents, min_size=1, max_size=10), st.lists(st.integers(0, 4), max_size=4))
def test_with_return_ids_depend_on_what_the_query_needs_alone(events: list[dict[str, Any]], sizes: list[int]) -> None:
    def identities(schema: Schema, data: list[dict[str, Any]]) -> list[str]:
        matches = Matches([block(RETURNING, a=ints(*range(len(data))))], view(data, schema, sizes))
        return [match["match_id"] for match in matches]

    events.sort(key=lambda e: e["ts"])
    needed = ("type", "ts", "k", "s")
    short = [{name: event.get(name) for name in needed} for event in events]
    made = identities(SCHEMA, events)
    assert identities(Schema({name: SCHEMA.columns[name] for name in needed}), short) == made
    assert len(set(made)) == len(events)  # rows equal in what is needed are told apart by their number
    without = [match["match_id"] for match in Matches([block(a=ints(*range(len(events))))], view(events))]
    differ = [any(event.get(name) is not None for name in ("p", "b")) for event in events]
    assert all(with_ != all_ for with_, all_, more in zip(made, without, differ, strict=True) if more)


def test_with_return_columns_that_are_needed_count() -> None:
    def identity(**changed: Any) -> str:
        return Matches([block(RETURNING, a=ints(0))], view([EVENTS[0] | changed]))[0]["match_id"]

    assert identity() == identity(p=9.5, b=None)
    assert len({identity(), identity(k=8), identity(s="y"), identity(ts=2), identity(type="B")}) == 5


# -- RETURN ------------------------------------------------------------------------------------------------------------

rows_of_lists = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3) | st.sampled_from([LARGEST, -LARGEST, 2**62]),
        st.none() | st.floats(-3, 3) | st.sampled_from([math.inf, -math.inf, 1e308, 0.1]),
        st.none() | st.sampled_from(["", "a", "b", "\U0001f600", "ß"]),
    ),
    min_size=1,
    max_size=90,
)
aggregates = st.one_of(
    st.builds(
        Aggregate, st.sampled_from(["COUNT", "SUM", "AVG", "MIN", "MAX"]), st.just("b"), st.sampled_from(["k", "p"])
    ),
    st.builds(Aggregate, st.sampled_from(["COUNT", "MIN", "MAX"]), st.just("b"), st.just("s")),
    st.just(Aggregate("COUNT", "b")),
    st.builds(Attribute, st.just("b"), st.sampled_from(["k", "p", "s", "ts"]), st.sampled_from([At.FIRST, At.LAST])),
    st.builds(Attribute, st.just("a"), st.sampled_from(["k", "p", "s", "begin"])),
)
numbers = st.sampled_from([Aggregate("SUM", "b", "k"), Attribute("a", "p"), Aggregate("COUNT", "b"), Literal(2)])
expressions = st.one_of(
    aggregates,
    st.builds(Arithmetic, st.sampled_from(["+", "*", "/"]), numbers, numbers),
    st.builds(lambda x: Call("coalesce", (x, Literal(-1.5))), numbers),
    st.builds(lambda x: Call("upper", (x,)), st.sampled_from([Attribute("a", "s"), Attribute("b", "s", At.LAST)])),
)


@settings(max_examples=250, deadline=None)
@given(rows_of_lists, st.lists(st.integers(0, 90), min_size=1, max_size=6), expressions)
def test_return_gives_what_the_oracle_gives(
    values: list[tuple[Any, ...]], cuts: list[int], expression: Expression
) -> None:
    events = [{"type": "B", "ts": i, "k": k, "p": p, "s": s} for i, (k, p, s) in enumerate(values)]
    offsets = sorted(min(c, len(events)) for c in [0, *cuts])
    n = len(offsets) - 1
    lists = EventLists(ints(*offsets), ints(*range(offsets[-1])))
    lists = EventLists(ints(*(o - offsets[0] for o in offsets)), ints(*range(offsets[0], offsets[-1])))
    singles = ints(*(-1 if i % 3 == 2 else i % len(events) for i in range(n)))
    query = Query(QUERY.pattern, returns=(Return(expression, "r"),))
    got = [m["r"] for m in Matches([block(query, a=singles, b=lists)], view(events))]
    plain = [read_event(i, e, SCHEMA) for i, e in enumerate(events)]
    expected = []
    for i in range(n):
        bound = {"a": None if singles[i] < 0 else plain[singles[i]], "b": tuple(plain[offsets[i] : offsets[i + 1]])}
        expected.append(evaluate(expression, Scope(SCHEMA, bound)))
    assert [None if isinstance(g, float) and math.isnan(g) else g for g in got] == expected


def test_return_columns_and_their_names() -> None:
    returns = (
        Return(Attribute("a", "p")),
        Return(Aggregate("SUM", "b", "p")),
        Return(Attribute("b", "p", At.FIRST)),
        Return(Arithmetic("+", Attribute("a", "k"), Literal(1))),
        Return(Attribute("b", "k")),
        Return(Aggregate("COUNT", "b"), "n"),
        Return(Literal("word")),
        Return(Literal(None)),
    )
    query = Query(QUERY.pattern, returns=returns)
    matches = Matches([block(query, a=ints(0, 3), b=LISTS)], view())
    head = {"match_id", "query", "begin", "end", "detected_at"}
    assert [{k: v for k, v in m.items() if k not in head} for m in matches] == [
        {
            "a_p": 1.5,
            "sum_b_p": 2.5,
            "first_b_p": None,
            "column4": 8,
            "b_k": [7, 8],
            "n": 2,
            "column7": "word",
            "column8": None,
        },
        {
            "a_p": 0.5,
            "sum_b_p": None,
            "first_b_p": None,
            "column4": 10,
            "b_k": [],
            "n": 0,
            "column7": "word",
            "column8": None,
        },
    ]
    assert matches.to_arrow()["column4"].type == pa.int64()


def test_aggregates_of_variables_of_other_branches_are_null() -> None:
    returns = (
        Return(Aggregate("COUNT", "b"), "n"),
        Return(Aggregate("COUNT", "c"), "m"),
        Return(Attribute("b", "k"), "l"),
    )
    query = Query(QUERY.pattern, returns=returns)
    lists = EventLists(ints(0, 0, 1), ints(2), np.array([True, False]))
    matches = Matches([block(query, a=ints(0, -1), b=lists, c=None)], view())
    assert [(m["n"], m["m"], m["l"]) for m in matches] == [(None, None, None), (1, None, [8])]


def test_a_list_inside_a_larger_expression_is_refused() -> None:
    query = Query(QUERY.pattern, returns=(Return(Arithmetic("+", Attribute("b", "k"), Literal(1))),))
    with pytest.raises(QueryTypeError, match="is a list"):
        Matches([block(query, a=ints(0, 3), b=LISTS)], view()).to_arrow()


def test_times_come_out_as_they_came_in() -> None:
    returns = (
        Return(Attribute("a", "ts"), "at"),
        Return(Arithmetic("+", Attribute("a", "ts"), Literal(Duration(1, "s"))), "later"),
        Return(Arithmetic("-", Attribute("a", "end"), Attribute("a", "w")), "gap"),
    )
    query = Query(QUERY.pattern, returns=returns)
    for zone in (None, dt.UTC):
        noon = dt.datetime(2024, 1, 1, 12, tzinfo=zone)
        rows = view([{"type": "A", "ts": noon, "w": noon - dt.timedelta(hours=1)}], None)
        micros = int(noon.replace(tzinfo=dt.UTC).timestamp() * 1_000_000)
        times = ints(micros)
        (match,) = Matches([MatchBlock(query, "q", times, times, times, {"a": ints(0)})], rows)
        assert match["begin"] == match["end"] == match["detected_at"] == match["at"] == noon
        assert match["later"] == noon + dt.timedelta(seconds=1)
        assert match["gap"] == dt.timedelta(hours=1)


# -- several queries ---------------------------------------------------------------------------------------------------


def test_several_queries_side_by_side() -> None:
    rows = view()
    keyed = Query(QUERY.pattern, partition_by=("k",), name="r")
    both = Matches(
        [block(name="q", a=ints(0)), block(keyed, "r", a=ints(3), c=ints(2)), block(name="none", a=ints())], rows
    )
    table = both.to_arrow()
    assert table["query"].to_pylist() == ["q", "r"]
    assert table["c"].to_pylist() == [None, EVENTS[2]]
    assert table["partition"].to_pylist() == [None, {"k": 9}]
    assert both.names == ["q", "r", "none"]
    assert both["r"].to_arrow()["a"].to_pylist() == [EVENTS[3]]
    assert len(both["none"]) == 0
    with pytest.raises(KeyError, match="there are q, r, none"):
        both["x"]


def test_columns_that_do_not_go_together() -> None:
    rows = view()
    number = Query(QUERY.pattern, returns=(Return(Literal(1), "x"),))
    text = Query(QUERY.pattern, returns=(Return(Literal("1"), "x"),))
    both = Matches([block(number, "q", a=ints(0)), block(text, "r", a=ints(0))], rows)
    with pytest.raises(QueryTypeError, match=r'matches\["r"\]'):
        both.to_arrow()
    assert [m["x"] for m in both] == [1, "1"]


def test_results_one_after_the_other() -> None:
    intake = Intake()
    first = intake.push([{"type": "A", "ts": 1}])
    assert intake.schema is not None
    store = RowStore(intake.schema)
    store.append(first)
    one = Matches([block(a=ints(0), b=EventLists(ints(0, 1), ints(0)))], store.view(), explanation="plan")
    store.append(intake.push([{"type": "A", "ts": 2, "note": "new"}]))
    store.release(1)
    two = Matches([block(a=ints(1), b=EventLists(ints(0, 1), ints(1)))], store.view())
    both = Matches.concat([one, two])
    assert len(both) == 2
    assert both.explain() == "plan"
    old = {"type": "A", "ts": 1, "note": None}
    new = {"type": "A", "ts": 2, "note": "new"}
    assert both.to_arrow()["a"].to_pylist() == [old, new]
    assert both.to_arrow()["b"].to_pylist() == [[old], [new]]


def test_no_matches() -> None:
    nothing = Matches([], None)
    assert len(nothing) == 0
    assert nothing.to_arrow().num_rows == 0
    assert nothing.to_pylist() == []
    assert Matches.concat([]).to_arrow().column_names[:2] == ["match_id", "query"]
    empty = Matches([block(a=ints(), b=EventLists(ints(0), ints()))], RowStore(SCHEMA).view())
    assert empty.to_arrow().column_names[-2:] == ["a", "b"]


def test_how_results_show_themselves() -> None:
    rows = view([{**EVENTS[0], "s": "<b>"}])
    matches = Matches([block(a=np.zeros(12, dtype=np.int64))], rows)
    assert repr(matches) == "<12 matches (q: 12)>"
    page = matches._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 11
    assert "2 more" in page


def test_a_name_that_every_result_has_is_refused() -> None:
    with pytest.raises(QueryTypeError, match="`end` is a column of every result"):
        Matches([block(end=ints(0))], view()).to_arrow()
