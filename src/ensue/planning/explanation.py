"""An explanation: what a plan keeps, and what each event sets off, as plain values in the user's words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ensue.events.schema import Schema
from ensue.pattern.expressions import Attribute, Expression, rewrite
from ensue.pattern.expressions import variables_of as names_in
from ensue.pattern.format import format_clauses, format_expression, format_window
from ensue.pattern.normalize import Branch, Negation, Variable
from ensue.pattern.query import Policy, Query
from ensue.planning.absences import find_mark, nearest
from ensue.planning.aggregates import Choice, Method, plan_aggregates
from ensue.planning.common import LeafKey, key_of
from ensue.planning.conditions import Condition, Conditions, Filter, analyze, is_local
from ensue.planning.default import default_plan
from ensue.planning.expectation import Expectation
from ensue.planning.explain_counters import AggregateExplanation, describe_aggregates
from ensue.planning.plan import Join, Leaf, Plan, Tree, check_plan, variables_of
from ensue.planning.searches import (
    BranchSearches,
    Check,
    Decision,
    How,
    Search,
    SearchStep,
    Source,
    conditions_between,
    trace_searches,
)
from ensue.planning.spread import find_spread


@dataclass(frozen=True, slots=True)
class ConditionExplanation:
    """A condition where it is decided: `by` index, comparison or code (None: types will tell), and `on` what."""

    text: str
    by: str | None
    on: str


@dataclass(frozen=True, slots=True)
class AbsenceExplanation:
    """An absence: events of `type` that must not be `after` and `before` some events of the match.

    `known` says when it is decided; `conditions` are what such an event would have to satisfy against the match;
    `index` is what a step looks for it by; `beside` the variable beside whose events the first such event is noted.
    """

    variable: str
    type: str
    after: tuple[str, ...]
    before: tuple[str, ...]
    known: str  # "at once" | "with the match" | "when the window has passed"
    conditions: tuple[str, ...] = ()
    index: str | None = None
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class InputExplanation:
    """The events of one variable. `stored` while every store of one of the groups `while_held` has something in it.

    `stored` is None for a run of NEXT or STRICT, which takes an event or lets it go; `shares` are the variables with
    the same input. Events of an absence that are not stored are noted `beside` those of another variable.
    """

    variable: str
    type: str
    count: str  # "one", "1 or more", "0 to 3", "none" for an absence
    filters: tuple[str, ...]
    stored: bool | None
    while_held: tuple[tuple[str, ...], ...] = ()
    shares: tuple[str, ...] = ()
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """A node of the tree of joins, with the conditions and absences that belong to it and to nothing below it."""

    variables: tuple[str, ...]
    stored: bool
    asked: bool  # the plan asks for it to be stored; if it is not, that would serve nothing
    conditions: tuple[str, ...]
    absences: tuple[AbsenceExplanation, ...]
    input: InputExplanation | None = None
    children: tuple[NodeExplanation, ...] = ()


@dataclass(frozen=True, slots=True)
class StepExplanation:
    """A step of a search: which variables it binds, from `events`, as a `list`, or from stored `partial matches`.

    `order` is the order in time that it must keep to what is bound; `index` what its candidates are looked up by.
    """

    variables: tuple[str, ...]
    takes: str
    order: tuple[str, ...]
    index: str | None
    conditions: tuple[ConditionExplanation, ...]
    absences: tuple[AbsenceExplanation, ...]
    stores: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TriggerExplanation:
    """What an event sets off as the newest of a variable. `first` is what is decided on it alone.

    `gives`: `match`, `waiting match` or `partial match`; `waits_if_empty`: only matches in which all lists of one of
    these groups are empty wait.
    """

    variable: str
    type: str
    first: StepExplanation
    steps: tuple[StepExplanation, ...]
    gives: str
    empty: tuple[str, ...]
    waits_if_empty: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BranchExplanation:
    """One branch of the pattern. `tree` and `triggers` speak of ANY, `chain` of NEXT and STRICT."""

    order: tuple[str, ...]
    tree: NodeExplanation | None
    chain: tuple[NodeExplanation, ...]
    absences: tuple[AbsenceExplanation, ...]
    absence_inputs: tuple[InputExplanation, ...]
    triggers: tuple[TriggerExplanation, ...]


@dataclass(frozen=True, slots=True)
class CommonExplanation:
    """Events that are stored once for several queries."""

    type: str
    filters: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is run. `types_known` is False before the columns are known; `spread` is then None.

    `expected` is what the plan costs under statistics, where there are any. `common` are the events that it looks at
    together with other queries of the same engine.
    """

    query: str
    text: str
    policy: str
    window: str | None
    partition_by: tuple[str, ...]
    plan: str | None
    spread: str | None
    types_known: bool
    branches: tuple[BranchExplanation, ...]
    aggregate: AggregateExplanation | None = None
    expected: Expectation | None = None
    common: tuple[CommonExplanation, ...] = ()


def describe(
    query: Query,
    branches: Sequence[Branch],
    plan: Choice | None,
    schema: Schema | None,
    common: Collection[LeafKey] = (),
) -> Explanation:
    """Explain how a query is run by a plan (None: the default plan), as far as the columns are known.

    `common` are the leaves that other queries of the same engine look at too.
    """
    analyses = [analyze(query, branch, schema) for branch in branches]
    shown: str | None = None
    aggregate: AggregateExplanation | None = None
    if query.aggregates:
        asked = Method.DETECTION if isinstance(plan, Plan) else plan
        aggregate = describe_aggregates(plan_aggregates(query, branches, schema, asked))
    plan = None if isinstance(plan, Method) else plan
    parts: tuple[BranchExplanation, ...]
    if aggregate is not None and aggregate.counters:
        parts = ()
    elif query.policy is Policy.ANY:
        chosen = plan or default_plan(query, branches, schema)
        check_plan(chosen, branches)
        traced = trace_searches(query, branches, analyses, chosen)
        scribe = _Scribe(query, traced, schema, common)
        parts = tuple(scribe.branch(one, tree) for one, tree in zip(traced, chosen.trees, strict=True))
        shown = str(chosen)
    else:
        parts = tuple(
            _describe_chain(branch, analysis, schema is not None)
            for branch, analysis in zip(branches, analyses, strict=True)
        )
    return Explanation(
        query=query.name or "q1",
        text=" ".join(
            " ".join(line.strip() for line in text.split("\n")) for key, text in format_clauses(query) if key != "QUERY"
        ),
        policy=query.policy.value,
        window=None if query.within is None else format_window(query.within),
        partition_by=query.partition_by,
        plan=shown,
        spread=None if schema is None else str(find_spread(query, schema)),
        types_known=schema is not None,
        branches=parts,
        aggregate=aggregate,
    )


class _Scribe:
    """Puts the searches of a plan in words."""

    def __init__(
        self, query: Query, traced: Sequence[BranchSearches], schema: Schema | None, common: Collection[LeafKey]
    ) -> None:
        self.query = query
        self.schema = schema
        self.common = common
        self.types_known = schema is not None
        self.users: dict[Source, list[tuple[BranchSearches, str]]] = {}
        for one in traced:
            for name in (*one.branch.names, *(n.name for n in one.branch.negations)):
                self.users.setdefault(one.source(name), []).append((one, name))

    def branch(self, traced: BranchSearches, tree: Tree) -> BranchExplanation:
        branch = traced.branch
        return BranchExplanation(
            order=_order_of(branch, branch.names),
            tree=self._node(traced, tree, True),
            chain=(),
            absences=tuple(self._absence(traced, n) for n in branch.negations),
            absence_inputs=tuple(self._input(traced, n.name) for n in branch.negations),
            triggers=tuple(self._trigger(traced, search) for search in traced.searches),
        )

    # -- the tree ----------------------------------------------------------------------------------------------------
    def _node(self, traced: BranchSearches, tree: Tree, is_root: bool) -> NodeExplanation:
        names = frozenset(variables_of(tree))
        parts = (tree.left, tree.right) if isinstance(tree, Join) else ()
        below = [frozenset(variables_of(part)) for part in parts]
        pool = conditions_between(traced.branch, traced.conditions)
        own = [c for c in pool if c.variables <= names and not any(c.variables <= b for b in below)]
        conditions = [c.text for c in own if not c.via or not c.via <= names]
        absences = []
        for negation in traced.branch.negations:
            late = traced.is_late(negation)
            needed = frozenset(traced.branch.names) if late else traced.needed(negation)
            if is_root if late else needed <= names and not any(needed <= b for b in below):
                absences.append(self._absence(traced, negation))
        return NodeExplanation(
            variables=variables_of(tree),
            stored=names in traced.storage.nodes,
            asked=isinstance(tree, Join) and tree.stored and not is_root,
            conditions=tuple(conditions),
            absences=tuple(absences),
            input=self._input(traced, tree.variable) if isinstance(tree, Leaf) else None,
            children=tuple(self._node(traced, part, False) for part in parts),
        )

    def _absence(self, traced: BranchSearches, negation: Negation) -> AbsenceExplanation:
        absence = _absence(traced.branch, traced.conditions, negation, self._known(traced, negation))
        return replace(absence, beside=self._beside(traced, negation))

    def _beside(self, traced: BranchSearches, negation: Negation) -> str | None:
        """The variable beside whose events an absence is noted; rows that are not this query's alone have no marks."""
        absence = next(a for a in traced.conditions.absences if a.negation is negation)
        found = find_mark(traced.branch, absence, traced.storage.nodes)
        if found is None:
            return None
        if self.schema is not None:
            kind, filter_, _ = traced.source(found[0])
            if key_of(self.query, self.schema, kind, filter_) in self.common:
                return None
        return found[0]

    def _known(self, traced: BranchSearches, negation: Negation) -> str:
        if traced.branch.may_wait(negation):
            return "when the window has passed"
        return "with the match" if traced.is_late(negation) else "at once"

    # -- inputs ------------------------------------------------------------------------------------------------------
    def _input(self, traced: BranchSearches, name: str) -> InputExplanation:
        negation = next((n for n in traced.branch.negations if n.name == name), None)
        beside = None if negation is None else self._beside(traced, negation)
        stored = (negation is not None and beside is None) or name in traced.storage.leaves
        needs: list[tuple[str, ...]] = []
        users = self._users(traced, name)
        if stored and users is not None:
            needs = [_by_store(one, user) for one, user in users]
        kind = negation.type if negation is not None else traced.branch.variable(name).type
        return InputExplanation(
            variable=name,
            type=kind,
            count="none" if negation is not None else _count_of(traced.branch.variable(name)),
            filters=_filters(traced.branch, traced.conditions, name, self.types_known),
            stored=stored,
            while_held=tuple(dict.fromkeys(needs)) if all(needs) else (),
            shares=tuple(dict.fromkeys(user for _, user in users or () if user != name)),
            beside=beside,
        )

    def _users(self, traced: BranchSearches, name: str) -> list[tuple[BranchSearches, str]] | None:
        """Whoever has the same input as a variable; None if that depends on types that are not known."""
        kind, _, negated = traced.source(name)
        alike = [source for source in self.users if source[0] == kind and source[2] == negated]
        if not self.types_known and sum(len(self.users[source]) for source in alike) > 1:
            return None
        return self.users[traced.source(name)]

    # -- searches ----------------------------------------------------------------------------------------------------
    def _trigger(self, traced: BranchSearches, search: Search) -> TriggerExplanation:
        program = search.program
        bound = {program.trigger}
        steps = []
        for k, step in enumerate(search.steps):
            steps.append(self._step(traced, step, frozenset(bound) if k else frozenset()))
            bound.update(step.step.variables)
        gives = "partial match" if not program.completes else "waiting match" if search.waits else "match"
        return TriggerExplanation(
            variable=program.trigger,
            type=traced.branch.variable(program.trigger).type,
            first=steps[0],
            steps=tuple(steps[1:]),
            gives=gives,
            empty=tuple(sorted(program.empty)) if program.completes else (),
            waits_if_empty=search.waits_if_empty if search.waits else (),
        )

    def _step(self, traced: BranchSearches, step: SearchStep, bound: frozenset[str]) -> StepExplanation:
        names = step.step.variables
        return StepExplanation(
            variables=names,
            takes="list" if step.step.is_list else "partial matches" if step.step.is_node else "events",
            order=_order_between(traced.branch, frozenset(names), bound),
            index=self._index(step.decisions, step.by_partition),
            conditions=tuple(self._decision(d) for d in step.decisions),
            absences=tuple(self._check(traced, check) for check in step.checks),
            stores=tuple(tuple(sorted(node)) for node in step.stores),
        )

    def _index(self, decisions: Sequence[Decision], by_partition: bool) -> str | None:
        if by_partition:
            return "partition"
        found = (d.condition.text for d in decisions if d.how is How.INDEX)
        return next(found, None) if self.types_known else None

    def _decision(self, decision: Decision) -> ConditionExplanation:
        by = decision.how.value if self.types_known else None
        return ConditionExplanation(decision.condition.text, by, decision.when.value)

    def _check(self, traced: BranchSearches, check: Check) -> AbsenceExplanation:
        return replace(self._absence(traced, check.negation), index=self._index(check.decisions, check.by_partition))


def _by_store(traced: BranchSearches, name: str) -> tuple[str, ...]:
    return tuple(", ".join(sorted(store)) for store in traced.storage.needs[name])


# -- runs ------------------------------------------------------------------------------------------------------------
def _describe_chain(branch: Branch, conditions: Conditions, types_known: bool) -> BranchExplanation:
    """A branch under NEXT or STRICT: which conditions each variable's event is taken by."""
    chain: list[NodeExplanation] = []
    for k, variable in enumerate(_in_order(branch)):
        known = {v.name for v in _in_order(branch)[: k + 1]}
        decided = [c for c in conditions.conditions if c.variables <= known and variable.name in c.variables]
        chain.append(
            NodeExplanation(
                variables=(variable.name,),
                stored=False,
                asked=False,
                conditions=tuple(c.text + _closing(c, variable.name) for c in decided),
                absences=(),
                input=InputExplanation(
                    variable.name,
                    variable.type,
                    _count_of(variable),
                    _filters(branch, conditions, variable.name, types_known),
                    None,
                ),
            )
        )
    absences = tuple(
        _absence(branch, conditions, n, "when the window has passed" if branch.may_wait(n) else "with the match")
        for n in branch.negations
    )
    inputs = tuple(
        InputExplanation(n.name, n.type, "none", _filters(branch, conditions, n.name, types_known), True)
        for n in branch.negations
    )
    return BranchExplanation(_order_of(branch, branch.names), None, tuple(chain), absences, inputs, ())


def _in_order(branch: Branch) -> list[Variable]:
    return sorted(branch.variables, key=lambda v: len(branch.predecessors(v.name)))


def _closing(condition: Condition, name: str) -> str:
    """When a condition on a whole list is decided, which is not when an element is taken."""
    return f" (when the list of {name} is closed)" if name in condition.whole else ""


# -- words -----------------------------------------------------------------------------------------------------------
def _absence(branch: Branch, conditions: Conditions, negation: Negation, known: str) -> AbsenceExplanation:
    absence = next(a for a in conditions.absences if a.negation is negation)
    after = nearest(branch, negation.after, latest=True)
    before = nearest(branch, negation.before, latest=False)
    return AbsenceExplanation(
        negation.name, negation.type, tuple(after), tuple(before), known, tuple(c.text for c in absence.conditions)
    )


def _count_of(variable: Variable) -> str:
    if not variable.kleene:
        return "one"
    if variable.maximum is None:
        return "any number" if variable.minimum == 0 else f"{variable.minimum} or more"
    if variable.minimum == variable.maximum:
        return f"{variable.minimum}"
    return f"{variable.minimum} to {variable.maximum}"


def _filters(branch: Branch, conditions: Conditions, name: str, types_known: bool) -> tuple[str, ...]:
    """What an event of a variable must satisfy by itself; without types only what WHERE says."""
    negation = next((n for n in branch.negations if n.name == name), None)
    if not types_known:
        spoken: Iterable[Expression] = branch.conjuncts if negation is None else negation.conjuncts
        return tuple(format_expression(c) for c in spoken if is_local(c) and names_in(c) <= {name})
    if negation is None:
        chosen: Filter = conditions.filters[name]
    else:
        chosen = next(a.filter for a in conditions.absences if a.negation is negation)
    return tuple(format_expression(_about(expression, name)) for expression in chosen.expressions)


def _about(expression: Expression, name: str) -> Expression:
    return rewrite(expression, lambda leaf: Attribute(name, leaf.name or ""))


def _order_of(branch: Branch, names: Sequence[str]) -> tuple[str, ...]:
    """The order of time as chains and pairs, without what follows from the rest: `a → b → c`, or `a → b`, `a → c`."""
    pairs = [p for p in sorted(branch.before, key=lambda p: (names.index(p[0]), names.index(p[1])))]
    direct = [(x, y) for x, y in pairs if not any((x, z) in branch.before and (z, y) in branch.before for z in names)]
    chains: list[list[str]] = []
    for x, y in direct:
        alone = [p for p in direct if p[0] == x] == [p for p in direct if p[1] == y]
        chain = next((c for c in chains if c[-1] == x), None) if alone else None
        if chain is not None:
            chain.append(y)
        else:
            chains.append([x, y])
    ordered = {name for pair in direct for name in pair}
    return (*(" → ".join(chain) for chain in chains), *(name for name in names if name not in ordered))


def _order_between(branch: Branch, fresh: frozenset[str], bound: frozenset[str]) -> tuple[str, ...]:
    """The order that fresh variables must keep to bound ones, without what follows from the rest."""
    known = fresh | bound
    found = []
    for x in branch.names:
        for y in branch.names:
            if (x, y) not in branch.before or not ({x, y} <= known and len({x, y} & fresh) == 1):
                continue
            between = (z for z in known if branch.variable(z).minimum > 0)  # an empty list orders nothing
            if not any((x, z) in branch.before and (z, y) in branch.before for z in between):
                found.append(f"{x} → {y}")
    return tuple(found)
