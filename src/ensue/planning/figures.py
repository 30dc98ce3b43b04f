"""What a planner works on: the shape of a branch and the statistics of its stream.

A statistic has a name in words, which the journal, the invariants and saved states use: `rate(A)` is the number of
events of type A in a unit of time, `sel(a)` the share of them that the local conditions of variable a let through,
`sel(a, b)` the share of pairs of such events that satisfy the conditions of WHERE between a and b (their order in time
does not count: it follows from the pattern, see cost.py). `sel(a, a)` is that of two neighbours in a list.
`joint(a, b, c)` says how many times as often the conditions of b with a and with c both hold as sel(a, b) · sel(b, c).
`implied(a, c)` is the share of pairs that satisfy what follows from the conditions of a and c with events between them:
as long as none of those is bound, it is all that is known of the two. `together(a, c, d, f)` says how many times as
often all that is asked of these holds as the others say that speak of some of them.
`pace` is how many units of time pass in a second of the clock, for plans that are chosen by latency. `look` is how much
of a partial match a look at a pair of events or partial matches counts in costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

from ensue.errors import PlanError
from ensue.pattern.expressions import Comparison, Expression, variables_of
from ensue.pattern.normalize import Branch, Negation, Variable
from ensue.pattern.query import CountWindow, Query
from ensue.planning.absences import nearest, rivals
from ensue.statistics.conditions import find_implied, find_triples
from ensue.statistics.snapshot import Statistics

PACE = "pace"
LOOK = "look"
LOOK_WEIGHT = 0.03
"""What the engine lets a look at a pair count: as near to what either takes as goes for all plans."""
MILLISECONDS = 1000.0
"""The pace where none is known: times in milliseconds, as they happen."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Where an event of a negated variable must not be: after the event of one variable, before that of another.

    It is decided once all of the variables `needed` are bound: these two, and others that are compared with it.
    """

    name: str
    type: str
    earlier: str
    later: str
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shape:
    """What planners need to know of a branch: its variables, in the order of the text, and their order in time.

    `conditions` has the variables of each condition on several events; `keyed` those pairs that an equality ties, so
    that an index finds the one for the other; `implied` pairs without a condition, of which one follows from those with
    others, and these others; `triples` those whose middle one has conditions with both others; `gaps` what of the
    negated items is decided between two single events.
    """

    variables: tuple[Variable, ...]
    before: frozenset[tuple[str, str]] = frozenset()
    negations: tuple[str, ...] = ()
    conditions: tuple[frozenset[str], ...] = ()
    keyed: frozenset[frozenset[str]] = frozenset()
    triples: tuple[tuple[str, str, str], ...] = ()
    implied: tuple[tuple[tuple[str, str], frozenset[str]], ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All variables."""
        return tuple(v.name for v in self.variables)

    @property
    def singles(self) -> tuple[str, ...]:
        """The variables that stand for one event."""
        return tuple(v.name for v in self.variables if not v.kleene)

    @property
    def lists(self) -> tuple[str, ...]:
        """The variables that stand for a list of events."""
        return tuple(v.name for v in self.variables if v.kleene)


@lru_cache(maxsize=64)
def shape_of(branch: Branch, *, partitioned: bool = False) -> Shape:
    """The shape of a branch; `partitioned`: all events of a match share a key."""
    several = [(c, frozenset(names)) for c in branch.conjuncts if len(names := variables_of(c)) > 1]
    keyed = [names for c, names in several if len(names) == 2 and _is_equality(c)]
    if partitioned:
        keyed = [frozenset(pair) for pair in combinations(branch.names, 2)]
    negations = tuple(n.name for n in branch.negations)
    conditions = tuple(names for _, names in several)
    pairs = [(x, y) for x, y in combinations(branch.names, 2) if {x, y} in conditions or partitioned]
    follows = [] if partitioned else find_implied(branch)
    triples = tuple(find_triples(branch, pairs))
    keyed += [frozenset(one.pair) for one in follows if any(map(_is_equality, one.conditions))]
    implied = tuple((one.pair, one.via) for one in follows)
    gaps = tuple(gap for negation in branch.negations if (gap := _gap_of(branch, negation)) is not None)
    return Shape(branch.variables, branch.before, negations, conditions, frozenset(keyed), triples, implied, gaps)


def _gap_of(branch: Branch, negation: Negation) -> Gap | None:
    """Between which events an absence is decided, if these are two single ones."""
    before = nearest(branch, negation.after, latest=True)
    after = nearest(branch, negation.before, latest=False)
    if len(before) != 1 or len(after) != 1 or any(branch.variable(name).kleene for name in (*before, *after)):
        return None
    (earlier,), (later,) = before, after
    needed = {earlier, later, *(v.name for v in rivals(branch, negation))}
    needed.update(*map(variables_of, negation.conjuncts))
    return Gap(negation.name, negation.type, earlier, later, frozenset(needed - {negation.name}))


def _is_equality(condition: Expression) -> bool:
    return isinstance(condition, Comparison) and condition.operators == ("=",)


@dataclass(frozen=True, slots=True)
class Figures:
    """The statistics of one branch at one moment, by name; what is missing counts 0 (a rate) or 1 (a selectivity).

    `window` is W, in the unit of time of the rates. `variances` are those of the values, as far as they are known.

    >>> figures = Figures(Shape((Variable("a", "A"), Variable("b", "B"))), 10.0, {"rate(A)": 2.0, "sel(a, b)": 0.5})
    >>> figures.arrivals("a"), figures.arrivals("b"), figures.selectivity("b", "a")
    (2.0, 0.0, 0.5)
    """

    shape: Shape
    window: float
    values: Mapping[str, float] = field(hash=False)
    variances: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.window > 0:
            raise PlanError(
                f"a window of {self.window} cannot be planned for: give its length in the rates' unit of time"
            )
        for name, value in self.values.items():
            if not (math.isfinite(value) and value >= 0):
                raise PlanError(f"the statistic {name} is {value}: it has to be a number of at least 0")

    def arrivals(self, name: str) -> float:
        """How many events of a variable come in a unit of time, after its local conditions."""
        type_name = next(v.type for v in self.shape.variables if v.name == name)
        return self.values.get(rate_name(type_name), 0.0) * self.values.get(selectivity_name(name), 1.0)

    def forbidding(self, gap: Gap) -> float:
        """How many events come in a unit of time that must not be in a gap; if they are compared, with any others."""
        number = self.values.get(rate_name(gap.type), 0.0) * self.values.get(selectivity_name(gap.name), 1.0)
        return number * math.prod(self.selectivity(gap.name, other) for other in sorted(gap.needed))

    def selectivity(self, one: str, other: str) -> float:
        """The share of pairs of events that satisfy the conditions between two variables."""
        return self.values.get(selectivity_name(one, other), 1.0)

    def joint(self, triple: tuple[str, str, str]) -> float:
        """How many times as often both conditions of a triple hold as their selectivities say."""
        return self.values.get(joint_name(*triple), 1.0)

    def implied(self, one: str, other: str) -> float:
        """The share of pairs that satisfy what follows from conditions with others."""
        return self.values.get(implied_name(one, other), 1.0)

    def together(self, names: frozenset[str]) -> float:
        """How many times as often all that is asked of some variables holds as what is known of fewer says."""
        return self.values.get(together_name(names), 1.0)

    @property
    def look(self) -> float:
        """How much of a partial match a look at a pair counts."""
        return self.values.get(LOOK, 0.0)

    def with_looks(self, look: float) -> Figures:
        """The same where a look counts so much."""
        return replace(self, values={**self.values, LOOK: look})

    @property
    def pace(self) -> float:
        """How many units of time pass in a second."""
        return self.values.get(PACE, MILLISECONDS)

    def at_pace(self, pace: float) -> Figures:
        """The same with so many units of time in a second."""
        return Figures(self.shape, self.window, {**self.values, PACE: pace}, self.variances)

    def moved(self, name: str, value: float) -> Figures:
        """The same with another value of one statistic; a selectivity is kept in [0, 1], a rate at 0 or above."""
        highest = 1.0 if name.startswith(("sel(", "implied(")) else math.inf
        return Figures(self.shape, self.window, {**self.values, name: min(max(value, 0.0), highest)}, self.variances)

    def dump(self) -> dict[str, Any]:
        """As data that JSON can hold; the shape is left out: it follows from the query."""
        return {"window": self.window, "values": dict(self.values), "variances": dict(self.variances)}

    @staticmethod
    def load(shape: Shape, data: Mapping[str, Any]) -> Figures:
        """What `dump` gave."""
        return Figures(shape, data["window"], data["values"], data["variances"])


@cache
def rate_name(type_name: str) -> str:
    """The name of a type's rate."""
    return f"rate({type_name})"


@cache
def selectivity_name(*names: str) -> str:
    """The name of a local selectivity, or of that between two variables, whichever is given first."""
    return f"sel({', '.join(sorted(names))})"


@cache
def joint_name(x: str, middle: str, z: str) -> str:
    """The name of what is known of two conditions together, that share the middle variable."""
    return f"joint({x}, {middle}, {z})"


@cache
def implied_name(*pair: str) -> str:
    """The name of what is known of two variables by conditions with others."""
    return f"implied({', '.join(sorted(pair))})"


@cache
def together_name(names: frozenset[str]) -> str:
    """The name of what is known of several variables at once."""
    return f"together({', '.join(sorted(names))})"


def figures_of(branch: Branch, window: float, statistics: Statistics, *, partitioned: bool = False) -> Figures:
    """The figures of a branch: the part of a snapshot that speaks of its types and variables.

    `window` is the length of the query's window in the unit of time of the snapshot's rates.
    """
    shape = shape_of(branch, partitioned=partitioned)
    names = {*branch.names, *(gap.name for gap in shape.gaps)}
    types = [*(v.type for v in branch.variables), *(gap.type for gap in shape.gaps)]
    found = {rate_name(kind): statistics.rates[kind] for kind in types if kind in statistics.rates}
    found |= {selectivity_name(name): s for name, s in statistics.local.items() if name in names}
    found |= {selectivity_name(*pair): s for pair, s in statistics.pairs.items() if names.issuperset(pair)}
    found |= {joint_name(*triple): s for triple, s in statistics.triples.items() if names.issuperset(triple)}
    found |= {implied_name(*pair): s for pair, s in statistics.implied.items() if names.issuperset(pair)}
    found |= {together_name(frozenset(some)): s for some, s in statistics.together.items() if names.issuperset(some)}
    values = {name: estimate.value for name, estimate in found.items()}
    return Figures(shape, window, values, {name: estimate.variance for name, estimate in found.items()})


def planning_window(query: Query, within: float | None, statistics: Statistics) -> float:
    """W of a query: its window `within` as a time; else the time that its n events take, or the statistics' own window.

    For WITHIN n EVENTS only the rates of the query's types are known, so that with others in between W is
    overestimated.
    """
    if within is not None:
        return within
    rate = sum(estimate.value for estimate in statistics.rates.values())
    if isinstance(query.within, CountWindow) and rate > 0:
        return query.within.events / rate
    return statistics.window if 0 < statistics.window < math.inf else 1.0


def by_hand(shape: Shape, window: float, rates: Sequence[float], pairs: Mapping[tuple[str, str], float]) -> Figures:
    """Figures by hand: a rate for each variable's type, in the order of the text, and selectivities of pairs."""
    values = {rate_name(v.type): rate for v, rate in zip(shape.variables, rates, strict=True)}
    return Figures(shape, window, values | {selectivity_name(*pair): value for pair, value in pairs.items()})
