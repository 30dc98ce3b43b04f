"""Batches that are left where events take too long, so that a plan can be replaced there."""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import LimitError
from ensue.planning.plan import Plan, left_deep
from ensue.runtime import evaluator, lanes, layout
from ensue.runtime.adapting import Adapter
from ensue.runtime.cadence import Cadence
from ensue.runtime.engine import Engine
from ensue.testing.random_queries import random_case


def impatient(monkeypatch: pytest.MonkeyPatch, enough: int = 1 << 19) -> None:
    """Let each batch be left at the first look at the clock, after so many rows that were looked at."""
    monkeypatch.setattr(Cadence, "patience", lambda *_: 0.0)
    monkeypatch.setattr(evaluator, "_ENOUGH", enough)


def check_if_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a check come where a batch is left, and nowhere else."""
    monkeypatch.setattr(Cadence, "is_far", lambda *_: True)
    monkeypatch.setattr(Cadence, "is_due", lambda _, number, *, is_urgent=False: is_urgent and number >= 256)


@pytest.mark.parametrize(
    ("enough", "method"), [(1, "auto"), (7, "auto"), (1 << 19, "auto"), (1, "side by side"), (1 << 19, "side by side")]
)
def test_a_batch_that_is_left_anywhere_gives_the_same_matches(
    monkeypatch: pytest.MonkeyPatch, enough: int, method: Literal["auto", "side by side"]
) -> None:
    impatient(monkeypatch, enough)
    monkeypatch.setattr(lanes, "_FEW", 3)
    monkeypatch.setattr(Cadence, "is_due", lambda *_, **__: True)
    done = seed = 0
    while done < 60:
        seed += 1
        rng = random.Random(seed)
        query, events, schema = random_case(rng)
        if not Adapter.fits(query):
            continue
        done += 1
        expected = Counter(match["match_id"] for match in Engine([query], schema).push_sorted(events))
        adapt = ensue.Adaptation(decision="unconditional", gain=0.0, tried=False, method=method)
        engine = Engine([query], schema, adapt=adapt)
        found: Counter[str] = Counter()
        cuts = sorted(rng.sample(range(len(events) + 1), min(3, len(events))))
        for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
            found.update(match["match_id"] for match in engine.push(events[start:stop]))
        found.update(match["match_id"] for match in engine.flush())
        assert found == expected, f"seed {seed}: {query}"
        assert engine.counts.processed == len(events)


def rare_first(events: int) -> pa.Table:
    dice = np.random.default_rng(5)
    kinds = dice.choice(3, events, p=(0.01, 0.19, 0.8))
    return pa.table({"type": np.array(list("ABC"))[kinds], "ts": np.arange(events), "x": dice.random(events)})


ALL = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 300"


def test_the_rest_of_a_batch_waits_for_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch, 20_000)
    check_if_urgent(monkeypatch)
    engine = ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=ensue.Adaptation(tried=False))
    engine.push(rare_first(6_000))
    place = next(entry.at for entry in engine.journal if entry.replaced)
    assert 255 <= place < 1_000, "soon after so many rows were looked at"


def test_plans_side_by_side_leave_a_batch_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan that goes may be the one that takes too long: it must not be in the way of a third one."""
    events = rare_first(12_000)
    engine = ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=ensue.Adaptation(tried=False))
    found = [len(engine.push(events.slice(0, 1_000)))]
    engine.replace_plan("q1", Plan((left_deep("bca", stored=True),)), "side by side")
    (lane,) = engine._lanes
    assert lane.retiring
    monkeypatch.setattr(Cadence, "patience", lambda *_: 0.0)
    checked: list[int] = []
    monkeypatch.setattr(Cadence, "is_due", lambda _, number, *, is_urgent=False: is_urgent and checked.append(number))
    found.append(len(engine.push(events.slice(1_000, 100))))
    assert checked[0] == 1_000 + lanes._FEW
    engine.replace_plan("q1", Plan((left_deep("abc", stored=True),)), "replay")
    assert not lane.retiring
    found += [len(engine.push(events.slice(1_100))), len(engine.flush())]
    assert sum(found) == len(ensue.run(events, ALL)) > 0


def test_a_batch_is_left_where_partial_matches_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is not looked at before: a plan that no longer fits shows by what it holds."""
    impatient(monkeypatch)
    check_if_urgent(monkeypatch)
    engine = ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=ensue.Adaptation(tried=False))
    found = engine.push(rare_first(6_000))
    places = [entry.at for entry in engine.journal if entry.replaced]
    assert places and places[0] < 5_999
    assert len(found) + len(engine.flush()) == len(ensue.run(rare_first(6_000), ALL))


def test_several_queries_take_a_batch_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch, 1)
    check_if_urgent(monkeypatch)
    two = f"QUERY one {ALL}; QUERY two {ALL}"
    engine = ensue.compile(two, adapt=True)
    found = engine.push(rare_first(6_000))
    assert not engine.journal
    assert len(found) + len(engine.flush()) == 2 * len(ensue.run(rare_first(6_000), ALL))


def test_who_has_gone_over_a_limit_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the kernel come back is not left in the state."""
    impatient(monkeypatch, 1)
    few = ensue.Options(max_partial_matches=100)
    plan = Plan((left_deep("cba", stored=True),))
    engine = ensue.compile(ALL, plan=plan, adapt=ensue.Adaptation(tried=False), options=few)
    with pytest.raises(LimitError):
        engine.push(rare_first(6_000))
    ((_, state),) = engine._pairs()
    assert state.arena[layout.S_ENOUGH] == 0


def test_patience_is_what_events_may_take_and_what_a_check_costs() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    assert cadence.patience(1_000) is None, "nothing is known yet"
    known = {"next": 1_000_000, "events": 1_000_000, "last": 0, "worked": 0.0, "cost": 2e-3, "pace": 2e-6}
    cadence.load(known, 0)
    cadence.is_far(0, 1_000, 0)
    for number, took in ((1_000, 0.002), (2_000, 0.003), (3_000, 0.001)):
        clock[0] += took
        cadence.is_far(number, number + 1_000, 0)
        assert cadence.patience(1_000) == pytest.approx(1.5 * 0.002 + 2.5 * 0.002), "as expected"
    clock[0] += 0.005  # of which 0.002 are too much
    cadence.is_far(4_000, 5_000, 0)
    assert cadence.patience(1_000) == pytest.approx(0.003 + 0.005 - 0.002)
    clock[0] += 0.007  # what is too much would call for a check, if the stream were seen to have changed
    cadence.is_far(5_000, 6_000, 0)
    assert cadence.is_glance
    assert cadence.patience(1_000) == pytest.approx(0.003 + 3 * 0.005 - 0.006)
    cadence.turn()
    assert cadence.patience(1_000) == pytest.approx(0.003)
    assert Cadence(500, 0.01).patience(1_000) is None, "where checks were asked for, nothing depends on the clock"
