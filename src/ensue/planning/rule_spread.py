"""How the events of a program with rules may be spread over machines: by a key, by slices of time, or not at all.

A key is an attribute of every event type that, in each rule, is the same variable in all events, those of absences and
collections included, and stands in the head: then what one value of the key derives depends on its own events alone,
and no other value derives the same. All that a derived event depends on lies within its interval; so where intervals
are bounded, a slice of time that is read so much further derives all that begins in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ensue.events.schema import Schema
from ensue.pattern.expressions import BARE, Attribute
from ensue.planning.rules import RulePlan
from ensue.planning.spread import HASHED, Key, Spread, find_spread
from ensue.rules.lowering import Body, Source
from ensue.rules.program import Program


def find_rule_spread(program: Program, plans: Mapping[str, Sequence[RulePlan]], schema: Schema, wide: Schema) -> Spread:
    """How a program's events may be spread; `wide` is the schema with the columns of derived events, for its queries.

    >>> from ensue.events.schema import DType
    >>> from ensue.language import parse_program
    >>> from ensue.planning.rule_programs import plan_program
    >>> program = parse_program("EVENT a(k: int); RULE b(k) <- i: a(k), j: a(k), i BEFORE j BY < 10;")
    >>> schema = Schema({"type": DType.STRING, "ts": DType.INT, "k": DType.INT})
    >>> spread = find_rule_spread(program, plan_program(program, schema)[1], schema, schema)
    >>> spread.key.every, spread.window
    (('k',), 10)
    """
    bodies = [plan.body for own in plans.values() for plan in own]
    queries = [find_spread(query, wide) for query in program.queries]
    lengths = [plan.extent.most for own in plans.values() for plan in own if plan.is_possible]
    windows = [None if length is None else length + 1 for length in lengths] + [query.window for query in queries]
    known = [window for window in windows if window is not None]
    return Spread(
        None if queries else _find_key(bodies, program, schema),
        max(known, default=1) if len(known) == len(windows) else None,
        any(query.looks_back for query in queries),
        any(query.is_ordered for query in queries),
    )


def _find_key(bodies: Sequence[Body], program: Program, schema: Schema) -> Key | None:
    """One attribute for each type; rules that share no type with the others are keyed for themselves."""
    found: dict[str, str] = {}
    for component in _components(bodies):
        first = component[0].sources[0]
        tried = (_extend({first.type: attribute}, component) for attribute in first.variables.values())
        chosen = next((one for one in tried if one is not None and _is_hashed(one, program, schema)), None)
        if chosen is None:
            return None
        found |= chosen
    by_type = {kind: name for kind, name in found.items() if kind not in program.derived}
    names = set(by_type.values())
    if len(names) == 1:
        return Key(every=(names.pop(),), null_matches=True)
    return Key(by_type=tuple(sorted((kind, (name,)) for kind, name in by_type.items())), null_matches=True)


def _is_hashed(found: Mapping[str, str], program: Program, schema: Schema) -> bool:
    """Whether equal values of a key are the same bits in all types."""
    kinds = {schema.columns.get(name) for kind, name in found.items() if kind not in program.derived}
    return len(kinds) == 1 and kinds <= HASHED


def _components(bodies: Sequence[Body]) -> list[list[Body]]:
    """The rules in groups that share no type."""
    groups: list[tuple[set[str], list[Body]]] = []
    for body in bodies:
        types, own = {body.rule.type, *body.rule.types}, [body]
        apart = []
        for group in groups:
            if group[0] & types:
                types |= group[0]
                own = [*group[1], *own]
            else:
                apart.append(group)
        groups = [*apart, (types, own)]
    return [own for _, own in groups]


def _extend(known: dict[str, str], bodies: Sequence[Body]) -> dict[str, str] | None:
    """The attribute of every type that follows from those of some; None if a rule leaves one open, or wants another."""
    found = dict(known)
    waiting = list(bodies)
    while waiting:
        body = next(b for b in waiting if found.keys() & {b.rule.type, *b.rule.types})
        waiting.remove(body)
        variable = _key_variable(body, found)
        if variable is None:
            return None
        for source in _sources(body):
            attribute = source.variables.get(variable)
            if attribute is None or found.setdefault(source.type, attribute) != attribute:
                return None
        columns = zip(body.columns, body.rule.head, strict=True)
        own = [name for name, column in columns if column.expression == Attribute(BARE, variable)]
        if not own or found.setdefault(body.rule.type, own[0]) not in own:
            return None
    return found


def _key_variable(body: Body, found: Mapping[str, str]) -> str | None:
    """The variable that has to be the key in a rule, from a type whose key is known."""
    for source in _sources(body):
        if source.type in found:
            return next((name for name, place in source.variables.items() if place == found[source.type]), None)
    place = list(body.columns).index(found[body.rule.type])
    expression = body.rule.head[place].expression
    return expression.name if isinstance(expression, Attribute) and expression.variable == BARE else None


def _sources(body: Body) -> tuple[Source, ...]:
    return (*body.sources, *(window.source for window in body.windows))
