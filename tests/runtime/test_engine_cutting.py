"""How the input is cut, and in what order it comes within the lateness, does not change what is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.errors import InputError
from ensue.events.schema import Schema
from ensue.pattern.query import Policy, Query
from ensue.runtime.counts import Counts
from ensue.runtime.engine import Engine
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape

from .agreement import Events, make_case, push_pieces, show_failure, time_order, to_oracle

CHUNK = 100
SHAPES = {
    "any": replace(DEFAULT_SHAPE, policies=(Policy.ANY,)),
    "next": replace(DEFAULT_SHAPE, policies=(Policy.NEXT,), kleene=0.4),
    "strict": replace(DEFAULT_SHAPE, policies=(Policy.STRICT,), kleene=0.4),
    "absences": replace(DEFAULT_SHAPE, policies=(Policy.ANY,), negation=0.7, windows=("time", "count")),
}
Run = Callable[[Query, list[dict[str, Any]], Schema, random.Random], tuple[list[OracleMatch], Counts]]


def one_by_one(
    query: Query, events: list[dict[str, Any]], schema: Schema, rng: random.Random
) -> tuple[list[OracleMatch], Counts]:
    engine = Engine(query, schema)
    return to_oracle(push_pieces(engine, events, [1] * len(events)), time_order(events, schema)), engine.counts


def in_pieces(
    query: Query, events: list[dict[str, Any]], schema: Schema, rng: random.Random
) -> tuple[list[OracleMatch], Counts]:
    engine = Engine(query, schema)
    return to_oracle(push_pieces(engine, events, cut(rng, len(events))), time_order(events, schema)), engine.counts


def at_once(
    query: Query, events: list[dict[str, Any]], schema: Schema, rng: random.Random
) -> tuple[list[OracleMatch], Counts]:
    engine = Engine(query, schema)
    return to_oracle([engine.push(events), engine.flush()], time_order(events, schema)), engine.counts


def shuffled(
    query: Query, events: list[dict[str, Any]], schema: Schema, rng: random.Random
) -> tuple[list[OracleMatch], Counts]:
    """Events that come out of order, but no later than is allowed; their places in the sorted input are given back."""
    lateness = rng.choice((1, 3, 8, 30))
    arrival = arrive(rng, events, lateness)
    engine = Engine(query, schema, lateness=lateness)
    order = [arrival[place] for place in time_order([events[k] for k in arrival], schema)]
    arrived = [events[k] for k in arrival]
    return to_oracle(push_pieces(engine, arrived, cut(rng, len(events))), order), engine.counts


RUNS: dict[str, Run] = {"one by one": one_by_one, "in pieces": in_pieces, "at once": at_once, "shuffled": shuffled}


def cut(rng: random.Random, length: int) -> list[int]:
    """Sizes of pieces, empty ones among them."""
    sizes = []
    while sum(sizes) < length:
        sizes.append(rng.choice((0, 1, 1, 2, 3, 5)))
    return sizes


def arrive(rng: random.Random, events: Events, lateness: int) -> list[int]:
    """An order of arrival in which no event is late: each comes at most `lateness` of event time after its place.

    Events of one time keep their order: position counts among them.
    """
    delays = {ts: rng.randint(0, lateness) for ts in sorted({event["ts"] for event in events})}
    return sorted(range(len(events)), key=lambda k: (events[k]["ts"] + delays[events[k]["ts"]], events[k]["ts"], k))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("cutting", RUNS)
@pytest.mark.parametrize("first", [0, CHUNK])
def test_cutting_does_not_matter(name: str, cutting: str, first: int) -> None:
    shape: Shape = SHAPES[name]
    total = moved = 0
    for seed in range(200_000 + first, 200_000 + first + CHUNK):
        query, events, schema = make_case(seed, shape)
        expected = find_matches(events, query, schema)
        total += len(expected)
        rng = random.Random(seed)
        try:
            found, counts = RUNS[cutting](query, events, schema, rng)
            difference = describe_difference(found, expected)
        except Exception as error:
            difference, counts = [f"{type(error).__name__}: {error}"], Counts()
        assert not difference, show_failure(f"seed {seed}, {cutting}", query, events, difference)
        assert (counts.received, counts.processed, counts.late, counts.rejected, counts.held) == (
            len(events),
            len(events),
            0,
            0,
            0,
        )
        assert counts.matches == len(expected)
        assert counts.ignored == sum(event["type"] not in query.types for event in events)
        moved += arrive(random.Random(seed), events, 8) != list(range(len(events)))
    assert total > 100
    assert moved > CHUNK / 2


@pytest.mark.parametrize("first", range(0, 300, CHUNK))
def test_late_and_rejected_rows_are_set_aside_and_counted(first: int) -> None:
    """Whatever comes: the counts add up, what is set aside is handed out once, and the rest decides the matches."""
    late = rejected = 0
    for seed in range(first, first + CHUNK):
        rng = random.Random(seed)
        query, events, schema = make_case(seed, replace(DEFAULT_SHAPE, policies=(Policy.ANY,), unsorted=0.7))
        events = [spoil(rng, event) if rng.random() < 0.15 else event for event in events]
        lateness = rng.choice((0, 2, 5))
        engine = Engine(query, schema, lateness=lateness)
        sizes = cut(rng, len(events))
        found, start = [], 0
        for size in sizes:
            found.append(engine.push(events[start : start + size]))
            start += size
            counts = engine.counts
            assert counts.received == min(start, len(events))
            assert counts.received == counts.processed + counts.late + counts.rejected + counts.held
        found.append(engine.flush())
        kept, too_late, bad = sort_out(events, lateness)
        counts = engine.counts
        assert (counts.received, counts.processed, counts.late, counts.rejected, counts.held) == (
            len(events),
            len(kept),
            len(too_late),
            len(bad),
            0,
        )
        assert count_rows(engine.take_late(), "watermark") == len(too_late)
        assert count_rows(engine.take_rejected(), "column") == len(bad)
        assert engine.take_late() is None
        assert engine.take_rejected() is None
        late, rejected = late + len(too_late), rejected + len(bad)
        taken = [events[k] for k in kept]
        order = time_order(taken, schema)
        difference = describe_difference(to_oracle(found, order), find_matches(taken, query, schema))
        assert not difference, show_failure(f"seed {seed}", query, taken, difference)
    assert late > 50
    assert rejected > 50


def spoil(rng: random.Random, event: dict[str, Any]) -> dict[str, Any]:
    """A row that cannot be read."""
    name, value = rng.choice((("ts", None), ("type", None), ("x", "seven"), ("b", 3)))
    return {**event, name: value}


def is_spoilt(event: dict[str, Any]) -> bool:
    return event["ts"] is None or event["type"] is None or event["x"] == "seven" or type(event["b"]) is int


def sort_out(events: Sequence[dict[str, Any]], lateness: int) -> tuple[list[int], list[int], list[int]]:
    """The places of the events that take part, of the late and of the unreadable ones."""
    kept: list[int] = []
    late, bad = [], []
    newest = None
    for place, event in enumerate(events):
        if is_spoilt(event):
            bad.append(place)
        elif newest is not None and event["ts"] < newest - lateness:
            late.append(place)
        else:
            kept.append(place)
            newest = event["ts"] if newest is None else max(newest, event["ts"])
    return kept, late, bad


def count_rows(table: pa.Table | None, reason: str) -> int:
    if table is None:
        return 0
    assert all(reason in text for text in table["reason"].to_pylist())
    return table.num_rows


def test_late_and_rejected_rows_come_back_as_they_were() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10", lateness=2)
    engine.push([{"type": "A", "ts": 10, "x": 1}])
    engine.push([{"type": "A", "ts": 7, "x": 2}, {"type": "B", "ts": 8, "x": 3}, {"type": "B", "ts": "soon", "x": 4}])
    late, rejected = engine.take_late(), engine.take_rejected()
    assert late is not None
    assert rejected is not None
    assert [(row["type"], row["ts"], row["x"]) for row in late.to_pylist()] == [("A", 7, 2)]
    assert "7" in late["reason"][0].as_py()
    assert "8" in late["reason"][0].as_py()  # the watermark
    assert [row["x"] for row in rejected.to_pylist()] == [4]
    assert "soon" in rejected["reason"][0].as_py()
    assert engine.counts == Counts(received=4, processed=1, late=1, rejected=1, held=1)


def test_strict_makes_a_bad_row_an_error() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10", strict=True)
    engine.push([{"type": "A", "ts": 1}])
    with pytest.raises(InputError, match="row 3"):
        engine.push([{"type": "B", "ts": 2}, {"type": None, "ts": 3}])
    assert engine.counts.received == 1  # nothing of the refused piece was taken


def test_matches_are_given_as_soon_as_they_are_known() -> None:
    """With a lateness a match waits for the watermark, no longer; a trailing absence for the end of its window."""
    engine = ensue.compile("PATTERN SEQ(A a, B b) WITHIN 10", lateness=3)
    given = [len(engine.push([{"type": kind, "ts": ts}])) for kind, ts in (("B", 2), ("A", 1), ("C", 4), ("C", 5))]
    assert given == [0, 0, 0, 1]
    engine = ensue.compile("PATTERN SEQ(A a, !B b) WITHIN 10")
    given = [len(engine.push([{"type": kind, "ts": ts}])) for kind, ts in (("A", 1), ("C", 10), ("C", 11), ("A", 12))]
    assert given == [0, 0, 1, 0]
    assert len(engine.flush()) == 1
