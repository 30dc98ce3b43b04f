"""The engine finds what the oracle finds: random queries of every kind over random streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ensue.pattern.query import CountWindow, Policy, TimeWindow, Unbounded
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape

from . import agreement
from .agreement import describe_disagreement, make_case, run_whole

CHUNK = 250
CHUNKS = 21
_SHOWN = 3  # failing cases in one message

UNSORTED = replace(DEFAULT_SHAPE, unsorted=1.0)
LISTS = replace(DEFAULT_SHAPE, policies=(Policy.ANY,), kleene=0.7, negation=0.4, variables=3)
ABSENCES = replace(DEFAULT_SHAPE, negation=0.8, windows=("time", "count"), intervals=0.4)
RUNS = replace(DEFAULT_SHAPE, policies=(Policy.NEXT, Policy.STRICT), kleene=0.4, intervals=0.25)


def check_seeds(first: int, count: int, shape: Shape = DEFAULT_SHAPE) -> None:
    failures = []
    for seed in range(first, first + count):
        failure = describe_disagreement(seed, shape)
        if failure is not None:
            failures.append(failure)
    shown = "\n\n".join(failures[:_SHOWN])
    assert not failures, f"{len(failures)} of {count} cases differ from the oracle\n\n{shown}"


@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_engine_agrees(first: int) -> None:
    check_seeds(first, CHUNK)


@pytest.mark.parametrize("first", range(100_000, 100_500, CHUNK))
@pytest.mark.parametrize(
    "shape", [UNSORTED, LISTS, ABSENCES, RUNS], ids=["unsorted input", "lists", "absences", "NEXT and STRICT"]
)
def test_engine_agrees_where_it_is_hard(shape: Shape, first: int) -> None:
    check_seeds(first, CHUNK, shape)


def test_the_cases_hold_every_feature() -> None:
    """The suite means nothing if the seeds happen to leave a feature out, or find nothing."""
    features: Counter[str] = Counter()
    for seed in range(CHUNK):
        query, events, schema = make_case(seed)
        matches = len(find_matches(events, query, schema))
        features[query.policy.name] += matches > 0
        window = query.within
        features["time window"] += isinstance(window, TimeWindow) and matches > 0
        features["count window"] += isinstance(window, CountWindow) and matches > 0
        features["no window"] += (window is None or isinstance(window, Unbounded)) and matches > 0
        features["partitions"] += bool(query.partition_by) and matches > 0
        features["intervals"] += schema.begin is not None and matches > 0
        features["lists"] += any(item.quantifier is not None for item in query.items) and matches > 0
        features["absences"] += any(item.negated for item in query.items) and matches > 0
        features["conditions"] += query.where is not None and matches > 0
        features["matches"] += matches
        features["without a match"] += matches == 0
    assert min(features.values()) >= 5, features
    assert features["matches"] > 500, features


def test_a_disagreement_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: a lost match, a doubled one and a wrong time each show."""
    seed = next(s for s in range(CHUNK) if len(run_whole(*make_case(s))) > 1)
    real = run_whole(*make_case(seed))
    assert describe_disagreement(seed) is None
    for wrong in (real[1:], [*real, real[0]], [replace(real[0], end=real[0].end + 1), *real[1:]]):
        monkeypatch.setattr(agreement, "run_whole", lambda *case, wrong=wrong: wrong)
        assert "seed" in (describe_disagreement(seed) or "")
