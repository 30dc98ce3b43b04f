"""Hypothesis strategies for queries and streams, made by the same builders as the seeded cases of `random_queries`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from ensue.events.schema import Schema
from ensue.pattern.query import Query
from ensue.testing.random_queries import DEFAULT_SHAPE, POINT_SCHEMA, Shape, build_case, build_query, build_stream

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DrawnChoices:
    """Choices drawn from Hypothesis: a failing case shrinks towards first options, low numbers and False."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self.draw(st.integers(low, high))

    def chance(self, probability: float) -> bool:
        """True with roughly a probability."""
        if probability <= 0:
            return False
        return self.draw(st.integers(0, 99)) >= round(100 * (1 - probability))


@st.composite
def queries(draw: st.DrawFn, shape: Shape = DEFAULT_SHAPE) -> Query:
    """Valid queries over events of types A to E."""
    return build_query(DrawnChoices(draw), shape)


@st.composite
def streams(
    draw: st.DrawFn, shape: Shape = DEFAULT_SHAPE, schema: Schema = POINT_SCHEMA, query: Query | None = None
) -> list[dict[str, Any]]:
    """Events of types A to E with few distinct times and values, nulls and NaN among them."""
    return build_stream(DrawnChoices(draw), shape, schema, query)


@st.composite
def cases(draw: st.DrawFn, shape: Shape = DEFAULT_SHAPE) -> tuple[Query, list[dict[str, Any]], Schema]:
    """A valid query, a stream for it, and the stream's schema."""
    return build_case(DrawnChoices(draw), shape)
