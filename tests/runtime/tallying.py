"""Rows of AGG from the engine, as the oracle gives them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ensue.errors import PlanError
from ensue.events.schema import Schema
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.aggregates import Method, fits, plan_aggregates
from ensue.runtime.engine import Engine
from ensue.runtime.matches import Matches
from ensue.testing.aggregates import aggregate_matches
from ensue.testing.harness import describe_rows
from ensue.testing.random_aggregates import COUNTED, random_aggregate_case
from ensue.testing.random_queries import Shape

from .agreement import Events, show_failure
from .test_engine_cases import plain


def to_rows(results: Iterable[Matches]) -> list[dict[str, Any]]:
    """What users see, times as integers and NaN as null, without the query's name."""
    return [{name: plain(value) for name, value in row.items() if name != "query"} for r in results for row in r]


def expected_rows(query: Query, events: Events, schema: Schema) -> list[dict[str, Any]]:
    """What the oracle says."""
    return [{"time": row.time, **row.group, **row.values} for row in aggregate_matches(events, query, schema)]


def methods_for(query: Query, schema: Schema) -> list[Method]:
    """All ways to evaluate a query, the planner's own first."""
    plan = plan_aggregates(query, normalize(query), schema)
    if plan.counters is None:
        return [Method.DETECTION]
    others = [method for method in Method if method is not plan.method and fits(method, plan.counters)]
    return [plan.method, *others]


def describe_rows_of(
    seed: int, shape: Shape = COUNTED, *, most: int = 5
) -> tuple[str | None, list[Method], int, Query]:
    """Where the engine and the oracle differ on the random case of a seed; the methods, the rows, the query."""
    query, events, schema = random_aggregate_case(random.Random(seed), shape)
    expected = expected_rows(query, events, schema)
    methods = methods_for(query, schema)
    for method in methods[:most]:
        try:
            engine = Engine(query, schema, plan=method)
            difference = describe_rows(to_rows([engine.push_sorted(list(events))]), expected)
        except PlanError:
            raise
        except Exception as error:
            difference = [f"{type(error).__name__}: {error}"]
        if difference:
            return show_failure(f"seed {seed}, {method}", query, events, difference), methods, len(expected), query
    return None, methods, len(expected), query
