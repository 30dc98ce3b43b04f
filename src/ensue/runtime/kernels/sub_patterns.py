"""Counting the matches of many chains at once: one counter for each sub-pattern, whichever queries it is part of.

The number of matches of a sub-pattern s in the window changes in two ways. An event that can be its last item adds the
number of matches of s without that item; the oldest event, when it expires, takes with it those of s without its first
item. Both are numbers of sub-patterns again, so that a whole set of patterns is kept by additions and subtractions of
integers: O(sub-patterns that end or begin with the event) an event, whatever the window holds.

Events of one time do not follow each other. So all of them first change the longest sub-patterns, then those that are
one shorter, when they come; and the other way round when they expire.
"""

from __future__ import annotations

import numpy as np

from ensue.runtime.kernels.blocks import bits_of, float_of, words
from ensue.runtime.kernels.compiled import inner, kernel
from ensue.runtime.kernels.counting_exact import add_parts, multiply_wide
from ensue.runtime.kernels.counting_tables import find_row, give_row, take_row
from ensue.runtime.kernels.sub_patterns_layout import (
    BEYOND,
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
    H_LIVE_SLOTS,
    H_MOST,
    H_OUT,
    H_PHASE,
    H_ROW,
    H_SLOT_AT,
    H_SLOT_ROOM,
    H_SLOT_WIDTH,
    H_SLOTS,
    H_TAIL,
    H_TICK,
    H_TOTAL_AT,
    H_WIDE,
    H_WORK_AT,
    IS_OUTPUT,
    M_AT,
    M_LENGTH,
    M_OUTPUTS,
    M_SAFE,
    M_WEIGHTED,
    M_WIDE_SAFE,
    MEMBER,
    NEED_ENTRIES,
    NEED_SLOTS,
    NEED_WIDE,
    NULL,
    O_KEYS,
    O_MEMBER,
    O_TIME,
    OUTPUT_FULL,
    OVERFLOW,
    P_ARRIVALS,
    P_ENTRY_WIDTH,
    P_EXPIRIES,
    P_KEY,
    P_LEAVES,
    P_LONGEST,
    P_MEMBERS,
    P_NODES,
    P_SAFE,
    P_TOTALS,
    P_TRIGGERED,
    P_TRIGGERS,
    P_WIDE_SAFE,
    P_WINDOW,
    R_KEYS,
    R_LEAF,
    R_TIME,
    S_KEYS,
    S_LIVE,
    SOURCE,
    STEP,
    TAKING,
    TARGET,
    TELLING,
    WEIGHT,
)

MOST = 4e18  # below what one word holds, and
MOST_WIDE = 4e37  # two
FULL = 2**60  # of the upper word of what only grows: it stays there


@kernel
def count_parts(program, state, rows, until, ended, out):  # type: ignore[no-untyped-def]
    """Take in the rows of all times before `until` (of all times if the input has `ended`), from row H_ROW on.

    `rows` are columns by row (R_…), in the order of time. `out` is rows of a time, a query, its key and its numbers.
    Returns DONE or what is lacking; called again, it goes on where it was.
    """
    P, S, R, O = words(program), words(state), words(rows), words(out)
    total, room, width = rows.shape[1], out.shape[0], out.shape[1]
    window, most = P[P_WINDOW], P[P_TRIGGERED]
    can_hurry = P[P_KEY] == 0 and window >= 0
    while True:
        if can_hurry and S[H_PHASE] == TAKING:
            hurry(P, S, R, total, until, ended, O, room, width)
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
            if room - S[H_OUT] < (stop - row) * most:
                return OUTPUT_FULL
            S[H_FIRST] = S[H_TAIL]
            for k in range(row, stop):
                append(P, S, R, total, k, now)
            play(P, S, S[H_FIRST], S[H_TAIL], P[P_ARRIVALS], np.int64(1))
            S[H_PHASE] = TELLING
        elif room - S[H_OUT] < (stop - row) * most:
            return OUTPUT_FULL
        lacking = tell(P, S, R, total, row, stop, O, width)
        if lacking != DONE:
            return lacking
        if window < 0:
            S[H_HEAD] = S[H_TAIL]
        S[H_PHASE] = TAKING
        S[H_ROW] = stop


@inner
def hurry(P, S, R, total, until, ended, O, room, width):  # type: ignore[no-untyped-def]
    """Take rows in for as long as no two have one time, there is room for all, and no number can be too large.

    The same as below for a query without keys; what lies in `S` is not looked up again for each event.
    """
    window, longest, most, entry = P[P_WINDOW], P[P_LONGEST], P[P_TRIGGERED], P[P_ENTRY_WIDTH]
    arrivals, expiries, triggers = P[P_ARRIVALS], P[P_EXPIRIES], P[P_TRIGGERS]
    entries, mask, data = S[H_ENTRY_AT], S[H_ENTRY_ROOM] - 1, data_of(P, S[H_SLOT_AT])
    row, head, tail, used = S[H_ROW], S[H_HEAD], S[H_TAIL], S[H_OUT]
    before, wide = tail - head, S[H_WIDE] != 0
    limit = P[P_WIDE_SAFE] if wide else P[P_SAFE]
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
            phase = expiries + S[at + E_LEAF] * (longest + 1)
            if wide:
                step_wide(P, S, data, at + E_WEIGHTS, P[phase], P[phase + longest], np.int64(-1))
            else:
                for s in range(P[phase], P[phase + longest], STEP):
                    value = S[data + P[s + SOURCE]]
                    if P[s + WEIGHT] >= 0:
                        value *= S[at + E_WEIGHTS + P[s + WEIGHT]]
                    S[data + P[s + TARGET]] -= value
            head += 1
        if tied or tail - head > mask or room - used < most:
            break
        leaf = R[total + row]
        first, stop = P[triggers + leaf], P[triggers + leaf + 1]
        at = entries + (tail & mask) * entry
        S[at], S[at + E_SLOT], S[at + E_LEAF] = now, 0, leaf
        for w in range(entry - E_WEIGHTS):
            S[at + E_WEIGHTS + w] = R[(R_KEYS + w) * total + row]
        phase = arrivals + leaf * (longest + 1)
        if wide:
            step_wide(P, S, data, at + E_WEIGHTS, P[phase], P[phase + longest], np.int64(1))
        else:
            for s in range(P[phase], P[phase + longest], STEP):
                value = S[data + P[s + SOURCE]]
                if P[s + WEIGHT] >= 0:
                    value *= S[at + E_WEIGHTS + P[s + WEIGHT]]
                S[data + P[s + TARGET]] += value
        tail += 1
        safe = True
        if tail - head > limit:
            for t in range(first, stop):
                member = P[P_MEMBERS] + P[t] * MEMBER
                most_live = P[member + M_WIDE_SAFE] if wide else P[member + M_SAFE]
                safe = safe and (tail - head <= most_live or (not wide and fits(P, S, member, S[H_SLOT_AT])))
        if not safe:
            S[H_FIRST], S[H_PHASE] = tail - 1, TELLING
            break
        for t in range(first, stop):
            member = P[P_MEMBERS] + P[t] * MEMBER
            line = used * width
            used += 1
            O[line + O_TIME], O[line + O_MEMBER] = now, P[t]
            for k in range(P[member + M_OUTPUTS]):
                node = data + P[P[member + M_AT] + k]
                O[line + O_KEYS + k] = S[node]
                if wide:
                    O[line + O_KEYS + P[member + M_OUTPUTS] + k] = S[node + P[P_NODES]]
        row += 1
    S[S[H_SLOT_AT] + S_LIVE] += tail - head - before
    S[H_ROW], S[H_HEAD], S[H_TAIL], S[H_OUT] = row, head, tail, used


@inner
def entry_place(P, S, number):  # type: ignore[no-untyped-def]
    """Where an entry lies."""
    return S[H_ENTRY_AT] + (number & (S[H_ENTRY_ROOM] - 1)) * P[P_ENTRY_WIDTH]


@inner
def data_of(P, slot):  # type: ignore[no-untyped-def]
    """Where the nodes of the slot at a place lie."""
    return slot + S_KEYS + P[P_KEY] + P[P_LEAVES]


@inner
def append(P, S, R, total, k, now):  # type: ignore[no-untyped-def]
    """Keep an event until it expires; one without a whole key is left out."""
    keys, width = P[P_KEY], S[H_SLOT_WIDTH]
    slot = np.int64(0)
    if keys > 0:
        for w in range(keys):
            word = R[(R_KEYS + w) * total + k]
            if word == NULL:
                return
            S[S[H_KEY_AT] + w] = word
        slot = find_row(S, H_SLOT_ROOM, width, S_KEYS, keys, S[H_KEY_AT])
        if slot < 0:
            slot = take_row(S, H_SLOT_ROOM, H_SLOTS, width, S_KEYS, keys, S[H_KEY_AT])
            S[data_of(P, S[H_SLOT_AT] + slot * width)] = 1
    place = S[H_SLOT_AT] + slot * width
    at = entry_place(P, S, S[H_TAIL])
    S[H_TAIL] += 1
    S[place + S_LIVE] += 1
    S[at + E_TIME], S[at + E_SLOT], S[at + E_LEAF] = now, slot, R[R_LEAF * total + k]
    for w in range(P[P_ENTRY_WIDTH] - E_WEIGHTS):
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
    longest = P[P_LONGEST]
    if stop - first == 1:
        at = entry_place(P, S, first)
        phase = table + S[at + E_LEAF] * (longest + 1)
        step(P, S, at, P[phase], P[phase + longest], sign)
        return
    for k in range(longest):
        for number in range(first, stop):
            at = entry_place(P, S, number)
            phase = table + S[at + E_LEAF] * (longest + 1) + k
            if P[phase] < P[phase + 1]:
                step(P, S, at, P[phase], P[phase + 1], sign)


@inner
def step(P, S, at, first, stop, sign):  # type: ignore[no-untyped-def]
    """An event's steps in the slot of its key."""
    data = data_of(P, S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH])
    weights = at + E_WEIGHTS
    if S[H_WIDE] != 0:
        step_wide(P, S, data, weights, first, stop, sign)
        return
    if P[P_TOTALS] == 0:
        for s in range(first, stop, STEP):
            value = S[data + P[s + SOURCE]]
            if P[s + WEIGHT] >= 0:
                value *= S[weights + P[s + WEIGHT]]
            S[data + P[s + TARGET]] += sign * value
        return
    total = data_of(P, S[H_TOTAL_AT])
    for s in range(first, stop, STEP):
        value = sign * S[data + P[s + SOURCE]]
        if P[s + WEIGHT] >= 0:
            value *= S[weights + P[s + WEIGHT]]
        S[data + P[s + TARGET]] += value
        if P[s + IS_OUTPUT] != 0:
            S[total + P[s + TARGET]] += value


@inner
def step_wide(P, S, data, weights, first, stop, sign):  # type: ignore[no-untyped-def]
    """The same with numbers of two words."""
    nodes, total = P[P_NODES], data_of(P, S[H_TOTAL_AT])
    for s in range(first, stop, STEP):
        low, high = S[data + P[s + SOURCE]], S[data + nodes + P[s + SOURCE]]
        if P[s + WEIGHT] >= 0:
            low, high = multiply_wide(S[weights + P[s + WEIGHT]], low, high)
        if sign < 0:
            high = -high - np.int64(low != 0)
            low = -low
        target = P[s + TARGET]
        add_parts(S, data + target, data + nodes + target, low, high)
        if P[P_WINDOW] < 0:
            S[data + nodes + target] = min(max(S[data + nodes + target], np.int64(-FULL)), np.int64(FULL))
        if P[P_TOTALS] != 0 and P[s + IS_OUTPUT] != 0:
            add_parts(S, total + target, total + nodes + target, low, high)


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


# -- rows ------------------------------------------------------------------------------------------------------------


@inner
def tell(P, S, R, total, row, stop, O, width):  # type: ignore[no-untyped-def]
    """Write the rows of a time, there is room for them. NEED_WIDE: numbers do not fit in one word, nothing is written.

    BEYOND: they do not fit in two, and the last row says so.
    """
    start = S[H_OUT]
    S[H_TICK] += 1
    lacking = DONE
    if P[P_TOTALS] != 0:
        for k in range(row, stop):
            if lacking == DONE:
                lacking = tell_leaf(P, S, S[H_TOTAL_AT], R[R_LEAF * total + k], R[R_TIME * total + row], O, width)
    else:
        for number in range(S[H_FIRST], S[H_TAIL]):
            at = entry_place(P, S, number)
            slot = S[H_SLOT_AT] + S[at + E_SLOT] * S[H_SLOT_WIDTH]
            if lacking == DONE:
                lacking = tell_leaf(P, S, slot, S[at + E_LEAF], S[at + E_TIME], O, width)
    if lacking == NEED_WIDE:
        S[H_OUT] = start
    return lacking


@inner
def tell_leaf(P, S, slot, leaf, time, O, width):  # type: ignore[no-untyped-def]
    """The rows of the queries that end with a leaf, once a time."""
    first, stop = P[P[P_TRIGGERS] + leaf], P[P[P_TRIGGERS] + leaf + 1]
    mark = slot + S_KEYS + P[P_KEY] + leaf
    if first == stop or S[mark] == S[H_TICK]:
        return DONE
    S[mark] = S[H_TICK]
    data, keys, wide = data_of(P, slot), P[P_KEY], S[H_WIDE]
    live = S[H_TAIL] - S[H_HEAD] if P[P_TOTALS] != 0 else S[slot + S_LIVE]
    for t in range(first, stop):
        member = P[P_MEMBERS] + P[t] * MEMBER
        at, outputs = P[member + M_AT], P[member + M_OUTPUTS]
        beyond = False
        if wide == 0:
            if live > P[member + M_SAFE] and not fits(P, S, member, slot):
                return NEED_WIDE
        elif P[P_WINDOW] >= 0 and live > P[member + M_WIDE_SAFE]:
            beyond = estimate(P, S, member, slot) > MOST_WIDE
        line = S[H_OUT] * width
        S[H_OUT] += 1
        O[line + O_TIME], O[line + O_MEMBER] = time, P[t]
        for w in range(keys):
            O[line + O_KEYS + w] = S[slot + S_KEYS + w]
        line += O_KEYS + keys
        for k in range(outputs):
            node = data + P[at + k]
            O[line + k] = S[node]
            if wide != 0:
                O[line + outputs + k] = np.int64(OVERFLOW) if beyond else S[node + P[P_NODES]]
        if beyond:
            return BEYOND
    return DONE


@inner
def fits(P, S, member, slot):  # type: ignore[no-untyped-def]
    """Whether the numbers of a query surely fit in one word: not more than one of each item's events, put together."""
    length = P[member + M_LENGTH]
    at, data = P[member + M_AT] + P[member + M_OUTPUTS], data_of(P, slot)
    if P[P_TOTALS] != 0:
        return False
    bound = np.float64(S[H_MOST]) if P[member + M_WEIGHTED] != 0 else 1.0
    for k in range(length):
        bound *= np.float64(S[data + P[at + k]])
    return bound < MOST


@inner
def estimate(P, S, member, slot):  # type: ignore[no-untyped-def]
    """The number of a query's matches in a slot (of all slots where they are added up), about, counted anew."""
    length = P[member + M_LENGTH]
    at, work = P[member + M_AT] + P[member + M_OUTPUTS], S[H_WORK_AT]
    found = 0.0
    for each in range(S[H_SLOTS] if P[P_TOTALS] != 0 else 1):
        place = S[H_SLOT_AT] + each * S[H_SLOT_WIDTH] if P[P_TOTALS] != 0 else slot
        bound = 1.0
        for k in range(length):
            bound *= np.float64(S[data_of(P, place) + P[at + k]])
            S[work + k] = 0
        if bound < 1e30:
            found += bound
            continue
        number = (place - S[H_SLOT_AT]) // S[H_SLOT_WIDTH]
        first = S[H_HEAD]
        while first < S[H_TAIL]:
            time = S[entry_place(P, S, first) + E_TIME]
            stop = first + 1
            while stop < S[H_TAIL] and S[entry_place(P, S, stop) + E_TIME] == time:
                stop += 1
            for k in range(length - 1, -1, -1):
                before = float_of(S[work + k - 1]) if k > 0 else 1.0
                for n in range(first, stop):
                    entry = entry_place(P, S, n)
                    # the node of a single item is that of the first step of its leaf's last phase
                    phase = P[P_ARRIVALS] + S[entry + E_LEAF] * (P[P_LONGEST] + 1) + P[P_LONGEST] - 1
                    if S[entry + E_SLOT] == number and P[P[phase] + TARGET] == P[at + k]:
                        S[work + k] = bits_of(float_of(S[work + k]) + before)
            first = stop
        found += float_of(S[work + length - 1])
    return found


@kernel
def sort_rows(out, used, starts, sorted_rows):  # type: ignore[no-untyped-def]
    """Rows by query, as columns: `starts` has the first row of each query, and is moved on."""
    width = out.shape[1]
    for r in range(used):
        member = out[r, O_MEMBER]
        place = starts[member]
        starts[member] += 1
        for c in range(width):
            sorted_rows[c, place] = out[r, c]
