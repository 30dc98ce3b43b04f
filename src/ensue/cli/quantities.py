"""Amounts on the command line: bytes (`2GB`) and lengths of time (`10s`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from ensue.pattern.expressions import UNIT_SPELLINGS, Duration
from ensue.pattern.query import Query

_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def read_size(text: str) -> int:
    """A number of bytes, with a unit if wanted.

    >>> read_size("2GB"), read_size("1.5 KiB")
    (2000000000, 1536)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size such as 500MB or 2GB")
    return int(float(found[1]) * _BYTES[(found[2] or "").lower()])


def count_found(number: int, queries: Sequence[Query]) -> str:
    """How many matches there are, or rows of AGG.

    >>> from ensue.language import parse_query
    >>> count_found(1200, [parse_query("PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*)")])
    '1,200 rows'
    """
    counted = sum(bool(query.aggregates) for query in queries)
    word = "matches" if not counted else "rows" if counted == len(queries) else "matches and rows"
    return f"{number:,} {word}"


def read_lateness(text: str) -> int | Duration:
    """A number in the time column's own unit, or a length of time with a unit.

    >>> read_lateness("10s"), read_lateness("500")
    (Duration(amount=10, unit='s'), 500)
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text, re.IGNORECASE)
    if found is None or found[2].lower() not in UNIT_SPELLINGS:
        raise click.BadParameter(f"{text!r} is not a length of time such as 10s, 5 minutes or 500ms")
    return Duration(int(found[1]) if found[1].isdecimal() else float(found[1]), UNIT_SPELLINGS[found[2].lower()])
