"""What the engine found, in the oracle's words, and the ways to feed events to it that the suites compare."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ensue.events.schema import Schema
from ensue.events.times import NULL
from ensue.options import Options
from ensue.pattern.query import Query
from ensue.planning.plan import Plan
from ensue.runtime.blocks import Bound, EventLists
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape, random_case
from ensue.testing.values import read_events

Events = Sequence[Mapping[str, Any]]
Case = tuple[Query, list[dict[str, Any]], Schema]


def make_case(seed: int, shape: Shape = DEFAULT_SHAPE) -> Case:
    """The random case of a seed."""
    return random_case(random.Random(seed), shape)


def time_order(events: Events, schema: Schema) -> list[int]:
    """The position of each readable event, in the order of time: entry n is where the event numbered n stood."""
    return [event.position for event in read_events(events, schema)]


def to_oracle(matches: Matches | Iterable[Matches], order: Sequence[int]) -> list[OracleMatch]:
    """Matches with positions in the input, as the oracle gives them; `order` as `time_order` gives it."""
    results = [matches] if isinstance(matches, Matches) else list(matches)
    found = []
    for result in results:
        for part in result._parts:
            block = part.block
            for row in range(len(block)):
                assignment = {name: _positions(bound, row, order) for name, bound in block.variables.items()}
                detected = int(block.detected[row])
                found.append(
                    OracleMatch(
                        int(block.begin[row]), int(block.end[row]), None if detected == NULL else detected, assignment
                    )
                )
    return found


def _positions(bound: Bound, row: int, order: Sequence[int]) -> int | tuple[int, ...] | None:
    if bound is None:
        return None
    if isinstance(bound, EventLists):
        if bound.null is not None and bound.null[row]:
            return None
        return tuple(order[int(seq)] for seq in bound.seqs[bound.offsets[row] : bound.offsets[row + 1]])
    return None if bound[row] < 0 else order[int(bound[row])]


def run_whole(
    query: Query, events: Events, schema: Schema, *, plan: Plan | None = None, options: Options | None = None
) -> list[OracleMatch]:
    """What the engine finds in a finite input, given at once."""
    engine = Engine(query, schema, plan=plan, options=options)
    return to_oracle(engine.push_sorted(list(events)), time_order(events, schema))


def push_pieces(engine: Engine, events: Events, sizes: Iterable[int]) -> list[Matches]:
    """What the engine gives for the events cut into pieces of these sizes (the rest in one), and at the end."""
    results, start = [], 0
    for size in sizes:
        results.append(engine.push(list(events[start : start + size])))
        start += size
    if start < len(events):
        results.append(engine.push(list(events[start:])))
    return [*results, engine.flush()]


def describe_disagreement(seed: int, shape: Shape = DEFAULT_SHAPE) -> str | None:
    """Where the engine and the oracle differ on the random case of a seed; None where they agree."""
    query, events, schema = make_case(seed, shape)
    expected = find_matches(events, query, schema)
    try:
        difference = describe_difference(run_whole(query, events, schema), expected)
    except Exception as error:
        difference = [f"{type(error).__name__}: {error}"]
    return None if not difference else show_failure(f"seed {seed}", query, events, difference)


def show_failure(title: str, query: Query, events: Events, difference: Sequence[str]) -> str:
    """A failing case as a text that has all that is needed to run it again."""
    lines = [title, str(query), *(f"event {place}: {dict(event)}" for place, event in enumerate(events)), *difference]
    return "\n".join(lines)
