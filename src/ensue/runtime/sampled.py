"""Conditions asked of sampled events, by the evaluator of whole columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue.events.schema import Schema
from ensue.pattern.expressions import Aggregate, Attribute, Comparison, Expression
from ensue.runtime.columns import evaluate_column, read_attribute, time_step
from ensue.runtime.values import Column, Kind
from ensue.statistics.asking import Evaluate
from ensue.statistics.sampling import Chosen, Mask
from ensue.statistics.together import Arithmetic


def evaluating(schema: Schema) -> Evaluate:
    """How a collector of statistics asks conditions of its sampled events."""
    step = time_step(schema)

    def evaluate(condition: Expression, events: Mapping[str, Chosen]) -> Mask:
        shape = np.broadcast_shapes(*(chosen.places.shape for chosen in events.values()))
        if len(shape) > 1 and not _is_plain(condition):
            flat = {
                name: Chosen(one.sample, np.broadcast_to(one.places, shape).ravel()) for name, one in events.items()
            }
            return evaluate(condition, flat).reshape(shape)

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

        found = evaluate_column(condition, look_up, step)
        if found.kind is not Kind.BOOL:
            return np.zeros(shape, dtype=np.bool_)  # NULL is not true
        return np.broadcast_to(found.values if found.null is None else found.values & ~found.null, shape)

    return evaluate


def arithmetic() -> Arithmetic:
    """What a collector counts tuples with."""
    from ensue.runtime.kernels import tuples

    return Arithmetic(tuples.tally, tuples.extend)


def _is_plain(condition: Expression) -> bool:
    """Whether it compares an attribute with another: NumPy does that with a row and a column as well."""
    match condition:
        case Comparison(operands=(Attribute(), Attribute())):
            return True
        case _:
            return False
