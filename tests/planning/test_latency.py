"""The expected latency of plans: figures worked out by hand, and what must hold for all of them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from ensue.errors import PlanError
from ensue.language import parse_query
from ensue.pattern.normalize import Variable, normalize
from ensue.planning.comparisons import dump_comparison, load_comparison
from ensue.planning.cost import Costs
from ensue.planning.decisions import ByInvariants
from ensue.planning.eager_lazy import EagerLazy, final_variables, find_candidates
from ensue.planning.figures import Figures, Shape, by_hand, shape_of
from ensue.planning.invariants import Watch
from ensue.planning.latency import OVERLOAD, SWING, Latency, Timings, latency_of
from ensue.planning.plan import Join, Leaf, Plan, left_deep, variables_of

from .drifting import random_figures, random_shape

MS = Timings(predicate=1e-4, result=2e-4, insert=1e-3)
US = Timings(predicate=1e-6, result=10e-6, insert=100e-6)
FIVE = "PATTERN SEQ(A a, B b, C c, D d, E e) WHERE a.p < b.p AND b.q < c.q AND c.r < d.r AND d.s < e.s"
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))


def shape(text: str, *, partitioned: bool = False) -> Shape:
    (branch,) = normalize(parse_query(text))
    return shape_of(branch, partitioned=partitioned)


def paper(selectivities: tuple[float, ...], rate: float) -> Figures:
    """2,000 events of five types in the window, `rate` of them a second."""
    each = rate / 5 / 1000
    return by_hand(shape(FIVE), 2.0 / each / 5 * 1000, [each] * 5, dict(zip(PAIRS, selectivities, strict=True)))


def test_a_pair_by_hand() -> None:
    """200 a and 100 b a second; 2 a in the window, of which half pass: 1.0 and 1.4 ms of service."""
    figures = by_hand(shape("PATTERN SEQ(A a, B b) WHERE a.x < b.x"), 10.0, [0.2, 0.1], {("a", "b"): 0.5})
    found = latency_of(Costs(figures), left_deep(["b", "a"]), MS)
    assert found.mean == pytest.approx((200 * 1.0e-3 + 100 * 1.4e-3) / 300)
    assert found.utilisation == pytest.approx(0.34)
    assert found.wait == pytest.approx(300 * (2 * 1.0e-6 + 1.96e-6) / 3 / (2 * 0.66))
    assert found.wait == pytest.approx(3.0e-4)
    assert found.service == pytest.approx(1.4e-3)
    assert found.expected == pytest.approx(1.7e-3)
    calm = latency_of(Costs(figures.at_pace(500.0)), left_deep(["b", "a"]), MS)
    assert calm.pressed == calm.rank == pytest.approx(1.4e-3 + 450 * (2 * 1.0e-6 + 1.96e-6) / 3 / (2 * 0.49))
    reported = latency_of(Costs(figures), left_deep(["b", "a"]), replace(MS, report=1e-3))
    assert reported.service == pytest.approx(2.4e-3)  # of an event that has a match
    assert reported.mean == pytest.approx(found.mean + (1 - math.exp(-1)) * 1e-3 / 3)  # one match on average


def test_what_is_stored_decides_what_the_last_event_has_to_do() -> None:
    three = shape("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y")
    figures = by_hand(three, 10.0, [1.0, 1.0, 1.0], {("a", "b"): 0.1, ("b", "c"): 0.2}).at_pace(1.0)
    lazy = latency_of(Costs(figures), left_deep(["c", "b", "a"]), US)
    # c looks at 10 b and keeps 2; each of them at the 5 a before it, of which 0.5 pass
    assert lazy.service == pytest.approx((100 + (10 + 2 * 10) + (2 * 5 + 1 * 10)) * 1e-6)
    assert lazy.mean == pytest.approx((100 + 100 + 150) / 3 * 1e-6)
    eager = latency_of(Costs(figures), Join(Leaf("c"), left_deep(["a", "b"], stored=True)), US)
    # b looks at 10 a and keeps 1; c at 7.5 stored pairs, of which 5 are in the window, which is asked too, and 1 passes
    assert eager.mean == pytest.approx((100 + (100 + 10 + 10) + (100 + 2 * 7.5 + 10)) / 3 * 1e-6)
    assert eager.service == pytest.approx(125e-6)


def test_an_index_looks_at_what_it_finds_only() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.x < b.x"
    figures = by_hand(shape(text), 10.0, [1.0, 1.0], {("a", "b"): 0.1}).at_pace(1.0)
    found = latency_of(Costs(figures), left_deep(["b", "a"]), US)
    assert found.service == pytest.approx((100 + 1 + 10) * 1e-6)  # of 10 a one has the key; a.x < b.x is asked of it
    by_key = by_hand(shape("PATTERN SEQ(A a, B b)", partitioned=True), 10.0, [1.0, 1.0], {("a", "b"): 0.1})
    assert latency_of(Costs(by_key.at_pace(1.0)), left_deep(["b", "a"]), US).service == pytest.approx(110e-6)


def test_one_event_may_serve_two_variables_and_few_may_pass() -> None:
    figures = by_hand(Shape((Variable("x", "A"), Variable("y", "A")), frozenset({("x", "y")})), 10.0, [1.0, 1.0], {})
    figures = figures.moved("sel(y)", 0.5).at_pace(1.0)
    found = latency_of(Costs(figures), left_deep(["y", "x"]), US)
    assert found.mean == pytest.approx((100 + 0.5 * 10 * 10) * 1e-6)  # half the events look back at ten
    assert found.utilisation == pytest.approx(found.mean)  # one event a second, not two
    assert found.service == pytest.approx(200e-6)


def test_overload_is_ranked_by_service_rate() -> None:
    slow = by_hand(shape("PATTERN SEQ(A a, B b) WHERE a.x < b.x"), 10.0, [0.2, 0.1], {("a", "b"): 0.5})
    fast = slow.at_pace(1000.0 / 0.34)
    found = latency_of(Costs(fast), left_deep(["b", "a"]), MS)
    assert found.wait == math.inf and found.expected == math.inf
    assert found.rank == OVERLOAD * found.mean
    nearly = latency_of(Costs(slow.at_pace(1000.0 / 0.3401)), left_deep(["b", "a"]), MS)
    assert nearly.expected < found.rank
    busy = latency_of(Costs(slow.at_pace(1001.0 / 0.34 / SWING)), left_deep(["b", "a"]), MS)
    assert busy.utilisation < 0.34 and busy.pressed == math.inf and busy.rank == OVERLOAD * busy.mean
    assert Latency(math.inf, 1.0, 1.1, 2e-6).rank < Latency(math.inf, 0.1, 1.2, 3e-6).rank


def test_a_plan_that_does_less_is_taken_before_one_that_is_quicker_on_average() -> None:
    """The busier it is, the more its work counts."""
    busy, lean = Latency(4e-6, 10e-6, 0.30, 4.5e-6), Latency(3e-6, 11.5e-6, 0.25, 4e-6)
    assert busy.expected < lean.expected
    assert SWING == 3.0 and lean.rank == pytest.approx((3 * 3 * 0.75 / 0.25 + 11.5) * 1e-6)
    assert lean.rank < busy.rank
    seldom = [replace(one, wait=one.wait / 100, utilisation=one.utilisation / 100) for one in (busy, lean)]
    assert seldom[0].rank < seldom[1].rank


def test_nothing_comes() -> None:
    figures = by_hand(shape("PATTERN SEQ(A a, B b)"), 10.0, [0.0, 0.0], {})
    found = latency_of(Costs(figures), left_deep(["b", "a"]), US)
    assert (found.wait, found.utilisation, found.service) == (0.0, 0.0, 100e-6)


@pytest.mark.parametrize("bad", [(-1.0, 1.0, 1.0), (math.nan, 1.0, 1.0), (1.0, 1.0, 0.0)])
def test_timings_are_times(bad: tuple[float, float, float]) -> None:
    with pytest.raises(PlanError, match="timings are seconds"):
        Timings(*bad)


def test_candidates_of_the_paper() -> None:
    """The three cases of table 2: the order of matching, and the plans that follow from cutting it."""
    found = find_candidates(paper((0.008, 0.006, 0.004, 0.002), 100), US)
    assert [one.name for one in found] == [
        "/ d e c b a",
        "d / e c b a",
        "d e / c b a",
        "c d e / b a",
        "b c d e / a",
        "a b c d e /",
    ]
    assert [str(Plan((one.tree,))) for one in found[2:]] == [
        "((((e ⋈ d) ⋈ c) ⋈ b) ⋈ a)",
        "(((e ⋈ (c ⋈ d)*) ⋈ b) ⋈ a)",
        "((e ⋈ ((b ⋈ c)* ⋈ d)*) ⋈ a)",
        "(e ⋈ (((a ⋈ b)* ⋈ c)* ⋈ d)*)",
    ]
    assert find_candidates(paper((0.002, 0.004, 0.006, 0.008), 100), US)[0].name == "/ a b c d e"
    assert find_candidates(paper((0.006, 0.002, 0.004, 0.008), 100), US)[3].name == "b c d / a e"


def test_more_is_lazy_the_faster_events_come() -> None:
    def chosen(selectivities: tuple[float, ...], rate: float) -> str:
        planned = EagerLazy(Timings(1e-6, 10e-6, 50e-6)).plan(paper(selectivities, rate))
        return str(Plan((planned.tree,)))

    rates = (10, 2_000, 100_000)
    eager = "(e ⋈ (((a ⋈ b)* ⋈ c)* ⋈ d)*)"
    lazy = "((((e ⋈ d) ⋈ c) ⋈ b) ⋈ a)"
    assert [chosen((0.008, 0.006, 0.004, 0.002), rate) for rate in rates] == [eager, lazy, lazy]
    hybrid = "((e ⋈ ((b ⋈ c)* ⋈ d)*) ⋈ a)"  # the part of the best order that is that of the pattern stays eager
    assert [chosen((0.006, 0.002, 0.004, 0.008), rate) for rate in rates] == [eager, hybrid, hybrid]
    forwards = {chosen((0.002, 0.004, 0.006, 0.008), rate) for rate in rates}
    assert forwards == {eager}  # where the orders agree, eager is best at any rate


def test_the_merge_takes_the_cheapest_order() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x AND b.y < c.y"
    figures = by_hand(shape(text), 10.0, [1.0, 1.0, 1.0], {("a", "c"): 0.01, ("b", "c"): 0.9})
    assert variables_of(find_candidates(figures, US)[0].tree) == ("c", "a", "b")


def test_the_last_variables() -> None:
    assert final_variables(shape("PATTERN SEQ(A a, AND(B b, C c))")) == ("b", "c")
    assert final_variables(shape("PATTERN SEQ(A a, B b, C? c[])")) == ("b", "c")
    assert final_variables(shape("PATTERN SEQ(A a, B+ b[])")) == ("b",)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_the_pattern(seed: int) -> None:
    """Any shape has l + 1 candidates over all its variables; the one that is taken is the best of them."""
    rng = random.Random(seed)
    figures = random_figures(rng, random_shape(rng, 6)).at_pace(rng.choice([1.0, 1e3, 1e5]))
    found = find_candidates(figures, US)
    assert len(found) == len(figures.shape.names) + 1
    for one in found:
        assert sorted(variables_of(one.tree)) == sorted((*one.eager, *one.lazy)) == sorted(figures.shape.names)
    planned = EagerLazy(US).plan(figures)
    assert planned == EagerLazy(US).plan(figures)
    assert planned.cost == min(one.latency.rank for one in found)
    assert planned.tree in [one.tree for one in found]


@pytest.mark.parametrize("seed", range(10))
def test_comparisons_of_latencies_are_invariants(seed: int) -> None:
    """As events come faster or slower: one is broken if and only if another plan is taken."""
    rng = random.Random(seed)
    planner = EagerLazy(Timings(1e-6, 10e-6, 50e-6))
    figures = paper(rng.choice([(0.008, 0.006, 0.004, 0.002), (0.006, 0.002, 0.004, 0.008)]), 10 ** rng.uniform(1, 5))
    planned = planner.plan(figures)
    decision = ByInvariants(Watch(count=None)).armed(figures, planned)
    changed = 0
    for _ in range(30):
        now = figures.at_pace(1000 * 10 ** rng.uniform(-2, 2))
        other = planner.plan(now).tree != planned.tree
        assert (decision.wants(now) is not None) == other
        changed += other
    assert decision.invariants is not None
    for comparison in decision.invariants.comparisons:
        assert load_comparison(dump_comparison(comparison)) == comparison
    assert changed or planned.tree == planner.plan(figures.at_pace(1e9)).tree
