"""The engine that queries, or a program with rules, need."""

from __future__ import annotations

from typing import Any

from ensue.events.schema import Schema
from ensue.rules.check import check_program
from ensue.runtime.compiling import Queries, read_program
from ensue.runtime.engine import Engine
from ensue.runtime.rule_engine import RuleEngine


def make_engine(
    queries: Queries, schema: Schema | None = None, *, is_stream: bool = False, **settings: Any
) -> Engine | RuleEngine:
    """An engine with these settings (those of `Engine`); on a stream rules must not keep events for ever."""
    program = read_program(queries)
    if program.rules:
        return RuleEngine(program, schema, is_stream=is_stream, **settings)
    check_program(program, schema)  # declarations beside queries
    return Engine(program.queries, schema, **settings)
