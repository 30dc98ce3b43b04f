"""Where random queries take their choices from: one interface for seeded numbers and for Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices; the first option, the lowest number and False are the simplest."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        ...

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        ...

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        ...


@dataclass(frozen=True, slots=True)
class SeededChoices:
    """Choices made by a seeded random number generator."""

    rng: random.Random

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self.rng.choice(options)

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self.rng.randint(low, high)

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.rng.random() < probability
