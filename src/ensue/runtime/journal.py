"""The journal: what was decided about plans, when, and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

_KEPT = 1_000
"""How many entries are kept: each has the statistics of its moment, and a stream may have no end."""


@dataclass(frozen=True)
class Entry:
    """One line of the journal: what was decided at a check that called for planning, and why.

    `at` is the event time. `reason` tells which invariant broke, of several branches those of each; `left` and `right`
    are the values of its sides, of the first one. `method` is None where the plan stayed. Costs are those of both plans
    under the statistics of that moment; `trial` is how many times as long as the old plan the new one took for the last
    events, None if it was not tried. `seconds` is what planning, trying and replacing took, `switch_seconds` replacing
    alone, `replayed` the number of events that were gone through again; if the plan stayed nevertheless, for in vain.
    """

    query: str
    at: int
    reason: str
    left: float | None
    right: float | None
    old: str
    new: str
    old_cost: float
    new_cost: float
    method: str | None
    seconds: float
    switch_seconds: float
    replayed: int
    trial: float | None
    statistics: dict[str, Any] = field(repr=False)

    @property
    def replaced(self) -> bool:
        """Whether another plan took over."""
        return self.method is not None

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON-able values."""
        return asdict(self)

    def __str__(self) -> str:
        done = "kept"
        if self.replaced or self.replayed:
            done = f"{self.method or 'could not take over'}, {self.replayed:,} events again"
        if self.trial is not None:
            done = f"tried, {self.trial:.3g} times as long; {done}"
        costs = f"{self.old_cost:.6g} -> {self.new_cost:.6g}"
        return (
            f"{self.at} {self.query}: {self.reason}; {self.old} -> {self.new} ({costs}; {done}, {self.seconds:.4f} s)"
        )


class Journal:
    """The last entries; of older ones only the engine's counts tell how many there were.

    Who takes them has all since the last time, however many these are.

    >>> journal = Journal(most=2)
    >>> journal.add("abc")
    >>> list(journal), journal.take(), journal.take()
    (['b', 'c'], ['b', 'c'], [])
    >>> journal.add("defg")
    >>> list(journal), journal.take()
    (['f', 'g'], ['d', 'e', 'f', 'g'])
    """

    def __init__(self, most: int = _KEPT) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)
        self._untaken: list[Entry] | None = None  # None: nobody has asked for them yet

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Write some entries down."""
        new = list(entries)
        self._entries.extend(new)
        if self._untaken is not None:
            self._untaken += new

    def take(self) -> list[Entry]:
        """The entries since the last call; at the first one those that are kept."""
        taken = list(self._entries) if self._untaken is None else self._untaken
        self._untaken = []
        return taken
