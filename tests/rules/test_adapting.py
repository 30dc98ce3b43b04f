"""The order of a rule's joins by statistics: chosen, changed with the stream, told, stored; never the result."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.events.schema import DType, Schema
from ensue.language import parse_program
from ensue.planning.planners import planner_named
from ensue.planning.rule_figures import find_ties, longest_reach, reach_of, rule_figures
from ensue.planning.rule_programs import plan_program
from ensue.planning.rules import RulePlan
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.rule_engine import RuleEngine
from ensue.statistics.snapshot import Estimate, Statistics

THREE = """
EVENT a(x: int, u: int); EVENT b(x: int, y: int); EVENT c(y: int, s: string);
RULE abc(x, y, s) <- i: a(x, _), j: b(x, y), k: c(y, s), {i, j, k} WITHIN 40;
"""
CHECKED = Adaptation(every=500, windows=8)


def make_stream(shares: tuple[float, float, float], size: int, start: int, seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    kinds = dice.choice(3, size, p=shares)
    return pa.table(
        {
            "type": pa.array(["a", "b", "c"]).take(pa.array(kinds)),
            "ts": start + np.arange(size),
            "x": dice.integers(0, 4, size),
            "u": dice.integers(0, 4, size),
            "y": dice.integers(0, 4, size),
            "s": pa.array(["p", "q", None]).take(pa.array(dice.integers(0, 3, size))),
        }
    )


def plan_of(text: str) -> RulePlan:
    schema = Schema({"type": DType.STRING, "ts": DType.INT, **dict.fromkeys("xyuz", DType.INT), "s": DType.STRING})
    (plan,) = plan_program(parse_program(text), schema)[1]["d"]
    return plan


def test_figures_follow_from_rates_shares_and_the_conditions_on_time() -> None:
    plan = plan_of(
        "EVENT a(x: int, u: int); EVENT b(x: int, y: int); EVENT c(y: int);"
        "RULE d(x) <- i: a(x, u), j: b(x, y), k: c(y), i BEFORE j BY < 10, j BEFORE k BY < 20, u < y, u > 1;"
    )
    assert (reach_of(plan, "i", "j"), reach_of(plan, "j", "k"), longest_reach(plan)) == (9, 19, 27)
    ties = {(tie.left, tie.right): tie for tie in find_ties(plan.body)}
    assert ties["i", "j"].variables == ("x",) and len(ties["i", "j"].conditions) == 1
    assert ties["j", "k"].variables == ("y",) and not ties["j", "k"].conditions
    assert not ties["i", "k"].variables and len(ties["i", "k"].conditions) == 1
    rates = {"i": Estimate(2.0), "j": Estimate(1.0), "k": Estimate(0.1)}
    figures = rule_figures(plan, Statistics(1000.0, rates, {}, {("i", "j"): Estimate(0.5)}))
    assert figures.window == 27 and figures.arrivals("i") == 2.0
    assert figures.selectivity("i", "j") == pytest.approx(0.5 * 9 / 27)
    assert figures.selectivity("j", "k") == pytest.approx(19 / 27)
    assert str(planner_named("greedy").plan(figures)).startswith("greedy: ((k ⋈ j) ⋈ i)")


def test_what_nothing_bounds_reaches_as_far_as_statistics() -> None:
    plan = plan_of("EVENT a(x: int); RULE d(x) <- i: a(x), j: a(x), k: a(x), i BEFORE j BY < 10, j BEFORE k;")
    assert reach_of(plan, "i", "k") is None and longest_reach(plan) is None
    assert rule_figures(plan, Statistics(500.0, {}, {}, {})).window == 500


def test_the_order_follows_the_stream_and_the_result_does_not() -> None:
    parts = [make_stream((0.02, 0.08, 0.9), 4000, 0, 1), make_stream((0.9, 0.08, 0.02), 4000, 4000, 2)]
    fixed, adapting = (RuleEngine(parse_program(THREE), is_stream=True, adapt=adapt) for adapt in (None, CHECKED))
    derived: dict[RuleEngine, list[object]] = {fixed: [], adapting: []}
    orders = []
    for part in parts:
        for engine, found in derived.items():
            found += [*engine.push(part)]
        orders.append(json.loads(adapting.explain("json"))["rules"][0]["order"])
        saved, adapting = adapting.snapshot(), RuleEngine(parse_program(THREE), is_stream=True, adapt=CHECKED)
        adapting.restore(saved)
        derived = {fixed: derived[fixed], adapting: [*derived.values()][1]}
    key = str
    assert sorted(derived[fixed], key=key) == sorted(derived[adapting], key=key)
    assert len(derived[fixed]) > 1000
    assert [order["order"][-3:] for order in orders] == [" k)", " i)"]  # the most frequent come last
    assert orders[1]["tuples"] < 0.8 * orders[1]["written_tuples"]
    assert orders[0]["rows"]["k"] > 10 * orders[0]["rows"]["i"]
    assert orders[0]["pairs"]["sel(j, k)"] == pytest.approx(0.25, rel=0.3)  # four values of y


def test_what_was_decided_is_told() -> None:
    engine = ensue.compile(THREE, adapt=CHECKED)
    engine.push(make_stream((0.9, 0.08, 0.02), 3000, 0, 3))
    (entry,) = [entry for entry in engine.journal if entry.replaced]
    assert (entry.query, entry.old, entry.new) == ("abc", "((i ⋈ j) ⋈ k)", "((k ⋈ j) ⋈ i)")
    assert entry.new_cost < entry.old_cost and entry.replayed > 0
    assert engine.take_journal() == engine.journal and not engine.take_journal()
    assert engine.counts.replaced == 1
    shown = engine.explain()
    assert "joined in the order ((k ⋈ j) ⋈ i) by statistics" in shown and "rows in that time: i " in shown
    assert "(k, j) ⋈ i" in shown


def test_two_events_leave_nothing_to_choose() -> None:
    engine = ensue.compile(
        "EVENT a(x: int); RULE d(x) <- i: a(x), j: a(x), i BEFORE j BY < 9;", adapt=Adaptation(every=1)
    )
    for ts in range(5):
        engine.push_event({"type": "a", "ts": ts, "x": 1})
    assert not engine.journal and engine.counts.planned == 0


def test_checks_that_find_nothing_become_rarer() -> None:
    engine = RuleEngine(parse_program(THREE), is_stream=True, adapt=Adaptation())
    engine.push(make_stream((0.02, 0.08, 0.9), 2000, 0, 1))
    cadence = engine._cadence
    assert cadence is not None
    checks, idle = [], []
    for number in range(1, 6):
        found = engine.counts.replaced
        engine._adapt(10_000 * number, cadence)
        checks.append(engine.counts.replaced > found)
        idle.append(cadence._idle)
    assert checks[1:] == [False] * 4, "the stream is the same"
    assert idle[-3:] == [idle[-4] + 1, idle[-4] + 2, idle[-4] + 3]


def test_only_the_time_of_rules_counts() -> None:
    clock = [0.0]
    engine = RuleEngine(parse_program(THREE), is_stream=True, adapt=Adaptation())
    engine.push(make_stream((0.02, 0.08, 0.9), 100, 0, 1))
    assert engine._cadence is not None
    before = engine._cadence.worked
    sum(k * k for k in range(300_000))  # what the caller does in between
    assert engine._cadence.worked == before > clock[0]
