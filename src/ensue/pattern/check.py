"""Whether a query makes sense: names, types, where each construct may stand. One error, at the place of the fault."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ensue.errors import QueryError, QueryNameError, QueryTypeError, Span
from ensue.events.schema import Schema
from ensue.pattern.columns import (
    AGGREGATE_COLUMNS,
    MATCH_COLUMNS,
    aggregate_name,
    group_name,
    return_name,
)
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Aggregate,
    At,
    Attribute,
    Expression,
    conjuncts_of,
    walk,
)
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import (
    And,
    CountWindow,
    Item,
    Or,
    Pattern,
    Policy,
    Query,
    Seq,
    TimeWindow,
    Unbounded,
    items_of,
)
from ensue.pattern.types import LARGEST_INT, ValueType, aggregated_type, attribute_type, fold_duration, infer

__all__ = ["check", "return_name"]


def check(query: Query, schema: Schema | None = None) -> None:
    """Raise a QueryNameError or QueryTypeError if the query is wrong; with a schema, also by its columns and types.

    >>> from ensue.pattern.query import Item, Query, Seq
    >>> check(Query(Seq((Item("A", "x"), Item("B", "x")))))
    Traceback (most recent call last):
    ...
    ensue.errors.QueryNameError: the variable `x` stands twice in the pattern
    hint: each variable names one item: choose another name
    """
    try:
        _check_items(query, schema)
        branches = normalize(query)
        _check_window(query, schema)
        _check_branches(query, branches)
        _check_partition(query, schema)
        _check_where(query, schema)
        _check_returns(query, schema)
        _check_aggregates(query, branches, schema)
        _check_policy(query, branches)
    except QueryError as error:
        error.query = query.name
        error.with_source(query.source)
        raise


# The pattern


def _check_items(query: Query, schema: Schema | None) -> None:
    seen: dict[str, Item] = {}
    for item in query.items:
        if schema is not None and schema.event_types is not None and item.type not in schema.event_types:
            raise QueryNameError(
                f"unknown event type `{item.type}`",
                hint=did_you_mean(item.type, sorted(schema.event_types)),
                span=item.span,
            )
        _check_quantifier(item)
        if item.variable in seen:
            raise _twice(item, seen[item.variable])
        seen[item.variable] = item
    _check_operators(query.pattern)


def _twice(item: Item, other: Item) -> QueryNameError:
    name = item.variable
    if name == item.type == other.type:
        hint = f"give them variables, such as `{name} {name.lower()}1` and `{name} {name.lower()}2`"
    else:
        hint = "each variable names one item: choose another name"
    return QueryNameError(f"the variable `{name}` stands twice in the pattern", hint=hint, span=item.span)


def _check_quantifier(item: Item) -> None:
    quantifier = item.quantifier
    if quantifier is None:
        return
    if item.negated:
        raise QueryTypeError(
            f"the negated `{item.type}` cannot have a quantifier",
            hint=f"`NOT {item.type}` says already that there is none",
            span=item.span,
        )
    low, high = quantifier.minimum, quantifier.maximum
    if high == 0:
        raise QueryTypeError(
            f"`{item.type}` with at most no events can never be there",
            hint=f"an absence is written `NOT {item.type}`",
            span=item.span,
        )
    if low < 0 or (high is not None and high < low):
        raise QueryTypeError(
            f"`{item.type}` can take no number of events that is at least {low} and at most {high}", span=item.span
        )


def _check_operators(pattern: Pattern) -> None:
    """Each alternative of OR needs a positive item of its own, even where others stand beside the OR."""
    match pattern:
        case Seq(items=parts) | And(items=parts) | Or(items=parts):
            if not parts:
                raise QueryTypeError("an operator needs at least one item", span=pattern.span)
            for part in parts:
                if isinstance(pattern, Or) and all(item.negated for item in items_of(part)):
                    raise QueryTypeError(
                        "a branch of OR has no positive item",
                        hint="an absence needs at least one event beside it, in the same branch",
                        span=part.span,
                    )
                _check_operators(part)
        case Item():
            pass


def _check_window(query: Query, schema: Schema | None) -> None:
    match query.within:
        case TimeWindow(duration=duration, span=span):
            if not (0 < duration.amount < math.inf):
                raise QueryTypeError("the window must be longer than zero, and finite", span=span)
            if schema is not None and fold_duration(duration, schema, span) > LARGEST_INT:
                raise QueryTypeError(
                    "the window is longer than 64 bits can hold", hint="write `WITHIN UNBOUNDED`", span=span
                )
        case CountWindow(events=events, span=span):
            if events < 1:
                raise QueryTypeError("the window must hold at least one event", span=span)
        case _:
            pass


def _check_branches(query: Query, branches: tuple[Branch, ...]) -> None:
    """An absence whose place is open at one end lasts as long as the window: so there must be one."""
    if query.within is not None and not isinstance(query.within, Unbounded):
        return
    for branch in branches:
        for negation in branch.negations:
            after, before = _never_empty(branch, negation.after), _never_empty(branch, negation.before)
            if after and before:
                continue
            side = "before" if before else "after" if after else "beside"
            raise QueryTypeError(
                f"the absence of `{negation.type}` {side} the other events needs a window",
                hint="add WITHIN and a duration: how long there is none",
                span=_item(query, negation.name).span,
            )


def _never_empty(branch: Branch, names: frozenset[str]) -> bool:
    """Whether at least one event is bound to the variables in every match."""
    return any(branch.variable(name).minimum > 0 for name in names)


def _check_policy(query: Query, branches: tuple[Branch, ...]) -> None:
    if query.policy is Policy.ANY:
        return
    conjunction = next((part for part in _operators(query.pattern) if isinstance(part, And)), None)
    if conjunction is not None:
        raise QueryTypeError(
            f"USING {query.policy.value} needs a sequence, and AND has no order",
            hint="write SEQ, or leave USING away",
            span=conjunction.span,
        )
    for branch in branches:
        first = branch.variables[0]
        if first.minimum == 0:
            raise QueryTypeError(
                f"with USING {query.policy.value} a match starts with `{first.name}`, which can be empty",
                hint=f"write `{first.type}+ {first.name}[]`, or leave USING away",
                span=_item(query, first.name).span,
            )


def _operators(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    if not isinstance(pattern, Item):
        for part in pattern.items:
            yield from _operators(part)


def _item(query: Query, variable: str) -> Item:
    return next(item for item in query.items if item.variable == variable)


# The other clauses


def _check_partition(query: Query, schema: Schema | None) -> None:
    seen: set[str] = set()
    for k, name in enumerate(query.partition_by):
        span = query.partition_spans[k] if k < len(query.partition_spans) else None
        _check_attribute(name, schema, span)
        if name in seen:
            raise QueryNameError(f"the attribute `{name}` stands twice in PARTITION BY", span=span)
        seen.add(name)


def _check_attribute(name: str, schema: Schema | None, span: Span | None) -> ValueType:
    found = attribute_type(name, schema)
    if found is None:
        known = (*schema.columns, *TIME_ATTRIBUTES) if schema is not None else ()
        raise QueryNameError(f"unknown attribute `{name}`", hint=did_you_mean(name, known), span=span)
    return found


def _check_where(query: Query, schema: Schema | None) -> None:
    if query.where is None:
        return
    found = infer(query.where, query.items, schema)
    if found not in (ValueType.BOOL, ValueType.NULL, ValueType.UNKNOWN):
        raise QueryTypeError(
            f"WHERE needs a condition, but this is {found.value}",
            hint="compare it with something",
            span=query.where.span,
        )
    items = {item.variable: item for item in query.items}
    for conjunct in conjuncts_of(query.where):
        names = _names_in(conjunct)
        _check_lists(names, items)
        negated: str | None = None
        for node in names:
            if not items[node.variable].negated:
                continue
            if negated is not None and node.variable != negated:
                raise QueryTypeError(
                    f"a condition cannot name two negated variables, `{negated}` and `{node.variable}`",
                    hint="each absence is decided by itself: write a condition for each",
                    span=node.span,
                )
            negated = node.variable
        _check_neighbours(names)


def _names_in(expression: Expression) -> list[Attribute | Aggregate]:
    return [node for node in walk(expression) if isinstance(node, Attribute | Aggregate)]


def _check_lists(names: list[Attribute | Aggregate], items: dict[str, Item]) -> None:
    """What speaks of a list needs a variable that is one."""
    for node in names:
        item = items[node.variable]
        if item.quantifier is not None or (isinstance(node, Attribute) and node.at is At.EACH):
            continue
        if isinstance(node, Aggregate):
            form = f"{node.function} needs a list of events"
        elif node.at in (At.FIRST, At.LAST):
            form = f"{node.at.name} needs a list of events"
        else:
            form = "only a list of events has places such as `[i]`"
        hint = f"write `{item.type}+ {item.variable}[]` in the pattern"
        if item.negated:
            hint = f"an event that must be absent is named by `{item.variable}.{node.name or 'attribute'}` only"
        elif isinstance(node, Attribute):
            hint = f"write `{node.variable}.{node.name}`, or `{item.type}+ {item.variable}[]` in the pattern"
        raise QueryTypeError(f"{form}, and `{node.variable}` is a single event", hint=hint, span=node.span)


def _check_neighbours(names: list[Attribute | Aggregate]) -> None:
    """Beside `x[i-1]`, the later event of the pair is `x[i]`: what `x` alone would be is not clear."""
    paired = {node.variable for node in names if isinstance(node, Attribute) and node.at is At.PREVIOUS}
    for node in names:
        if isinstance(node, Attribute) and node.at is At.EACH and node.variable in paired:
            raise QueryTypeError(
                f"beside `{node.variable}[i-1]`, `{node.variable}.{node.name}` is not clear",
                hint=f"write `{node.variable}[i].{node.name}`",
                span=node.span,
            )


def _check_returns(query: Query, schema: Schema | None) -> None:
    items = {item.variable: item for item in query.items}
    seen: set[str] = set()
    for place, ret in enumerate(query.returns, start=1):
        infer(ret.expression, query.items, schema)
        names = _names_in(ret.expression)
        for node in names:
            if items[node.variable].negated:
                raise QueryTypeError(
                    f"RETURN cannot name `{node.variable}`: the pattern says that there is no such event",
                    span=node.span,
                )
        _check_lists(names, items)
        for node in names:
            if not isinstance(node, Attribute):
                continue
            if node.at in (At.CURRENT, At.PREVIOUS):
                raise QueryTypeError(
                    "`[i]` speaks of each pair of neighbours, in WHERE only",
                    hint=f"write `{node.variable}.{node.name}` for the list, or FIRST or LAST",
                    span=node.span,
                )
            if node.at is At.EACH and items[node.variable].quantifier is not None and node is not ret.expression:
                raise QueryTypeError(
                    f"`{node.variable}.{node.name}` is a list, and stands alone in RETURN",
                    hint=f"take one value of it, such as `FIRST({node.variable}).{node.name}` "
                    f"or `MAX({node.variable}.{node.name})`",
                    span=node.span,
                )
        _check_column(return_name(ret, place), seen, MATCH_COLUMNS, ret.span or ret.expression.span)


def _check_column(name: str, seen: set[str], taken: tuple[str, ...], span: Span | None) -> None:
    if name in taken:
        raise QueryNameError(
            f"a column cannot be called `{name}`: every row has one of that name",
            hint="give it another name with AS",
            span=span,
        )
    if name in seen:
        raise QueryNameError(f"two columns are called `{name}`", hint="give one another name with AS", span=span)
    seen.add(name)


def _check_aggregates(query: Query, branches: tuple[Branch, ...], schema: Schema | None) -> None:
    if not query.aggregates:
        if query.group_by:
            raise QueryTypeError(
                "GROUP BY needs AGG: it groups numbers about the matches",
                hint="add AGG, such as `AGG COUNT(*)`; to match within equal values use PARTITION BY",
                span=query.group_by[0].span,
            )
        if query.emit_on_change:
            raise QueryTypeError(
                "EMIT ON CHANGE needs AGG", hint="add AGG, such as `AGG COUNT(*)`", span=query.emit_span
            )
        return
    if query.returns:
        raise QueryTypeError(
            "AGG reports numbers about the matches, so there is nothing to RETURN",
            hint="leave AGG or RETURN away",
            span=query.returns[0].span or query.returns[0].expression.span,
        )
    seen: set[str] = set()
    for key in query.group_by:
        if key.variable is not None:
            _check_single(query, key.variable, key.span, "GROUP BY")
        _check_attribute(key.name, schema, key.span)
        _check_column(group_name(key), seen, AGGREGATE_COLUMNS, key.span)
    for one in query.aggregates:
        if one.variable is not None and one.name is not None:
            _check_single(query, one.variable, one.span, one.function)
            aggregated_type(one.function, _check_attribute(one.name, schema, one.span), one.span)
        _check_column(aggregate_name(one), seen, AGGREGATE_COLUMNS, one.span)
    for branch in branches:
        for negation in branch.negations:
            if not _never_empty(branch, negation.before):
                raise QueryTypeError(
                    f"matches that end with the absence of `{negation.type}` cannot be aggregated: "
                    "such a match is known only when its window has passed, and then it is no longer live",
                    hint="put an event after the absence, or report the matches without AGG",
                    span=_item(query, negation.name).span,
                )


def _check_single(query: Query, variable: str, span: Span | None, clause: str) -> None:
    """AGG and GROUP BY take one value from each match: a variable that has one."""
    item = next((item for item in query.items if item.variable == variable), None)
    if item is None:
        raise QueryNameError(
            f"unknown variable `{variable}`",
            hint=did_you_mean(variable, [item.variable for item in query.items]),
            span=span,
        )
    if item.negated:
        raise QueryTypeError(
            f"{clause} cannot name `{variable}`: the pattern says that there is no such event", span=span
        )
    if item.quantifier is not None:
        raise QueryTypeError(
            f"{clause} takes one value from each match, and `{variable}` is a list of events",
            hint="name a variable that is a single event",
            span=span,
        )
