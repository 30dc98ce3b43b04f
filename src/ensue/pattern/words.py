"""The words that the query language keeps for itself, and when a name must be quoted because of them."""

from __future__ import annotations

import re

RESERVED = frozenset(
    [
        "PATTERN",
        "WHERE",
        "WITHIN",
        "USING",
        "RETURN",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "AS",
    ]
)
"""Words that are never names unless quoted, or after a dot."""

GUARDED = RESERVED | frozenset(["QUERY", "PARTITION", "GROUP", "EMIT", "AGG", "BY", "ON", "CHANGE", "SEQ"])
"""Words that the formatter quotes when they are names: also those that could be keywords beside certain others."""

WORD = re.compile(r"[^\W\d]\w*")


def keyword_of(word: str) -> str:
    """The spelling by which a word is compared with keywords.

    Only ASCII words can be keywords: `str.upper` would turn some other letters into ASCII ones.
    """
    return word.upper() if word.isascii() else word


def quote_name(name: str, *, after_dot: bool = False) -> str:
    """A name as it is written in a query: bare if it is a plain word, else in back quotes.

    >>> quote_name("price"), quote_name("unit price"), quote_name("where"), quote_name("where", after_dot=True)
    ('price', '`unit price`', '`where`', 'where')
    """
    if WORD.fullmatch(name) and (after_dot or keyword_of(name) not in GUARDED):
        return name
    return "`" + name.replace("`", "``") + "`"
