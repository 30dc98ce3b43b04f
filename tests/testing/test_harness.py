"""The comparison of matches says what differs, and cannot be fooled by order or by empty results."""

from __future__ import annotations

import pytest

from ensue.testing.harness import assert_same
from ensue.testing.oracle import OracleMatch

ONE = OracleMatch(1, 2, 2, {"a": 0, "b": (1, 2)})
TWO = OracleMatch(1, 3, 3, {"a": 0, "b": (3,)})


def test_order_does_not_matter() -> None:
    assert_same([ONE, TWO], [TWO, ONE])
    assert_same([OracleMatch(1, 2, 2, {"b": (1, 2), "a": 0})], [ONE])
    assert_same([], [])


def test_differences_are_named() -> None:
    late = OracleMatch(1, 2, 9, ONE.assignment)
    for actual, expected, words in [
        ([ONE], [ONE, TWO], "missing: a=0 b=(3)"),
        ([ONE, TWO], [ONE], "not expected: a=0 b=(3)"),
        ([ONE, ONE], [ONE], "reported too often: a=0 b=(1, 2)"),
        ([late], [ONE], "times differ: a=0 b=(1, 2) [1, 2] known at 2; found [1, 2] known at 9"),
        ([], [ONE], "0 matches, 1 expected"),
        ([OracleMatch(1, 2, 2, {"a": 0, "b": None})], [OracleMatch(1, 2, 2, {"a": 0, "b": ()})], "b=null"),
    ]:
        with pytest.raises(AssertionError) as caught:
            assert_same(actual, expected)
        assert words in str(caught.value)


def test_context_is_shown() -> None:
    with pytest.raises(AssertionError, match="event 0: type=A ts=1"):
        assert_same([ONE], [], events=[{"type": "A", "ts": 1}])
