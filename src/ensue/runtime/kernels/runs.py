"""NEXT and STRICT: one run from each event that can be first, which takes events without branching.

A run holds where its events lie in their leaves: a position for a single event, a chain of links for a list. An event
is appended to its leaves before it is offered to the runs, and taken off again if none takes it.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import floats, link, spread, trailing_zeros, words
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.machine import all_hold
from ensue.runtime.kernels.output import emit, must_wait, wait
from ensue.runtime.kernels.search import search, settle
from ensue.runtime.kernels.step import LEAF_BITS, begin_event, report_due, store_event
from ensue.runtime.kernels.stores import has_room
from ensue.runtime.layout import (
    C_BEGIN,
    C_END,
    C_EXTRA,
    C_FIRST,
    C_KEY,
    C_POSITION,
    COMPLETE_WAIT,
    COUNTED_BIT,
    D_LISTS,
    D_STORE,
    DEPTH_BEGIN,
    DONE,
    G_COMPLETE,
    G_PENDING,
    G_STEP_TABLE,
    H_BASE,
    H_BUCKET_MASK,
    H_BUCKETS,
    H_CAPACITY,
    H_HEAD,
    H_LINKS,
    H_OFFSET,
    H_TAIL,
    HEADER,
    HEADERS,
    ITEM_RECORD,
    KLEENE_AT,
    KLEENE_COUNT,
    KLEENE_LIST,
    KLEENE_SCRATCH,
    KLEENE_STORE,
    KLEENE_TAIL,
    L_PROGRAM_TABLE,
    L_PROGRAMS,
    L_STORE,
    LEAF_RECORD,
    LINK_END,
    LINK_POSITION,
    LINK_PREVIOUS,
    M_BIT,
    M_CLOSE,
    M_CLOSES,
    M_COLUMN,
    M_MAXIMUM,
    M_MINIMUM,
    M_SCRATCH,
    M_SLOT,
    M_STORE,
    M_TAKE,
    M_TAKES,
    N_ALIVE,
    N_ITEM_TABLE,
    N_ITEMS,
    N_PLACE,
    N_PROGRAM,
    N_STORE,
    NULL,
    OUTPUT_FULL,
    P_COUNT_WINDOW,
    P_LEAF_TABLE,
    P_LINK_STORE,
    P_LIST_STORE,
    P_PARTITION_COLUMNS,
    P_PENDING_TABLE,
    P_PENDINGS,
    P_RUN_TABLE,
    P_RUNS,
    P_STRICT,
    P_WIDTH,
    P_WINDOW,
    PENDING_RECORD,
    PROGRAM_RECORD,
    RUN_RECORD,
    S_DEADLINE,
    S_DEPTH,
    S_ENDED,
    S_LEAF,
    S_NOW,
    S_OUT,
    S_PHASE,
    S_PROGRAM,
    S_ROOM,
    S_ROW,
    S_RUN,
    SAVED_KEY,
    SOURCE_ROW,
    SOURCE_STORE,
    STORE_FULL,
    T_ATTRIBUTES,
    T_BEGIN,
    T_END,
    T_FLOOR,
    T_KEY,
    T_MASK,
    T_POSITION,
    T_POSITION_FLOOR,
    TRIGGER,
)

FRESH = -2  # of a cursor: not set yet


@inner
def cell(S, store, column, row):  # type: ignore[no-untyped-def]
    """The place of a store's value in S."""
    h = HEADERS + store * HEADER
    return S[h + H_OFFSET] + column * S[h + H_CAPACITY] + row


@inner
def bind_run(P, S, record, row, last):  # type: ignore[no-untyped-def]
    """Bind the items up to `last` to what a run has taken: sources to rows, slots to lists."""
    store = P[record + N_STORE]
    for k in range(last + 1):
        item = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        leaf = P[item + M_STORE]
        base = S[HEADERS + leaf * HEADER + H_BASE]
        slot = P[item + M_SLOT]
        S[SOURCE_STORE + k + 1] = leaf
        if slot < 0:
            S[SOURCE_ROW + k + 1] = S[cell(S, store, P[item + M_COLUMN], row)] - base
            continue
        S[SOURCE_ROW + k + 1] = -1
        S[KLEENE_STORE + slot] = leaf
        S[KLEENE_SCRATCH + slot] = P[item + M_SCRATCH]
        S[KLEENE_TAIL + slot] = 0
        S[KLEENE_LIST + slot] = -1
        count = S[cell(S, store, P[item + M_COLUMN] + 1, row)]
        S[KLEENE_COUNT + slot] = count
        position = S[cell(S, store, P[item + M_COLUMN], row)]
        links = HEADERS + P[P_LINK_STORE] * HEADER
        for i in range(count - 1, -1, -1):
            here = position - S[links + H_BASE]
            S[cell(S, P[item + M_SCRATCH], 0, i)] = S[cell(S, P[P_LINK_STORE], LINK_POSITION, here)] - base
            S[cell(S, P[item + M_SCRATCH], 1, i)] = i
            position = S[cell(S, P[P_LINK_STORE], LINK_PREVIOUS, here)]


@inner
def count_of(P, S, record, row, place):  # type: ignore[no-untyped-def]
    """How many events an item of a run has taken."""
    item = P[record + N_ITEM_TABLE] + place * ITEM_RECORD
    store = P[record + N_STORE]
    if P[item + M_SLOT] < 0:
        return np.int64(S[cell(S, store, P[item + M_COLUMN], row)] >= 0)
    return S[cell(S, store, P[item + M_COLUMN] + 1, row)]


@inner
def can_take(P, S, R, record, row, opened, place):  # type: ignore[no-untyped-def]
    """Whether the item at `place` can take the trigger: its filter, the conditions with what is bound, closed lists."""
    item = P[record + N_ITEM_TABLE] + place * ITEM_RECORD
    if not (np.uint64(S[TRIGGER + T_MASK]) >> np.uint64(P[item + M_BIT])) & np.uint64(1):
        return False
    conditions = P[item + M_TAKES]
    for k in range(opened, place):
        conditions += P[P[record + N_ITEM_TABLE] + k * ITEM_RECORD + M_CLOSES]
    if conditions == 0:
        return True
    bind_run(P, S, record, row, place)
    for k in range(opened, place):
        before = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        if not all_hold(P, S, R, P[before + M_CLOSE], P[before + M_CLOSES]):
            return False
    newest = S[HEADERS + P[item + M_STORE] * HEADER + H_TAIL] - 1
    slot = P[item + M_SLOT]
    if slot < 0:
        S[SOURCE_ROW + place + 1] = newest
    else:
        count = S[KLEENE_COUNT + slot]
        S[cell(S, P[item + M_SCRATCH], 0, count)] = newest
        S[cell(S, P[item + M_SCRATCH], 1, count)] = count
        S[KLEENE_COUNT + slot] = count + 1
        S[KLEENE_AT + slot] = count
    return all_hold(P, S, R, P[item + M_TAKE], P[item + M_TAKES])


@inner
def take(P, S, record, row, place):  # type: ignore[no-untyped-def]
    """Let an item of a run take the trigger, which its leaf holds already."""
    item = P[record + N_ITEM_TABLE] + place * ITEM_RECORD
    store = P[record + N_STORE]
    leaf = HEADERS + P[item + M_STORE] * HEADER
    position = S[leaf + H_BASE] + S[leaf + H_TAIL] - 1
    column = P[item + M_COLUMN]
    if P[item + M_SLOT] < 0:
        S[cell(S, store, column, row)] = position
    else:
        links = HEADERS + P[P_LINK_STORE] * HEADER
        free = S[links + H_TAIL]
        S[cell(S, P[P_LINK_STORE], LINK_END, free)] = S[S_NOW]
        S[cell(S, P[P_LINK_STORE], LINK_POSITION, free)] = position
        S[cell(S, P[P_LINK_STORE], LINK_PREVIOUS, free)] = S[cell(S, store, column, row)]
        S[links + H_TAIL] = free + 1
        S[cell(S, store, column, row)] = S[links + H_BASE] + free
        S[cell(S, store, column + 1, row)] += 1
    S[cell(S, store, P[record + N_PLACE], row)] = place
    S[cell(S, store, C_EXTRA, row)] = S[TRIGGER + T_END]
    S[S_PROGRAM] |= np.int64(1) << P[item + M_BIT]  # the leaves that must keep the event


@inner
def offer(P, S, R, record, row):  # type: ignore[no-untyped-def]
    """Offer the trigger to a run: the furthest item that can take it does; False if none can."""
    store = P[record + N_STORE]
    if S[TRIGGER + T_BEGIN] <= S[cell(S, store, C_EXTRA, row)]:
        return False
    if P[P_WINDOW] != NULL and S[cell(S, store, C_BEGIN, row)] <= S[TRIGGER + T_FLOOR]:
        return False
    if P[P_COUNT_WINDOW] != NULL and S[cell(S, store, C_POSITION, row)] <= S[TRIGGER + T_POSITION_FLOOR]:
        return False
    opened = S[cell(S, store, P[record + N_PLACE], row)]
    furthest = opened
    while furthest < P[record + N_ITEMS]:
        item = P[record + N_ITEM_TABLE] + furthest * ITEM_RECORD
        if count_of(P, S, record, row, furthest) < P[item + M_MINIMUM]:
            break
        furthest += 1
    for place in range(min(furthest, P[record + N_ITEMS] - 1), opened - 1, -1):
        item = P[record + N_ITEM_TABLE] + place * ITEM_RECORD
        if count_of(P, S, record, row, place) < P[item + M_MAXIMUM] and can_take(P, S, R, record, row, opened, place):
            take(P, S, record, row, place)
            return True
    return False


@inner
def is_full(P, S, record, row):  # type: ignore[no-untyped-def]
    """Whether the last item of a run has all that it can take."""
    last = P[record + N_ITEMS] - 1
    item = P[record + N_ITEM_TABLE] + last * ITEM_RECORD
    return count_of(P, S, record, row, last) >= P[item + M_MAXIMUM]


@inner
def lacks_room(P, S, O, record):  # type: ignore[no-untyped-def]
    """DONE if a run may take an event and be reported; else which room is lacking."""
    if P[P_LINK_STORE] >= 0 and not has_room(P, S, P[P_LINK_STORE], 1):
        return STORE_FULL
    elements = 0
    for k in range(P[record + N_ITEMS]):
        item = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        if P[item + M_SLOT] >= 0:
            elements += S[HEADERS + P[item + M_STORE] * HEADER + H_TAIL] + 1
    program = P[record + N_PROGRAM]
    if S[S_OUT] + P[P_WIDTH] + elements + 2 > S[S_ROOM]:
        return OUTPUT_FULL
    if P[program + G_COMPLETE] == COMPLETE_WAIT:
        pending = P[P_PENDING_TABLE] + P[program + G_PENDING] * PENDING_RECORD
        if not has_room(P, S, P[pending + D_STORE], 1):
            return STORE_FULL
        if P[pending + D_LISTS] > 0 and not has_room(P, S, P[P_LIST_STORE], elements + 2):
            return STORE_FULL
    return DONE


@inner
def close(P, S, F, R, O, record, row, known):  # type: ignore[no-untyped-def]
    """End a run. It is a match, known at `known`, if the rest may be empty and conditions and absences allow it."""
    store = P[record + N_STORE]
    S[cell(S, store, P[record + N_ALIVE], row)] = 0
    items = P[record + N_ITEMS]
    opened = S[cell(S, store, P[record + N_PLACE], row)]
    for k in range(opened, items):
        item = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        if count_of(P, S, record, row, k) < P[item + M_MINIMUM]:
            return
    bind_run(P, S, record, row, items - 1)
    for k in range(opened, items):
        item = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        if not all_hold(P, S, R, P[item + M_CLOSE], P[item + M_CLOSES]):
            return
    begin = S[cell(S, store, C_BEGIN, row)]
    end = S[cell(S, store, C_EXTRA, row)]
    floor = S[TRIGGER + T_FLOOR]
    position_floor = S[TRIGGER + T_POSITION_FLOOR]
    key = S[TRIGGER + T_KEY]
    if P[P_WINDOW] != NULL:  # negations look back from the match's end, which may lie before the event in hand
        S[TRIGGER + T_FLOOR] = end - P[P_WINDOW]
    if P[P_COUNT_WINDOW] != NULL:
        S[TRIGGER + T_POSITION_FLOOR] = last_position(P, S, record) - P[P_COUNT_WINDOW]
    S[TRIGGER + T_KEY] = S[cell(S, store, C_KEY, row)]
    for k in range(P[P_PARTITION_COLUMNS]):
        S[SAVED_KEY + k] = S[TRIGGER + T_ATTRIBUTES + k]
        S[TRIGGER + T_ATTRIBUTES + k] = S[cell(S, store, C_FIRST + k, row)]
    program = P[record + N_PROGRAM]
    S[DEPTH_BEGIN + items] = begin
    if settle(P, S, F, R, P[program + G_STEP_TABLE], items):
        if P[program + G_COMPLETE] == COMPLETE_WAIT and must_wait(P, S, program):
            wait(P, S, program, items, begin, end)
        else:
            emit(P, S, O, program, begin, end, known)
    S[TRIGGER + T_FLOOR] = floor
    S[TRIGGER + T_POSITION_FLOOR] = position_floor
    S[TRIGGER + T_KEY] = key
    for k in range(P[P_PARTITION_COLUMNS]):
        S[TRIGGER + T_ATTRIBUTES + k] = S[SAVED_KEY + k]


@inner
def last_position(P, S, record):  # type: ignore[no-untyped-def]
    """The counted position of the last event of the run that is bound."""
    latest = np.int64(0)
    for k in range(P[record + N_ITEMS]):
        item = P[record + N_ITEM_TABLE] + k * ITEM_RECORD
        slot = P[item + M_SLOT]
        if slot < 0:
            latest = max(latest, S[cell(S, P[item + M_STORE], C_POSITION, S[SOURCE_ROW + k + 1])])
        elif S[KLEENE_COUNT + slot] > 0:
            at = S[cell(S, P[item + M_SCRATCH], 0, S[KLEENE_COUNT + slot] - 1)]
            latest = max(latest, S[cell(S, P[item + M_STORE], C_POSITION, at)])
    return latest


@inner
def is_alive(P, S, record, row):  # type: ignore[no-untyped-def]
    """Whether a run goes on."""
    return S[cell(S, P[record + N_STORE], P[record + N_ALIVE], row)] == 1


@inner
def close_due(P, S, F, R, O):  # type: ignore[no-untyped-def]
    """Close the runs whose window has passed by S_NOW (all, once input has ended); report what waits no more."""
    ended = S[S_ENDED] == 1
    soonest = np.int64(2**63 - 1)
    for k in range(P[P_RUNS]):
        record = P[P_RUN_TABLE] + k * RUN_RECORD
        header = HEADERS + P[record + N_STORE] * HEADER
        for row in range(S[header + H_HEAD], S[header + H_TAIL]):
            if not is_alive(P, S, record, row):
                continue
            known = np.int64(NULL)
            if P[P_WINDOW] != NULL:
                known = S[cell(S, P[record + N_STORE], C_BEGIN, row)] + P[P_WINDOW]
                if not ended and known > S[S_NOW]:
                    soonest = min(soonest, known)
                    continue
            elif not ended:
                continue
            status = lacks_room(P, S, O, record)
            if status != DONE:
                return status
            close(P, S, F, R, O, record, row, known)
    status = DONE
    if P[P_PENDINGS] > 0 and (P[P_COUNT_WINDOW] == NULL or ended):
        status = report_due(P, S, O)
        if status != DONE:
            return status
        soonest = min(soonest, S[S_DEADLINE])
    S[S_DEADLINE] = soonest
    return DONE


@inner
def settle_offer(P, S, F, R, O, record, row, taken):  # type: ignore[no-untyped-def]
    """What an offer means for a run: it may be full, out of its counted window, or (STRICT) broken."""
    if is_full(P, S, record, row):
        close(P, S, F, R, O, record, row, S[S_NOW])
    elif P[P_STRICT] == 1 and not taken:
        close(P, S, F, R, O, record, row, S[S_NOW])
    elif P[P_COUNT_WINDOW] != NULL and (np.uint64(S[TRIGGER + T_MASK]) >> np.uint64(COUNTED_BIT)) & np.uint64(1):
        first = S[cell(S, P[record + N_STORE], C_POSITION, row)]
        if S[TRIGGER + T_POSITION] - first >= P[P_COUNT_WINDOW] - 1:
            close(P, S, F, R, O, record, row, S[S_NOW])


@inner
def in_partition(P, S, record, row):  # type: ignore[no-untyped-def]
    """Whether a run is of the trigger's partition."""
    store = P[record + N_STORE]
    if P[P_PARTITION_COLUMNS] == 0:
        return True
    if S[cell(S, store, C_KEY, row)] != S[TRIGGER + T_KEY]:
        return False
    for k in range(P[P_PARTITION_COLUMNS]):
        if S[cell(S, store, C_FIRST + k, row)] != S[TRIGGER + T_ATTRIBUTES + k]:
            return False
    return True


@inner
def offer_to_runs(P, S, F, R, O):  # type: ignore[no-untyped-def]
    """Offer the trigger to all runs of its partition; S_RUN and S_DEPTH keep the branch and the row to go on with."""
    while S[S_DEPTH] < P[P_RUNS]:
        record = P[P_RUN_TABLE] + S[S_DEPTH] * RUN_RECORD
        store = P[record + N_STORE]
        header = HEADERS + store * HEADER
        chained = S[header + H_LINKS] >= 0
        if S[S_RUN] == FRESH:
            while S[header + H_HEAD] < S[header + H_TAIL] and not is_alive(P, S, record, S[header + H_HEAD]):
                S[header + H_HEAD] += 1
            S[S_RUN] = S[header + H_TAIL] - 1
            if chained:
                S[S_RUN] = first_in_chain(S, header)
        while S[S_RUN] >= S[header + H_HEAD]:
            row = S[S_RUN]
            if is_alive(P, S, record, row) and in_partition(P, S, record, row):
                status = lacks_room(P, S, O, record)
                if status != DONE:
                    return status
                taken = offer(P, S, R, record, row)
                settle_offer(P, S, F, R, O, record, row, taken)
            S[S_RUN] = row - 1
            if chained:
                S[S_RUN] = S[S[header + H_LINKS] + row] - 1 - S[header + H_BASE]
        S[S_DEPTH] += 1
        S[S_RUN] = FRESH
    return DONE


@inner
def first_in_chain(S, header):  # type: ignore[no-untyped-def]
    """The newest row with the trigger's partition key (or another of its bucket), -1 if there is none."""
    from_bucket = S[S[header + H_BUCKETS] + (spread(S[TRIGGER + T_KEY]) & S[header + H_BUCKET_MASK])]
    return from_bucket - 1 - S[header + H_BASE]


@inner
def start_runs(P, S, F, R, O):  # type: ignore[no-untyped-def]
    """Start a run of each branch whose first item can take the trigger; S_DEPTH keeps the branch to go on with."""
    while S[S_DEPTH] < P[P_RUNS]:
        record = P[P_RUN_TABLE] + S[S_DEPTH] * RUN_RECORD
        item = P[record + N_ITEM_TABLE]
        if (np.uint64(S[TRIGGER + T_MASK]) >> np.uint64(P[item + M_BIT])) & np.uint64(1):
            store = P[record + N_STORE]
            if not has_room(P, S, store, 1):
                return STORE_FULL
            status = lacks_room(P, S, O, record)
            if status != DONE:
                return status
            header = HEADERS + store * HEADER
            row = S[header + H_TAIL]
            for k in range(P[record + N_ITEMS]):
                column = P[P[record + N_ITEM_TABLE] + k * ITEM_RECORD + M_COLUMN]
                S[cell(S, store, column, row)] = -1
                if P[P[record + N_ITEM_TABLE] + k * ITEM_RECORD + M_SLOT] >= 0:
                    S[cell(S, store, column + 1, row)] = 0
            S[cell(S, store, C_END, row)] = S[S_NOW]
            S[cell(S, store, C_BEGIN, row)] = S[TRIGGER + T_BEGIN]
            S[cell(S, store, C_POSITION, row)] = S[TRIGGER + T_POSITION]
            S[cell(S, store, C_KEY, row)] = S[TRIGGER + T_KEY]
            for k in range(P[P_PARTITION_COLUMNS]):
                S[cell(S, store, C_FIRST + k, row)] = S[TRIGGER + T_ATTRIBUTES + k]
            S[cell(S, store, P[record + N_ALIVE], row)] = 1
            S[cell(S, store, P[record + N_PLACE], row)] = 0
            S[header + H_TAIL] = row + 1
            if S[header + H_LINKS] >= 0:
                link(S, header, row, S[TRIGGER + T_KEY])
            if can_take(P, S, R, record, row, 0, 0):
                take(P, S, record, row, 0)
                if P[P_WINDOW] != NULL:
                    S[S_DEADLINE] = min(S[S_DEADLINE], S[TRIGGER + T_BEGIN] + P[P_WINDOW])
                settle_offer(P, S, F, R, O, record, row, True)
            else:
                S[cell(S, store, P[record + N_ALIVE], row)] = 0
        S[S_DEPTH] += 1
    return DONE


@inner
def drop_untaken(P, S):  # type: ignore[no-untyped-def]
    """Take the trigger off the leaves of items that did not take it; negated leaves keep it."""
    mask = np.uint64(S[TRIGGER + T_MASK]) & LEAF_BITS & ~np.uint64(S[S_PROGRAM])
    while mask != np.uint64(0):
        bit = np.int64(trailing_zeros(mask))
        mask &= mask - np.uint64(1)
        if is_item(P, bit):
            S[HEADERS + P[P[P_LEAF_TABLE] + bit * LEAF_RECORD + L_STORE] * HEADER + H_TAIL] -= 1


@inner
def is_item(P, bit):  # type: ignore[no-untyped-def]
    """Whether a leaf is that of a run's item."""
    for k in range(P[P_RUNS]):
        record = P[P_RUN_TABLE] + k * RUN_RECORD
        for i in range(P[record + N_ITEMS]):
            if P[P[record + N_ITEM_TABLE] + i * ITEM_RECORD + M_BIT] == bit:
                return True
    return False


@kernel
def step_runs(program, state, ranks, batch, output, rows):  # type: ignore[no-untyped-def]
    """Work through the first `rows` rows of a batch under NEXT or STRICT; as `step` otherwise."""
    P, S, F, R, B, O = words(program), words(state), floats(state), words(ranks), words(batch), words(output)
    S[S_ROOM] = len(output)
    stride = batch.shape[1]
    row = S[S_ROW]
    while row < rows:
        if S[S_PHASE] == 0:
            if not begin_event(P, S, B, stride, row):
                return STORE_FULL
            S[S_PHASE] = 1
        if S[S_PHASE] == 1:
            if S[S_NOW] >= S[S_DEADLINE]:
                status = close_due(P, S, F, R, O)
                if status != DONE:
                    return status
            S[S_PHASE] = 2
            S[S_LEAF] = np.int64(np.uint64(S[TRIGGER + T_MASK]) & LEAF_BITS)
        if S[S_PHASE] == 2:
            mask = np.uint64(S[S_LEAF])
            while mask != np.uint64(0):
                leaf = P[P_LEAF_TABLE] + np.int64(trailing_zeros(mask)) * LEAF_RECORD
                if not store_event(P, S, leaf):
                    S[S_LEAF] = np.int64(mask)
                    return STORE_FULL
                for k in range(P[leaf + L_PROGRAMS]):  # an absence refutes what waits; this takes no room
                    search(P, S, F, R, O, P[leaf + L_PROGRAM_TABLE] + k * PROGRAM_RECORD)
                mask &= mask - np.uint64(1)
            S[S_PHASE] = 3
            S[S_PROGRAM] = 0
            S[S_DEPTH] = 0
            S[S_RUN] = FRESH
        if S[S_PHASE] == 3:
            status = offer_to_runs(P, S, F, R, O)
            if status != DONE:
                return status
            S[S_PHASE] = 4
            S[S_DEPTH] = 0
        if S[S_PHASE] == 4:
            status = start_runs(P, S, F, R, O)
            if status != DONE:
                return status
            drop_untaken(P, S)
            S[S_PHASE] = 5
        if P[P_COUNT_WINDOW] != NULL and P[P_PENDINGS] > 0 and report_due(P, S, O) != DONE:
            return OUTPUT_FULL
        S[S_PHASE] = 0
        row += 1
        S[S_ROW] = row
    return DONE


@kernel
def advance_runs(program, state, ranks, output, now, ended):  # type: ignore[no-untyped-def]
    """Let time reach `now` with no event, or the input end."""
    P, S, F, R, O = words(program), words(state), floats(state), words(ranks), words(output)
    S[S_ROOM] = len(output)
    S[S_ENDED] = ended
    S[S_NOW] = max(S[S_NOW], now)
    if ended == 1 or S[S_NOW] >= S[S_DEADLINE]:
        return close_due(P, S, F, R, O)
    return DONE
