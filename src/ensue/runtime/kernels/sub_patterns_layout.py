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
    P_PHASES,  # events of one time do their steps of one phase before those of the next
    P_KEY,  # words of a key
    P_WEIGHTS,  # values that an event brings, at most
    P_WINDOW,  # -1: nothing expires
    P_TOTALS,  # 1: the slots of all keys are added up
    P_ENTRY_WIDTH,
    P_LINK,  # where an entry has the number of the next one of its slot; 0: it is the next number
    P_ARRIVALS,  # for each leaf where the steps of each phase begin, and where the last one ends
    P_EXPIRIES,
    P_TRIGGERS,  # for each leaf where its queries begin, and where the last one's end
    P_TOLD,  # for each leaf where the nodes begin that its rows tell
    P_MEMBERS,
    P_QUERIES,  # how many members
    P_WIDE_SAFE,  # the least M_WIDE_SAFE of all
    P_GAPS,  # for each leaf where the gaps begin that its events must be absent from; 0: there are none at all
    P_ONLY_ABSENT,  # for each leaf whether it is no item of any query
) = range(19)
P_TABLES = 20

STEP = 4
"""What an event does: add the node `source`, times a weight of the event's if there is one, to the node `target`."""
TARGET, SOURCE, WEIGHT, IS_OUTPUT = range(STEP)

MEMBER = 7
M_LENGTH, M_OUTPUTS, M_AT, M_WIDE_SAFE, M_WEIGHTED, M_GAP, M_GAP_PLACE = range(MEMBER)
"""M_AT: the nodes that are told, then those of the single items, then the leaves of the items. So many live events
cannot count beyond two words (M_WIDE_SAFE). M_GAP: where its gap is told of (0: it has none); the item behind it."""

GAP = 7
G_LIVE, G_ABSENT, G_OPEN, G_OPEN_END, G_NODES, G_NODES_END, G_UNDO = range(GAP)
"""The node of the gap's live events; for each leaf whether it must be absent; the nodes of the single items that an
absent event would clear; those of what is since the first live event of the gap; their steps back."""

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
    H_LIMITS_AT,  # for each query, then for each leaf: so many live events cannot count beyond one word
    H_LIMITS_FOR,  # the H_MOST with which that is so
) = range(22)
HEADER = 24

TAKING, TELLING = 0, 1

S_NEXT, S_LIVE, S_LAST, S_KEYS = range(4)  # then the times (ticks) at which each leaf was told, then the nodes
E_TIME, E_SLOT, E_LEAF, E_WEIGHTS = range(4)
R_TIME, R_LEAF, R_KEYS = range(3)  # rows that come in: their time and leaf, then keys, then weights

OUTPUT = 3
O_AT, O_ROOM, O_USED = range(OUTPUT)
"""The rows of a leaf, for all queries that end with it: columns of O_ROOM rows from O_AT on. First the times, then
keys, then the numbers of the nodes that are told, then their upper words if they have any."""

DONE, NEED_SLOTS, NEED_ENTRIES, NEED_WIDE, BEYOND = range(5)

NULL = -(2**63)
OVERFLOW = 1 << 40
NO_WEIGHT, NEGATED = -1, -2
