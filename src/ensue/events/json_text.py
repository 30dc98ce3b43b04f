"""Rows as JSON text, as every output of ensue writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from typing import Any


def to_json(value: Mapping[str, Any] | list[Any]) -> str:
    """A row, or a list, as one line of JSON: times in ISO-8601, missing numbers null.

    >>> to_json({"at": date(2024, 1, 2), "x": float("nan")})
    '{"at": "2024-01-02", "x": null}'
    """
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else str(value)


def _without_nan(value: Any) -> Any:
    """The value with what JSON cannot say said otherwise: NaN is null, an infinity is text."""
    match value:
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _without_nan(part) for key, part in value.items()}
        case list():
            return [_without_nan(part) for part in value]
        case _:
            return value
