"""Programs of rules in an engine: streams, lateness, limits, snapshots, patterns over derived events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import ensue
from ensue.errors import LimitError, PlanError, QueryError, QueryTypeError, StateError

OVERDUE = """
EVENT order(id: int, product: string);
EVENT shipped(id: int);
RULE overdue(id, p) <- o: order(id, p), w: EXTEND(o, 6), WHILE w: NOT shipped(id);
"""
COMPLETED = """
EVENT order(id: int, product: string);
EVENT shipped(id: int);
RULE comp(id, p) <- o: order(id, p), s: shipped(id), o BEFORE s BY < 10;
"""


def order(ts: int, number: int, product: str = "muffins") -> dict[str, object]:
    return {"type": "order", "ts": ts, "id": number, "product": product}


def shipped(ts: int, number: int) -> dict[str, object]:
    return {"type": "shipped", "ts": ts, "id": number}


def test_timers_fire_with_time() -> None:
    engine = ensue.compile(OVERDUE)
    assert len(engine.push([order(1, 7)])) == 0
    assert engine.next_due == 7
    assert len(engine.advance(6)) == 0
    assert engine.advance(7).to_pylist() == [
        {"rule": "overdue", "type": "overdue", "begin": 1, "end": 7, "id": 7, "p": "muffins"}
    ]
    assert engine.next_due is None
    assert len(engine.flush()) == 0


def test_a_collection_is_known_when_its_time_has_passed() -> None:
    text = "EVENT a(x: int); RULE n(COUNT(y)) <- i: a(x), w: EXTEND_BACKWARD(i, 5), WHILE w: COLLECT a(y);"
    engine = ensue.compile(text)
    assert len(engine.push([{"type": "a", "ts": 1, "x": 1}, {"type": "a", "ts": 3, "x": 2}])) == 1
    assert len(engine.advance(3)) == 0
    assert [row["count_y"] for row in engine.advance(4)] == [1]


def test_lateness_and_counts() -> None:
    engine = ensue.compile(COMPLETED, lateness=3)
    rows = [shipped(5, 1), order(3, 1), order(1, 2), {"type": "other", "ts": 6}, {"type": "order", "ts": None}]
    found = [*engine.push(rows), *engine.flush()]
    assert [row["id"] for row in found] == [1]
    counts = engine.counts
    assert (counts.received, counts.processed, counts.late, counts.rejected, counts.ignored) == (5, 3, 1, 1, 1)
    assert counts.matches == 1
    late = engine.take_late()
    assert late is not None and late["id"].to_pylist() == [2]


def test_equal_derivations_of_one_moment_in_two_pushes_count_once() -> None:
    engine = ensue.compile(COMPLETED)
    assert len(engine.push([order(1, 1), shipped(5, 1)])) == 1
    assert len(engine.push([shipped(5, 1)])) == 0
    assert len(engine.push([shipped(6, 1)])) == 1


def test_columns_come_from_declarations() -> None:
    engine = ensue.compile(COMPLETED)
    assert len(engine.push([shipped(0, 3)])) == 0  # no row has a product yet
    assert len(engine.push(pa.table({"type": ["order", "shipped"], "ts": [1, 2], "id": [1, 1]}))) == 1
    assert (
        len(ensue.run([{"type": "order", "ts": 1, "id": 2.0}, {"type": "shipped", "ts": 2, "id": 2}], COMPLETED)) == 1
    )
    with pytest.raises(QueryTypeError, match="`id` is declared int, but the column is string"):
        ensue.run([{"type": "order", "ts": 1, "id": "2"}], COMPLETED)
    with pytest.raises(QueryTypeError, match="`id` is declared int, but the column is string"):
        ensue.compile(COMPLETED, ensue.Schema({**engine.schema.columns, "id": ensue.DType.STRING}))  # type: ignore[union-attr]


def test_timestamps() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    text = OVERDUE.replace("6)", "6h)")
    rows = [{**order(0, 1), "ts": start}, {**shipped(0, 1), "ts": start + timedelta(hours=6)}]
    (row,) = ensue.run(rows, text)
    assert (row["begin"], row["end"]) == (start, start + timedelta(hours=6))
    with pytest.raises(QueryTypeError, match="has no unit"):
        ensue.run(rows, OVERDUE)


def test_a_rule_without_bound_is_refused_on_a_stream() -> None:
    text = COMPLETED.replace(" BY < 10", "")
    with pytest.raises(QueryTypeError, match=r"for ever.*nothing says how long after `o` `s` may come"):
        ensue.compile(text)
    engine = ensue.compile(text, options=ensue.Options(unbounded_rules=True))
    assert len(engine.push([order(1, 1), shipped(500, 1)])) == 1
    assert len(ensue.run([order(1, 1), shipped(500, 1)], text)) == 1


def test_intervals_without_bound_need_one() -> None:
    text = "EVENT a(x: int); RULE n(COUNT(y)) <- i: a(x), w: EXTEND_BACKWARD(i, 5), WHILE w: COLLECT a(y){};"
    ensue.compile(text.format(""))
    with pytest.raises(QueryTypeError, match="for ever"):
        ensue.compile(text.format(""), begin="start")
    ensue.compile(text.format(", {i} WITHIN 10"), begin="start")


def test_state_stays_flat() -> None:
    engine = ensue.compile(
        COMPLETED + "RULE overdue(id) <- o: order(id, _), w: EXTEND(o, 6), WHILE w: NOT shipped(id);"
    )
    sizes = []
    for start in range(0, 40_000, 2000):
        rows = [order(t, t, f"p{t}") if t % 2 else shipped(t, t - 1 - t % 4) for t in range(start, start + 2000)]
        engine.push(rows)
        sizes.append((engine.stored_tuples, engine.state_bytes))
    assert max(stored for stored, _ in sizes) < 1000
    assert sizes[-1][1] <= sizes[4][1] * 2


def test_limits() -> None:
    rows = [order(t, t) for t in range(100)]
    with pytest.raises(LimitError, match="rule `comp` keeps 100 tuples"):
        ensue.compile(COMPLETED.replace("10", "1000"), options=ensue.Options(max_partial_matches=50)).push(rows)
    with pytest.raises(LimitError, match="derives 94 events at once"):
        ensue.run(rows, OVERDUE, options=ensue.Options(max_matches=50))
    with pytest.raises(LimitError, match="memory_budget"):
        ensue.compile(OVERDUE, options=ensue.Options(memory_budget=100)).push(rows)
    with pytest.raises(PlanError, match="shed"):
        ensue.run(rows, OVERDUE, options=ensue.Options(on_limit="shed"))


def test_snapshots_are_of_one_program() -> None:
    engine = ensue.compile(OVERDUE)
    engine.push([order(1, 1, "späße")])
    saved = engine.snapshot()
    other = ensue.compile(COMPLETED)
    with pytest.raises(StateError, match="other rules"):
        other.restore(saved)
    with pytest.raises(StateError, match="damaged"):
        ensue.compile(OVERDUE).restore(saved[:-1])
    again = ensue.compile(OVERDUE)
    again.restore(saved)
    assert [row["p"] for row in again.advance(7)] == ["späße"]
    fresh = ensue.compile(OVERDUE)
    fresh.restore(ensue.compile(OVERDUE).snapshot())
    assert len(fresh.push([order(1, 1)])) == 0


def test_strings_are_forgotten() -> None:
    engine = ensue.compile(OVERDUE)
    for t in range(0, 60_000, 20_000):
        found = engine.push([order(t + k, k, f"product {t + k}") for k in range(20_000)])
        assert found[-1]["p"] == f"product {found[-1]['begin']}"
    assert len(engine._strings) < 10_000  # type: ignore[union-attr]


def test_patterns_over_derived_events() -> None:
    text = OVERDUE + "QUERY twice PATTERN SEQ(overdue a, !shipped s, overdue b) WHERE a.p = b.p RETURN a.id, b.id;"
    rows = [order(1, 1), order(20, 2), shipped(28, 1), order(40, 3), order(60, 4, "bread")]
    found = ensue.run(rows, text)
    assert [(row["a_id"], row["b_id"]) for row in found["twice"]] == [(1, 2)]
    assert len(found["overdue"]) == 4
    assert found.names == ["overdue", "twice"]
    assert {"match_id", "rule", "type", "id", "a_id"} <= set(found.to_arrow().column_names)
    with pytest.raises(QueryError, match="unknown attribute `q`"):
        ensue.run(rows, OVERDUE + "PATTERN overdue o WHERE o.q = 1")


def test_events_of_a_derived_type_in_the_input_take_no_part() -> None:
    text = OVERDUE + "QUERY q PATTERN overdue o;"
    fake = {"type": "overdue", "ts": 3, "id": 9, "product": None}
    found = ensue.run([order(1, 1), fake], text)
    assert len(found["q"]) == len(found["overdue"]) == 1


def test_declarations_beside_queries_alone() -> None:
    assert len(ensue.run([order(1, 1)], "EVENT order(id: int); PATTERN order o")) == 1
    with pytest.raises(QueryError, match="no query"):
        ensue.run([], "EVENT order(id: int)")


def test_a_rule_that_contradicts_itself_derives_nothing() -> None:
    text = "EVENT a(x: int); RULE b(x) <- i: a(x), j: a(x), i BEFORE j, j BEFORE i;"
    assert len(ensue.run([{"type": "a", "ts": t, "x": 1} for t in range(5)], text)) == 0
    assert "contradict" in ensue.compile(text).explain()


def test_explain_says_what_is_kept_and_why() -> None:
    shown = ensue.compile(COMPLETED + OVERDUE.split(";")[2] + "; PATTERN overdue o WITHIN 1").explain()
    assert "s: streams past, since o.end < s.end" in shown
    assert "o: kept until o.begin + 9" in shown or "o: kept until o.end + 9" in shown
    assert "passed over unless an event of o has ended before it begins, no more than 9 before its end" in shown
    assert "▷[id ∧ o.begin < shipped.begin ∧ shipped.end ≤ o.end + 5] shipped" in shown
    assert "tuples wait until the end of the derived event is reached" in shown
    assert ensue.compile(COMPLETED).explain("mermaid").startswith("flowchart")
    assert '"joins"' in ensue.compile(COMPLETED).explain("json")
