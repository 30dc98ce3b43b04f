"""The window of a query as numbers."""

from __future__ import annotations

import math

from ensue.events.schema import Schema
from ensue.pattern.query import CountWindow, Query, TimeWindow
from ensue.pattern.types import fold_duration

LARGEST_WINDOW = 2**61


def window_of(query: Query, schema: Schema) -> tuple[int | None, int | None]:
    """The time window in the time column's units, and the count window; ends are whole, so a fraction rounds up."""
    match query.within:
        case TimeWindow(duration=duration, span=span):
            return min(math.ceil(fold_duration(duration, schema, span)), LARGEST_WINDOW), None
        case CountWindow(events=events):
            return None, events
        case _:
            return None, None
