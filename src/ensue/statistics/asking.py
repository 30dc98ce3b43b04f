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
    Sampling,
    ask_all_pairs,
    ask_pairs,
    estimate_joint,
)
from ensue.statistics.together import AllPairs, Arithmetic, estimate_together

Evaluate: TypeAlias = Callable[[Expression, Events], Mask]
"""For which rows a condition is true: the evaluator's part, which statistics need not know."""

_ALL_PAIRS, _SET_PAIRS = 1 << 21, 1 << 17
"""How many pairs are asked to find out how often the conditions of several variables hold at once: all in all at most,
and for each set of variables."""
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
            left, right, passes, ordered = self._sides(pair, conditions, events)
            most = self._sampling.pairs
            found = ask_pairs(left, right, passes, within=self._within, ordered=ordered, most=most)
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

    def ask_closely(
        self, events: Mapping[str, Chosen], pairs: Mapping[Pair, Estimate], triples: Mapping[Triple, Estimate]
    ) -> tuple[dict[Pair, Estimate], dict[tuple[str, ...], Estimate]] | None:
        """What follows from conditions, and how often those of several events hold; not how sure that is.

        The latter beside what is known of `pairs` and `triples`. None if there is nothing to ask.
        """
        conditions = self._conditions
        of = {**conditions.implied, **conditions.pairs}
        wanted = sorted({*conditions.implied}.union(*(one.pairs for one in conditions.together)))
        if not events or not wanted:
            return None
        most = min(_ALL_PAIRS, _SET_PAIRS * (1 + len(conditions.together)))
        size = min(self._sampling.size, math.isqrt(most // len(wanted)))
        some = {name: chosen.thin(size) for name, chosen in self._latest(events, size).items()}
        asked = {pair: self._ask_all_pairs(pair, of[pair], some) for pair in wanted}
        implied = {pair: Estimate(asked[pair].share.value) for pair in conditions.implied if asked[pair].could.any()}
        shares = estimate_together(conditions.together, asked, self._arithmetic)
        told = {**pairs, **implied}
        return implied, {
            one.names: Estimate(shares[one.names] / self._told(one, told, triples)) for one in conditions.together
        }

    def _latest(self, events: Mapping[str, Chosen], size: int) -> Mapping[str, Chosen]:
        """The last events, of a window at least: so far back that half of the variables have as many as wanted.

        What several events have to do with each other shows in those of one window: the denser they are sampled there,
        the more tuples there are to count.
        """
        known = [chosen.end for chosen in events.values() if len(chosen)]
        if self._within is None or not known:
            return events
        reached = [float(ends[-size]) if len(ends) >= size else -math.inf for ends in known]
        start = min(max(float(ends[-1]) for ends in known) - self._within, median_low(reached))
        return {name: chosen.since(start) for name, chosen in events.items()}

    def _ask_all_pairs(self, pair: Pair, conditions: Sequence[Expression], events: Mapping[str, Chosen]) -> AllPairs:
        left, right, passes, ordered = self._sides(pair, conditions, events)
        mark = self._arithmetic.mark
        asked = AllPairs(*ask_all_pairs(left, right, passes, within=self._within, ordered=ordered, mark=mark))
        return asked if left is events[pair[0]] else asked.turned

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

    def _sides(
        self, pair: Pair, conditions: Sequence[Expression], events: Mapping[str, Chosen]
    ) -> tuple[Chosen, Chosen, Passes, bool]:
        """The events of a pair, the earlier ones first, what asks them, and whether they must come in that order."""
        earlier, later = self._in_order(*pair)
        first = previous(earlier) if earlier == later else earlier

        def passes(x: Chosen, y: Chosen) -> Mask:
            return self.all_pass(conditions, {first: x, later: y})

        return events[earlier], events[later], passes, (earlier, later) in self._conditions.before
