"""Random programs: the engine in all cuts, with and without optimisations, derives what the oracle does."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

import pytest

from ensue.errors import LimitError
from ensue.language import parse_query
from ensue.rules.check import check_program
from ensue.rules.program import Program
from ensue.runtime import rule_evaluator
from ensue.runtime.merging import merged_schema
from ensue.testing.oracle import find_matches
from ensue.testing.random_programs import RandomProgram, describe, random_program
from ensue.testing.rule_oracle import DerivedEvent, derive_events

from .agreement import check_together, run_streamed

PROGRAMS = 2000
PARTS = 8
TOGETHER = 20
PATTERNS = (
    "SEQ({d} d, {b} b) WITHIN 9",
    "SEQ({b} a, !{d} d, {b} b) WITHIN 12",
    "SEQ({b} b, {d} d) WITHIN 4 EVENTS",
    "SEQ({d} c, {d} d) WITHIN 9 USING NEXT",
    "AND({d} d, {b} b) WITHIN 5",
)


@pytest.mark.fuzz
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand of them, many in one engine; of points and of intervals apart, since these are other schemas."""
    if part % 2:
        monkeypatch.setattr(rule_evaluator, "_COLLECTED_AT_ONCE", 1)
    waiting: dict[str | None, list[tuple[RandomProgram, list[DerivedEvent]]]] = {}
    checked = derived = 0
    for seed in count(100_000 * part):
        case = random_program(seed, suffix=f"_{seed}")
        try:
            expected = derive_events(case.rows, case.program, case.schema, limit=5000)
        except LimitError:  # of the oracle: too many combinations to try
            continue
        together = waiting.setdefault(case.schema.begin, [])
        together.append((case, expected))
        if len(together) == TOGETHER:
            check_together([one for one, _ in together], [events for _, events in together], seed)
            checked += TOGETHER
            derived += sum(bool(events) for _, events in together)
            together.clear()
        if checked >= PROGRAMS // PARTS:
            break
    assert derived > checked // 4


@pytest.mark.fuzz
def test_patterns_over_derived_events() -> None:
    """A pattern finds in the merged stream what the oracle of patterns finds in it."""
    found = 0
    for seed in range(120):
        case = random_program(10_000 + seed, events=10)
        dice = random.Random(seed)
        rules = case.program
        kind = dice.choice(rules.derived)
        query = parse_query("QUERY q PATTERN " + dice.choice(PATTERNS).format(d=kind, b=dice.choice("ABC")))
        expected = _expected(case.rows, rules, case.schema, query)
        if not expected and seed % 8:  # most find nothing: few of those will do
            continue
        with_query = replace(case, program=Program((*rules.statements, query)))
        matches = run_streamed(with_query, dice)["q"].to_pylist()
        mine = sorted((m["begin"], m["end"], m["detected_at"]) for m in matches)
        assert mine == expected, describe(case) + f"\n{query}"
        found += len(expected)
    assert found > 20


def _expected(rows, program, schema, query):  # type: ignore[no-untyped-def]
    """Intervals of the matches in the events with the derived ones behind those of their moment, sorted."""
    wide = merged_schema(schema, program, check_program(program, schema))
    begin = wide.begin
    merged = [{**row, begin: row.get(begin, row["ts"])} for row in rows]
    derived = derive_events(rows, program, schema, limit=30_000)
    order = {name: k for k, name in enumerate(dict.fromkeys(event.type for event in derived))}
    for event in sorted(derived, key=lambda e: (e.end, order[e.type], e.begin, [(v is None, v) for _, v in e.values])):
        merged.append({"type": event.type, "ts": event.end, begin: event.begin, **dict(event.values)})
    return sorted((m.begin, m.end, m.detected_at) for m in find_matches(merged, query, wide))


def test_the_generator_uses_everything() -> None:
    texts = " ".join(random_program(seed).text for seed in range(60))
    for word in (
        "WHILE",
        "NOT",
        "COLLECT",
        "EXTEND(",
        "EXTEND_BACKWARD",
        "SHIFT",
        "FROM_END",
        "WITHIN",
        " BY ",
        "COUNT(",
    ):
        assert word in texts
    assert any(random_program(seed).schema.begin for seed in range(20))
