"""What the programs of a plan do, step by step: where each condition and absence is decided, and by which means.

The runtime puts the same decisions down as arrays; here they are values to be looked at. That both agree is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from ensue.pattern.normalize import Branch, Negation
from ensue.pattern.query import Query
from ensue.planning.absences import nearest, rivals
from ensue.planning.conditions import (
    Absence,
    Column,
    Condition,
    Conditions,
    Filter,
    Time,
    compared_pair,
    compared_with,
    different,
)
from ensue.planning.plan import Plan
from ensue.planning.temporal import Program, Step, Storage, derive_storage

_LIST = -1  # in place of a row's source: the variable is bound to a list
_NEGATED = -2  # the source of the event that an absence forbids

Source: TypeAlias = tuple[str, Filter, bool]
"""What tells the inputs of a query apart: type, filter, whether it is negated. Variables with the same share one."""


class How(Enum):
    """By which means a condition is decided."""

    INDEX = "index"
    COMPARISON = "comparison"
    CODE = "code"


class When(Enum):
    """What a condition is decided on."""

    CANDIDATE = "candidate"  # each event or partial match that a step looks at
    NEWEST = "newest"  # the trigger, as the last element of its list: a first look that saves work
    ELEMENT = "element"  # each element of the list that a step makes
    PAIR = "pair"  # each adjacent pair of it
    BOUND = "bound"  # everything that is bound after a step, its lists complete


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition as a step decides it."""

    condition: Condition
    how: How
    when: When


@dataclass(frozen=True, slots=True)
class Check:
    """The search for an event that an absence forbids. `late`: only once the match is complete."""

    negation: Negation
    decisions: tuple[Decision, ...]
    by_partition: bool
    late: bool


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A step with what it decides. `by_partition`: candidates are found by an index on the partition."""

    step: Step
    decisions: tuple[Decision, ...]
    checks: tuple[Check, ...]
    stores: tuple[frozenset[str], ...]
    by_partition: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """A program with what its steps decide; step 0 is the trigger's own. `waits`: matches may wait for their window.

    It waits in any case if `waits_if_empty` is (), else only where all lists of one of these groups are empty.
    """

    program: Program
    steps: tuple[SearchStep, ...]
    waits: bool
    waits_if_empty: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class BranchSearches:
    """Everything that a branch's tree comes to."""

    branch: Branch
    conditions: Conditions
    storage: Storage
    searches: tuple[Search, ...]

    def source(self, name: str) -> Source:
        """The input of a variable, positive or negated."""
        for absence in self.conditions.absences:
            if absence.negation.name == name:
                return absence.negation.type, absence.filter, True
        return self.branch.variable(name).type, self.conditions.filters[name], False

    def needed(self, negation: Negation) -> frozenset[str]:
        """The variables that must be bound for an absence to be decided."""
        absence = next(a for a in self.conditions.absences if a.negation is negation)
        return _needed(self.branch, absence)

    def is_late(self, negation: Negation) -> bool:
        """Whether an absence speaks of the whole match's window."""
        return _depends_on_window(self.branch, negation)


def trace_searches(
    query: Query, branches: Sequence[Branch], conditions: Sequence[Conditions], plan: Plan
) -> tuple[BranchSearches, ...]:
    """The searches of a plan for the ANY policy, branch by branch."""
    indexes = _Indexes(plan.index, bool(query.partition_by))
    traced = []
    for number, (branch, analysis, tree) in enumerate(zip(branches, conditions, plan.trees, strict=True)):
        found = BranchSearches(branch, analysis, derive_storage(branch, tree), ())
        searches = tuple(_Tracing(found, number, program).search(indexes) for program in found.storage.programs)
        traced.append(BranchSearches(branch, analysis, found.storage, searches))
    return tuple(traced)


def conditions_between(branch: Branch, conditions: Conditions) -> list[Condition]:
    """The conditions over several events; where two variables could take the same event, also that they do not."""
    lists = frozenset(v.name for v in branch.variables if v.kleene)
    found = list(conditions.conditions)
    for k, a in enumerate(branch.variables):
        for b in branch.variables[k + 1 :]:
            if a.type == b.type and not {(a.name, b.name), (b.name, a.name)} & branch.before:
                found.append(different(a.name, b.name, lists))
    return found


def _needed(branch: Branch, absence: Absence) -> frozenset[str]:
    negation = absence.negation
    needed = {*nearest(branch, negation.after, latest=True), *nearest(branch, negation.before, latest=False)}
    for condition in absence.conditions:
        needed |= condition.variables - {negation.name}
    return frozenset(needed.union(v.name for v in rivals(branch, negation)))


def _depends_on_window(branch: Branch, negation: Negation) -> bool:
    return branch.may_wait(negation) or not any(branch.variable(n).minimum > 0 for n in negation.after)


_Key: TypeAlias = tuple[str, Column | Time]
_Store: TypeAlias = Source | tuple[int, frozenset[str]]


@dataclass(slots=True)
class _Draft:
    """A step in the making: each comparison by the condition and the candidate's value, if an index could serve it."""

    store: _Store | None
    comparisons: list[tuple[Condition, When, _Key | None]] = field(default_factory=list)
    others: list[Decision] = field(default_factory=list)
    checks: list[tuple[Absence, bool, _Draft]] = field(default_factory=list)
    stores: list[frozenset[str]] = field(default_factory=list)
    is_list: bool = False


class _Indexes:
    """Each store has at most one index: by partition, or for the first equality that looks something up in it."""

    def __init__(self, allowed: bool, by_partition: bool) -> None:
        self.allowed = allowed
        self.by_partition = by_partition
        self.keys: dict[_Store, _Key] = {}

    def decide(self, draft: _Draft) -> tuple[tuple[Decision, ...], bool]:
        """How a step's comparisons are decided, and whether it finds its candidates by partition."""
        served: Condition | None = None
        searched = self.allowed and draft.store is not None and not draft.is_list
        if searched and draft.store is not None and not self.by_partition:
            keyed = [(key, condition) for condition, _, key in draft.comparisons if key is not None]
            if keyed:
                chosen = self.keys.setdefault(draft.store, keyed[0][0])
                served = next((condition for key, condition in keyed if key == chosen), None)
        decisions = [
            Decision(condition, How.INDEX if condition is served else How.COMPARISON, when)
            for condition, when, _ in draft.comparisons
        ]
        return (*decisions, *draft.others), searched and self.by_partition


class _Tracing:
    """One program: what is bound after each step, and what has been decided."""

    def __init__(self, found: BranchSearches, number: int, program: Program) -> None:
        self.found = found
        self.number = number
        self.branch = found.branch
        self.program = program
        self.lists = frozenset(v.name for v in self.branch.variables if v.kleene)
        self.trigger_is_list = program.trigger in self.lists
        self.bound: dict[str, int] = {}  # the source of each variable's row, or _LIST
        self.tail_bound: dict[str, int] = {}  # the same, with the trigger of a list as a row
        pool = conditions_between(self.branch, found.conditions)
        self.open = [c for c in pool if not (c.each | c.pairs) & program.empty]
        self.tail_open = [c for c in self.open if self.trigger_is_list and _is_elementwise(c, program.trigger)]
        self.absences = list(found.conditions.absences)
        self.last_store = max((after for after, _ in program.stores), default=-1)

    def search(self, indexes: _Indexes) -> Search:
        drafts = [self._trigger()]
        drafts += [self._step(depth, step) for depth, step in enumerate(self.program.steps, 1)]
        steps = []
        planned = (Step((self.program.trigger,), self.trigger_is_list), *self.program.steps)
        for step, draft in zip(planned, drafts, strict=True):
            decisions, by_partition = indexes.decide(draft)
            checks = []
            for absence, late, check in sorted(draft.checks, key=lambda c: c[1]):  # late ones are put down last
                against, keyed = indexes.decide(check)
                checks.append(Check(absence.negation, against, keyed, late))
            steps.append(SearchStep(step, decisions, tuple(checks), tuple(draft.stores), by_partition))
        groups = self._waits_if_empty()
        waits = self.program.completes and groups is not None
        return Search(self.program, tuple(steps), waits, groups or ())

    def _waits_if_empty(self) -> tuple[tuple[str, ...], ...] | None:
        groups = []
        for negation in self.branch.negations:
            if self.branch.may_wait(negation) and self.program.trigger not in negation.before:
                lists = tuple(sorted(negation.before - self.program.empty))
                if not lists:
                    return ()
                groups.append(lists)
        return tuple(groups) or None

    # -- steps -------------------------------------------------------------------------------------------------------
    def _trigger(self) -> _Draft:
        draft = _Draft(None)
        self.bound = dict.fromkeys(sorted(self.program.empty & self.lists), _LIST)
        self.tail_bound = {**self.bound, self.program.trigger: 0}
        if not self.trigger_is_list:
            self.bound[self.program.trigger] = 0
        self._settle(draft, 0)
        return draft

    def _step(self, depth: int, step: Step) -> _Draft:
        names = frozenset(step.variables)
        if step.is_list:
            draft = self._list(depth, step.variables[0])
        else:
            draft = _Draft((self.number, names) if step.is_node else self.found.source(step.variables[0]))
            self.bound.update(dict.fromkeys(names, depth))
            self.tail_bound.update(dict.fromkeys(names, depth))
            if step.is_node:  # whatever the node could decide, it has
                self.open = [c for c in self.open if not c.variables <= names]
                self.absences = [a for a in self.absences if not self._decides(names, a)]
            self._decide_on_candidates(draft, names)
        self._settle(draft, depth)
        return draft

    def _list(self, depth: int, name: str) -> _Draft:
        draft = _Draft(self.found.source(name), is_list=True)
        element = {**self.bound, name: depth}
        remaining = []
        for condition in self.open:
            if _is_elementwise(condition, name):
                if len(condition.variables) == 2 and _is_comparison(condition, name, element):
                    draft.comparisons.append((condition, When.ELEMENT, None))
                else:
                    draft.others.append(Decision(condition, How.CODE, When.ELEMENT))
            elif condition.pairs == {name} and not condition.each | condition.whole:
                how = How.CODE if compared_pair(condition) is None else How.COMPARISON
                draft.others.append(Decision(condition, how, When.PAIR))
            else:
                remaining.append(condition)
        self.open = remaining
        self.bound[name] = _LIST
        if name != self.program.trigger:
            self.tail_bound[name] = _LIST
        return draft

    # -- conditions --------------------------------------------------------------------------------------------------
    def _decide_on_candidates(self, draft: _Draft, fresh: frozenset[str]) -> None:
        remaining = []
        for condition in self.open:
            if condition.lists or not condition.variables <= self.bound.keys() or not condition.variables & fresh:
                remaining.append(condition)
            elif not condition.via or not condition.via <= self.bound.keys():
                self._decide(draft, condition, fresh, self.bound, When.CANDIDATE)
        self.open = remaining
        tail_remaining = []
        for condition in self.tail_open:
            if condition.variables <= self.tail_bound.keys() and condition.variables & fresh:
                self._decide(draft, condition, fresh, self.tail_bound, When.NEWEST)
            else:
                tail_remaining.append(condition)
        self.tail_open = tail_remaining

    def _decide(
        self, draft: _Draft, condition: Condition, fresh: frozenset[str], bound: dict[str, int], when: When
    ) -> None:
        mine = sorted(condition.variables & fresh)
        if len(mine) == 1 and _is_comparison(condition, mine[0], bound):
            is_node = any(name != mine[0] for name in fresh)
            draft.comparisons.append((condition, when, _index_key(condition, mine[0], mine[0] if is_node else "")))
        else:
            draft.others.append(Decision(condition, How.CODE, when))

    def _settle(self, draft: _Draft, depth: int) -> None:
        """What can be decided once a step is bound: conditions on lists, absences; then what is stored."""
        remaining = []
        last = self.program.completes and depth >= self.last_store
        for condition in self.open:
            if condition.variables <= self.bound.keys() and (not condition.variables & self.program.empty or last):
                draft.others.append(Decision(condition, How.CODE, When.BOUND))
            else:
                remaining.append(condition)
        self.open = remaining
        self._place_checks(draft, last)
        draft.stores += [names for after, names in self.program.stores if after == depth]

    # -- absences ----------------------------------------------------------------------------------------------------
    def _decides(self, names: frozenset[str], absence: Absence) -> bool:
        """Whether a node of these variables has decided an absence when it was stored."""
        return not _depends_on_window(self.branch, absence.negation) and _needed(self.branch, absence) <= names

    def _place_checks(self, draft: _Draft, last: bool) -> None:
        remaining = []
        for absence in self.absences:
            needed = _needed(self.branch, absence)
            late = _depends_on_window(self.branch, absence.negation) or bool(needed & self.program.empty)
            ready = needed <= self.bound.keys()
            if not self.program.completes:
                ready = ready and any(self._decides(names, absence) for _, names in self.program.stores)
            if ready and (last or not late):
                draft.checks.append((absence, late, self._check(absence)))
            else:
                remaining.append(absence)
        self.absences = remaining

    def _check(self, absence: Absence) -> _Draft:
        name = absence.negation.name
        check = _Draft(self.found.source(name))
        bound = {**self.bound, name: _NEGATED}
        others = [different(name, rival.name, self.lists) for rival in rivals(self.branch, absence.negation)]
        for condition in (*absence.conditions, *others):
            if (condition.each | condition.pairs) & self.program.empty:
                continue  # there is no element that could refute it
            if not condition.lists and _is_comparison(condition, name, bound):
                check.comparisons.append((condition, When.CANDIDATE, _index_key(condition, name, "")))
            else:
                check.others.append(Decision(condition, How.CODE, When.CANDIDATE))
        return check


def _is_elementwise(condition: Condition, name: str) -> bool:
    """Whether it is about each element of one list, and besides about single events only."""
    return condition.each == {name} and not condition.pairs | condition.whole


def _is_comparison(condition: Condition, candidate: str, bound: dict[str, int]) -> bool:
    """Whether a condition just compares a candidate's column with that of another row."""
    compared = compared_with(condition, candidate)
    if compared is None:
        return False
    _, left, right = compared
    mine, other = bound[left.variable], bound[right.variable]
    return _LIST not in (mine, other) and mine != other


def _index_key(condition: Condition, candidate: str, owner: str) -> _Key | None:
    """The candidate's value that an index could be made for: one that must be equal, and is no float.

    `owner` is the variable whose value it is in a store of partial matches; a store of events may serve many variables.
    """
    assert condition.comparison is not None
    symbol, left, right = condition.comparison
    mine = left if left.variable == candidate else right
    if symbol != "=" or mine.is_float:
        return None
    return owner, mine.column
