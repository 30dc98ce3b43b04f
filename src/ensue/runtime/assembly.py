"""What assembling a plan gives: the program array, the stores it works on, and the columns that a batch must bring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ensue.pattern.normalize import Variable
from ensue.planning.conditions import Column, Filter
from ensue.runtime.layout import C_FIRST

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Store:
    """A store of the arena: its kind, its columns, and the key column of its index (None: no index).

    A scratch store is kept as large as the store that it `follows`. The rows of a `shared` one lie in the common leaf
    of that number; its index is its own.
    """

    number: int
    kind: int
    columns: int
    title: str
    key: int | None = None
    follows: int | None = None
    shared: int | None = None

    @property
    def width(self) -> int:
        """The columns in the state, with the index's links."""
        return (self.columns if self.shared is None else 0) + (self.key is not None)


@dataclass(slots=True)
class LeafSource:
    """A leaf: the events of one type that pass a filter. Its bit in a row's mask is its place in the list of leaves."""

    type: str
    filter: Filter
    negated: bool
    columns: list[Column]
    store: Store | None = None
    marks: int = 0  # absences that are noted beside its events

    def place(self, column: Column, partition: int) -> int:
        """The store's column that holds `column`."""
        return C_FIRST + partition + self.columns.index(column)

    def mark_place(self, number: int, partition: int) -> int:
        """The store's column of a mark, once all columns are known."""
        return C_FIRST + partition + len(self.columns) + number


@dataclass(frozen=True, slots=True)
class Assembly:
    """A plan as arrays. `attributes` are the columns that a batch brings, from T_ATTRIBUTES on."""

    program: Int64s
    stores: tuple[Store, ...]
    leaves: tuple[LeafSource, ...]
    attributes: tuple[Column, ...]
    partition: tuple[Column, ...]
    variables: tuple[Variable, ...]
    has_lists: bool
    head: int  # words of an output record before its variables
    window: int | None
    count_window: int | None
    intervals: bool
    strings: frozenset[int]
    uses_ranks: bool
    string_columns: tuple[tuple[int, int], ...]  # (store, column) pairs that hold string codes
    seq_columns: tuple[tuple[int, int], ...]  # and those that hold the sequence numbers of the oldest events
    policy: str = "ANY"
    types: tuple[str, ...] = ()
