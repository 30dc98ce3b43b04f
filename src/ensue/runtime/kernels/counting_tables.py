"""The tables of slots and groups: rows found by their keys, taken and given back."""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import words as address
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.counting_cells import make_identity
from ensue.runtime.kernels.counting_layout import (
    G_FIRST,
    G_IS_TOUCHED,
    G_KEYS,
    G_SLOTS,
    H_FREE_SLOT,
    H_GROUP_AT,
    H_GROUP_ROOM,
    H_GROUPS,
    H_KEYS_AT,
    H_SLOT_AT,
    H_SLOT_ROOM,
    H_SLOTS,
    H_START_AT,
    H_START_ROOM,
    H_TOUCHED,
    H_TOUCHED_AT,
    INVERSE,
    LINKED,
    P_COLUMNS,
    P_GROUP,
    P_GROUP_TABLE,
    P_GROUP_WIDTH,
    P_KEY,
    P_METHOD,
    P_SLOT_DATA,
    P_SLOT_WIDTH,
    P_START_WIDTH,
    PREFIX,
    S_AFTER,
    S_BEFORE,
    S_BOUND,
    S_FRONT,
    S_GENERATION,
    S_GROUP,
    S_KEYS,
    S_LAST,
    S_LIVE,
    S_NEWEST,
    S_STALE,
    S_STARTS,
    STACKS,
)


@inner
def hash_words(S, at, words, mask):  # type: ignore[no-untyped-def]
    """A bucket for the key at `at`."""
    mixed = np.uint64(0)
    for k in range(words):
        mixed = (mixed ^ np.uint64(S[at + k])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed >> np.uint64(31)) & np.uint64(mask))


@inner
def same_words(S, a, b, words):  # type: ignore[no-untyped-def]
    """Whether two keys are equal."""
    for k in range(words):
        if S[a + k] != S[b + k]:
            return False
    return True


@inner
def find_row(S, table, width, key_at, words, key):  # type: ignore[no-untyped-def]
    """The row of a table (its H_…_ROOM, with the table and its index behind it) with a key; -1 if there is none."""
    rows, index = S[table + 1], S[table + 2]
    row = S[index + hash_words(S, key, words, 2 * S[table] - 1)]
    while row >= 0:
        if same_words(S, rows + row * width + key_at, key, words):
            return row
        row = S[rows + row * width]
    return np.int64(-1)


@inner
def take_row(S, table, used, width, key_at, words, key):  # type: ignore[no-untyped-def]
    """A new row for a key; the caller has seen to it that there is room. `used` has H_FREE_… and H_LIVE_… behind it."""
    rows, index = S[table + 1], S[table + 2]
    row = S[used + 1]
    if row >= 0:
        S[used + 1] = S[rows + row * width]
    else:
        row = S[used]
        S[used] += 1
    S[used + 2] += 1
    place = rows + row * width
    for k in range(width):
        S[place + k] = 0
    for k in range(words):
        S[place + key_at + k] = S[key + k]
    bucket = index + hash_words(S, key, words, 2 * S[table] - 1)
    S[place] = S[bucket]
    S[bucket] = row
    return row


@inner
def give_row(S, table, used, width, key_at, words, row):  # type: ignore[no-untyped-def]
    """Take a row out of the index and put it with the free ones."""
    rows, index = S[table + 1], S[table + 2]
    place = rows + row * width
    at = index + hash_words(S, place + key_at, words, 2 * S[table] - 1)
    while S[at] != row:
        at = rows + S[at] * width
    S[at] = S[place]
    S[place] = S[used + 1]
    S[used + 1] = row
    S[used + 2] -= 1


@inner
def find_group(P, S):  # type: ignore[no-untyped-def]
    """The group of the group's key in the scratch, made if need be; where it lies."""
    words, width, key = P[P_GROUP], P[P_GROUP_WIDTH], S[H_KEYS_AT]
    group = find_row(S, H_GROUP_ROOM, width, G_KEYS, words, key)
    if group < 0:
        group = take_row(S, H_GROUP_ROOM, H_GROUPS, width, G_KEYS, words, key)
        S[S[H_GROUP_AT] + group * width + G_FIRST] = -1
    return group


@inner
def touch_group(P, S, group):  # type: ignore[no-untyped-def]
    """Put a group on the list of those to look at when the time is over."""
    place = S[H_GROUP_AT] + group * P[P_GROUP_WIDTH] + G_IS_TOUCHED
    if S[place] == 0:
        S[place] = 1
        S[S[H_TOUCHED_AT] + S[H_TOUCHED]] = group
        S[H_TOUCHED] += 1


@inner
def choose_group_key(P, S):  # type: ignore[no-untyped-def]
    """Put the words of the key in the scratch that are its group's before it."""
    at = S[H_KEYS_AT]
    for k in range(P[P_GROUP]):
        S[at + k] = S[at + P[P_GROUP] + P[P[P_GROUP_TABLE] + k]]


@inner
def slot_place(P, S, slot):  # type: ignore[no-untyped-def]
    """Where a slot lies."""
    return S[H_SLOT_AT] + slot * P[P_SLOT_WIDTH]


@inner
def start_place(P, S, number):  # type: ignore[no-untyped-def]
    """Where a start lies."""
    return S[H_START_AT] + (number & (S[H_START_ROOM] - 1)) * P[P_START_WIDTH]


@inner
def empty_slot(P, S, slot):  # type: ignore[no-untyped-def]
    """A slot as if no event had come; entries of before are void."""
    place = slot_place(P, S, slot)
    S[place + S_LIVE] = S[place + S_STARTS] = S[place + S_STALE] = 0
    S[place + S_NEWEST] = S[place + S_FRONT] = S[place + S_LAST] = S[place + S_BOUND] = -1
    S[place + S_GENERATION] += 1
    data = place + P[P_SLOT_DATA]
    method = P[P_METHOD]
    if method == STACKS or method == INVERSE:
        make_identity(P, S, data)
    elif method == LINKED:
        for k in range(P[P_COLUMNS]):
            S[data + k] = -1
    elif method == PREFIX:
        S[data] = 1


@inner
def find_slot(P, S, make):  # type: ignore[no-untyped-def]
    """The slot of the key in the scratch, made if wanted; -1 if there is none."""
    words, width, key = P[P_KEY], P[P_SLOT_WIDTH], S[H_KEYS_AT] + P[P_GROUP]
    slot = find_row(S, H_SLOT_ROOM, width, S_KEYS, words, key)
    if slot >= 0 or not make:
        return slot
    generation = np.int64(0)
    if S[H_FREE_SLOT] >= 0:
        generation = S[slot_place(P, S, S[H_FREE_SLOT]) + S_GENERATION]
    slot = take_row(S, H_SLOT_ROOM, H_SLOTS, width, S_KEYS, words, key)
    place = slot_place(P, S, slot)
    S[place + S_GENERATION] = generation
    empty_slot(P, S, slot)
    choose_group_key(P, S)
    group = find_group(P, S)
    S[place + S_GROUP] = group
    home = S[H_GROUP_AT] + group * P[P_GROUP_WIDTH]
    first = S[home + G_FIRST]
    S[place + S_AFTER], S[place + S_BEFORE] = first, -1
    if first >= 0:
        S[slot_place(P, S, first) + S_BEFORE] = slot
    S[home + G_FIRST] = slot
    S[home + G_SLOTS] += 1
    return slot


@inner
def give_slot(P, S, slot):  # type: ignore[no-untyped-def]
    """Give a slot back that holds nothing any more."""
    place = slot_place(P, S, slot)
    home = S[H_GROUP_AT] + S[place + S_GROUP] * P[P_GROUP_WIDTH]
    after, before = S[place + S_AFTER], S[place + S_BEFORE]
    if before >= 0:
        S[slot_place(P, S, before) + S_AFTER] = after
    else:
        S[home + G_FIRST] = after
    if after >= 0:
        S[slot_place(P, S, after) + S_BEFORE] = before
    S[home + G_SLOTS] -= 1
    give_row(S, H_SLOT_ROOM, H_SLOTS, P[P_SLOT_WIDTH], S_KEYS, P[P_KEY], slot)


@inner
def give_group(P, S, group):  # type: ignore[no-untyped-def]
    """Give a group back that has no slot and nothing left to report."""
    give_row(S, H_GROUP_ROOM, H_GROUPS, P[P_GROUP_WIDTH], G_KEYS, P[P_GROUP], group)


@kernel
def rebuild_index(state, is_free, table, used, width, key_at, words):  # type: ignore[no-untyped-def]
    """Fill the index of a table anew with the rows that are not free."""
    S = address(state)
    rows, index = S[table + 1], S[table + 2]
    for k in range(2 * S[table]):
        S[index + k] = -1
    for row in range(S[used]):
        if is_free[row] == 0:
            bucket = index + hash_words(S, rows + row * width + key_at, words, 2 * S[table] - 1)
            S[rows + row * width] = S[bucket]
            S[bucket] = row


@kernel
def move_ring(old, new, ring, head, tail, width):  # type: ignore[no-untyped-def]
    """Put the live rows of a ring where they belong in a state with another room for it."""
    A, B = address(old), address(new)
    for number in range(A[head], A[tail]):
        a = A[ring + 1] + (number & (A[ring] - 1)) * width
        b = B[ring + 1] + (number & (B[ring] - 1)) * width
        for k in range(width):
            B[b + k] = A[a + k]
