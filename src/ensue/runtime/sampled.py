"""Conditions asked of sampled events, by the evaluator of whole columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue.events.schema import Schema
from ensue.pattern.expressions import Aggregate, Attribute, Expression
from ensue.runtime.columns import evaluate_column, read_attribute, time_step
from ensue.runtime.values import Column, Kind
from ensue.statistics.collector import Evaluate
from ensue.statistics.sampling import Chosen, Mask


def evaluating(schema: Schema) -> Evaluate:
    """How a collector of statistics asks conditions of its sampled events."""
    step = time_step(schema)

    def evaluate(condition: Expression, events: Mapping[str, Chosen]) -> Mask:
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

        count = len(next(iter(events.values())).places)
        found = evaluate_column(condition, look_up, step).stretch(count)
        if found.kind is not Kind.BOOL:
            return np.zeros(count, dtype=np.bool_)  # NULL is not true
        return found.values if found.null is None else found.values & ~found.null

    return evaluate
