"""LIKE patterns."""

from __future__ import annotations

import re


def compile_like(pattern: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern.

    >>> bool(compile_like(r"a\\_%").fullmatch("a_b")), bool(compile_like(r"a\\_%").fullmatch("axb"))
    (True, False)
    """
    parts, escaped = [], False
    for character in pattern:
        if escaped or character not in "\\%_":
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    if escaped:  # nothing follows to be escaped
        parts.append(re.escape("\\"))
    return re.compile("".join(parts), re.DOTALL)
