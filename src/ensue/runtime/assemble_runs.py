"""NEXT and STRICT to arrays: a branch is a chain of items, each with the conditions under which it takes an event."""

from __future__ import annotations

from collections.abc import Sequence

from ensue.events.schema import Schema
from ensue.pattern.normalize import Branch
from ensue.pattern.query import Policy, Query
from ensue.planning.conditions import Condition
from ensue.planning.plan import Plan, left_deep
from ensue.planning.temporal import Program
from ensue.runtime import layout as at
from ensue.runtime.assemble import Assembler, BranchParts, List, Row, StepParts
from ensue.runtime.assembly import Assembly, Store
from ensue.runtime.programs import ProgramAssembler
from ensue.runtime.strings import StringTable
from ensue.runtime.triggered import TriggeredSearch


def assemble_runs(query: Query, branches: Sequence[Branch], schema: Schema, strings: StringTable) -> Assembly:
    """Assemble a query for the NEXT or STRICT policy."""
    assembler = Assembler(query, branches, schema, strings)
    parts = assembler.prepare(Plan(tuple(left_deep(branch.names) for branch in branches)))
    RunAssembler(assembler, parts).put_all()
    return assembler.seal()


class RunAssembler(ProgramAssembler):
    """Puts down the run records; waiting matches and negations are those of the ANY policy."""

    def put_all(self) -> None:
        """Stores, items, how finished runs are reported, waiting matches, leaves."""
        a = self.assembler
        a.words[at.P_STRICT] = int(a.query.policy is Policy.STRICT)
        a.words[at.P_LINK_STORE] = a.words[at.P_LIST_STORE] = -1
        for parts in self.branches:  # runs point into the leaves of all their items
            for variable in parts.branch.variables:
                leaf = parts.leaves[variable.name]
                if leaf.store is None:
                    columns = at.C_FIRST + len(a.partition) + len(leaf.columns)
                    leaf.store = a.add_store(at.KIND_LEAF, columns, f"events of {leaf.type}")
        if any(v.kleene for v in a.variables):
            links = a.add_store(at.KIND_LINKS, at.LINK_COLUMNS, "links of the lists of runs")
            a.words[at.P_LINK_STORE] = links.number
        # also keeps the rows of leaves where they are: runs hold positions
        lists = a.add_store(at.KIND_LIST, at.LIST_COLUMNS, "lists of waiting matches")
        a.words[at.P_LIST_STORE] = lists.number
        a.seq_columns.append((lists.number, at.LIST_SEQ))
        for parts in self.branches:
            self._add_stores(parts)
            for absence in parts.conditions.absences:
                if parts.branch.may_wait(absence.negation):
                    self._put_kill(parts, absence)
        records = [self._run_record(parts) for parts in self.branches]
        a.words[at.P_SLACK] = self._slack()
        a.words[at.P_RUNS] = len(records)
        a.words[at.P_RUN_TABLE] = a.put_records(records)
        a.words[at.P_PENDINGS] = len(self.pendings)
        a.words[at.P_PENDING_TABLE] = a.put_records(self.pendings)
        self._put_leaves()

    def _slack(self) -> int:
        """A run may close up to a window after its last event, and a leading absence looks a window back from that."""
        a = self.assembler
        if all(negation.after for parts in self.branches for negation in parts.branch.negations):
            return 0
        return a.window or a.count_window or 0

    def _uses(self, leaf: object) -> list[list[int]]:
        return []  # nothing is passed over: a run's leaf keeps just what runs take

    def _run_record(self, parts: BranchParts) -> list[int]:
        a = self.assembler
        names = self._chain(parts.branch)
        place = at.C_FIRST + len(a.partition)
        alive = place + 1
        column = alive + 1
        columns: dict[str, int] = {}
        for name in names:
            columns[name] = column
            column += 2 if parts.branch.variable(name).kleene else 1
        store = a.add_store(at.KIND_RUNS, column, f"runs of {', '.join(names)}")
        if a.partition and a.index:
            store.key = at.C_KEY
        bound = self._bindings(parts, names)
        items = [self._item(parts, names, k, columns[name], bound) for k, name in enumerate(names)]
        record = [0] * at.RUN_RECORD
        record[at.N_STORE] = store.number
        record[at.N_ITEMS] = len(items)
        record[at.N_ITEM_TABLE] = a.put_records(items)
        record[at.N_PROGRAM] = a.put(FinishedRun(self, parts, names, bound).record())
        record[at.N_PLACE], record[at.N_ALIVE] = place, alive
        a.string_columns += [(store.number, at.C_FIRST + k) for k, c in enumerate(a.partition) if c.is_string]
        return record

    def _chain(self, branch: Branch) -> list[str]:
        return sorted(branch.names, key=lambda name: len(branch.predecessors(name)))

    def _bindings(self, parts: BranchParts, names: Sequence[str]) -> dict[str, Row | List]:
        bound: dict[str, Row | List] = {}
        for k, name in enumerate(names):
            leaf = parts.leaves[name]
            if parts.branch.variable(name).kleene:
                bound[name] = List(parts.slots[name], leaf)
            else:
                bound[name] = Row(k + 1, self.assembler.leaf_place(leaf))
        return bound

    def _item(
        self, parts: BranchParts, names: Sequence[str], k: int, column: int, bound: dict[str, Row | List]
    ) -> list[int]:
        a = self.assembler
        name = names[k]
        variable = parts.branch.variable(name)
        leaf = parts.leaves[name]
        assert leaf.store is not None
        takes, closes = [], []
        for condition in parts.pool:
            latest = max(names.index(v) for v in condition.variables)
            if latest != k:
                continue
            if name in condition.whole:
                closes.append(a.condition(condition, bound))
            else:
                takes.append(self._take_condition(condition, name, bound))
        scratch: Store | None = self.scratch.get(name)
        record = [0] * at.ITEM_RECORD
        record[at.M_BIT] = a.leaves.index(leaf)
        record[at.M_STORE] = leaf.store.number
        record[at.M_SLOT] = parts.slots[name] if variable.kleene else -1
        record[at.M_SCRATCH] = -1 if scratch is None else scratch.number
        record[at.M_MINIMUM] = variable.minimum
        record[at.M_MAXIMUM] = 2**40 if variable.maximum is None else variable.maximum
        record[at.M_COLUMN] = column
        record[at.M_TAKE], record[at.M_TAKES] = a.put_records(takes), len(takes)
        record[at.M_CLOSE], record[at.M_CLOSES] = a.put_records(closes), len(closes)
        return record

    def _take_condition(self, condition: Condition, name: str, bound: dict[str, Row | List]) -> list[int]:
        """A condition on the element just taken: other lists are iterated over, the item's own is not.

        A pair needs two elements; the iteration then starts at the newest one if there is one before it.
        """
        a = self.assembler
        code = a.condition(condition, bound, iterate=False)
        iterations: list[int] = []
        for other in sorted((condition.each | condition.pairs) - {name}):
            binding = bound[other]
            if isinstance(binding, List):
                iterations += [binding.slot, 1 if other in condition.pairs else 0]
        binding = bound[name]
        if isinstance(binding, List):
            # from the newest element on, and for a pair only if it has a predecessor
            iterations += [binding.slot, at.NEWEST_PAIR if name in condition.pairs else at.NEWEST]
        return [code[0], code[1], len(iterations) // 2, a.put(iterations)]


class FinishedRun(TriggeredSearch):
    """How a run that has ended is reported: its negations, then the match or the wait."""

    def __init__(
        self, programs: ProgramAssembler, parts: BranchParts, names: Sequence[str], bound: dict[str, Row | List]
    ) -> None:
        super().__init__(programs, parts, Program(names[0], (), (), True, frozenset()))
        self.trigger_is_list = False
        self.bound = dict(bound)
        self.open = []

    def _trigger_step(self) -> StepParts:
        step = StepParts(at.MODE_TRIGGER)
        self._place_negations(step, 0)
        for check in (*step.negations, *step.lates):
            if self.a.window is not None and not self.a.intervals:
                check.predicates.append((at.GT, at.C_BEGIN, 0, at.T_FLOOR))
        return step
