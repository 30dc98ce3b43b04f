"""What a run may use, and what happens when it would use more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ensue.errors import PlanError


@dataclass(frozen=True, slots=True)
class Options:
    """Limits of a run. None is no limit.

    `max_matches` bounds the matches of one query that one call gives back; `max_partial_matches` the stored partial and
    waiting matches of one query; `memory_budget` the bytes of all state. Beyond a limit a LimitError is raised. With
    `on_limit="shed"` surplus matches (the newest) and partial matches (the oldest) are dropped and counted instead.
    That is refused for queries with negation, and for rules: what is dropped could turn into false matches. Memory is
    never shed. With `unbounded_rules` a stream may have rules whose state grows for ever. `share_counters` lets AGG
    queries count what they have in common once; the rows are the same without it.

    >>> Options(max_matches=1000).on_limit
    'error'
    """

    max_matches: int | None = 10_000_000
    max_partial_matches: int | None = 10_000_000
    memory_budget: int | None = None
    on_limit: Literal["error", "shed"] = "error"
    unbounded_rules: bool = False
    share_counters: bool = True

    def __post_init__(self) -> None:
        for name in ("max_matches", "max_partial_matches", "memory_budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(f"{name} is {value}; it must be positive, or None for no limit")
        if self.on_limit not in ("error", "shed"):
            raise PlanError(f"on_limit is {self.on_limit!r}; it is 'error' or 'shed'")
