"""The programs of a plan for the ANY policy: for each trigger the steps of its search, as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ensue.pattern.expressions import At
from ensue.pattern.normalize import Branch, Variable
from ensue.planning.conditions import (
    Absence,
    Column,
    Condition,
    Load,
    Time,
    columns_in,
    different,
    is_empty,
    order,
)
from ensue.planning.temporal import Program, Step
from ensue.runtime import layout as at
from ensue.runtime.assemble import Assembler, BranchParts, List, Row, StepParts
from ensue.runtime.assembly import LeafSource, Store


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
                self.scratch[variable.name] = a.add_store(at.KIND_SCRATCH, 2, title, follows=leaf.store)
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
            self._note_columns(store, places)
        if any(branch.may_wait(n) for n in branch.negations):
            self._add_pending(parts)

    def _begins(self) -> tuple[Time, ...]:
        return (Time.BEGIN,) if self.assembler.intervals else ()

    def _note_columns(self, store: Store, places: dict[tuple[str, Column | Time], int]) -> None:
        a = self.assembler
        a.string_columns += [(store.number, at.C_FIRST + k) for k, c in enumerate(a.partition) if c.is_string]
        a.seq_columns += [(store.number, place) for (_, value), place in places.items() if value is Time.SEQ]
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
        self._note_columns(store, parts.pending_places)
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
            copies += [a.attribute(column) for column in leaf.columns]
            record[at.L_COPIES] = len(copies)
            record[at.L_COPY_TABLE] = a.put(copies)
            record[at.L_USES] = len(uses)
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


def placed(places: dict[tuple[str, Column | Time], int], name: str) -> Callable[[Column | Time], int]:
    """Where a variable's values lie in a store of partial matches; a point's begin is its end."""

    def place(value: Column | Time) -> int:
        if value is Time.BEGIN and (name, value) not in places:
            value = Time.END
        return places[name, value]

    return place


def nearest(branch: Branch, names: frozenset[str], *, latest: bool) -> list[str]:
    """Those of some variables that bound a place: the latest (or earliest), as far as they cannot be empty."""

    def is_hidden(name: str) -> bool:
        closer = branch.successors(name) if latest else branch.predecessors(name)
        return any(other in closer and branch.variable(other).minimum > 0 for other in names)

    return [name for name in branch.names if name in names and not is_hidden(name)]


class TriggeredSearch:
    """One program in the making: what is bound after each step, and what has been decided."""

    def __init__(self, programs: ProgramAssembler, parts: BranchParts, program: Program) -> None:
        self.programs = programs
        self.a = programs.assembler
        self.parts = parts
        self.branch = parts.branch
        self.program = program
        self.lists = frozenset(v.name for v in self.branch.variables if v.kleene)
        self.trigger_is_list = program.trigger in self.lists
        self.bound: dict[str, Row | List] = {}
        self.tail_bound: dict[str, Row | List] = {}  # as `bound`, with the trigger of a list as a row
        self.open = [c for c in parts.pool if not (c.each | c.pairs) & program.empty]
        self.tail_open = [c for c in self.open if self.trigger_is_list and self._is_elementwise(c, program.trigger)]
        self.absences = list(parts.conditions.absences)
        self.last_store = max((after for after, _ in program.stores), default=-1)

    def _is_elementwise(self, condition: Condition, name: str) -> bool:
        """Whether it is about each element of one list, and besides about single events only."""
        return condition.each == {name} and not condition.pairs | condition.whole

    def record(self) -> list[int]:
        """The program's record, its steps put down."""
        a, program = self.a, self.program
        steps = [self._trigger_step()]
        steps += [self._step(depth, step) for depth, step in enumerate(program.steps, 1)]
        maybes = self._waits_if_empty()
        waits = program.completes and maybes is not None
        last = steps[-1]
        decisions = (last.codes, last.afters, last.negations, last.lates, last.late_afters, last.inserts)
        last.is_flat = program.completes and not waits and len(steps) > 1 and not any(decisions)
        last.is_flat &= not any(v.kleene for v in a.variables)
        record = [0] * at.PROGRAM_RECORD
        record[at.G_STEPS] = len(program.steps)
        record[at.G_STEP_TABLE] = a.put_records([a.step_record(step) for step in steps])
        record[at.G_COMPLETE] = at.COMPLETE_NOTHING
        if program.completes:
            record[at.G_COMPLETE] = at.COMPLETE_WAIT if waits else at.COMPLETE_EMIT
        record[at.G_BRANCH] = self.parts.number
        emits: list[int] = []
        for variable in a.variables:
            binding = self.bound.get(variable.name)
            if isinstance(binding, List):
                emits += [at.EMIT_LIST, binding.slot, 0]
            elif isinstance(binding, Row):
                emits += [at.EMIT_ROW, binding.source, binding.place(Time.SEQ)]
            else:
                emits += [at.EMIT_NULL, 0, 0]
        record[at.G_EMITS] = len(a.variables)
        record[at.G_EMIT_TABLE] = a.put(emits)
        slots: list[int] = []
        for name in sorted(self.lists):
            leaf = self.parts.leaves[name].store
            scratch = self.programs.scratch.get(name)
            slots += [
                self.parts.slots[name],
                -1 if leaf is None else leaf.number,
                -1 if scratch is None else scratch.number,
                int(name == program.trigger),
            ]
        record[at.G_SLOTS] = len(self.lists)
        record[at.G_SLOT_TABLE] = a.put(slots)
        if waits:
            assert self.parts.pending is not None
            record[at.G_PENDING] = self.parts.pending
            assert maybes is not None
            record[at.G_MAYBES] = len(maybes)
            record[at.G_MAYBE_TABLE] = a.put([word for group in maybes for word in (len(group), *group)])
            copies = self._copies(self.parts.pending_places)
            record[at.G_COPIES] = len(copies) // 2
            record[at.G_COPY_TABLE] = a.put(copies)
        return record

    def _waits_if_empty(self) -> list[list[int]] | None:
        """Groups of slots of which one must be all empty for a match to wait; [] if it always waits, None if never."""
        groups = []
        for negation in self.branch.negations:
            if self.branch.may_wait(negation) and self.program.trigger not in negation.before:
                lists = sorted(negation.before - self.program.empty)
                if not lists:
                    return []
                groups.append([self.parts.slots[name] for name in lists])
        return groups or None

    def _trigger_step(self) -> StepParts:
        name = self.program.trigger
        step = StepParts(at.MODE_TRIGGER)
        row = Row(0, self.a.trigger_place)
        for empty in self.program.empty & self.lists:
            self._bind_list(empty)
        if self.trigger_is_list:
            self.tail_bound = {**self.bound, name: row}
        else:
            self.bound[name] = row
            self.tail_bound = dict(self.bound)
        self._settle(step, 0)
        return step

    def _bind_list(self, name: str) -> None:
        binding = List(self.parts.slots[name], self.parts.leaves[name])
        self.bound[name] = binding
        if not (self.trigger_is_list and name == self.program.trigger):
            self.tail_bound[name] = binding

    def _step(self, depth: int, planned: Step) -> StepParts:
        if planned.is_list:
            step = self._list_step(depth, planned.variables[0])
        elif planned.is_node:
            step = self._node_step(depth, planned.variables)
        else:
            step = self._leaf_step(depth, planned.variables[0])
        self._settle(step, depth)
        return step

    # -- what bounds a step in time ----------------------------------------------------------------------------------
    def _rows(self) -> dict[str, Row]:
        """The variables bound to rows; the trigger of a list stands for its last element."""
        return {name: b for name, b in self.tail_bound.items() if isinstance(b, Row)}

    def _bound_lists(self) -> dict[str, List]:
        return {name: b for name, b in self.bound.items() if isinstance(b, List) and name not in self.program.empty}

    def _closest(self, names: frozenset[str], among: dict[str, Row], *, latest: bool) -> list[str]:
        candidates = frozenset(names & among.keys())
        closer = self.branch.successors if latest else self.branch.predecessors
        return sorted(n for n in candidates if not closer(n) & candidates)

    def _range(self, step: StepParts, name: str, *, explicit: bool) -> None:
        """Bound the candidates for a variable by the events bound already."""
        rows, lists = self._rows(), self._bound_lists()
        later, earlier = self.branch.successors(name), self.branch.predecessors(name)
        for other in self._closest(later, rows, latest=False):
            step.uppers.append((at.REF_SOURCE, rows[other].source, rows[other].place(Time.BEGIN)))
        for other in self._closest(earlier, rows, latest=True):
            end = (rows[other].source, rows[other].place(Time.END))
            step.lowers.append((at.REF_SOURCE, *end))
            if explicit:
                step.predicates.append((at.GT, at.C_BEGIN, *end))
        for other in sorted(later & lists.keys()):
            step.uppers.append((at.REF_FIRST_BEGIN, lists[other].slot, 0))
        for other in sorted(earlier & lists.keys()):
            step.lowers.append((at.REF_LAST_END, lists[other].slot, 0))

    # -- steps -------------------------------------------------------------------------------------------------------
    def _leaf_step(self, depth: int, name: str) -> StepParts:
        leaf = self.parts.leaves[name]
        assert leaf.store is not None
        step = StepParts(at.MODE_SCAN, leaf.store, predicates=self.a.common_predicates(leaf.store))
        self._range(step, name, explicit=self.a.intervals)
        self._bind_row(name, Row(depth, self.a.leaf_place(leaf)))
        self._place_conditions(step, frozenset((name,)))
        return step

    def _bind_row(self, name: str, row: Row) -> None:
        self.bound[name] = row
        self.tail_bound[name] = row

    def _node_step(self, depth: int, names: tuple[str, ...]) -> StepParts:
        key = frozenset(names)
        store = self.parts.nodes[key]
        places = self.parts.node_places[key]
        step = StepParts(at.MODE_SCAN, store, predicates=self.a.common_predicates(store))
        rows = self._rows()
        pairs: list[tuple[str, str]] = []
        for other, row in rows.items():
            if all((name, other) in self.branch.before for name in key):
                step.uppers.append((at.REF_SOURCE, row.source, row.place(Time.BEGIN)))
            elif all((other, name) in self.branch.before for name in key):
                end = (row.source, row.place(Time.END))
                step.lowers.append((at.REF_SOURCE, *end))
                step.predicates.append((at.GT, at.C_BEGIN, *end))
            else:
                pairs += [pair for name in sorted(key) for pair in ((name, other), (other, name))]
        for name in names:
            self._bind_row(name, Row(depth, placed(places, name)))
        known = key | rows.keys()
        for x, y in pairs:
            between = any((x, z) in self.branch.before and (z, y) in self.branch.before for z in known)
            if (x, y) in self.branch.before and not between:
                condition = order(Load(x, Time.END), Load(y, Time.BEGIN))
                predicate = self.a.predicate(condition, x if x in key else y, self.tail_bound)
                assert predicate is not None
                step.predicates.append(predicate)
        self.open = [c for c in self.open if not c.variables <= key]
        self.absences = [x for x in self.absences if not self._decides(key, x)]
        self._place_conditions(step, key)
        return step

    def _list_step(self, depth: int, name: str) -> StepParts:
        leaf = self.parts.leaves[name]
        assert leaf.store is not None
        variable = self.branch.variable(name)
        step = StepParts(at.MODE_KLEENE, leaf.store, predicates=self.a.common_predicates(leaf.store))
        is_tail = name == self.program.trigger
        step.slot = self.parts.slots[name]
        step.minimum = max(0, variable.minimum - is_tail)
        step.maximum = (2**40 if variable.maximum is None else variable.maximum) - is_tail
        self._range(step, name, explicit=self.a.intervals)
        if is_tail:
            step.uppers.append((at.REF_SOURCE, 0, at.T_BEGIN))
        element: dict[str, Row | List] = {**self.bound, name: Row(depth, self.a.leaf_place(leaf))}
        remaining = []
        for condition in self.open:
            if self._is_elementwise(condition, name):
                others = condition.variables - {name}
                predicate = self.a.predicate(condition, name, element) if len(others) == 1 else None
                if predicate is not None:
                    step.predicates.append(predicate)
                else:
                    step.codes.append(self.a.condition(condition, element))
            elif condition.pairs == {name} and not condition.each | condition.whole:
                pair = self.a.pair(condition, leaf)
                if pair is not None:
                    step.pairs.append(pair)
                else:
                    pair_bound = {**self.bound, name: List(step.slot, leaf)}
                    step.adjacents.append(self.a.condition(condition, pair_bound, iterate=False))
            else:
                remaining.append(condition)
        self.open = remaining
        if self.a.intervals:
            for other in sorted(self.branch.predecessors(name) & self._bound_lists().keys()):
                after = order(Load(other, Time.END, At.LAST), Load(name, Time.BEGIN))
                # an empty list before it bounds nothing: LAST is null then, and the comparison must not fail
                step.codes += self._unless_empty(after, element)
        self._bind_list(name)
        return step

    def _unless_empty(self, condition: Condition, bound: dict[str, Row | List]) -> list[list[int]]:
        record = self.a.condition(condition, bound)
        other = next(name for name in condition.variables if isinstance(bound[name], List))
        binding = bound[other]
        assert isinstance(binding, List)
        # iterating over the list makes the condition vacuous for an empty one; LAST does not depend on the element
        return [[record[0], record[1], 1, self.a.put([binding.slot, 0])]]

    # -- conditions --------------------------------------------------------------------------------------------------
    def _place_conditions(self, step: StepParts, fresh: frozenset[str]) -> None:
        """Conditions without lists that the fresh variables complete, decided on the step's candidates."""
        remaining = []
        for condition in self.open:
            if condition.lists or not condition.variables <= self.bound.keys() or not condition.variables & fresh:
                remaining.append(condition)
            elif not condition.via or not condition.via <= self.bound.keys():
                self._decide_on_candidate(step, condition, fresh, self.bound)
        self.open = remaining
        tail_remaining = []
        for condition in self.tail_open:
            if condition.variables <= self.tail_bound.keys() and condition.variables & fresh:
                self._decide_on_candidate(step, condition, fresh, self.tail_bound)
            else:
                tail_remaining.append(condition)
        self.tail_open = tail_remaining

    def _decide_on_candidate(
        self, step: StepParts, condition: Condition, fresh: frozenset[str], bound: dict[str, Row | List]
    ) -> None:
        predicate = None
        mine = condition.variables & fresh
        if len(mine) == 1:
            predicate = self.a.predicate(condition, next(iter(mine)), bound)
        if predicate is not None:
            step.predicates.append(predicate)
        else:
            step.codes.append(self.a.condition(condition, bound))

    def _settle(self, step: StepParts, depth: int) -> None:
        """What can be decided once a step is bound: conditions on lists, negations; then what is stored."""
        remaining = []
        for condition in self.open:
            if not condition.variables <= self.bound.keys():
                remaining.append(condition)
            elif not condition.variables & self.program.empty:
                step.afters.append(self.a.condition(condition, self.bound))
            elif self.program.completes and depth >= self.last_store:
                step.late_afters.append(self.a.condition(condition, self.bound))
            else:
                remaining.append(condition)
        self.open = remaining
        self._place_negations(step, depth)
        for after, names in self.program.stores:
            if after == depth:
                step.inserts.append(self._insert(names))

    def _needed(self, absence: Absence) -> frozenset[str]:
        negation = absence.negation
        needed = set(nearest(self.branch, negation.after, latest=True))
        needed |= set(nearest(self.branch, negation.before, latest=False))
        for condition in absence.conditions:
            needed |= condition.variables - {negation.name}
        needed |= {v.name for v in self._rivals(absence)}
        return frozenset(needed)

    def _rivals(self, absence: Absence) -> list[Variable]:
        """Positive variables whose event could be the negated one itself: of its type, and not ordered with it."""
        negation = absence.negation
        return [
            v
            for v in self.branch.variables
            if v.type == negation.type and v.name not in negation.after | negation.before
        ]

    def _depends_on_window(self, absence: Absence) -> bool:
        negation = absence.negation
        return self.branch.may_wait(negation) or not any(self.branch.variable(n).minimum > 0 for n in negation.after)

    def _decides(self, names: frozenset[str], absence: Absence) -> bool:
        """Whether a node of these variables has decided an absence when it was stored."""
        return not self._depends_on_window(absence) and self._needed(absence) <= names

    def _place_negations(self, step: StepParts, depth: int) -> None:
        remaining = []
        for absence in self.absences:
            needed = self._needed(absence)
            late = self._depends_on_window(absence) or bool(needed & self.program.empty)
            ready = needed <= self.bound.keys()
            if not self.program.completes:
                ready = ready and any(self._decides(names, absence) for _, names in self.program.stores)
            if late:
                ready = ready and self.program.completes and depth >= self.last_store
            if not ready:
                remaining.append(absence)
            elif late:
                step.lates.append(self._check(absence))
            else:
                step.negations.append(self._check(absence))
        self.absences = remaining

    def _check(self, absence: Absence) -> StepParts:
        """The search for an event that an absence forbids."""
        a, negation = self.a, absence.negation
        leaf = self.parts.leaves[negation.name]
        assert leaf.store is not None
        check = StepParts(at.MODE_SCAN, leaf.store, predicates=a.common_predicates(leaf.store))
        for name in nearest(self.branch, negation.after, latest=True):
            binding = self.bound[name]
            if isinstance(binding, Row):
                end = (binding.source, binding.place(Time.END))
                check.lowers.append((at.REF_SOURCE, *end))
                if a.intervals:
                    check.predicates.append((at.GT, at.C_BEGIN, *end))
            elif name not in self.program.empty:
                check.lowers.append((at.REF_LAST_END, binding.slot, 0))
        for name in nearest(self.branch, negation.before, latest=False):
            binding = self.bound[name]
            if isinstance(binding, Row):
                check.uppers.append((at.REF_SOURCE, binding.source, binding.place(Time.BEGIN)))
            elif name not in self.program.empty:
                check.uppers.append((at.REF_FIRST_BEGIN, binding.slot, 0))
        bound = {**self.bound, negation.name: Row(at.NEGATED_SOURCE, a.leaf_place(leaf))}
        conditions = list(absence.conditions)
        conditions += [different(negation.name, v.name, self.lists) for v in self._rivals(absence)]
        if a.intervals:
            for name in nearest(self.branch, negation.after, latest=True):
                if isinstance(self.bound[name], List) and name not in self.program.empty:
                    after = order(Load(name, Time.END, At.LAST), Load(negation.name, Time.BEGIN))
                    check.codes += self._unless_empty(after, bound)
        for condition in conditions:
            if (condition.each | condition.pairs) & self.program.empty:
                continue
            predicate = None if condition.lists else a.predicate(condition, negation.name, bound)
            if predicate is not None:
                check.predicates.append(predicate)
            else:
                check.codes.append(a.condition(condition, bound))
        return check

    # -- what is stored ----------------------------------------------------------------------------------------------
    def _copies(self, places: dict[tuple[str, Column | Time], int]) -> list[int]:
        """(source, column) pairs in the order of a store's columns from C_FIRST on."""
        pairs = [(0, at.T_ATTRIBUTES + k) for k in range(len(self.a.partition))]
        expected = at.C_FIRST + len(pairs)
        for (name, value), place in sorted(places.items(), key=lambda item: item[1]):
            binding = self.bound[name]
            assert isinstance(binding, Row) and place == expected
            pairs.append((binding.source, binding.place(value)))
            expected += 1
        return [word for pair in pairs for word in pair]

    def _insert(self, names: frozenset[str]) -> list[int]:
        copies = self._copies(self.parts.node_places[names])
        return [self.parts.nodes[names].number, len(copies) // 2, self.a.put(copies)]
