"""Plans to be tried where costs seem to be wrong."""

from __future__ import annotations

import random

import pytest

from ensue.planning.alternatives import other_trees
from ensue.planning.plan import variables_of
from ensue.planning.planners import planner_named
from tests.planning.drifting import random_figures, random_shape


@pytest.mark.parametrize("seed", range(50))
def test_other_plans_bind_all_variables_and_begin_with_each(seed: int) -> None:
    dice = random.Random(seed)
    shape = random_shape(dice, 6)
    figures = random_figures(dice, shape)
    trees = list(other_trees(figures))
    assert all(sorted(variables_of(tree)) == sorted((*shape.singles, *shape.lists)) for tree in trees)
    assert {variables_of(tree)[0] for tree in trees} >= set(shape.singles)
    for planner in ("rate", "zstream"):
        assert planner_named(planner).plan(figures).tree in trees
