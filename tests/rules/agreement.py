"""Rules by the engine against rules by the oracle: at once, in any cuts, with snapshots between."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ensue
from ensue.planning.rules import Optimizations
from ensue.rules.program import Program
from ensue.runtime.matches import Matches
from ensue.runtime.rule_engine import RuleEngine
from ensue.testing.random_programs import RandomProgram, describe
from ensue.testing.rule_oracle import DerivedEvent, derive_events

ALL = ensue.Options(unbounded_rules=True)


def as_events(results: Iterable[Mapping[str, Any]]) -> list[DerivedEvent]:
    found = []
    for row in results:
        values = tuple((name, value) for name, value in row.items() if name not in ("rule", "type", "begin", "end"))
        found.append(DerivedEvent(row["type"], row["begin"], row["end"], values))
    return found


def as_set(events: Iterable[DerivedEvent]) -> list[str]:
    return sorted(map(repr, events))


def assert_agrees(
    case: RandomProgram, found: Iterable[DerivedEvent], expected: Sequence[DerivedEvent], how: str
) -> None:
    mine, theirs = as_set(found), as_set(expected)
    if mine != theirs:
        missing = sorted(set(theirs) - set(mine)) or [e for e in theirs if theirs.count(e) > mine.count(e)]
        surplus = sorted(set(mine) - set(theirs)) or [e for e in mine if mine.count(e) > theirs.count(e)]
        lines = [how, *(f"missing: {e}" for e in missing[:5]), *(f"surplus: {e}" for e in surplus[:5])]
        raise AssertionError("\n".join([*lines, describe(case)]))


def run_streamed(case: RandomProgram, program: Program, dice: random.Random, **settings: Any) -> Matches:
    """Push the sorted rows in random cuts; at times move time on, or go on from a snapshot in another engine."""
    rows = sorted(case.rows, key=lambda row: row["ts"])

    def make() -> RuleEngine:
        return RuleEngine(program, case.schema, options=ALL, is_stream=True, **settings)

    engine = make()
    results = []
    start = 0
    while start < len(rows):
        stop = start + dice.choice((1, 1, 2, 3, 7))
        results.append(engine.push(rows[start:stop]))
        if dice.random() < 0.2 and stop < len(rows):
            results.append(engine.advance(dice.randint(rows[stop - 1]["ts"], rows[stop]["ts"])))
        if dice.random() < 0.25:
            saved = engine.snapshot()
            engine = make()
            engine.restore(saved)
        start = stop
    results.append(engine.flush())
    return Matches.concat(results)


def check_case(case: RandomProgram, seed: int) -> int:
    """All ways to run a program against the oracle; the number of events that it derives."""
    program = case.program
    expected = derive_events(case.rows, program, case.schema, limit=30_000)
    dice = random.Random(seed)
    whole = ensue.run(list(case.rows), program, schema=case.schema, begin=case.schema.begin)
    assert_agrees(case, as_events(whole), expected, "all at once")
    assert_agrees(case, as_events(run_streamed(case, program, dice)), expected, "in cuts")
    plain = Optimizations(*(dice.random() < 0.5 for _ in range(3)))
    assert_agrees(
        case, as_events(run_streamed(case, program, dice, optimizations=plain)), expected, f"in cuts, {plain}"
    )
    return len(expected)
