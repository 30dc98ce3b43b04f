"""Plans that are replaced while events come: nothing is lost, nothing is found twice, and what was done is told."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import PlanError
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.decisions import ByInvariants, Decision
from ensue.planning.invariants import Watch
from ensue.planning.plan import Plan, every_order, every_tree
from ensue.runtime import layout
from ensue.runtime.adapting import Adapter
from ensue.runtime.cadence import Cadence
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.runtime.watching import Watcher
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import random_case

from .agreement import time_order, to_oracle

SWAPPED = 500


def random_plan(rng: random.Random, query: Query) -> Plan:
    trees = []
    for branch in normalize(query):
        stored = rng.random() < 0.5
        few = len(branch.names) < 5
        choices = every_tree(branch.names, stored=stored) if few else every_order(branch.names, stored=stored)
        trees.append(rng.choice(list(choices)))
    return Plan(tuple(trees), rng.random() < 0.7)


def swap_all_along(seed: int, methods: tuple[str, ...]) -> int | None:
    """A random stream with another plan after every event, against the oracle; None if it cannot be replanned.

    How often another plan was at work beside the one in use.
    """
    rng = random.Random(seed)
    query, events, schema = random_case(rng)
    if not Adapter.fits(query):
        return None
    beside = 0
    engine = Engine([query], schema, adapt="static")
    name = engine.queries[0].name or ""
    found: list[Matches] = []
    for event in events:
        found.append(engine.push([event]) if rng.random() < 0.5 else engine.push_event(dict(event)))
        if rng.random() < 0.3:
            engine._tidy()
        engine.replace_plan(name, random_plan(rng, query), rng.choice(methods))  # type: ignore[arg-type]
        beside += len(engine._lane(name).retiring) > 0
        if rng.random() < 0.1:
            again = Engine([query], schema, adapt="static")
            again.restore(engine.snapshot())
            engine = again
    found.append(engine.flush())
    of_engine = to_oracle(found, time_order(events, schema))
    difference = describe_difference(of_engine, find_matches(events, query, schema))
    assert not difference, f"seed {seed}: {query}\n{difference}"
    return beside


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("methods", "seed"),
    [(("replay",), 0), (("side by side",), 10_000), (("replay", "side by side"), 20_000)],
    ids=str,
)
def test_a_swap_after_every_event(methods: tuple[str, ...], seed: int) -> None:
    done = beside = 0
    while done < SWAPPED:
        found = swap_all_along(seed, methods)
        done, beside = done + (found is not None), beside + (found or 0)
        seed += 1
    assert (beside > SWAPPED) == ("side by side" in methods) and (beside == 0) == ("side by side" not in methods)


@pytest.mark.parametrize(
    "pattern", ["AND(NOT(D d), C c)", "SEQ(NOT(D d), C c, NOT(E e))", "SEQ(NOT(D d), C c, B? b[])"]
)
def test_a_match_that_waits_may_depend_on_the_window_before_the_last(pattern: str) -> None:
    """At time 14 the C is not known to be alone until 26, and the D before it is more than a window ago by then."""
    events = [{"type": kind, "ts": ts} for kind, ts in zip("XDCXXXX", (7, 10, 14, 20, 23, 24, 30), strict=True)]
    query = f"PATTERN {pattern} WITHIN 12"
    for number in range(len(events)):
        engine = ensue.compile(query, adapt="static")
        found = 0
        for k, event in enumerate(events):
            found += len(engine.push([event]))
            if k == number:
                engine.replace_plan("q1", engine.plan_of("q1"))
        found += len(engine.flush())
        assert found == len(ensue.run(events, query)) == 0


def drifting(events: int, seed: int = 0) -> pa.Table:
    """Rare As and many Cs, and from the middle on the other way round."""
    dice = np.random.default_rng(seed)
    half = events // 2
    kinds = np.concatenate([dice.choice(3, half, p=(0.01, 0.09, 0.9)), dice.choice(3, half, p=(0.9, 0.09, 0.01))])
    return pa.table(
        {
            "type": pa.array(np.array(["A", "B", "C"])[kinds]),
            "ts": np.arange(2 * half),
            "x": dice.random(2 * half),
        }
    )


RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.x > 0.5 WITHIN 300"


@pytest.mark.parametrize(
    "decision", [ByInvariants(Watch(None)), "threshold", "unconditional"], ids=["invariants", "t", "always"]
)
@pytest.mark.parametrize("planner", ["rate", "greedy", "order", "zstream", "bushy"])
def test_adapting_changes_plans_and_not_matches(decision: str | Decision, planner: str) -> None:
    events = drifting(40_000)
    still = ensue.run(events, RISING)
    assert still.journal == []
    adapt = ensue.Adaptation(planner=planner, decision=decision, every=2_000)
    moving = ensue.run(events, RISING, adapt=adapt)
    assert sorted(moving.to_arrow()["match_id"].to_pylist()) == sorted(still.to_arrow()["match_id"].to_pylist())
    plans = [entry.new for entry in moving.journal if entry.replaced]
    assert len(set(plans)) > 1, "the plan for the first half is not the one for the second"
    for entry in moving.journal:
        assert entry.replaced == (entry.method is not None)
        assert not entry.replaced or entry.new_cost <= entry.old_cost
        json.dumps(entry.to_json())


def test_a_broken_invariant_is_told_with_both_sides() -> None:
    engine = ensue.compile(RISING, adapt=ensue.Adaptation(every=2_000))
    for batch in drifting(40_000).to_batches(1_000):
        engine.push(batch)
    broken = [entry for entry in engine.journal if entry.left is not None]
    assert broken
    assert all(entry.left >= entry.right for entry in broken)  # type: ignore[operator]
    assert "no longer holds" in broken[0].reason
    assert broken[0].statistics["rates"]["A"][0] > 0
    assert engine.take_journal() == engine.journal
    assert engine.take_journal() == []


@pytest.mark.parametrize("every", [300, 2_500, 30_000])
def test_rates_are_right_however_rarely_they_are_looked_at(every: int) -> None:
    """Of events that are gone by the next check neither the number nor the time counts."""
    engine = ensue.compile(RISING, adapt=ensue.Adaptation(every=every, decision="unconditional"))
    for batch in drifting(60_000).slice(0, 30_000).to_batches(9_000):
        engine.push(batch)
    rates = engine.journal[-1].statistics["rates"]
    assert sum(rate for rate, _ in rates.values()) == pytest.approx(1.0, rel=0.06)


def cut_anywhere(make: Callable[[], Engine], events: pa.Table, size: int, restart: bool) -> tuple[list[str], list[Any]]:
    engine = make()
    found: list[str] = []
    told: list[Any] = []
    for start in range(0, events.num_rows, size):
        found += engine.push(events.slice(start, size)).to_arrow()["match_id"].to_pylist()
        told += [(entry.at, entry.new, entry.method) for entry in engine.take_journal()]
        if restart:
            again = make()
            again.restore(engine.snapshot())
            engine = again
    return sorted([*found, *engine.flush().to_arrow()["match_id"].to_pylist()]), told


def test_a_restart_goes_on_with_plan_statistics_and_invariants() -> None:
    events = drifting(24_000)

    def make() -> Engine:
        return ensue.compile(RISING, adapt=ensue.Adaptation(every=2_000))

    whole, journal = cut_anywhere(make, events, 3_000, restart=False)
    parts, again = cut_anywhere(make, events, 3_000, restart=True)
    assert parts == whole
    assert again == journal


def test_another_adaptation_goes_on_from_a_snapshot() -> None:
    """Any adaptation, or none, takes up what another one left; plans are replaced once a window's rows are there."""
    absence = "PATTERN SEQ(!B n, A a, C c) WHERE n.x > a.x AND a.x < c.x AND a.x > 0.9 WITHIN 500"
    events = drifting(24_000)
    every = {"every": 400}
    turns: list[Any] = [
        None,
        ensue.Adaptation(**every),
        ensue.Adaptation(planner="zstream", **every),
        None,
        ensue.Adaptation(decision="unconditional", **every),
        ensue.Adaptation(decision="unconditional", method="side by side", **every),
        ensue.Adaptation(windows=2, **every),
        ensue.Adaptation(windows=2),
    ]
    for query in (RISING, absence):
        expected = ensue.run(events, query).to_arrow()["match_id"].to_pylist()
        engine, found, told = ensue.compile(query, adapt=turns[0]), [], []
        for number, adapt in enumerate(turns):
            again = ensue.compile(query, adapt=adapt)
            again.restore(engine.snapshot())
            engine = again
            for batch in events.slice(number * 3_000, 3_000).to_batches(700):
                found += engine.push(batch).to_arrow()["match_id"].to_pylist()
            told.append(engine.take_journal())
            if adapt is None:
                with pytest.raises(PlanError, match="adapt="):
                    engine.replace_plan("q1", engine.plan_of("q1"))
        found += engine.flush().to_arrow()["match_id"].to_pylist()
        assert sorted(found) == sorted(expected)
        assert [bool(entries) for entries in told[:4]] == [False, True, True, False]
        assert told[1][0].reason == told[2][0].reason == "no plan has been made from statistics yet"


def test_a_plan_needs_the_rows_of_a_window() -> None:
    still = ensue.compile("PATTERN SEQ(A a, C c) WHERE a.x > 0.9 WITHIN 500")
    still.push(drifting(30_000))
    engine = ensue.compile("PATTERN SEQ(A a, C c) WHERE a.x > 0.9 WITHIN 500", adapt="static")
    engine.restore(still.snapshot())
    with pytest.raises(PlanError, match="cannot be replanned yet"):
        engine.replace_plan("q1", engine.plan_of("q1"))


@pytest.mark.parametrize("method", ["replay", "side by side"])
def test_what_limits_made_it_drop_stays_counted(method: Any) -> None:
    limits = ensue.Options(max_partial_matches=50, max_matches=100, on_limit="shed")
    engine = ensue.compile("PATTERN AND(A a, B b, C c) WITHIN 500", options=limits, adapt="static")
    events, dropped = drifting(8_000), 0
    plans = [Plan((tree,), True) for tree in every_order(["a", "b", "c"], stored=True)]
    for number, batch in enumerate(events.to_batches(300)):
        engine.push(batch)
        engine.replace_plan("q1", plans[number % len(plans)], method)
        assert engine.counts.shed_partial_matches >= dropped
        dropped = engine.counts.shed_partial_matches
    assert dropped > 0


def test_checks_keep_their_distance_through_restarts() -> None:
    """The time that an engine works is counted, though none lives as long as from one check to the next."""
    cadence = Cadence(None, budget=0.5)
    for _ in range(6):
        again = Cadence(None, budget=0.5)
        again.load(json.loads(json.dumps({**cadence.dump(), "worked": 1.0})), cadence.next - 1)
        again.checked(again.next, 0.25, found=True)  # of a second that it has worked: half of what it may take
        assert again.events == 2048, "a check that is cheap beside the work need not wait longer"
        assert again.dump()["worked"] < 1.0
        cadence = again
    soon = Cadence(100, budget=0.5)
    soon.load(cadence.dump(), 5_000)
    assert (soon.next, soon.events) == (5_100, 100)


@pytest.mark.parametrize("method", ["replay", "side by side"])
def test_events_that_come_one_by_one(method: str) -> None:
    """Plans follow them too, and a plan that takes over after some of them knows which were before."""
    events = drifting(26_000)
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND c.x < b.x AND a.x > 0.5 WITHIN 100"
    adapt = ensue.Adaptation(every=4_000, decision="unconditional", method=method)  # type: ignore[arg-type]
    engine = ensue.compile(query, adapt=adapt)
    found = sum(len(engine.push_event(row)) for row in events.to_pylist())
    assert found == len(ensue.run(events, query)) > 0
    plans = [entry.new for entry in engine.journal if entry.replaced]
    assert len(set(plans)) > 1, "the plan for the first half is not the one for the second"
    rates = engine.journal[-1].statistics["rates"]
    assert sum(rate for rate, _ in rates.values()) == pytest.approx(1.0, rel=0.06)
    assert engine.state_bytes < 4_000_000, "rows that have left the window are released"


def test_a_check_is_put_off_until_its_cost_is_a_small_share() -> None:
    clock = [0.0]
    cadence = Cadence(None, budget=0.01, clock=lambda: clock[0])
    number = checks = 0
    while number < 4_000_000:  # a million events a second, and a check takes 2 ms
        stop = cadence.cut(number, number + 1_000)
        clock[0] += (stop - number) * 1e-6
        number = stop
        if cadence.is_due(number):
            clock[0] += 0.002
            cadence.checked(number, 0.002, found=True)
            checks += 1
    assert 0.006 < checks * 0.002 / clock[0] < 0.0125
    assert not cadence.is_due(number + 10_000), "where the clock stands still there is no reason to look"
    clock[0] += 60.0
    assert cadence.is_due(number + 10_000)
    assert ensue.Adaptation(decision="static").cadence() is None


def test_events_far_from_a_check_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(held: list[int]) -> list[Any]:
        adapt = ensue.Adaptation(every=30_000, decision="unconditional")
        engine = ensue.compile("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 100", adapt=adapt)
        for start in range(0, 120_000, 1000):
            engine.push(events.slice(start, 1000))
            (adapter,) = engine._loop.adapters.values()
            held.append(adapter.watcher._number)
        return [entry.statistics for entry in engine.journal]

    events = drifting(120_000)
    some: list[int] = []
    every: list[int] = []
    known = run(some)
    monkeypatch.setattr(Watcher, "_find_reach", lambda _: float("inf"))
    assert known == run(every), "what is known does not depend on it"
    assert not any(some[30:50]) and some[58]
    assert all(every[30:59])


def test_a_stream_that_becomes_slow_is_checked_sooner() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    clock[0] = 1.0
    cadence.checked(10_000, 0.001, found=True)
    assert cadence.is_far(10_000, 10_100, 500)
    assert not cadence.is_far(cadence.next - 900, cadence.next - 400, 500), "it comes soon"
    clock[0] = 2.0
    assert not cadence.is_far(10_100, 10_200, 500), "it is due"


def test_nothing_is_asked_about_short_batches_for_a_while() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    clock[0] = 1.0
    cadence.checked(10_000, 0.001, found=True)
    assert not cadence.is_quiet(10_100), "it is not known how far the next check is"
    assert cadence.is_far(10_000, 10_100, 500)
    assert cadence.is_quiet(10_200)
    assert cadence.is_quiet(cadence.next - 500)
    assert not cadence.is_quiet(cadence.next - 499), "the next check wants to look at those"
    clock[0] += 0.005
    assert not cadence.is_quiet(10_200), "batches may have become slow"
    assert cadence.is_far(10_200, 10_300, 500)
    assert cadence.is_quiet(10_400)
    cadence.want(10_350)
    assert not cadence.is_quiet(10_400), "a check was called for"
    counted = Cadence(1_000, 0.01)
    assert counted.is_far(0, 100, 300)
    assert counted.is_quiet(700)
    assert not counted.is_quiet(701)


def test_events_that_suddenly_take_longer_are_noticed() -> None:
    clock = [0.0]

    def events_until_due(cadence: Cadence, number: int, seconds: float) -> int:
        """Batches of 2,500 events that take so long each."""
        came = 0
        while True:
            cadence.is_far(number + came, number + came + 2500, 0)
            clock[0] += seconds
            came += 2500
            if cadence.is_due(number + came):
                return came

    def settled() -> Cadence:
        cadence = Cadence(None, 0.01, lambda: clock[0])
        for number in range(100_000, 2_000_000, 100_000):
            clock[0] += 1.0
            cadence.checked(number, 0.0099, found=True)  # 1 % of a second's work
        return cadence

    cadence = settled()
    assert 90_000 < events_until_due(cadence, 1_900_000, 0.025) < 110_000
    cadence.checked(2_000_000, 0.0099, found=True)
    assert cadence.slower(2_000_000) == 0.0
    assert 2_500 <= (came := events_until_due(cadence, 2_000_000, 0.1)) <= 7_500, "after a tenth of the time"
    assert 3.9 < cadence.slower(2_000_000 + came) < 4.1
    cadence = settled()
    cadence.turn()
    assert events_until_due(cadence, 1_900_000, 0.1) == 2_500, "sooner if the stream is seen to have changed"
    cadence = settled()
    assert events_until_due(cadence, 1_900_000, 0.036) > 60_000, "not if they take little longer"
    restored = Cadence(None, 0.01, lambda: clock[0])
    restored.load(cadence.dump(), 2_010_000)
    assert restored._pace == cadence._pace
    for found in (False, True):
        cadence = settled()
        came = 1_900_000 + events_until_due(cadence, 1_900_000, 0.1)
        cadence.checked(came, 0.0099, found=found)
        assert events_until_due(cadence, came, 0.1) < 15_000, "looked at again as long as they take longer"
    cadence = settled()
    number, often = 1_900_000, []
    for _ in range(10):  # however often it is stored and restored, it is not looked again for ever
        came = events_until_due(cadence, number, 0.1)
        number += came
        often.append(came < 15_000)
        cadence.checked(number, 0.0099, found=False)
        restored = Cadence(None, 0.01, lambda: clock[0])
        restored.load(cadence.dump(), number)
        cadence = restored
    assert often[:4] == [True] * 4 and not any(often[-3:]) and often == sorted(often, reverse=True)


def test_checks_that_find_nothing_become_rarer() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    between = []
    number = 0
    for check in range(16):
        clock[0] += cadence.events * 1e-5
        number += cadence.events
        cadence.checked(number, 0.0099, found=check == 14)
        between.append(cadence.events)
    assert between[3] < between[4] < between[12], "half as far again each time"
    assert between[13] == pytest.approx(16 * between[14], rel=0.05), "a quarter of the budget, then four times it"
    assert between[15] > 4 * between[14], "for one check"


def test_what_others_do_is_not_counted() -> None:
    """Only kernels are: an engine that waits for long, or whose user does, is not checked for that."""
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10", adapt=True)
    engine.push(drifting(100))
    before = engine._loop._worked()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert engine._loop._worked() == before > 0
    for row in drifting(400).to_pylist()[100:]:
        engine.push_event(row)
    engine.push(drifting(500).slice(400))
    assert engine._loop._worked() > before
    assert engine.kernel_seconds < engine._loop._worked(), "events that come one by one are timed from look to look"


def test_a_glance_tells_that_rates_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where events do not become slow: the check comes when plans can race over what is new."""

    def is_far(cadence: Cadence, first: int, *_: int) -> bool:
        cadence.is_glance = first >= 4_000
        return cadence.is_glance

    monkeypatch.setattr(Cadence, "is_far", is_far)
    monkeypatch.setattr(Cadence, "is_due", lambda one, number, **_: number <= 4_000 or one.is_wanted(number))
    dice = np.random.default_rng(2)
    kinds = np.concatenate([dice.choice(["A", "B"], 20_000, p=p) for p in ((0.5, 0.5), (0.9, 0.1))])
    events = pa.table({"type": kinds, "ts": np.arange(40_000)})
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10", adapt=True)
    checks = []
    for start in range(0, 40_000, 2_000):
        engine.push(events.slice(start, 2_000))
        checks.append(engine._loop.adapters["q1"].checks)
    assert checks == [1] + 12 * [2] + 7 * [3], "seen at 22,000, and 4,106 events later all is known"
    assert engine._loop.adapters["q1"].watcher._collector.turned == 21_999


def test_a_batch_is_glanced_at_once_a_check_would_not_cost_too_much() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    for number in (90_000, 100_000):  # the first is soon followed by another
        clock[0] = 1e-5 * number
        cadence.checked(number, 0.0104, found=True)  # 10 microseconds an event, and a check is taken for 5.5 ms at last
    glances = []
    for number in range(100_000, 150_000, 1_000):
        assert cadence.is_far(number, number + 1_000, 0)
        glances.append(cadence.is_glance)
        clock[0] += 0.004
    assert not any(glances[:3]), "not before as much has been worked as may be lost"
    assert 13 <= sum(glances) <= 18, "and then each hundredth of a second"
    cadence.turn()
    cadence.want(160_000)
    assert not cadence.is_far(150_000, 161_000, 0) and not cadence.is_glance, "until it is checked"


def test_a_batch_is_cut_where_a_check_was_asked_for() -> None:
    exact, loose = Cadence(100, 0.01), Cadence(None, 0.01)
    assert (exact.cut(0, 1_000), exact.cut(50, 1_000), exact.cut(0, 99)) == (100, 100, 99)
    assert loose.cut(0, loose.next + 10) == loose.next + 10  # not cut for the sake of ten events
    assert loose.cut(0, 10 * loose.next) == loose.next
    loose.next = 10**9
    assert loose.cut(0, 10**8) < 10**6  # but the clock is looked at: events may have become slow


def test_a_branch_is_planned_anew_for_itself() -> None:
    """Of two branches only that whose rates change gets another tree."""
    events = drifting(40_000)
    steady = pa.table({"type": np.resize(["D", "E"], 40_000), "ts": np.arange(40_000), "x": np.zeros(40_000)})
    both = pa.concat_tables([events, steady]).sort_by("ts")
    query = "PATTERN OR(SEQ(A a, B b, C c), SEQ(D d, E e)) WHERE a.x < b.x AND b.x < c.x AND a.x > 0.5 WITHIN 50"
    engine = ensue.compile(query, adapt=ensue.Adaptation(every=4_000, gain=0.0))
    engine.push(both)
    planned = [entry for entry in engine.journal if entry.replaced]
    assert len({entry.new.split(" | ")[0] for entry in planned}) > 1
    assert len({entry.new.split(" | ")[1] for entry in planned}) == 1


def inverting(events: int, rates: tuple[int, ...]) -> pa.Table:
    """Types of these rates, and from the middle on the other way round; x, y and z fall from type to type."""
    dice = np.random.default_rng(3)
    shares = np.array(rates) / sum(rates)
    halves = [dice.choice(len(rates), events // 2, p=p) for p in (shares, shares[::-1])]
    kinds = np.concatenate(halves)
    falling = {name: dice.normal(-2.3 * kinds) for name in "xyz"}
    return pa.table({"type": np.array(list("ABCD"))[kinds], "ts": np.arange(events), **falling})


def stored_in_halves(engine: Engine, events: pa.Table) -> tuple[int, int]:
    """How many partial matches were stored in each half of a stream, those that a replacement made again included."""
    found = [0, 0]
    state = None
    for start in range(0, events.num_rows, 500):
        before = 0 if state is None else int(state.arena[layout.S_CREATED])
        engine.push(events.slice(start, 500))
        now = engine._lanes[0].state
        found[2 * start >= events.num_rows] += int(now.arena[layout.S_CREATED]) - (before if now is state else 0)
        state = now
    return found[0], found[1]


@pytest.mark.parametrize("planner", ["greedy", "zstream"])
def test_rates_that_invert_make_five_times_the_work_for_a_plan_that_stays(planner: str) -> None:
    events = inverting(60_000, (100, 22, 5, 1))
    query = "PATTERN AND(A a, B b, C c, D d) WHERE a.x < b.x AND b.y < c.y AND c.z < d.z WITHIN 800"
    first = ensue.compile(query, adapt=ensue.Adaptation(planner=planner, every=4_000))
    first.push(events.slice(0, 4_000))
    plan = first.plan_of("q1")
    still = ensue.compile(query, plan=plan)
    moving = ensue.compile(query, plan=plan, adapt=ensue.Adaptation(planner=planner, every=1_000))
    early, late = stored_in_halves(still, events), stored_in_halves(moving, events)
    assert late[0] < 1.2 * early[0]
    assert 5 * late[1] < early[1], f"{late[1]:,} partial matches where the first plan makes {early[1]:,}"
    assert still.counts.matches == moving.counts.matches


def test_what_cannot_be_adapted_runs_as_it_is() -> None:
    events = drifting(6_000)
    for query in ("PATTERN SEQ(A a, B b) WITHIN 20 EVENTS", "PATTERN SEQ(A a, B b) WITHIN 100 USING NEXT"):
        matches = ensue.run(events, query, adapt=ensue.Adaptation(every=500, decision="unconditional"))
        assert len(matches) == len(ensue.run(events, query))
        assert matches.journal == []
        engine = ensue.compile(query, adapt="static")
        engine.push(events)
        with pytest.raises(PlanError, match="cannot be replanned"):
            engine.replace_plan("q1", engine.plan_of("q1"))
    with pytest.raises(PlanError, match="adapt="):
        engine = ensue.compile(RISING)
        engine.push(events)
        engine.replace_plan("q1", engine.plan_of("q1"))


def test_a_plan_that_saves_little_does_not_take_over() -> None:
    events = drifting(40_000)
    query = "PATTERN SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND c.x < b.x AND c.x < d.x WITHIN 50"

    def run(gain: float) -> list[Any]:
        adapt = ensue.Adaptation(every=4_000, decision="unconditional", gain=gain)
        return list(ensue.run(events, query, adapt=adapt).journal)

    def saved(gain: float) -> list[float]:
        return [1 - entry.new_cost / entry.old_cost for entry in run(gain) if entry.replaced]

    assert 0 < min(saved(0.0)) < 0.2
    assert min(saved(0.15)) >= 0.15
    assert not any(entry.replaced for entry in run(0.999))


def test_what_is_put_in_by_hand_is_checked() -> None:
    engine = ensue.compile(RISING, adapt="static")
    engine.push(drifting(2_000))
    with pytest.raises(PlanError, match="no method 'leap': take replay or side by side"):
        engine.replace_plan("q1", engine.plan_of("q1"), "leap")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"'\(a ⋈ b\)' is no plan"):
        engine.replace_plan("q1", "(a ⋈ b)")  # type: ignore[arg-type]


def test_batches_between_events_that_come_one_by_one() -> None:
    """Which way an event takes depends on its type here, and must not show in the rates."""
    engine = ensue.compile(RISING, adapt=ensue.Adaptation(every=2_000, decision="unconditional"))
    for row in drifting(24_000).to_pylist()[:6_000]:
        if row["type"] == "B":
            engine.push([row])
        else:
            engine.push_event(row)
    rates = engine.journal[-1].statistics["rates"]
    assert [rates[kind][0] for kind in "ABC"] == pytest.approx([0.01, 0.09, 0.9], rel=0.3)


def test_nothing_of_the_journal_is_lost_to_who_takes_it() -> None:
    engine = ensue.compile(RISING, adapt=ensue.Adaptation(every=5, decision="unconditional"))
    assert engine.take_journal() == []
    engine.push(drifting(8_000))
    taken = engine.take_journal()
    assert len(taken) == engine.counts.planned > 1_000 == len(engine.journal)
    assert taken[-1_000:] == engine.journal and engine.take_journal() == []


def test_what_a_switch_takes_is_told() -> None:
    journal = ensue.run(drifting(40_000), RISING, adapt=ensue.Adaptation(every=2_000)).journal
    for entry in journal:
        assert 0.0 <= entry.switch_seconds <= entry.seconds
    assert all(entry.switch_seconds > 1e-5 for entry in journal if entry.replaced)
