"""From text to queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, cast

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from ensue.errors import QueryError, QuerySyntaxError, Span
from ensue.language.building import QueryBuilding
from ensue.language.building_rules import RuleBuilding
from ensue.language.diagnosis import diagnose
from ensue.language.limits import DEFAULT_LIMITS, Limits
from ensue.language.tokens import tokenize
from ensue.pattern.expressions import Expression, children
from ensue.pattern.query import And, Item, Or, Pattern, Query, Seq
from ensue.rules.program import EventType, Program, Rule, Statement


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Query, ...]:
    """The queries of a text, which `;` separates; none if it holds nothing but comments.

    >>> [query.name for query in parse("QUERY one PATTERN A; QUERY two PATTERN B;")]
    ['one', 'two']
    """
    program = parse_program(text, limits)
    for statement in program:
        if not isinstance(statement, Query):
            raise QuerySyntaxError(
                f"expected queries alone, found {'EVENT' if isinstance(statement, EventType) else 'RULE'}",
                hint="`parse_program` reads rules too",
                span=statement.span,
                source=text,
            )
    return program.queries


def parse_program(text: str, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The statements of a text, which `;` separates: declared events, rules and queries.

    >>> program = parse_program("EVENT order(id: int); RULE late(id) <- o: order(id), o.begin > 100;")
    >>> program.derived
    ('late',)
    """
    try:
        return Program(_parse(text, limits))
    except QueryError as error:
        error.with_source(text)
        raise


def parse_query(text: str, limits: Limits = DEFAULT_LIMITS) -> Query:
    """The one query of a text.

    >>> parse_query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 minutes").types
    ('A', 'B')
    """
    queries = parse(text, limits)
    if not queries:
        raise QuerySyntaxError(
            "there is no query in the text",
            hint="a query starts with PATTERN, such as `PATTERN SEQ(A a, B b) WITHIN 10s`",
            span=Span(len(text), len(text)),
            source=text,
        )
    if len(queries) > 1:
        start = _start_of(queries[1])
        raise QuerySyntaxError(
            f"expected one query, found {len(queries)}",
            hint="`parse` reads several",
            span=Span(start, start + 1),
            source=text,
        )
    return queries[0]


def _parse(text: str, limits: Limits) -> tuple[Statement, ...]:
    tokens = tokenize(text, limits).tokens
    if not tokens:
        return ()
    try:
        # The tokens stand in for the text: a custom lexer of lark takes any input.
        statements = cast("list[Statement]", _parser().parse(cast(Any, tokens)))
    except UnexpectedToken as unexpected:
        raise diagnose(unexpected, tokens, text) from None
    for statement in statements:
        if not isinstance(statement, EventType):
            _check_size(statement, limits)
    return tuple(replace(statement, source=text) for statement in statements)


class _Building(QueryBuilding, RuleBuilding):
    """All rules of the grammar."""


class _TokenPasser(Lexer):
    """Hands the tokens that `tokenize` has made to the parser as they are."""

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, data: Any) -> Iterator[Token]:  # type: ignore[override]  # lark's interface of custom lexers
        return iter(data)


@cache
def _parser() -> Lark:
    """Built at the first query (80 ms), so that an import costs nothing."""
    grammar = resources.files("ensue.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer=_TokenPasser,
        transformer=cast(Any, _Building()),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def _start_of(query: Query) -> int:
    span = query.pattern.span
    return 0 if span is None else span.start


def _check_size(statement: Query | Rule, limits: Limits) -> None:
    """Refuse what is beyond the limits. Without recursion, since the point is that it may be too deep for that."""
    items = 0
    stack: list[tuple[Pattern | Expression, int]]
    if isinstance(statement, Rule):
        stack = [(part, 1) for part in (*(c.expression for c in statement.head), *statement.conditions)]
        count = len(statement.body) + sum(len(atom.arguments) for atom in statement.atoms)
    else:
        stack = [(statement.pattern, 1), *((ret.expression, 1) for ret in statement.returns)]
        if statement.where is not None:
            stack.append((statement.where, 1))
        count = len(statement.aggregates) + len(statement.group_by) + len(statement.partition_by)
    while stack:
        node, depth = stack.pop()
        count += 1
        if depth > limits.depth:
            raise QuerySyntaxError(f"the query nests deeper than the limit of {limits.depth} levels", span=node.span)
        if count > limits.nodes:
            raise QuerySyntaxError(f"the query has more parts than the limit of {limits.nodes:,}", span=node.span)
        if isinstance(node, Item):
            items += 1
            if items > limits.items:
                raise QuerySyntaxError(
                    f"the pattern has more items than the limit of {limits.items} items", span=node.span
                )
            continue
        stack += [(part, depth + 1) for part in reversed(_parts(node))]


def _parts(node: Pattern | Expression) -> tuple[Pattern | Expression, ...]:
    if isinstance(node, Item):
        return ()
    if isinstance(node, Seq | And | Or):
        return node.items
    return children(node)
