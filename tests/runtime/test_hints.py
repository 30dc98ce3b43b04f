"""Comparisons of sub-plans that are no part of the plan: they tell that it may have to change."""

from __future__ import annotations

import ensue
from ensue.planning.decisions import ByInvariants
from ensue.planning.figures import Figures, by_hand
from ensue.planning.plan import Plan, left_deep
from ensue.planning.planners import PLANNERS
from ensue.runtime.adapting import Replanner
from ensue.runtime.journal import Entry
from ensue.runtime.lanes import Method, Swapped
from ensue.statistics.snapshot import Statistics
from tests.planning.drifting import conjunction

(QUERY,) = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10").queries


def of_pairs(ab: float, bc: float, cd: float) -> Figures:
    """Ten events of each of four types in a window, whose neighbours pass so often."""
    return by_hand(conjunction("abcd"), 1.0, [10.0] * 4, {("a", "b"): ab, ("b", "c"): bc, ("c", "d"): cd})


def replanner(gain: float) -> Replanner:
    adaptation = ensue.Adaptation(planner="zstream", every=100, gain=gain)
    return Replanner("q", Plan((left_deep("abcd", stored=True),)), adaptation)


def considered(one: Replanner, figures: Figures, raced: list[object] | None = None) -> Entry | None:
    def swap(plan: Plan, method: Method) -> Swapped:
        return Swapped(method, 100)

    def race(plans: object) -> None:
        assert raced is not None
        raced.append(plans)

    look = Statistics.uniform(QUERY), [figures]
    return one.consider(lambda closely: look, swap, None if raced is None else race)


def test_a_hint_finds_the_better_plan() -> None:
    """All comparisons of the plan's own joins hold, but a sub-plan beside it is another one now, and so is the best."""
    one = replanner(gain=0.02)
    considered(one, of_pairs(1.0, 0.5, 1.0))
    before = one.plan
    entry = considered(one, of_pairs(1.0, 0.5, 0.15))
    assert entry is not None and entry.replaced and one.plan != before
    assert "((b ⋈ c) ⋈ d) (no part of the plan): " in entry.reason and "no longer holds" in entry.reason
    assert PLANNERS["zstream"].plan(of_pairs(1.0, 0.5, 0.15)).tree == one._aim.bare(one.plan.trees[0])


def test_a_hint_that_nothing_comes_of_is_not_written_down_nor_raced_nor_learned_from() -> None:
    """b, c and d would be joined another way by now, but the plan joins a and b first, as before."""
    one = replanner(gain=0.1)
    considered(one, of_pairs(0.001, 0.8, 0.2))
    before = one.plan
    raced: list[object] = []
    for k in range(8):
        figures = of_pairs(0.001, *((0.2, 0.8) if k % 2 == 0 else (0.8, 0.2)))
        (decision,) = one.decisions
        reason = decision.wants(figures)
        assert isinstance(decision, ByInvariants) and decision.dump()["distance"]["own"] == {}
        assert reason is not None and reason.hint, "the comparisons are those of the last planning"  # type: ignore[union-attr]
        assert considered(one, figures, raced) is None
    assert one.plan == before and one.planned == 1 and raced == []


def test_a_hint_at_a_plan_that_was_passed_over_is_none() -> None:
    """It tells again of the plan that did not save enough when the planner made it, and does not save enough now."""
    one = replanner(gain=0.1)
    considered(one, of_pairs(0.05, 1.0, 0.5))
    considered(one, of_pairs(0.0587, 0.806, 0.385))
    assert one._watched is not None and one._watched.trees != one.plan.trees, "what the planner makes is not in use"
    before, hints = one.plan, 0
    for k in range(8):
        figures = of_pairs(0.0473, 0.865, 0.35) if k % 2 == 0 else of_pairs(0.254, 0.269, 0.667)
        (decision,) = one.decisions
        hints += getattr(decision.wants(figures), "hint", False)
        assert considered(one, figures) is None
    (decision,) = one.decisions
    assert one.plan == before and hints > 4
    assert isinstance(decision, ByInvariants) and decision.dump()["distance"]["own"] == {}
