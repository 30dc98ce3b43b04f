"""From queries, as users give them, to evaluators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from ensue.errors import PlanError, QueryError, QueryNameError, QueryTypeError
from ensue.events.schema import Schema
from ensue.language import parse_program
from ensue.options import Options
from ensue.pattern.builder import PatternQuery, window_of
from ensue.pattern.check import check
from ensue.pattern.expressions import Duration
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Policy, Query, TimeWindow
from ensue.pattern.types import fold_duration
from ensue.planning.aggregates import Choice, Method
from ensue.planning.common import CommonLeaf
from ensue.planning.conditions import Conditions, analyze
from ensue.planning.default import default_plan
from ensue.planning.plan import Plan, check_plan
from ensue.rules.program import Program, Rule, Statement
from ensue.runtime.assemble import assemble
from ensue.runtime.evaluator import Evaluator
from ensue.runtime.strings import StringTable

QueryLike: TypeAlias = str | Query | PatternQuery | Program
Queries: TypeAlias = QueryLike | Sequence[QueryLike]


def read_queries(queries: Queries) -> tuple[Query, ...]:
    """Queries from text (one or many), from the fluent API or as values, each with its name.

    >>> [query.name for query in read_queries("PATTERN SEQ(A a, B b); QUERY mine PATTERN C c")]
    ['q1', 'mine']
    """
    program = read_program(queries)
    if program.rules:
        raise PlanError(f"here only queries can stand, but `{program.rules[0].type}` is a rule")
    return program.queries


def read_program(queries: Queries) -> Program:
    """Declarations, rules and queries, from text or as values, each query with its name.

    >>> read_program("EVENT a(x: int); RULE b(x) <- i: a(x); PATTERN b").queries[0].name
    'q1'
    """
    given = [queries] if isinstance(queries, str | Query | PatternQuery | Program) else list(queries)
    found: list[Statement] = []
    for one in given:
        if isinstance(one, str):
            found += parse_program(one)
        elif isinstance(one, PatternQuery):
            found.append(one.query)
        elif isinstance(one, Query):
            found.append(one)
        elif isinstance(one, Program):
            found += one
        else:
            raise PlanError(f"a query is text, or made by ensue.seq and its kin; this is {type(one).__name__}")
    if not any(isinstance(s, Query | Rule) for s in found):
        raise QueryNameError("there is no query", hint="a query begins with PATTERN")
    names: list[str | None] = list(Program(tuple(found)).derived)
    named: list[Statement] = []
    place = 0
    for statement in found:
        if isinstance(statement, Query):
            place += 1
            statement = replace(statement, name=statement.name or f"q{place}")
            if statement.name in names:
                raise QueryNameError(
                    f"two queries are called `{statement.name}`", hint="give each a name of its own with QUERY name"
                )
            names.append(statement.name)
        named.append(statement)
    return Program(tuple(named))


def check_queries(queries: Sequence[Query], schema: Schema | None) -> None:
    """Check all queries; an error says which query it is about where there are several."""
    for query in queries:
        try:
            check(query, schema)
        except QueryError as error:
            error.query = error.query or query.name
            raise error.with_source(query.source) from None


def require_windows(queries: Sequence[Query]) -> None:
    """Refuse a query that would keep every event of a stream for ever without saying so."""
    for query in queries:
        if query.within is None:
            raise QueryTypeError(
                f"query `{query.name}` has no window, and a stream has no end",
                hint="add WITHIN, or say WITHIN UNBOUNDED if its state may grow for ever",
                span=query.pattern.span,
                source=query.source,
                query=query.name,
            )


def make_evaluator(
    query: Query,
    schema: Schema,
    strings: StringTable,
    options: Options,
    plan: Choice | None = None,
    common: Sequence[CommonLeaf] = (),
) -> Evaluator:
    """Plan and assemble a query that has been checked, for its matches (see `aggregating` for AGG).

    `common` are leaves that it has in common with others.
    """
    if isinstance(plan, Method):
        raise PlanError(f"query `{query.name}` has no AGG: there is nothing to aggregate by {plan.value}")
    branches = normalize(query)
    if options.on_limit == "shed" and any(branch.negations for branch in branches):
        raise PlanError(
            f"query `{query.name}`: on_limit='shed' cannot go with a negation: "
            "dropping what was seen could turn into matches that are not there"
        )
    if plan is None:
        plan = default_plan(query, branches, schema)
    check_plan(plan, branches)
    analyses: tuple[Conditions, ...] = ()
    if query.policy is Policy.ANY:
        analyses = tuple(analyze(query, branch, schema) for branch in branches)
        assembly = assemble(query, branches, plan, schema, strings, common, analyses)
    else:
        from ensue.runtime.assemble_runs import assemble_runs

        assembly = assemble_runs(query, branches, schema, strings)
    return Evaluator(query, query.name or "q1", branches, plan, schema, assembly, options, analyses)


def make_rival(evaluator: Evaluator, plan: Plan, strings: StringTable, common: Sequence[CommonLeaf] = ()) -> Evaluator:
    """An evaluator of the same query, under USING ANY, by another plan."""
    query, branches, schema, options = evaluator.query, evaluator.branches, evaluator.schema, evaluator.options
    check_plan(plan, branches)
    if plan == evaluator.plan and evaluator.shares == bool(common):
        assembly = evaluator.assembly
    else:
        assembly = assemble(query, branches, plan, schema, strings, common, evaluator.analyses)
    return Evaluator(query, evaluator.name, branches, plan, schema, assembly, options, evaluator.analyses)


def plans_by_name(queries: Sequence[Query], plan: Choice | Mapping[str, Choice] | None) -> dict[str, Choice]:
    """The plans that were asked for, by the query's name."""
    if plan is None:
        return {}
    if isinstance(plan, Plan | Method):
        if len(queries) != 1:
            raise PlanError("several queries need their plans by name: plan={'q1': …}")
        return {queries[0].name or "q1": plan}
    unknown = set(plan) - {q.name for q in queries}
    if unknown:
        raise PlanError(f"there is a plan for `{sorted(unknown)[0]}`, but no query of that name")
    return dict(plan)


def read_lateness(lateness: int | str | timedelta | Duration) -> int | Callable[[Schema], int]:
    """An allowed lateness: a number in the time column's units, or a duration, whose units the schema tells."""
    if isinstance(lateness, int):
        return lateness
    window = window_of(lateness)
    if not isinstance(window, TimeWindow) or window.duration.amount < 0:
        raise PlanError(f"the allowed lateness is {lateness}; it is a duration such as '10s', and not negative")
    return lambda schema: math.ceil(fold_duration(window.duration, schema))
