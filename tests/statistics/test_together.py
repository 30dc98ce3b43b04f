"""Tuples that pass are counted as if each had been made; what is found in samples is near the exact share."""

from __future__ import annotations

import math
import random
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest

from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.expressions import conjuncts_of
from ensue.runtime import sampled
from ensue.runtime.sampled import evaluating
from ensue.statistics import together
from ensue.statistics.conditions import Pair, Together, find_conditions
from ensue.statistics.sampling import Chosen, Sample, ask_all_pairs
from ensue.statistics.together import AllPairs, estimate_together


def random_forest(rng: random.Random, names: str) -> frozenset[Pair]:
    """Each name is tied to one before it, or to none."""
    pairs = [(rng.choice(names[:k]), name) for k, name in enumerate(names) if k and rng.random() < 0.9]
    turned = rng.sample(names, len(names))
    renamed = [sorted((turned[names.index(x)], turned[names.index(y)])) for x, y in pairs]
    return frozenset((x, y) for x, y in renamed)


@pytest.mark.parametrize("seed", range(60))
def test_tuples_are_counted_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all could be in one match, the ratio makes the product of the shares that of the tuples that pass all."""
    monkeypatch.setattr(together, "_ALONE", 0.0)
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    names = "abcde"[: rng.randint(3, 5)]
    sizes = {name: rng.randint(2, 5) for name in names}
    pairs = random_forest(rng, names)
    asked = {}
    for x, y in pairs:
        passed = draw.random((sizes[x], sizes[y])) < 0.6
        passed[0, 0] = True  # some tuple passes everything
        asked[x, y] = AllPairs(np.ones_like(passed), passed)
    (found,) = estimate_together([Together(tuple(names), pairs)], asked).values()
    tuples = [dict(zip(names, places, strict=True)) for places in product(*(range(sizes[name]) for name in names))]
    passing = sum(all(asked[x, y].passed[one[x], one[y]] for x, y in pairs) for one in tuples)
    shares = math.prod(one.passed.mean() for one in asked.values())
    assert found * shares == pytest.approx(passing / len(tuples), rel=1e-5)


def test_the_kernel_counts_as_numpy_does() -> None:
    draw = np.random.default_rng(1)
    counts = np.where(draw.random((4, 30)) < 0.3, 0, draw.random((4, 30))).astype(np.float32)
    pairs = draw.random((30, 20)) < 0.4
    by_loops = sampled.arithmetic()
    assert all(map(np.array_equal, by_loops.tally(pairs), together.tally(pairs)))
    assert np.allclose(by_loops.extend(counts, pairs), together.extend(counts, pairs), rtol=1e-5)
    assert by_loops.extend(counts[:, :0], pairs[:0]).shape == (4, 20), "of no events there are no tuples"


@pytest.mark.parametrize("passing", [0.0, 0.3, 1.0])
def test_the_kernel_joins_as_numpy_does(passing: float) -> None:
    draw = np.random.default_rng(2)
    could = np.where(draw.random((6, 40)) < 0.2, 0, draw.integers(1, 9, (6, 40))).astype(np.float32)
    passed = np.where(draw.random((6, 40)) < passing, could, 0).astype(np.float32)
    could[2], passed[2] = 0.0, 0.0  # of nothing nothing is known
    shares = np.where(draw.random(40) < 0.1, np.nan, draw.random(40))
    for alone in (0.003, 2.0):
        found = sampled.arithmetic().join(could, passed, shares, alone)
        assert np.allclose(found, together.join(could, passed, shares, alone), equal_nan=True)
    assert np.isnan(found[2])
    assert np.isnan(sampled.arithmetic().join(could, passed, np.zeros(40), 2.0)).all(), "where none passes"


def test_what_could_not_be_in_one_match_does_not_count() -> None:
    """Before noon all pass, afterwards none: of tuples of one time of day, half of all, as of pairs."""
    morning = np.repeat([True, False], 50)
    could = morning[:, None] == morning[None, :]
    passed = could & morning[:, None]
    asked = {pair: AllPairs(could, passed) for pair in (("a", "b"), ("b", "c"), ("c", "d"))}
    found = estimate_together([Together(("a", "b", "c", "d"), frozenset(asked))], asked)
    assert found["a", "b", "c", "d"] * 0.5**3 == pytest.approx(0.5, rel=0.01)


def test_sets_of_a_chain_and_of_a_circle() -> None:
    chain = "a.x < b.x AND b.x < c.x AND c.x < d.x"
    found = find_conditions(parse_query(f"PATTERN AND(A a, B b, C c, D d, E e) WHERE {chain} WITHIN 9")).together
    assert len(found) == 9, "four of three and one of four of a to d, and those of three with e"
    circle = find_conditions(parse_query(f"PATTERN AND(A a, B b, C c, D d) WHERE {chain} AND a.y = c.y WITHIN 9"))
    assert {one.names for one in circle.together} == {("a", "b", "d"), ("a", "c", "d"), ("b", "c", "d")}
    query = "PATTERN SEQ(A a, B b, C c, D d) WHERE b.x < d.x WITHIN 9 PARTITION BY k"
    keyed = {one.names: one for one in find_conditions(parse_query(query)).together}
    assert len(keyed) == 4 and keyed["b", "c", "d"].needless == {("c", "d")}, "b and d have more to do with each other"
    assert keyed["a", "b", "c"].pairs == {("a", "b"), ("a", "c")} and keyed["a", "b", "c"].needless == {("b", "c")}
    names = [f"v{k}" for k in range(9)]
    many = " AND ".join(f"{x}.x < {y}.x" for x, y in pairwise(names))
    items = ", ".join(f"T{k} {name}" for k, name in enumerate(names))
    assert not find_conditions(parse_query(f"PATTERN SEQ({items}) WHERE {many} WITHIN 9")).together


@pytest.mark.parametrize(
    "condition", ["a.x < b.x", "a.s = b.s", "a.s < b.s", "a.x + 1 < b.x * 2", "a.x IN (b.x, 3)", "a.n = b.n"]
)
def test_rows_and_columns_are_asked_as_pairs_are(condition: str) -> None:
    draw = np.random.default_rng(3)
    schema = Schema({"type": DType.STRING, "ts": DType.INT, "x": DType.INT, "s": DType.STRING, "n": DType.INT})
    table = pa.table(
        {
            "x": draw.integers(0, 5, 40),
            "s": draw.choice(["red", "green", "blue"], 40),
            "n": pa.array([None if k % 3 else k % 4 for k in range(40)], pa.int64()),
        }
    )
    sample = Sample(table, np.arange(40), np.arange(40), np.arange(40))
    query = parse_query(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 9")
    assert query.where is not None
    (asked,) = conjuncts_of(query.where)
    evaluate = evaluating(schema)

    def passes(x: Chosen, y: Chosen) -> np.ndarray:
        return evaluate(asked, {"a": x, "b": y})

    left, right = Chosen(sample, np.arange(30)), Chosen(sample, np.arange(5, 40))
    could, passed = ask_all_pairs(left, right, passes)
    assert not could[10, 5] and could.sum() == 30 * 35 - 25, "an event does not pair with itself"
    x, y = np.nonzero(could)
    flat = passes(left.take(x), right.take(y))
    assert np.array_equal(passed[x, y], flat) and flat.any() and not flat.all()


@pytest.mark.parametrize("lasting", [0, 30])
@pytest.mark.parametrize("ordered", [False, True])
def test_pairs_in_reach_of_each_other(ordered: bool, lasting: int) -> None:
    """Events that last begin before they end, and are in a match with others that begin or end in reach of both."""
    end = np.sort(np.random.default_rng(0).integers(0, 500, 120))
    begin = end - lasting if lasting else end
    left, right = (
        Chosen(Sample(pa.table({}), begin, end, first + np.arange(120)), np.arange(120)) for first in (0, 200)
    )
    could, _ = ask_all_pairs(left, right, lambda x, y: np.ones((120, 120), np.bool_), within=200, ordered=ordered)
    for i, j in product(range(120), repeat=2):
        near = max(end[i], end[j]) - min(begin[i], begin[j]) < 200
        assert could[i, j] == (near and (end[i] < begin[j] or not ordered))
