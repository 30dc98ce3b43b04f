"""What a plan costs: the expected number of partial matches that its joins hold at a moment, and looks at pairs.

The number of partial matches of a set S of variables does not depend on how they were joined. If events come
independently of each other, the last W units of time hold W·r events of a variable on average, and

    card(S) = product of W·r(i) over i in S  ×  product of sel(i, j) over pairs in S  ×  share(S)
                ×  product of implied(i, j) over pairs in S that have nothing between them in S
                ×  product of joint(i, j, k) over triples in S  ×  together(S)
                ×  product of absent(n, S) over negated items n that are decided in S

where implied(i, j) is the share of pairs that satisfy what follows from the conditions of i and j with other variables:
evaluators ask that too as long as none of those is in S. joint(i, j, k) is how many times as often what is asked of i
and j and what is asked of j and k both hold as if they had nothing to do with each other, and together(S) how many
times as often all that is asked of S holds as all of the others say; both are 1 where that is not known. share(S) is
the probability that events at independent random times of the window come in the order that the pattern wants: 1/k! for
a sequence of k, 1 for a conjunction, in general the number of linear extensions of the order over k!.

A tree costs the sum of card over its nodes, leaves included (Kolchinsky and Schuster, section 4.2: Cost(L) + Cost(R) +
Card). The cost of an order is that of its left-deep tree: the sum over its prefixes, and the buffered events of each
variable, which are the same in every plan.

**Lists.** A Kleene variable with n events in reach has 2^n lists, the paper's model; averaged over a Poisson number of
events with mean m that is e^m, the sum of m^k / k! over all lengths k. So lengths from `minimum` to `maximum` are
counted by the terms between. m counts the events that satisfy the conditions with the single events of S and lie where
the pattern wants them. Beyond m = LONGEST the function goes on along its tangent: e^m soon says no more than "too
many", and must not overflow. A condition between two lists counts once; with a share s of pairs that may be
neighbours, k elements count s^(k - 1).

**Looks.** A join looks at each pair of a left and a right partial match of the window: card(L) · card(R) of them, or
the share with equal keys where a key ties two of their variables, for which there is an index. Where few pairs pass,
that is what takes the time. So a look counts `look` of a partial match, the weight that the figures name, and a tree
costs its looks besides. With a weight of 0, as figures have it by themselves, costs are the paper's. What is looked at
for a list does not count: it is the same in every plan.

**Negation.** Partial matches with an event of n between two neighbours are dropped as soon as both are bound, and what
else n is compared with. If k events of S are in order with these two, their gap is that between neighbours of k random
times: a share t of the window or more with probability (1 - t)^k. If W·r(n) events of n come in a window, those that
satisfy its conditions, none of them lies in the gap with probability

    absent(n, S) = k · integral from 0 to 1 of (1 - t)^(k-1) · e^(-W·r(n)·t) dt

so that many forbidden events leave a share k / (W·r(n)). An absence next to a list, or at an end of the pattern, does
not multiply. Each full match counts one look for each negated item, which is the same in every plan.

What the model leaves out: conditions over three and more variables, or over a whole list, and how conditions with a
list, or those that go round in a circle, depend on others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ensue.errors import InternalError
from ensue.planning.figures import Figures, Gap
from ensue.planning.plan import Join, Leaf, Plan, Tree

LONGEST = 30.0
"""How many events in a list's reach are counted exactly; e^30 is 10^13 lists."""

CHECK = 3.0
"""What it counts to look whether a forbidden event has come, where looks count."""

FEW = 30.0
"""Up to how many forbidden events a series is added up, and for two more with each event of a match."""

LEAST = 1e-15
"""The least factor by which what conditions imply, or several of them together, counts: none is known to be nothing."""


class Costs:
    """The costs of trees under some figures. Each is computed once: a subtree's cost is a constant above it."""

    def __init__(self, figures: Figures) -> None:
        shape = figures.shape
        self.figures = figures
        self._before = shape.before
        self._lists = {v.name: v for v in shape.variables if v.kleene}
        self._singles = frozenset(shape.singles)
        self._order = (*shape.singles, *shape.lists)
        self._events = {name: figures.window * figures.arrivals(name) for name in shape.names}
        nothing: frozenset[str] = frozenset()
        factors = [(frozenset(pair), via, figures.implied(*pair)) for pair, via in shape.implied]
        factors += [(frozenset(triple), nothing, figures.joint(triple)) for triple in shape.triples]
        self._factors = [(names, via, max(factor, LEAST)) for names, via, factor in factors if factor != 1.0]
        self._together: dict[frozenset[str], float] = {}
        related = shape.before | {(y, x) for x, y in shape.before}
        self._gaps = [
            (gap.needed, _with_both(shape.singles, gap, related), figures.window * figures.forbidding(gap))
            for gap in shape.gaps
        ]
        self._look = figures.look
        self.counts_looks = self._look > 0
        keyed = [(x, y) for x in shape.singles for y in shape.singles if {x, y} in shape.keyed]
        self._keys = [(x, y, figures.selectivity(x, y) * figures.implied(x, y)) for x, y in keyed if x != y]
        self._cards: dict[frozenset[str], float] = {frozenset(): 1.0}
        self._steps: dict[tuple[frozenset[str], str], tuple[float, float]] = {}
        self._trees: dict[Tree, tuple[frozenset[str], float]] = {}

    def card(self, names: frozenset[str]) -> float:
        """How many partial matches over some variables the window holds.

        The product is taken in one order, lists last, so that it is the same number however the set came about.
        """
        found = self._cards.get(names)
        if found is None:
            last = next(name for name in reversed(self._order) if name in names)
            rest = names - {last}
            found = self._cards[names] = self.card(rest) * self.growth(rest, last)
        return found

    def growth(self, bound: frozenset[str], name: str) -> float:
        """How many partial matches one over `bound` becomes when a variable is joined to it; lists are joined last."""
        selectivity = self.figures.selectivity
        singles = bound & self._singles
        number = self._events[name]
        for other in self._order:
            if other in singles:
                number *= selectivity(name, other)
        together = singles | {name}
        number *= share(self._before, together) / share(self._before, singles)
        number *= self._factor(together) / self._factor(singles)
        variable = self._lists.get(name)
        if variable is None:
            return number
        number = count_lists(number, variable.minimum, variable.maximum, selectivity(name, name))
        for other in self._lists:
            if other in bound:
                number *= selectivity(name, other)
        return number

    def _factor(self, names: frozenset[str]) -> float:
        """What is known of a set's events beside selectivities: what conditions imply, and how often several hold."""
        found = self._together.get(names)
        if found is None:
            found = max(self.figures.together(names & self._singles), LEAST)
            for some, via, factor in self._factors:
                if some <= names and not via & names:
                    found *= factor
            for needed, ordered, events in self._gaps:
                if needed <= names:
                    found *= absent_share(events, len(ordered & names))
            self._together[names] = found
        return found

    def link(self, left: frozenset[str], right: frozenset[str]) -> float:
        """The share of pairs of partial matches over two sets of single events that join."""
        number = share(self._before, left | right) / (share(self._before, left) * share(self._before, right))
        for x in self._order:
            for y in self._order:
                if x in left and y in right:
                    number *= self.figures.selectivity(x, y)
        return number * self._factor(left | right) / (self._factor(left) * self._factor(right))

    def looks(self, left: frozenset[str], right: frozenset[str]) -> float:
        """What looking at pairs of partial matches over two sets counts, and for absences; lists left out."""
        left, right = left & self._singles, right & self._singles
        if not left or not right:
            return 0.0
        pairs = self.card(left) * self.card(right) * self.look(left, right)
        return pairs + self.checks(left, right, self.card(left | right)) if self._gaps else pairs

    def checks(self, left: frozenset[str], right: frozenset[str], number: float) -> float:
        """What it counts to look whether forbidden events have come, for partial matches not yet asked for them.

        `number` is how many of these are left. It is one check after the other.
        """
        both, checks = left | right, 0.0
        for needed, ordered, events in self._gaps:
            if needed <= both and not needed <= left and not needed <= right:
                number /= max(absent_share(events, len(ordered & both)), LEAST)
                checks += number
        return CHECK * checks

    def look(self, left: frozenset[str], right: frozenset[str]) -> float:
        """What a pair of them counts: the weight of a look, times the share of pairs that an index finds."""
        return self._look * min((share for x, y, share in self._keys if x in left and y in right), default=1.0)

    @property
    def look_without_key(self) -> float | None:
        """What a pair counts, whichever it is; None if there are keys, or absences to look for."""
        return None if self._keys or self._gaps else self._look

    def step(self, bound: frozenset[str], name: str) -> tuple[float, float]:
        """What a partial match over `bound` becomes when a variable is joined to it, and what looking for it costs."""
        found = self._steps.get((bound, name))
        if found is None:
            growth, looks = self.growth(bound, name), 0.0
            if self.counts_looks and bound & self._singles and name not in self._lists:
                one = frozenset((name,))
                looks = self.card(one) * self.look(bound, one) + self.checks(bound, one, growth)
            found = self._steps[bound, name] = growth, looks
        return found

    def weight(self, bound: frozenset[str], name: str) -> float:
        """What variables that may be joined to a partial match over `bound` are ordered by: the least one comes first.

        It is 1 where one neither adds to partial matches nor takes from them, and what it makes of one where looks do
        not count: growth less one is weighed by one and what looking for its events costs.
        """
        growth, looks = self.step(bound, name)
        return (growth + looks) / (1.0 + looks)

    def ahead(self, bound: frozenset[str], name: str, rival: str | None = None) -> float:
        """What it costs a partial match over `bound` to join a variable, and to look for another one after that.

        What both make of the partial match is left out. That is growth + looks + growth · looks for the other, here
        worked out from `weight`, so that it is never less for the one that weighs more, however numbers are rounded.
        """
        looks = self.step(bound, name)[1]
        after = 0.0 if rival is None else self.step(bound, rival)[1]
        return (1.0 + looks) * (1.0 + after) * self.weight(bound, name) - looks * after

    def first(self, bound: frozenset[str], names: Sequence[str]) -> str:
        """Which of some variables to join first, of equals the first one."""
        return min(names, key=lambda name: self.weight(bound, name))

    def tree(self, tree: Tree) -> float:
        """The partial matches and looks of all nodes of a tree."""
        return self._tree(tree)[1]

    def parts(self, tree: Tree) -> float:
        """The same without the partial matches of its root; of a leaf the events."""
        return self.tree(tree) if isinstance(tree, Leaf) else self._sides(tree)[1]

    def whole(self, tree: Tree) -> float:
        """What a branch's plan costs: its tree, and a look at each match for each negated item."""
        names, cost = self._tree(tree)
        return cost + len(self.figures.shape.negations) * self.card(names)

    def _tree(self, tree: Tree) -> tuple[frozenset[str], float]:
        """The variables of a tree, and its cost."""
        found = self._trees.get(tree)
        if found is None:
            if isinstance(tree, Leaf):
                names = frozenset((tree.variable,))
                found = names, self.card(names)
            else:
                names, cost = self._sides(tree)
                found = names, cost + self.card(names)
            self._trees[tree] = found
        return found

    def _sides(self, tree: Join) -> tuple[frozenset[str], float]:
        """The variables of a tree, and the cost of its sides and of looking at pairs of them."""
        left, left_cost = self._tree(tree.left)
        right, right_cost = self._tree(tree.right)
        cost = left_cost + right_cost
        if self.counts_looks:
            cost += self.looks(left, right)
        return left | right, cost


def plan_cost(figures: Sequence[Figures], plan: Plan) -> float:
    """What a plan costs under the figures of its branches."""
    return sum(Costs(one).whole(tree) for one, tree in zip(figures, plan.trees, strict=True))


def _with_both(singles: Sequence[str], gap: Gap, related: frozenset[tuple[str, str]]) -> frozenset[str]:
    """The two events beside a gap, and those that are in order with both."""
    ends = gap.earlier, gap.later
    return frozenset(name for name in singles if all(name == end or (name, end) in related for end in ends))


@lru_cache(maxsize=4096)
def absent_share(events: float, size: int) -> float:
    """The share of gaps between two neighbours of so many random times of a window without one of so many events.

    That is Kummer's function M(1, size + 1, -events). For few events it is e^(-events) · M(size, size + 1, events), all
    of whose terms are positive; for many the integral is worked out by parts, from one size to the next.

    >>> absent_share(0.0, 2), round(absent_share(1.0, 1), 4), round(absent_share(1e6, 3) * 1e6, 4)
    (1.0, 0.6321, 3.0)
    """
    if events > FEW + 2 * size:
        integral = -math.expm1(-events) / events
        for k in range(1, size):
            integral = (1.0 - k * integral) / events
        return size * integral
    total, term, k = 0.0, math.exp(-events), 0
    while k <= events or term > total * 1e-17:
        total += term * size / (size + k)
        k += 1
        term *= events / k
    return total


def count_lists(events: float, minimum: int, maximum: int | None, neighbours: float = 1.0) -> float:
    """How many lists of `minimum` to `maximum` elements can be made of a Poisson number of events with that mean.

    `neighbours` is the share of pairs that may follow each other: k elements have k - 1 such pairs.

    >>> count_lists(2.0, 1, 1), round(count_lists(2.0, 0, None), 3), count_lists(2.0, 0, 2, 0.5)
    (2.0, 7.389, 4.0)
    """
    empty = 1.0 if minimum == 0 else 0.0
    if neighbours == 0:
        return empty + (events if minimum <= 1 and (maximum is None or maximum >= 1) else 0.0)
    mean = events * neighbours
    counted = min(mean, LONGEST)
    number = _terms(counted, max(minimum, 1), maximum)
    if mean > counted:
        slope = _terms(counted, max(minimum - 1, 0), None if maximum is None else maximum - 1)
        number += slope * (mean - counted)
    return empty + number / neighbours


def _terms(mean: float, minimum: int, maximum: int | None) -> float:
    """The sum of mean^k / k! for k from minimum to maximum."""
    total, term, k = 0.0, 1.0, 0
    while (maximum is None or k <= maximum) and (k <= max(minimum, mean) or term > total * 1e-17):
        if k >= minimum:
            total += term
        k += 1
        term *= mean / k
    return total


@lru_cache(maxsize=4096)
def share(before: frozenset[tuple[str, str]], names: frozenset[str]) -> float:
    """The share of all orders of some events that the pattern allows: linear extensions over k!.

    SEQ and AND make series and parallel parts. What is parallel is independent, so the shares multiply; parts in
    series of sizes p and q come in their order in p! q! of (p + q)! cases.

    >>> share(frozenset({("a", "b"), ("a", "c"), ("b", "c")}), frozenset("abc")) == 1 / 6
    True
    """
    if len(names) < 2:
        return 1.0
    related = frozenset((x, y) for x, y in before if x in names and y in names)
    if not related:
        return 1.0
    both = related | {(y, x) for x, y in related}
    parts = _components(names, both)
    factor = 1.0
    if len(parts) == 1:
        parts = _components(names, frozenset((x, y) for x in names for y in names if x != y) - both)
        if len(parts) == 1:
            raise InternalError(f"the order of {', '.join(sorted(names))} was not made by SEQ and AND")
        factor = math.prod(math.factorial(len(part)) for part in parts) / math.factorial(len(names))
    return factor * math.prod(share(before, part) for part in parts)


def _components(names: frozenset[str], edges: frozenset[tuple[str, str]]) -> list[frozenset[str]]:
    """The connected parts of a graph."""
    left = set(names)
    parts = []
    while left:
        part = {min(left)}
        while grown := {y for x, y in edges if x in part} - part:
            part |= grown
        parts.append(frozenset(part))
        left -= part
    return parts
