"""Comparing what an evaluator found with what it should have found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ensue.pattern.query import Query
from ensue.testing.oracle import OracleMatch

_SHOWN = 12  # differences of a kind; the rest are counted


def assert_same(
    actual: Iterable[OracleMatch],
    expected: Iterable[OracleMatch],
    *,
    query: Query | None = None,
    events: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Raise AssertionError unless both hold the same matches, each as often; the message says which differ and how.

    >>> match = OracleMatch(1, 2, 2, {"a": 0, "b": (1,)})
    >>> assert_same([match], [match])
    """
    left, right = list(actual), list(expected)
    difference = describe_difference(left, right)
    if difference:
        context = [] if query is None else [f"query: {query}"]
        context += [f"event {position}: {_show_event(event)}" for position, event in enumerate(events)]
        raise AssertionError("\n".join([*difference, *context]))


def describe_rows(actual: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line for each difference between rows of AGG, in any order; floats may differ by 1e-9 of their size.

    >>> describe_rows([{"time": 1, "count": 2}], [{"time": 1, "count": 3}])
    ["missing: {'time': 1, 'count': 3}", "not expected: {'time': 1, 'count': 2}"]
    """
    left, missing = list(actual), []
    for wanted in expected:
        found = next((row for row in left if row["time"] == wanted["time"] and _alike(row, wanted)), None)
        if found is None:
            missing.append(wanted)
        else:
            left.remove(found)
    return [f"missing: {dict(row)}" for row in missing] + [f"not expected: {dict(row)}" for row in left]


def _alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows have the same columns in the same order, with values of one type."""
    if list(row) != list(other):
        return False
    for mine, others in zip(row.values(), other.values(), strict=True):
        if isinstance(mine, float) and isinstance(others, float):
            if not (mine == others or math.isclose(mine, others, rel_tol=1e-9, abs_tol=1e-12)):
                return False
        elif type(mine) is not type(others) or mine != others:
            return False
    return True


def describe_difference(actual: Sequence[OracleMatch], expected: Sequence[OracleMatch]) -> list[str]:
    """One line for each match that is missing, unexpected, reported too often, or found with other times."""
    found, wanted = Counter(map(_key, actual)), Counter(map(_key, expected))
    missing, unexpected = list((wanted - found).elements()), list((found - wanted).elements())
    if not missing and not unexpected:
        return []
    lines = [f"{len(actual)} matches, {len(expected)} expected"]
    other_times = {key[3]: key for key in unexpected}
    lost = []
    for key in missing:
        if key[3] in other_times:
            other = other_times.pop(key[3])
            unexpected.remove(other)
            lines.append(f"  times differ: {_show(key)}; found {_show_times(other)}")
        else:
            lost.append(key)
    twice = [key for key in unexpected if key in wanted]
    surplus = [key for key in unexpected if key not in wanted]
    for label, keys in (("missing", lost), ("reported too often", twice), ("not expected", surplus)):
        lines += [f"  {label}: {_show(key)}" for key in keys[:_SHOWN]]
        if len(keys) > _SHOWN:
            lines.append(f"  … and {len(keys) - _SHOWN} more {label}")
    return lines


_Key = tuple[int, int, int | None, tuple[tuple[str, int | tuple[int, ...] | None], ...]]


def _key(match: OracleMatch) -> _Key:
    assignment = sorted((name, _plain(place)) for name, place in match.assignment.items())
    return (int(match.begin), int(match.end), match.detected_at, tuple(assignment))


def _plain(place: Any) -> int | tuple[int, ...] | None:
    """A position or a list of them as plain integers (evaluators may hand over those of NumPy)."""
    if place is None:
        return None
    return tuple(int(p) for p in place) if isinstance(place, Sequence) else int(place)


def _show(key: _Key) -> str:
    bound = " ".join(f"{name}={'null' if p is None else str(p).replace(',)', ')')}" for name, p in key[3])
    return f"{bound} {_show_times(key)}"


def _show_times(key: _Key) -> str:
    return f"[{key[0]}, {key[1]}] known at {'-' if key[2] is None else key[2]}"


def _show_event(event: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in event.items())
