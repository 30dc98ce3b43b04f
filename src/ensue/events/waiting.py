"""Events that wait for the watermark: sorted pieces, merged as they gather, so that small pushes stay cheap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.events.aside import join_tables
from ensue.events.batch import Int64s, plain_text


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows with their ends and begins (the very same array for points in time)."""

    table: pa.Table
    end: Int64s
    begin: Int64s

    def take(self, positions: Int64s) -> Piece:
        """The rows at these positions."""
        end = self.end[positions]
        begin = end if self.begin is self.end else self.begin[positions]
        return Piece(plain_text(self.table).combine_chunks().take(pa.array(positions)), end, begin)

    def filter(self, keep: npt.NDArray[np.bool_]) -> Piece:
        """The rows that the mask keeps."""
        end = self.end[keep]
        begin = end if self.begin is self.end else self.begin[keep]
        return Piece(self.table.filter(pa.array(keep)), end, begin)

    def slice(self, start: int, stop: int) -> Piece:
        """The rows from `start` to before `stop`; nothing is copied."""
        if start == 0 and stop == len(self.end):
            return self
        end = self.end[start:stop]
        begin = end if self.begin is self.end else self.begin[start:stop]
        return Piece(self.table.slice(start, stop - start), end, begin)


def sort_piece(piece: Piece) -> Piece:
    """The rows by (end, place); the piece itself if they are so already."""
    if np.all(piece.end[1:] >= piece.end[:-1]):
        return piece
    return piece.take(np.argsort(piece.end, kind="stable"))


def join_pieces(pieces: list[Piece]) -> Piece:
    """Sorted pieces, the earlier arrived first, as one sorted piece."""
    if len(pieces) == 1:
        return pieces[0]
    end = np.concatenate([p.end for p in pieces])
    points = all(p.begin is p.end for p in pieces)
    begin = end if points else np.concatenate([p.begin for p in pieces])
    return sort_piece(Piece(join_tables([plain_text(p.table) for p in pieces]), end, begin))


class WaitingRoom:
    """Sorted pieces in the order of arrival: no row of a later piece arrived before one of an earlier piece."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def add(self, piece: Piece) -> None:
        """Take in a sorted piece that arrived after all others."""
        if len(piece.end):
            self._pieces.append(piece)

    def release(self, until: int | None) -> Piece | None:
        """The rows whose end is at most `until`, sorted by (end, arrival); None if there are none."""
        if until is None or not self._pieces:
            return None
        released, kept = [], []
        for piece in self._pieces:
            cut = int(np.searchsorted(piece.end, until, side="right"))
            if cut:
                released.append(piece.slice(0, cut))
            if cut < len(piece.end):
                kept.append(piece.slice(cut, len(piece.end)))
        self._pieces = kept
        self._merge()
        return join_pieces(released) if released else None

    @property
    def first_end(self) -> int | None:
        """The earliest end of a row; None if there are none."""
        return min((int(piece.end[0]) for piece in self._pieces), default=None)

    def tables(self) -> list[pa.Table]:
        """The waiting rows, a table for each sorted piece."""
        return [plain_text(piece.table) for piece in self._pieces]

    def _merge(self) -> None:
        """Merge neighbours of like size: n rows in small pushes cost n log n, and few pieces are left to look at."""
        pieces = self._pieces
        while len(pieces) > 8 and len(pieces[-2].end) <= 2 * len(pieces[-1].end):
            last = pieces.pop()
            pieces[-1] = join_pieces([pieces[-1], last])
