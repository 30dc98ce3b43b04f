"""Conditions asked of sampled events, by the evaluator of whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ensue.events.schema import Schema
from ensue.pattern.expressions import Aggregate, Attribute, Comparison, Expression
from ensue.runtime.columns import evaluate_column, read_attribute, time_step
from ensue.runtime.values import NUMPY, Column, Comparing, Kind, compare
from ensue.statistics.asking import Evaluate
from ensue.statistics.sampling import Chosen, Mask, Rows
from ensue.statistics.together import Arithmetic


def evaluating(schema: Schema, comparing: Comparing = NUMPY) -> Evaluate:
    """How a collector of statistics asks conditions of its sampled events, `comparing` each of some with each other."""
    step = time_step(schema)

    def evaluate(condition: Expression, events: Mapping[str, Chosen]) -> Mask:
        shape = np.broadcast_shapes(*(chosen.places.shape for chosen in events.values()))

        def look_up(node: Attribute | Aggregate) -> Column:
            chosen = events[node.variable]
            sample = chosen.sample
            name = node.name or ""
            column = sample.columns.get(name)
            if column is None:
                column = read_attribute(name, sample.table, sample.begin, sample.end, schema)
                sample.columns[name] = column
            null = None if column.null is None else column.null[chosen.places]
            return Column(column.kind, column.values[chosen.places], null, column.words)

        match condition:
            case Comparison((Attribute() as left, Attribute() as right), (operator,)) if len(shape) > 1:
                found = compare(operator, look_up(left), look_up(right), step, comparing)
            case _ if len(shape) > 1:  # what else there is knows columns only
                flat = {
                    name: Chosen(one.sample, np.broadcast_to(one.places, shape).ravel()) for name, one in events.items()
                }
                return evaluate(condition, flat).reshape(shape)
            case _:
                found = evaluate_column(condition, look_up, step)
        if found.kind is not Kind.BOOL:
            return np.zeros(shape, dtype=np.bool_)  # NULL is not true
        return np.broadcast_to(found.values if found.null is None else found.values & ~found.null, shape)

    return evaluate


def arithmetic() -> Arithmetic:
    """What a collector counts tuples with."""
    from ensue.runtime.kernels import tuples

    return Arithmetic(_near, tuples.tally, tuples.extend)


def _near(left: Rows, right: Rows, within: float, ordered: bool) -> Mask:
    from ensue.runtime.kernels import tuples

    ends = left.sample.end[left.places], right.sample.end[right.places]
    ids = left.sample.ids[left.places], right.sample.ids[right.places]
    found: Mask = tuples.near(*ends, *ids, left.numbers, right.numbers, float(within), ordered)
    return found


_ORDERS = {"<": (-1, False), ">=": (-1, True), "=": (0, False), "!=": (0, True), ">": (1, False), "<=": (1, True)}
"""How one value stands to another, and whether it is just not that."""


def comparing() -> Comparing:
    """What a collector compares each of some events with each of others by."""
    return {operator: partial(_compare, operator) for operator in _ORDERS}


def _compare(operator: str, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Mask:
    from ensue.runtime.kernels import tuples

    order, is_not = _ORDERS[operator]
    if left.shape[2] == right.shape[1] == 1:
        found: Mask = tuples.compare(left[:, :, 0], right[:, 0, :], order, is_not)
    elif left.shape[1] == right.shape[2] == 1:
        found = tuples.compare(right[:, :, 0], left[:, 0, :], -order, is_not)
    else:
        found = NUMPY[operator](left, right)  # both of one event
    return found
