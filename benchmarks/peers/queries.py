"""The seven queries, each as one value from which every engine's own text is made.

Events have a type (A, B, C, D, E, N are named by queries, others by none), a time `ts` in milliseconds, a number `diff`
and a key `k`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: the types in order, and what ties them."""

    name: str
    title: str
    types: str = "ABC"
    is_ordered: bool = True
    is_rising: bool = False  # diff rises from each type to the next
    has_absence: bool = False  # no N with the key of a between a and b
    has_list: bool = False  # B is repeated; diff rises by more than `rise` at each step
    is_keyed: bool = False  # k is equal in all
    is_counted: bool = False  # only the number of live matches is wanted, at each C

    @property
    def named(self) -> str:
        """All types that the query names."""
        return self.types + ("N" if self.has_absence else "")

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, one a type."""
        return tuple(self.types.lower())

    def text(self, window: int, rise: float) -> str:
        """The query as ensue reads it.

        >>> print(find("Q1").text(1000, 0.0))
        PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 1000 ms
        """
        items = [
            f"{kind}+ {kind.lower()}[]" if self.has_list and kind == "B" else f"{kind} {kind.lower()}"
            for kind in self.types
        ]
        if self.has_absence:
            items.insert(1, "!N n")
        conditions = []
        pairs = list(zip(self.variables, self.variables[1:], strict=False))
        if self.is_rising:
            conditions += [f"{x}.diff < {y}.diff" for x, y in pairs]
        if self.has_list:
            step = f" + {rise:g}"
            conditions += [f"a.diff{step} < b.diff", f"b[i-1].diff{step} < b[i].diff", f"b.diff{step} < c.diff"]
        if self.is_keyed:
            conditions += [f"{x}.k = {y}.k" for x, y in pairs]
        if self.has_absence:
            conditions.append("n.k = a.k")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        count = " AGG COUNT(*)" if self.is_counted else ""
        return f"PATTERN {'SEQ' if self.is_ordered else 'AND'}({', '.join(items)}){where} WITHIN {window} ms{count}"


QUERIES: tuple[Query, ...] = (
    Query("Q1", "three in sequence, rising", is_rising=True),
    Query("Q2", "three in any order, rising", is_rising=True, is_ordered=False),
    Query("Q3", "three in sequence, rising, an absence by key", is_rising=True, has_absence=True),
    Query("Q4", "a list between two events, rising", has_list=True),
    Query("Q5", "five in sequence, rising", types="ABCDE", is_rising=True),
    Query("Q6", "three in sequence with one key", is_keyed=True),
    Query("Q7", "the number of three in sequence", is_counted=True),
)


def find(name: str) -> Query:
    """The query of a name."""
    return next(query for query in QUERIES if query.name == name)
