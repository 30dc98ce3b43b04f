"""Whether a program makes sense: names, arguments, safety, types, no recursion. One error, where the fault is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ensue.errors import QueryError, QueryNameError, QueryTypeError, Span
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import BARE, Aggregate, Duration, Expression, walk
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.types import ValueType, fold_duration
from ensue.rules.allen import RELATIONS
from ensue.rules.program import (
    TYPE_NAMES,
    Accumulation,
    EventQuery,
    EventType,
    Program,
    Proximity,
    Relation,
    Rule,
    Timer,
    TimerKind,
    bare_variables,
)
from ensue.rules.signatures import Scope, Signature, bind_variables, check_name, declare, head_dtype, name_columns
from ensue.rules.strata import stratify


def check_program(program: Program, schema: Schema | None = None) -> dict[str, Signature]:
    """Raise a QueryError if declarations or rules are wrong; the attributes of all events, declared and derived.

    The pattern queries of the program are not looked at. Without a schema, a derived attribute that is computed from
    times has no type yet (None).

    >>> from ensue.language import parse_program
    >>> check_program(parse_program("EVENT a(x: int); RULE b(y) <- i: a(x);"))
    Traceback (most recent call last):
    ...
    ensue.errors.QueryNameError: line 1, column 25: no event of the rule binds the variable `y`
      EVENT a(x: int); RULE b(y) <- i: a(x);
                              ^
    hint: did you mean `x`?
    """
    declared = declare(program.events)
    if schema is not None:
        _check_columns(program.events, schema)
    signatures: dict[str, Signature] = dict(declared)
    shared = {a.name: (a.dtype, event.name) for event in program.events for a in event.attributes}
    for name, rules in stratify(program):
        attributes: dict[str, DType | None] = {}
        for rule in rules:
            try:
                _check_rule(rule, signatures, declared.get(name), attributes, schema)
            except QueryError as error:
                error.query = rule.type
                error.with_source(rule.source)
                raise
        if name not in declared:
            signatures[name] = attributes
            _check_shared(rules[0], attributes, shared)
    return signatures


def _check_columns(events: Sequence[EventType], schema: Schema) -> None:
    """What is declared must be what the columns are."""
    for event in events:
        for attribute in event.attributes:
            column = schema.columns.get(attribute.name)
            if column is None:
                raise QueryNameError(
                    f"the events have no column `{attribute.name}`",
                    hint=did_you_mean(attribute.name, schema.columns),
                    span=attribute.span,
                    source=event.source,
                )
            if column is not attribute.dtype:
                raise QueryTypeError(
                    f"`{attribute.name}` is declared {TYPE_NAMES[attribute.dtype]}, but the column is "
                    f"{TYPE_NAMES[column]}",
                    span=attribute.span,
                    source=event.source,
                )


def _check_shared(rule: Rule, signature: Signature, shared: dict[str, tuple[DType, str]]) -> None:
    """One name is of one type in all events: patterns read derived events beside the others.

    `shared` are the types that are known, each with an event that has it; those of the rule's head are added.
    """
    for name, dtype in signature.items():
        if dtype is None:
            continue
        known, other = shared.setdefault(name, (dtype, rule.type))
        if known is not dtype:
            raise QueryTypeError(
                f"the attribute `{name}` is {TYPE_NAMES[dtype]} in `{rule.type}` and {TYPE_NAMES[known]} in `{other}`",
                hint="name it otherwise with AS",
                span=rule.span,
                source=rule.source,
            )


def _check_rule(
    rule: Rule,
    signatures: Mapping[str, Signature],
    declared: Signature | None,
    attributes: dict[str, DType | None],
    schema: Schema | None,
) -> None:
    """One rule; its head's types are added to `attributes`."""
    if not rule.events:
        raise QueryTypeError(
            "a rule needs an event to begin with", hint="such as `o: order(id, …)` in its body", span=rule.span
        )
    names = _check_names(rule)
    _check_times(rule, names, schema)
    variables = bind_variables([e.atom for e in rule.events], signatures)
    collected = _check_accumulations(rule, variables, signatures)
    scope = Scope(variables, frozenset(names), schema)
    for condition in rule.conditions:
        _check_safe(condition, variables, rule)
        if any(isinstance(node, Aggregate) for node in walk(condition)):
            raise QueryTypeError(
                "an aggregate stands in the head of a rule only",
                hint="derive the number by one rule, and compare it in another",
                span=condition.span,
            )
        if scope.infer(condition) not in (ValueType.BOOL, ValueType.UNKNOWN, ValueType.NULL):
            raise QueryTypeError("this is not a condition: it has a value, but no truth", span=condition.span)
    whole = Scope({**variables, **collected}, frozenset(names), schema)
    columns = name_columns(rule, declared if declared is not None else attributes or None)
    own: list[str] = []
    for name, column in zip(columns, rule.head, strict=True):
        check_name(name, own, column.span, rule.source)
        own.append(name)
        _check_safe(column.expression, variables, rule)
        _check_aggregates(column.expression, rule, collected)
        wanted = declared[name] if declared is not None else attributes.get(name)
        attributes[name] = head_dtype(column, whole, wanted)


def _check_names(rule: Rule) -> dict[str, EventQuery | Timer]:
    """The events and timers by name: each name once, timers of what is there."""
    names: dict[str, EventQuery | Timer] = {}
    elements: list[EventQuery | Timer] = [*rule.events, *rule.timers]
    for element in elements:
        if element.name in names:
            raise QueryNameError(
                f"the name `{element.name}` stands for two things", hint="choose another name", span=element.span
            )
        names[element.name] = element
    for timer in rule.timers:
        seen = [timer.name]
        of: str = timer.of
        while True:
            _known(of, names, timer.span)
            base = names[of]
            if isinstance(base, EventQuery):
                break
            if of in seen:
                raise QueryTypeError(f"the timer `{timer.name}` depends on itself", span=timer.span)
            seen.append(of)
            of = base.of
    return names


def _known(name: str, names: Mapping[str, object], span: Span | None) -> None:
    if name not in names:
        raise QueryNameError(
            f"no event or timer of the rule is called `{name}`", hint=did_you_mean(name, names), span=span
        )


def _check_times(rule: Rule, names: Mapping[str, object], schema: Schema | None) -> None:
    for element in rule.body:
        match element:
            case Timer(kind=kind, duration=duration):
                if duration.amount < 0 and kind is not TimerKind.SHIFT:
                    raise QueryTypeError(f"{kind.value} needs a duration that is not negative", span=element.span)
                _check_duration(duration, schema, element.span, whole=True)
            case Relation(left=left, right=right, allen=allen, bound=bound):
                _known(left, names, element.span)
                _known(right, names, element.span)
                if bound is None:
                    continue
                if not RELATIONS[allen].gaps:
                    raise QueryTypeError(
                        f"{allen} leaves no gap that BY could measure", hint="leave BY out", span=bound.span
                    )
                if bound.operator == "!=":
                    raise QueryTypeError("BY takes = < <= > or >=", span=bound.span)
                _check_duration(bound.duration, schema, bound.span)
            case Proximity(names=members, duration=duration):
                for member in members:
                    _known(member, names, element.span)
                _check_duration(duration, schema, element.span)
                if duration.amount <= 0:
                    raise QueryTypeError("WITHIN needs a duration that is positive", span=element.span)
            case Accumulation(window=window):
                _known(window, names, element.span)
            case _:
                pass


def _check_duration(duration: Duration, schema: Schema | None, span: Span | None, *, whole: bool = False) -> None:
    if not math.isfinite(duration.amount):
        raise QueryTypeError("the duration is not finite", span=span)
    if schema is None:
        return
    length = fold_duration(duration, schema, span)
    if whole and not isinstance(length, int):
        raise QueryTypeError(
            f"a timer is a whole number of steps of the time column `{schema.time}`, and this is {length}", span=span
        )
    if abs(length) > 2**61:
        raise QueryTypeError("the duration does not fit in the time column", span=span)


def _check_accumulations(
    rule: Rule, variables: Mapping[str, DType | None], signatures: Mapping[str, Signature]
) -> dict[str, DType | None]:
    """The variables that collections bind, each by one collection; absences are checked too."""
    collected: dict[str, DType | None] = {}
    for element in rule.accumulations:
        types = bind_variables([element.atom], signatures, variables)
        for name in element.atom.variables if element.collects else ():
            if name in variables:
                continue
            if name in collected:
                raise QueryNameError(
                    f"two collections bind the variable `{name}`", hint="choose another name", span=element.span
                )
            collected[name] = types[name]
    return collected


def _check_safe(expression: Expression, variables: Mapping[str, DType | None], rule: Rule) -> None:
    """Every variable outside of aggregates must be bound by an event that has to have happened."""
    for node in bare_variables(expression):
        if node.name in variables:
            continue
        inside = next((e for e in rule.accumulations if node.name in e.atom.variables), None)
        if node.name == "_":
            raise QueryNameError("`_` has no value: it stands for anything", hint="name it", span=node.span)
        if inside is None:
            raise QueryNameError(
                f"no event of the rule binds the variable `{node.name}`",
                hint=did_you_mean(node.name, variables),
                span=node.span,
            )
        raise QueryNameError(
            f"the variable `{node.name}` is bound by {'COLLECT' if inside.collects else 'NOT'} alone, "
            "where it has no single value",
            hint=f"aggregate it in the head, such as COUNT({node.name})" if inside.collects else None,
            span=node.span,
        )


def _check_aggregates(expression: Expression, rule: Rule, collected: Mapping[str, DType | None]) -> None:
    for node in walk(expression):
        if not isinstance(node, Aggregate):
            continue
        if node.variable != BARE:
            raise QueryTypeError(
                "an aggregate of a rule ranges over a variable", hint="write COUNT(x), not COUNT(e.x)", span=node.span
            )
        if not rule.collections:
            raise QueryTypeError(
                f"{node.function} needs events to range over",
                hint="collect them: `WHILE w: COLLECT type(…)`",
                span=node.span,
            )
        if node.name is None and len(rule.collections) > 1:
            raise QueryTypeError(
                "COUNT(*) could mean either of two collections", hint="count a variable of one", span=node.span
            )
        known = {name for element in rule.collections for name in element.atom.variables}
        if node.name is not None and node.name not in known:
            raise QueryNameError(
                f"no COLLECT binds the variable `{node.name}`", hint=did_you_mean(node.name, known), span=node.span
            )


def widen_schema(schema: Schema | None, program: Program, signatures: Mapping[str, Signature]) -> Schema | None:
    """The columns of events with those of derived ones beside them, as a pattern over both reads them."""
    if schema is None or not program.rules:
        return schema
    columns = dict(schema.columns)
    for rule in program.rules:
        for name, dtype in signatures[rule.type].items():
            if dtype is None or name in (schema.type, schema.time, schema.begin):
                raise QueryNameError(
                    f"`{name}` is a column that every event has, and cannot be an attribute of `{rule.type}`",
                    hint="name the attribute otherwise with AS",
                    span=rule.span,
                    source=rule.source,
                )
            if columns.setdefault(name, dtype) is not dtype:
                raise QueryTypeError(
                    f"the attribute `{name}` of `{rule.type}` is {TYPE_NAMES[dtype]}, but the events have a column "
                    f"`{name}` of {TYPE_NAMES[columns[name]]}",
                    hint="name the attribute otherwise with AS",
                    span=rule.span,
                    source=rule.source,
                )
    types = None if schema.event_types is None else schema.event_types | set(program.derived)
    return replace(schema, columns=columns, event_types=types)
