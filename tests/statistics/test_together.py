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
from ensue.pattern.expressions import COMPARISONS, conjuncts_of
from ensue.runtime import sampled
from ensue.runtime.sampled import evaluating
from ensue.statistics import together
from ensue.statistics.conditions import Pair, Together, find_conditions
from ensue.statistics.estimates import share
from ensue.statistics.sampling import Chosen, Near, Rows, Sample, ask_all_pairs, near
from ensue.statistics.together import AllPairs, Tallies, count_tuples, estimate_pairs, estimate_together


def random_forest(rng: random.Random, names: str) -> frozenset[Pair]:
    """Each name is tied to one before it, or to none."""
    pairs = [(rng.choice(names[:k]), name) for k, name in enumerate(names) if k and rng.random() < 0.9]
    turned = rng.sample(names, len(names))
    renamed = [sorted((turned[names.index(x)], turned[names.index(y)])) for x, y in pairs]
    return frozenset((x, y) for x, y in renamed)


def count(sets: list[Together], asked: dict[Pair, AllPairs]) -> dict[tuple[str, ...], float]:
    """The share of each set's tuples that passes, as it is told from what is counted."""
    return estimate_together(sets, estimate_pairs(sets, asked, count_tuples(sets, asked)))


def one_window(could: np.ndarray, passed: np.ndarray) -> AllPairs:
    return AllPairs(could[None], passed[None])


def share_of(one: AllPairs) -> float:
    return share(np.count_nonzero(one.passed), np.count_nonzero(one.could)).value


def pairs_alone(pairs: frozenset[Pair]) -> list[Pair]:
    """Those that share no variable with another."""
    names = [name for pair in pairs for name in pair]
    return [pair for pair in pairs if max(map(names.count, pair)) == 1]


@pytest.mark.parametrize("seed", range(60))
def test_tuples_are_counted_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all could be in one match, it is the share of all tuples that pass."""
    monkeypatch.setattr(together, "_TOLD", 0.0)
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    names = "abcde"[: rng.randint(3, 5)]
    sizes = {name: rng.randint(2, 5) for name in names}
    pairs = random_forest(rng, names)
    asked = {}
    for x, y in pairs:
        passed = draw.random((sizes[x], sizes[y])) < 0.6
        passed[0, 0] = True  # some tuple passes everything
        asked[x, y] = one_window(np.ones_like(passed), passed)
    (found,) = count([Together(tuple(names), pairs)], asked).values()
    tuples = [dict(zip(names, places, strict=True)) for places in product(*(range(sizes[name]) for name in names))]
    passing = sum(all(asked[x, y].passed[0, one[x], one[y]] for x, y in pairs) for one in tuples)
    alone = math.prod(share_of(one) / one.passed.mean() for one in map(asked.get, pairs_alone(pairs)) if one)
    assert found == pytest.approx(alone * passing / len(tuples), rel=1e-5)


def test_the_kernel_counts_as_numpy_does() -> None:
    draw = np.random.default_rng(1)
    counts = np.where(draw.random((4, 2, 30)) < 0.3, 0, draw.random((4, 2, 30))).astype(np.float32)
    pairs = draw.random((2, 30, 20)) < 0.4
    by_loops = sampled.arithmetic()
    assert all(map(np.array_equal, by_loops.tally(pairs), together.tally(pairs)))
    assert np.allclose(by_loops.extend(counts, pairs), together.extend(counts, pairs), rtol=1e-5)
    assert by_loops.extend(counts[:, :, :0], pairs[:, :0]).shape == (4, 2, 20), "of no events there are no tuples"


def test_what_no_tuple_passes_is_told_by_its_parts() -> None:
    """Three pairs in a row, of which each two are passed by some tuples, and all three by none."""
    first, second, third = (np.zeros((40, 40), np.bool_) for _ in range(3))
    first[:20, :20] = second[:20, :20] = second[20:, 20:] = third[20:, 20:] = True
    could = np.ones((40, 40), np.bool_)
    pairs = [("a", "b"), ("b", "c"), ("c", "d")]
    asked = {pair: one_window(could, passed) for pair, passed in zip(pairs, (first, second, third), strict=True)}
    names = ("a", "b", "c", "d")
    parts = [Together(names[:3], frozenset(pairs[:2])), Together(names[1:], frozenset(pairs[1:]))]
    found = count([*parts, Together(names, frozenset(pairs))], asked)
    assert found[names[:3]] == found[names[1:]] == pytest.approx(1 / 8, rel=0.01)
    assert found[names] < 1e-6, "of 2.5 million tuples one might"
    few = {pair: AllPairs(one.could[:, :1, :1], one.passed[:, 20:21, :1]) for pair, one in asked.items()}
    told = count([Together(names, frozenset(pairs))], few)
    assert told[names] == pytest.approx(math.prod(map(share_of, few.values())), rel=0.5), "of one nothing"


def test_what_could_not_be_in_one_match_does_not_count() -> None:
    """Before noon all pass, afterwards none: of tuples of one time of day, half of all, as of pairs."""
    morning = np.repeat([True, False], 50)
    could = morning[:, None] == morning[None, :]
    passed = could & morning[:, None]
    asked = {pair: one_window(could, passed) for pair in (("a", "b"), ("b", "c"), ("c", "d"))}
    found = count([Together(("a", "b", "c", "d"), frozenset(asked))], asked)
    assert found["a", "b", "c", "d"] == pytest.approx(0.5, rel=0.01)


def test_sets_of_a_chain_and_of_a_circle() -> None:
    chain = "a.x < b.x AND b.x < c.x AND c.x < d.x"
    found = find_conditions(parse_query(f"PATTERN AND(A a, B b, C c, D d, E e) WHERE {chain} WITHIN 9")).together
    assert len(found) == 10, "four of three and one of four of a to d, and those with e"
    circle = find_conditions(parse_query(f"PATTERN AND(A a, B b, C c, D d) WHERE {chain} AND a.y = c.y WITHIN 9"))
    assert {one.names for one in circle.together} == {("a", "b", "d"), ("a", "c", "d"), ("b", "c", "d")}
    query = "PATTERN SEQ(A a, B b, C c, D d) WHERE b.x < d.x WITHIN 9 PARTITION BY k"
    keyed = {one.names: one for one in find_conditions(parse_query(query)).together}
    assert len(keyed) == 5 and keyed["b", "c", "d"].needless == {("c", "d")}, "b and d have more to do with each other"
    assert keyed["a", "b", "c"].pairs == {("a", "b"), ("a", "c")} and keyed["a", "b", "c"].needless == {("b", "c")}
    names = [f"v{k}" for k in range(9)]
    many = " AND ".join(f"{x}.x < {y}.x" for x, y in pairwise(names))
    items = ", ".join(f"T{k} {name}" for k, name in enumerate(names))
    assert not find_conditions(parse_query(f"PATTERN SEQ({items}) WHERE {many} WITHIN 9")).together


PLAIN = [f"{one}.x {operator} {other}.x" for operator in COMPARISONS for one, other in ("ab", "ba")]
OTHERS = ["a.s = b.s", "b.s < a.s", "a.f >= b.x", "b.f != a.f", "a.t = b.t", "a.x < a.f", "a.n = b.n", "b.n <= a.x"]


@pytest.mark.parametrize("condition", [*PLAIN, *OTHERS, "a.x + 1 < b.x * 2", "a.x IN (b.x, 3)"])
@pytest.mark.parametrize("are_compiled", [False, True])
def test_rows_and_columns_are_asked_as_pairs_are(condition: str, are_compiled: bool) -> None:
    draw = np.random.default_rng(3)
    types = {"x": DType.INT, "s": DType.STRING, "n": DType.INT, "f": DType.FLOAT, "t": DType.BOOL}
    schema = Schema({"type": DType.STRING, "ts": DType.INT, **types})
    table = pa.table(
        {
            "x": draw.integers(0, 5, 40),
            "s": draw.choice(["red", "green", "blue"], 40),
            "n": pa.array([None if k % 3 else k % 4 for k in range(40)], pa.int64()),
            "f": [math.nan if k % 7 == 0 else k % 5 / 2 for k in range(40)],
            "t": draw.random(40) < 0.5,
        }
    )
    sample = Sample(table, np.arange(40), np.arange(40), np.arange(40))
    query = parse_query(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 9")
    assert query.where is not None
    (asked,) = conjuncts_of(query.where)
    evaluate = evaluating(schema, sampled.comparing()) if are_compiled else evaluating(schema)

    def passes(x: Chosen, y: Chosen) -> np.ndarray:
        return evaluate(asked, {"a": x, "b": y})

    left, right = (Rows(sample, places[None], np.array([len(places)])) for places in (np.arange(30), np.arange(5, 40)))
    could, passed = ask_all_pairs(left, right, passes, near=sampled.arithmetic().near if are_compiled else near)
    assert not could[0, 10, 5] and could.sum() == 30 * 35 - 25, "an event does not pair with itself"
    _, x, y = np.nonzero(could)
    flat = passes(Chosen(sample, x), Chosen(sample, y + 5))
    assert np.array_equal(passed[0, x, y], flat) and flat.any() and not flat.all()


@pytest.mark.parametrize("lasting", [0, 30])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("near", [near, sampled.arithmetic().near])
def test_pairs_in_reach_of_each_other(near: Near, ordered: bool, lasting: int) -> None:
    """Events that last begin before they end, and are in a match with others that begin or end in reach of both."""
    end = np.sort(np.random.default_rng(0).integers(0, 500, 120))
    begin = end - lasting if lasting else end
    left, right = (
        Chosen(Sample(pa.table({}), begin, end, first + np.arange(120)), np.arange(120)).in_rows([(-1, 600)], 120)
        for first in (0, 200)
    )
    everything = np.ones((1, 120, 120), np.bool_)
    could, _ = ask_all_pairs(left, right, lambda _x, _y: everything, within=200, ordered=ordered, near=near)
    for i, j in product(range(120), repeat=2):
        is_near = max(end[i], end[j]) - min(begin[i], begin[j]) < 200
        assert could[0, i, j] == (is_near and (end[i] < begin[j] or not ordered))


@pytest.mark.parametrize("ordered", [False, True])
def test_pairs_of_several_stretches(ordered: bool) -> None:
    """What is left of a shorter row is of no event, by loops as by NumPy; and no event pairs with itself."""
    sample = Sample(pa.table({}), *[np.arange(200)] * 3)
    bounds = [(120.0, 199.0), (99.0, 110.0), (10.0, 99.0)]
    left, right = (Chosen(sample, places).in_rows(bounds, 40) for places in (np.arange(150), np.arange(50, 200)))
    by_loops, by_numpy = (one(left, right, 30.0, ordered) for one in (sampled.arithmetic().near, near))
    assert np.array_equal(by_loops, by_numpy) and by_loops.any()
    assert by_loops.shape == (3, *(rows.places.shape[1] for rows in (left, right)))
    assert not by_loops[1, 11:].any() and not by_loops[1, :, 11:].any()


def test_rows_are_stretches_of_time() -> None:
    """Those that end after one time and up to another, thinned; what is left of a row is of no event."""
    sample = Sample(pa.table({}), *[np.arange(100)] * 3)
    rows = Chosen(sample, np.arange(10, 60)).in_rows([(49, 99), (9, 49), (-5, 9)], 20)
    assert rows.numbers.tolist() == [10, 20, 0]
    assert rows.places[0, :10].tolist() == list(range(50, 60))
    assert rows.places[1].tolist() == list(range(10, 50, 2))
    assert rows.are_events.sum() == 30


def test_each_window_says_as_much_as_another() -> None:
    """A window in which more is sampled does not outweigh the others, one in which hardly anything is says less."""
    dense = Tallies.of(np.array([[1e6], [1e3]]), np.array([[0.0], [900.0]]))
    assert dense.shares[0] == pytest.approx(0.9 * 1e3 / (1e3 + 1e6 / 2), rel=0.01)
    alike = Tallies.of(np.array([[1e3], [1e3]]), np.array([[0.0], [900.0]]))
    assert alike.shares[0] == pytest.approx(0.45)
    both = alike.then(Tallies.of(np.array([[1e6]]), np.array([[1e5]])), 1.0)
    assert both.shares[0] == pytest.approx((0.45 * 2 + 0.1) / 3) and both.windows[0] == 3
    assert alike.then(dense, 0.0).shares[0] == alike.shares[0], "of windows that were counted before"


def test_what_was_counted_long_ago_counts_less() -> None:
    quiet, loud = (Tallies.of(np.array([[1e3]]), np.array([[found]])) for found in (0.0, 1e3))
    counted = quiet
    for _ in range(200):
        counted = counted.then(quiet, 1.0)
    for _ in range(32):
        counted = counted.then(loud, 1.0)
    assert 0.5 < counted.shares[0] < 0.7 and counted.windows[0] <= together.MOST_WINDOWS + 1
    assert counted.fade(2.0).then(loud, 1.0).shares[0] > counted.shares[0] + 0.1
    assert Tallies.load(counted.dump()).number(0) == counted.number(0)
