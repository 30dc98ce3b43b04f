"""From the words that kernels count with to the values of aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.errors import LimitError
from ensue.events.batch import Int64s
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import Attribute
from ensue.pattern.query import PatternAggregate
from ensue.planning.aggregates import Component, Counters, Kind
from ensue.planning.conditions import EVENT, Column
from ensue.runtime import layout as at
from ensue.runtime.aggregate_rows import Values, is_time
from ensue.runtime.kernels.counting_layout import OVERFLOW
from ensue.runtime.strings import StringTable

Words: TypeAlias = Callable[[Component], tuple[Int64s, Int64s | None]]
"""The lower and the upper words of a component's numbers; None: there are none, and all fit in one."""


def read_value(name: str, one: PatternAggregate, counters: Counters, words: Words, times: Int64s) -> Values:
    """An aggregate of query `name` in each row."""

    def whole(component: Component) -> Int64s:
        """Integers, all of which must fit in 63 bits."""
        low, high = words(component)
        if high is None:
            return low
        refuse((high != low >> 63) | (low == at.NULL))
        return low.copy()

    def refuse(beyond: npt.NDArray[np.bool_]) -> None:
        if beyond.any():
            refuse_overflow(name, one, int(times[int(np.argmax(beyond))]))

    nothing = np.zeros(len(times), dtype=np.bool_)
    if one.variable is None:
        return whole(Component(Kind.COUNT)), nothing
    place = next(k for k, m in enumerate(counters.measures) if (m.variable, m.name) == (one.variable, one.name))
    measure = counters.measures[place]
    if one.function in ("MIN", "MAX"):
        kind = Kind.LEAST if one.function == "MIN" else Kind.GREATEST
        low, high = words(Component(kind, place))
        assert high is not None
        values = low.copy().view(np.float64) if measure.is_float else low.copy()
        return values, high == 0
    present = whole(Component(Kind.PRESENT, place))
    if one.function == "COUNT":
        return present, nothing
    low, high = words(Component(Kind.SUM, place))
    if measure.is_float:
        total = low.copy().view(np.float64)
    elif one.function == "SUM":
        return whole(Component(Kind.SUM, place)), present == 0
    elif high is None:
        total = low.astype(np.float64)
    else:
        refuse(np.abs(high) >= OVERFLOW >> 1)
        total = high.astype(np.float64) * 2.0**64 + low.copy().view(np.uint64).astype(np.float64)
        total = np.where(high == low >> 63, low.astype(np.float64), total)
    if one.function == "AVG":
        total = np.divide(total, present, out=np.zeros(len(total)), where=present != 0)
    return total, present == 0


def refuse_overflow(name: str, one: PatternAggregate, moment: int) -> None:
    """Say that a number does not fit."""
    raise LimitError(
        f"query `{name}`: at time {moment} {one.function} is beyond 2^63; "
        "narrow the query (a shorter WITHIN, more conditions, GROUP BY)"
    )


def refuse_rows(name: str, limit: int) -> None:
    """Say that there are too many rows."""
    raise LimitError(
        f"query `{name}`: more than {limit:,} rows (max_matches) in one call; "
        "push smaller batches, or raise max_matches"
    )


def decode_words(words: Int64s, name: str, schema: Schema, strings: StringTable) -> Values:
    """Values of an attribute from the words that hold them."""
    null = words == at.NULL
    kind = None if is_time(name, schema) else schema.columns[name]
    if kind is DType.STRING:
        known = {int(code): strings.decode(int(code)) for code in np.unique(words[~null])}
        texts = np.empty(len(words), dtype=object)
        texts[:] = [known.get(int(code)) for code in words]
        return texts, null
    return (words.view(np.float64) if kind is DType.FLOAT else words), null


def attribute_column(name: str, schema: Schema) -> Column:
    """The column of an attribute, as batches bring it."""
    kind = None if is_time(name, schema) else schema.columns[name]
    return Column(Attribute(EVENT, name), kind is DType.FLOAT, kind is DType.STRING)


def key_words(values: Int64s) -> Int64s:
    """Floats of a key by their bits: one form for each value, so that keys can be compared."""
    floats = values.view(np.float64) + 0.0
    return np.where(np.isnan(floats), at.NULL, floats.view(np.int64))
