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

    `at` is the event time. `left` and `right` are the values of a broken invariant's sides. `method` is None where the
    plan stayed. Costs are those of both plans under the statistics of that moment; `trial` is how many times as long as
    the old plan the new one took for the last events, None if it was not tried. `seconds` is what planning, trying and
    replacing took, `replayed` the number of events that were gone through again.
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
        done = f"{self.method}, {self.replayed:,} events again" if self.replaced else "kept"
        if self.trial is not None:
            done = f"tried, {self.trial:.3g} times as long; {done}"
        costs = f"{self.old_cost:.6g} -> {self.new_cost:.6g}"
        return (
            f"{self.at} {self.query}: {self.reason}; {self.old} -> {self.new} ({costs}; {done}, {self.seconds:.4f} s)"
        )


class Journal:
    """The last entries; of older ones only the engine's counts tell how many there were.

    >>> journal = Journal(most=2)
    >>> journal.add("abc")
    >>> list(journal), journal.take(), journal.take()
    (['b', 'c'], ['b', 'c'], [])
    """

    def __init__(self, most: int = _KEPT) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)
        self._untold = 0  # how many of them have not been taken

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Write some entries down."""
        for entry in entries:
            self._entries.append(entry)
            self._untold = min(self._untold + 1, len(self._entries))

    def take(self) -> list[Entry]:
        """The entries since the last call, as far as they are kept."""
        new = list(self._entries)[len(self._entries) - self._untold :]
        self._untold = 0
        return new
