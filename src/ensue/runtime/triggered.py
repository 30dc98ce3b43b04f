"""The search that an event triggers, in the making: what is bound after each step, where each condition is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ensue.pattern.expressions import At
from ensue.planning.absences import nearest, rivals
from ensue.planning.conditions import Absence, Column, Condition, Load, Time, different, order
from ensue.planning.temporal import Program, Step
from ensue.runtime import layout as at
from ensue.runtime.assemble import BranchParts, List, Row, StepParts

if TYPE_CHECKING:
    from ensue.runtime.programs import ProgramAssembler


def placed(places: dict[tuple[str, Column | Time], int], name: str) -> Callable[[Column | Time], int]:
    """Where a variable's values lie in a store of partial matches; a point's begin is its end."""

    def place(value: Column | Time) -> int:
        if value is Time.BEGIN and (name, value) not in places:
            value = Time.END
        return places[name, value]

    return place


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
        self.absences = [x for x in parts.conditions.absences if x.negation.name not in parts.marks]
        self.marks = list(parts.marks.values())
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
        for step in steps[1:]:
            step.ease = self._ease(step, step is steps[-1], waits)
        record = [0] * at.PROGRAM_RECORD
        record[at.G_STEPS] = len(program.steps)
        records = [a.step_record(step) for step in steps]
        if len(records) > 2 and self._is_pair(steps[-1], records[-2], records[-1]):
            records[-2][at.ST_EASE] = at.EASE_PAIR
        record[at.G_STEP_TABLE] = a.put_records(records)
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

    def _ease(self, step: StepParts, is_last: bool, waits: bool) -> int:
        """How little a bound row of a step leaves to do."""
        if any((step.afters, step.negations, step.lates, step.late_afters, step.inserts)):
            return at.EASE_NONE
        if step.mode == at.MODE_KLEENE:
            plain = is_last and self.program.completes and not waits and not step.adjacents
            return at.EASE_LIST if plain else at.EASE_NONE
        if not is_last:
            return at.EASE_PLAIN
        flat = self.program.completes and not waits and not step.codes and not any(v.kleene for v in self.a.variables)
        return at.EASE_FLAT if flat else at.EASE_NONE

    def _is_pair(self, last: StepParts, outer: list[int], inner: list[int]) -> bool:
        """Whether the last two steps can be made at once: scans that leave nothing to do but to write matches."""
        if (outer[at.ST_EASE], inner[at.ST_EASE]) != (at.EASE_PLAIN, at.EASE_FLAT) or self.programs.pendings:
            return False
        if outer[at.ST_MODE] != at.MODE_SCAN or inner[at.ST_MODE] != at.MODE_SCAN or outer[at.ST_CODES]:
            return False
        depth = len(self.program.steps) - 1
        bounds = [sum(source == depth for _, source, _ in ends) for ends in (last.uppers, last.lowers)]
        return max(bounds) <= 1 and len(last.predicates) <= at.MOST_COMPARED and len(self.a.variables) <= at.MOST_WORDS

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
        known = frozenset(self.bound)
        for condition in self.open:
            if condition.variables.isdisjoint(fresh) or not condition.variables <= known or condition.lists:
                remaining.append(condition)
            elif not condition.via or not condition.via <= known:
                self._decide_on_candidate(step, condition, fresh, self.bound)
        self.open = remaining
        self._place_marks(step, fresh)
        tail_remaining = []
        for condition in self.tail_open:
            if condition.variables <= self.tail_bound.keys() and condition.variables & fresh:
                self._decide_on_candidate(step, condition, fresh, self.tail_bound)
            else:
                tail_remaining.append(condition)
        self.tail_open = tail_remaining

    def _place_marks(self, step: StepParts, fresh: frozenset[str]) -> None:
        """Absences that are noted beside an event, decided when both events around them are bound.

        A stored partial match of both has been decided when it was stored: no later event forbids it.
        """
        remaining = []
        for mark in self.marks:
            earlier, later = self.bound.get(mark.earlier), self.bound.get(mark.later)
            if not isinstance(earlier, Row) or not isinstance(later, Row):
                remaining.append(mark)
                continue
            noted = self.parts.leaves[mark.earlier].mark_place(mark.number, len(self.a.partition))
            begin = later.place(Time.BEGIN)
            if mark.earlier in fresh and mark.later not in fresh:
                step.predicates.append((at.GE, noted, later.source, begin))
            elif mark.later in fresh and mark.earlier not in fresh:
                step.predicates.append((at.LE, begin, earlier.source, noted))
        self.marks = remaining

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
        known = frozenset(self.bound)
        for condition in self.open:
            if not condition.variables <= known:
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
        needed |= {v.name for v in rivals(self.branch, negation)}
        return frozenset(needed)

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
        conditions += [different(negation.name, v.name, self.lists) for v in rivals(self.branch, negation)]
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
