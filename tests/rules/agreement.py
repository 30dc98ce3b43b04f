"""Rules by the engine against rules by the oracle: at once, in any cuts, with snapshots between."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ensue
from ensue.planning.plan import every_tree, variables_of
from ensue.planning.rules import Optimizations
from ensue.runtime.matches import Matches
from ensue.runtime.rule_engine import RuleEngine
from ensue.testing.random_programs import RandomProgram, describe, put_together
from ensue.testing.rule_oracle import DerivedEvent

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


def run_streamed(
    case: RandomProgram,
    dice: random.Random,
    *,
    sizes: Sequence[int] = (1, 1, 2, 3, 7),
    changes: float = 0.25,
    **settings: Any,
) -> Matches:
    """Push the sorted rows in random cuts; at times move time on.

    With a chance of `changes` after each cut, go on from a snapshot in another engine; and with as much let rules go on
    by other joins.
    """
    rows = sorted(case.rows, key=lambda row: row["ts"])

    def make() -> RuleEngine:
        return RuleEngine(case.program, case.schema, options=ALL, is_stream=True, **settings)

    engine = make()
    results = []
    start = 0
    while start < len(rows):
        stop = start + dice.choice(sizes)
        results.append(engine.push(rows[start:stop]))
        if dice.random() < 0.2 and stop < len(rows):
            results.append(engine.advance(dice.randint(rows[stop - 1]["ts"], rows[stop]["ts"])))
        if dice.random() < changes:
            saved = engine.snapshot()
            engine = make()
            engine.restore(saved)
        if dice.random() < changes:
            join_otherwise(engine, dice)
        start = stop
    results.append(engine.flush())
    return Matches.concat(results)


def join_otherwise(engine: RuleEngine, dice: random.Random) -> None:
    """Let the rules of an engine go on by joins at random."""
    runner = engine._runner
    assert runner is not None
    for name, plans in runner.plans.items():
        for place, plan in enumerate(plans):
            names = dice.sample(variables_of(plan.tree), len(variables_of(plan.tree)))
            tree = dice.choice(list(every_tree(names)))
            other = plan.with_tree(tree)
            assert (other.unbounded is None) == (plan.unbounded is None), f"{tree} instead of {plan.tree}"
            runner.replace_plan(name, place, other)


def check_together(cases: Sequence[RandomProgram], expected: Sequence[Sequence[DerivedEvent]], seed: int) -> None:
    """Programs in one engine, in cuts and at times at once, against what each of them has to derive."""
    dice = random.Random(seed)
    whole = put_together(cases)
    plain = Optimizations(*(dice.random() < 0.5 for _ in range(3))) if dice.random() < 0.5 else Optimizations()
    sizes = [size * len(cases) // 2 + 1 for size in (1, 1, 2, 3, 7)]
    adapt = ensue.Adaptation(decision="unconditional", every=50) if dice.random() < 0.5 else None
    cut = run_streamed(whole, dice, sizes=sizes, changes=0.12, optimizations=plain, adapt=adapt)
    ways = {f"in cuts, {plain}": cut}
    if dice.random() < 0.4:
        ways["all at once"] = ensue.run(list(whole.rows), whole.program, schema=whole.schema)
    for how, found in ways.items():
        events: dict[str, list[DerivedEvent]] = {}
        for event in as_events(found):
            events.setdefault(event.type, []).append(event)
        for case, wanted in zip(cases, expected, strict=True):
            own = [event for name in case.program.derived for event in events.get(name, ())]
            assert_agrees(case, own, wanted, how)
