"""ensue itself, as the benchmark drives it: Arrow tables in, matches as sequence numbers out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from workloads import Workload

import ensue


def open_engine(workload: Workload) -> Any:
    """An engine for the workload's query."""
    return ensue.compile(workload.query, type="type", ts="ts")


def count_matches(workload: Workload, tables: Iterable[pa.Table]) -> tuple[int, float | None]:
    """Push the tables and end the input; the number of matches, and the seconds in the kernel if the engine says."""
    engine = open_engine(workload)
    total = 0
    for table in tables:
        total += len(engine.push(table))
    rest = engine.flush()
    total += len(rest) if rest is not None else 0
    return total, getattr(engine, "kernel_seconds", None)
