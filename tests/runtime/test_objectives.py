"""Plans for latency while events come: the same matches, and other plans as events come faster."""

from __future__ import annotations

import random
from typing import Any

import pytest

import ensue
from ensue.errors import PlanError
from ensue.planning.decisions import ByInvariants
from ensue.planning.distances import ConstantDistance
from ensue.planning.latency import Timings
from ensue.runtime.adaptation import Adaptation, read_adapt

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 10s"
TIMINGS = Timings(predicate=2e-5, result=2e-4, insert=5e-4)
LATENCY = Adaptation(
    objective="latency", timings=TIMINGS, every=200, decision=ByInvariants(distance=ConstantDistance(0.0))
)


def stream(rng: random.Random, times: list[int]) -> list[dict[str, Any]]:
    """Of pairs a < b one in 50, of b < c one in 100: it would be best to match from the end, but c comes last."""
    events = []
    for ts in times:
        kind = rng.choice("ABC")
        events.append({"type": kind, "ts": ts, "x": rng.randrange(1000), "y": rng.randrange(1000)})
        if kind == "B":
            events[-1]["x"] %= 40
        if kind == "C":
            events[-1]["y"] %= 20
    return events


def test_the_faster_events_come_the_less_is_done_ahead() -> None:
    rng = random.Random(7)
    slow = [160 * k for k in range(1000)]  # 6 a second
    fast = [slow[-1] + 8 * k for k in range(1, 4000)]  # 125 a second
    again = [fast[-1] + 160 * k for k in range(1, 2000)]
    engine = ensue.compile(QUERY, adapt=LATENCY)
    found, plans, events = [], [], []
    for times in (slow, fast, again):
        part = stream(rng, times)
        found += [match["match_id"] for match in engine.push(part)]
        plans.append(str(engine.plan_of("q1")))
        events += part
    assert plans == ["(c ⋈ (a ⋈ b)*)", "((c ⋈ b) ⋈ a)", "(c ⋈ (a ⋈ b)*)"]
    expected = [match["match_id"] for match in ensue.run(events, QUERY)]
    assert expected and sorted(found) == sorted(expected)
    changes = [entry for entry in engine.journal if entry.replaced]
    assert "latency((c ⋈ (a ⋈ b)*)) " in changes[1].reason
    assert all(entry.new_cost < entry.old_cost for entry in changes)
    shown = engine.explain()
    assert "chosen for latency" in shown and shown.count("  > ") == 1


def test_one_by_one_and_through_a_snapshot() -> None:
    events = stream(random.Random(3), [20 * k for k in range(900)])
    expected = [match["match_id"] for match in ensue.run(events, QUERY)]
    engine = ensue.compile(QUERY, adapt=LATENCY)
    found = []
    for number, event in enumerate(events):
        found += [match["match_id"] for match in engine.push_event(event)]
        if number == 450:
            saved = engine.snapshot()
            engine = ensue.compile(QUERY, adapt=LATENCY)
            engine.restore(saved)
    assert engine.counts.planned  # in part before, in part after
    assert expected and sorted(found) == sorted(expected)


def test_the_objective_alone_is_to_adapt() -> None:
    assert read_adapt(None, "throughput") is None
    assert read_adapt("threshold", "latency") == Adaptation(decision="threshold", objective="latency")
    assert read_adapt(Adaptation(objective="latency")) == Adaptation(objective="latency")
    with pytest.raises(PlanError, match="no objective 'speed': take throughput or latency"):
        ensue.compile(QUERY, objective="speed")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="again after 0 seconds"):
        Adaptation(objective="latency", recalibrate=0)


def test_with_the_timings_of_this_machine() -> None:
    events = stream(random.Random(3), [20 * k for k in range(600)])
    adapt = Adaptation(every=100, recalibrate=1e-3)
    matches = ensue.run(events, QUERY, adapt=adapt, objective="latency")
    assert len(matches) == len(ensue.run(events, QUERY))
    assert matches.journal
