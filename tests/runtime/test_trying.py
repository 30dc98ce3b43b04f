"""Plans that are tried on the last events before they take over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.events.intake import Intake
from ensue.language import parse_query
from ensue.options import Options
from ensue.planning.decisions import Threshold
from ensue.planning.plan import Plan, left_deep
from ensue.runtime import engine as engine_module
from ensue.runtime.adapting import Replanner
from ensue.runtime.cadence import Cadence, Unevenness
from ensue.runtime.compiling import make_evaluator, make_rival
from ensue.runtime.doubts import Doubts
from ensue.runtime.engine import Engine
from ensue.runtime.evaluator import Evaluator
from ensue.runtime.exploring import Explorer
from ensue.runtime.strings import StringTable
from ensue.runtime.trying import Race, run_race
from ensue.statistics.collector import Collector

ALL = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 300"


def rare_first(events: int, shares: tuple[float, ...] = (0.01, 0.09, 0.9)) -> pa.Table:
    """Few As and many Cs."""
    dice = np.random.default_rng(5)
    kinds = dice.choice(3, events, p=shares)
    return pa.table({"type": np.array(list("ABC"))[kinds], "ts": np.arange(events), "x": dice.random(events)})


def race(options: Options, *orders: str, events: int = 12_000) -> Race | None:
    """A race of orders, the first one in use."""
    intake, strings = Intake(ts="ts"), StringTable()
    batch = intake.push(rare_first(events))
    assert intake.schema is not None
    plans = [Plan((left_deep(names, stored=True),)) for names in orders]
    used = make_evaluator(parse_query(ALL), intake.schema, strings, options, plans[0])
    return run_race([make_rival(used, plan, strings) for plan in plans], [batch], strings)


def test_the_plan_with_less_to_do_is_quicker() -> None:
    ensue.run(rare_first(2_000), ALL)  # to load kernels is not part of the race
    stays, goes = race(Options(), "abc", "cba"), race(Options(), "cba", "abc")
    assert stays is not None and stays.ratio(1) > 1.5
    assert goes is not None and goes.ratio(1) < 0.7
    assert stays.events > 128 and 0 < stays.counted <= stays.events


def test_of_several_plans_the_quickest_is_first() -> None:
    ensue.run(rare_first(2_000), ALL)
    found = race(Options(), "cba", "bca", "abc")
    assert found is not None and found.best_other == 2
    assert found.times[2] == 1.0 and min(found.times[:2]) > 1.1


def test_a_plan_that_falls_behind_drops_out(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    step = Evaluator.step_within

    def note(evaluator: Evaluator, state: Any, reading: Any, patience: Any) -> Any:
        taken.append(str(evaluator.plan))
        found = step(evaluator, state, reading, patience)
        evaluator.seconds[0] += 0.1 if str(evaluator.plan).startswith("((c") else 1e-6
        return found

    monkeypatch.setattr(Evaluator, "step_within", note)
    found = race(Options(), "abc", "cba", "bac")
    assert found is not None and found.times[1] > 50 and min(found.times[0], found.times[2]) == 1.0
    counts = {plan: taken.count(plan) for plan in taken}
    assert len(counts) == 3 and sorted(counts.values())[0] == 1 < sorted(counts.values())[1]


def test_matches_are_not_put_together_in_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    step = Evaluator.step_within

    def note(evaluator: Evaluator, state: Any, reading: Any, patience: Any) -> Any:
        blocks, taken = step(evaluator, state, reading, patience)
        found.append(sum(map(len, blocks)))
        return blocks, taken

    monkeypatch.setattr(Evaluator, "step_within", note)
    told = race(Options(), "abc", "cba")
    assert told is not None and len(found) > 1 and not any(found)
    assert len(ensue.run(rare_first(told.events), ALL)) > 0


def test_few_events_tell_nothing() -> None:
    race(Options(), "abc", "cba")  # to load kernels takes longer than that
    assert race(Options(), "abc", "cba", events=20) is None


def test_a_race_is_broken_off_when_it_has_taken_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("ensue.runtime.trying.time.thread_time", lambda: 0.04 * next(ticks))  # of building matches, say
    found = race(Options(), "abc", "cba")
    assert found is not None and found.events == 128, "after the first part"


def test_a_plan_that_holds_too_much_is_out_of_question() -> None:
    few = Options(max_partial_matches=500)
    found = race(few, "abc", "cba")
    assert found is not None and found.ratio(1) > 1e6
    found = race(few, "cba", "abc")
    assert found is not None and found.ratio(1) < 1e-6, "also if it is in use"
    assert race(Options(max_partial_matches=1), "cba", "bca") is None


CALM, UNEVEN, NEW = Doubts(8.0, 1000.0, 1.0), Doubts(32.0, 1e4, 1e4), Doubts(0.1, 1e4, 1e4)


@pytest.mark.parametrize("expected", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("measured", [0.1, 1.0, 3.0])
def test_costs_and_races_are_weighed(expected: float, measured: float) -> None:
    """What is made of both lies between them: near the race where it is sure, near costs where it is not."""
    sure, early = Race(8192, 8192, 0.01, (1.0, measured)), Race(512, 512, 0.01, (1.0, measured), True)
    calm, uneven, soon = (
        doubts.weigh(expected, measured, one) for doubts, one in ((CALM, sure), (UNEVEN, sure), (CALM, early))
    )
    assert calm == pytest.approx(measured, rel=0.05)
    for found in (uneven, soon):
        assert abs(math.log(found / expected)) <= 0.15 * abs(math.log(measured / expected)) + 1e-9
    assert NEW.weigh(expected, measured, sure) == pytest.approx(measured, rel=0.4), "costs of little tell little"


def test_short_races_tell_less() -> None:
    times = [CALM.weigh(1.0, 0.5, Race(8192, 8192, seconds, (1.0, 0.5))) for seconds in (1e-2, 1e-3, 1e-4)]
    assert times == sorted(times) and times[0] < 0.52 and times[2] > 0.8


def test_what_is_worth_a_race() -> None:
    """Plans that might be quicker, if costs are wrong by as much as they may be; none where a burst would decide."""
    assert CALM.tells(8192) and not UNEVEN.tells(8192)
    assert NEW.tells(8192), "but for the stream that has just changed: costs tell nothing either"
    assert 1.25 < CALM.plausible < UNEVEN.plausible < 2.0 < NEW.plausible


def test_slow_events_are_news_if_there_were_no_such_bursts() -> None:
    assert CALM.is_news(1.5) and not CALM.is_news(0.0)
    assert not UNEVEN.is_news(5.0) and UNEVEN.is_news(9.0)
    assert NEW.is_news(1.5), "of which nothing else is known"


def test_how_uneven_events_are() -> None:
    even, uneven = Unevenness(), Unevenness()
    for k in range(100):
        even.add(1000, 0.01)
        uneven.add(1000, 1.0 if k % 10 == 0 else 0.01)
    assert even.over(1000) < 0.02 * 1000
    assert uneven.over(1000) == pytest.approx(1000 * math.log1p(0.09 * 0.99**2 / 0.109**2), rel=0.05)
    assert uneven.over(5000) == pytest.approx(5 * uneven.over(1000)), "a burst lasts for a window"
    assert uneven.over(10) == uneven.over(1000), "nor is it shorter than what is measured"
    assert Unevenness().over(10) > 1.0, "of which nothing is known yet"


def told(monkeypatch: pytest.MonkeyPatch, ratios: Sequence[float | tuple[float, ...] | None]) -> list[list[str]]:
    """Let races tell these of the first other plan or of several, one race after the other; the plans that raced."""
    asked: list[list[str]] = []

    def tell(plans: Sequence[Evaluator], batches: Any, strings: Any, *_: Any) -> Race | None:
        assert batches and len({one.query for one in plans}) == 1
        ratio = ratios[min(len(asked), len(ratios) - 1)]
        asked.append([str(one.plan) for one in plans])
        if ratio is None:
            return None
        first = ratio if isinstance(ratio, tuple) else (ratio,)
        times = [1.0, *first, *(9.0 for _ in plans)][: len(plans)]
        return Race(1, 1_000_000, 1.0, tuple(one / min(times) for one in times))

    monkeypatch.setattr(engine_module, "run_race", tell)
    return asked


def slow_start(**settings: Any) -> Engine:
    adapt = ensue.Adaptation(every=2_000, **settings)
    return ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=adapt)


@pytest.mark.parametrize(("ratio", "replaced"), [(0.5, True), (0.96, True), (0.98, False), (3.0, False), (None, True)])
def test_what_a_trial_tells_decides(monkeypatch: pytest.MonkeyPatch, ratio: float | None, replaced: bool) -> None:
    asked = told(monkeypatch, [ratio])
    engine = slow_start(tried=True)
    engine.push(rare_first(3_000))
    (entry,) = engine.journal
    assert len(asked) == 1
    assert (entry.replaced, entry.trial) == (replaced, ratio)
    assert engine.plan_of("q1") != Plan((left_deep("cba", stored=True),)) or not replaced
    assert "tried" in str(entry) or ratio is None
    assert engine.adapting_seconds.trying > 0


def test_the_winner_of_a_race_is_not_assembled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Plan] = []

    def make(evaluator: Evaluator, plan: Plan, *about: Any) -> Evaluator:
        made.append(plan)
        return make_rival(evaluator, plan, *about)

    told(monkeypatch, [0.5])
    monkeypatch.setattr(engine_module, "make_rival", make)
    engine = slow_start(tried=True)
    engine.push(rare_first(3_000))
    assert engine.journal[0].replaced
    assert len(made) == len(set(made)) > 1
    assert not engine._tried, "nor kept: codes of strings may change"


@pytest.mark.parametrize(("ratio", "planned"), [(3.0, [1, 2, 3, 4, 4, 4]), (0.5, [1, 1, 1, 1, 1, 1])])
def test_after_a_trial_against_statistics_it_is_planned_anew_for_some_checks(
    monkeypatch: pytest.MonkeyPatch, ratio: float, planned: list[int]
) -> None:
    """What is watched is then of a plan that is not in use, so that it may hold for ever."""
    told(monkeypatch, [ratio])
    calls = []
    plan_anew = Replanner._plan_anew
    monkeypatch.setattr(Replanner, "_plan_anew", lambda *about: calls.append(1) or plan_anew(*about))
    monkeypatch.setattr(Explorer, "look", lambda *_, **__: None)
    engine = slow_start(tried=True, decision=Threshold(1e9))
    found = []
    for start in range(0, 12_000, 2_000):
        engine.push(rare_first(12_000).slice(start, 2_000))
        found.append(len(calls))
    assert found == planned


def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans be tried also where statistics speak against them, and races take as long as they like."""
    monkeypatch.setattr(Doubts, "plausible", math.inf)
    monkeypatch.setattr("ensue.runtime.exploring._WASTED", math.inf)


def test_a_plan_that_was_slower_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    whatever_it_costs(monkeypatch)
    asked = told(monkeypatch, [2.0, 2.0, 0.5, 2.0])
    engine = slow_start(tried=True)
    checks = []
    for start in range(0, 60_000, 2_000):
        engine.push(rare_first(60_000).slice(start, 2_000))
        checks.append(len(asked))
    assert [checks.index(k) for k in (1, 2, 3)] == [0, 4, 12], "after four checks, then after eight"
    assert asked[3][0] == asked[2][1] and asked[2][0] in asked[3], "the plan that it took over from, four checks later"
    assert [checks.index(k) for k in (4, 5)] == [16, 24]
    assert [entry.replaced for entry in engine.journal][:5] == [False, False, True, False, False]


def push_parts(engine: Engine, first: int, stop: int) -> Engine:
    """Push parts of 2,000 events each; after each part go on with an engine that was restored."""
    events = rare_first(60_000)
    for start in range(first, stop, 2_000):
        engine.push(events.slice(start, 2_000))
        snapshot = engine.snapshot()
        engine = slow_start(tried=True)
        engine.restore(snapshot)
    return engine


def test_the_plan_before_is_not_tried_if_it_costs_much_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [0.5, 2.0])
    engine = push_parts(slow_start(tried=True), 0, 20_000)
    assert engine.counts.replaced == 1
    assert not any(asked[0][0] in plans for plans in asked[1:])


def test_the_plan_before_may_be_the_right_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whatever_it_costs(monkeypatch)
    asked = told(monkeypatch, [0.5, (2.0, 0.5), 2.0])
    engine = push_parts(slow_start(tried=True), 0, 8_000)
    assert len(asked) == 1 and engine.counts.replaced == 1
    engine = push_parts(engine, 8_000, 12_000)
    assert asked[1][0] == asked[0][1] and asked[1][2] == asked[0][0], "after four checks, the cheaper one first"
    assert engine.counts.replaced == 2
    assert engine.plan_of("q1") == Plan((left_deep("cba", stored=True),))


def test_where_events_become_slow_other_plans_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whatever_it_costs(monkeypatch)
    asked = told(monkeypatch, [0.5, 2.0])
    engine = push_parts(slow_start(tried=True), 0, 4_000)
    monkeypatch.setattr("ensue.runtime.cadence.Cadence.slower", lambda *_: 3.0)
    events = rare_first(6_000)
    engine.push(events.slice(4_000, 2_000))
    assert asked[1][0] == asked[0][1] and asked[0][0] in asked[1], "the plan before"
    assert len(asked[1]) == 3, "and the third way to join three"
    entry = engine.journal[-1]
    assert "slow" in entry.reason and not entry.replaced and entry.trial == 2.0


def test_slow_events_void_what_races_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [2.0])
    engine = push_parts(slow_start(tried=True), 0, 4_000)
    assert len(asked) == 1
    monkeypatch.setattr("ensue.runtime.cadence.Cadence.slower", lambda *_: 3.0)
    engine = push_parts(engine, 4_000, 8_000)
    assert len(asked) == 2 and asked[1][0] == asked[0][0], (
        "at the first check that found them slow, also after a restart"
    )


def test_a_plan_that_nothing_speaks_against_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [2.0])
    monkeypatch.setattr("ensue.runtime.exploring._FIRST", 0.0)
    good = Plan((left_deep("abc", stored=True),))
    engine = ensue.compile(ALL, plan=good, adapt=ensue.Adaptation(every=2_000, tried=True))
    events = rare_first(8_000, (0.3, 0.35, 0.35))
    for start in range(0, 8_000, 2_000):
        engine.push(events.slice(start, 2_000))
    assert len(asked) == 1 and asked[0][0] == str(good) and len(asked[0]) > 1


def test_the_first_plan_is_tried_before_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing speaks for another plan at the first check, and the next one may be far away."""
    asked = told(monkeypatch, [2.0])
    monkeypatch.setattr(Cadence, "is_far", lambda *_: False)
    monkeypatch.setattr(Cadence, "is_due", lambda *_, **__: True)
    monkeypatch.setattr(Cadence, "cut", lambda _, __, stop: stop)
    monkeypatch.setattr(Cadence, "worked", 0.1)
    engine = ensue.compile(ALL, plan=Plan((left_deep("abc", stored=True),)), adapt=ensue.Adaptation(tried=True))
    events = rare_first(8_000, (0.3, 0.35, 0.35))
    engine.push(events.slice(0, 4_000))
    (adapter,) = engine._loop.adapters.values()
    assert adapter.checks == 1 and not asked and adapter.has_untried
    monkeypatch.setattr(Cadence, "worked", 0.3)
    assert engine._loop._cadence is not None
    engine._loop._cadence.is_try = True
    engine.push(events.slice(4_000))
    assert adapter.checks == 1 and len(asked) == 1 and not adapter.has_untried


def test_more_plans_are_tried_without_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more plans like the one in use than race at once: the others follow, by the same statistics."""
    asked = told(monkeypatch, [0.5, 2.0, 0.4, 2.0])
    five = "PATTERN SEQ(A a, B b, C c, A d, B e) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x AND d.x < e.x WITHIN 50"
    plan = Plan((left_deep("cbaed", stored=True),))
    engine = ensue.compile(five, plan=plan, adapt=ensue.Adaptation(tried=True))
    looks: list[bool] = []
    snapshot = Collector.snapshot
    monkeypatch.setattr(Collector, "snapshot", lambda *args, **named: looks.append(True) or snapshot(*args, **named))
    is_try: list[bool] = []

    def is_due(cadence: Cadence, *_: Any, **__: Any) -> bool:
        is_try.append(bool(asked))
        cadence.is_try = is_try[-1]
        return True

    monkeypatch.setattr(Cadence, "is_due", is_due)
    monkeypatch.setattr(Cadence, "is_far", lambda *_: False)
    events = rare_first(40_000)
    for start in range(0, 40_000, 8_000):
        engine.push(events.slice(start, 8_000))
        if start == 0:
            before = len(looks)
    assert sum(is_try) >= 4 and len(looks) == before
    assert [entry.replaced for entry in engine.journal][:4] == [True, False, True, False]
    assert asked[1][0] == asked[2][0] == asked[0][1], "by then that plan is in use"
    assert asked[3][0] == asked[2][1]
    assert not {*asked[2][1:]} & {*asked[1][1:]}, "others each time"
    assert all("not been tried" in entry.reason for entry in engine.journal[1:])
    expected = {match["match_id"] for match in ensue.run(events, five, plan=plan)}
    assert engine.counts.matches + len(engine.flush()) == len(expected)


def test_races_are_over_the_last_events(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def tell(plans: Any, batches: Any, strings: Any, *_: Any) -> None:
        seen.append((sum(map(len, batches)), int(batches[-1].end[-1])))

    monkeypatch.setattr(engine_module, "run_race", tell)
    start = {"plan": Plan((left_deep("cba", stored=True),)), "adapt": ensue.Adaptation(every=10_000, tried=True)}
    engine = ensue.compile(ALL, **start)
    for first in range(0, 12_000, 3_000):
        engine.push(rare_first(12_000).slice(first, 3_000))
    assert seen == [(8_492, 9_999)], "the last ones, and a window before"
    engine = ensue.compile(ALL.replace("WITHIN 300", "AND a.x > 0.9 WITHIN 2000"), **start)
    engine.push(rare_first(10_500))
    assert seen[1:] == [(10_000, 9_999)]


def test_a_restart_remembers_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [2.0])
    engine = slow_start(tried=True, decision="unconditional")
    for start in range(0, 8_000, 2_000):
        engine.push(rare_first(8_000).slice(start, 2_000))
        other = slow_start(tried=True, decision="unconditional")
        other.restore(engine.snapshot())
        engine = other
    raced = [plan for plans in asked for plan in plans[1:]]
    assert len(raced) == len(set(raced)) > 0


def test_trials_that_nothing_came_of_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [2.0])
    monkeypatch.setattr("ensue.runtime.exploring._WASTED", 1e-12)
    monkeypatch.setattr("ensue.runtime.exploring._WASTED_SHARE", 0.0)
    engine = push_parts(slow_start(tried=True), 0, 16_000)
    assert len(asked) == engine.counts.planned == 1, "planning is put off, also when the plan might be tried again"
    monkeypatch.setattr("ensue.runtime.cadence.Cadence.slower", lambda *_: 1e15)
    engine.push(rare_first(18_000).slice(16_000))
    assert len(asked) > 1, "unless events have become so much slower"


@pytest.mark.parametrize("settings", [{}, {"tried": False}, {"tried": True, "objective": "latency"}], ids=str)
def test_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    asked = told(monkeypatch, [2.0])
    monkeypatch.setattr("ensue.runtime.cadence.Cadence.slower", lambda *_: 3.0)
    engine = slow_start(**settings)
    engine.push(rare_first(5_000))
    assert not asked
    assert len(engine.journal) <= 1, "nor is it planned anew because events are slow"
    assert not any(adapter.has_untried for adapter in engine._loop.adapters.values()), "nor later"


def test_plans_can_be_tried_before_an_event_of_the_query_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [0.5])
    engine = ensue.compile(ALL, adapt=ensue.Adaptation(every=2_000, tried=True))
    engine.push(pa.table({"type": ["X"] * 2_500, "ts": np.arange(2_500), "x": np.zeros(2_500)}))
    assert len(asked) == 1 and engine.counts.replaced == 1, "it is only stored what comes from now on"


def test_events_one_by_one_are_tried_on_the_stored_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [0.5])
    engine = slow_start(tried=True)
    rows = rare_first(2_500).to_pylist()
    assert sum(len(engine.push_event(row)) for row in rows) == len(ensue.run(rare_first(2_500), ALL))
    assert len(asked) == 1 and engine.counts.replaced == 1
