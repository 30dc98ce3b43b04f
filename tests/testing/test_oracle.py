"""The oracle against counts that can be worked out, against laws of the language, and against a second brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from math import comb
from typing import Any

import pytest

from ensue.errors import LimitError
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import Attribute, Comparison, Duration, Literal
from ensue.pattern.normalize import Branch, Variable, normalize
from ensue.pattern.query import And, CountWindow, Item, Or, Policy, Quantifier, Query, Seq, TimeWindow
from ensue.testing.evaluation import Bound, holds
from ensue.testing.harness import assert_same
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.random_queries import Shape, random_case
from ensue.testing.values import Event, measure_duration, read_events

SCHEMA = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.INT})
A, B, C = Item("A", "a"), Item("B", "b"), Item("C", "c")


def stream(text: str) -> list[dict[str, Any]]:
    """`"A B C"` as events at 1, 2, 3; letters without a blank between share a timestamp."""
    return [{"type": kind, "ts": ts} for ts, kinds in enumerate(text.split(), start=1) for kind in kinds]


def assignments(events: list[dict[str, Any]], query: Query) -> list[Mapping[str, Any]]:
    return [match.assignment for match in find_matches(events, query, SCHEMA)]


# -- counts that can be worked out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_counts(n: int) -> None:
    events = stream("A " * n)
    second, plus = Item("A", "b"), Item("A", "b", quantifier=Quantifier(1, None))
    assert len(assignments(events, Query(Seq((A, second))))) == comb(n, 2)
    assert len(assignments(events, Query(And((A, second))))) == n * (n - 1)
    assert len(assignments(events, Query(Or((A, second))))) == 2 * n
    assert len(assignments(events, Query(plus))) == 2**n - 1
    assert len(assignments(events, Query(Seq((A, plus))))) == sum(2 ** (n - 1 - i) - 1 for i in range(n))
    assert len(assignments(events, Query(Seq((A, second)), policy=Policy.NEXT))) == max(0, n - 1)


def test_each_list_once() -> None:
    query = Query(Item("B", "b", quantifier=Quantifier(0, None)))
    assert sorted(str(found["b"]) for found in assignments(stream("B BB"), query)) == [
        "(0, 1)", "(0, 2)", "(0,)", "(1,)", "(2,)",
    ]  # fmt: skip


def test_positions_are_those_of_the_input() -> None:
    events = [{"type": "B", "ts": 9}, {"type": "A", "ts": None}, {"type": "A", "ts": 3}]
    assert assignments(events, Query(Seq((A, B)))) == [{"a": 2, "b": 0}]


def test_limit() -> None:
    with pytest.raises(LimitError, match="100"):
        find_matches(stream("A " * 20), Query(And((A, Item("A", "b")))), SCHEMA, limit=100)


def test_branches_that_meet_in_one_match() -> None:
    pattern = Seq((A, Or((Item("N", "n", negated=True), Item("M", "m", negated=True))), B))
    assert assignments(stream("A B"), Query(pattern)) == [{"a": 0, "b": 1}]
    assert assignments(stream("A N B"), Query(pattern)) == [{"a": 0, "b": 2}]  # by the branch without M
    assert assignments(stream("A NM B"), Query(pattern)) == []


# -- laws -----------------------------------------------------------------------------------------------------------

PLAIN = Shape(policies=(Policy.ANY,), work=1500)


def test_next_and_strict_find_some_of_what_any_finds() -> None:
    """NEXT chooses among the matches of ANY, and STRICT finds only matches whose events NEXT would take too."""
    shape = Shape(policies=(Policy.NEXT, Policy.STRICT), work=1500, variables=4, events=10)
    found = 0
    for seed in range(400):
        query, events, schema = random_case(random.Random(seed), shape)
        chosen = {tuple(m.assignment.items()) for m in find_matches(events, query, schema)}
        everything = {
            tuple(m.assignment.items()) for m in find_matches(events, replace(query, policy=Policy.ANY), schema)
        }
        assert chosen <= everything, query
        found += len(chosen)
    assert found > 100


def test_order_of_input_does_not_matter() -> None:
    """Positions only break ties: under ANY with a time window the matches are the same events in any order."""
    shape = replace(PLAIN, windows=("time", "none"))
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        query, events, schema = random_case(rng, shape)
        order = list(range(len(events)))
        rng.shuffle(order)
        shuffled = find_matches([events[p] for p in order], query, schema)
        moved = [
            replace(m, assignment={v: _move(places, order) for v, places in m.assignment.items()}) for m in shuffled
        ]
        assert_same(moved, find_matches(events, query, schema), query=query, events=events)
        found += len(moved)
    assert found > 100


def _move(places: int | tuple[int, ...] | None, order: Sequence[int]) -> int | tuple[int, ...] | None:
    match places:
        case None:
            return None
        case int():
            return order[places]
        case _:
            return tuple(order[p] for p in places)


def test_a_longer_window_finds_more() -> None:
    shape = replace(PLAIN, negation=0.0, windows=("time",))
    grown = 0
    for seed in range(300):
        query, events, schema = random_case(random.Random(seed), shape)
        assert isinstance(query.within, TimeWindow)
        longer = replace(query, within=TimeWindow(Duration(query.within.duration.amount + 3)))
        short = {tuple(m.assignment.items()) for m in find_matches(events, query, schema)}
        long = {tuple(m.assignment.items()) for m in find_matches(events, longer, schema)}
        assert short <= long
        grown += short < long
    assert grown > 20


# -- a second brute force, over the normal form ---------------------------------------------------------------------


def search_branch(branch: Branch, query: Query, partition: Sequence[Event], schema: Schema) -> Iterator[OracleMatch]:
    """The matches of one branch: all combinations of events, then every condition in turn."""
    types = set(query.types)
    number = {e.position: i for i, e in enumerate(e for e in partition if e.type in types)}

    def fits(events: Sequence[Event]) -> bool:
        match query.within:
            case TimeWindow(duration=duration):
                return max(e.end for e in events) - min(e.begin for e in events) < measure_duration(duration, schema)
            case CountWindow(events=count):
                places = [number[e.position] for e in events]
                return max(places) - min(places) < count
            case _:
                return True

    def options(variable: Variable) -> list[tuple[Event, ...]]:
        events = [e for e in partition if e.type == variable.type]
        most = len(events) if variable.maximum is None else min(variable.maximum, len(events))
        return [
            taken
            for size in range(variable.minimum, most + 1)
            for taken in combinations(events, size)
            if all(x.end < y.begin for x, y in combinations(taken, 2))
        ]

    for choice in product(*(options(variable) for variable in branch.variables)):
        taken = dict(zip(branch.names, choice, strict=True))
        events = list(chain(*choice))
        bound: dict[str, Bound] = {
            variable.name: taken[variable.name] if variable.kleene else taken[variable.name][0]
            for variable in branch.variables
        }
        if (
            not events
            or len({e.position for e in events}) < len(events)
            or not fits(events)
            or any(x.end >= y.begin for before, after in branch.before for x in taken[before] for y in taken[after])
            or not all(holds(conjunct, bound, schema) for conjunct in branch.conjuncts)
        ):
            continue
        pending, refused = False, False
        for negation in branch.negations:
            earlier = [e for name in negation.after for e in taken[name]]
            later = [e for name in negation.before for e in taken[name]]
            pending |= not later
            refused |= any(
                e.type == negation.type
                and e not in events
                and all(p.end < e.begin for p in earlier)
                and all(e.end < q.begin for q in later)
                and fits([*events, e])
                and all(holds(conjunct, {**bound, negation.name: e}, schema) for conjunct in negation.conjuncts)
                for e in partition
            )
        if not refused:
            places = {
                v.name: tuple(e.position for e in taken[v.name]) if v.kleene else taken[v.name][0].position
                for v in branch.variables
            }
            begin, end = min(e.begin for e in events), max(e.end for e in events)
            known = known_at(begin, events, number, partition, query, schema) if pending else end
            assignment = {i.variable: places.get(i.variable) for i in query.items if not i.negated}
            yield OracleMatch(begin, end, known, assignment)


def known_at(
    begin: int,
    events: Sequence[Event],
    number: Mapping[int, int],
    partition: Sequence[Event],
    query: Query,
    schema: Schema,
) -> int | None:
    if isinstance(query.within, TimeWindow):
        length = measure_duration(query.within.duration, schema)
        return begin + int(length) + (length > int(length))
    assert isinstance(query.within, CountWindow)
    last = min(number[e.position] for e in events) + query.within.events - 1
    return next((e.end for e in partition if number.get(e.position) == last), None)


def test_agrees_with_a_search_over_the_normal_form() -> None:
    shape = Shape(policies=(Policy.ANY,), work=250, variables=4, events=9)
    found = negated = 0
    for seed in range(700):
        query, events, schema = random_case(random.Random(seed), shape)
        ordered = read_events(events, schema)
        keys = {tuple(e.values[k] for k in query.partition_by) for e in ordered}
        expected = [
            match
            for key in keys
            if None not in key
            for branch in normalize(query)
            for match in search_branch(
                branch, query, [e for e in ordered if tuple(e.values[k] for k in query.partition_by) == key], schema
            )
        ]
        assert_same(find_matches(events, query, schema), expected, query=query, events=events)
        found += len(expected)
        negated += bool(expected) and any(item.negated for item in query.items)
    assert found > 300
    assert negated > 20


def test_the_window_may_be_a_fraction() -> None:
    query = Query(Seq((A, Item("N", "n", negated=True))), within=TimeWindow(Duration(2.5)))
    (match,) = find_matches(stream("A"), query, SCHEMA)
    assert match.detected_at == 4  # the first whole time at which 2.5 have passed since 1


def test_a_condition_on_two_variables() -> None:
    events = [{"type": "A", "ts": 1, "x": 5}, {"type": "B", "ts": 2, "x": 5}, {"type": "B", "ts": 3, "x": 6}]
    same = Comparison((Attribute("a", "x"), Attribute("b", "x")), ("=",))
    assert assignments(events, Query(Seq((A, B)), same)) == [{"a": 0, "b": 1}]
    assert assignments(events, Query(Seq((A, B)), Comparison((Literal(1), Literal(2)), ("=",)))) == []
