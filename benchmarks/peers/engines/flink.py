"""Flink CEP: followedByAny in event time. Its patterns are an API, so that they are in java/FlinkPeer.java."""

from __future__ import annotations

from benchmarks.peers.cells import Job
from benchmarks.peers.jars import FLINK as JARS
from benchmarks.peers.queries import Query

__all__ = ["JARS", "lacks", "statement"]


def lacks(query: Query) -> str | None:
    """Why a query is beyond it."""
    if not query.is_ordered:
        return "a pattern is a sequence: any order would take one pattern for each of the six"
    return None


def statement(job: Job) -> str:
    """Nothing: the harness knows the queries by name."""
    return ""
