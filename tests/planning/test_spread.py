"""How events may be spread: what is found in the parts is what is found in the whole."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import ensue
from ensue.errors import QueryError
from ensue.events.schema import DType, Schema
from ensue.language import parse_query
from ensue.pattern.check import check
from ensue.pattern.expressions import Attribute, Comparison, Expression, Logical
from ensue.pattern.query import Policy, Query
from ensue.planning.spread import Key, find_spread
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape, random_case

SCHEMA = Schema(
    {
        "type": DType.STRING,
        "ts": DType.INT,
        "id": DType.INT,
        "owner": DType.INT,
        "name": DType.STRING,
        "price": DType.FLOAT,
        "due": DType.TIMESTAMP,
    }
)
Events = Sequence[dict[str, Any]]
Found = Counter[tuple[str, Any]]

TIED = replace(
    DEFAULT_SHAPE,
    policies=(Policy.ANY, Policy.ANY, Policy.NEXT),
    variables=3,
    negation=0.4,
    conditions=1,
    windows=("time", "time", "time", "unbounded", "count"),
    partitions=((), (), (), (), (), ("k",)),
)
SLICED = replace(DEFAULT_SHAPE, windows=("time",), negation=0.5, intervals=0.4, events=13)


def key_of(text: str) -> Key | None:
    return find_spread(parse_query(text), SCHEMA).key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 9", Key(("id",))),
        ("PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id = c.id WITHIN 9", Key(("id",))),
        ("PATTERN SEQ(A a, B b) WHERE a.id = b.id AND a.name = b.name WITHIN 9", Key(("id", "name"))),
        ("PATTERN SEQ(A a, B b) WHERE a.id = b.owner WITHIN 9", Key((), (("A", ("id",)), ("B", ("owner",))))),
        ("PATTERN SEQ(A a, B b) PARTITION BY id WITHIN 9", Key(("id",))),
        ("PATTERN SEQ(A a, !N n, B b) WHERE a.id = b.id = n.id WITHIN 9", Key(("id",))),
        ("PATTERN SEQ(A a, !N n) WHERE a.id = n.id WITHIN 9", Key(("id",), null_matches=True)),
        ("PATTERN SEQ(A a, B* b[], C c) WHERE a.id = b.id AND a.id = c.id WITHIN 9", Key(("id",))),
        ("PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WHERE a.id = b.id AND c.id = d.id WITHIN 9", Key(("id",))),
    ],
)
def test_keys_are_found(text: str, key: Key) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, B b) WITHIN 9",
        "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id WITHIN 9",  # c is tied to none
        "PATTERN SEQ(A a, !N n, B b) WHERE a.id = b.id WITHIN 9",  # any n refuses the match
        "PATTERN SEQ(A a, A b) WHERE a.id = b.owner WITHIN 9",  # an A is both
        "PATTERN SEQ(A a, B b) WHERE a.id = b.id OR a.id = 1 WITHIN 9",
        "PATTERN SEQ(A a, B b) WHERE a.price = b.price WITHIN 9",  # 0.0 and -0.0 are equal
        "PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 9 EVENTS",  # events of all keys count
        "PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 9 USING STRICT",
        "PATTERN SEQ(A a, B? b[], C c) WHERE a.id = b.id AND b.id = c.id WITHIN 9",  # b may not be there
        "PATTERN SEQ(A+ a[], !N n) WHERE a.id = n.id WITHIN 9",  # the a of one list may have many ids
        "PATTERN SEQ(A+ a[], B b) WHERE a.id = b.id WITHIN 9 USING NEXT",  # every A is taken, whatever its id
        "PATTERN SEQ(A a, B? b[], C c) WHERE a.id = c.id AND b.id = c.id WITHIN 9 USING NEXT",  # b is taken before c
        "PATTERN SEQ(A a, B b, C c) WHERE a.id = c.id AND b.id = c.id WITHIN 9 USING NEXT",  # b is taken before c
        "PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WHERE a.id = b.id WITHIN 9",
    ],
)
def test_no_key_is_made_up(text: str) -> None:
    assert key_of(text) is None


# -- random queries ---------------------------------------------------------------------------------------------------


def run(query: Query, events: Events, schema: Schema) -> Found:
    found = ensue.run(list(events), query, schema=schema)
    return Counter((row["match_id"], row["detected_at"]) for row in found)


def tie(query: Query, rng: random.Random) -> Query:
    """The query with equalities between its variables, mostly enough to tie all together."""
    items = query.items
    ties: list[Expression] = []
    for _ in range(rng.choice((1, 1, 2))):
        names = rng.choice((("k", "k"), ("k", "x"), ("b", "b"), ("x", "x"), ("k", "x")))
        attribute = {item.type: rng.choice(names) for item in items}
        for place, item in enumerate(items[1:], 1):
            others = [other for other in items[:place] if not (other.negated and item.negated)]
            if others and rng.random() < 0.95:
                pair = [item, rng.choice(others)]
                rng.shuffle(pair)
                left, right = (Attribute(one.variable, attribute[one.type]) for one in pair)
                ties.append(Comparison((left, right), ("=",)))
    if not ties:
        return query
    parts = (*ties,) if query.where is None else (*ties, query.where)
    return replace(query, where=parts[0] if len(parts) == 1 else Logical("AND", parts))


def split(events: Events, key: Key, schema: Schema) -> Iterable[Events]:
    """The events of each value of a key; those without one, if they matter, in a part of theirs."""
    parts: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    by_type = dict(key.by_type)
    for event in events:
        names = key.every or by_type.get(event[schema.type], ())
        value = tuple(event[name] for name in names)
        if None not in value:
            parts[value].append(event)
        elif key.null_matches:
            parts[()].append(event)
    return parts.values()


def tied_cases(first: int, count: int, shape: Shape) -> Iterable[tuple[int, Query, Events, Schema, Key]]:
    """Random cases that have a key."""
    for seed in range(first, first + count):
        rng = random.Random(seed)
        query, events, schema = random_case(rng, shape)
        query = replace(tie(query, rng), name="q")
        try:
            check(query, schema)
        except QueryError:
            continue
        key = find_spread(query, schema).key
        if key is not None:
            yield seed, query, events, schema, key


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_what_is_found_by_key_is_what_is_found(first: int) -> None:
    features: Counter[str] = Counter()
    failures = []
    for seed, query, events, schema, key in tied_cases(first, 500, TIED):
        whole = run(query, events, schema)
        parts = sum((run(query, part, schema) for part in split(events, key, schema)), Counter[tuple[str, Any]]())
        if parts != whole:
            lines = [f"seed {seed} by {key}", str(query), *map(str, events)]
            failures.append("\n".join([*lines, f"{whole.total()} matches, by key {parts.total()}"]))
        features["cases"] += 1
        features["matches"] += bool(whole)
        features["by type"] += bool(key.by_type) and bool(whole)
        features["found in WHERE"] += not query.partition_by and bool(whole)
        features["NEXT"] += query.policy is Policy.NEXT and bool(whole)
        features["absences"] += any(item.negated for item in query.items) and bool(whole)
        features["optional"] += bool(whole) and any(
            i.quantifier is not None and not i.quantifier.minimum for i in query.items
        )
    assert not failures, f"{len(failures)} cases differ\n\n" + "\n\n".join(failures[:3])
    assert features["cases"] > 200, features
    assert min(features.values()) >= 3, features


@pytest.mark.parametrize("first", range(10_000, 12_000, 500))
def test_what_is_found_in_slices_is_what_is_found(first: int) -> None:
    """Each slice reads one window further, and one back where an absence may lie before the match."""
    failures, matches, crossing = [], 0, 0
    for seed in range(first, first + 250):
        rng = random.Random(seed)
        query, events, schema = random_case(rng, SLICED)
        query = replace(query, name="q")
        spread = find_spread(query, schema)
        assert spread.window is not None
        back = spread.window if spread.looks_back else 0
        cuts = sorted({rng.randint(0, 24) for _ in range(rng.randint(1, 4))})
        slices: list[list[dict[str, Any]]] = [[] for _ in range(len(cuts) + 1)]
        for event in events:
            first_read = bisect_right(cuts, event["ts"] - spread.window)
            last_read = bisect_right(cuts, event["ts"] + back)
            for part in slices[first_read : last_read + 1]:
                part.append(event)
        whole = run(query, events, schema)
        found: Found = Counter()
        for part, (low, high) in zip(slices, pairwise([-100, *cuts, 100]), strict=True):
            rows = ensue.run(part, query, schema=schema) if part else []
            found.update((row["match_id"], row["detected_at"]) for row in rows if low <= row["begin"] < high)
        matches += whole.total()
        crossing += sum(len(part) < len(events) for part in slices)
        if found != whole:
            lines = [f"seed {seed} cut at {cuts}", str(query), *map(str, events)]
            failures.append("\n".join([*lines, f"{whole.total()} matches, in slices {found.total()}"]))
    assert not failures, f"{len(failures)} cases differ\n\n" + "\n\n".join(failures[:3])
    assert matches > 250 and crossing > 250
