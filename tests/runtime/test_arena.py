"""How states grow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import ensue
from ensue.planning.plan import Plan, left_deep
from ensue.runtime import layout as at
from ensue.runtime.arena import header, larger, new_arena, smaller

QUERY = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 100"
PLAN = Plan((left_deep("abc", stored=True),))


def test_a_small_store_becomes_four_times_as_large_and_takes_others_along() -> None:
    engine = ensue.compile(QUERY, plan=PLAN)
    engine.push(pa.table({"type": ["A"], "ts": [0], "x": [0.0]}))
    ((evaluator, _),) = engine._pairs()
    stores = evaluator.assembly.stores
    state = new_arena(stores)
    leaves = [s.number for s in stores if s.kind == at.KIND_LEAF]
    (node,) = (s.number for s in stores if s.kind == at.KIND_NODE)
    state[header(leaves[0]) + at.H_HEAD : header(leaves[0]) + at.H_TAIL + 1] = (10, 43)  # 33 of 64 rows
    state[header(leaves[1]) + at.H_HEAD : header(leaves[1]) + at.H_TAIL + 1] = (20, 52)  # 32
    before = [int(state[header(s.number) + at.H_CAPACITY]) for s in stores]
    found = larger(stores, state, node, 65)
    assert (found[node], found[leaves[0]], found[leaves[1]]) == (256, 128, 64)
    assert [one for k, one in enumerate(found) if k not in (node, leaves[0])] == [
        one for k, one in enumerate(before) if k not in (node, leaves[0])
    ]
    assert larger(stores, state, node, 1_000)[node] == 1_024, "as much as is needed"
    assert larger(stores, new_arena(stores, 1_024), node, 1_025)[node] == 2_048, "a large one becomes twice as large"


def test_room_that_is_not_needed_is_given_back() -> None:
    engine = ensue.compile(QUERY, plan=PLAN)
    engine.push(pa.table({"type": ["A"], "ts": [0], "x": [0.0]}))
    ((evaluator, _),) = engine._pairs()
    stores = evaluator.assembly.stores
    state = new_arena(stores, 1 << 16)
    (node,) = (s.number for s in stores if s.kind == at.KIND_NODE)
    first, second, *_ = (s.number for s in stores if s.kind == at.KIND_LEAF)
    needed = [1 << 16 for _ in stores]
    assert smaller(stores, state, needed) == [int(state[header(s.number) + at.H_CAPACITY]) for s in stores]
    needed[node], needed[first], needed[second] = 2_047, 2_048, 0
    found = smaller(stores, state, needed)
    assert found[node] == 1 << 14, "eight times as much as was needed"
    assert found[first] == 1 << 16, "a store may have much more room than it needs"
    assert found[second] == 1_024, "a small store is left alone"


def test_growing_loses_nothing() -> None:
    """Thousands of partial matches in a state that begins with room for 64."""
    dice = np.random.default_rng(4)
    events = pa.table({"type": dice.choice(list("ABC"), 3_000), "ts": np.arange(3_000), "x": dice.random(3_000)})
    engine = ensue.compile(QUERY, plan=PLAN)
    found = len(engine.push(events)) + len(engine.flush())
    ((_, state),) = engine._pairs()
    assert max(state.arena[header(k) + at.H_CAPACITY] for k in range(5)) >= 512
    plain = ensue.run(events, QUERY, plan=Plan((left_deep("abc"),)))
    assert found == len(plain) > 10_000
