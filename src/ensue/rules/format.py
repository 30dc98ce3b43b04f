"""From declarations and rules back to text: a rule that does not fit on a line has each part of its body on its own."""

from __future__ import annotations

from ensue.pattern.format import WIDTH, format_duration, format_expression
from ensue.pattern.query import Return
from ensue.rules.program import (
    TYPE_NAMES,
    Accumulation,
    Argument,
    Atom,
    Element,
    EventQuery,
    EventType,
    Proximity,
    Relation,
    Rule,
    Timer,
)
from ensue.rules.words import quote


def format_event_type(event: EventType) -> str:
    """The text of a declaration.

    >>> from ensue.events.schema import DType
    >>> from ensue.rules.program import Declared
    >>> format_event_type(EventType("order", (Declared("id", DType.INT),)))
    'EVENT order(id: int)'
    """
    attributes = ", ".join(f"{quote(a.name)}: {TYPE_NAMES[a.dtype]}" for a in event.attributes)
    return f"EVENT {quote(event.name)}({attributes})"


def format_rule(rule: Rule) -> str:
    """The text of a rule: on one line if it fits there."""
    head = f"RULE {quote(rule.type)}({', '.join(_format_column(column) for column in rule.head)}) <-"
    parts = [format_element(element) for element in rule.body]
    line = f"{head} {', '.join(parts)}"
    return line if len(line) <= WIDTH else head + "\n  " + ",\n  ".join(parts)


def _format_column(column: Return) -> str:
    return format_expression(column.expression) + ("" if column.name is None else f" AS {quote(column.name)}")


def format_element(element: Element) -> str:
    """A part of a rule's body."""
    match element:
        case EventQuery(name=name, atom=atom):
            return f"{quote(name)}: {format_atom(atom)}"
        case Timer(name=name, kind=kind, of=of, duration=duration):
            return f"{quote(name)}: {kind.value}({quote(of)}, {format_duration(duration)})"
        case Accumulation(window=window, collects=collects, atom=atom):
            return f"WHILE {quote(window)}: {'COLLECT' if collects else 'NOT'} {format_atom(atom)}"
        case Relation(left=left, allen=allen, right=right, bound=bound):
            by = "" if bound is None else f" BY {bound.operator} {format_duration(bound.duration)}"
            return f"{quote(left)} {allen} {quote(right)}{by}"
        case Proximity(names=names, duration=duration):
            return f"{{{', '.join(map(quote, names))}}} WITHIN {format_duration(duration)}"
        case _:
            return format_expression(element)


def format_atom(atom: Atom) -> str:
    """`type(arguments)`."""
    return f"{quote(atom.type)}({', '.join(_format_argument(a) for a in atom.arguments)})"


def _format_argument(argument: Argument) -> str:
    term = "_" if argument.term is None else format_expression(argument.term)
    return term if argument.name is None else f"{quote(argument.name)} = {term}"
