"""In which order rules are evaluated: each after those that derive what it reads. A circle is an error.

Recursion through NOT or COLLECT has no meaning that all would agree on. Plain recursion has one, but timers and
expressions in heads can make it go on for ever (`tick(n + 1) <- t: tick(n), w: SHIFT(t, 1s)`), so it is refused too.
"""

from __future__ import annotations

from itertools import pairwise

from ensue.errors import QueryTypeError
from ensue.rules.program import Accumulation, EventQuery, Program, Rule


def stratify(program: Program) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
    """The derived types in an order in which they can be evaluated, each with its rules.

    >>> from ensue.language import parse_program
    >>> text = "EVENT a(x: int); RULE c(x) <- i: b(x); RULE b(x) <- i: a(x);"
    >>> [name for name, _ in stratify(parse_program(text))]
    ['b', 'c']
    """
    rules: dict[str, tuple[Rule, ...]] = {}
    for rule in program.rules:
        rules[rule.type] = (*rules.get(rule.type, ()), rule)
    done: dict[str, tuple[Rule, ...]] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done or name not in rules:
            return
        if name in path:
            raise _circle(rules, [*path[path.index(name) :], name])
        path.append(name)
        for rule in rules[name]:
            for kind in rule.types:
                visit(kind)
        path.pop()
        done[name] = rules[name]

    for name in rules:
        visit(name)
    return tuple(done.items())


def _circle(rules: dict[str, tuple[Rule, ...]], circle: list[str]) -> QueryTypeError:
    """The error for types that are derived from each other, at the first place that closes the circle."""
    shown = " from ".join(f"`{name}`" for name in circle)
    steps: list[tuple[Rule, EventQuery | Accumulation]] = []
    for name, kind in pairwise(circle):
        for rule in rules[name]:
            steps += [(rule, element) for element in rule.accumulations if element.atom.type == kind]
            steps += [(rule, element) for element in rule.events if element.atom.type == kind]
    rule, element = next((step for step in steps if isinstance(step[1], Accumulation)), steps[0])
    how = "recursion"
    if isinstance(element, Accumulation):
        how += " through COLLECT" if element.collects else " through NOT"
    return QueryTypeError(
        f"{how}: {shown}",
        hint="events may be derived from others, but not from themselves",
        span=element.span,
        source=rule.source,
    )
