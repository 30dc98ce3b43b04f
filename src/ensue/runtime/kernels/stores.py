"""Stores in the arena: expiry, purging, room, the equality index and the partitions' counters."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import count_bits, link, mark_greater, spread, words
from ensue.runtime.kernels.columns import SPARE, copy_chosen, copy_each
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    C_FIRST,
    C_POSITION,
    D_LIST_TABLE,
    D_LISTS,
    D_STORE,
    H_BASE,
    H_BUCKET_MASK,
    H_BUCKETS,
    H_CAPACITY,
    H_COLUMNS,
    H_HEAD,
    H_KEY,
    H_KIND,
    H_LINKS,
    H_OFFSET,
    H_PURGE,
    H_SHARED,
    H_TAIL,
    HEADER,
    HEADERS,
    KIND_LEAF,
    KIND_LINKS,
    KIND_LIST,
    KIND_NODE,
    KIND_PENDING,
    KIND_RUNS,
    LINK_END,
    N_ALIVE,
    N_STORE,
    NULL,
    P_COUNT_WINDOW,
    P_COUNTERS,
    P_LIST_STORE,
    P_PARTITION_COLUMNS,
    P_PENDING_TABLE,
    P_PENDINGS,
    P_RUN_TABLE,
    P_RUNS,
    P_SLACK,
    P_STORES,
    P_WINDOW,
    PENDING_DEADLINE,
    PENDING_RECORD,
    RUN_RECORD,
    S_FAULT,
    S_NEED,
    S_NOW,
    T_ATTRIBUTES,
    T_FLOOR,
    T_POSITION_FLOOR,
    TRIGGER,
)


@inner
def is_empty(P, S, header):  # type: ignore[no-untyped-def]
    """Whether no row of a leaf or node store can be in a match any more, as far as its newest row tells."""
    tail = S[header + H_TAIL]
    if S[header + H_HEAD] >= tail:
        return True
    if P[P_WINDOW] == NULL:
        return False
    return S[S[header + H_OFFSET] + C_END * S[header + H_CAPACITY] + tail - 1] <= S[TRIGGER + T_FLOOR]


@inner
def reindex(S, header):  # type: ignore[no-untyped-def]
    """Build the equality index of a store anew from its rows."""
    if S[header + H_LINKS] < 0:
        return
    first = S[header + H_BUCKETS]
    for k in range(S[header + H_BUCKET_MASK] + 1):
        S[first + k] = 0
    keys = S[header + H_OFFSET] + S[header + H_KEY] * S[header + H_CAPACITY]
    for row in range(S[header + H_HEAD], S[header + H_TAIL]):
        if S[keys + row] != NULL:
            link(S, header, row, S[keys + row])


@inner
def find_slot(S, header, keys, K, first, stride):  # type: ignore[no-untyped-def]
    """The slot of a partition's counter, or a free one: the key's values lie in K at first + k * stride."""
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    mixed = np.int64(0)
    for k in range(keys):
        mixed = spread(mixed * 31 + K[first + k * stride])
    slot = mixed & (capacity - 1)
    while S[offset + slot] != 0:
        same = True
        for k in range(keys):
            if S[offset + (k + 1) * capacity + slot] != K[first + k * stride]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & (capacity - 1)
    return slot


@inner
def find_counter(P, S, first, stride):  # type: ignore[no-untyped-def]
    """The slot of the counter of the partition whose key's values lie in S at first + k * stride."""
    return find_slot(S, HEADERS + P[P_COUNTERS] * HEADER, P[P_PARTITION_COLUMNS], S, first, stride)


@inner
def count_event(P, S):  # type: ignore[no-untyped-def]
    """Count the trigger in its partition; its position, counted from 1, or -1 if the counters need room."""
    store = P[P_COUNTERS]
    header = HEADERS + store * HEADER
    capacity = S[header + H_CAPACITY]
    slot = find_counter(P, S, TRIGGER + T_ATTRIBUTES, 1)
    offset = S[header + H_OFFSET]
    if S[offset + slot] == 0:
        if 2 * (S[header + H_TAIL] + 1) > capacity:
            S[S_FAULT] = store
            S[S_NEED] = capacity + 1
            return np.int64(-1)
        S[header + H_TAIL] += 1
        for k in range(P[P_PARTITION_COLUMNS]):
            S[offset + (k + 1) * capacity + slot] = S[TRIGGER + T_ATTRIBUTES + k]
    S[offset + slot] += 1
    return S[offset + slot]


@inner
def run_record(P, S, header):  # type: ignore[no-untyped-def]
    """The record of the branch whose runs a store holds."""
    store = (header - HEADERS) // HEADER
    for k in range(P[P_RUNS]):
        if P[P[P_RUN_TABLE] + k * RUN_RECORD + N_STORE] == store:
            return P[P_RUN_TABLE] + k * RUN_RECORD
    return P[P_RUN_TABLE]


@inner
def is_live(P, S, header, row):  # type: ignore[no-untyped-def]
    """Whether a row can still matter."""
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    if S[header + H_KIND] == KIND_PENDING:
        return S[offset + PENDING_DEADLINE * capacity + row] != NULL
    if S[header + H_KIND] == KIND_RUNS:
        return S[offset + P[run_record(P, S, header) + N_ALIVE] * capacity + row] == 1
    if P[P_COUNT_WINDOW] != NULL:
        floor = S[TRIGGER + T_POSITION_FLOOR]
        if P[P_COUNTERS] >= 0:
            counters = HEADERS + P[P_COUNTERS] * HEADER
            slot = find_counter(P, S, offset + C_FIRST * capacity + row, capacity)
            floor = S[S[counters + H_OFFSET] + slot] - P[P_COUNT_WINDOW]
        return S[offset + C_POSITION * capacity + row] > floor - P[P_SLACK]
    if P[P_WINDOW] == NULL:
        return True
    return S[offset + C_BEGIN * capacity + row] > S[TRIGGER + T_FLOOR] - P[P_SLACK]


@inner
def expire(P, S, header):  # type: ignore[no-untyped-def]
    """Move a store's head past the rows that have left the window, as far as they lie at the front."""
    kind = S[header + H_KIND]
    column = C_BEGIN if kind == KIND_LEAF else C_END
    floor = S[TRIGGER + T_FLOOR] - P[P_SLACK]
    if P[P_COUNT_WINDOW] != NULL:
        head = S[header + H_HEAD]
        while head < S[header + H_TAIL] and kind == KIND_LEAF and not is_live(P, S, header, head):
            head += 1
        S[header + H_HEAD] = head
        return
    if P[P_WINDOW] == NULL:
        return
    base = S[header + H_OFFSET] + column * S[header + H_CAPACITY]
    head = S[header + H_HEAD]
    tail = S[header + H_TAIL]
    while head < tail and S[base + head] <= floor:
        head += 1
    S[header + H_HEAD] = head


@inner
def drop_front(S, header, rows):  # type: ignore[no-untyped-def]
    """Move everything `rows` forward; absolute positions stay what they are, so the index needs no change."""
    if rows == 0:
        return
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    tail = S[header + H_TAIL]
    for c in range(S[header + H_COLUMNS]):
        start = offset + c * capacity
        for row in range(rows, tail):
            S[start + row - rows] = S[start + row]
    S[header + H_HEAD] = max(0, S[header + H_HEAD] - rows)
    S[header + H_TAIL] = tail - rows
    S[header + H_BASE] += rows


@inner
def keep_after(S, header, column, floor):  # type: ignore[no-untyped-def]
    """Drop the rows whose least begin or position is not after a number: quickly, since an event waits meanwhile.

    Column after column, which processors read ahead, the one that decides last. Rows only move forward: what is
    overwritten has been read.
    """
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    columns = S[header + H_COLUMNS]
    kept = np.int64(0)
    for k in range(columns):
        c = column if k == columns - 1 else k + np.int64(k >= column)
        kept = pack_column(S, header, offset + c * capacity, offset + column * capacity, floor)
    S[header + H_HEAD] = 0
    S[header + H_TAIL] = kept
    reindex(S, header)


@inner
def pack_column(S, header, column, decides, floor):  # type: ignore[no-untyped-def]
    """Move what a column has of the rows whose number in another is after `floor` to its front; how many they are."""
    capacity = S[header + H_CAPACITY]
    tail = S[header + H_TAIL]
    kept = np.int64(0)
    for block in range(S[header + H_HEAD], tail, 64):
        count = min(tail - block, 64)
        mask = mark_greater(S, decides + block, floor, count)
        left = count_bits(mask)
        if left < count or kept < block:
            if kept + SPARE <= capacity:
                copy_chosen(S, S, column + block, column + kept, mask)
            else:
                copy_each(S, S, column + block, column + kept, mask)
        kept += left
    return kept


@inner
def purge(P, S, header):  # type: ignore[no-untyped-def]
    """Drop the rows that cannot matter any more; how many are left."""
    kind = S[header + H_KIND]
    if S[header + H_SHARED] == 1:
        expire(P, S, header)
        return S[header + H_TAIL]
    if kind == KIND_LEAF and (P[P_COUNTERS] < 0 or P[P_LIST_STORE] >= 0):
        expire(P, S, header)
        drop_front(S, header, S[header + H_HEAD])
        return S[header + H_TAIL]
    if kind == KIND_LIST:
        oldest = S[header + H_BASE] + S[header + H_TAIL]
        for d in range(P[P_PENDINGS]):
            record = P[P_PENDING_TABLE] + d * PENDING_RECORD
            waiting = HEADERS + P[record + D_STORE] * HEADER
            for k in range(P[record + D_LISTS]):
                column = P[P[record + D_LIST_TABLE] + 2 * k + 1]
                firsts = S[waiting + H_OFFSET] + column * S[waiting + H_CAPACITY]
                for row in range(S[waiting + H_TAIL]):
                    if is_live(P, S, waiting, row):
                        oldest = min(oldest, S[firsts + row])
        drop_front(S, header, oldest - S[header + H_BASE])
        return S[header + H_TAIL]
    if kind == KIND_LINKS:  # a run's links are not older than the run
        oldest = S[S_NOW] + 1
        for k in range(P[P_RUNS]):
            runs = HEADERS + P[P[P_RUN_TABLE] + k * RUN_RECORD + N_STORE] * HEADER
            for row in range(S[runs + H_HEAD], S[runs + H_TAIL]):
                if is_live(P, S, runs, row):
                    oldest = min(oldest, S[S[runs + H_OFFSET] + C_END * S[runs + H_CAPACITY] + row])
                    break
        ends = S[header + H_OFFSET] + LINK_END * S[header + H_CAPACITY]
        gone = np.int64(0)
        while gone < S[header + H_TAIL] and S[ends + gone] < oldest:
            gone += 1
        drop_front(S, header, gone)
        return S[header + H_TAIL]
    if kind != KIND_LEAF and kind != KIND_NODE and kind != KIND_PENDING and kind != KIND_RUNS:
        return S[header + H_TAIL]
    offset = S[header + H_OFFSET]
    capacity = S[header + H_CAPACITY]
    kept = np.int64(0)
    if kind == KIND_NODE and P[P_COUNTERS] < 0:
        if P[P_COUNT_WINDOW] != NULL:
            keep_after(S, header, C_POSITION, S[TRIGGER + T_POSITION_FLOOR] - P[P_SLACK])
        elif P[P_WINDOW] != NULL:
            keep_after(S, header, C_BEGIN, S[TRIGGER + T_FLOOR] - P[P_SLACK])
        return S[header + H_TAIL]
    for row in range(S[header + H_HEAD], S[header + H_TAIL]):
        if is_live(P, S, header, row):
            if kept != row:
                for c in range(S[header + H_COLUMNS]):
                    S[offset + c * capacity + kept] = S[offset + c * capacity + row]
            kept += 1
    S[header + H_HEAD] = 0
    S[header + H_TAIL] = kept
    reindex(S, header)
    return kept


@inner
def has_room(P, S, store, rows):  # type: ignore[no-untyped-def]
    """Whether so many rows can be appended, after purging where that is due; if not, what is needed stands in S.

    A purge comes when the store is twice what the last one left: scans stay short, and a row is moved O(1) times.
    """
    header = HEADERS + store * HEADER
    capacity = S[header + H_CAPACITY]
    tail = S[header + H_TAIL]
    if tail + rows <= min(capacity, S[header + H_PURGE]):
        return True
    live = purge(P, S, header)
    S[header + H_PURGE] = 2 * live + 512
    if live + rows <= capacity and 2 * live <= capacity:
        S[header + H_PURGE] = max(S[header + H_PURGE], live + rows)
        return True
    S[header + H_PURGE] = max(S[header + H_PURGE], live + rows)
    S[S_FAULT] = store
    S[S_NEED] = live + rows
    return False


@kernel
def recount(program, before, after, header):  # type: ignore[no-untyped-def]
    """Copy the partitions' counters into a larger table."""
    P, old, new = words(program), words(before), words(after)
    keys = P[P_PARTITION_COLUMNS]
    capacity = old[header + H_CAPACITY]
    source = old[header + H_OFFSET]
    target = new[header + H_OFFSET]
    room = new[header + H_CAPACITY]
    for row in range(capacity):
        if old[source + row] != 0:
            slot = find_slot(new, header, keys, old, source + capacity + row, capacity)
            new[target + slot] = old[source + row]
            for k in range(keys):
                new[target + (k + 1) * room + slot] = old[source + (k + 1) * capacity + row]


@kernel
def purge_all(program, state):  # type: ignore[no-untyped-def]
    """Purge every store, as of the last event's time."""
    P, S = words(program), words(state)
    if P[P_WINDOW] != NULL and S[S_NOW] != NULL:
        S[TRIGGER + T_FLOOR] = S[S_NOW] - P[P_WINDOW]
    for store in range(1, P[P_STORES]):
        purge(P, S, HEADERS + store * HEADER)


@kernel
def rebuild_index(state, header):  # type: ignore[no-untyped-def]
    """`reindex` for callers that hold the array."""
    reindex(words(state), header)
