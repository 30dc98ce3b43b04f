"""AGG at its limits: numbers that do not fit, many groups, plans that cannot be, what explain warns of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ensue
from ensue.errors import LimitError, PlanError, StateError
from ensue.options import Options
from ensue.planning.aggregates import Method

WAYS = [Method.SUB_PATTERNS, Method.INVERSE, Method.STACKS, Method.PER_START]


def in_a_row(kinds: str, each: int) -> list[dict[str, object]]:
    """So many events of one type after the other, at different times."""
    return [{"type": kind, "ts": n, "x": 2**62} for n, kind in enumerate(k for k in kinds for _ in range(each))]


@pytest.mark.parametrize("method", WAYS)
def test_counts_are_exact_to_the_last_bit_and_never_wrap(method: Method) -> None:
    types = "ABCDEFGHJK"
    query = f"PATTERN SEQ({', '.join(types)}) WITHIN 100000 AGG COUNT(*)"
    events = in_a_row(types, 79)
    right = [row["count"] for row in ensue.run(events[: -79 + 9], query, plan=method)]
    assert right == [79**9 * n for n in range(1, 10)]
    with pytest.raises(LimitError, match=r"query `q1`: at time \d+ COUNT is beyond 2\^63"):
        ensue.run(events, query, plan=method)  # 79^10 > 2^63
    far = in_a_row(types, 8000)  # 8000^10 is beyond 128 bits too
    with pytest.raises(LimitError, match="beyond"):
        ensue.run(far, query, plan=method) if method is not Method.PER_START else ensue.run(events, query, plan=method)


@pytest.mark.parametrize("method", [*WAYS, Method.DETECTION])
def test_sums_never_wrap(method: Method) -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 1000 AGG SUM(a.x)"
    assert [row["sum_a_x"] for row in ensue.run(in_a_row("AB", 1), query, plan=method)] == [2**62]
    with pytest.raises(LimitError, match="SUM is beyond"):
        ensue.run(in_a_row("AB", 2), query, plan=method)


def test_limits_of_rows_and_of_live_matches() -> None:
    events = in_a_row("AB", 20)
    query = "PATTERN SEQ(A a, B b) WITHIN 1000 AGG COUNT(*)"
    with pytest.raises(LimitError, match="more than 5 rows"):
        ensue.run(events, query, options=Options(max_matches=5))
    with pytest.raises(LimitError, match="more than 50 live matches"):
        ensue.run(events, query, options=Options(max_partial_matches=50), plan=Method.DETECTION)
    with pytest.raises(PlanError, match="numbers about what is left would be wrong"):
        ensue.run(events, query, options=Options(on_limit="shed"))


def test_plans_that_do_not_fit() -> None:
    events = in_a_row("AB", 1)
    with pytest.raises(PlanError, match="cannot be aggregated by prefix counts"):
        ensue.run(events, "PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)", plan=Method.PREFIX)
    with pytest.raises(PlanError, match=r"needs detection: the condition a\.x \+ 1 < b\.x"):
        ensue.run(events, "PATTERN SEQ(A a, B b) WHERE a.x + 1 < b.x WITHIN 10 AGG COUNT(*)", plan=Method.STACKS)
    with pytest.raises(PlanError, match="has no AGG"):
        ensue.run(events, "PATTERN SEQ(A a, B b) WITHIN 10", plan=Method.STACKS)


def test_a_snapshot_of_another_method_is_refused() -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)"
    engine = ensue.compile(query, plan=Method.STACKS)
    engine.push([{"type": "A", "ts": 1}])
    with pytest.raises(StateError, match="another plan"):
        ensue.compile(query, plan=Method.INVERSE).restore(engine.snapshot())


@pytest.mark.parametrize("method", WAYS)
def test_many_groups_come_and_go(method: Method) -> None:
    """100,000 groups, of which few are live at a time: idle ones make room."""
    count = 100_000
    keys = np.repeat(np.arange(count), 2)
    table = pa.table(
        {
            "type": pa.array(np.tile(["A", "B"], count)).dictionary_encode(),
            "ts": np.arange(2 * count),
            "k": pa.array(keys.astype(str)).dictionary_encode(),
        }
    )
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 50 AGG COUNT(*) GROUP BY k", plan=method)
    found = [engine.push(table.slice(start, 20_000)) for start in range(0, 2 * count, 20_000)]
    rows = pa.concat_tables([*(part.to_arrow() for part in found), engine.flush().to_arrow()])
    assert rows.num_rows == count
    assert rows["count"].to_pylist() == [1] * count
    assert rows["k"].to_pylist() == [str(k) for k in range(count)]
    assert engine._tallies[0].nbytes < 4_000_000


def test_explain_says_why() -> None:
    def shown(text: str) -> str:
        return ensue.compile(f"PATTERN {text}").explain()

    assert "by a counter for each part of the pattern" in shown("SEQ(A a, B b) WITHIN 9 AGG COUNT(*)")
    assert "by a prefix matrix that takes expired events back" in shown("SEQ(A a, B? b[]) WITHIN 9 AGG COUNT(*)")
    stacks = shown("SEQ(A a, !N n, B b) WITHIN 9 AGG MAX(a.x)")
    assert "an absence and MIN or MAX cannot be taken back" in stacks
    assert "n: N events — clears what ends with a" in stacks
    assert "one counter for each part" in shown("SEQ(A a, B+ b[]) WITHIN UNBOUNDED AGG COUNT(*)")
    linked = shown("SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 AGG COUNT(*)")
    assert "by a counter for each event: which events it can follow is decided by a.x < b.x" in linked
    warned = shown("SEQ(A a, B b) WHERE a.x + 1 < b.x WITHIN 9 AGG COUNT(*)")
    assert "warning: the condition a.x + 1 < b.x cannot be decided by counters alone" in warned
    assert "match of" in warned
    for kind in ("mermaid", "json"):
        assert "each part of the pattern" in ensue.compile("PATTERN SEQ(A a, B b) WITHIN 9 AGG COUNT(*)").explain(kind)
