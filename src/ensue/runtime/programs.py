"""The programs of a plan for the ANY policy: for each trigger the steps of its search, as records."""

from __future__ import annotations

from collections.abc import Sequence

from ensue.planning.absences import nearest
from ensue.planning.conditions import (
    Absence,
    Column,
    Time,
    columns_in,
    is_empty,
)
from ensue.planning.temporal import Program
from ensue.runtime import layout as at
from ensue.runtime.assemble import Assembler, BranchParts, List, Row, StepParts
from ensue.runtime.assembly import LeafSource, Store
from ensue.runtime.triggered import TriggeredSearch, placed


class ProgramAssembler:
    """Puts down the programs of all branches, and the table of leaves that points to them."""

    def __init__(self, assembler: Assembler, branches: Sequence[BranchParts]) -> None:
        self.assembler = assembler
        self.branches = branches
        self.by_leaf: dict[int, list[list[int]]] = {k: [] for k in range(len(assembler.leaves))}
        self.scratch: dict[str, Store] = {}
        self.pendings: list[list[int]] = []

    def put_all(self) -> None:
        """Stores, programs, waiting matches, leaves."""
        a = self.assembler
        waits = any(p.branch.may_wait(n) for p in self.branches for n in p.branch.negations)
        has_lists = any(v.kleene for v in a.variables)
        a.words[at.P_LIST_STORE] = -1
        if waits and has_lists:
            lists = a.add_store(at.KIND_LIST, at.LIST_COLUMNS, "lists of waiting matches")
            a.words[at.P_LIST_STORE] = lists.number
            a.seq_columns.append((lists.number, at.LIST_SEQ))
        for parts in self.branches:
            self._add_stores(parts)
        for parts in self.branches:
            for absence in parts.conditions.absences:
                if parts.branch.may_wait(absence.negation):
                    self._put_kill(parts, absence)
                elif absence.negation.name in parts.marks:
                    self._put_mark(parts, absence)
        for parts in self.branches:
            for program in parts.storage.programs:
                self._put_program(parts, program)
        a.words[at.P_PENDINGS] = len(self.pendings)
        a.words[at.P_PENDING_TABLE] = a.put_records(self.pendings)
        self._put_leaves()

    # -- stores ------------------------------------------------------------------------------------------------------
    def _add_stores(self, parts: BranchParts) -> None:
        a = self.assembler
        branch = parts.branch
        for variable in branch.variables:
            leaf = parts.leaves[variable.name]
            if variable.kleene and leaf.store is not None and variable.name not in self.scratch:
                title = f"candidates for {variable.name}"
                self.scratch[variable.name] = a.add_store(
                    at.KIND_SCRATCH, at.SCRATCH_COLUMNS, title, follows=leaf.store
                )
        for names in sorted(parts.storage.nodes, key=sorted):
            places: dict[tuple[str, Column | Time], int] = {}
            column = at.C_FIRST + len(a.partition)
            for name in sorted(names):
                values: list[Column | Time] = [Time.SEQ, Time.END, *self._begins()]
                for value in [*values, *self._columns_above(parts, name, names)]:
                    places[name, value] = column
                    column += 1
            store = a.add_store(at.KIND_NODE, column, f"partial matches of {', '.join(sorted(names))}")
            parts.nodes[names] = store
            parts.node_places[names] = places
            later = {y for x, y in branch.before if x in names}
            self._note_columns(store, places, names - later)
        if any(branch.may_wait(n) for n in branch.negations):
            self._add_pending(parts)

    def _begins(self) -> tuple[Time, ...]:
        return (Time.BEGIN,) if self.assembler.intervals else ()

    def _note_columns(self, store: Store, places: dict[tuple[str, Column | Time], int], first: frozenset[str]) -> None:
        """Note what a store holds. The oldest event of a row is one of the `first` variables: numbers follow time."""
        a = self.assembler
        a.string_columns += [(store.number, at.C_FIRST + k) for k, c in enumerate(a.partition) if c.is_string]
        a.seq_columns += [(store.number, places[name, Time.SEQ]) for name in sorted(first)]
        a.string_columns += [
            (store.number, place)
            for (_, value), place in places.items()
            if isinstance(value, Column) and value.is_string
        ]

    def _columns_above(self, parts: BranchParts, name: str, inside: frozenset[str]) -> list[Column]:
        """The columns of a variable that conditions use which a node cannot decide by itself."""
        conditions = [c for c in parts.pool if not c.variables <= inside]
        conditions += [c for absence in parts.conditions.absences for c in absence.conditions]
        return columns_in(conditions, name)

    def _add_pending(self, parts: BranchParts) -> None:
        a = self.assembler
        column = at.C_FIRST + len(a.partition)
        waiting = [x for x in parts.conditions.absences if parts.branch.may_wait(x.negation)]
        conditions = [c for absence in waiting for c in absence.conditions]
        for variable in parts.branch.variables:
            if not variable.kleene:
                values: list[Column | Time] = [Time.SEQ, Time.END]
                for value in [*values, *columns_in(conditions, variable.name)]:
                    parts.pending_places[variable.name, value] = column
                    column += 1
        for variable in parts.branch.variables:
            if variable.kleene:
                parts.pending_lists[variable.name] = column
                column += 3
        store = a.add_store(at.KIND_PENDING, column, "matches that wait for their window to pass")
        self._note_columns(store, parts.pending_places, frozenset(name for name, _ in parts.pending_places))
        parts.pending = len(self.pendings)
        emits: list[int] = []
        for variable in a.variables:
            if variable.name in parts.pending_lists:
                emits += [at.EMIT_LIST, parts.pending_lists[variable.name]]
            elif (variable.name, Time.SEQ) in parts.pending_places:
                emits += [at.EMIT_ROW, parts.pending_places[variable.name, Time.SEQ]]
            else:
                emits += [at.EMIT_NULL, 0]
        lists = [word for name, place in parts.pending_lists.items() for word in (parts.slots[name], place)]
        record = [0] * at.PENDING_RECORD
        record[at.D_STORE] = store.number
        record[at.D_BRANCH] = parts.number
        record[at.D_EMITS] = len(a.variables)
        record[at.D_EMIT_TABLE] = a.put(emits)
        record[at.D_LISTS] = len(parts.pending_lists)
        record[at.D_LIST_TABLE] = a.put(lists)
        self.pendings.append(record)

    # -- programs ----------------------------------------------------------------------------------------------------
    def _put_program(self, parts: BranchParts, program: Program) -> None:
        leaf = parts.leaves[program.trigger]
        record = TriggeredSearch(self, parts, program).record()
        self.by_leaf[self.assembler.leaves.index(leaf)].append(record)

    def _put_kill(self, parts: BranchParts, absence: Absence) -> None:
        """The program by which an event of a negated type refutes waiting matches."""
        a = self.assembler
        assert parts.pending is not None
        store = a.stores[self.pendings[parts.pending][at.D_STORE]]
        negation = absence.negation
        bound: dict[str, Row | List] = {negation.name: Row(0, a.trigger_place)}
        for variable in parts.branch.variables:
            if variable.kleene:
                bound[variable.name] = List(parts.slots[variable.name], parts.leaves[variable.name])
            else:
                bound[variable.name] = Row(1, placed(parts.pending_places, variable.name))
        step = StepParts(at.MODE_SCAN, store, predicates=a.partition_predicates())
        now = at.T_END if a.count_window is None else at.T_POSITION
        step.predicates.append((at.GT, at.PENDING_DEADLINE, 0, now))
        for name in nearest(parts.branch, negation.after, latest=True):
            if name in parts.pending_lists:
                step.predicates.append((at.LT, parts.pending_lists[name] + 2, 0, at.T_BEGIN))
            else:
                step.predicates.append((at.LT, parts.pending_places[name, Time.END], 0, at.T_BEGIN))
        for condition in absence.conditions:
            others = condition.variables - {negation.name}
            predicate = None
            if len(others) == 1 and not condition.lists:
                predicate = a.predicate(condition, next(iter(others)), bound)
            if predicate is not None:
                step.predicates.append(predicate)
            else:
                step.afters.append(a.condition(condition, bound))
        for name in sorted(negation.before):
            step.afters.append(a.condition(is_empty(name), bound))
        trigger = StepParts(at.MODE_TRIGGER)
        slots: list[int] = []
        for name in parts.pending_lists:
            leaf_store = parts.leaves[name].store
            slots += [parts.slots[name], -1 if leaf_store is None else leaf_store.number, -1, 0]
        record = [0] * at.PROGRAM_RECORD
        record[at.G_STEPS] = 1
        record[at.G_STEP_TABLE] = a.put_records([a.step_record(trigger), a.step_record(step)])
        record[at.G_COMPLETE] = at.COMPLETE_KILL
        record[at.G_BRANCH] = parts.number
        record[at.G_PENDING] = parts.pending
        record[at.G_SLOTS] = len(parts.pending_lists)
        record[at.G_SLOT_TABLE] = a.put(slots)
        self.by_leaf[a.leaves.index(parts.leaves[negation.name])].append(record)

    def _put_mark(self, parts: BranchParts, absence: Absence) -> None:
        """The program by which an event of a negated type notes its end beside those that it is the first after."""
        a = self.assembler
        negation = absence.negation
        mark = parts.marks[negation.name]
        leaf = parts.leaves[mark.earlier]
        assert leaf.store is not None
        bound: dict[str, Row | List] = {
            negation.name: Row(0, a.trigger_place),
            mark.earlier: Row(1, a.leaf_place(leaf)),
        }
        place = leaf.mark_place(mark.number, len(a.partition))
        step = StepParts(at.MODE_SCAN, leaf.store, predicates=a.partition_predicates())
        step.uppers.append((at.REF_SOURCE, 0, at.T_BEGIN))
        step.predicates.append((at.GT, place, 0, at.T_END))
        for condition in absence.conditions:
            predicate = a.predicate(condition, mark.earlier, bound)
            assert predicate is not None
            step.predicates.append(predicate)
        record = [0] * at.PROGRAM_RECORD
        record[at.G_STEPS] = 1
        record[at.G_STEP_TABLE] = a.put_records([a.step_record(StepParts(at.MODE_TRIGGER)), a.step_record(step)])
        record[at.G_COMPLETE] = at.COMPLETE_MARK
        record[at.G_BRANCH] = parts.number
        record[at.G_MARK] = place
        self.by_leaf[a.leaves.index(parts.leaves[negation.name])].append(record)

    # -- leaves ------------------------------------------------------------------------------------------------------
    def _put_leaves(self) -> None:
        a = self.assembler
        records = []
        for k, leaf in enumerate(a.leaves):
            uses = self._uses(leaf)
            record = [0] * at.LEAF_RECORD
            record[at.L_STORE] = -1 if leaf.store is None else leaf.store.number
            record[at.L_PROGRAMS] = len(self.by_leaf[k])
            record[at.L_PROGRAM_TABLE] = a.put_records(self.by_leaf[k])
            copies = [at.T_ATTRIBUTES + i for i in range(len(a.partition))]
            if leaf.store is None or leaf.store.shared is None:
                copies += [a.attribute(column) for column in leaf.columns]
            record[at.L_COPIES] = len(copies)
            record[at.L_COPY_TABLE] = a.put(copies)
            record[at.L_USES] = len(uses)
            record[at.L_MARKS] = leaf.marks
            record[at.L_USE_TABLE] = a.put([word for use in uses for word in (len(use), *use)])
            records.append(record)
        a.words[at.P_LEAF_TABLE] = a.put_records(records)

    def _uses(self, leaf: LeafSource) -> list[list[int]]:
        """For each variable that reads the leaf, the stores without which its events are of no use."""
        uses: list[list[int]] = []
        for parts in self.branches:
            for name, other in parts.leaves.items():
                if other is leaf:
                    stores = []
                    for needed in parts.storage.needs[name]:
                        store = parts.nodes[needed] if len(needed) > 1 else parts.leaves[next(iter(needed))].store
                        if store is not None:
                            stores.append(store.number)
                    uses.append(stores)
        return uses
