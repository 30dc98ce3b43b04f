"""Planners: the papers' examples, hand-worked ones, and brute force."""

from __future__ import annotations

import random

import pytest

from ensue.errors import PlanError, StateError
from ensue.language import parse_query
from ensue.pattern.normalize import Variable, normalize
from ensue.planning.bushy import LIMIT as BUSHY_LIMIT
from ensue.planning.bushy import BushyTree
from ensue.planning.comparisons import Growth, TreeCost, dump_comparison, load_comparison, show
from ensue.planning.cost import Costs
from ensue.planning.figures import Shape, by_hand, figures_of
from ensue.planning.greedy import GreedyOrder, RateOrder
from ensue.planning.orders import LIMIT as ORDER_LIMIT
from ensue.planning.orders import OptimalOrder
from ensue.planning.plan import (
    Join,
    check_plan,
    dump_tree,
    every_order,
    every_tree,
    left_deep,
    load_tree,
    variables_of,
)
from ensue.planning.planners import PLANNERS, Planner, make_plan, planner_named
from ensue.planning.zstream import ZStreamTree
from ensue.statistics.snapshot import Estimate, Statistics

from .drifting import conjunction, random_figures, random_shape, sequence


def test_rates_of_the_paper() -> None:
    """Example 1: cameras A, B and C with rates 100, 15 and 10; figure 4 has the comparisons."""
    planned = RateOrder().plan(by_hand(sequence("abc"), 1.0, [100.0, 15.0, 10.0], {}))
    assert variables_of(planned.tree) == ("c", "b", "a")
    assert [[str(c) for c in block.comparisons] for block in planned.blocks] == [
        ["events(c) < events(a)", "events(c) < events(b)"],
        ["events(b) < events(a)"],
        [],
    ]
    assert planned.blocks[0].comparisons[1].values == (10.0, 15.0)


def test_greedy_by_hand() -> None:
    """b (4) is rarest; then a adds 10 · 0.1 = 1 for each, c adds 5: a, and c is left."""
    planned = GreedyOrder().plan(by_hand(conjunction("abc"), 1.0, [10.0, 4.0, 5.0], {("a", "b"): 0.1}))
    assert variables_of(planned.tree) == ("b", "a", "c")
    assert planned.cost == pytest.approx(19 + 4 + 20)
    first, second, third = planned.blocks
    assert [c.values for c in first.comparisons] == [(4.0, 10.0), (4.0, 5.0)]
    (only,) = second.comparisons
    assert (only.left, only.right) == (Growth("a", frozenset("b"), "c"), Growth("c", frozenset("b"), "a"))
    assert only.values == pytest.approx((1.0, 5.0))
    assert third.comparisons == ()


def test_greedy_without_conditions_sorts_by_rate() -> None:
    rng = random.Random(1)
    for _ in range(50):
        rates = [rng.uniform(0.1, 10) for _ in range(6)]
        figures = by_hand(conjunction("abcdef"), 1.0, rates, {})
        assert GreedyOrder().plan(figures).tree == RateOrder().plan(figures).tree


def test_zstream_by_hand() -> None:
    """(a ⋈ b) and (c ⋈ d) are selective: 40 events, 10 + 10 pairs, 100 matches; left-deep has 100 triples beside."""
    figures = by_hand(conjunction("abcd"), 1.0, [10.0] * 4, {("a", "b"): 0.1, ("c", "d"): 0.1})
    planned = ZStreamTree().plan(figures)
    assert show(planned.tree) == "((a ⋈ b) ⋈ (c ⋈ d))"
    assert planned.cost == pytest.approx(40 + 10 + 10 + 100)
    assert [block.name for block in planned.blocks] == ["(a ⋈ b)", "(c ⋈ d)", "((a ⋈ b) ⋈ (c ⋈ d))"]
    alternatives = {str(c.right): c.values for c in planned.blocks[-1].comparisons}
    assert alternatives == {
        "parts(a ⋈ (b ⋈ (c ⋈ d)))": pytest.approx((60, 150)),
        "parts(((a ⋈ b) ⋈ c) ⋈ d)": pytest.approx((60, 150)),
    }


def test_zstream_of_the_paper() -> None:
    """Figure 3: over SEQ(A, B, C) the left-deep tree or the right-deep one, whichever pair is rarer."""
    left = ZStreamTree().plan(by_hand(sequence("abc"), 1.0, [1.0, 2.0, 9.0], {}))
    right = ZStreamTree().plan(by_hand(sequence("abc"), 1.0, [9.0, 2.0, 1.0], {}))
    assert (show(left.tree), show(right.tree)) == ("((a ⋈ b) ⋈ c)", "(a ⋈ (b ⋈ c))")
    assert left.cost == pytest.approx(12 + 1 + 3)
    (comparison,) = left.blocks[-1].comparisons
    assert comparison.values == pytest.approx((12 + 1, 12 + 9))


def test_optimal_order_beats_greedy() -> None:
    """Greedy starts with the rarest, a; b and c, tied closely, are the better start."""
    figures = by_hand(conjunction("abc"), 1.0, [9.0, 10.0, 10.0], {("b", "c"): 0.01})
    assert variables_of(GreedyOrder().plan(figures).tree) == ("a", "b", "c")
    planned = OptimalOrder().plan(figures)
    assert variables_of(planned.tree) == ("b", "c", "a")
    assert planned.cost == pytest.approx(29 + 1 + 9)


def test_rarer_of_the_first_two_is_first() -> None:
    planned = OptimalOrder().plan(by_hand(conjunction("abc"), 1.0, [3.0, 2.0, 50.0], {}))
    assert variables_of(planned.tree) == ("b", "a", "c")
    assert [str(c) for c in planned.blocks[0].comparisons] == ["events(b) < events(a)"]


@pytest.mark.parametrize("coarse", [False, True])
def test_optimal_order_is_optimal(coarse: bool) -> None:
    rng = random.Random(2)
    for _ in range(60):
        figures = random_figures(rng, random_shape(rng, 5, lists=0), coarse=coarse)
        costs = Costs(figures)
        assert OptimalOrder().plan(figures).cost == min(costs.whole(tree) for tree in every_order(figures.shape.names))


@pytest.mark.parametrize("coarse", [False, True])
def test_bushy_tree_is_optimal(coarse: bool) -> None:
    rng = random.Random(3)
    for _ in range(60):
        figures = random_figures(rng, random_shape(rng, 5, lists=0), coarse=coarse)
        costs = Costs(figures)
        assert BushyTree().plan(figures).cost == min(costs.whole(tree) for tree in every_tree(figures.shape.names))


def test_zstream_is_the_best_with_leaves_in_order() -> None:
    rng = random.Random(4)
    for _ in range(60):
        figures = random_figures(rng, random_shape(rng, 5, lists=0))
        costs = Costs(figures)
        names = figures.shape.names
        trees = [tree for tree in every_tree(names) if variables_of(tree) == names]
        assert ZStreamTree().plan(figures).cost == min(costs.whole(tree) for tree in trees)


def test_costs_are_in_order() -> None:
    """The wider the search, the lower the cost."""
    rng = random.Random(5)
    for _ in range(100):
        figures = random_figures(rng, random_shape(rng, 6, lists=0))
        cost = {name: planner.plan(figures).cost * (1 - 1e-12) for name, planner in PLANNERS.items()}
        assert cost["bushy"] <= min(cost["order"], cost["zstream"]) * (1 + 1e-11)
        assert cost["order"] <= min(cost["greedy"], cost["rate"]) * (1 + 1e-11)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_ties_go_by_the_text(planner: Planner) -> None:
    planned = planner.plan(by_hand(conjunction("abcd"), 1.0, [2.0] * 4, {}))
    assert variables_of(planned.tree) == ("a", "b", "c", "d")
    comparisons = [c for block in planned.blocks for c in block.comparisons]
    assert all(c.holds(Costs(by_hand(conjunction("abcd"), 1.0, [2.0] * 4, {}))) for c in comparisons)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_comparisons_hold_where_they_were_made(planner: Planner) -> None:
    rng = random.Random(6)
    for k in range(100):
        figures = random_figures(rng, random_shape(rng, 5), coarse=k % 2 == 0)
        costs = Costs(figures)
        planned = planner.plan(figures)
        assert planned == planner.plan(figures)
        assert sorted(variables_of(planned.tree)) == sorted(figures.shape.names)
        assert planned.cost == costs.whole(planned.tree)
        for block in planned.blocks:
            for comparison in block.comparisons:
                assert comparison.holds(costs)
                assert comparison.values == (comparison.left.value(costs), comparison.right.value(costs))
                assert load_comparison(dump_comparison(comparison)) == comparison


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_lists_are_joined_last(planner: Planner) -> None:
    variables = (
        Variable("k", "K", True, 1, None),
        Variable("a", "A"),
        Variable("l", "L", True, 0, 1),
        Variable("b", "B"),
    )
    planned = planner.plan(by_hand(Shape(variables), 1.0, [2.0, 5.0, 1.0, 9.0], {}))
    assert variables_of(planned.tree) == ("a", "b", "l", "k")
    assert [(c.left.name, c.right.name) for c in planned.blocks[-2].comparisons] == [("l", "k")]


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_lists_alone(planner: Planner) -> None:
    variables = (Variable("k", "K", True, 1, None), Variable("l", "L", True, 1, None))
    planned = planner.plan(by_hand(Shape(variables), 1.0, [2.0, 1.0], {}))
    assert variables_of(planned.tree) == ("l", "k")


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_single_variable(planner: Planner) -> None:
    planned = planner.plan(by_hand(conjunction("a"), 2.0, [3.0], {}))
    assert planned.cost == 6.0 and all(not block.comparisons for block in planned.blocks)


def test_many_variables_fall_back() -> None:
    def wide(count: int) -> Shape:
        return Shape(tuple(Variable(f"v{k:02}", f"T{k}") for k in range(count)))

    figures = by_hand(wide(ORDER_LIMIT + 1), 1.0, [float(k % 5 + 1) for k in range(ORDER_LIMIT + 1)], {})
    assert OptimalOrder().plan(figures) == GreedyOrder().plan(figures)
    figures = by_hand(wide(BUSHY_LIMIT + 1), 1.0, [float(k % 5 + 1) for k in range(BUSHY_LIMIT + 1)], {})
    assert BushyTree().plan(figures) == ZStreamTree().plan(figures)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=lambda p: p.name)
def test_plans_fit_their_query(planner: Planner) -> None:
    query = parse_query("PATTERN OR(SEQ(A a, B+ b[], C c), AND(D d, SEQ(E e, !N n, F f))) WITHIN 10")
    branches = normalize(query)
    statistics = Statistics(10.0, {name: Estimate(float(k + 1)) for k, name in enumerate("ABCDEF")}, {}, {})
    planned = [planner.plan(figures_of(branch, 10.0, statistics)) for branch in branches]
    plan = make_plan(planned)
    check_plan(plan, branches)
    assert all(isinstance(tree, Join) and tree.stored for tree in plan.trees)
    assert not any(isinstance(tree, Join) and tree.stored for tree in make_plan(planned, stored=False).trees)


def test_planner_named() -> None:
    assert planner_named("bushy") == BushyTree()
    with pytest.raises(PlanError, match="take one of rate, greedy, order, zstream, bushy"):
        planner_named("best")


def test_trees_as_data() -> None:
    tree = left_deep("abc")
    assert load_tree(dump_tree(tree)) == tree
    with pytest.raises(StateError, match="no tree of joins"):
        load_tree(["a"])
    assert str(TreeCost(tree)) == "parts((a ⋈ b) ⋈ c)"
