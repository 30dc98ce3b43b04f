"""How a plan is shown: as a tree in text, as a Mermaid flowchart, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from ensue.errors import PlanError
from ensue.events.schema import Schema
from ensue.pattern.format import format_expression
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Query
from ensue.planning.aggregates import Choice, Counters, Method, plan_aggregates
from ensue.planning.common import CommonLeaf, common_leaves
from ensue.planning.conditions import speak_of
from ensue.planning.expectation import BranchExpectation, Expectation
from ensue.planning.explain_counters import AggregateExplanation, CounterExplanation, describe_sharing, tell_sharing
from ensue.planning.explanation import (
    AbsenceExplanation,
    BranchExplanation,
    CommonExplanation,
    ConditionExplanation,
    Explanation,
    InputExplanation,
    NodeExplanation,
    StepExplanation,
    TriggerExplanation,
    describe,
)
from ensue.planning.figures import LOOK_WEIGHT
from ensue.planning.latency import SWING

FORMATS = ("text", "mermaid", "json")


def explain(
    plans: Sequence[tuple[Query, Choice | None, Schema | None]],
    format: str = "text",
    expected: Mapping[str, Expectation] | None = None,
    *,
    share: bool = True,
    rates: Mapping[str, float] | None = None,
    sharing: Sequence[Sequence[str]] | None = None,
) -> str:
    """Queries with their plans, shown as `text`, `mermaid` or `json`.

    Without a plan the default one is shown; without a schema only what does not depend on the types of columns.
    `expected` has the costs of the plans under statistics, by the queries' names. `share`: AGG queries share counters,
    as `sharing` names them, or as it is best where the events of types come at such `rates`.

    >>> from ensue.pattern.query import Item, Query, Seq
    >>> query = Query(Seq((Item("A", "a"), Item("B", "b"))), name="pairs")
    >>> print(explain([(query, None, None)]).splitlines()[0])
    pairs: PATTERN SEQ(A a, B b)
    """
    if format not in FORMATS:
        raise PlanError(f"a plan is shown as {', '.join(FORMATS)}; there is no format `{format}`")
    shared = find_common([query for query, _, _ in plans], [schema for _, _, schema in plans])
    keys = [leaf.key for leaf in shared]
    described = [describe(query, normalize(query), plan, schema, keys) for query, plan, schema in plans]
    described = [replace(one, expected=(expected or {}).get(one.query)) for one in described]
    common = list(map(describe_common, shared))
    described = [replace(one, common=tuple(c for c in common if one.query in c.queries)) for one in described]
    if share:
        aggregates = describe_sharing(
            [one.aggregate for one in described],
            [one.query for one in described],
            [_chain(query, plan, schema) for query, plan, schema in plans],
            rates,
            sharing,
        )
        described = [replace(one, aggregate=told) for one, told in zip(described, aggregates, strict=True)]
    if format == "text":
        return "\n\n".join(render_text(one) for one in described)
    if format == "mermaid":
        return render_mermaid(described)
    return json.dumps([asdict(one) for one in described], indent=2, ensure_ascii=False)


def _chain(query: Query, plan: Choice | None, schema: Schema | None) -> Counters | None:
    """The counters of an AGG query that can be shared."""
    if not query.aggregates or plan not in (None, Method.SUB_PATTERNS):
        return None
    chosen = plan_aggregates(query, normalize(query), schema)
    return chosen.counters if chosen.method is Method.SUB_PATTERNS else None


def find_common(queries: Sequence[Query], schemas: Sequence[Schema | None]) -> tuple[CommonLeaf, ...]:
    """The leaves that an engine with these queries has once for several of them."""
    if len(queries) < 2 or schemas[0] is None or any(schema != schemas[0] for schema in schemas):
        return ()
    return common_leaves(queries, schemas[0])


def describe_common(leaf: CommonLeaf) -> CommonExplanation:
    """A leaf that several queries look at."""
    kind = leaf.key.type
    filters = (format_expression(speak_of(kind, one)) for one in leaf.key.filter.expressions)
    return CommonExplanation(kind, tuple(filters), leaf.queries)


# -- text ------------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Entry:
    """A line with the lines that belong to it (`details`) and the entries below it."""

    label: str
    details: list[str] = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield _one_line(self.label)
        for detail in self.details:
            yield ("│  " if self.entries else "   ") + _one_line(detail)
        for k, entry in enumerate(self.entries):
            is_last = k == len(self.entries) - 1
            for n, line in enumerate(entry.lines()):
                if n == 0:
                    yield ("└─ " if is_last else "├─ ") + line
                else:
                    yield ("   " if is_last else "│  ") + line


def _one_line(text: str) -> str:
    """A constant of a query may hold line breaks; the tree must not."""
    return "↵".join(text.splitlines())


def render_text(explanation: Explanation) -> str:
    """An explanation as a tree in text."""
    root = _Entry(f"{explanation.query}: {explanation.text}", details=_facts(explanation))
    if explanation.aggregate is not None:
        root.entries += _counter_entries(explanation.aggregate)
    several = len(explanation.branches) > 1
    for k, branch in enumerate(explanation.branches, 1):
        title = "order in time: " + ", ".join(branch.order)
        if several:
            root.entries.append(
                _Entry(f"branch {k} of {len(explanation.branches)}", [title], _branch_entries(branch, explanation))
            )
        else:
            root.details.append(title)
            root.entries += _branch_entries(branch, explanation)
    if explanation.expected is not None:
        root.entries.append(_expectation_entry(explanation.expected))
    return "\n".join(root.lines())


def _facts(explanation: Explanation) -> list[str]:
    window = (
        "no window: nothing expires" if explanation.window in (None, "UNBOUNDED") else f"WITHIN {explanation.window}"
    )
    facts = [f"policy {explanation.policy}, {window}"]
    if explanation.partition_by:
        facts[0] += f", partitions by {', '.join(explanation.partition_by)}"
    if explanation.plan is not None:
        facts.append(f"plan {explanation.plan}")
    if explanation.spread is not None:
        facts.append(f"on Spark {explanation.spread}")
    for common in explanation.common:
        others = ", ".join(name for name in common.queries if name != explanation.query)
        filters = f" with {' AND '.join(common.filters)}" if common.filters else ""
        facts.append(f"{common.type} events{filters} are stored once, with {others}")
    if not explanation.types_known:
        facts.append("columns are not known yet: their types will tell how conditions are decided, and may add filters")
    aggregate = explanation.aggregate
    if aggregate is not None and aggregate.counters:
        facts.append(f"matches are not built but counted, by {aggregate.method}: {aggregate.reason}")
        facts += [f"one state for each {key}" for key in aggregate.key]
        facts += tell_sharing(aggregate)
    elif aggregate is not None:
        facts.append("matches are found first, then aggregated")
        facts += [f"warning: {obstacle} cannot be decided by counters alone" for obstacle in aggregate.obstacles]
    return facts


def _counter_entries(aggregate: AggregateExplanation) -> list[_Entry]:
    return [_Entry(_counter_text(one)) for one in aggregate.counters]


def _counter_text(one: CounterExplanation) -> str:
    filters = f" with {', '.join(one.filters)}" if one.filters else ""
    return f"{one.variable}: {one.type} events{filters} — {one.does}"


def _expectation_entry(expected: Expectation) -> _Entry:
    by_latency = [line for branch in expected.branches for line in _latencies(branch)]
    if by_latency:
        entry = _Entry("chosen for latency: the time from the arrival of a match's last event")
    else:
        held = "events and partial matches held at a moment"
        entry = _Entry(f"expected cost {expected.cost:.6g}: {held}; a look at a pair counts {LOOK_WEIGHT:g}")
    entry.details.append(f"by statistics of {expected.span}")
    entry.details += [_basis(branch) for branch in expected.branches]
    if by_latency:
        entry.details += by_latency
    else:
        entry.details.append("each planner's plan costs")
        width = max(len(one.planner) for one in expected.alternatives)
        for one in expected.alternatives:
            entry.details.append(f"   {one.planner:<{width}} {one.cost:>12.6g}  {one.plan}")
    entry.details.append(f"planned anew {expected.replanned}")
    for branch in expected.branches:
        for watched in branch.invariants:
            sides = f"{watched.left:.6g} and {watched.right:.6g}, d = {watched.distance:.3g}"
            broken = "" if watched.holds else ", broken now"
            entry.details.append(f"   {watched.block}: {watched.text}: {sides}{broken}")
        if branch.hints:
            entry.details.append(
                f"   and {branch.hints} of sub-plans that are no part of the plan, but may be of another"
            )
    if expected.passed_over is not None:
        about = f"{expected.passed_over.plan}, at {expected.passed_over.cost:.6g} now"
        entry.details.append(f"   or when what was planned last, but is not in use, saves enough: {about}")
    return entry


def _latencies(branch: BranchExpectation) -> list[str]:
    """The plans that were compared by latency, the chosen one marked."""
    if not branch.candidates:
        return []
    title = "eager / lazy"
    width = max(len(title), *(len(one.name) for one in branch.candidates))
    pressed = f"at {SWING:g}x load"
    head = f"     {title:<{width}}  {'queue':>10}  {'service':>10}  {'latency':>10}  utilisation  {pressed}"
    lines = []
    for one in branch.candidates:
        together = None if one.wait is None else one.wait + one.service
        waiting, service, latency = map(_microseconds, (one.wait, one.service, together))
        times = f"{waiting:>10}  {service:>10}  {latency:>10}  {one.utilisation:>11.3g}"
        times += f"  {_microseconds(one.pressed):>{len(pressed)}}"
        lines.append(f"   {'>' if one.chosen else ' '} {one.name:<{width}}  {times}  {one.plan}")
    return [head, *lines]


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return "∞"
    return f"{seconds * 1e6:,.{0 if seconds >= 1e-3 else 2 if seconds < 1e-4 else 1}f} µs"


def _basis(branch: BranchExpectation) -> str:
    events = ", ".join(f"{count:.4g} of {name}" for name, count in branch.events.items())
    known = [(name, value) for name, value in branch.selectivities.items() if not name.startswith("together(")]
    shares = ", ".join(f"{name} {value:.4g}" for name, value in known)
    if len(known) < len(branch.selectivities):
        shares += f", and how often all holds in {len(branch.selectivities) - len(known)} sets of three and more"
    return f"in a window {events}" + (f"; {shares}" if shares else "")


def _branch_entries(branch: BranchExplanation, explanation: Explanation) -> list[_Entry]:
    if branch.tree is None:
        return _chain_entries(branch, explanation)
    entries = [_node_entry(branch.tree, True)]
    for absence, given in zip(branch.absences, branch.absence_inputs, strict=True):
        entry = _Entry(f"absent {_input_text(given)}")
        if absence.known == "when the window has passed":
            entry.details.append(
                f"each that comes refutes the waiting matches that it would fit into{_against(absence)}"
            )
        entries.append(entry)
    entries += [_trigger_entry(trigger) for trigger in branch.triggers]
    return entries


def _node_entry(node: NodeExplanation, is_root: bool) -> _Entry:
    names = ", ".join(node.variables)
    if node.input is not None and is_root:
        entry = _Entry(f"match of {names}", entries=[_Entry(_input_text(node.input))])
    elif node.input is not None:
        entry = _Entry(_input_text(node.input))
    else:
        entry = _Entry(f"match of {names}" if is_root else f"join of {names} — {_keeping(node)}")
        entry.entries = [_node_entry(child, False) for child in node.children]
    if node.conditions:
        entry.details.append("on " + ", ".join(node.conditions))
    entry.details += [_absence_text(absence) for absence in node.absences]
    return entry


def _keeping(node: NodeExplanation) -> str:
    if node.stored:
        return "stored"
    if not node.asked:
        return "found again when needed"
    has_list = any(given.count != "one" for given in _inputs(node))
    return f"found again when needed ({'it has a list' if has_list else 'nothing would look back for it if stored'})"


def _inputs(node: NodeExplanation) -> Iterator[InputExplanation]:
    if node.input is not None:
        yield node.input
    for child in node.children:
        yield from _inputs(child)


def _input_text(given: InputExplanation) -> str:
    text = f"{given.variable}: "
    if given.count not in ("one", "none"):
        text += f"list of {'any number of' if given.count == 'any number' else given.count} "
    text += f"{given.type} events"
    if given.filters:
        text += " with " + ", ".join(given.filters)
    if given.stored is not None:
        text += " — "
        if given.beside is not None and not given.stored:
            text += f"not stored: the first that fits an event of {given.beside} is noted beside it"
        elif not given.stored:
            text += "streamed past: nothing looks back for it"
        elif given.while_held:
            held = [_all(group) for group in given.while_held]
            text += f"stored, but only while {' or '.join(held)} held"
        else:
            text += "stored"
    if given.shares:
        text += f"; one input with {', '.join(given.shares)}"
    return text


def _all(group: Sequence[str]) -> str:
    names = [f"({name})" if "," in name else name for name in group]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _absence_text(absence: AbsenceExplanation) -> str:
    return f"absence of {absence.variable} {_place(absence)}{_against(absence)}, known {absence.known}"


def _check_text(absence: AbsenceExplanation) -> str:
    if absence.beside is not None:
        before = " and ".join(absence.before)
        return f"   check that no {absence.variable} is noted beside {absence.beside} before {before}"
    by = "" if absence.index is None else f", by index on {absence.index}"
    return f"   check that no {absence.variable} is there {_place(absence)}{_against(absence)}{by}"


def _place(absence: AbsenceExplanation) -> str:
    after, before = " and ".join(absence.after), " and ".join(absence.before)
    if after and before:
        return f"after {after} and before {before}"
    if after:
        return f"after {after}"
    return f"before {before}" if before else "anywhere in the window"


def _against(absence: AbsenceExplanation) -> str:
    return f" with {', '.join(absence.conditions)}" if absence.conditions else ""


def _trigger_entry(trigger: TriggerExplanation) -> _Entry:
    role = f"{trigger.variable}, the last of its list" if trigger.first.takes == "list" else trigger.variable
    entry = _Entry(f"when an event of {trigger.type} comes as {role}")
    if trigger.empty:
        entry.details.append(f"with {', '.join(trigger.empty)} empty: nothing of it can come before")
    entry.details += [_decision_text(c, trigger.first) for c in trigger.first.conditions]
    entry.details += [_check_text(absence) for absence in trigger.first.absences]
    for k, step in enumerate(trigger.steps, 1):
        entry.details += _step_lines(k, step)
    entry.details.append(_outcome(trigger))
    return entry


def _step_lines(number: int, step: StepExplanation) -> Iterator[str]:
    names = ", ".join(step.variables)
    match step.takes:
        case "list":
            text = f"{number}. make the lists of {names}"
        case "partial matches":
            text = f"{number}. look through the partial matches of {names}"
        case _:
            text = f"{number}. look through {names}"
    if step.index is not None:
        text += f", by index on {step.index}"
    if step.order:
        text += f", {', '.join(step.order)}"
    yield text
    for condition in step.conditions:
        if condition.by != "index":
            yield _decision_text(condition, step)
    for absence in step.absences:
        yield _check_text(absence)
    for node in step.stores:
        yield f"   store the partial match of {', '.join(node)}"


def _decision_text(condition: ConditionExplanation, step: StepExplanation) -> str:
    by = "" if condition.by is None else f" (by {condition.by})"
    match condition.on:
        case "newest":
            return f"   try {condition.text}{by} on the newest element"
        case "element":
            return f"   keep elements with {condition.text}{by}"
        case "pair":
            return f"   keep adjacent pairs with {condition.text}{by}"
        case "bound" if step.takes == "list":
            return f"   keep complete lists with {condition.text}{by}"
        case _:
            return f"   keep {condition.text}{by}"


def _outcome(trigger: TriggerExplanation) -> str:
    if trigger.gives == "partial match":
        return "⇒ no match yet"
    if trigger.gives == "match":
        return "⇒ a match"
    waiting = "waits until its window has passed"
    if not trigger.waits_if_empty:
        return f"⇒ a match that {waiting}"
    groups = " or ".join(", ".join(group) for group in trigger.waits_if_empty)
    return f"⇒ a match; it {waiting} if {groups} is empty"


def _chain_entries(branch: BranchExplanation, explanation: Explanation) -> list[_Entry]:
    strict = explanation.policy == "STRICT"
    entries = []
    for k, node in enumerate(branch.chain):
        assert node.input is not None
        name, count = node.variables[0], node.input.count
        takes = "may take" if count.startswith(("0", "any")) else "takes"
        which = "the very next event" if strict else "the earliest later event that fits"
        label = f"then {name} {takes} {which}" if k else f"each event that can be {name} begins a run"
        entry = _Entry(label, [_input_text(node.input)])
        if count not in ("one", "1", "0 to 1"):
            following = "" if k == len(branch.chain) - 1 else ", until the next variable can take one"
            entry.details.append(f"   go on with each event that fits{following}")
        entry.details += [f"   keep {text}" for text in node.conditions]
        entries.append(entry)
    for absence, given in zip(branch.absences, branch.absence_inputs, strict=True):
        entries.append(
            _Entry(f"absent {_input_text(given)}", [f"{_absence_text(absence)}; no other match is looked for"])
        )
    ends = ["they are complete"]
    ends += ["nothing can take the next event"] * strict
    ends += ["their window has passed"] * (explanation.window not in (None, "UNBOUNDED"))
    entries.append(_Entry(f"runs are kept until {' or '.join(ends)}"))
    return entries


# -- Mermaid ---------------------------------------------------------------------------------------------------------
def render_mermaid(explanations: Sequence[Explanation]) -> str:
    """Explanations as one Mermaid flowchart: inputs at the bottom, stored ones as cylinders, matches on top."""
    chart = _Chart()
    for explanation in explanations:
        with_branches = len(explanation.branches) > 1
        if explanation.aggregate is not None and explanation.aggregate.counters:
            chart.open(f"{explanation.query}: {explanation.text}")
            chart.counters(explanation.aggregate)
            chart.close()
        for k, branch in enumerate(explanation.branches, 1):
            title = f"{explanation.query}, branch {k}" if with_branches else explanation.query
            chart.open(f"{title}: {explanation.text}")
            if branch.tree is None:
                chart.chain(branch, explanation.policy)
            else:
                chart.branch(branch)
            chart.close()
    return "\n".join(chart.lines)


class _Chart:
    """The lines of a flowchart in the making; nodes are numbered, so that no name of a query is an identifier."""

    def __init__(self) -> None:
        self.lines = ["flowchart BT"]
        self.count = 0
        self.boxes = 0

    def open(self, title: str) -> None:
        self.boxes += 1
        self.lines.append(f'  subgraph s{self.boxes}["{_escape(title)}"]')

    def close(self) -> None:
        self.lines.append("  end")

    def node(self, parts: Sequence[str], shape: str) -> str:
        self.count += 1
        name = f"n{self.count}"
        left, right = {"store": ("[(", ")]"), "stream": ("([", "])"), "join": ("[", "]"), "match": ("{{", "}}")}[shape]
        label = "<br/>".join(_escape(part) for part in parts)
        self.lines.append(f'    {name}{left}"{label}"{right}')
        return name

    def edge(self, source: str, target: str, label: str = "", *, dotted: bool = False) -> None:
        arrow = "-.->" if dotted else "-->"
        said = f'|"{_escape(label)}"|' if label else ""
        self.lines.append(f"    {source} {arrow}{said} {target}")

    def counters(self, aggregate: AggregateExplanation) -> None:
        top = self.node([f"numbers by {aggregate.method}"], "match")
        for one in aggregate.counters:
            self.edge(self.node([_counter_text(one)], "stream"), top)

    def branch(self, branch: BranchExplanation) -> None:
        assert branch.tree is not None
        absent = {a.variable: given for a, given in zip(branch.absences, branch.absence_inputs, strict=True)}
        self._tree(branch.tree, absent, True)

    def _tree(self, node: NodeExplanation, absent: dict[str, InputExplanation], is_root: bool) -> str:
        if node.input is not None:
            name = self.node([_input_text(node.input), *node.conditions], "store" if node.input.stored else "stream")
            if is_root:
                self.edge(name, top := self.node([f"match of {node.variables[0]}"], "match"))
                name = top
        else:
            title = f"{'match' if is_root else 'join'} of {', '.join(node.variables)}"
            shape = "match" if is_root else "store" if node.stored else "join"
            name = self.node([title, *node.conditions], shape)
            for child in node.children:
                self.edge(self._tree(child, absent, False), name)
        for absence in node.absences:
            source = absent[absence.variable]
            given = self.node([f"absent {_input_text(source)}"], "store" if source.stored else "stream")
            self.edge(given, name, _absence_text(absence), dotted=True)
        return name

    def chain(self, branch: BranchExplanation, policy: str) -> None:
        previous = None
        for node in branch.chain:
            assert node.input is not None
            name = self.node([_input_text(node.input), *node.conditions], "stream")
            if previous is not None:
                self.edge(previous, name, "the very next event" if policy == "STRICT" else "the earliest that fits")
            previous = name
        match = self.node(["match"], "match")
        if previous is not None:
            self.edge(previous, match)
        for absence, given in zip(branch.absences, branch.absence_inputs, strict=True):
            self.edge(self.node([f"absent {_input_text(given)}"], "store"), match, _absence_text(absence), dotted=True)


def _escape(text: str) -> str:
    """Text inside a quoted label: whatever could end it or be read as markup is written as its number."""
    return "".join(f"#{ord(c)};" if c in '"#&;<>`\\|\r\n' else c for c in text)
