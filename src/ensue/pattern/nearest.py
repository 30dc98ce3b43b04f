"""The nearest known name to one that is not known, for hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, whatever the case of the letters; None if none is near.

    >>> nearest("WITHNI", ["WHERE", "WITHIN"]), nearest("prize", ["price", "size"]), nearest("x", ["volume"])
    ('WITHIN', 'price', None)
    """
    by_folded: dict[str, str] = {}
    for one in known:
        by_folded.setdefault(one.casefold(), one)
    found = difflib.get_close_matches(name.casefold()[:100], by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known name, or with the only one there is; None if neither.

    >>> did_you_mean("c", ["b"])
    'did you mean `b`?'
    """
    names = list(dict.fromkeys(known))
    found = nearest(name, names)
    if found is None and len(names) == 1:
        found = names[0]
    return None if found is None else f"did you mean `{found}`?"
