"""Blocks of memory that are used again: each page of fresh memory costs time when it is first touched."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

LARGE = 1 << 20
"""Words from which on a block is kept; what is smaller costs little."""
_KEPT = 16


class Pool:
    """Hands out large blocks, again once nothing refers to them.

    >>> pool = Pool()
    >>> first = pool.take(LARGE)
    >>> first is pool.take(LARGE)
    False
    >>> place = id(first)
    >>> del first
    >>> place == id(pool.take(LARGE))
    True
    """

    def __init__(self) -> None:
        self._blocks: list[Int64s] = []

    def take(self, size: int) -> Int64s:
        """A block of so many words, with anything in them."""
        for k in range(len(self._blocks)):
            if len(self._blocks[k]) == size and sys.getrefcount(self._blocks[k]) <= 2:  # the list and the call
                return self._blocks[k]
        block = np.empty(size, dtype=np.int64)
        if size >= LARGE and len(self._blocks) < _KEPT:
            self._blocks.append(block)
        return block

    def take_at_least(self, size: int) -> Int64s:
        """The first `size` words of a block; large ones come in few sizes, so that they fit again."""
        return self.take(size if size < LARGE else 1 << (size - 1).bit_length())[:size]
