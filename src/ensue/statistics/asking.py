"""What sampled events tell of the conditions of a query: how many pairs pass, and what that says of several events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median_low
from typing import TypeAlias

from ensue.pattern.expressions import Expression
from ensue.statistics.conditions import Conditions, Pair, Together, Triple, previous
from ensue.statistics.estimates import Estimate
from ensue.statistics.sampling import (
    AskedPairs,
    Chosen,
    Events,
    Floats,
    Mask,
    Passes,
    Rows,
    Sampling,
    ask_all_pairs,
    ask_pairs,
    estimate_joint,
)
from ensue.statistics.together import (
    AllPairs,
    Arithmetic,
    Tallies,
    count_tuples,
    estimate_pairs,
    estimate_together,
)

Evaluate: TypeAlias = Callable[[Expression, Events], Mask]
"""For which rows a condition is true: the evaluator's part, which statistics need not know."""

_ALL_PAIRS, _SET_PAIRS = 1 << 21, 1 << 17
"""How many pairs are asked to find out how often the conditions of several variables hold at once: all in all at most,
and for each set of variables."""
_STRETCHES, _NEARLY = 4, 1.05
"""In how many stretches of time tuples are counted at most, and how many times as long as samples reach back these may
be."""
_LEAST_SHARE = 1e-30
"""What is divided by at least."""


class Asker:
    """Asks samples of the variables' events, those that could be in a match `within` so much time."""

    def __init__(
        self,
        conditions: Conditions,
        evaluate: Evaluate,
        within: float | None,
        sampling: Sampling,
        arithmetic: Arithmetic,
    ) -> None:
        self._conditions = conditions
        self._evaluate = evaluate
        self._within = within
        self._sampling = sampling
        self._arithmetic = arithmetic

    def all_pass(self, conditions: Sequence[Expression], events: Events) -> Mask:
        """Which of some events pass all of some conditions."""
        passed = self._evaluate(conditions[0], events)
        for condition in conditions[1:]:
            passed = passed & self._evaluate(condition, events)
        return passed

    def ask_pairs(self, events: Mapping[str, Chosen]) -> dict[Pair, AskedPairs]:
        """Some pairs of each two variables with conditions between them, if there are any events of both."""
        asked = {}
        for pair, conditions in self._conditions.pairs.items():
            earlier, later, passes, ordered = self._sides(pair, conditions)
            about = events[earlier], events[later], passes
            found = ask_pairs(*about, within=self._within, ordered=ordered, most=self._sampling.pairs)
            if found is not None:
                asked[pair] = found
        return asked

    def join_shares(self, asked: Mapping[Pair, AskedPairs], events: Mapping[str, Chosen]) -> dict[Triple, Estimate]:
        """How often both conditions of a triple hold, beside what their shares let expect."""

        def shares(middle: str, other: str) -> Floats | None:
            pair = asked.get((min(middle, other), max(middle, other)))
            is_later = self._in_order(middle, other)[1] == middle
            return None if pair is None else pair.shares(len(events[middle]), right=is_later)

        found = {}
        for x, middle, z in self._conditions.triples:
            one, other = shares(middle, x), shares(middle, z)
            joint = math.nan if one is None or other is None else estimate_joint(one, other)
            if not math.isnan(joint):
                found[x, middle, z] = Estimate(joint)
        return found

    def count_closely(self, events: Mapping[str, Chosen]) -> tuple[Tallies, float] | None:
        """What follows from conditions, and how often those of several events hold, in some of the last windows.

        And how much time these are. None if there is nothing to ask.
        """
        if not self._wanted or not any(map(len, events.values())):
            return None
        conditions = self._conditions
        of = {**conditions.implied, **conditions.pairs}
        bounds, size = self._stretches(events)
        some = {name: chosen.in_rows(bounds, size) for name, chosen in events.items()}
        asked = {pair: self._ask_all_pairs(pair, of[pair], some) for pair in self._wanted}
        span = bounds[0][1] - bounds[-1][0]
        windows = 1.0 if self._within is None else span / len(bounds) / self._within
        return count_tuples(conditions.together, asked, self._arithmetic, windows), span

    def tell_closely(
        self, tallies: Tallies, pairs: Mapping[Pair, Estimate], triples: Mapping[Triple, Estimate]
    ) -> tuple[dict[Pair, Estimate], dict[tuple[str, ...], Estimate]]:
        """What has been counted says of that; not how sure it is. Of several events beside `pairs` and `triples`."""
        conditions = self._conditions
        known = estimate_pairs(conditions.together, self._wanted, tallies)
        implied = {pair: Estimate(known[frozenset((pair,))]) for pair in conditions.implied}
        shares = estimate_together(conditions.together, known)
        told = {**pairs, **implied}
        return implied, {
            one.names: Estimate(shares[one.names] / self._told(one, told, triples)) for one in conditions.together
        }

    @cached_property
    def _wanted(self) -> tuple[Pair, ...]:
        """The pairs all of whose sampled events are asked."""
        conditions = self._conditions
        return tuple(sorted({*conditions.implied}.union(*(one.pairs for one in conditions.together))))

    def _stretches(self, events: Mapping[str, Chosen]) -> tuple[list[tuple[float, float]], int]:
        """The last stretches of time in which tuples are counted, the last one first, and how many events of each.

        What several events have to do with each other shows in those of one window: the denser they are sampled there,
        the more tuples there are to count; but one window may be unlike others. So a stretch is a window at least, and
        so long that half of the variables have as many events as wanted. As many of them as samples reach back, up to
        some, are asked no more pairs than one would be.
        """
        most = min(_ALL_PAIRS, _SET_PAIRS * (1 + len(self._conditions.together))) // len(self._wanted)
        known = [chosen.end for chosen in events.values() if len(chosen)]
        size = min(self._sampling.size, math.isqrt(most))
        if self._within is None or not known:
            return [(-math.inf, math.inf)], size
        latest = max(float(ends[-1]) for ends in known)
        first = min(float(ends[0]) for ends in known)
        for number in (_STRETCHES, _STRETCHES // 2, 1):
            some = min(self._sampling.size, math.isqrt(most // number))
            reached = [float(ends[-some]) if len(ends) >= some else -math.inf for ends in known]
            length = max(self._within, min(latest - median_low(reached), latest - first + 1.0))
            if number == 1 or number * length <= _NEARLY * (latest - first):
                break
        return [(latest - (k + 1) * length, latest - k * length) for k in range(number)], some

    def _ask_all_pairs(self, pair: Pair, conditions: Sequence[Expression], events: Mapping[str, Rows]) -> AllPairs:
        earlier, later, passes, ordered = self._sides(pair, conditions)
        left, right, near = events[earlier], events[later], self._arithmetic.near
        asked = AllPairs(*ask_all_pairs(left, right, passes, within=self._within, ordered=ordered, near=near))
        return asked if earlier == pair[0] else asked.turned

    @cached_property
    def _triples_of(self) -> dict[tuple[str, ...], list[Triple]]:
        """The triples among the variables of each set that is counted."""
        sets = [(one.names, frozenset(one.names)) for one in self._conditions.together]
        triples = [(one, frozenset(one)) for one in self._conditions.triples]
        return {names: [one for one, among in triples if among <= these] for names, these in sets}

    def _told(self, about: Together, pairs: Mapping[Pair, Estimate], triples: Mapping[Triple, Estimate]) -> float:
        """The share of tuples of some variables that pass by what is known of pairs and triples of them."""
        known = [triples[one].value for one in self._triples_of[about.names] if one in triples]
        known += [pairs[pair].value for pair in (*about.pairs, *about.needless) if pair in pairs]
        return max(math.prod(known), _LEAST_SHARE)

    def _in_order(self, *pair: str) -> tuple[str, ...]:
        """Two variables, first the one whose events are earlier where there is an order."""
        x, y = sorted(pair)
        turned = (x, y) not in self._conditions.before and (y, x) in self._conditions.before
        return (y, x) if turned else (x, y)

    def _sides(self, pair: Pair, conditions: Sequence[Expression]) -> tuple[str, str, Passes, bool]:
        """The variables of a pair, the earlier one first, what asks them, and whether they must come in that order."""
        earlier, later = self._in_order(*pair)
        first = previous(earlier) if earlier == later else earlier

        def passes(x: Chosen, y: Chosen) -> Mask:
            return self.all_pass(conditions, {first: x, later: y})

        return earlier, later, passes, (earlier, later) in self._conditions.before
