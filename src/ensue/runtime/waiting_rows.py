"""Tuples whose time has not come: in the order in which they are due."""

from __future__ import annotations

import numpy as np

from ensue.runtime.relations import Rows


class WaitingRows:
    """Rows by their first column. New ones mostly come behind the last; where they do not, all are sorted anew."""

    def __init__(self, width: int) -> None:
        self._rows: Rows = np.empty((0, width), dtype=np.int64)
        self._start, self._stop = 0, 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def nbytes(self) -> int:
        """Memory that is held."""
        return self._rows.nbytes

    @property
    def rows(self) -> Rows:
        """All that wait."""
        return self._rows[self._start : self._stop]

    @property
    def first(self) -> int | None:
        """When the first is due."""
        return int(self._rows[self._start, 0]) if len(self) else None

    def add(self, new: Rows) -> None:
        """Let rows wait."""
        if not len(new):
            return
        if len(new) > 1 and (new[1:, 0] < new[:-1, 0]).any():
            new = new[np.argsort(new[:, 0], kind="stable")]
        if len(self) and new[0, 0] < self._rows[self._stop - 1, 0]:
            whole = np.concatenate([self.rows, new])
            self._rows = whole[np.argsort(whole[:, 0], kind="stable")]
            self._start, self._stop = 0, len(whole)
            return
        if self._stop + len(new) > len(self._rows):
            held = self.rows
            self._rows = np.empty((max(64, 2 * (len(held) + len(new))), new.shape[1]), dtype=np.int64)
            self._rows[: len(held)] = held
            self._start, self._stop = 0, len(held)
        self._rows[self._stop : self._stop + len(new)] = new
        self._stop += len(new)

    def take(self, until: int | None) -> Rows:
        """The rows that are due at `until` or before (None: all), in order."""
        count = len(self) if until is None else int(np.searchsorted(self.rows[:, 0], until, side="right"))
        due = self.rows[:count].copy()
        self._start += count
        if self._start == self._stop:
            self._start = self._stop = 0
        return due
