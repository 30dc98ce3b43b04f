"""The examples of the language reference: each is a case, and the oracle and the engine must agree with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import ensue
from ensue.errors import EnsueError
from ensue.events.schema import DType
from ensue.events.times import to_microseconds
from ensue.pattern.check import check
from ensue.testing.aggregates import aggregate_matches
from ensue.testing.cases import Case, ExpectedError, ExpectedMatches, ExpectedRows, parse_case
from ensue.testing.harness import assert_same, describe_rows
from ensue.testing.oracle import OracleMatch, evaluate_returns, find_matches

from . import blocks

PAGE = blocks.ROOT / "docs" / "language.md"
HEAD = ("match_id", "query", "begin", "end", "detected_at", "partition")
EXAMPLES = [b for b in blocks.read_blocks(PAGE) if b.language == "case"]


def read(block: blocks.Block) -> Case:
    return parse_case(block.text, f"{Path(PAGE).name}:{block.line}")


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda b: f"line{b.line}")
def test_example_by_the_oracle(block: blocks.Block) -> None:
    case = read(block)
    expected = case.expected
    if isinstance(expected, ExpectedError):
        with pytest.raises(EnsueError) as caught:
            check(case.parse(), case.schema)
        assert type(caught.value).__name__ == expected.name
        assert expected.message in str(caught.value)
        return
    query = case.parse()
    check(query, case.schema)
    if isinstance(expected, ExpectedRows):
        rows = aggregate_matches(case.events, query, case.schema)
        assert not describe_rows([{"time": row.time, **row.group, **row.values} for row in rows], expected.rows)
        return
    found = find_matches(case.events, query, case.schema)
    assert_same(found, expected.matches)
    for match, columns in zip(expected.matches, expected.returns, strict=True):
        if columns is not None:
            assert evaluate_returns(query, match, case.events, case.schema) == columns


def positions(value: Any) -> int | tuple[int, ...] | None:
    if value is None:
        return None
    return tuple(event["row"] for event in value) if isinstance(value, list) else value["row"]


def in_units(moment: Any) -> Any:
    """A time of a result as the case says it: an integer."""
    return to_microseconds(moment) if isinstance(moment, date) else moment


@pytest.mark.parametrize(
    "block", [b for b in EXAMPLES if isinstance(read(b).expected, ExpectedMatches)], ids=lambda b: f"line{b.line}"
)
def test_example_by_the_engine(block: blocks.Block) -> None:
    case = read(block)
    assert isinstance(case.expected, ExpectedMatches)
    schema = replace(case.schema, columns={**case.schema.columns, "row": DType.INT})
    rows = [{**event, "row": place} for place, event in enumerate(case.events)]
    found = ensue.run(rows, case.query_text, schema=schema).to_pylist()
    if case.parse().returns:
        columns = [{k: v for k, v in match.items() if k not in HEAD} for match in found]
        assert sorted(map(str, columns)) == sorted(map(str, case.expected.returns))
        return
    actual = [
        OracleMatch(
            in_units(match["begin"]),
            in_units(match["end"]),
            in_units(match["detected_at"]),
            {name: positions(value) for name, value in match["events"].items()},
        )
        for match in found
    ]
    assert_same(actual, case.expected.matches)


@pytest.mark.parametrize(
    "block", [b for b in EXAMPLES if isinstance(read(b).expected, ExpectedRows)], ids=lambda b: f"line{b.line}"
)
def test_example_of_aggregates_by_the_engine(block: blocks.Block) -> None:
    case = read(block)
    assert isinstance(case.expected, ExpectedRows)
    found = ensue.run(list(case.events), case.query_text, schema=case.schema).to_pylist()
    assert not describe_rows([{k: v for k, v in row.items() if k != "query"} for row in found], case.expected.rows)


def test_the_page_has_examples() -> None:
    kinds = Counter(type(read(block).expected) for block in EXAMPLES)
    assert kinds[ExpectedMatches] > 30
