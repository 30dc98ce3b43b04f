"""What comparisons imply: from a.x < b.x and b.x < c.x follows a.x < c.x."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def implied_comparisons(
    compared: Iterable[tuple[Node, str, Node]], variable_of: Callable[[Node], str]
) -> Iterator[tuple[Node, str, Node, frozenset[str]]]:
    """The comparisons of values of different variables that follow from others, with the variables in between.

    >>> list(implied_comparisons([("a.x", "<", "b.x"), ("b.x", "<=", "c.x")], lambda node: node[0]))
    [('a.x', '<', 'c.x', frozenset({'b'}))]
    """
    numbers: dict[Node, int] = {}  # of what is compared: hashing it again and again would take most of the time
    known: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
    for left, symbol, right in compared:
        if symbol != "!=":
            x, y = (numbers.setdefault(node, len(numbers)) for node in (left, right))
            known[x, y] = (symbol, ())
            known[y, x] = (MIRRORED[symbol], ())
    nodes = list(numbers)
    variables = [variable_of(node) for node in nodes]
    for middle in range(len(nodes)):
        for x in range(len(nodes)):
            first = known.get((x, middle))
            if first is None:
                continue
            for y in range(len(nodes)):
                second = known.get((middle, y))
                if second is None or variables[x] == variables[y] or (x, y) in known:
                    continue
                chained = _chained(first[0], second[0])
                if chained is None:
                    continue
                via = (*first[1], variables[middle], *second[1])
                known[x, y] = (chained, via)
                known[y, x] = (MIRRORED[chained], via)
                yield nodes[x], chained, nodes[y], frozenset(via) - {variables[x], variables[y]}


def _chained(first: str, second: str) -> str | None:
    """What x first y and y second z say of x and z; None if nothing."""
    if "=" in (first, second):
        return second if first == "=" else first
    if first[0] != second[0]:
        return None
    return first[0] if len(first) < 2 or len(second) < 2 else first
