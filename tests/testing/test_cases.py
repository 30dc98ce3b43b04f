"""The oracle on all case files, and the case files' own format."""

from __future__ import annotations

from pathlib import Path

import pytest

import ensue.errors
from ensue.errors import EnsueError, InputError
from ensue.pattern.check import check
from ensue.testing.aggregates import aggregate_matches
from ensue.testing.cases import Case, ExpectedError, ExpectedMatches, ExpectedRows, load_cases, parse_case
from ensue.testing.harness import assert_same, describe_rows
from ensue.testing.oracle import evaluate_returns, find_matches

FOLDER = Path(__file__).parents[1] / "cases"
CASES = load_cases(FOLDER)
WITH_MATCHES = [case for case in CASES if isinstance(case.expected, ExpectedMatches)]
WITH_ROWS = [case for case in CASES if isinstance(case.expected, ExpectedRows)]
WITH_ERROR = [case for case in CASES if isinstance(case.expected, ExpectedError)]


def test_there_are_cases_of_every_kind() -> None:
    assert len(WITH_MATCHES) > 250
    assert len(WITH_ROWS) > 30
    assert len(WITH_ERROR) > 40
    areas = {case.name.split("/")[0] for case in CASES}
    assert areas == {path.name for path in FOLDER.iterdir() if any(path.glob("*.case"))}
    assert all(case.rule for case in CASES)


@pytest.mark.parametrize("case", WITH_MATCHES, ids=lambda case: case.name)
def test_oracle_agrees(case: Case) -> None:
    assert isinstance(case.expected, ExpectedMatches)
    query = case.parse()
    check(query, case.schema)
    assert_same(find_matches(case.events, query, case.schema), case.expected.matches, query=query, events=case.events)
    for match, columns in zip(case.expected.matches, case.expected.returns, strict=True):
        assert (columns is not None) == bool(query.returns)
        if columns is not None:
            row = evaluate_returns(query, match, case.events, case.schema)
            # repr tells 1 from 1.0 and True; the order of the columns counts
            assert [(name, repr(value)) for name, value in row.items()] == [
                (name, repr(value)) for name, value in columns.items()
            ]


@pytest.mark.parametrize("case", WITH_ROWS, ids=lambda case: case.name)
def test_oracle_agrees_on_aggregates(case: Case) -> None:
    assert isinstance(case.expected, ExpectedRows)
    query = case.parse()
    check(query, case.schema)
    rows = aggregate_matches(case.events, query, case.schema)
    assert not describe_rows([{"time": row.time, **row.group, **row.values} for row in rows], case.expected.rows)


@pytest.mark.parametrize("case", WITH_ERROR, ids=lambda case: case.name)
def test_wrong_queries_are_refused(case: Case) -> None:
    assert isinstance(case.expected, ExpectedError)
    kind = getattr(ensue.errors, case.expected.name)
    with pytest.raises(EnsueError) as caught:
        check(case.parse(), case.schema)
    assert isinstance(caught.value, kind)
    assert case.expected.message in str(caught.value)


GOOD = """# rule: a rule
query:
  PATTERN SEQ(A a, B+ b[])
events:
      type ts x
  a1  A    1  -
  b1  B    2  5
matches:
  a=a1 b=[b1]
"""


def test_a_case_is_read() -> None:
    case = parse_case(GOOD, "area/name")
    assert (case.name, case.rule) == ("area/name", "a rule")
    assert case.query_text == "PATTERN SEQ(A a, B+ b[])"
    assert case.events == ({"type": "A", "ts": 1, "x": None}, {"type": "B", "ts": 2, "x": 5})
    assert isinstance(case.expected, ExpectedMatches)
    (match,) = case.expected.matches
    assert (match.begin, match.end, match.detected_at) == (1, 2, 2)
    assert match.assignment == {"a": 0, "b": (1,)}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# rule: a rule", "", "a case has a rule"),
        ("a=a1 b=[b1]", "a=a1 b=[b7]", "b7"),
        ("a=a1 b=[b1]", "a=a1 b [b1]", "cannot read"),
        ("a=a1 b=[b1]", "a=a1 b=[b1] | begin=5", "does not follow"),
        ("a=a1 b=[b1]", "a=a1 b=[b1] | seen_at=5", "cannot read the match"),
        ("b1  B    2  5", "b1  B    2", "2 values for 3 columns"),
        ("b1  B    2  5", "a1  B    2  5", "one label"),
        ("type ts x", "type ts colour", "colour"),
        ("matches:", "results:", "unexpected section"),
        ("query:", "options:\n  speed = 5\nquery:", "unknown options"),
    ],
)
def test_a_broken_case_is_refused(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match="case area/name: ") as caught:
        parse_case(GOOD.replace(old, new), "area/name")
    assert message in str(caught.value)
