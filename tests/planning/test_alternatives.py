"""Plans to be tried where costs seem to be wrong."""

from __future__ import annotations

import random

import pytest

from ensue.planning.alternatives import near_trees, other_trees, outline_of
from ensue.planning.cost import Costs
from ensue.planning.plan import Plan, every_tree, left_deep, variables_of
from ensue.planning.planners import planner_named
from tests.planning.drifting import conjunction, random_figures, random_shape


@pytest.mark.parametrize("seed", range(50))
def test_other_plans_bind_all_variables_and_begin_with_each(seed: int) -> None:
    dice = random.Random(seed)
    shape = random_shape(dice, 6)
    figures = random_figures(dice, shape)
    trees = list(other_trees(Costs(figures)))
    assert all(sorted(variables_of(tree)) == sorted((*shape.singles, *shape.lists)) for tree in trees)
    assert {variables_of(tree)[0] for tree in trees} >= set(shape.singles)
    for planner in ("rate", "zstream"):
        assert planner_named(planner).plan(figures).tree in trees


@pytest.mark.parametrize("seed", range(20))
def test_near_plans_bind_all_variables_and_lists_stay_last(seed: int) -> None:
    dice = random.Random(seed)
    shape = random_shape(dice, 6)
    figures = random_figures(dice, shape)
    tree = planner_named("greedy").plan(figures).tree
    mine = outline_of(Plan((tree,)))
    lists = len(shape.lists)
    for near in near_trees(tree, figures):
        assert sorted(variables_of(near)) == sorted(shape.names)
        assert outline_of(Plan((near,))) != mine
        assert not lists or set(variables_of(near)[-lists:]) == set(shape.lists)


def test_steps_lead_from_any_plan_to_any_other() -> None:
    figures = random_figures(random.Random(1), conjunction("abcde"))
    reached = {outline_of(Plan((tree := left_deep("abcde"),))): tree}
    while True:
        more = {outline_of(Plan((near,))): near for one in reached.values() for near in near_trees(one, figures)}
        if more.keys() <= reached.keys():
            break
        reached = more | reached
    assert reached.keys() == {outline_of(Plan((tree,))) for tree in every_tree("abcde")}


def test_plans_that_differ_in_sides_are_alike() -> None:
    one, other = (Plan((left_deep(order, stored=True),)) for order in ("abc", "bac"))
    assert outline_of(one) == outline_of(other) != outline_of(Plan((left_deep("acb", stored=True),)))
    assert outline_of(one) != outline_of(Plan((left_deep("abc"),))), "what is stored differs"
