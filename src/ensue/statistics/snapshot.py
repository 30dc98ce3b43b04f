"""Statistics as planners take them: plain data, at one moment, that can be saved, loaded and printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ensue.errors import StateError
from ensue.pattern.query import Query
from ensue.statistics.estimates import Estimate as Estimate  # planners take both from here

_FORMAT = 1
_NOTHING = Estimate(0.0)
_ALL = Estimate(1.0)


@dataclass(frozen=True)
class Statistics:
    """What is known of a stream, for one query: by event type and by variables.

    `window` is how much time it is about and `at` the event time it was taken, in the time column's units. `rates` are
    events of a type a unit of time; `local` is the share of the events of a variable's type that pass the variable's
    own conditions; `pairs`, with the two names in order, the share of pairs of such events that pass all conditions
    between the two. What is missing in `local` and `pairs` is 1. `(x, x)` stands for neighbours in a list. `triples`
    says of the conditions of a middle event with two others how many times as often both hold as the product of the
    two shares says: 1 where they are independent. `implied` is the share of pairs without a condition of their own that
    pass what follows from the conditions with others. `together` says of sets of variables, by their names in order,
    how many times as often all that is asked of them holds as what is known of their pairs and triples says.

    >>> known = Statistics(60.0, {"A": Estimate(2.0)}, {"a": Estimate(0.5)}, {("a", "b"): Estimate(0.1)})
    >>> known.pair("b", "a").value, known.share("b").value, known.rate("C").value
    (0.1, 1.0, 0.0)
    >>> Statistics.from_json(known.to_json()) == known
    True
    """

    window: float
    rates: Mapping[str, Estimate]
    local: Mapping[str, Estimate]
    pairs: Mapping[tuple[str, str], Estimate]
    at: int = 0
    triples: Mapping[tuple[str, str, str], Estimate] = field(default_factory=dict)
    implied: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    together: Mapping[tuple[str, ...], Estimate] = field(default_factory=dict)

    @classmethod
    def uniform(cls, query: Query) -> Statistics:
        """What to assume before anything is known: all types come equally often, and every condition holds."""
        return cls(1.0, {name: Estimate(1.0) for name in query.types}, {}, {})

    def rate(self, type: str) -> Estimate:
        """Events of a type a unit of time."""
        return self.rates.get(type, _NOTHING)

    def share(self, variable: str) -> Estimate:
        """The share of its type's events that can be a variable's event, as far as each tells by itself."""
        return self.local.get(variable, _ALL)

    def pair(self, x: str, y: str) -> Estimate:
        """The share of pairs of events of two variables that pass the conditions between them."""
        return self.pairs.get((x, y) if x <= y else (y, x), _ALL)

    def rows(self) -> Iterator[tuple[str, str, Estimate]]:
        """All of it as rows: what it is, as 'rate', 'pair' or 'triple', of what, and the number."""
        yield from (("rate", name, found) for name, found in self.rates.items())
        yield from (("local", name, found) for name, found in self.local.items())
        yield from (("pair", f"{x}, {y}", found) for (x, y), found in self.pairs.items())
        yield from (("triple", ", ".join(names), found) for names, found in self.triples.items())
        yield from (("implied", f"{x}, {y}", found) for (x, y), found in self.implied.items())
        yield from (("together", ", ".join(names), found) for names, found in self.together.items())

    def __str__(self) -> str:
        """A line for each number.

        >>> print(Statistics(60.0, {"A": Estimate(2.0)}, {}, {("a", "b"): Estimate(0.1)}, at=90))
        over 60 up to 90
        rate  A     2
        pair  a, b  0.1
        """
        rows = list(self.rows())
        first = max((len(kind) for kind, _, _ in rows), default=0)
        second = max((len(name) for _, name, _ in rows), default=0)
        lines = [f"{kind:<{first}}  {name:<{second}}  {found}" for kind, name, found in rows]
        return "\n".join([f"over {self.window:g} up to {self.at}", *lines])

    def to_json(self) -> dict[str, Any]:
        """The statistics as a value that `json.dumps` takes."""
        return {
            "format": _FORMAT,
            "window": self.window,
            "at": self.at,
            "rates": {name: [found.value, found.variance] for name, found in self.rates.items()},
            "local": {name: [found.value, found.variance] for name, found in self.local.items()},
            "pairs": [[x, y, found.value, found.variance] for (x, y), found in self.pairs.items()],
            "triples": [[*names, found.value, found.variance] for names, found in self.triples.items()],
            "implied": [[x, y, found.value, found.variance] for (x, y), found in self.implied.items()],
            "together": [[list(names), found.value, found.variance] for names, found in self.together.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Statistics:
        """Statistics from what `to_json` gave, or from a file of them after `json.load`."""
        try:
            if data["format"] != _FORMAT:
                raise StateError(
                    f"these statistics are of format {data['format']!r}, this version reads {_FORMAT}; "
                    "take them anew with `ensue stats`"
                )
            return cls(
                _number(data["window"]),
                {str(name): _estimate(*found) for name, found in data["rates"].items()},
                {str(name): _estimate(*found) for name, found in data["local"].items()},
                {_in_order(str(x), str(y)): _estimate(*found) for x, y, *found in data["pairs"]},
                int(data.get("at", 0)),
                {(str(x), str(y), str(z)): _estimate(*found) for x, y, z, *found in data.get("triples", ())},
                {_in_order(str(x), str(y)): _estimate(*found) for x, y, *found in data.get("implied", ())},
                {tuple(sorted(map(str, names))): _estimate(*found) for names, *found in data.get("together", ())},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"these are not statistics: {error!r}; take them anew with `ensue stats`") from error


def _in_order(x: str, y: str) -> tuple[str, str]:
    return (x, y) if x <= y else (y, x)


def _estimate(value: object, variance: object = 0.0) -> Estimate:
    return Estimate(_number(value), _number(variance))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r} is not a number of at least 0")
    return float(value)
