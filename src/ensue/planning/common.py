"""Leaves that several queries look at: the same events, so that one buffer can serve them all.

Two variables look at the same leaf if their events are of one type and pass the same filter, and if their queries tell
partitions apart by the same key. Which plans the queries are run by does not matter to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ensue.events.schema import Schema
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Policy, Query
from ensue.planning.conditions import Column, Filter, analyze, columns_in, plain_column
from ensue.planning.windows import window_of


@dataclass(frozen=True, slots=True)
class LeafKey:
    """What makes two leaves the same. Events that last `longest` or longer are left out (None: there are none)."""

    type: str
    filter: Filter
    partition: tuple[Column, ...]
    longest: int | None


@dataclass(frozen=True, slots=True)
class CommonLeaf:
    """A leaf of several queries, with the columns that any of them compares.

    An event is kept for the length of the longest window, `keep`; None is for ever.
    """

    key: LeafKey
    columns: tuple[Column, ...]
    queries: tuple[str, ...]
    keep: int | None


def key_of(query: Query, schema: Schema, kind: str, filter_: Filter) -> LeafKey:
    """The key of a leaf of a query."""
    partition = tuple(plain_column(name, schema) for name in query.partition_by)
    longest = window_of(query, schema)[0] if schema.begin is not None else None
    return LeafKey(kind, filter_, partition, longest)


def can_share(query: Query, schema: Schema) -> bool:
    """Whether the leaves of a query can be common: positions of WITHIN n EVENTS, runs and counters are its own."""
    return query.policy is Policy.ANY and window_of(query, schema)[1] is None and not query.aggregates


def common_leaves(queries: Sequence[Query], schema: Schema) -> tuple[CommonLeaf, ...]:
    """The leaves that at least two of the queries look at, in the order of their first mention.

    >>> from ensue.language import parse
    >>> from ensue.events.schema import DType
    >>> two = parse("QUERY p PATTERN SEQ(A a, B b) WITHIN 5; QUERY q PATTERN SEQ(C c, A x) WITHIN 9")
    >>> [(leaf.key.type, leaf.queries, leaf.keep) for leaf in common_leaves(two, Schema({"ts": DType.INT}))]
    [('A', ('p', 'q'), 9)]
    """
    found: dict[LeafKey, CommonLeaf] = {}
    for query in queries:
        if not can_share(query, schema):
            continue
        keep = window_of(query, schema)[0]
        for kind, filter_, columns in _leaves(query, schema):
            key = key_of(query, schema, kind, filter_)
            known = found.get(key, CommonLeaf(key, (), (), keep))
            found[key] = replace(
                known,
                columns=tuple(dict.fromkeys([*known.columns, *columns])),
                queries=tuple(dict.fromkeys([*known.queries, query.name or ""])),
                keep=None if keep is None or known.keep is None else max(keep, known.keep),
            )
    return tuple(leaf for leaf in found.values() if len(leaf.queries) > 1)


def _leaves(query: Query, schema: Schema) -> list[tuple[str, Filter, list[Column]]]:
    """Type, filter and compared columns of each variable of a query, negated ones too."""
    found = []
    for branch in normalize(query):
        analysis = analyze(query, branch, schema)
        conditions = [*analysis.conditions, *(c for absence in analysis.absences for c in absence.conditions)]
        looks = [(v.type, v.name, analysis.filters[v.name]) for v in branch.variables]
        looks += [(a.negation.type, a.negation.name, a.filter) for a in analysis.absences]
        found += [(kind, filter_, columns_in(conditions, name)) for kind, name, filter_ in looks]
    return found
