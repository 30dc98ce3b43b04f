"""Every case file of rules, by the oracle and by the engine in all cuts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ensue
from ensue.errors import EnsueError
from ensue.language import format_text, parse_program
from ensue.rules.check import check_program
from ensue.testing.cases import ExpectedError
from ensue.testing.random_programs import RandomProgram
from ensue.testing.rule_cases import RuleCase, load_rule_cases
from ensue.testing.rule_oracle import derive_events

from .agreement import as_events, assert_agrees, run_streamed

CASES = load_rule_cases(Path(__file__).parent.parent / "cases" / "rules")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: RuleCase) -> None:
    if isinstance(case.expected, ExpectedError):
        with pytest.raises(EnsueError) as caught:
            check_program(parse_program(case.text), case.schema)
        assert type(caught.value).__name__ == case.expected.name
        assert case.expected.message in str(caught.value)
        return
    program = parse_program(case.text)
    shown = RandomProgram(program, case.text, case.events, case.schema)
    assert_agrees(shown, derive_events(case.events, program, case.schema), case.expected, "the oracle")
    found = ensue.run(list(case.events), case.text, schema=case.schema)
    assert_agrees(shown, as_events(found), case.expected, "all at once")
    for seed in range(3):
        streamed = run_streamed(shown, random.Random(seed))
        assert_agrees(shown, as_events(streamed), case.expected, "in cuts")
    assert parse_program(format_text(case.text)) == program


def test_there_are_cases() -> None:
    assert len(CASES) >= 12
