"""What the parser hands to the methods that build values: tokens, and values with where they stand in the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lark import Token

from ensue.errors import QuerySyntaxError, Span
from ensue.pattern.expressions import Duration

LONGEST_NUMBER = 1000
"""Characters of a number: far beyond what a value can hold, and below where reading one becomes slow."""


class Part(NamedTuple):
    """A value read from the text, and where it stands there."""

    value: Any
    start: int
    end: int
    bare_number: bool = False  # a number literal without sign or parentheses: a minus before it belongs to it

    @property
    def span(self) -> Span:
        """The stretch of text."""
        return Span(self.start, self.end)


class Clause(NamedTuple):
    """A clause after PATTERN: the fields of the query that it sets."""

    keyword: str
    fields: dict[str, Any]
    span: Span


Read = Part | Clause | Token


def span_of(parts: Read | list[Read]) -> Span:
    """The stretch of text of one part, or from the first to the last of several."""
    if isinstance(parts, list):
        return Span(_start(parts[0]), _end(parts[-1]))
    return Span(_start(parts), _end(parts))


def _start(part: Read) -> int:
    if isinstance(part, Token):
        return part.start_pos or 0
    return part.span.start


def _end(part: Read) -> int:
    if isinstance(part, Token):
        return part.end_pos or 0
    return part.span.end


def make_part(parts: list[Read], make: Callable[[Span], object]) -> Part:
    """The part that a rule's parts make."""
    span = span_of(parts)
    return Part(make(span), span.start, span.end)


def values_in(parts: list[Read]) -> list[Any]:
    """The values among the parts of a rule, without the signs and keywords."""
    return [part.value for part in parts if isinstance(part, Part)]


def names_in(parts: list[Read]) -> list[Token]:
    """The names among them."""
    return [part for part in parts if isinstance(part, Token) and part.type == "NAME"]


def tokens_in(parts: list[Read], kind: str) -> list[Token]:
    """The tokens of a kind among them."""
    return [part for part in parts if isinstance(part, Token) and part.type == kind]


def has(parts: list[Read], kind: str) -> bool:
    """Whether a token of a kind is among them."""
    return any(isinstance(part, Token) and part.type == kind for part in parts)


def read_number(text: str, span: Span) -> int | float:
    """The number that a literal writes: an int if it has neither point nor exponent."""
    if len(text) > LONGEST_NUMBER:
        raise QuerySyntaxError(f"the number is longer than the limit of {LONGEST_NUMBER} characters", span=span)
    return int(text) if text.isdigit() else float(text)


def read_duration(token: Token) -> Duration:
    """A duration, or a bare number as one without a unit."""
    if token.type == "NUMBER":
        return Duration(read_number(token, span_of(token)))
    amount, unit = token.split(" ")
    return Duration(read_number(amount, span_of(token)), unit)
