"""Several queries whose plans change, each by itself, while they look at the same stored events."""

from __future__ import annotations

import random
from itertools import chain, combinations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.runtime.lanes import Method

QUERIES = {
    "chain": "SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.k = c.k AND c.x > d.x WITHIN 900",
    "absent": "SEQ(A a, !E n, B b, C c) WHERE a.k = b.k AND n.x > a.x AND b.x < c.x WITHIN 2000",
    "unanswered": "SEQ(A a, B b, C c, !E n) WHERE a.k = b.k AND n.k = a.k AND b.x < c.x WITHIN 1000",
    "list": "SEQ(A a, B+ b[], C c) WHERE a.k = c.k AND b[i].x > b[i-1].x AND COUNT(b) < 4 WITHIN 300",
    "either": "OR(SEQ(A a, B b, C c), AND(D d, E e, A f)) WHERE a.k = b.k AND b.x < c.x AND d.k = e.k WITHIN 300",
    "parted": "SEQ(A a, B b, AND(C c, D d)) WHERE a.x < b.x PARTITION BY k WITHIN 9000",
}


def drifting(size: int, seed: int = 1) -> pa.Table:
    """Five types whose rates change places every 800 events: enough of them that the indexes of common rows grow."""
    dice = np.random.default_rng(seed)
    kinds = []
    for _ in range(0, size, 800):
        shares = np.geomspace(1, 0.02, 5)
        dice.shuffle(shares)
        kinds.append(dice.choice(list("ABCDE"), 800, p=shares / shares.sum()))
    return pa.table(
        {
            "type": np.concatenate(kinds)[:size],
            "ts": np.cumsum(dice.integers(0, 20, size)),
            "x": dice.normal(size=size).round(2),
            "k": dice.integers(0, 10, size),
        }
    )


EVENTS = drifting(3_200)


def ids_of(found: list[ensue.Matches]) -> list[str]:
    return sorted(match["match_id"] for one in found for match in one)


ALONE = {name: ids_of([ensue.run(EVENTS, f"QUERY {name} PATTERN {text}")]) for name, text in QUERIES.items()}


@pytest.mark.parametrize("method", ["replay", "side by side"])
def test_plans_of_two_queries_over_common_events(method: Method) -> None:
    """With plans replaced all the time, and a restart in the middle, each finds what it finds alone."""
    replaced = 0
    for planner, (one, other) in zip(["greedy", "order", "zstream"] * 5, combinations(QUERIES, 2), strict=True):
        text = f"QUERY {one} PATTERN {QUERIES[one]}; QUERY {other} PATTERN {QUERIES[other]}"
        adapt = ensue.Adaptation(decision="unconditional", gain=0.0, every=200, planner=planner, method=method)
        engine, found = ensue.compile(text, adapt=adapt), []
        for start in range(0, len(EVENTS), 160):
            found.append(engine.push(EVENTS.slice(start, 160)))
            if start == 1_600:
                replaced += engine.counts.replaced
                state, engine = engine.snapshot(), ensue.compile(text, adapt=adapt)
                engine.restore(state)
        found.append(engine.flush())
        replaced += engine.counts.replaced
        assert ids_of(found) == sorted(ALONE[one] + ALONE[other]), text
    assert replaced > 60


def test_all_together_with_batches_of_any_size() -> None:
    text = ";\n".join(f"QUERY {name} PATTERN {pattern}" for name, pattern in QUERIES.items())
    rng = random.Random(2)
    engine = ensue.compile(text, adapt=ensue.Adaptation(decision="threshold", gain=0.0, every=100))
    found, start = [], 0
    while start < len(EVENTS):
        size = rng.choice([0, 1, 7, 100, 700])
        found.append(engine.push(EVENTS.slice(start, size)))
        start += size
    found.append(engine.flush())
    assert ids_of(found) == sorted(chain.from_iterable(ALONE.values()))
    assert engine.counts.replaced > 10
