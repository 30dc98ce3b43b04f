"""Absences: between which events one is looked for, and which are known before they are asked for.

In `SEQ(A a, !N n, B b)` with conditions on n and a alone, an N that fits an `a` forbids all later `b`. The first one
decides: its end is noted beside the `a` when it comes, and whether a `b` may follow is then one comparison, made with
the others for many candidates at a time. Where that cannot be, events N are kept, and looked through for each match.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ensue.pattern.normalize import Branch, Negation, Variable
from ensue.planning.conditions import Absence, compared_with


@dataclass(frozen=True, slots=True)
class Mark:
    """Beside which variable's events an absence is noted, which variable's events it forbids, and in which mark."""

    earlier: str
    later: str
    number: int


def nearest(branch: Branch, names: frozenset[str], *, latest: bool) -> list[str]:
    """Those of some variables that bound a place: the latest (or earliest), as far as they cannot be empty."""

    def is_hidden(name: str) -> bool:
        closer = branch.successors(name) if latest else branch.predecessors(name)
        return any(other in closer and branch.variable(other).minimum > 0 for other in names)

    return [name for name in branch.names if name in names and not is_hidden(name)]


def rivals(branch: Branch, negation: Negation) -> list[Variable]:
    """Positive variables whose event could be the negated one itself: of its type, and not ordered with it."""
    ordered = negation.after | negation.before
    return [v for v in branch.variables if v.type == negation.type and v.name not in ordered]


def find_mark(branch: Branch, absence: Absence, nodes: Iterable[frozenset[str]]) -> tuple[str, str] | None:
    """The variables between which an absence is, if it can be noted beside the first.

    That takes one event on either side, conditions that compare the negated event with the earlier one only, and no
    stored partial match that would keep a mark as it was when it was stored.
    """
    negation = absence.negation
    before = nearest(branch, negation.after, latest=True)
    after = nearest(branch, negation.before, latest=False)
    if len(before) != 1 or len(after) != 1 or rivals(branch, negation):
        return None
    (earlier,), (later,) = before, after
    if branch.variable(earlier).kleene or branch.variable(later).kleene:
        return None
    for condition in absence.conditions:
        if condition.variables != {earlier, negation.name} or compared_with(condition, earlier) is None:
            return None
    if any(earlier in node and later not in node for node in nodes):
        return None
    return earlier, later
