"""What plans cost: hand-worked numbers, and what has to hold of any cost."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest

from ensue.errors import PlanError
from ensue.language import parse_query
from ensue.pattern.normalize import Variable, normalize
from ensue.pattern.query import Query
from ensue.planning.cost import CHECK, LONGEST, Costs, absent_share, count_lists, share
from ensue.planning.figures import Figures, Shape, by_hand, figures_of, planning_window, shape_of
from ensue.planning.plan import Join, every_order, every_tree, left_deep, variables_of
from ensue.statistics.snapshot import Estimate, Statistics

from .drifting import conjunction, random_before, random_figures, random_shape, sequence


def test_order_by_hand() -> None:
    figures = by_hand(conjunction("abc"), 2.0, [5.0, 2.0, 2.5], {("a", "b"): 0.1})
    costs = Costs(figures)
    # buffered: 10 + 4 + 5 = 19; b ⋈ a: 4 · 10 · 0.1 = 4; with c: 4 · 5 = 20
    assert costs.tree(left_deep("bac")) == pytest.approx(19 + 4 + 20)
    assert costs.tree(left_deep("bca")) == pytest.approx(19 + 20 + 20)


def test_sequence_by_hand() -> None:
    figures = by_hand(sequence("abc"), 1.0, [6.0, 6.0, 6.0], {})
    costs = Costs(figures)
    assert costs.card(frozenset("ab")) == pytest.approx(36 / 2)
    assert costs.card(frozenset("ac")) == pytest.approx(36 / 2)
    assert costs.card(frozenset("abc")) == pytest.approx(216 / 6)


def test_conditions_that_share_an_event_by_hand() -> None:
    shape = replace(conjunction("abc"), triples=(("a", "b", "c"),))
    figures = by_hand(shape, 1.0, [4.0, 4.0, 4.0], {("a", "b"): 0.5, ("b", "c"): 0.5})
    together = Costs(Figures(shape, 1.0, {**figures.values, "joint(a, b, c)": 0.25}))
    assert Costs(figures).card(frozenset("abc")) == pytest.approx(16)
    assert together.card(frozenset("abc")) == pytest.approx(4)
    assert together.card(frozenset("ab")) == Costs(figures).card(frozenset("ab"))
    for rest, last in (("ab", "c"), ("bc", "a"), ("ac", "b")):
        assert together.growth(frozenset(rest), last) == pytest.approx(4 / together.card(frozenset(rest)))


def test_what_conditions_imply_by_hand() -> None:
    """A chain a, b, c, d: without b and c, d is tied to a; with one of them, by that."""
    implied = ((("a", "c"), frozenset("b")), (("b", "d"), frozenset("c")), (("a", "d"), frozenset("bc")))
    shape = replace(conjunction("abcd"), implied=implied)
    known = by_hand(shape, 1.0, [4.0] * 4, {("a", "b"): 0.5, ("b", "c"): 0.5, ("c", "d"): 0.5}).values
    shares = {"implied(a, c)": 0.25, "implied(b, d)": 0.25, "implied(a, d)": 0.125}
    costs = Costs(Figures(shape, 1.0, {**known, **shares}))
    assert costs.card(frozenset("ac")) == pytest.approx(16 * 0.25)
    assert costs.card(frozenset("ad")) == pytest.approx(16 * 0.125)
    assert costs.card(frozenset("abc")) == pytest.approx(64 * 0.5 * 0.5)
    assert costs.card(frozenset("abd")) == pytest.approx(64 * 0.5 * 0.25)
    assert costs.card(frozenset("abcd")) == pytest.approx(256 * 0.5**3)
    never = Costs(Figures(shape, 1.0, {**known, "implied(a, d)": 0.0}))
    assert never.card(frozenset("ad")) < 1e-6
    assert never.card(frozenset("abcd")) == pytest.approx(256 * 0.5**3)


def test_what_is_known_of_several_by_hand() -> None:
    """What holds of a, b and c together counts for them alone: of more it is known by itself, or not at all."""
    shape = conjunction("abcd")
    known = by_hand(shape, 1.0, [4.0] * 4, {("a", "b"): 0.5, ("b", "c"): 0.5}).values
    costs = Costs(Figures(shape, 1.0, {**known, "together(a, b, c)": 0.25, "together(a, b, c, d)": 2.0}))
    assert costs.card(frozenset("abc")) == pytest.approx(64 * 0.25 * 0.25)
    assert costs.card(frozenset("abd")) == pytest.approx(64 * 0.5)
    assert costs.card(frozenset("abcd")) == pytest.approx(256 * 0.25 * 2)
    assert costs.growth(frozenset("abc"), "d") == pytest.approx(4 * 8)
    assert costs.link(frozenset("ab"), frozenset("cd")) == pytest.approx(0.5 * 2)


def test_looks_by_hand() -> None:
    """A join of two sides looks at all of their pairs, or at those of one key."""
    shape = conjunction("abc")
    plain = by_hand(shape, 1.0, [10.0, 20.0, 4.0], {("a", "b"): 0.01, ("b", "c"): 0.5})
    assert Costs(plain.with_looks(0.0)).whole(left_deep("abc")) == Costs(plain).whole(left_deep("abc"))
    costs = Costs(plain.with_looks(0.1))
    assert costs.tree(left_deep("ab")) == pytest.approx(10 + 20 + 0.1 * 200 + 2)
    assert costs.parts(left_deep("ab")) == pytest.approx(10 + 20 + 0.1 * 200)
    assert costs.whole(left_deep("abc")) == pytest.approx(10 + 20 + 0.1 * 200 + 2 + 4 + 0.1 * 2 * 4 + 4)
    assert costs.step(frozenset("ab"), "c") == pytest.approx((0.5 * 4, 0.1 * 4))
    assert costs.step(frozenset(), "c") == (4.0, 0.0)
    tied = replace(plain, shape=replace(shape, keyed=frozenset({frozenset("ab")})))
    assert Costs(tied.with_looks(0.1)).parts(left_deep("ba")) == pytest.approx(10 + 20 + 0.1 * 2)
    follows = replace(tied, shape=replace(tied.shape, keyed=frozenset({frozenset("ac")})))
    follows = follows.moved("implied(a, c)", 0.25).with_looks(0.1)
    assert Costs(follows).parts(left_deep("ac")) == pytest.approx(10 + 4 + 0.1 * 40 * 0.25)


def test_lists_are_not_looked_at() -> None:
    variables = (Variable("a", "A"), Variable("b", "B", True, 1, None), Variable("c", "C"))
    figures = by_hand(Shape(variables), 1.0, [2.0, 3.0, 4.0], {})
    for order in ("acb", "abc", "bca"):
        tree = left_deep(order)
        assert Costs(figures.with_looks(0.5)).tree(tree) - Costs(figures).tree(tree) == pytest.approx(0.5 * 8), order
    growth = Costs(figures).growth(frozenset("ac"), "b")
    assert Costs(figures.with_looks(0.5)).step(frozenset("ac"), "b") == (growth, 0.0)


def test_what_to_join_first_where_looks_count() -> None:
    """Whoever leaves less of many partial matches comes first, though looking for it takes longer.

    100 b of which one in 100 fits, 10 c of which all do; a look counts 0.1. For one a: b and then c looks at 100 + 10
    and holds 1 + 10, c and then b looks at 10 + 10 · 100 and holds 10 + 10.
    """
    figures = by_hand(conjunction("abc"), 1.0, [1.0, 100.0, 10.0], {("a", "b"): 0.01}).with_looks(0.1)
    costs, a = Costs(figures), frozenset("a")
    assert costs.step(a, "b") == pytest.approx((1.0, 10.0)) and costs.step(a, "c") == pytest.approx((10.0, 1.0))
    assert costs.ahead(a, "b", "c") == pytest.approx(1 + 10 + 1)
    assert costs.ahead(a, "c", "b") == pytest.approx(10 + 1 + 100)
    assert costs.first(a, "cb") == "b"
    events, matches = 111.0, 10.0
    for order, rival in (("abc", "c"), ("acb", "b")):
        cost = events + costs.ahead(a, order[1], rival) + matches
        assert costs.tree(left_deep(order)) == pytest.approx(cost), order


def test_who_comes_first_is_a_total_order_and_the_cheaper_one_of_two() -> None:
    rng = random.Random(5)
    for _ in range(400):
        names = "abcdef"
        selectivities = {("a", name): 10 ** rng.uniform(-4, 0) for name in names[1:]}
        rates = [1.0, *(10 ** rng.uniform(-1, 4) for _ in names[1:])]
        costs = Costs(by_hand(conjunction(names), 1.0, rates, selectivities).with_looks(rng.choice((0.0, 0.03, 1.0))))
        a = frozenset("a")
        order = [*names[1:]]
        for k in range(len(order) - 1):  # picked one by one
            first = costs.first(a, order[k:])
            order.remove(first)
            order.insert(k, first)
        for one, other in combinations(order, 2):
            assert costs.ahead(a, one, other) <= costs.ahead(a, other, one) * (1 + 1e-9)
        best = min(permutations(names[1:]), key=lambda rest: costs.parts(left_deep(("a", *rest))))
        cheapest, found = (costs.parts(left_deep(("a", *rest))) for rest in (best, order))
        assert found <= cheapest * (1 + 1e-9), "with conditions on a alone, greedy is best"


def test_equal_keys_that_follow_from_others_are_found_by_an_index() -> None:
    (branch,) = normalize(parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k AND a.x < c.y"))
    assert shape_of(branch).keyed == {frozenset("ab"), frozenset("bc")}
    (branch,) = normalize(parse_query("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k"))
    assert shape_of(branch).keyed == {frozenset("ab"), frozenset("bc"), frozenset("ac")}


def test_order_costs_what_its_tree_costs() -> None:
    """The paper's sum over prefixes (with the buffers, which any plan has) is ZStream's sum over nodes."""
    rng = random.Random(1)
    for _ in range(200):
        figures = random_figures(rng, random_shape(rng, 6)).with_looks(0.0)
        costs = Costs(figures)
        order = list(figures.shape.names)
        rng.shuffle(order)
        buffers = sum(costs.card(frozenset((name,))) for name in order)
        prefixes = sum(costs.card(frozenset(order[:k])) for k in range(2, len(order) + 1))
        assert costs.tree(left_deep(order)) == pytest.approx(buffers + prefixes)


def test_tree_costs_by_recursion() -> None:
    """ZStream's recursion, Card(T) = Card(L) · Card(R) · SEL(L, R), comes to the same as the product over the set."""
    rng = random.Random(2)
    for _ in range(50):
        figures = random_figures(rng, random_shape(rng, 5, lists=0))
        costs = Costs(figures)
        for tree in every_tree(figures.shape.names):
            nodes = [tree]
            while nodes:
                node = nodes.pop()
                if isinstance(node, Join):
                    left, right = frozenset(variables_of(node.left)), frozenset(variables_of(node.right))
                    joined = costs.card(left) * costs.card(right) * costs.link(left, right)
                    assert joined == pytest.approx(costs.card(left | right))
                    nodes += [node.left, node.right]


def test_growth_is_what_a_join_multiplies() -> None:
    rng = random.Random(3)
    for _ in range(200):
        figures = random_figures(rng, random_shape(rng, 6, lists=0))
        costs = Costs(figures)
        names = list(figures.shape.names)
        rng.shuffle(names)
        bound, name = frozenset(names[:-1]), names[-1]
        assert costs.card(bound) * costs.growth(bound, name) == pytest.approx(costs.card(bound | {name}))


def test_cost_is_monotone() -> None:
    rng = random.Random(4)
    for _ in range(500):
        figures = random_figures(rng, random_shape(rng, 5, lists=0.3))
        order = list(figures.shape.names)
        rng.shuffle(order)
        trees = [left_deep(order), next(every_tree(order))]
        name = rng.choice(list(figures.values))
        more = figures.moved(name, figures.values[name] * rng.uniform(1, 3))
        for tree in trees:
            before, after = Costs(figures).whole(tree), Costs(more).whole(tree)
            if name in ("rate(N)", "sel(n)"):  # of what must not come
                before, after = after, before
            assert after >= before * (1 - 1e-12), (name, tree)


def test_share_counts_linear_extensions() -> None:
    rng = random.Random(5)
    for _ in range(100):
        names = "abcdef"[: rng.randint(1, 6)]
        before = frozenset(random_before(rng, list(names)))
        chosen = [name for name in names if rng.random() < 0.8] or [names[0]]
        orders = list(permutations(chosen))
        good = [o for o in orders if all(o.index(x) < o.index(y) for x, y in before if x in o and y in o)]
        assert share(before, frozenset(chosen)) == pytest.approx(len(good) / len(orders))


def test_share_of_many() -> None:
    names = frozenset(f"v{k}" for k in range(30))
    assert share(frozenset(), names) == 1.0
    chain = frozenset((f"v{i}", f"v{k}") for k in range(30) for i in range(k))
    assert share(chain, names) == pytest.approx(1 / math.factorial(30))


def test_card_is_the_mean_of_what_windows_hold() -> None:
    """Events at random times: the partial matches of SEQ(a, AND(b, c)) in a window, counted in 4,000 windows."""
    before = frozenset({("a", "b"), ("a", "c")})
    figures = by_hand(Shape(conjunction("abc").variables, before), 2.0, [1.0, 2.0, 1.5], {})
    rng = np.random.default_rng(6)
    counts = []
    for _ in range(4000):
        a, b, c = (np.sort(rng.uniform(0, 2, rng.poisson(mean))) for mean in (2, 4, 3))
        after_b, after_c = len(b) - np.searchsorted(b, a), len(c) - np.searchsorted(c, a)
        counts.append(int((after_b * after_c).sum()))
    expected = Costs(figures).card(frozenset("abc"))
    assert expected == pytest.approx(2 * 4 * 3 / 3)
    assert abs(np.mean(counts) - expected) < 5 * np.std(counts) / math.sqrt(len(counts))


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected"),
    [(1, 1, 3.0), (0, 1, 4.0), (1, 2, 7.5), (2, 2, 4.5), (0, None, math.exp(3)), (2, None, math.exp(3) - 4)],
)
def test_lists(minimum: int, maximum: int | None, expected: float) -> None:
    assert count_lists(3.0, minimum, maximum) == pytest.approx(expected)


def test_lists_of_neighbours() -> None:
    assert count_lists(4.0, 1, 3, 0.5) == pytest.approx(4 + 16 / 2 * 0.5 + 64 / 6 * 0.25)
    assert count_lists(4.0, 0, None, 0.0) == 5.0
    assert count_lists(4.0, 2, None, 0.0) == 0.0
    assert count_lists(4.0, 1, None, 1e-9) == pytest.approx(4.0)


def test_many_lists_stay_comparable() -> None:
    numbers = [count_lists(events, 1, None) for events in (LONGEST - 1, LONGEST, LONGEST + 1, 1e3, 1e6, 1e9)]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    assert math.isfinite(numbers[-1])
    assert count_lists(LONGEST + 1e-6, 1, None) == pytest.approx(count_lists(LONGEST, 1, None), rel=1e-5)


def test_lists_multiply_by_what_is_in_reach() -> None:
    variables = (Variable("a", "A"), Variable("b", "B", True, 1, None), Variable("c", "C"))
    figures = by_hand(Shape(variables, sequence("abc").before), 3.0, [1.0, 2.0, 1.0], {("a", "b"): 0.5})
    costs = Costs(figures)
    # 6 events of b, of which half suit a, and a third of the places lies between a and c
    assert costs.growth(frozenset("ac"), "b") == pytest.approx(math.exp(1.0) - 1)
    assert costs.card(frozenset("abc")) == pytest.approx(3 * 3 / 2 * (math.exp(1.0) - 1))


@pytest.mark.parametrize("size", [1, 2, 5, 12])
@pytest.mark.parametrize("events", [0.0, 1e-9, 0.3, 3.0, 30.0, 34.0, 60.0, 1e3])
def test_gaps_without_an_event_as_the_integral_says(events: float, size: int) -> None:
    t = (np.arange(100_000) + 0.5) / 100_000
    expected = float(np.mean(size * (1 - t) ** (size - 1) * np.exp(-events * t)))
    assert absent_share(events, size) == pytest.approx(expected, rel=1e-4)


def test_an_absence_is_decided_where_its_neighbours_are_bound() -> None:
    """Partial matches with both are fewer; those with one of them are as many."""
    (branch,) = normalize(parse_query("PATTERN SEQ(A a, B b, !N n, C c) WHERE n.x > 0 AND n.k = a.k WITHIN 10"))
    plain = {name: Estimate(rate) for name, rate in (("A", 2.0), ("B", 2.0), ("C", 2.0))}
    pairs = {("a", "n"): Estimate(0.5)}
    many = Statistics(60.0, {**plain, "N": Estimate(8.0)}, {"n": Estimate(0.25)}, pairs)
    none = Statistics(60.0, {**plain, "N": Estimate(0.0)}, {"n": Estimate(0.25)}, pairs)
    costs, free = (Costs(figures_of(branch, 10.0, one).with_looks(0.03)) for one in (many, none))
    (gap,) = costs.figures.shape.gaps
    assert (gap.earlier, gap.later, gap.needed) == ("b", "c", frozenset("abc"))
    for names in ("ab", "bc", "ac"):
        assert costs.card(frozenset(names)) == free.card(frozenset(names))
    share = absent_share(10.0, 3)  # 8 · 0.25 · 0.5 in a unit of time
    assert costs.card(frozenset("abc")) == pytest.approx(share * free.card(frozenset("abc")))
    looks = 0.03 * free.card(frozenset("ab")) * free.card(frozenset("c"))
    assert costs.looks(frozenset("ab"), frozenset("c")) == pytest.approx(looks + CHECK * free.card(frozenset("abc")))


def test_absences_at_an_end_or_beside_a_list_do_not_multiply() -> None:
    for pattern in (
        "SEQ(!N n, A a, B b)",
        "SEQ(A a, B b, !N n)",
        "SEQ(A a, !N n, B+ b[])",
        "SEQ(AND(A a, B b), !N n, C c)",
    ):
        (branch,) = normalize(parse_query(f"PATTERN {pattern} WITHIN 10"))
        assert not shape_of(branch).gaps, pattern


def test_partial_matches_with_an_absence_are_as_many_as_expected() -> None:
    """A's before B's without an N between them, at random times: how many a window holds."""
    dice = np.random.default_rng(4)
    (branch,) = normalize(parse_query("PATTERN SEQ(A a, !N n, B b, C c) WITHIN 10"))
    rates = {"A": 2.0, "B": 1.5, "C": 1.0, "N": 0.8}
    costs = Costs(figures_of(branch, 10.0, Statistics(60.0, {k: Estimate(r) for k, r in rates.items()}, {}, {})))
    pairs, triples = [], []
    for _ in range(2_000):
        times = {kind: np.sort(dice.uniform(0, 10, dice.poisson(10 * rate))) for kind, rate in rates.items()}
        first, second = np.meshgrid(times["A"], times["B"], indexing="ij")
        free = (first < second) & (np.searchsorted(times["N"], first) == np.searchsorted(times["N"], second))
        pairs.append(free.sum())
        triples.append((free.sum(axis=0) * (times["B"][:, None] < times["C"]).sum(axis=1)).sum())
    assert costs.card(frozenset("ab")) == pytest.approx(np.mean(pairs), rel=0.03)
    assert costs.card(frozenset("abc")) == pytest.approx(np.mean(triples), rel=0.05)


def test_negation_adds_a_look_at_each_match() -> None:
    shape = sequence("ab")
    plain = by_hand(shape, 1.0, [4.0, 3.0], {})
    negated = by_hand(replace(shape, negations=("n",)), 1.0, [4.0, 3.0], {})
    tree = left_deep("ab")
    assert Costs(plain).whole(tree) == pytest.approx(7 + 6)
    assert Costs(negated).whole(tree) == pytest.approx(7 + 6 + 6)


def test_figures_of_a_snapshot() -> None:
    query = parse_query("PATTERN SEQ(A a, !N n, B+ b[], A c) WHERE a.x = c.x AND b.x > 1 WITHIN 10")
    (branch,) = normalize(query)
    statistics = Statistics(
        100.0,
        {"A": Estimate(2.0, 0.1), "B": Estimate(3.0), "N": Estimate(9.0)},
        {"b": Estimate(0.5), "n": Estimate(0.1)},
        {("a", "c"): Estimate(0.25, 0.01), ("a", "n"): Estimate(0.1)},
    )
    figures = figures_of(branch, 10.0, statistics)
    assert figures.values == {"rate(A)": 2.0, "rate(B)": 3.0, "sel(b)": 0.5, "sel(a, c)": 0.25}
    assert figures.variances["sel(a, c)"] == 0.01
    assert [figures.arrivals(name) for name in "abc"] == [2.0, 1.5, 2.0]
    assert figures.selectivity("c", "a") == 0.25 and figures.selectivity("a", "b") == 1.0
    assert figures.shape.lists == ("b",) and figures.shape.negations == ("n",)
    assert Figures.load(shape_of(branch), figures.dump()) == figures


@pytest.mark.parametrize(
    ("within", "time", "expected"),
    [("WITHIN 10", 10.0, 10.0), ("WITHIN 20 EVENTS", None, 4.0), ("WITHIN UNBOUNDED", None, 100.0)],
)
def test_window(within: str, time: float | None, expected: float) -> None:
    query: Query = parse_query(f"PATTERN SEQ(A a, B b) {within}")
    statistics = Statistics(100.0, {"A": Estimate(2.0), "B": Estimate(3.0)}, {}, {})
    assert planning_window(query, time, statistics) == expected


def test_figures_that_say_nothing() -> None:
    with pytest.raises(PlanError, match=r"rate\(A\) is -1"):
        Figures(conjunction("a"), 1.0, {"rate(A)": -1.0})
    with pytest.raises(PlanError, match="window of 0"):
        Figures(conjunction("a"), 0.0, {})


def test_moved_stays_in_range() -> None:
    figures = by_hand(conjunction("ab"), 1.0, [1.0, 1.0], {("a", "b"): 0.5})
    assert figures.moved("sel(a, b)", 1.5).values["sel(a, b)"] == 1.0
    assert figures.moved("rate(A)", -1.0).values["rate(A)"] == 0.0
    assert figures.moved("rate(A)", 7.0).values["rate(A)"] == 7.0


def test_cost_of_unseen_types_is_zero() -> None:
    figures = by_hand(sequence("abc"), 1.0, [0.0, 5.0, 5.0], {})
    costs = Costs(figures)
    assert min(costs.tree(tree) for tree in every_order("abc")) == pytest.approx(10.0)


def test_what_to_join_first_is_a_total_order_also_where_numbers_are_rounded() -> None:
    """b, c and d leave each partial match one, so that they are equal, however long it takes to look for them."""
    shares = {("a", "b"): 0.25, ("a", "c"): 0.5}
    figures = by_hand(conjunction("abcd"), 1.0, [0.5, 4.0, 2.0, 1.0], shares).with_looks(0.03)
    costs, a = Costs(figures), frozenset("a")
    assert [costs.weight(a, name) for name in "bcd"] == [1.0, 1.0, 1.0]
    for names in permutations("bcd"):
        assert costs.first(a, names) == names[0], "of equals the first one"
        assert costs.ahead(a, names[0], names[1]) == costs.ahead(a, names[1], names[0])
