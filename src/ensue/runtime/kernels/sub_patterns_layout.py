"""Where things lie in the arrays of the kernels that count sub-patterns: the program `P` and the state `S`, both int64.

A node is the counter of a sub-pattern; node 0 is the empty one and always 1. A slot has the nodes of one key. Entries
are the live events, a ring addressed by numbers that only grow.
"""

from __future__ import annotations

# -- the program -----------------------------------------------------------------------------------------------------
(
    P_LEAVES,
    P_NODES,
    P_LONGEST,  # items of the longest pattern
    P_KEY,  # words of a key
    P_WINDOW,  # -1: nothing expires
    P_TOTALS,  # 1: the slots of all keys are added up
    P_ENTRY_WIDTH,
    P_TRIGGERED,  # queries that one leaf has a row for, at most
    P_ARRIVALS,  # for each leaf where the steps of each phase begin, and where the last one ends
    P_EXPIRIES,
    P_TRIGGERS,  # for each leaf where its queries begin, and where the last one's end
    P_MEMBERS,
    P_SAFE,  # the least M_SAFE of all
    P_WIDE_SAFE,
) = range(14)
P_TABLES = 16

STEP = 4
"""What an event does: add the node `source`, times a weight of the event's if there is one, to the node `target`."""
TARGET, SOURCE, WEIGHT, IS_OUTPUT = range(STEP)

MEMBER = 6
M_LENGTH, M_OUTPUTS, M_AT, M_SAFE, M_WIDE_SAFE, M_WEIGHTED = range(MEMBER)
"""M_AT: the nodes that are told, then those of the single items. So many live events cannot count beyond one word
(M_SAFE), or two (M_WIDE_SAFE)."""

# -- the state -------------------------------------------------------------------------------------------------------
(
    H_SLOTS,  # rows ever used
    H_FREE_SLOT,
    H_LIVE_SLOTS,
    H_HEAD,  # entries
    H_TAIL,
    H_FIRST,  # the first entry of the time that is being told
    H_TICK,  # times gone by, to know what has been told of this one
    H_PHASE,
    H_ROW,
    H_OUT,
    H_WIDE,  # 1: numbers have two words
    H_MOST,  # the greatest weight so far, whatever its sign
    H_SLOT_ROOM,
    H_SLOT_AT,
    H_SLOT_INDEX,
    H_SLOT_WIDTH,
    H_ENTRY_ROOM,
    H_ENTRY_AT,
    H_TOTAL_AT,  # laid out as a slot
    H_KEY_AT,  # scratch
    H_WORK_AT,  # scratch: a row of floats
) = range(21)
HEADER = 24

TAKING, TELLING = 0, 1

S_NEXT, S_LIVE, S_KEYS = range(3)  # then the times (ticks) at which each leaf was told, then the nodes
E_TIME, E_SLOT, E_LEAF, E_WEIGHTS = range(4)
R_TIME, R_LEAF, R_KEYS = range(3)  # rows that come in: their time and leaf, then keys, then weights
O_TIME, O_MEMBER, O_KEYS = range(3)

DONE, OUTPUT_FULL, NEED_SLOTS, NEED_ENTRIES, NEED_WIDE, BEYOND = range(6)

NULL = -(2**63)
OVERFLOW = 1 << 40
