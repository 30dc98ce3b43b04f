"""What became of the events of an engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the events: `received = processed + late + rejected + held`; `ignored` are part of `processed`.

    `held` wait for the watermark; `ignored` are of types that no query names. `shed` counts what limits made the
    engine drop; `planned` how often plans were made anew, and `replaced` how often another one took over.
    """

    received: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    held: int = 0
    ignored: int = 0
    matches: int = 0
    shed_matches: int = 0
    shed_partial_matches: int = 0
    planned: int = 0
    replaced: int = 0
