"""How large a query text may be: beyond a limit the text is refused, with an error that names the limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a text may hold at most; `DEFAULT_LIMITS` is generous for queries that people write."""

    characters: int = 100_000
    depth: int = 100  # how deep operators and parentheses nest
    nodes: int = 10_000  # operators, items and parts of expressions, in one query
    items: int = 64  # event types in one pattern


DEFAULT_LIMITS = Limits()
