"""What happens right after a stream has changed: little is known of it, and the last window is of another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import LimitError
from ensue.events.intake import Intake
from ensue.language import parse_query
from ensue.planning.decisions import Threshold
from ensue.planning.objectives import Prospect
from ensue.planning.plan import Plan, left_deep
from ensue.runtime import lanes
from ensue.runtime.cadence import Cadence
from ensue.runtime.doubts import Doubts
from ensue.runtime.exploring import choose_plan
from ensue.runtime.rows import RowStore
from ensue.runtime.trying import Race
from ensue.runtime.watching import Watcher

ALL = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 300"
ABC, CBA = (Plan((left_deep(order, stored=True),)) for order in ("abc", "cba"))


def turning(events: int, turn: int) -> pa.Table:
    """Rare As and many Cs; from an event on the other way round."""
    dice = np.random.default_rng(3)
    shares = ((0.05, 0.15, 0.8), (0.8, 0.15, 0.05))
    kinds = np.concatenate([dice.choice(3, n, p=p) for n, p in zip((turn, events - turn), shares, strict=True)])
    return pa.table({"type": np.array(list("ABC"))[kinds], "ts": np.arange(events), "x": dice.random(events)})


# -- who takes over --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("costs", "times", "is_early", "taken"),
    [
        ((100, 90), (1.0, 1.0), True, 1),  # statistics speak for it, and nothing against it
        ((100, 90), (1.0, 9.0), True, 0),
        ((100, 99), (1.0, 0.5), True, 1),  # ahead, and they do not speak against it
        ((100, 200), (1.0, 0.5), True, 0),
        ((100, 90, 80), (1.0, 0.9, 0.8), True, 2),
        ((100, 200), (1.0, 0.5), False, 1),  # costs were wrong
        ((100, 60), (1.0, 1.2), False, 0),
        ((100, 98), (1.0, 0.98), False, 0),  # it saves too little
        ((0, 0), (1.0, 0.5), False, 1),  # before an event has come
        ((100, 0), (1.0, 0.5), False, 1),
        ((100, 1e-9), (1.0, 1e9), True, 0),  # it breaks a limit, whatever it costs
        ((1e-9, 100), (1e9, 1.0), True, 1),
    ],
)
def test_who_takes_over_after_a_race(
    costs: Sequence[float], times: Sequence[float], is_early: bool, taken: int
) -> None:
    orders = ("abc", "bac", "cab")[: len(costs)]
    plans = [Plan((left_deep(order),)) for order in orders]
    cost_of = dict(zip(map(str, plans), costs, strict=True))
    prospect = Prospect((), lambda plan: cost_of[str(plan)], list)
    race = Race(8192, 8192, 0.01, tuple(one / min(times) for one in times), is_early)
    assert choose_plan(prospect, plans, race, Doubts(8.0, 1000.0, 200.0)).first == taken


# -- states that take long to make -----------------------------------------------------------------------------------
def test_a_plan_whose_state_takes_long_to_make_takes_over_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_REPLAY", 0.0)
    events = turning(3_000, 1_500)
    engine = ensue.compile(ALL, plan=ABC, adapt="static")
    found = [len(engine.push(events.slice(0, 1_600)))]
    assert engine._swap("q1", 0.0, CBA, "replay") == ("side by side", 300)
    assert engine.plan_of("q1") == CBA
    found += [len(engine.push(events.slice(1_600))), len(engine.flush())]
    assert sum(found) == len(ensue.run(events, ALL)) > 0


def test_where_only_replay_will_do_the_plan_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_REPLAY", 0.0)
    events = turning(3_000, 1_500)
    query = "PATTERN SEQ(NOT(B n), A a, C c) WHERE a.x < c.x WITHIN 30"
    first, other = (Plan((left_deep(order, stored=True),)) for order in ("ac", "ca"))
    engine = ensue.compile(query, plan=first, adapt="static")
    found = [len(engine.push(events.slice(0, 1_600)))]
    assert engine._swap("q1", 0.0, other, "replay").method is None
    assert engine.plan_of("q1") == first
    found += [len(engine.push(events.slice(1_600))), len(engine.flush())]
    assert sum(found) == len(ensue.run(events, query)) > 0


@pytest.mark.parametrize("pace", [10.0, None])  # None: checks come each so many events, and must be repeatable
def test_a_plan_whose_state_needs_too_much_room_takes_over_side_by_side(pace: float | None) -> None:
    """A limit is for what the stream needs, not for what a plan would have needed before it."""
    engine = ensue.compile(ALL, plan=ABC, adapt="static", options=ensue.Options(max_partial_matches=2_000))
    engine.push(turning(1_500, 1_500))
    assert engine._swap("q1", pace, CBA, "replay").method == "side by side"


def test_where_only_replay_will_do_a_limit_is_told() -> None:
    query = "PATTERN SEQ(NOT(A n), C c, C d, B b) WHERE n.x > c.x AND b.x > 0.9 WITHIN 300"
    few, many = (Plan((left_deep(order, stored=True),)) for order in ("bcd", "cdb"))
    engine = ensue.compile(query, plan=few, adapt="static", options=ensue.Options(max_partial_matches=5_000))
    engine.push(turning(1_500, 1_500))
    with pytest.raises(LimitError, match="cannot take over, as it would hold more than 5,000 partial matches"):
        engine.replace_plan("q1", many)
    assert engine.plan_of("q1") == few
    engine.push(turning(2_000, 2_000).slice(1_500))


# -- what statistics and races look at -------------------------------------------------------------------------------
def test_only_what_came_since_is_looked_at_and_raced_over() -> None:
    events = turning(24_000, 16_000)
    intake = Intake(ts="ts")
    query = parse_query(ALL.replace("300", "2000"))
    batches = [intake.push(events.slice(start, 1_000)) for start in range(0, 24_000, 1_000)]
    assert intake.schema is not None
    watcher, rows = Watcher(query, intake.schema, 4.0, tries=True), RowStore(intake.schema)
    for batch in batches[:16]:
        rows.append(batch)
        watcher.observe(batch)
    assert watcher.look(rows, 16_000).rate("A").value == pytest.approx(0.05, rel=0.3)
    for number, batch in enumerate(batches[16:], 17):
        rows.append(batch)
        watcher.observe(batch)
        if number in (18, 20, 22, 24):
            recent = watcher.recent(rows, 1_000 * number)
            if number == 20:
                watcher.turn(just_now=True)  # once more, too soon after the first time to count
            assert watcher.look(rows, 1_000 * number).rate("A").value == pytest.approx(0.8, rel=0.1)
            raced = recent()
            first = int(raced[0].end[0])
            usual = 1_000 * number - 4_096 - 2_000
            assert 16_000 <= first <= max(usual, 17_500), "nothing from before, and as much as a race needs since"
            assert all(one.first + len(one) == other.first for one, other in pairwise(raced))
    assert watcher.enough == pytest.approx(4_096 + 2_000, abs=100), "the window, and what is raced over"


@pytest.mark.parametrize(("turned", "is_seen", "counts"), [(16, False, True), (22, True, True), (22, False, False)])
def test_how_soon_it_may_be_taken_for_another_one_again(turned: int, is_seen: bool, counts: bool) -> None:
    """After four windows of 2,000, though none of these has been looked at; after one if rates are seen to differ."""
    events = turning(26_000, 24_000)
    intake = Intake(ts="ts")
    batches = [intake.push(events.slice(start, 1_000)) for start in range(0, 26_000, 1_000)]
    assert intake.schema is not None
    query = parse_query(ALL.replace("300", "2000"))
    watcher, rows = Watcher(query, intake.schema, 4.0, tries=True), RowStore(intake.schema)
    for number, batch in enumerate(batches, 1):
        rows.append(batch)
        watcher.observe(batch)
        if number in (8, turned):
            if number == turned:
                watcher.turn(just_now=True)
            watcher.look(rows, 1_000 * number)
    first = watcher._collector.turned
    assert first is not None and first >= 1_000 * (turned - 1)
    assert watcher.has_changed(batches[-1])
    watcher._is_other = is_seen
    watcher.turn(just_now=True)
    assert watcher._collector._is_turning is counts


def test_what_came_since_a_time_is_looked_at() -> None:
    """Where it is known when a stream has changed, all that came since counts, and nothing before."""
    events = turning(24_000, 16_000)
    intake = Intake(ts="ts")
    batches = [intake.push(events.slice(start, 1_000)) for start in range(0, 24_000, 1_000)]
    assert intake.schema is not None
    watcher, rows = Watcher(parse_query(ALL), intake.schema, 4.0, tries=True), RowStore(intake.schema)
    for number, batch in enumerate(batches, 1):
        rows.append(batch)
        watcher.observe(batch)
        if number == 16:
            watcher.look(rows, 16_000)
        elif number == 17:
            watcher.turn(16_999)
    restored = Watcher(parse_query(ALL), intake.schema, 4.0, tries=True)
    restored.load(*watcher.dump())
    for one in (watcher, restored):
        known = one.look(rows, 24_000)
        assert one._collector.turned == 16_999
        assert known.rate("A").value == pytest.approx(0.8, rel=0.05)
        assert known.window == pytest.approx(7_001, abs=10)


# -- checks that follow each other -----------------------------------------------------------------------------------
@pytest.mark.parametrize("is_settling", [False, True])
def test_once_enough_is_known_it_is_planned_whatever_decisions_say(
    monkeypatch: pytest.MonkeyPatch, is_settling: bool
) -> None:
    monkeypatch.setattr(Cadence, "is_settling", lambda *_: is_settling)
    never = ensue.Adaptation(decision=Threshold(1e9), every=2_000, tried=False)
    engine = ensue.compile(ALL, plan=CBA, adapt=never)
    engine.push(turning(16_000, 8_000))
    first, *others = engine.journal
    assert "no plan has been made" in first.reason
    assert all("little was known" in entry.reason and entry.replaced for entry in others)
    assert bool(others) is is_settling


def settled(clock: list[float]) -> Cadence:
    """10 microseconds an event, and checks of 10 ms that find nothing."""
    cadence = Cadence(None, 0.01, lambda: clock[0])
    for number in range(100_000, 1_000_000, 100_000):
        clock[0] += 1.0
        cadence.checked(number, 0.0099, found=False)
    return cadence


def call(cadence: Cadence, clock: list[float], number: int, *, found: bool, seconds: float = 10.0) -> None:
    """Some events that take so long that a check is called for."""
    clock[0] += seconds
    assert cadence.is_due(number, is_urgent=True)
    cadence.checked(number, 0.0099, found=found, enough=6_000)


@pytest.mark.parametrize("found", [False, True])
def test_a_check_that_was_called_is_followed_by_one_that_knows_more(found: bool) -> None:
    clock = [0.0]
    cadence = settled(clock)
    call(cadence, clock, 901_000, found=found)
    assert cadence.next <= 907_000
    assert not cadence.is_due(906_000) and not cadence.is_wanted(906_000)
    assert cadence.next == 907_000
    assert cadence.is_due(907_000) and cadence.is_settling(907_000)
    cadence.checked(907_000, 0.0099, found=False, enough=6_000)
    assert not cadence.is_wanted(999_000), "once"


def test_where_the_stream_is_seen_to_have_changed_decisions_decide() -> None:
    clock = [0.0]
    cadence = settled(clock)
    cadence.turn()
    cadence.want(903_000)
    clock[0] += 0.01
    assert cadence.is_due(903_000) and not cadence.is_settling(903_000)
    call(cadence, clock, 904_000, found=False)
    again = Cadence(None, 0.01, lambda: clock[0])
    again.load(cadence.dump(), 904_000)
    cadence.want(905_000)
    assert again.is_settling(910_000) and cadence.is_settling(905_000), "unless the plan was made from little"


def test_not_every_call_is_followed() -> None:
    clock = [0.0]
    cadence = settled(clock)
    wanted = []
    for number in range(901_000, 950_000, 7_000):
        call(cadence, clock, number, found=True)
        wanted.append(cadence.is_wanted(number + 6_000))
    assert wanted == [True] * 4 + [False] * 3


def test_calls_before_enough_is_known_do_not_put_that_off_nor_are_events_accepted_as_slow() -> None:
    clock = [0.0]
    cadence = settled(clock)
    for number in range(901_000, 907_000, 500):
        call(cadence, clock, number, found=False, seconds=100.0 + clock[0])
        assert cadence.next <= 907_000 and not cadence.is_settling(number)
    clock[0] *= 3.0
    cadence.is_far(906_900, 907_000, 0)
    assert cadence.slower(906_900) > 1.5, "by what they took before all of the calls"
    assert cadence.is_settling(907_000)
    cadence.is_due(907_000)
    cadence.checked(907_000, 0.0099, found=False, enough=6_000)
    clock[0] += 1_000 * clock[0] / 6_000
    assert not cadence.slower(908_000), "now it is accepted"


def test_calls_of_another_stream_do_not_count() -> None:
    clock = [0.0]
    cadence = settled(clock)
    for number in range(901_000, 936_000, 7_000):
        call(cadence, clock, number, found=True)
    assert not cadence.is_wanted(999_000), "events are slow whatever the plan"
    call(cadence, clock, 936_000, found=True, seconds=100.0)
    assert not cadence.is_wanted(999_000), "slower still"
    cadence.turn()
    call(cadence, clock, 943_000, found=True, seconds=1_000.0)
    assert cadence.is_wanted(949_000), "that was before"


def test_the_first_check_is_soon_followed_by_one_that_plans_anew() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])

    def wait(number: int, seconds: float) -> bool:
        clock[0] += seconds
        return cadence.is_due(number)

    wait(10_000, 0.1)
    cadence.checked(10_000, 0.0095, found=False, enough=6_000)
    again = Cadence(None, 0.01, lambda: clock[0])
    again.load(cadence.dump(), 10_000)
    assert wait(20_000, 0.1) and cadence.is_settling(20_000), "little was known"
    cadence.checked(20_000, 0.0095, found=False, enough=6_000)
    assert not wait(30_000, 0.1) and not cadence.is_settling(30_000), "the next one waits for its share of the time"
    assert again.is_settling(20_000), "also after a restart"
    fixed = Cadence(1_000, 0.01, lambda: clock[0])
    fixed.checked(1_000, 0.01, found=False)
    assert not fixed.is_settling(2_000), "where checks are to be the same in each run, decisions decide alone"


def test_events_that_become_quick_and_then_slow_call_though_no_check_came_between() -> None:
    clock = [0.0]
    cadence = settled(clock)
    call(cadence, clock, 901_000, found=True)
    number = 901_000
    for micros, events in ((1, 300_000), (5, 30_000)):  # against 10 before
        assert not cadence.slower(number)
        for number in range(number + 1_000, number + events + 1, 1_000):  # noqa: B020
            clock[0] += 1_000 * micros / 1e6
            cadence.is_far(number, number + 1_000, 0)
    assert cadence.slower(number) > 1.5


def test_who_goes_on_counts_on() -> None:
    clock = [0.0]
    cadence = settled(clock)
    call(cadence, clock, 901_000, found=True)
    cadence.is_far(901_000, 902_000, 0)
    clock[0] += 1.0
    cadence.is_far(902_000, 903_000, 0)
    cadence.turn()
    again = Cadence(None, 0.01, lambda: clock[0])
    again.load(cadence.dump(), 902_000)
    assert again.dump() == cadence.dump()
    assert again.slower(902_000) == cadence.slower(902_000) > 1
    assert again.patience(1_000) == cadence.patience(1_000)
    assert again.is_wanted(907_000)


def test_a_stream_that_changes_all_the_time_is_not_followed_for_nothing() -> None:
    """Each glance shows a change: a few checks come at once, the others as their share of the time allows."""
    clock = [0.0]
    cadence = settled(clock)
    last = 900_000
    distances = []
    for number in range(last, 3_000_000, 1_000):
        cadence.is_far(number, number + 1_000, 0)
        if cadence.is_glance:
            cadence.turn()
            cadence.want(number + 1_000)
        clock[0] += 0.01
        if cadence.is_due(number + 1_000):
            distances.append((number + 1_000 - last) / 100_000)  # in seconds of work
            last = number + 1_000
            cadence.checked(last, 0.0099, found=False)
    assert all(one < 0.05 for one in distances[:3]), "a few times what a check costs"
    assert all(0.5 < one < 1.0 for one in distances[8:]), "10 ms are 1.5 % of that"


def test_plans_are_tried_between_checks_and_ever_more_rarely() -> None:
    clock = [0.0]
    cadence = settled(clock)
    clock[0] += 1.0
    cadence.checked(1_000_000, 0.0099, found=False, trying=0.02, more=True)  # what is taken for 15 ms from now on

    def next_try(number: int) -> int:
        while not cadence.is_due(number):
            clock[0] += 0.01
            number += 1_000
        return number

    near = partial(pytest.approx, abs=1_000)
    first = next_try(1_000_000)
    assert cadence.is_try and first == near(1_018_000), "six times what it takes, twice over as nothing came of it"
    cadence.tried(first, 0.015, found=False, more=True)
    second = next_try(first)
    assert cadence.is_try and second - first == near(36_000)
    cadence.tried(second, 0.015, found=True, more=True)
    third = next_try(second)
    assert cadence.is_try and third - second == near(9_000)
    again = Cadence(None, 0.01, lambda: clock[0])
    again.load(cadence.dump(), third)
    assert again.is_due(third) and again.is_try, "also after a restart"
    cadence.tried(third, 0.015, found=False, more=False)
    last = next_try(third)
    assert not cadence.is_try and last > 1_300_000, "a check, as rarely as before"


def test_a_check_comes_before_what_is_to_be_tried() -> None:
    clock = [0.0]
    cadence = settled(clock)
    clock[0] += 1.0
    cadence.checked(1_000_000, 0.0099, found=False, trying=0.02, more=True)
    cadence.want(1_003_000)
    clock[0] += 0.5
    assert cadence.is_due(1_003_000) and not cadence.is_try
