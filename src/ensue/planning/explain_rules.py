"""A rule's plan in words: its relational algebra, its joins, what is kept, streamed past and passed over, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ensue.pattern.expressions import Aggregate, walk
from ensue.pattern.format import format_expression
from ensue.planning.rules import (
    JoinPlan,
    LeafPlan,
    Lifetime,
    Node,
    RulePlan,
    Side,
    Suppression,
    WindowPlan,
    joins_of,
    leaves_of,
)
from ensue.rules.format import format_rule
from ensue.rules.lowering import Moment
from ensue.rules.reasoner import Constraint


def describe_rules(
    plans: Mapping[str, Sequence[RulePlan]], orders: Mapping[tuple[str, int], Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The plans of a program's rules, in the order of evaluation, as JSON-able values.

    `orders` tells of rules, by derived type and number, on what statistics the order of their joins rests.
    """
    known = orders or {}
    return [
        describe_rule(name, plan) | {"order": known.get((name, k))}
        for name, own in plans.items()
        for k, plan in enumerate(own)
    ]


def write_rules(described: Sequence[Mapping[str, Any]], format: str = "text") -> str:
    """What `describe_rules` gave as text or Mermaid."""
    if format == "mermaid":
        return "\n".join(["flowchart BT", *(line for k, one in enumerate(described) for line in _mermaid(k, one))])
    return "\n\n".join(_write(one) for one in described)


def describe_rule(name: str, plan: RulePlan) -> dict[str, Any]:
    """A rule's plan as JSON-able values."""
    notes = []
    if not plan.is_possible:
        notes.append("its conditions on time contradict each other: it never derives anything")
    if plan.is_delayed:
        passed = "has passed" if any(w.window.collects for w in plan.windows) else "is reached"
        notes.append(f"tuples wait until the end of the derived event {passed}")
    reason = plan.unbounded
    if reason is not None and plan.is_possible:
        notes.append(f"state without bound: {reason}")
    return {
        "rule": name,
        "text": format_rule(plan.body.rule),
        "algebra": write_algebra(plan),
        "sources": [_describe_leaf(leaf) for leaf in leaves_of(plan.root)],
        "joins": [_describe_join(node) for node in joins_of(plan.root)],
        "windows": [_describe_window(window) for window in plan.windows],
        "notes": notes,
    }


# -- relational algebra ------------------------------------------------------------------------------------------------


def write_algebra(plan: RulePlan) -> str:
    """The rule as an expression of relational algebra, as Bry and Eckert write it (▷ is the anti-semi-join)."""
    body = plan.body
    text = _algebra(plan.root)
    timers = [
        f"{name}.begin ← {_moment(begin)}, {name}.end ← {_moment(end)}"
        for name, (begin, end) in body.spans.items()
        if name not in {source.name for source in body.sources}
    ]
    if timers:
        text = f"π[…, {', '.join(timers)}]({text})"
    for window in sorted(plan.windows, key=lambda w: w.window.collects):
        sign = "⟕" if window.window.collects else "▷"
        text = f"({text} {sign}[{_tie(window.variables, window.constraints)}] {_relation(window.leaf)})"
    begins = ", ".join(dict.fromkeys(_moment(begin) for begin, _ in body.spans.values()))
    ends = ", ".join(dict.fromkeys(_moment(end) for _, end in body.spans.values()))
    head = [format_expression(column.expression) for column in body.rule.head]
    aggregates = any(isinstance(n, Aggregate) for c in body.rule.head for n in walk(c.expression))
    sign = "γ" if aggregates or any(w.window.collects for w in plan.windows) else "π"
    return f"{sign}[{', '.join([f'begin ← min({begins})', f'end ← max({ends})', *head])}]({text})"


def _algebra(node: Node) -> str:
    if isinstance(node, LeafPlan):
        text = _relation(node)
        conditions = [*map(_constraint, node.constraints), *map(format_expression, node.conditions)]
        return f"σ[{' ∧ '.join(conditions)}]({text})" if conditions else text
    text = f"({_algebra(node.left)} ⋈[{_tie(node.variables, node.constraints)}] {_algebra(node.right)})"
    return f"σ[{' ∧ '.join(map(format_expression, node.conditions))}]{text}" if node.conditions else text


def _relation(leaf: LeafPlan) -> str:
    source = leaf.source
    terms = [f"{attribute} = {format_expression(constant)}" for attribute, constant in source.constants]
    terms += [f"{one} = {other}" for one, other in source.equal]
    name = f"{source.type} {source.name}" if "#" not in source.name else source.type
    return f"σ[{' ∧ '.join(terms)}]({name})" if terms else name


def _tie(variables: Sequence[str], constraints: Sequence[Constraint]) -> str:
    return " ∧ ".join([*variables, *map(_constraint, constraints)])


def _constraint(one: Constraint) -> str:
    left, right = _point(one.left), _point(one.right)
    if one.most == -1:
        return f"{left} < {right}"
    if one.most == 0:
        return f"{left} ≤ {right}"
    return f"{left} ≤ {right} {'+' if one.most > 0 else '−'} {abs(one.most)}"


def _point(point: tuple[str, str]) -> str:
    return f"{point[0].partition('#')[0]}.{point[1]}"


def _moment(moment: Moment) -> str:
    if not moment.offset:
        return _point(moment.point)
    return f"{_point(moment.point)} {'+' if moment.offset > 0 else '−'} {abs(moment.offset)}"


# -- what is kept ------------------------------------------------------------------------------------------------------


def _describe_leaf(leaf: LeafPlan) -> dict[str, Any]:
    return {
        "name": leaf.source.name,
        "type": leaf.source.type,
        "filters": [*map(_constraint, leaf.constraints), *map(format_expression, leaf.conditions)],
        "suppressed": _suppressed(leaf.suppression),
    }


def _suppressed(suppression: Suppression | None) -> str | None:
    if suppression is None:
        return None
    ago = "" if suppression.within is None else f", no more than {suppression.within} before its end"
    return f"passed over unless an event of {suppression.by} has ended before it begins{ago}"


def _describe_join(node: JoinPlan) -> dict[str, Any]:
    return {
        "join": f"{_names(node.left)} ⋈ {_names(node.right)}",
        "on": _tie(node.variables, node.constraints),
        "conditions": [format_expression(condition) for condition in node.conditions],
        "sides": [{"of": ", ".join(side.names), "kept": _kept(side)} for side in node.sides],
    }


def _names(node: Node) -> str:
    names = [leaf.source.name for leaf in leaves_of(node)]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _kept(side: Side) -> str:
    if not side.is_stored:
        return f"streams past, since {side.why}"
    return f"kept {_until(side.lifetime)}"


def _until(lifetime: Lifetime) -> str:
    if lifetime.needs is None:
        return f"for ever: {lifetime.unbounded}"
    single = {
        need[0].point: max(n[0].offset for n in lifetime.needs if len(n) == 1 and n[0].point == need[0].point)
        for need in lifetime.needs
        if len(need) == 1
    }
    parts = [_moment(Moment(point, offset)) for point, offset in single.items()]
    parts += [f"min({', '.join(map(_moment, need))})" for need in lifetime.needs if len(need) > 1]
    return "until " + (parts[0] if len(parts) == 1 else f"max({', '.join(parts)})")


def _describe_window(window: WindowPlan) -> dict[str, Any]:
    return {
        "window": window.window.text,
        "kept": _kept(window.side),
        "suppressed": _suppressed(window.leaf.suppression),
    }


# -- text and Mermaid --------------------------------------------------------------------------------------------------


def _write(one: Mapping[str, Any]) -> str:
    lines = [f"rule {one['rule']}", *("  " + line for line in one["text"].split("\n")), f"  {one['algebra']}"]
    for source in one["sources"]:
        filters = f", where {' and '.join(source['filters'])}" if source["filters"] else ""
        lines.append(f"  {source['name']}: {source['type']}{filters}")
        if source["suppressed"]:
            lines.append(f"    {source['suppressed']}")
    for join in one["joins"]:
        lines.append(f"  {join['join']}" + (f" on {join['on']}" if join["on"] else ""))
        lines += [f"    where {condition}" for condition in join["conditions"]]
        lines += [f"    {side['of']}: {side['kept']}" for side in join["sides"]]
    lines += _write_order(one["order"]) if one["order"] else []
    for window in one["windows"]:
        lines += [f"  {window['window']}", f"    {window['kept']}"]
        if window["suppressed"]:
            lines.append(f"    {window['suppressed']}")
    lines += [f"  {note}" for note in one["notes"]]
    return "\n".join(lines)


def _write_order(order: Mapping[str, Any]) -> list[str]:
    window = f"{order['window']:,.6g}"
    rows = ", ".join(f"{name} {number:.4g}" for name, number in order["rows"].items())
    pairs = ", ".join(f"{name} {share:.3g}" for name, share in order["pairs"].items())
    return [
        f"  joined in the order {order['order']} by statistics: {order['tuples']:.4g} tuples in a time of {window}; "
        f"as written {order['written']}: {order['written_tuples']:.4g}",
        f"    rows in that time: {rows}",
        f"    shares of pairs that join: {pairs}",
    ]


def _mermaid(number: int, one: Mapping[str, Any]) -> list[str]:
    rule = f"r{number}"
    lines = [f'  {rule}["{one["rule"]}"]']
    for k, source in enumerate(one["sources"]):
        lines.append(f'  {rule}s{k}(["{source["type"]} {source["name"]}"]) --> {rule}')
    for k, window in enumerate(one["windows"]):
        lines.append(f'  {rule}w{k}(["{window["window"]}"]) -.-> {rule}')
    return lines
