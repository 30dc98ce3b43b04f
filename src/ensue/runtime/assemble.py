"""Plan to arrays: each branch's programs with their ranges, comparisons, code, negation checks and copies."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ensue.errors import InternalError, PlanError
from ensue.events.schema import Schema
from ensue.pattern.expressions import At
from ensue.pattern.normalize import Branch, Variable
from ensue.pattern.query import Query
from ensue.planning.absences import Mark, find_mark
from ensue.planning.common import CommonLeaf, can_share, key_of
from ensue.planning.conditions import (
    Column,
    Condition,
    Conditions,
    Constant,
    Filter,
    Fold,
    Load,
    Operate,
    Time,
    analyze,
    columns_in,
    compared_pair,
    compared_with,
    different,
    plain_column,
)
from ensue.planning.plan import Plan
from ensue.planning.temporal import Storage, derive_storage
from ensue.planning.windows import window_of
from ensue.runtime import layout as at
from ensue.runtime.assembly import Assembly, LeafSource, Store
from ensue.runtime.strings import StringTable

OPERATORS = {"=": at.EQ, "!=": at.NE, "<": at.LT, "<=": at.LE, ">": at.GT, ">=": at.GE}
NAN_BITS = struct.unpack("<q", struct.pack("<d", math.nan))[0]


@dataclass(frozen=True, slots=True)
class Row:
    """A variable bound to the row of a source; `place` says in which column of it a value lies."""

    source: int
    place: Callable[[Column | Time], int]


@dataclass(frozen=True, slots=True)
class List:
    """A Kleene variable bound to the list of a slot."""

    slot: int
    leaf: LeafSource


@dataclass(slots=True)
class BranchParts:
    """What is derived once for a branch."""

    number: int
    branch: Branch
    conditions: Conditions
    storage: Storage
    pool: list[Condition]
    leaves: dict[str, LeafSource]
    slots: dict[str, int]
    nodes: dict[frozenset[str], Store] = field(default_factory=dict)
    node_places: dict[frozenset[str], dict[tuple[str, Column | Time], int]] = field(default_factory=dict)
    pending: int | None = None
    pending_places: dict[tuple[str, Column | Time], int] = field(default_factory=dict)
    pending_lists: dict[str, int] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)  # by the negated variable


@dataclass(slots=True)
class StepParts:
    """A step record in the making."""

    mode: int
    store: Store | None = None
    uppers: list[tuple[int, int, int]] = field(default_factory=list)
    lowers: list[tuple[int, int, int]] = field(default_factory=list)
    predicates: list[tuple[int, int, int, int]] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    afters: list[list[int]] = field(default_factory=list)
    negations: list[StepParts] = field(default_factory=list)
    lates: list[StepParts] = field(default_factory=list)
    late_afters: list[list[int]] = field(default_factory=list)
    inserts: list[list[int]] = field(default_factory=list)
    adjacents: list[list[int]] = field(default_factory=list)
    pairs: list[tuple[int, int, int, int]] = field(default_factory=list)
    ease: int = at.EASE_NONE
    slot: int = -1
    minimum: int = 0
    maximum: int = 0


def assemble(
    query: Query,
    branches: Sequence[Branch],
    plan: Plan,
    schema: Schema,
    strings: StringTable,
    common: Sequence[CommonLeaf] = (),
    analyses: Sequence[Conditions] | None = None,
) -> Assembly:
    """Assemble a plan for the ANY policy; events of common leaves are read where they lie.

    `analyses` are the conditions of the branches taken apart, if that has been done.
    """
    return Assembler(query, branches, schema, strings, common, analyses).finish(plan)


class Assembler:
    """Collects the words of a program; records point to each other by their offsets."""

    def __init__(
        self,
        query: Query,
        branches: Sequence[Branch],
        schema: Schema,
        strings: StringTable,
        common: Sequence[CommonLeaf] = (),
        analyses: Sequence[Conditions] | None = None,
    ) -> None:
        self.query = query
        self.analyses = analyses or [analyze(query, branch, schema) for branch in branches]
        self.branches = branches
        self.schema = schema
        self.strings = strings
        self.common = {leaf.key: (number, leaf) for number, leaf in enumerate(common) if can_share(query, schema)}
        self.words: list[int] = [0] * at.P_HEADER
        self.window, self.count_window = window_of(query, schema)
        self.intervals = schema.begin is not None
        self.pinned: set[int] = set()
        self.uses_ranks = False
        self.stores: list[Store] = []
        self.leaves: list[LeafSource] = []
        self.index = True
        self.string_columns: list[tuple[int, int]] = []
        self.seq_columns: list[tuple[int, int]] = []
        trigger = self.add_store(at.KIND_TRIGGER, 0, "the event in hand")
        assert trigger.number == 0
        if len(query.partition_by) > at.MAX_PARTITION:
            raise PlanError(f"PARTITION BY takes at most {at.MAX_PARTITION} attributes")
        self.partition = tuple(plain_column(name, schema) for name in query.partition_by)
        self.attributes: list[Column] = list(self.partition)
        self.variables = self._variables()

    def _variables(self) -> tuple[Variable, ...]:
        known = {v.name: v for branch in self.branches for v in branch.variables}
        return tuple(known[item.variable] for item in self.query.items if item.variable in known)

    @property
    def keyed_exactly(self) -> bool:
        """Whether the partition key is the attribute itself, not a hash."""
        return len(self.partition) == 1

    # -- words -------------------------------------------------------------------------------------------------------
    def put(self, words: Sequence[int]) -> int:
        """Append words; their offset."""
        offset = len(self.words)
        self.words.extend(words)
        return offset

    def put_records(self, records: Sequence[Sequence[int]]) -> int:
        """Append records of one size, side by side; the offset of the first."""
        return self.put([word for record in records for word in record])

    def add_store(self, kind: int, columns: int, title: str, follows: Store | None = None) -> Store:
        """A new store."""
        store = Store(len(self.stores), kind, columns, title, follows=None if follows is None else follows.number)
        self.stores.append(store)
        return store

    def attribute(self, column: Column) -> int:
        """The trigger's column for an attribute."""
        if column not in self.attributes:
            self.attributes.append(column)
            if at.T_ATTRIBUTES + len(self.attributes) > at.TRIGGER_SIZE:
                raise PlanError("the query uses more than 240 different values of its events")
        return at.T_ATTRIBUTES + self.attributes.index(column)

    def trigger_place(self, column: Column | Time) -> int:
        """The trigger's column for a value."""
        match column:
            case Time.END:
                return at.T_END
            case Time.BEGIN:
                return at.T_BEGIN
            case Time.SEQ:
                return at.T_SEQ
            case Time.POSITION:
                return at.T_POSITION
            case _:
                return self.attribute(column)

    def leaf_place(self, leaf: LeafSource) -> Callable[[Column | Time], int]:
        """Where values lie in a leaf's store."""

        def place(column: Column | Time) -> int:
            match column:
                case Time.END:
                    return at.C_END
                case Time.BEGIN:
                    return at.C_BEGIN
                case Time.SEQ:
                    return at.LEAF_SEQ
                case Time.POSITION:
                    return at.C_POSITION
                case _:
                    return leaf.place(column, len(self.partition))

        return place

    # -- leaves ------------------------------------------------------------------------------------------------------
    def leaf(self, kind: str, filter_: Filter, negated: bool) -> LeafSource:
        """The leaf of a type and filter; variables with the same share it. Negated ones come first and never share."""
        for leaf in self.leaves:
            if leaf.type == kind and leaf.filter == filter_ and leaf.negated == negated:
                return leaf
        leaf = LeafSource(kind, filter_, negated, [])
        self.leaves.append(leaf)
        return leaf

    # -- conditions --------------------------------------------------------------------------------------------------
    def condition(self, condition: Condition, bound: dict[str, Row | List], iterate: bool = True) -> list[int]:
        """The record of a condition, its code put down for these bindings."""
        code: list[int] = []
        for instruction in condition.code:
            code += self._instruction(instruction, bound)
        iterations: list[int] = []
        if iterate:
            for name in sorted(condition.each | condition.pairs):
                binding = bound[name]
                if isinstance(binding, List):
                    iterations += [binding.slot, 1 if name in condition.pairs else 0]
        offset = self.put(code)
        return [offset, len(code) // at.INSTRUCTION, len(iterations) // 2, self.put(iterations)]

    def _instruction(self, instruction: object, bound: dict[str, Row | List]) -> list[int]:
        match instruction:
            case Load(variable=variable, column=column, at=place):
                binding = bound[variable]
                if isinstance(binding, Row):
                    return [at.I_LOAD, binding.source, binding.place(column), 0, 0]
                role = {
                    At.EACH: at.ROLE_CURRENT,
                    At.CURRENT: at.ROLE_CURRENT,
                    At.PREVIOUS: at.ROLE_PREVIOUS,
                    At.FIRST: at.ROLE_FIRST,
                    At.LAST: at.ROLE_LAST,
                }[place]
                leaf_column = self.leaf_place(binding.leaf)(column)
                trigger_column = self.trigger_place(column)
                if instruction.is_float:
                    trigger_column = -1 - trigger_column  # an empty list gives NaN
                return [at.I_ELEMENT, binding.slot, leaf_column, trigger_column, role]
            case Constant(value=value, is_float=is_float):
                return [at.I_CONSTANT, self._bits(value, is_float), 0, 0, 0]
            case Fold(function=function, variable=variable, column=column):
                binding = bound[variable]
                if not isinstance(binding, List):
                    raise InternalError("an aggregate speaks of a list")
                if column is None:
                    return [at.A_COUNT, binding.slot, 0, 0, 0]
                suffix = "FLOAT" if column.is_float else "INT"
                if column.is_string and function in ("MIN", "MAX"):
                    suffix = "STRING"
                    self.uses_ranks = True
                operation = getattr(at, f"A_{function}_{suffix}")
                leaf_column = self.leaf_place(binding.leaf)(column)
                return [operation, binding.slot, leaf_column, self.trigger_place(column), 0]
            case Operate(name=name, operator=operator):
                if name == "I_RANK":
                    self.uses_ranks = True
                return [getattr(at, name), getattr(at, operator) if operator is not None else 0, 0, 0, 0]
            case _:
                raise InternalError(f"unknown instruction {instruction!r}")

    def _bits(self, value: int | float | str | None, is_float: bool) -> int:
        if value is None:
            return NAN_BITS if is_float else at.NULL
        if isinstance(value, str):
            code = self.strings.encode_one(value)
            self.pinned.add(code)
            return code
        if is_float:
            bits: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
            return bits
        return int(value)

    def predicate(
        self, condition: Condition, candidate: str, bound: dict[str, Row | List]
    ) -> tuple[int, int, int, int] | None:
        """A comparison as a predicate on the candidate's column, if it compares it with a bound row."""
        compared = compared_with(condition, candidate)
        if compared is None:
            return None
        symbol, left, right = compared
        mine, other = bound[left.variable], bound[right.variable]
        if not isinstance(mine, Row) or not isinstance(other, Row) or mine.source == other.source:
            return None
        operator = OPERATORS[symbol] + (at.FLOAT if left.is_float else 0)
        return operator, mine.place(left.column), other.source, other.place(right.column)

    def pair(self, condition: Condition, leaf: LeafSource) -> tuple[int, int, int, int] | None:
        """A condition on x[i] and x[i-1] as a plain comparison of two columns, if it is one."""
        compared = compared_pair(condition)
        if compared is None:
            return None
        symbol, later, earlier = compared
        operator = OPERATORS[symbol] + (at.FLOAT if later.is_float else 0)
        place = self.leaf_place(leaf)
        return operator, place(later.column), self.trigger_place(later.column), place(earlier.column)

    # -- predicates that every step has ------------------------------------------------------------------------------
    def common_predicates(self, store: Store) -> list[tuple[int, int, int, int]]:
        """That a candidate is of the trigger's partition and within its window, where ranges do not say so already."""
        predicates = self.partition_predicates()
        if self.count_window is not None:
            predicates.append((at.GT, at.C_POSITION, 0, at.T_POSITION_FLOOR))
        elif self.window is not None and (self.intervals or store.kind != at.KIND_LEAF):
            predicates.append((at.GT, at.C_BEGIN, 0, at.T_FLOOR))
        return predicates

    def partition_predicates(self) -> list[tuple[int, int, int, int]]:
        """That a candidate is of the trigger's partition."""
        if not self.partition:
            return []
        predicates = [(at.EQ, at.C_KEY, 0, at.T_KEY)]
        if not self.keyed_exactly:
            predicates += [(at.EQ, at.C_FIRST + k, 0, at.T_ATTRIBUTES + k) for k in range(len(self.partition))]
        return predicates

    # -- records -----------------------------------------------------------------------------------------------------
    def step_record(self, parts: StepParts) -> list[int]:
        """The words of a step; an equality on the store's index key becomes the chain that is followed."""
        mode, predicates = parts.mode, list(parts.predicates)
        chain_source = chain_column = 0
        store = parts.store
        if store is not None and self.index and mode != at.MODE_KLEENE:
            keys = [p for p in predicates if p[0] == at.EQ]
            if keys and store.key is None:
                store.key = keys[0][1]
            chosen = next((p for p in keys if p[1] == store.key), None)
            if chosen is not None:
                mode, chain_source, chain_column = at.MODE_CHAIN, chosen[2], chosen[3]
                predicates.remove(chosen)
        words = [0] * at.STEP_RECORD
        words[at.ST_MODE] = mode
        words[at.ST_STORE] = -1 if store is None else store.number
        for table, count, records in (
            (at.ST_UPPER, at.ST_UPPERS, parts.uppers),
            (at.ST_LOWER, at.ST_LOWERS, parts.lowers),
            (at.ST_PREDICATE, at.ST_PREDICATES, predicates),
            (at.ST_CODE, at.ST_CODES, parts.codes),
            (at.ST_AFTER, at.ST_AFTERS, parts.afters),
            (at.ST_NEGATION, at.ST_NEGATIONS, [self.step_record(n) for n in parts.negations]),
            (at.ST_LATE, at.ST_LATES, [self.step_record(n) for n in parts.lates]),
            (at.ST_LATE_AFTER, at.ST_LATE_AFTERS, parts.late_afters),
            (at.ST_INSERT, at.ST_INSERTS, parts.inserts),
            (at.ST_ADJACENT, at.ST_ADJACENTS, parts.adjacents),
            (at.ST_PAIR, at.ST_PAIRS, parts.pairs),
        ):
            words[table] = self.put_records(records)
            words[count] = len(records)
        words[at.ST_EASE] = parts.ease
        words[at.ST_CHAIN_SOURCE], words[at.ST_CHAIN_COLUMN] = chain_source, chain_column
        words[at.ST_SLOT], words[at.ST_MINIMUM], words[at.ST_MAXIMUM] = parts.slot, parts.minimum, parts.maximum
        return words

    # -- the whole ---------------------------------------------------------------------------------------------------
    def prepare(self, plan: Plan, *, with_marks: bool = False) -> list[BranchParts]:
        """Leaves, stores and conditions of all branches; columns of leaves are complete after this.

        With marks, absences that can be are noted beside earlier events when they come, and need not be kept.
        """
        self.index = plan.index
        slots = {v.name: k for k, v in enumerate(v for v in self.variables if v.kleene)}
        prepared: list[BranchParts] = []
        for analysis in self.analyses:  # bits of negated leaves come first: an event refutes before it completes
            for absence in analysis.absences:
                self.leaf(absence.negation.type, absence.filter, True)
        for number, (branch, analysis) in enumerate(zip(self.branches, self.analyses, strict=True)):
            lists = frozenset(v.name for v in branch.variables if v.kleene)
            pool = list(analysis.conditions)
            for i, a in enumerate(branch.variables):
                for b in branch.variables[i + 1 :]:
                    if a.type == b.type and not {(a.name, b.name), (b.name, a.name)} & branch.before:
                        pool.append(different(a.name, b.name, lists))
            leaves = {v.name: self.leaf(v.type, analysis.filters[v.name], False) for v in branch.variables}
            leaves |= {a.negation.name: self.leaf(a.negation.type, a.filter, True) for a in analysis.absences}
            parts = BranchParts(
                number, branch, analysis, derive_storage(branch, plan.trees[number]), pool, leaves, slots
            )
            prepared.append(parts)
            if with_marks:
                self._find_marks(parts)
            for name, leaf in leaves.items():
                conditions = [*pool, *(c for a in analysis.absences for c in a.conditions)]
                for column in columns_in(conditions, name):
                    self.attribute(column)
                    if column not in leaf.columns:
                        leaf.columns.append(column)
                stored = name in parts.storage.leaves or (leaf.negated and name not in parts.marks)
                if stored and leaf.store is None:
                    leaf.store = self.add_store(at.KIND_LEAF, 0, f"events of {leaf.type}")
        if len(self.leaves) >= at.PRESENT_BIT:
            raise PlanError(f"the pattern has more than {at.PRESENT_BIT} different kinds of events")
        for leaf in self.leaves:
            if leaf.store is not None:
                shared = self.common.get(key_of(self.query, self.schema, leaf.type, leaf.filter))
                if shared is not None:
                    leaf.store.shared = shared[0]
                    leaf.columns = list(shared[1].columns)
                leaf.store.columns = at.C_FIRST + len(self.partition) + len(leaf.columns) + leaf.marks
        return prepared

    def _find_marks(self, parts: BranchParts) -> None:
        for absence in parts.conditions.absences:
            found = find_mark(parts.branch, absence, parts.storage.nodes)
            if found is not None:
                leaf = parts.leaves[found[0]]
                if key_of(self.query, self.schema, leaf.type, leaf.filter) in self.common:
                    continue  # its rows are not this query's alone
                parts.marks[absence.negation.name] = Mark(*found, leaf.marks)
                leaf.marks += 1

    def finish(self, plan: Plan) -> Assembly:
        """The assembly of a plan."""
        from ensue.runtime.programs import ProgramAssembler

        prepared = self.prepare(plan, with_marks=True)
        programs = ProgramAssembler(self, prepared)
        programs.put_all()
        return self.seal()

    def seal(self) -> Assembly:
        """The header's words that do not depend on the policy, and the finished assembly."""
        counters = -1
        if self.count_window is not None and self.partition:
            counters = self.add_store(at.KIND_COUNTERS, 1 + len(self.partition), "events counted by partition").number
        has_lists = any(v.kleene for v in self.variables)
        header = self.words
        header[at.P_LEAVES] = len(self.leaves)
        header[at.P_STORES] = len(self.stores)
        header[at.P_WINDOW] = at.NULL if self.window is None else self.window
        header[at.P_COUNT_WINDOW] = at.NULL if self.count_window is None else self.count_window
        header[at.P_HEAD] = 4 if has_lists or header[at.P_PENDINGS] or header[at.P_RUNS] else 0
        header[at.P_WIDTH] = header[at.P_HEAD] + len(self.variables) + (1 if has_lists else 0)
        header[at.P_KLEENE] = int(has_lists)
        header[at.P_INTERVALS] = int(self.intervals)
        header[at.P_ATTRIBUTES] = len(self.attributes)
        if header[at.P_COUNTERS] == 0:
            header[at.P_COUNTERS] = counters
        header[at.P_PARTITION_COLUMNS] = len(self.partition)
        for leaf in self.leaves:
            if leaf.store is not None and leaf.store.shared is None:
                self.seq_columns.append((leaf.store.number, at.LEAF_SEQ))
                self.string_columns += [
                    (leaf.store.number, at.C_FIRST + k)
                    for k, column in enumerate([*self.partition, *leaf.columns])
                    if column.is_string
                ]
        return Assembly(
            program=np.array(self.words, dtype=np.int64),
            stores=tuple(self.stores),
            leaves=tuple(self.leaves),
            attributes=tuple(self.attributes),
            partition=self.partition,
            variables=self.variables,
            has_lists=has_lists,
            head=header[at.P_HEAD],
            window=self.window,
            count_window=self.count_window,
            intervals=self.intervals,
            strings=frozenset(self.pinned),
            uses_ranks=self.uses_ranks,
            string_columns=tuple(self.string_columns),
            seq_columns=tuple(self.seq_columns),
            policy=self.query.policy.value,
            types=self.query.types,
        )
