"""The words of rules: each is a keyword only where a rule can have it, so that queries may use them as names."""

from __future__ import annotations

from ensue.pattern.expressions import AGGREGATES, FUNCTIONS
from ensue.pattern.words import keyword_of, quote_name
from ensue.rules.allen import RELATIONS
from ensue.rules.program import TimerKind

TIMERS = frozenset(kind.value for kind in TimerKind)
GUARDED = frozenset((*RELATIONS, *TIMERS, *AGGREGATES, *FUNCTIONS, "WHILE", "COLLECT", "RULE", "EVENT", "_"))
"""Words that the formatter quotes in rules."""


def quote(name: str) -> str:
    """A name as it is written in a rule.

    >>> quote("order"), quote("shift"), quote("count")
    ('order', '`shift`', '`count`')
    """
    if keyword_of(name) in GUARDED or name.lower() in FUNCTIONS:
        return f"`{name}`"
    return quote_name(name)
