"""AGG gives what enumeration gives: case files and random queries, by every method, cut anywhere, in any order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import ensue
from ensue.pattern.query import Query
from ensue.planning.aggregates import Method
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.testing.cases import Case, ExpectedRows, load_cases
from ensue.testing.harness import describe_rows
from ensue.testing.random_aggregates import ANYTHING, COUNTED, random_aggregate_case
from ensue.testing.random_queries import Shape

from . import tallying
from .agreement import push_pieces, show_failure, time_order
from .tallying import describe_rows_of, expected_rows, methods_for, to_rows
from .test_engine_cutting import arrive, cut

CASES = [c for c in load_cases(Path(__file__).parents[1] / "cases") if isinstance(c.expected, ExpectedRows)]
CHUNK = 250


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_by_every_method(case: Case) -> None:
    assert isinstance(case.expected, ExpectedRows)
    for method in methods_for(case.parse(), case.schema):
        found = ensue.run(list(case.events), case.query_text, schema=case.schema, plan=method)
        assert not describe_rows(to_rows([found]), case.expected.rows), method
        assert {row["query"] for row in found} <= {"q1"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_event_by_event(case: Case) -> None:
    assert isinstance(case.expected, ExpectedRows)
    engine = Engine(case.query_text, case.schema)
    order = time_order(case.events, case.schema)
    results = [engine.push_event(case.events[place]) for place in order]
    rows = to_rows([*results, engine.flush()])
    assert not describe_rows(rows, case.expected.rows)
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert engine.counts.matches == len(rows)


@pytest.mark.parametrize("first", range(0, 1500, CHUNK))
def test_counting_agrees(first: int) -> None:
    """By the method that the planner chooses and by each other one that can be used."""
    check_seeds(first, COUNTED)


@pytest.mark.parametrize("first", range(100_000, 100_750, CHUNK))
def test_aggregates_of_any_query_agree(first: int) -> None:
    check_seeds(first, ANYTHING)


def check_seeds(first: int, shape: Shape) -> None:
    failures = [found for seed in range(first, first + CHUNK) if (found := describe_rows_of(seed, shape)[0])]
    shown = "\n\n".join(failures[:3])
    assert not failures, f"{len(failures)} of {CHUNK} cases differ from the oracle\n\n{shown}"


def test_the_cases_hold_every_feature() -> None:
    features: Counter[str] = Counter()
    for seed in range(CHUNK):
        _, methods, rows, query = describe_rows_of(seed, most=0)
        features[methods[0].name] += rows > 0
        features["per start"] += Method.PER_START in methods and rows > 0
        features["groups"] += bool(query.group_by) and rows > 0
        features["keys"] += query.where is not None and rows > 0
        features["partitions"] += bool(query.partition_by) and rows > 0
        features["lists"] += any(item.quantifier is not None for item in query.items) and rows > 0
        features["absences"] += any(item.negated for item in query.items) and rows > 0
        features["on change"] += query.emit_on_change and rows > 0
        for one in query.aggregates:
            features[one.function] += rows > 0
        features["rows"] += rows
    assert min(features.values()) >= 5, features
    assert features["rows"] > 500, features


def test_a_disagreement_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(CHUNK) if describe_rows_of(s)[2] > 1)
    query, events, schema = random_aggregate_case(random.Random(seed))
    real = expected_rows(query, events, schema)
    for wrong in (real[1:], [*real, real[0]], [{**real[0], "time": real[0]["time"] + 1}, *real[1:]]):
        monkeypatch.setattr(tallying, "expected_rows", lambda *case, wrong=wrong: wrong)
        assert "seed" in (describe_rows_of(seed)[0] or "")


# -- cutting, order, snapshots -------------------------------------------------------------------------------------


def run_cut(query: Query, seed: int, method: Method, way: str) -> list[Matches]:
    rng = random.Random(seed)
    _, events, schema = random_aggregate_case(random.Random(seed), SHAPES[way])
    if way == "shuffled":
        lateness = rng.choice((1, 3, 8))
        engine = Engine(query, schema, lateness=lateness, plan=method)
        return push_pieces(engine, [events[k] for k in arrive(rng, events, lateness)], cut(rng, len(events)))
    results, start = [], 0
    engine = Engine(query, schema, plan=method)
    for size in cut(rng, len(events)):
        results.append(engine.push(list(events[start : start + size])))
        start += size
        if way == "restored":
            data = engine.snapshot()
            engine = Engine(query, schema, plan=method)
            engine.restore(data)
        if events and rng.random() < 0.3:
            results.append(engine.advance(max(event["ts"] for event in events[: max(start, 1)])))
    return [*results, engine.flush()]


SHAPES = {"pieces": COUNTED, "shuffled": ANYTHING, "restored": ANYTHING}


@pytest.mark.parametrize("way", SHAPES)
def test_cutting_does_not_matter(way: str) -> None:
    total = 0
    for seed in range(200_000, 200_000 + CHUNK):
        query, events, schema = random_aggregate_case(random.Random(seed), SHAPES[way])
        expected = expected_rows(query, events, schema)
        methods = methods_for(query, schema)
        method = methods[seed % len(methods)]
        try:
            difference = describe_rows(to_rows(run_cut(query, seed, method, way)), expected)
        except Exception as error:
            difference = [f"{type(error).__name__}: {error}"]
        assert not difference, show_failure(f"seed {seed}, {way}, {method}", query, events, difference)
        total += len(expected)
    assert total > 500
