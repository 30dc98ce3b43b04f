"""Where things lie in the two arrays that a kernel works on: the program `P` (read only) and the state `S`.

Both are int64; floats lie in them by their bits. Everything is a number, so that no query waits for a compiler: one
kernel, compiled once, runs every plan. Names are offsets from the start of a record unless they say otherwise.
"""

from __future__ import annotations

NULL = -(2**63)
"""The missing value of integer columns (NaN is that of float columns)."""

# -- state: globals --------------------------------------------------------------------------------------------------
S_ROW = 0  # the batch row being worked on
S_PHASE = 1
S_LEAF = 2  # the leaf (bit of the row's mask) being worked on
S_PROGRAM = 3  # ordinal of that leaf's program
S_DEPTH = 4  # depth of the search; -1: not started
S_OUT = 5  # words written to the output block, a record after the other
S_MATCHES = 6  # matches written to the output block
S_NOW = 7
S_DEADLINE = 8  # no waiting match is due before this time
S_FAULT = 9  # the store that needs room
S_NEED = 10  # and how many rows it needs
S_POSITION = 11  # events counted so far (WITHIN n EVENTS without partitions)
S_ENDED = 12  # 1: input has ended, all waiting matches are due
S_RUN = 13  # cursor of the run kernel
S_CREATED = 14  # partial matches stored so far
S_ROOM = 15  # words of the output block
S_STRIDE = 16  # words of one of its columns, where it is written by columns: records without a head (see P_HEAD)
S_LOOKED = 17  # stored rows that were looked at since the kernel was called
S_ENOUGH = 18  # after how many of them it comes back at the next event (LOOKED); 0: never
GLOBALS = 32

MAX_SOURCES = 72
SOURCE_STORE = GLOBALS  # per source: the store its row lies in
SOURCE_ROW = SOURCE_STORE + MAX_SOURCES  # and the row
NEGATED_SOURCE = MAX_SOURCES - 1  # the source of the event that a negation check looks at
DEPTH_MASK = SOURCE_ROW + MAX_SOURCES
DEPTH_BLOCK = DEPTH_MASK + MAX_SOURCES
DEPTH_LOW = DEPTH_BLOCK + MAX_SOURCES
DEPTH_HIGH = DEPTH_LOW + MAX_SOURCES
DEPTH_NEXT = DEPTH_HIGH + MAX_SOURCES
DEPTH_BEGIN = DEPTH_NEXT + MAX_SOURCES  # least begin of the events bound so far

KLEENE_STORE = DEPTH_BEGIN + MAX_SOURCES  # per Kleene slot: the leaf store of its events
KLEENE_COUNT = KLEENE_STORE + MAX_SOURCES  # elements chosen, without the tail
KLEENE_TAIL = KLEENE_COUNT + MAX_SOURCES  # 1: the trigger is the last element
KLEENE_SCRATCH = KLEENE_TAIL + MAX_SOURCES  # the scratch store of its candidates (see SCRATCH_ROW)
KLEENE_CANDIDATES = KLEENE_SCRATCH + MAX_SOURCES
KLEENE_LIST = KLEENE_CANDIDATES + MAX_SOURCES  # -1: elements in scratch; else first row in the list store
KLEENE_AT = KLEENE_LIST + MAX_SOURCES  # the element that a condition looks at

STACK = KLEENE_AT + MAX_SOURCES
STACK_SIZE = 256
TRIGGER = STACK + STACK_SIZE  # the trigger's row, as store 0 with room for one row
TRIGGER_SIZE = 256
SAVED_KEY = TRIGGER + TRIGGER_SIZE  # the trigger's partition attributes, while a run of another partition is closed
MAX_PARTITION = 16
HEADERS = SAVED_KEY + MAX_PARTITION

# -- state: the header of a store ------------------------------------------------------------------------------------
H_OFFSET = 0
H_CAPACITY = 1
H_HEAD = 2
H_TAIL = 3
H_BASE = 4  # absolute position of row 0
H_COLUMNS = 5
H_PURGE = 6  # purge when the tail reaches this
H_LINKS = 7  # offset of the index's links, -1: no index
H_KEY = 8  # column of the index's key
H_BUCKETS = 9  # offset of the index's buckets
H_BUCKET_MASK = 10
H_KIND = 11
H_SHARED = 12  # 1: the rows lie in a common leaf, written by others; head and tail are this state's view of it
HEADER = 16

(
    KIND_TRIGGER,
    KIND_LEAF,
    KIND_NODE,
    KIND_PENDING,
    KIND_LIST,
    KIND_SCRATCH,
    KIND_COUNTERS,
    KIND_RUNS,
    KIND_LINKS,
) = range(9)

# -- columns of the trigger's row and of a batch ---------------------------------------------------------------------
T_END, T_BEGIN, T_SEQ, T_MASK, T_KEY, T_POSITION, T_FLOOR, T_POSITION_FLOOR = range(8)
T_ATTRIBUTES = 8
"""T_FLOOR: begins at or before it have left the window. T_POSITION_FLOOR: likewise for counted positions."""

# -- columns of stores -----------------------------------------------------------------------------------------------
C_END, C_BEGIN, C_POSITION, C_KEY, C_EXTRA, C_FIRST = range(6)
"""All stores of events, partial and waiting matches: end (ascending), least begin, least position, partition key, and
from C_FIRST
on the partition's attributes, then the rest. C_EXTRA is a leaf's sequence number and a waiting match's deadline."""
LEAF_SEQ = C_EXTRA
PENDING_DEADLINE = C_EXTRA  # time (or position) from which on the match is known; NULL: dead
LIST_END, LIST_SEQ, LIST_POSITION = 0, 1, 2
LIST_COLUMNS = 3
(
    SCRATCH_ROW,  # of a candidate for a list: its row in the leaf's store
    SCRATCH_CHOSEN,  # the elements of the list in hand: their places among the candidates
    SCRATCH_BEGIN,
    SCRATCH_END,
    SCRATCH_SEQ,
    SCRATCH_LATER,  # what the first plain comparison of neighbours reads of the later one
    SCRATCH_EARLIER,  # and of the earlier one
) = range(7)
SCRATCH_COLUMNS = 7

# -- program: header -------------------------------------------------------------------------------------------------
P_LEAVES = 0  # number of leaves
P_LEAF_TABLE = 1  # offset of the leaf records
P_STORES = 2
P_WINDOW = 3  # time window, NULL: none
P_COUNT_WINDOW = 4  # count window, NULL: none
P_WIDTH = 5  # words of an output record without Kleene lists
P_KLEENE = 6  # 1: output records have lists
P_PENDING_TABLE = 7  # offset of the pending records
P_PENDINGS = 8
P_INTERVALS = 9
P_ATTRIBUTES = 10  # attribute columns of a batch
P_COUNTERS = 11  # store of the partitions' counters, -1: none
P_PARTITION_COLUMNS = 13
P_LIST_STORE = 14
P_RUN_TABLE = 16  # offset of the run records of NEXT and STRICT, 0: none
P_RUNS = 17
P_STRICT = 18
P_LINK_STORE = 19
P_HEAD = 21  # words of an output record before its variables: 4, or 0 where the events tell all
P_SLACK = 20  # how much longer than the window events are kept
P_HEADER = 24

COUNTED_BIT = 62
PRESENT_BIT = 61
"""Bits of a row's mask beside those of the leaves: the event counts for WITHIN n EVENTS; it is in some partition."""

# -- program: the runs of a branch under NEXT and STRICT ------------------------------------------------------------
N_STORE = 0
N_ITEMS = 1
N_ITEM_TABLE = 2
N_PROGRAM = 3  # offset of a program record: how a finished run is reported, its negations in its one step
N_PLACE = 4  # column of the item that took last
N_ALIVE = 5  # column: 1 while the run goes on
RUN_RECORD = 6

# -- program: an item of a run --------------------------------------------------------------------------------------
M_BIT = 0
M_STORE = 1  # the leaf's store
M_SLOT = 2  # -1: a single event
M_SCRATCH = 3
M_MINIMUM = 4
M_MAXIMUM = 5
M_COLUMN = 6  # a single event's position in its leaf; a list's last link, followed by its length
M_TAKE = 7  # conditions when the item takes an event
M_TAKES = 8
M_CLOSE = 9  # conditions on the whole list once the next item takes over
M_CLOSES = 10
ITEM_RECORD = 12
LINK_END, LINK_POSITION, LINK_PREVIOUS = 0, 1, 2
LINK_COLUMNS = 3

# -- program: a leaf -------------------------------------------------------------------------------------------------
L_STORE = 0  # -1: streamed, not stored
L_PROGRAMS = 1
L_PROGRAM_TABLE = 2
L_COPIES = 3
L_COPY_TABLE = 4  # batch columns to copy into the leaf's attribute columns
L_USES = 5  # how many users; each a list of stores, any of which being empty makes the event useless to it
L_USE_TABLE = 6
L_MARKS = 7  # columns behind the attributes in which absences are noted: see the program that completes with a mark
LEAF_RECORD = 8

# -- program: a trigger's program ------------------------------------------------------------------------------------
G_STEPS = 0
G_STEP_TABLE = 1  # steps + 1 records: record 0 is the trigger itself
G_COMPLETE = 2  # one of the following
G_BRANCH = 3
G_EMIT_TABLE = 4  # per variable of the query: kind, source or slot, column
G_EMITS = 5
G_PENDING = 6  # index of the pending record
G_SLOTS = 7  # Kleene slots to set at the start
G_SLOT_TABLE = 8  # slot, leaf store, scratch store, tail
G_COPIES = 9  # of a waiting match: (source, column) pairs for the columns from C_FIRST on
G_COPY_TABLE = 10
G_MAYBES = 11  # a match waits only if all lists of one of these groups are empty; 0: it waits in any case
G_MAYBE_TABLE = 12  # per group: number of slots, slots
G_MARK = 13  # the column that a mark is set in
PROGRAM_RECORD = 14
COMPLETE_NOTHING, COMPLETE_EMIT, COMPLETE_WAIT, COMPLETE_KILL, COMPLETE_MARK = range(5)
"""NOTHING: only stores; EMIT: gives matches; WAIT: they wait; KILL: refutes waiting matches; MARK: an event of a
negated type notes its end beside the earlier events to which it is the first such event."""
EMIT_NULL, EMIT_ROW, EMIT_LIST, EMIT_NULL_LIST = range(4)

# -- program: a step -------------------------------------------------------------------------------------------------
ST_MODE = 0  # scan, chain or Kleene
ST_STORE = 1
ST_UPPER = 2  # references whose least value ends the range
ST_UPPERS = 3
ST_LOWER = 4
ST_LOWERS = 5
ST_PREDICATE = 6  # comparisons of a candidate's column with a bound value
ST_PREDICATES = 7
ST_CODE = 8  # conditions on a candidate by the stack machine
ST_CODES = 9
ST_CHAIN_SOURCE = 10
ST_CHAIN_COLUMN = 11
ST_AFTER = 12  # conditions once the step is bound
ST_AFTERS = 13
ST_NEGATION = 14
ST_NEGATIONS = 15
ST_INSERT = 16
ST_INSERTS = 17
ST_SLOT = 18
ST_MINIMUM = 19
ST_MAXIMUM = 20
ST_ADJACENT = 21
ST_ADJACENTS = 22
ST_LATE = 23  # negations that depend on the window or on empty lists: after storing, which must not depend on them
ST_LATES = 24
ST_LATE_AFTER = 25  # likewise conditions
ST_LATE_AFTERS = 26
ST_EASE = 27  # what a bound row leaves to do, one of the following
EASE_NONE, EASE_FLAT, EASE_PLAIN, EASE_PAIR, EASE_LIST = range(5)
"""EASE_FLAT: each row of this last step is a match of single events, and nothing is left to decide. EASE_PLAIN: nothing
is to be decided or stored before the next step. EASE_PAIR: nor that, and the next step is a flat one, both scans.
EASE_LIST: each list of this last step is a match, and nothing is left to decide."""
MOST_WORDS = 32
MOST_COMPARED = 24
"""Of two steps at once: the words of a match and the inner step's comparisons for which there is room on the stack."""
ST_PAIR = 28  # plain comparisons of an element with the one before it
ST_PAIRS = 29
STEP_RECORD = 30
MODE_SCAN, MODE_CHAIN, MODE_KLEENE, MODE_TRIGGER = range(4)

# A negation check is a step record too (mode scan or chain) whose candidate source is NEGATED_SOURCE.

# -- program: small records ------------------------------------------------------------------------------------------
REFERENCE_RECORD = 3  # kind, source or slot, column
REF_SOURCE, REF_FIRST_BEGIN, REF_LAST_END = range(3)
PREDICATE_RECORD = 4  # operator, candidate column, source, source column
PAIR_RECORD = 4  # operator, leaf and trigger column of the later element, leaf column of the earlier
INSERT_RECORD = 3  # store, number of copies, offset of the copies (source, column pairs)
CONDITION_RECORD = 4  # code offset, instructions, iterations, offset of iterations (slot, first element)
NEWEST, NEWEST_PAIR = -1, -2  # as first element: the last of the list; the same, if it has one before it
PENDING_RECORD = 6
(
    D_STORE,
    D_BRANCH,
    D_EMITS,
    D_EMIT_TABLE,  # per variable of the query: kind, column of the waiting match
    D_LISTS,
    D_LIST_TABLE,  # per list: slot, first of its three columns (first row, length, last end)
) = range(PENDING_RECORD)

# -- comparison operators --------------------------------------------------------------------------------------------
EQ, NE, LT, LE, GT, GE = range(6)
FLOAT = 6  # added to an operator: compare as floats

# -- the stack machine -----------------------------------------------------------------------------------------------
INSTRUCTION = 5
(
    I_LOAD,  # source, column
    I_ELEMENT,  # slot, leaf column, trigger column, role
    I_CONSTANT,
    I_TO_FLOAT,
    I_RANK,
    I_ADD,
    I_SUBTRACT,
    I_MULTIPLY,
    I_REMAINDER,
    I_NEGATE,
    I_ABS,
    I_ROUND,
    F_ADD,
    F_SUBTRACT,
    F_MULTIPLY,
    F_DIVIDE,
    F_REMAINDER,
    F_NEGATE,
    F_ABS,
    F_FLOOR,
    F_CEIL,
    F_ROUND,
    I_COMPARE,  # operator
    F_COMPARE,  # operator
    B_AND,
    B_OR,
    B_NOT,
    I_IS_NULL,
    F_IS_NULL,
    I_COALESCE,
    F_COALESCE,
    A_COUNT,  # slot
    A_COUNT_INT,  # slot, leaf column, trigger column
    A_COUNT_FLOAT,
    A_SUM_INT,
    A_SUM_FLOAT,
    A_AVG_INT,
    A_AVG_FLOAT,
    A_MIN_INT,
    A_MIN_FLOAT,
    A_MAX_INT,
    A_MAX_FLOAT,
    A_MIN_STRING,
    A_MAX_STRING,
) = range(44)
ROLE_CURRENT, ROLE_PREVIOUS, ROLE_FIRST, ROLE_LAST = range(4)

# -- what a kernel returns -------------------------------------------------------------------------------------------
DONE, OUTPUT_FULL, STORE_FULL, LOOKED = range(4)
