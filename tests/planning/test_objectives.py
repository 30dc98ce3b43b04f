"""What plans rank by where they are chosen for throughput."""

from __future__ import annotations

from itertools import permutations

import pytest

from ensue.pattern.normalize import Variable
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures, Shape, by_hand
from ensue.planning.objectives import ForThroughput
from ensue.planning.plan import Plan, left_deep
from ensue.planning.planners import planner_named

from .drifting import conjunction

AIM = ForThroughput(planner_named("zstream"))


def rank(figures: Figures, order: str) -> float:
    return AIM.prospect([figures]).rank(Plan((left_deep(order),)))


def test_plans_rank_by_all_but_their_matches() -> None:
    figures = by_hand(conjunction("abc"), 1.0, [10.0, 20.0, 4.0], {("a", "b"): 0.01})
    # buffered: 34; a ⋈ b: 2, b ⋈ c: 80; and 8 matches, which do not count
    assert rank(figures, "abc") == pytest.approx(34 + 2)
    assert rank(figures, "bca") == pytest.approx(34 + 80)


@pytest.mark.parametrize("lists", ["l", "lm"])
def test_what_lists_are_joined_to_last_counts_but_they_do_not(lists: str) -> None:
    """They are looked for at each of these, so that plans which only differ before that hardly differ in time."""
    singles = tuple(Variable(name, name.upper()) for name in "abc")
    shape = Shape((*singles, *(Variable(name, name.upper(), True, 1, None) for name in lists)))
    figures = by_hand(shape, 1.0, [10.0, 20.0, 4.0, *[25.0 for _ in lists]], {("a", "b"): 0.01})
    costs, whole = Costs(figures), {}
    for order in permutations("abc"):
        name = "".join(order)
        whole[name] = rank(figures, name + lists)
        assert whole[name] == costs.tree(left_deep(name)) < costs.tree(left_deep(name + lists)) / 1e6
    assert whole["abc"] == pytest.approx(34 + 2 + 8) and whole["bca"] == pytest.approx(34 + 80 + 8)


def test_where_lists_stand_makes_no_difference() -> None:
    """They are made last wherever that is; but if there is nothing else, they are all there is to compare."""
    variables = (Variable("a", "A"), Variable("l", "L", True, 1, None), Variable("b", "B"))
    figures = by_hand(Shape(variables), 1.0, [2.0, 3.0, 4.0], {})
    assert rank(figures, "lab") == rank(figures, "alb") == rank(figures, "abl") == Costs(figures).tree(left_deep("ab"))
    alone = by_hand(Shape(variables[1:2]), 1.0, [3.0], {})
    assert rank(alone, "l") == Costs(alone).parts(left_deep("l"))
