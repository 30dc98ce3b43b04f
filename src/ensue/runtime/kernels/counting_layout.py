"""Where things lie in the two arrays of the counting kernels: the program `P` (read only) and the state `S`.

Both are int64; floats lie in them by their bits. A slot is the state of one key, a group what has a row of its own.
Slots and groups are rows of tables with a hash index; entries (events that may expire) and starts are rings, addressed
by numbers that only grow.
"""

from __future__ import annotations

# -- the program -----------------------------------------------------------------------------------------------------
(
    P_COLUMNS,
    P_ROLES,
    P_LEAVES,
    P_KEY,  # words of a key
    P_GROUP,  # words of a group's key
    P_MEASURES,
    P_COMPONENTS,
    P_METHOD,
    P_WINDOW,  # -1: nothing expires
    P_ON_CHANGE,
    P_SINGLE,  # 1: a group has one slot
    P_CELL,  # words of a cell
    P_ACCEPTS,  # the end columns, as bits
    P_SAFE,  # so many live events cannot count beyond 128 bits
    P_SLOT_WIDTH,
    P_SLOT_DATA,
    P_SLOT_SHARE,  # what the slot adds to its group: two words a component
    P_GROUP_WIDTH,
    P_GROUP_TOTAL,
    P_GROUP_REPORTED,
    P_ENTRY_WIDTH,
    P_START_WIDTH,
    P_ROLE_TABLE,
    P_LEAF_TABLE,
    P_COMPONENT_TABLE,
    P_MEASURE_TABLE,
    P_GROUP_TABLE,
    P_OUTPUTS,
    P_OUTPUT_TABLE,
    P_LINKS,  # attributes that conditions between neighbours speak of
    P_LINK_COLUMN,  # the first of them in a row
    P_LINK_TABLE,  # for each place where its conditions begin, and where the last one's end
    P_LEAF_OF_PLACE,
) = range(33)
P_TABLES = 40

ROLE = 7
R_LEAF, R_SOURCES, R_TARGETS, R_RESETS, R_STARTS, R_LOOPS, R_PLACE = range(ROLE)
LEAF = 1  # and the key's columns
L_TRIGGER = 0
COMPONENT = 3
C_KIND, C_MEASURE, C_WORD = range(COMPONENT)
MEASURE = 3
M_LEAF, M_COLUMN, M_FLOAT = range(MEASURE)

OUTPUT = 3
O_FUNCTION, O_COMPONENT, O_PRESENT = range(OUTPUT)  # the component, and that of the values that are there (-1: none)
PLAIN, SUM, AVG = range(3)

COUNT, PRESENT, SUM_INT, SUM_FLOAT, LEAST_INT, LEAST_FLOAT, GREATEST_INT, GREATEST_FLOAT = range(8)
WORDS = (1, 1, 2, 1, 2, 2, 2, 2)
"""Words of each kind of component in a cell. A sum of integers is held as what is above zero and what is below."""

LINK = 3
K_OPERATOR, K_LEFT, K_RIGHT = range(LINK)  # attributes of the event before and of the event itself

PREFIX, PER_START, INVERSE, STACKS, LINKED = range(5)

# -- the state -------------------------------------------------------------------------------------------------------
(
    H_SLOTS,  # rows ever used
    H_FREE_SLOT,
    H_LIVE_SLOTS,
    H_GROUPS,
    H_FREE_GROUP,
    H_LIVE_GROUPS,
    H_ENTRY_HEAD,
    H_ENTRY_TAIL,
    H_START_HEAD,
    H_START_TAIL,
    H_DIRTY,
    H_TOUCHED,
    H_EMITTED,  # groups of the touched ones that have been looked at
    H_PHASE,
    H_NOW,
    H_ROW,
    H_OUT,  # rows of output
    # where the parts of the state lie, and how many rows they have room for (a power of two)
    H_SLOT_ROOM,
    H_SLOT_AT,
    H_SLOT_INDEX,  # its buckets, twice as many as rows
    H_GROUP_ROOM,
    H_GROUP_AT,
    H_GROUP_INDEX,
    H_ENTRY_ROOM,
    H_ENTRY_AT,
    H_START_ROOM,
    H_START_AT,
    H_DIRTY_AT,
    H_TOUCHED_AT,
    H_KEYS_AT,  # scratch: a group's key and a key
    H_WEIGHTS_AT,
    H_CELL_AT,
    H_VALUE_AT,
    H_WORK_AT,
) = range(34)
HEADER = 40

IDLE, EMITTING = 0, 1

(
    S_NEXT,
    S_GROUP,
    S_LIVE,  # entries
    S_STARTS,  # live ones
    S_NEWEST,  # entry
    S_FRONT,  # the oldest start that has its share worked out (or the oldest of all, with counters for each)
    S_LAST,  # the newest start
    S_BOUND,  # the newest start with its share worked out
    S_STALE,  # 1: a start expired that was part of the back's product
    S_GENERATION,
    S_DIRTY,
    S_PENDING,  # events of one time that go on with a list
    S_AFTER,  # the other slots of the group
    S_BEFORE,
    S_KEYS,
) = range(15)

(
    G_NEXT,
    G_SLOTS,
    G_IS_TOUCHED,
    G_TRIGGERED,
    G_FIRST,
    G_KEYS,
) = range(6)

(
    E_TIME,
    E_SLOT,
    E_GENERATION,
    E_ROLE,
    E_TIMES,
    E_BEFORE,
    E_START,
    E_WEIGHTS,
) = range(8)

(
    T_TIME,
    T_SLOT,
    T_GENERATION,
    T_NEXT,
    T_DATA,
) = range(5)

L_PLACE, L_PREVIOUS, L_BEFORE, L_VALUES = range(T_DATA, T_DATA + 4)
"""An event that conditions lead to: its place in the pattern, the event before it of that place, the last one of the
place before; then the attributes of conditions, its weights, and the cell of what ends with it."""

DONE, OUTPUT_FULL, NEED_SLOTS, NEED_GROUPS, NEED_ENTRIES, NEED_STARTS = range(6)

OVERFLOW = 1 << 40
"""In the upper word of a number: it is beyond 63 bits."""

NULL = -(2**63)
