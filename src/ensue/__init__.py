"""ensue detects patterns of events in streams: an event, and what ensues.

>>> import ensue
>>> events = [{"type": "A", "ts": 1, "x": 1}, {"type": "B", "ts": 4, "x": 2}]
>>> matches = ensue.run(events, "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10")
>>> len(matches)
1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ensue.api import compile, run
    from ensue.errors import EnsueError
    from ensue.events.schema import DType, Schema
    from ensue.language import parse
    from ensue.options import Options
    from ensue.pattern.builder import and_, col, event, not_, or_, seq
    from ensue.runtime.adaptation import Adaptation
    from ensue.runtime.engine import Engine
    from ensue.runtime.live_runner import LiveRunner
    from ensue.runtime.matches import Matches

__version__ = "0.1.0"

_HOMES = {
    "run": "ensue.api",
    "compile": "ensue.api",
    "parse": "ensue.language",
    "seq": "ensue.pattern.builder",
    "and_": "ensue.pattern.builder",
    "or_": "ensue.pattern.builder",
    "not_": "ensue.pattern.builder",
    "event": "ensue.pattern.builder",
    "col": "ensue.pattern.builder",
    "Schema": "ensue.events.schema",
    "DType": "ensue.events.schema",
    "Options": "ensue.options",
    "Adaptation": "ensue.runtime.adaptation",
    "Engine": "ensue.runtime.engine",
    "LiveRunner": "ensue.runtime.live_runner",
    "Matches": "ensue.runtime.matches",
    "EnsueError": "ensue.errors",
}
"""Where each public name lives; it is loaded when it is first used, so that importing ensue costs next to nothing."""

__all__ = [
    "Adaptation",
    "DType",
    "Engine",
    "EnsueError",
    "LiveRunner",
    "Matches",
    "Options",
    "Schema",
    "and_",
    "col",
    "compile",
    "event",
    "not_",
    "or_",
    "parse",
    "run",
    "seq",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ensue' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
