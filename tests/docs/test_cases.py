"""The examples of the language reference: each is a case, and the oracle and the engine must agree with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ensue.errors import EnsueError
from ensue.pattern.check import check
from ensue.testing.cases import Case, ExpectedError, ExpectedMatches, parse_case
from ensue.testing.harness import assert_same
from ensue.testing.oracle import evaluate_returns, find_matches

from . import blocks

PAGE = blocks.ROOT / "docs" / "language.md"
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
    found = find_matches(case.events, query, case.schema)
    assert_same(found, expected.matches)
    for match, columns in zip(expected.matches, expected.returns, strict=True):
        if columns is not None:
            assert evaluate_returns(query, match, case.events, case.schema) == columns


def test_the_page_has_examples() -> None:
    kinds = Counter(type(read(block).expected) for block in EXAMPLES)
    assert kinds[ExpectedMatches] > 30
