"""Counting the matches of many chains at once: one counter for each sub-pattern, whichever queries it is part of.

The number of matches of a sub-pattern s in the window changes in two ways. An event that can be its last item adds the
number of matches of s without that item; the oldest event, when it expires, takes with it those of s without its first
item. Both are numbers of sub-patterns again, so that a whole set of patterns is kept by additions and subtractions of
integers: O(sub-patterns that end or begin with the event) an event, whatever the window holds.

Events of one time do not follow each other. So all of them first change the longest sub-patterns, then those that are
one shorter, when they come; and the other way round when they expire. An absent event clears what it comes after as
soon as that has been read.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import words
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.counting_tables import find_row, give_row, take_row
from ensue.runtime.kernels.sub_patterns_layout import (
    DONE,
    E_LEAF,
    E_SLOT,
    E_TIME,
    E_WEIGHTS,
    H_ENTRY_AT,
    H_ENTRY_ROOM,
    H_FIRST,
    H_HEAD,
    H_KEY_AT,
    H_LIMITS_AT,
    H_LIVE_SLOTS,
    H_PHASE,
    H_ROW,
    H_SLOT_AT,
    H_SLOT_ROOM,
    H_SLOT_WIDTH,
    H_SLOTS,
    H_TAIL,
    H_WIDE,
    NEED_ENTRIES,
    NEED_SLOTS,
    NULL,
    O_AT,
    O_ROOM,
    O_USED,
    OUTPUT,
    P_ARRIVALS,
    P_ENTRY_WIDTH,
    P_EXPIRIES,
    P_GAPS,
    P_KEY,
    P_LINK,
    P_ONLY_ABSENT,
    P_PHASES,
    P_QUERIES,
    P_TOLD,
    P_WEIGHTS,
    P_WIDE_SAFE,
    P_WINDOW,
    R_KEYS,
    R_LEAF,
    R_TIME,
    S_KEYS,
    S_LAST,
    S_LIVE,
    STEP,
    TAKING,
    TARGET,
    TELLING,
)
from ensue.runtime.kernels.sub_patterns_rows import are_safe, set_limits, tell, write_row
from ensue.runtime.kernels.sub_patterns_steps import (
    clears_nothing,
    data_of,
    entry_place,
    leave_gaps,
    step,
    step_wide,
    weighed,
)


@kernel
def count_parts(program, state, rows, until, ended, out):  # type: ignore[no-untyped-def]
    """Take in the rows of all times before `until` (of all times if the input has `ended`), from row H_ROW on.

    `rows` are columns by row (R_…), in the order of time. `out` says where the rows of each leaf go (O_…), then has
    room for one for each event. Returns DONE or what is lacking; called again, it goes on where it was.
    """
    P, S, R, O = words(program), words(state), words(rows), words(out)
    total, window = rows.shape[1], P[P_WINDOW]
    can_hurry = P[P_KEY] == 0 and window >= 0
    set_limits(P, S)
    while True:
        if can_hurry and S[H_PHASE] == TAKING:
            hurry(P, S, R, total, until, ended, O)
        row = S[H_ROW]
        if row >= total:
            return DONE
        now = R[R_TIME * total + row]
        if ended == 0 and now >= until:
            return DONE
        stop = row + 1
        while stop < total and R[R_TIME * total + stop] == now:
            stop += 1
        if S[H_PHASE] == TAKING:
            if window >= 0:
                expire(P, S, now - window)
            if S[H_ENTRY_ROOM] - (S[H_TAIL] - S[H_HEAD]) < stop - row:
                return NEED_ENTRIES
            if P[P_KEY] > 0 and S[H_SLOT_ROOM] - S[H_LIVE_SLOTS] < stop - row:
                return NEED_SLOTS
            S[H_FIRST] = S[H_TAIL]
            for k in range(row, stop):
                append(P, S, R, total, k, now)
            play(P, S, S[H_FIRST], S[H_TAIL], P[P_ARRIVALS], np.int64(1))
            S[H_PHASE] = TELLING
        lacking = tell(P, S, R, total, row, stop, O)
        if lacking != DONE:
            return lacking
        if window < 0:
            S[H_HEAD] = S[H_TAIL]
        S[H_PHASE] = TAKING
        S[H_ROW] = stop


@inner
def hurry(P, S, R, total, until, ended, O):  # type: ignore[no-untyped-def]
    """Take rows in for as long as no two have one time, there is room for all, and no number can be too large.

    The same as below for a query without keys; what lies in `S` is not looked up again for each event.
    """
    window, phases, entry, weights = P[P_WINDOW], P[P_PHASES], P[P_ENTRY_WIDTH], P[P_WEIGHTS]
    arrivals, expiries, told = P[P_ARRIVALS], P[P_EXPIRIES], P[P_TOLD]
    gaps, only_absent = P[P_GAPS], P[P_ONLY_ABSENT]
    slot = S[H_SLOT_AT]
    entries, mask, data = S[H_ENTRY_AT], S[H_ENTRY_ROOM] - 1, data_of(P, slot)
    row, head, tail = S[H_ROW], S[H_HEAD], S[H_TAIL]
    before, wide = tail - head, S[H_WIDE] != 0
    limits = S[H_LIMITS_AT] + P[P_QUERIES]
    while row < total:
        now = R[row]
        if (ended == 0 and now >= until) or (row + 1 < total and R[row + 1] == now):
            break
        tied = False
        while head < tail:
            at = entries + (head & mask) * entry
            if S[at] > now - window:
                break
            if head + 1 < tail and S[entries + ((head + 1) & mask) * entry] == S[at]:
                tied = True
                break
            leaf = S[at + E_LEAF]
            if gaps != 0 and P[gaps + leaf] < P[gaps + leaf + 1]:
                leave_gaps(P, S, head, head, head + 1, tail)
            phase = expiries + leaf * (phases + 1)
            if wide:
                step_wide(P, S, data, at + E_WEIGHTS, P[phase], P[phase + phases], np.int64(-1))
            else:
                for s in range(P[phase], P[phase + phases], STEP):
                    S[data + P[s + TARGET]] -= weighed(P, S, data, at + E_WEIGHTS, s)
            head += 1
        if tied or tail - head > mask:
            break
        leaf = R[total + row]
        if gaps != 0 and P[only_absent + leaf] != 0 and clears_nothing(P, S, leaf, data):
            row += 1
            continue
        at = entries + (tail & mask) * entry
        S[at], S[at + E_SLOT], S[at + E_LEAF] = now, 0, leaf
        for w in range(weights):
            S[at + E_WEIGHTS + w] = R[(R_KEYS + w) * total + row]
        phase = arrivals + leaf * (phases + 1)
        if wide:
            step_wide(P, S, data, at + E_WEIGHTS, P[phase], P[phase + phases], np.int64(1))
        else:
            for s in range(P[phase], P[phase + phases], STEP):
                S[data + P[s + TARGET]] += weighed(P, S, data, at + E_WEIGHTS, s)
        tail += 1
        first, stop = P[told + leaf], P[told + leaf + 1]
        if first < stop:
            live = tail - head
            if live > (P[P_WIDE_SAFE] if wide else S[limits + leaf]) and not are_safe(P, S, leaf, slot, live):
                S[H_FIRST], S[H_PHASE] = tail - 1, TELLING
                break
            if wide:
                write_row(P, S, slot, leaf, now, O)
            else:
                room, place = O[OUTPUT * leaf + O_ROOM], O[OUTPUT * leaf + O_AT] + O[OUTPUT * leaf + O_USED]
                O[OUTPUT * leaf + O_USED] += 1
                O[place] = now
                for t in range(first, stop):
                    place += room
                    O[place] = S[data + P[t]]
        row += 1
    S[slot + S_LIVE] += tail - head - before
    S[H_ROW], S[H_HEAD], S[H_TAIL] = row, head, tail


@inner
def append(P, S, R, total, k, now):  # type: ignore[no-untyped-def]
    """Keep an event until it expires, unless its key is not whole or it could only clear what is not there."""
    keys, width, leaf = P[P_KEY], S[H_SLOT_WIDTH], R[R_LEAF * total + k]
    slot = np.int64(0)
    if keys > 0:
        for w in range(keys):
            word = R[(R_KEYS + w) * total + k]
            if word == NULL:
                return
            S[S[H_KEY_AT] + w] = word
        slot = find_row(S, H_SLOT_ROOM, width, S_KEYS, keys, S[H_KEY_AT])
        if slot < 0:
            if P[P[P_ONLY_ABSENT] + leaf] != 0:
                return
            slot = take_row(S, H_SLOT_ROOM, H_SLOTS, width, S_KEYS, keys, S[H_KEY_AT])
            S[data_of(P, S[H_SLOT_AT] + slot * width)] = 1
    place = S[H_SLOT_AT] + slot * width
    if P[P_GAPS] != 0 and P[P[P_ONLY_ABSENT] + leaf] != 0 and clears_nothing(P, S, leaf, data_of(P, place)):
        return
    number = S[H_TAIL]
    at = entry_place(P, S, number)
    if P[P_LINK] != 0:
        if S[place + S_LIVE] > 0:
            S[entry_place(P, S, S[place + S_LAST]) + P[P_LINK]] = number
        S[at + P[P_LINK]], S[place + S_LAST] = -1, number
    S[H_TAIL] += 1
    S[place + S_LIVE] += 1
    S[at + E_TIME], S[at + E_SLOT], S[at + E_LEAF] = now, slot, leaf
    for w in range(P[P_WEIGHTS]):
        S[at + E_WEIGHTS + w] = R[(R_KEYS + keys + w) * total + k]


@inner
def expire(P, S, until):  # type: ignore[no-untyped-def]
    """Let go of all events of `until` or before."""
    tail = S[H_TAIL]
    while S[H_HEAD] < tail:
        head = S[H_HEAD]
        time = S[entry_place(P, S, head) + E_TIME]
        if time > until:
            return
        stop = head + 1
        while stop < tail and S[entry_place(P, S, stop) + E_TIME] == time:
            stop += 1
        if P[P_GAPS] != 0:
            for number in range(head, stop):
                leave_gaps(P, S, number, head, stop, tail)
        play(P, S, head, stop, P[P_EXPIRIES], np.int64(-1))
        for number in range(head, stop):
            slot = S[entry_place(P, S, number) + E_SLOT]
            place = S[H_SLOT_AT] + slot * S[H_SLOT_WIDTH]
            S[place + S_LIVE] -= 1
            if S[place + S_LIVE] == 0 and P[P_KEY] > 0:
                give_row(S, H_SLOT_ROOM, H_SLOTS, S[H_SLOT_WIDTH], S_KEYS, P[P_KEY], slot)
        S[H_HEAD] = stop


@inner
def play(P, S, first, stop, table, sign):  # type: ignore[no-untyped-def]
    """All events of one time come (sign 1) or go (-1)."""
    phases = P[P_PHASES]
    if stop - first == 1:
        at = entry_place(P, S, first)
        phase = table + S[at + E_LEAF] * (phases + 1)
        step(P, S, at, P[phase], P[phase + phases], sign)
        return
    for k in range(phases):
        for number in range(first, stop):
            at = entry_place(P, S, number)
            phase = table + S[at + E_LEAF] * (phases + 1) + k
            if P[phase] < P[phase + 1]:
                step(P, S, at, P[phase], P[phase + 1], sign)


@kernel
def recount(program, state):  # type: ignore[no-untyped-def]
    """Let all live events come anew, into nodes that are clear."""
    P, S = words(program), words(state)
    first = S[H_HEAD]
    while first < S[H_TAIL]:
        time = S[entry_place(P, S, first) + E_TIME]
        stop = first + 1
        while stop < S[H_TAIL] and S[entry_place(P, S, stop) + E_TIME] == time:
            stop += 1
        play(P, S, first, stop, P[P_ARRIVALS], np.int64(1))
        first = stop
