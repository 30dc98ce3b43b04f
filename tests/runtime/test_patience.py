"""Batches that are left where events take too long, so that a plan can be replaced there."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.planning.plan import Plan, left_deep
from ensue.runtime.adapting import Adapter
from ensue.runtime.cadence import Cadence, Patience
from ensue.runtime.engine import Engine
from ensue.testing.random_queries import random_case


def impatient(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Let each batch be left at the first look at the clock."""
    monkeypatch.setattr(Cadence, "patience", lambda *_: Patience(0.0, looks))


@pytest.mark.parametrize("looks", [1, 2, 5])
def test_a_batch_that_is_left_anywhere_gives_the_same_matches(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    impatient(monkeypatch, looks)
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
        engine = Engine([query], schema, adapt=ensue.Adaptation(decision="unconditional", gain=0.0, tried=False))
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
    impatient(monkeypatch, 2)
    engine = ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=ensue.Adaptation(tried=False))
    monkeypatch.setattr(Cadence, "is_far", lambda *_: True)
    engine.push(rare_first(6_000))
    (place,) = (entry.at for entry in engine.journal if entry.replaced)
    assert 256 <= place < 4_000, "by the middle, or soon after it"


def test_a_batch_is_left_where_partial_matches_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is not looked at before: a plan that no longer fits shows by what it holds."""
    impatient(monkeypatch, 1)
    monkeypatch.setattr(Cadence, "is_far", lambda *_: True)
    engine = ensue.compile(ALL, plan=Plan((left_deep("cba", stored=True),)), adapt=ensue.Adaptation(tried=False))
    found = engine.push(rare_first(6_000))
    places = [entry.at for entry in engine.journal if entry.replaced]
    assert places and places[0] < 5_999
    assert len(found) + len(engine.flush()) == len(ensue.run(rare_first(6_000), ALL))


def test_several_queries_take_a_batch_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch, 2)
    monkeypatch.setattr(Cadence, "is_far", lambda *_: True)
    two = f"QUERY one {ALL}; QUERY two {ALL}"
    engine = ensue.compile(two, adapt=True)
    found = engine.push(rare_first(6_000))
    assert not engine.journal
    assert len(found) + len(engine.flush()) == 2 * len(ensue.run(rare_first(6_000), ALL))


def test_patience_is_what_events_took_before_and_some_more() -> None:
    clock = [0.0]
    cadence = Cadence(None, 0.01, lambda: clock[0])
    assert cadence.patience(1_000) is None, "nothing is known yet"
    cadence._pace, cadence._cost = 2e-6, 2e-3
    for number, took in ((1_000, 0.002), (2_000, 0.002)):
        clock[0] += took
        cadence.is_far(number, number + 1_000, 0)
        assert cadence.patience(1_000) == Patience(pytest.approx(0.014), 1), "as expected"  # type: ignore[arg-type]
    clock[0] += 0.004
    cadence.is_far(3_000, 4_000, 0)
    assert cadence.patience(1_000) == Patience(pytest.approx(0.014), 2), "unless"  # type: ignore[arg-type]
    assert cadence.patience(10_000) == Patience(pytest.approx(0.05), 16)  # type: ignore[arg-type]
    assert Cadence(500, 0.01).patience(1_000) is None, "where checks were asked for, nothing depends on the clock"
