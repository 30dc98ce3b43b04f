"""Every case file through the engine: in one go, and event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ensue
import ensue.errors
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.testing.cases import Case, ExpectedError, ExpectedMatches, load_cases
from ensue.testing.harness import assert_same
from ensue.testing.oracle import OracleMatch

from .agreement import time_order, to_oracle

CASES = load_cases(Path(__file__).parents[1] / "cases")
WITH_MATCHES = [case for case in CASES if isinstance(case.expected, ExpectedMatches)]
WITH_ERROR = [case for case in CASES if isinstance(case.expected, ExpectedError)]
HEAD = ("match_id", "query", "begin", "end", "detected_at", "partition")


def test_there_are_cases() -> None:
    assert len(WITH_MATCHES) > 250
    assert len(WITH_ERROR) > 40


@pytest.mark.parametrize("case", WITH_MATCHES, ids=lambda case: case.name)
def test_case_in_one_go(case: Case) -> None:
    order = time_order(case.events, case.schema)
    result = ensue.run(list(case.events), case.query_text, schema=case.schema)
    check_result(case, [result], order)


@pytest.mark.parametrize("case", WITH_MATCHES, ids=lambda case: case.name)
def test_case_event_by_event(case: Case) -> None:
    """Unreadable rows come first: they take no part, wherever they stand."""
    order = time_order(case.events, case.schema)
    engine = Engine(case.query_text, case.schema)
    unreadable = [event for place, event in enumerate(case.events) if place not in order]
    results = [engine.push([event]) for event in (*unreadable, *(case.events[place] for place in order))]
    results.append(engine.flush())
    check_result(case, results, order)
    assert engine.counts.rejected == len(unreadable)
    assert engine.counts.processed == len(order)
    whole = ensue.run(list(case.events), case.query_text, schema=case.schema)
    ids = Counter(row["match_id"] for result in results for row in result)
    assert ids == Counter(row["match_id"] for row in whole)
    assert all(times == 1 for times in ids.values())


@pytest.mark.parametrize("case", WITH_ERROR, ids=lambda case: case.name)
def test_case_with_error(case: Case) -> None:
    assert isinstance(case.expected, ExpectedError)
    with pytest.raises(getattr(ensue.errors, case.expected.name)) as caught:
        Engine(case.query_text, case.schema)
    assert case.expected.message in str(caught.value)


def check_result(case: Case, results: Sequence[Matches], order: Sequence[int]) -> None:
    """That the matches are those of the case, and the rows that users see say the same."""
    expected = case.expected
    assert isinstance(expected, ExpectedMatches)
    found = to_oracle(results, order)
    query = case.parse()
    assert_same(found, expected.matches, query=query, events=case.events)
    columns = {key_of(match): row for match, row in zip(expected.matches, expected.returns, strict=True)}
    rows = [row for result in results for row in result]
    for match, row in zip(found, rows, strict=True):
        assert [plain(row[name]) for name in ("begin", "end", "detected_at")] == [
            match.begin,
            match.end,
            match.detected_at,
        ]
        assert ("partition" in row) == bool(query.partition_by)
        wanted = columns[key_of(match)]
        if wanted is None:
            check_events(case, match, row["events"])
            continue
        given = {name: value for name, value in row.items() if name not in HEAD}
        # repr tells 1 from 1.0 and True; the order of the columns counts
        assert [(name, repr(plain(value))) for name, value in given.items()] == [
            (name, repr(value)) for name, value in wanted.items()
        ]


def check_events(case: Case, match: OracleMatch, events: dict[str, Any]) -> None:
    """That the events of a row are those of the match, with all their columns."""
    assert events.keys() == match.assignment.keys()
    for name, places in match.assignment.items():
        shown = events[name]
        if places is None:
            assert shown is None
        elif isinstance(places, tuple):
            assert len(shown) == len(places)
            for one, place in zip(shown, places, strict=True):
                check_event(case, one, place)
        else:
            check_event(case, shown, places)


def check_event(case: Case, shown: dict[str, Any], place: int) -> None:
    event = case.events[place]
    assert shown.keys() == event.keys()
    for name, value in event.items():
        if isinstance(value, str) and isinstance(shown[name], datetime):
            value = datetime.fromisoformat(value)
            value = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        assert plain(shown[name]) == plain(value), (case.labels[place], name)


def key_of(match: OracleMatch) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(match.assignment.items()))


def plain(value: Any) -> Any:
    """A value as case files write it: times and durations in microseconds; NaN is null."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return None if value != value else value
