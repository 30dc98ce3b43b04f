"""Lays a text of queries and rules out in the canonical way, and keeps its comments.

A comment on a line of its own goes above the clause that follows it; one at the end of a line stays with the clause
that it stands in. So the layout of a laid-out text is that text.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from lark import Token

from ensue.language.limits import DEFAULT_LIMITS, Limits
from ensue.language.parsing import parse_program
from ensue.language.tokens import Comment, tokenize
from ensue.pattern.format import format_clauses
from ensue.rules.format import format_event_type, format_rule
from ensue.rules.program import EventType, Rule, Statement

_CLAUSE_OF = {
    "QUERY": "QUERY",
    "PATTERN": "PATTERN",
    "WHERE": "WHERE",
    "PARTITION": "PARTITION BY",
    "WITHIN": "WITHIN",
    "USING": "USING",
    "AGG": "AGG",
    "GROUP": "GROUP BY",
    "EMIT": "EMIT",
    "RETURN": "RETURN",
    "EVENT": "EVENT",
    "RULE": "RULE",
}


@dataclass(slots=True)
class _Remarks:
    """The comments of one statement: above each clause, at the end of each clause's line."""

    above: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    beside: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def format_text(text: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """A text of queries and rules in the canonical layout, its comments kept.

    >>> print(format_text("pattern seq(A a,B b) -- a pair\\nwithin 10 seconds"), end="")
    PATTERN SEQ(A a, B b)  -- a pair
    WITHIN 10s
    """
    text = text.replace("\r\n", "\n")
    statements = parse_program(text, limits).statements
    tokenized = tokenize(text, limits)
    remarks, closing = _place_comments(text, tokenized.tokens, tokenized.comments, len(statements))
    ending = ";" if len(statements) > 1 else ""
    blocks: list[str] = []
    for k, (statement, notes) in enumerate(zip(statements, remarks, strict=True)):
        block = _lay_out(statement, notes, ending)
        if k and isinstance(statement, EventType) and isinstance(statements[k - 1], EventType):
            blocks[-1] += "\n" + block  # declarations stand together
        else:
            blocks.append(block)
    if closing:
        blocks.append("\n".join(closing))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _place_comments(
    text: str, tokens: list[Token], comments: Iterable[Comment], count: int
) -> tuple[list[_Remarks], list[str]]:
    """For each query its comments; and those after the last query."""
    remarks = [_Remarks() for _ in range(count)]
    closing: list[str] = []
    starts = [token.start_pos or 0 for token in tokens]
    where = _clauses_by_token(tokens)
    for comment in comments:
        shown = "\n".join(line.rstrip() for line in comment.text.split("\n"))
        after = bisect.bisect_left(starts, comment.start)  # the token that follows
        line_start = text.rfind("\n", 0, comment.start) + 1
        if after > 0 and (tokens[after - 1].end_pos or 0) > line_start:
            query, clause = where[after - 1]
            remarks[query].beside[clause].append(shown)
            continue
        if after < len(tokens) and tokens[after].type == "END":
            after += 1
        if after == len(tokens):
            closing.append(shown)
            continue
        query, clause = where[after]
        remarks[query].above[clause].append(shown)
    return remarks, closing


def _clauses_by_token(tokens: list[Token]) -> list[tuple[int, str]]:
    """For each token the number of its query and the clause it belongs to; a `[` belongs to the clause it opens."""
    query, clause = 0, ""
    places: list[tuple[int, str]] = []
    for k, token in enumerate(tokens):
        opened = tokens[k + 1] if token.type == "LCLAUSE" and k + 1 < len(tokens) else token
        clause = _CLAUSE_OF.get(opened.type, clause)
        places.append((query, clause))
        if token.type == "END":
            query += 1
    return places


def _clauses_of(statement: Statement) -> tuple[tuple[str, str], ...]:
    match statement:
        case EventType():
            return (("EVENT", format_event_type(statement)),)
        case Rule():
            return (("RULE", format_rule(statement)),)
        case _:
            return format_clauses(statement)


def _lay_out(statement: Statement, remarks: _Remarks, ending: str) -> str:
    clauses = _clauses_of(statement)
    written = {keyword for keyword, _ in clauses}
    for keyword in [*remarks.above, *remarks.beside]:
        if keyword not in written:  # a clause that says the default is left out, its comments are not
            remarks.above["PATTERN"] += remarks.above.pop(keyword, []) + remarks.beside.pop(keyword, [])
    lines: list[str] = []
    for keyword, clause in clauses:
        beside = remarks.beside[keyword]
        fits = len(beside) == 1 and "\n" not in beside[0]
        lines += remarks.above[keyword] + ([] if fits else beside)
        last = ending if keyword == clauses[-1][0] else ""
        lines.append(clause + last + ("  " + beside[0] if fits else ""))
    return "\n".join(lines)
