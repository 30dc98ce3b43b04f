"""A plan that was in use is called back where events took less time with it, whatever costs and a burst speak for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

import ensue
from ensue.pattern.normalize import normalize
from ensue.planning.alternatives import outline_of
from ensue.planning.figures import Figures, figures_of
from ensue.planning.objectives import Prospect
from ensue.planning.plan import Plan, left_deep
from ensue.runtime.cadence import Cadence, Unevenness
from ensue.runtime.doubts import Doubts, Guess
from ensue.runtime.exploring import Explorer, Found, choose_plan
from ensue.runtime.trying import Race
from ensue.statistics.snapshot import Statistics

(QUERY,) = ensue.compile("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 30").queries
FIRST, BURST, OTHER = (Plan((left_deep(order),)) for order in ("abc", "bca", "cab"))
AIM = ensue.Adaptation().aim
EARLY = Race(8192, 2_000, 0.01, (1.0, 0.3), is_early=True)


def pace(seconds: float, events: int, stream: int = 0) -> Unevenness:
    """What events took that came in stretches of a thousand, unevenly."""
    found = Unevenness(stream=stream)
    for k in range(events // 1000):
        found.add(1000, 1000 * seconds * (0.2, 1.8)[k % 2])
    return found


def doubts(lately: Unevenness | None) -> Doubts:
    """Windows are long beside a race, which tells next to nothing."""
    return Doubts(windows=4.0, events=100_000.0, bursts=20_000.0, lately=lately)


def figures() -> Figures:
    (branch,) = normalize(QUERY)
    return figures_of(branch, 30.0, Statistics.uniform(QUERY))


def prospect(costs: dict[Plan, float]) -> Prospect:
    return Prospect((figures(),), lambda plan: costs.get(plan, 1e9), lambda: [()])


def test_how_much_longer_a_former_plan_took() -> None:
    slow = doubts(pace(2e-6, 200_000))
    told = slow.of_former(pace(0.5e-6, 1_000_000))
    assert told is not None and told.value == pytest.approx(0.25)
    assert told.is_surely_less
    soon = doubts(pace(2e-6, 1_000)).of_former(pace(0.5e-6, 1_000_000))
    assert soon is not None and not soon.is_surely_less, "a thousand events of a burst tell nothing"
    short = slow.of_former(pace(0.5e-6, 1_000))
    assert short is not None and not short.is_surely_less, "nor does a plan that was in use for a moment"
    assert not Guess(0.9, 0.0).is_surely_less, "it is not worth while"
    assert slow.of_former(pace(0.5e-6, 1_000_000, stream=1)) is None, "that was another stream"
    assert doubts(None).of_former(pace(0.5e-6, 1_000_000)) is None


def test_a_former_plan_is_tried_where_it_took_less_time() -> None:
    explorer = Explorer()
    explorer.note_former(FIRST, pace(0.5e-6, 1_000_000))
    explorer._start = None  # what is like the plan in use has been tried
    quick, slow = doubts(pace(0.5e-6, 200_000)), doubts(pace(2e-6, 200_000))
    assert explorer.look(BURST, 1, 0.0, 100.0, quick) is None
    again = Explorer.load(json.loads(json.dumps(explorer.dump())))
    for one in (explorer, again):
        reason = one.look(BURST, 1, 0.0, 100.0, slow)
        assert reason is not None and reason.text == "events took less time with a plan that was in use before"
        assert one.look(FIRST, 1, 0.0, 100.0, slow) is None, "it is in use"
    raced: list[Plan] = []

    def race(plans: Sequence[Plan]) -> Race:
        raced.extend(plans)
        return EARLY

    known = prospect({BURST: 50.0, FIRST: 65.0})
    found = explorer.explore(AIM, known, BURST, None, 1, race, slow, is_asked=True)
    assert raced == [BURST, FIRST], "costs speak against it"
    assert found == Found(FIRST, True, 0.3, None)


def test_what_a_plan_took_that_is_in_use_again_does_not_speak_for_it() -> None:
    explorer = Explorer()
    explorer.note_former(BURST, pace(0.5e-6, 1_000_000))
    even = replace(EARLY, times=(1.0, 0.85), is_early=False, counted=200_000)
    slow = doubts(pace(2e-6, 200_000))
    known = prospect({BURST: 100.0, OTHER: 85.0})
    found = explorer.explore(AIM, known, BURST, OTHER, 1, lambda _: even, slow, is_asked=False)
    assert found is not None and found.is_quicker and found.plan == OTHER


def test_what_a_plan_took_outweighs_costs_and_a_race_over_its_first_events() -> None:
    plans, told = [BURST, FIRST], replace(EARLY, times=(1.0, 1.5))
    known = prospect({BURST: 100.0, FIRST: 130.0})
    slow = doubts(pace(2e-6, 200_000))
    took = slow.of_former(pace(0.5e-6, 1_000_000))
    assert choose_plan(known, plans, told, slow).first == 0
    assert choose_plan(known, plans, told, slow, [None, took]).first == 1
    out = replace(EARLY, times=(1.0, 1e9))
    assert choose_plan(known, plans, out, slow, [None, took]).first == 0, "it would break a limit"


def test_only_some_former_plans_are_remembered_with_what_they_took() -> None:
    explorer = Explorer()
    plans = [FIRST, BURST, OTHER, Plan((left_deep("abc", stored=True),))]
    for plan in plans:
        explorer.note_former(plan, pace(1e-6, 10_000))
    assert set(explorer._paces) == set(explorer._former) == {outline_of(plan) for plan in plans[1:]}
    explorer.note_former(BURST, None)
    assert outline_of(BURST) not in explorer._paces, "what it took that time is not known"


def test_what_events_took_is_of_one_plan_and_one_stream() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])

    def work(number: int) -> int:
        for first in range(number, number + 10_000, 1_000):
            cadence.is_far(first, first + 1_000, 0)
            clock[0] += 0.001
        return number + 10_000

    number = work(0)
    first = cadence.unevenness
    assert first.seconds == pytest.approx(1e-6 * first.events)
    cadence.checked(number, 0.001, found=True)
    number = work(number)
    second = cadence.unevenness
    assert second is not first and second.stream == first.stream and second.events > 0
    cadence.turn()
    assert cadence.unevenness == Unevenness(stream=first.stream + 1)
    work(number)
    restored = Cadence(None, 0.01, lambda: clock[0])
    restored.load(json.loads(json.dumps(cadence.dump())), number)
    assert restored.unevenness == cadence.unevenness
    assert restored.unevenness.stream == 1


def test_with_several_queries_it_is_not_known_whose_plan_is_slow() -> None:
    events = [{"type": "ABC"[k % 3], "ts": k, "x": k} for k in range(30)]
    one = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 30"
    for query, is_alone in ((one, True), (f"QUERY p {one}; QUERY q {one}", False)):
        engine = ensue.compile(query, adapt=True)
        engine.push(events)
        for adapter in engine._loop.adapters.values():
            lately = adapter._doubt(Unevenness()).lately
            assert (lately is not None) == is_alone


def test_a_former_plan_that_has_just_lost_waits_its_turn() -> None:
    explorer = Explorer()
    explorer.note_former(FIRST, pace(0.5e-6, 1_000_000))
    slow = doubts(pace(2e-6, 200_000))
    lost = replace(EARLY, times=(1.0, 1e9))
    known = prospect({BURST: 50.0, FIRST: 65.0})
    explorer._start = None
    assert explorer.look(BURST, 1, 0.0, 100.0, slow) is not None
    found = explorer.explore(AIM, known, BURST, None, 1, lambda _: lost, slow, is_asked=True)
    assert found is not None and not found.is_quicker
    reasons = {check: explorer.look(BURST, check, 0.0, 1e6, slow) for check in (2, 3, 4, 5)}
    assert [check for check, reason in reasons.items() if reason is not None] == [5], "after four checks"


def test_what_cannot_be_tried_any_more_is_not_due_for_ever() -> None:
    """A plan that was slower would be tried again, but is too dear by now, or is not made at all."""
    explorer, calm = Explorer(), Doubts(8.0, 1000.0, 200.0)
    lost = replace(EARLY, times=(1.0, 3.0), is_early=False, counted=8192)
    explorer._start = None
    explorer.explore(AIM, prospect({BURST: 50.0, OTHER: 40.0}), BURST, OTHER, 1, lambda _: lost, calm, is_asked=False)
    due = []
    for check in range(2, 40):
        if explorer.look(BURST, check, 0.0, 1e6, calm) is not None:
            due.append(check)
            explorer.explore(AIM, prospect({BURST: 50.0}), BURST, None, check, lambda _: lost, calm, is_asked=True)
    assert due == [5, 13, 29], "after four checks, then after eight, then after sixteen"


def test_between_checks_events_are_as_slow_as_they_were() -> None:
    """More plans are tried then; what races have told of this stream is not forgotten for it."""
    explorer, calm = Explorer(), Doubts(1.0, 1000.0, 200.0)
    lost = replace(EARLY, times=(1.0, 3.0), is_early=False, counted=8192)
    explorer.look(BURST, 1, 3.0, 1.0, calm)
    explorer.explore(AIM, prospect({BURST: 50.0, OTHER: 40.0}), BURST, OTHER, 1, lambda _: lost, calm, is_asked=False)
    assert explorer.misled(BURST, OTHER, 2) > 1.0
    explorer.look_between(BURST, 1, 2.0, calm)
    explorer.look(BURST, 2, 3.0, 3.0, calm)
    assert explorer.misled(BURST, OTHER, 2) > 1.0
    explorer.look(BURST, 3, 0.0, 4.0, calm)
    explorer.look(BURST, 3, 3.0, 5.0, calm)
    assert explorer.misled(BURST, OTHER, 3) == 1.0, "slow again: that is news"
