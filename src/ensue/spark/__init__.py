"""Detection on Apache Spark: finite and streaming DataFrames, pipelines, sources and sinks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ensue.spark.counts import RunCounts
    from ensue.spark.detection import aside_of, detect, detect_with_aside, matches_of
    from ensue.spark.journal import journal_of
    from ensue.spark.logs import check_logs
    from ensue.spark.session import configure, make_session

_HOMES = {
    "RunCounts": "ensue.spark.counts",
    "aside_of": "ensue.spark.detection",
    "check_logs": "ensue.spark.logs",
    "configure": "ensue.spark.session",
    "detect": "ensue.spark.detection",
    "detect_with_aside": "ensue.spark.detection",
    "journal_of": "ensue.spark.journal",
    "make_session": "ensue.spark.session",
    "matches_of": "ensue.spark.detection",
}
"""Where each public name lives; it is loaded when it is first used: `ensue.spark.daemon` has to come before pyspark."""

__all__ = [
    "RunCounts",
    "aside_of",
    "check_logs",
    "configure",
    "detect",
    "detect_with_aside",
    "journal_of",
    "make_session",
    "matches_of",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ensue.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
