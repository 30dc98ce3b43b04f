"""The state of an evaluator: one array with all its stores, how it is laid out, grown, and turned to bytes and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ensue.runtime import layout as at
from ensue.runtime.assembly import Assembly, Store

Int64s = npt.NDArray[np.int64]

SMALLEST = 64
_LARGE = 1024
"""From how many rows on a store that is full becomes twice as large, not four times."""
_SPARE, _LEFT = 32, 8
"""How many times as much room as it has needed a store may have, and how many it is left if it has more."""
PADDING = 64
"""Words behind the last column that block comparisons may read."""


def new_arena(stores: Sequence[Store], room: int = SMALLEST) -> Int64s:
    """An empty state, each of its stores with room for so many rows (a power of two)."""
    state = laid_out(stores, [1 if s.kind == at.KIND_TRIGGER else room for s in stores])
    state[at.S_DEPTH] = -1
    state[at.S_NOW] = at.NULL
    state[at.S_DEADLINE] = 2**63 - 1
    return state


def header(store: int) -> int:
    """The offset of a store's header."""
    return at.HEADERS + store * at.HEADER


def capacities_of(stores: Sequence[Store], state: Int64s) -> list[int]:
    """How many rows each store of a state has room for."""
    return [int(state[header(s.number) + at.H_CAPACITY]) for s in stores]


def laid_out(stores: Sequence[Store], capacities: Sequence[int]) -> Int64s:
    """A state whose stores are empty and have room for so many rows."""
    offset = header(len(stores))
    headers: list[list[int]] = []
    for store, capacity in zip(stores, capacities, strict=True):
        words = [0] * at.HEADER
        if store.kind == at.KIND_TRIGGER:
            words[at.H_OFFSET], words[at.H_CAPACITY], words[at.H_TAIL] = at.TRIGGER, 1, 1
            words[at.H_LINKS] = -1
            headers.append(words)
            continue
        buckets = 2 * capacity if store.key is not None else 0
        words[at.H_OFFSET] = offset
        words[at.H_CAPACITY] = capacity
        words[at.H_COLUMNS] = store.width
        words[at.H_PURGE] = 512
        words[at.H_LINKS] = offset + (store.width - 1) * capacity if store.key is not None else -1
        words[at.H_KEY] = -1 if store.key is None else store.key
        words[at.H_BUCKETS] = offset + store.width * capacity
        words[at.H_BUCKET_MASK] = buckets - 1
        words[at.H_KIND] = store.kind
        words[at.H_SHARED] = int(store.shared is not None)
        offset += store.width * capacity + buckets
        headers.append(words)
    state = np.zeros(offset + PADDING, dtype=np.int64)
    state[at.HEADERS : header(len(stores))] = [word for words in headers for word in words]
    return state


def larger(stores: Sequence[Store], state: Int64s, full: int, need: int) -> list[int]:
    """The capacities of a state in which one store needs more room.

    Each change copies the whole state. So a small store becomes four times as large, and those that are more than half
    full become larger too.
    """
    capacities = capacities_of(stores, state)
    capacities[full] *= 2 if capacities[full] >= _LARGE else 4
    while capacities[full] < need:
        capacities[full] *= 2
    for s in stores:
        if s.kind in (at.KIND_LEAF, at.KIND_NODE) and s.shared is None and s.number != full:
            live = int(state[header(s.number) + at.H_TAIL] - state[header(s.number) + at.H_HEAD])
            capacities[s.number] *= 2 if 2 * live > capacities[s.number] else 1
    return capacities


def smaller(stores: Sequence[Store], state: Int64s, needed: Sequence[int]) -> list[int]:
    """The capacities of a state without the room that stores have far more of than the rows that they have needed."""
    capacities = capacities_of(stores, state)
    for s in stores:
        is_own = s.kind in (at.KIND_LEAF, at.KIND_NODE, at.KIND_PENDING, at.KIND_LIST) and s.shared is None
        if is_own and capacities[s.number] > max(_LARGE, _SPARE * needed[s.number]):
            capacities[s.number] = 1 << (max(_LARGE, _LEFT * needed[s.number]) - 1).bit_length()
    return capacities


def resized(
    assembly: Assembly, state: Int64s, capacities: Sequence[int], attach: Callable[[Int64s], None] | None = None
) -> Int64s:
    """The state with other capacities; rows keep their places, so that a search can go on.

    `attach` lets the views of common leaves point to where the rows lie.
    """
    from ensue.runtime.kernels.stores import rebuild_index, recount

    stores = assembly.stores
    capacities = [capacities[s.number if s.follows is None else s.follows] for s in stores]
    fresh = laid_out(stores, capacities)
    fresh[: at.HEADERS] = state[: at.HEADERS]
    if attach is not None:
        attach(fresh)
    for s in stores:
        if s.kind == at.KIND_TRIGGER:
            continue
        h = header(s.number)
        for field in (at.H_HEAD, at.H_TAIL, at.H_BASE, at.H_PURGE):
            fresh[h + field] = state[h + field]
        before, after = _table(state, s), _table(fresh, s)
        old, new = before.shape[1], after.shape[1]
        if s.kind == at.KIND_COUNTERS and old != new:
            recount(assembly.program, state, fresh, h)
            continue
        rows = min(old, new) if s.kind in (at.KIND_SCRATCH, at.KIND_COUNTERS) else int(state[h + at.H_TAIL])
        if s.key is None or old == new:
            after[:, :rows] = before[:, :rows]
        else:
            rows = min(rows, old)  # a new view of common rows begins behind these, and has indexed none
            after[: s.width - 1, :rows] = before[: s.width - 1, :rows]
            rebuild_index(fresh, h)
        if s.key is not None and old == new:
            first, mask = int(state[h + at.H_BUCKETS]), int(state[h + at.H_BUCKET_MASK])
            target = int(fresh[h + at.H_BUCKETS])
            fresh[target : target + mask + 1] = state[first : first + mask + 1]
    return fresh


def _table(state: Int64s, store: Store) -> npt.NDArray[np.int64]:
    """The columns of a store that lie in the state, those of its index too, by all rows that there is room for."""
    h = header(store.number)
    if store.shared is None:
        capacity, offset = int(state[h + at.H_CAPACITY]), int(state[h + at.H_OFFSET])
    else:
        capacity, offset = index_room(state, store), int(state[h + at.H_LINKS])
    return state[offset : offset + store.width * capacity].reshape(store.width, capacity)


def index_room(state: Int64s, store: Store) -> int:
    """How many rows a store's index has room for; 0 if it has none."""
    return (int(state[header(store.number) + at.H_BUCKET_MASK]) + 1) // 2


def rows_of(state: Int64s, store: Store) -> npt.NDArray[np.int64]:
    """The live rows of a store that lie in the state, columns by rows."""
    h = header(store.number)
    return _table(state, store)[: store.columns, int(state[h + at.H_HEAD]) : int(state[h + at.H_TAIL])]
