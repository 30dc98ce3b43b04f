"""AGG queries that share counters give what each gives by itself, and what enumeration gives; who shares with whom."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import ensue
from ensue.errors import LimitError
from ensue.events.schema import Schema
from ensue.language import parse_query
from ensue.options import Options
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.aggregates import Counters, plan_aggregates
from ensue.planning.sharing import choose_sharing, expected_saving
from ensue.planning.sub_patterns import share_counters
from ensue.runtime.engine import Engine
from ensue.runtime.sub_patterns import SubPatternEvaluator as Shared
from ensue.testing.harness import describe_rows
from ensue.testing.random_queries import POINT_SCHEMA

from .tallying import expected_rows
from .test_engine_cases import plain
from .test_engine_cutting import cut

AGGREGATES = ("COUNT(*)", "COUNT(*)", "SUM(b.x), AVG(b.x)", "COUNT(a.x), SUM(a.x)", "COUNT(*), COUNT(b.y)", "MAX(a.x)")


def random_workload(rng: random.Random) -> str:
    """Patterns that are pieces of one string, with changes here and there: much in common, not everything."""
    string = "".join(rng.choice("ABCD") for _ in range(6))
    windows, texts = [f"WITHIN {rng.randint(3, 12)}" for _ in range(2)] + [""], []
    kinds = rng.choice((("",), ("GROUP BY k",), ("PARTITION BY k", "tie"), ("", "GROUP BY k", "tie", "tied group")))
    for number in range(rng.randint(2, 7)):
        size = rng.randint(1, 4)
        start = rng.randint(0, len(string) - size)
        types = [kind if rng.random() < 0.9 else "E" for kind in string[start : start + size]]
        names = "abcd"[:size] if size > 1 else "b"
        items = [f"{kind} {name}" for kind, name in zip(types, names, strict=True)]
        absent = [] if size == 1 or rng.random() < 0.6 else ["m", "n"][: rng.randint(1, 2)]
        for place, name in zip(rng.choices(range(1, size), k=2) if absent else (), absent, strict=False):
            items.insert(place, f"!{rng.choice('ABCDE')} {name}")
        conditions = [f"{rng.choice(names)}.x > {rng.randint(0, 2)}"] if rng.random() < 0.3 else []
        key = rng.choice(kinds)
        if key.startswith("tie") and size > 1:
            conditions += [" = ".join(f"{name}.k" for name in names), *(f"{name}.k = a.k" for name in absent)]
            key = "" if key == "tie" else f"GROUP BY {rng.choice(names)}.k"
        key = "" if key.startswith("tie") else key
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        told = rng.choice(AGGREGATES) if size > 1 else rng.choice(("COUNT(*)", "SUM(b.x)"))
        pattern, within = f"PATTERN SEQ({', '.join(items)}) {where}", rng.choice(windows[:1] * 4 + windows)
        texts.append(f"QUERY q{number} {pattern} {within} AGG {told} {key}")
    return ";\n".join(texts)


def random_events(rng: random.Random) -> list[dict[str, Any]]:
    ts, events = 0, []
    for _ in range(rng.randint(5, 26)):
        ts += rng.choice((0, 0, 1, 1, 1, 2, 5))
        values = {"x": rng.choice((None, -2, 0, 1, 2, 3)), "y": rng.choice((None, 1.5)), "k": rng.choice((None, 1, 2))}
        events.append({"type": rng.choice("ABCDE"), "ts": ts, **values, "s": None, "b": None})
    return events


def rows_of(found: list[ensue.Matches]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for part in found:
        for row in part:
            rows.setdefault(row["query"], []).append({k: plain(v) for k, v in row.items() if k != "query"})
    return rows


def run_cut(queries: Sequence[Query], events: list[dict[str, Any]], rng: random.Random) -> list[ensue.Matches]:
    """In pieces, with a snapshot after each."""
    found, start = [], 0
    engine = Engine(queries, POINT_SCHEMA)
    for size in cut(rng, len(events)):
        found.append(engine.push(events[start : start + size]))
        start += size
        data = engine.snapshot()
        engine = Engine(queries, POINT_SCHEMA)
        engine.restore(data)
    return [*found, engine.flush()]


def test_shared_is_unshared_is_enumeration() -> None:
    total, shared, cleared = 0, Counter[int](), 0
    for seed in range(150):
        rng = random.Random(seed)
        text, events = random_workload(rng), random_events(rng)
        engine = Engine(text, POINT_SCHEMA)
        together = rows_of([engine.push_sorted(events)])
        queries = engine.queries
        apart = rows_of([Engine(queries, POINT_SCHEMA, options=Options(share_counters=False)).push_sorted(events)])
        found = [together, apart, rows_of(run_cut(queries, events, rng))] if seed % 4 == 0 else [together, apart]
        for query in queries:
            assert query.name is not None
            expected = expected_rows(query, events, POINT_SCHEMA)
            for one in found:
                difference = describe_rows(one.get(query.name, []), expected)
                assert not difference, "\n".join([f"seed {seed}", str(query), *map(str, events), *difference])
            total += len(expected)
        shared.update(len(tally.names) for tally in engine._tallies)
        cleared += sum(len(t.evaluator.patterns.sinces) for t in engine._tallies if isinstance(t.evaluator, Shared))
    assert total > 1500
    assert sum(n * times for n, times in shared.items() if n > 1) > 300, shared
    assert cleared > 80


def test_sums_that_may_outgrow_a_word_are_counted_anew_with_two() -> None:
    """Where they may: the D events before the others make no match. The other query has all of them in common."""
    kinds = "D" * 300 + "A" * 99 + "B" * 49 + "E" + "B" * 50 + "C" * 99 + "D" * 99
    text = "QUERY {} PATTERN SEQ({}) WITHIN {} AGG COUNT(*), SUM(a.x) AS total {}"
    for key in ("", "GROUP BY k", "PARTITION BY k"):
        events = [{"type": kind, "ts": n, "x": 3**22, "k": 1} for n, kind in enumerate(kinds)]
        small = text.format("small", "A a, B b", 10_000, key)
        large = text.format("large", "A a, B b, C c, D d", 10_000, key)
        cleared = text.format("cleared", "A a, B b, !E e, C c, D d", 10_000, key)
        found = rows_of([ensue.run(events, f"{small};\n{large};\n{cleared}")])
        assert [row["count"] for row in found["large"][300:]] == [99**3 * n for n in range(1, 100)]
        assert [row["total"] for row in found["large"][300:]] == [99**3 * 3**22 * n for n in range(1, 100)]
        assert [row["total"] for row in found["cleared"][300:]] == [50 * 99**2 * 3**22 * n for n in range(1, 100)]
        assert [row["total"] for row in found["small"]] == [99 * 3**22 * n for n in range(1, 100)]


def test_what_an_absent_event_has_cleared_is_not_beyond_all_bounds() -> None:
    """Without the absence there would be more matches than two words can count."""
    items = ", ".join(f"A a{n}" for n in range(12))
    kinds = "A" * 9000 + "C" * 1000 + "NB"
    events = [{"type": kind, "ts": n} for n, kind in enumerate(kinds)]
    found = ensue.run(events, f"PATTERN SEQ({items}, C c, !N n, B b) WITHIN 1000000 AGG COUNT(*)")
    assert [row["count"] for row in found] == [0]
    with pytest.raises(LimitError, match="beyond 2\\^63"):
        ensue.run(events, f"PATTERN SEQ({items}, C c, B b) WITHIN 1000000 AGG COUNT(*)")


def counters_of(*patterns: str) -> list[Counters]:
    found = []
    for text in patterns:
        query = parse_query(f"PATTERN {text}" if "AGG" in text else f"PATTERN SEQ({text}) WITHIN 10 AGG COUNT(*)")
        counters = plan_aggregates(query, normalize(query), POINT_SCHEMA).counters
        assert counters is not None and counters.chain
        found.append(counters)
    return found


def test_what_is_in_common_is_counted_once() -> None:
    def nodes(*patterns: str) -> int:
        return share_counters(counters_of(*patterns)).nodes - 1

    assert nodes("A, B, C") == 6
    assert nodes("A, B, C", "A, B, D") == 6 + 3  # a prefix: D, BD and ABD are new
    assert nodes("A, B, C, D", "E, B, C, E") == 10 + 6  # a part of the middle: B, C and BC are there already
    assert nodes("A, B, C", "B, C", "C") == 6
    assert nodes("A, B, C", "A, B, !D, C") == 6 + 7  # AB, B, ABC and BC with D absent; three for what is since a D
    unbounded = "SEQ({}) WITHIN UNBOUNDED AGG COUNT(*)"
    assert nodes(unbounded.format("A, B, C"), unbounded.format("A, B, D")) == 4  # prefixes alone


def test_who_shares_with_whom() -> None:
    alike = counters_of("A, B, C", "A, B, D", "SEQ(A, B) WITHIN 20 AGG COUNT(*)", "B, C")
    assert choose_sharing(alike) == [[0, 1, 3], [2]]
    assert expected_saving(alike[:2]) > 1.4
    frequent = expected_saving(alike[:2], {"A": 10, "B": 10, "C": 1, "D": 1})
    assert frequent > expected_saving(alike[:2], {"A": 1, "B": 1, "C": 10, "D": 10})
    keyed = [f"SEQ({kinds}) WITHIN 10 AGG COUNT(*) GROUP BY k" for kinds in ("A, B", "A, C", "D, E")]
    assert choose_sharing(counters_of(*keyed)) == [[0, 1], [2]]  # nothing in common: keys are kept apart
    long = ", ".join(f"T{n}" for n in range(40))
    wide = [f"SEQ({long}) WITHIN 10 AGG COUNT(*) GROUP BY k", "SEQ(T0, B) WITHIN 10 AGG COUNT(*) GROUP BY k"]
    assert choose_sharing(counters_of(*wide)) == [[0], [1]]  # one event in common does not pay for 820 counters a key


@pytest.mark.parametrize("schema", [None, POINT_SCHEMA])
def test_the_first_events_tell_who_shares(schema: Schema | None) -> None:
    """A short pattern beside a long one, for each key: worth it where most events are of the type in common."""
    long = ", ".join(f"T{n}" for n in range(40))
    text = ";".join(
        f"QUERY q{n} PATTERN SEQ({p}) WITHIN 9 AGG COUNT(*) GROUP BY k" for n, p in enumerate((long, "T0, B"))
    )
    for kinds, together in ((["T0", "B"] * 9, False), (["T0"] * 30 + ["B"], True)):
        engine = Engine(text, schema)
        events = [{"type": kind, "ts": n, "k": 1} for n, kind in enumerate(kinds)]
        rows = [row for pushed in (events[:20], events[20:]) for row in engine.push(pushed)] + list(engine.flush())
        assert len(rows) == kinds.count("B")
        assert ("counted together with q1: 822 counters in place of 823" in engine.explain()) == together


def test_explain_says_who_shares() -> None:
    text = ";".join(f"QUERY q{kind} PATTERN SEQ(A, B, {kind}) WITHIN 9 AGG COUNT(*)" for kind in "CDEFG")
    shown = ensue.compile(text).explain()
    assert "counted together with qD, qE, qF and 1 more: 18 counters in place of 30, about 2." in shown
    assert "together" not in ensue.compile(text, options=Options(share_counters=False)).explain()
