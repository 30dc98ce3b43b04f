"""The normal form of a pattern: one branch a combination of OR's alternatives, each a partial order of variables.

Nesting disappears: SEQ puts every event of an earlier item before every event of a later one, so that a tree of SEQ
and AND is
a set of 'before' pairs, and a negated item is described by the variables that stand before and after its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import assert_never

from ensue.errors import QueryTypeError
from ensue.pattern.expressions import Expression, conjuncts_of, variables_of
from ensue.pattern.query import And, Item, Or, Pattern, Query, Seq

MAX_BRANCHES = 256


@dataclass(frozen=True, slots=True)
class Variable:
    """A positive variable: one event, or for a Kleene variable a list of `minimum` to `maximum` events."""

    name: str
    type: str
    kleene: bool = False
    minimum: int = 1
    maximum: int | None = 1


@dataclass(frozen=True, slots=True)
class Negation:
    """A negated item: no event of its type may lie after all of `after`, before all of `before` and within the window.

    `conjuncts` are those that name it and apply in the branch.
    """

    name: str
    type: str
    after: frozenset[str]
    before: frozenset[str]
    conjuncts: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a pattern. `before` is transitively closed; `conjuncts` name positive variables only."""

    variables: tuple[Variable, ...]
    before: frozenset[tuple[str, str]]
    negations: tuple[Negation, ...] = ()
    conjuncts: tuple[Expression, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the positive variables, in the order of the text."""
        return tuple(v.name for v in self.variables)

    def variable(self, name: str) -> Variable:
        """The positive variable of that name."""
        return next(v for v in self.variables if v.name == name)

    def predecessors(self, name: str) -> frozenset[str]:
        """The variables whose events all end before those of `name` begin."""
        return frozenset(x for x, y in self.before if y == name)

    def successors(self, name: str) -> frozenset[str]:
        """The variables whose events all begin after those of `name` end."""
        return frozenset(y for x, y in self.before if x == name)

    def may_wait(self, negation: Negation) -> bool:
        """Whether a match may have nothing after the absence's place, and is then known only after its window."""
        return all(self.variable(name).minimum == 0 for name in negation.before)

    def looks_back(self, negation: Negation) -> bool:
        """Whether a match may have nothing before the absence's place, so that it reaches back a window."""
        return all(self.variable(name).minimum == 0 for name in negation.after)

    @property
    def reach(self) -> int:
        """How many windows back events may count for matches that are not known yet.

        All events of such a match are of the last window. But where it waits for what comes after it, what comes before
        it may have come in the window before.
        """
        return 1 + (any(map(self.may_wait, self.negations)) and any(map(self.looks_back, self.negations)))

    @property
    def is_chain(self) -> bool:
        """Whether the variables are totally ordered, as NEXT and STRICT need."""
        count = len(self.variables)
        return len(self.before) == count * (count - 1) // 2


def normalize(query: Query) -> tuple[Branch, ...]:
    """The branches of a query's pattern with the conjuncts of WHERE that apply in each.

    >>> from ensue.pattern.query import Item, Or, Query, Seq
    >>> query = Query(Seq((Item("A", "a"), Or((Item("B", "b"), Item("C", "c"))))))
    >>> [sorted(branch.before) for branch in normalize(query)]
    [[('a', 'b')], [('a', 'c')]]
    """
    conjuncts = conjuncts_of(query.where)
    negated = {item.variable for item in query.items if item.negated}
    alternatives = _alternatives(query.pattern)
    return tuple(_with_conjuncts(branch, conjuncts, negated, query) for branch in alternatives)


def _with_conjuncts(branch: Branch, conjuncts: tuple[Expression, ...], negated: set[str], query: Query) -> Branch:
    if not branch.variables:
        raise QueryTypeError(
            "a branch of the pattern has no positive item",
            hint="an absence needs at least one event beside it",
            span=query.pattern.span,
            source=query.source,
        )
    bound = set(branch.names)
    positive = tuple(c for c in conjuncts if variables_of(c) <= bound)
    negations = tuple(
        Negation(
            n.name,
            n.type,
            n.after,
            n.before,
            tuple(c for c in conjuncts if n.name in variables_of(c) and variables_of(c) - {n.name} <= bound),
        )
        for n in branch.negations
    )
    return Branch(branch.variables, branch.before, negations, positive)


def _alternatives(pattern: Pattern) -> list[Branch]:
    match pattern:
        case Item(negated=True):
            return [Branch((), frozenset(), (Negation(pattern.variable, pattern.type, frozenset(), frozenset()),))]
        case Item(quantifier=None):
            return [Branch((Variable(pattern.variable, pattern.type),), frozenset())]
        case Item(quantifier=quantifier):
            assert quantifier is not None
            variable = Variable(pattern.variable, pattern.type, True, quantifier.minimum, quantifier.maximum)
            return [Branch((variable,), frozenset())]
        case Or(items=parts):
            return _limited([branch for part in parts for branch in _alternatives(part)], pattern)
        case Seq(items=parts) | And(items=parts):
            ordered = isinstance(pattern, Seq)
            choices = [_alternatives(part) for part in parts]
            count = 1
            for choice in choices:
                count *= len(choice)
                if count > MAX_BRANCHES:
                    raise _too_many(pattern)
            return [_combine(combination, ordered) for combination in product(*choices)]
        case _:
            assert_never(pattern)


def _combine(parts: tuple[Branch, ...], ordered: bool) -> Branch:
    before = {pair for part in parts for pair in part.before}
    negations = []
    for k, part in enumerate(parts):
        earlier = frozenset(name for p in parts[:k] for name in p.names) if ordered else frozenset()
        later = frozenset(name for p in parts[k + 1 :] for name in p.names) if ordered else frozenset()
        before.update((x, y) for x in earlier for y in part.names)
        negations += [Negation(n.name, n.type, n.after | earlier, n.before | later) for n in part.negations]
    variables = tuple(v for part in parts for v in part.variables)
    return Branch(variables, frozenset(before), tuple(negations))


def _limited(branches: list[Branch], pattern: Pattern) -> list[Branch]:
    if len(branches) > MAX_BRANCHES:
        raise _too_many(pattern)
    return branches


def _too_many(pattern: Pattern) -> QueryTypeError:
    return QueryTypeError(
        f"the pattern's ORs multiply to more than {MAX_BRANCHES} alternatives",
        hint="split it into several queries",
        span=pattern.span,
    )
