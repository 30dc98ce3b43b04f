"""How far costs and races may be off, and what is made of both where they do not agree.

A race tells exactly what plans took for its events. But partial matches come in bursts, each plan has its own, and a
race that is run because the plan in use has become slow finds it in the midst of one: all others look quicker, until
they have theirs. Costs are means over many windows, but count things that do not all take as long. So neither is taken
at its word: both are estimates of one number, the logarithm of how many times as long one plan takes as another, and
the surer of them counts for more, in inverse proportion to their variances. What events took as long as a plan was in
use is a third one, if the stream has not been seen to change since.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ensue.runtime.cadence import Unevenness
from ensue.runtime.trying import Race

_MODEL = 0.09
"""The variance that is left where costs are means of very many windows: what they count takes more or less time."""
_EARLY = 1.0
"""That which a race has beside if it ended before states were full."""
_LEAST = 1e-12
"""As what a plan counts of which nothing is expected."""
_SWING = 1e-4
"""By how many seconds measured times swing."""
_NEW_STREAM = 2.0
"""Before so many windows what was known of plans on other streams tells nothing."""
_SURPRISING = 2.0
"""By how many standard deviations events must be slower to be no burst."""
_TELLING = 0.25
"""The weight that the outcome of a race must have beside costs for the race to be worth while."""
_QUICKER = 0.8
"""How many times as long a former plan must have taken at most to be worth while trying for that alone."""
_PLAUSIBLE, _LEAST_PLAUSIBLE = 1.5, 1.25
"""By how many standard deviations more plans may cost than others to be worth while trying, and how many times as much
in any case."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A number whose logarithm is known but for some variance."""

    value: float
    variance: float

    @property
    def is_surely_less(self) -> bool:
        """Whether it is much less than 1, beyond doubt."""
        return self.value < _QUICKER and -math.log(self.value) > _SURPRISING * math.sqrt(self.variance)

    @staticmethod
    def mean(guesses: Sequence[Guess]) -> float:
        """What is made of several guesses of one number.

        >>> [round(Guess.mean([Guess(4.0, variance), Guess(1.0, 1.0)]), 2) for variance in (1.0, 9.0)]
        [2.0, 1.15]
        """
        weights = [1.0 / max(one.variance, _LEAST) for one in guesses]
        logs = [math.log(max(one.value, _LEAST)) for one in guesses]
        return math.exp(sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights))


@dataclass(frozen=True, slots=True)
class Doubts:
    """How sure costs and races are.

    Costs are the mean of some `windows` of some `events` each. `bursts` is how unevenly events take their time: the
    variance of the logarithm of what they take, over a stretch of them, times how many events that is. `lately` is what
    they took since the plan in use took over; None: not known of this query alone.
    """

    windows: float = 1.0
    events: float = 1.0
    bursts: float = 0.25
    lately: Unevenness | None = None

    @property
    def of_costs(self) -> float:
        """The variance of a logarithm of a ratio of costs."""
        return _MODEL + self.bursts / max(self.windows * self.events, 1.0)

    def of_race(self, race: Race) -> float:
        """The variance of the logarithm of what a race tells."""
        unsure = _EARLY if race.is_early else 0.0
        return unsure + self.bursts / max(race.counted, 1) + (_SWING / race.seconds) ** 2

    def of_former(self, before: Unevenness) -> Guess | None:
        """How many times as long a plan that was in use took as the one that is; None if that was another stream.

        How unevenly events take their time is told by what was before: there are more of them, as a rule.
        """
        now = self.lately
        if now is None or now.stream != before.stream or not (now.seconds > 0 and before.seconds > 0):
            return None
        ratio = (before.seconds / before.events) / (now.seconds / now.events)
        return Guess(ratio, before.over(self.events) * (1.0 / before.events + 1.0 / now.events))

    def weigh(self, expected: float, measured: float, race: Race, former: Guess | None = None) -> float:
        """How many times as long a plan takes as another: between what costs let expect and what a race measured.

        And what it took when it was in use, if it was.

        >>> told = Race(4096, 4096, 0.01, (1.0, 0.5))
        >>> calm, uneven = Doubts(8.0, 1000.0, 1.0), Doubts(8.0, 1000.0, 5000.0)
        >>> round(calm.weigh(2.0, 0.5, told), 2), round(uneven.weigh(2.0, 0.5, told), 2)
        (0.5, 1.2)
        """
        told = [Guess(expected, self.of_costs), Guess(measured, self.of_race(race))]
        return Guess.mean(told if former is None else [*told, former])

    def tells(self, events: int) -> bool:
        """Whether a race over so many events could say anything against costs that speak neither for nor against."""
        return self.of_costs >= _TELLING * (self.of_costs + self.bursts / max(events, 1))

    def is_news(self, slower: float) -> bool:
        """Whether events that are so many times slower tell that the stream is another one: bursts are not so long.

        Nor is anything known of a stream that has just changed.
        """
        usual = math.sqrt(self.bursts / max(self.events, 1.0))
        return slower > 0 and (self.windows < _NEW_STREAM or math.log(slower) > _SURPRISING * usual)

    @property
    def plausible(self) -> float:
        """How many times as much as the cheapest a plan may cost to be worth while trying: costs may be so wrong."""
        return max(_LEAST_PLAUSIBLE, math.exp(_PLAUSIBLE * math.sqrt(self.of_costs)))
