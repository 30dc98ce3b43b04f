"""What holds for all tests."""

from __future__ import annotations

import os

import pytest

# JVMs of tests do not live long enough to pay for an optimising compiler and for collecting garbage in parallel: half
# of their CPU time. Spark's launcher gives this to every JVM of a driver, those of processes that tests start too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what takes longest, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
