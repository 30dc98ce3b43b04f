"""What tests of explain have in common: the columns of their events, and snapshots of what was shown."""

from __future__ import annotations

import os
from pathlib import Path

from ensue.events.schema import DType, Schema

SNAPSHOTS = Path(__file__).parent / "snapshots"
SCHEMA = Schema(
    {
        "type": DType.STRING,
        "ts": DType.TIMESTAMP,
        "id": DType.INT,
        "price": DType.FLOAT,
        "size": DType.INT,
        "name": DType.STRING,
    }
)


def assert_as_before(name: str, found: str) -> None:
    """Something shown is as its snapshot, a file of that name, which ENSUE_WRITE_SNAPSHOTS writes anew."""
    path = SNAPSHOTS / name
    if os.environ.get("ENSUE_WRITE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")
