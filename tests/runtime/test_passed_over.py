"""A plan that was not worth a replacement when it was made is not forgotten: it takes over once it is."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

import ensue
from ensue.planning.decisions import ByInvariants, Threshold, Unconditional
from ensue.planning.figures import Figures, by_hand
from ensue.planning.invariants import Watch
from ensue.planning.plan import Plan, left_deep
from ensue.runtime.adapting import Replanner
from ensue.runtime.journal import Entry
from ensue.runtime.lanes import Method, Swapped
from ensue.statistics.snapshot import Statistics
from tests.planning.drifting import conjunction, drifted, random_figures, random_shape

(QUERY,) = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10").queries
NOTHING = Statistics.uniform(QUERY)


def considered(one: Replanner, figures: Sequence[Figures], *, refused: bool = False) -> Entry | None:
    """What comes of a check under some figures, of each branch."""

    def swap(plan: Plan, method: Method) -> Swapped:
        return Swapped(None if refused else method, 100)

    return one.consider(lambda closely: (NOTHING, list(figures)), swap)


def of_rates(a: float, b: float, c: float) -> list[Figures]:
    return [by_hand(conjunction("abc"), 1.0, [a, b, c], {("b", "c"): 0.001})]


def replanner(decision: str = "invariants", branches: int = 1) -> Replanner:
    trees = tuple(left_deep("abc", stored=True) for _ in range(branches))
    return Replanner("q", Plan(trees), ensue.Adaptation(every=100, decision=decision))  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", ["invariants", "threshold", "unconditional"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_plan_that_saved_too_little_takes_over_once_it_saves_enough(decision: str, is_stored: bool) -> None:
    """All that is watched holds: the planner would make the plan again that is not in use."""
    one = replanner(decision)
    assert considered(one, of_rates(1, 10, 10)) is not None
    first = one.plan
    considered(one, of_rates(1, 10, 8))
    assert one.plan == first, "7 % are not worth it"
    if is_stored:
        other = replanner(decision)
        other.plan = first
        other.load_decisions(json.loads(json.dumps(one.dump_decisions())), is_known=True)
        one = other
    entry = considered(one, of_rates(1.9, 10, 4))
    assert entry is not None and entry.replaced and one.plan != first
    if decision == "invariants":
        assert "which was passed over before, saves 33% of the cost by now" in entry.reason
        assert entry.left is not None and entry.right is not None and entry.right < 0.9 * entry.left
    assert considered(one, of_rates(1.9, 10, 4)) is None or decision == "unconditional", "that is over now"


@pytest.mark.parametrize("planner", ["rate", "greedy", "order", "zstream", "bushy"])
def test_no_more_than_the_gain_is_ever_missed_while_what_is_watched_holds(planner: str) -> None:
    """Random drifts, all comparisons watched: if the watched plan saves enough, it is in use after the check."""
    taken = missed = 0
    for seed in range(150):
        rng = random.Random(seed)
        figures = random_figures(rng, random_shape(rng, 5, least=3, lists=0.0))
        decision = ByInvariants(Watch(count=None))
        adaptation = ensue.Adaptation(planner=planner, decision=decision, every=100, gain=0.2)
        one = Replanner("q", Plan((left_deep(figures.shape.names, stored=True),)), adaptation)
        considered(one, [figures])
        for _ in range(8):
            figures = drifted(rng, figures)
            entry = considered(one, [figures])
            taken += entry is not None and entry.replaced and "passed over" in entry.reason
            prospect = adaptation.aim.prospect([figures])
            assert one._watched is not None
            missed += prospect.rank(one._watched) < 0.8 * prospect.rank(one.plan) - 1e-9
    assert missed == 0 and taken > 5


def test_branches_count_together_and_each_for_itself() -> None:
    """One that would save much of little waits until that is enough of all; one that has become dearer stays."""
    one = replanner(branches=2)
    considered(one, [*of_rates(1, 10, 10), *of_rates(100, 1000, 1000)])
    first = one.plan
    entry = considered(one, [*of_rates(1.9, 10, 2), *of_rates(100, 1000, 1000)])
    assert entry is not None and not entry.replaced, "46 % of next to nothing"
    assert considered(one, [*of_rates(1.9, 10, 2), *of_rates(50, 1000, 1000)]) is None
    entry = considered(one, [*of_rates(190, 1000, 200), *of_rates(0.1, 1, 1)])
    assert entry is not None and entry.replaced
    assert one.plan.trees[0] != first.trees[0] and one.plan.trees[1] == first.trees[1]


def test_what_could_not_take_over_waits_and_teaches_nothing() -> None:
    one = replanner()
    considered(one, of_rates(1, 10, 10))
    first = one.plan
    better = of_rates(5, 10, 2)
    entry = considered(one, better, refused=True)
    assert entry is not None and not entry.replaced and entry.replayed == 100 and one.plan == first
    assert "could not take over, 100 events again" in str(entry)
    (decision,) = one.decisions
    assert isinstance(decision, ByInvariants) and decision.dump()["distance"]["own"] == {}
    asked = [considered(one, better, refused=True) is not None for _ in range(30)]
    assert [k for k, is_asked in enumerate(asked) if is_asked] == [3, 11, 27], "after four checks, then eight, sixteen"
    for _ in range(40):
        considered(one, better)
    assert one.plan != first


def test_a_plan_that_was_put_in_by_hand_is_given_up_if_the_planners_saves_enough() -> None:
    one = replanner()
    considered(one, of_rates(1, 10, 10))
    planned, one.plan = one.plan, Plan((left_deep("acb", stored=True),))
    entry = considered(one, of_rates(1, 10, 100))
    assert entry is not None and entry.replaced and one.plan == planned


def test_other_methods_need_no_help() -> None:
    for decision in (Threshold(0.5), Unconditional()):
        one = Replanner("q", Plan((left_deep("abc", stored=True),)), ensue.Adaptation(every=100, decision=decision))
        for rates in ((1, 10, 10), (1, 10, 8), (1.9, 10, 4)):
            entry = considered(one, of_rates(*rates))
        assert entry is not None and entry.replaced and "passed over" not in entry.reason


def test_explain_tells_what_is_watched_but_not_in_use() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b, C c) WITHIN 30", adapt=ensue.Adaptation(every=500))
    events = [{"type": "AABC"[k % 4], "ts": k} for k in range(1_000)]
    engine.push(events)
    planned = engine.plan_of("q1")
    assert "planned last" not in engine.explain()
    engine.replace_plan("q1", Plan((left_deep("acb", stored=True),)))
    assert engine.plan_of("q1") != planned
    assert f"or when what was planned last, but is not in use, saves enough: {planned}, at " in engine.explain()


def test_a_plan_that_costs_nothing_and_is_not_ready_gives_way_to_one_that_is() -> None:
    """Where nothing comes any more all plans cost the same: the one that stores its joins, as asked for, takes over."""
    one = replanner()
    considered(one, of_rates(1, 10, 10))
    planned, one.plan = one.plan, Plan((left_deep("abc", stored=False),))
    entry = considered(one, of_rates(0, 0, 0))
    assert entry is not None and entry.replaced and one.plan == planned
    assert entry.reason == f"{planned}, which was passed over before, costs no more and is ready to take over"
