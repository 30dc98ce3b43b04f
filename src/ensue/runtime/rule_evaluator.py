"""One rule: from the events that come in a step to the events that it derives.

A step takes all events up to a time `now`; none that comes later ends before it. Tuples wait until the derived event's
end is reached, then windows are looked at: all that can lie in them has come. With COLLECT they wait until that time
has passed, since what is derived at one moment is one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import BARE, Aggregate, Attribute, walk
from ensue.planning.rules import RulePlan, leaves_of
from ensue.rules.signatures import Signature
from ensue.runtime.arrivals import Arrivals
from ensue.runtime.bits import Int64s, from_bits, to_bits
from ensue.runtime.lists import aggregate
from ensue.runtime.relations import Layout, Relation, Rows, mark_distinct
from ensue.runtime.rule_nodes import Accumulating, Reading, Source, at, evaluate, joinings_of, make_node
from ensue.runtime.strings import StringTable
from ensue.runtime.values import Column, Kind
from ensue.runtime.waiting_rows import WaitingRows

_COLLECTED_AT_ONCE = 512
"""Of so many tuples at a time the collections are held."""


class RuleEvaluator:
    """A rule's plan with all that it keeps."""

    def __init__(
        self, plan: RulePlan, signatures: Mapping[str, Signature], schema: Schema, strings: StringTable
    ) -> None:
        self.plan, self.body = plan, plan.body
        self._signatures, self._schema = signatures, schema
        self.reading = Reading(plan.body, schema, strings)
        self.strings = strings
        carried = plan.body.carried
        appearances: dict[str, int] = {}
        for one in plan.body.sources:
            for name in one.variables:
                appearances[name] = appearances.get(name, 0) + 1
        joined = frozenset(name for name, count in appearances.items() if count > 1)
        self.sources: dict[str, Source] = {}
        for leaf in leaves_of(plan.root):
            variables = [name for name in leaf.source.variables if name in carried]
            dtypes = _dtypes(signatures[leaf.source.type])
            self.sources[leaf.source.name] = Source(leaf, self.reading, dtypes, variables, joined)
        self.root = make_node(plan.root, self.sources, self.reading)
        tuples = self.root.layout
        # a finished tuple: its arrival is the derived event's end, and its begin stands behind the rest
        self.finished = Layout(tuples.points, {**tuples.variables, "": tuples.width})
        self.windows: list[Accumulating] = []
        for window in sorted(plan.windows, key=lambda w: w.window.collects):  # absences first: they leave fewer
            shared = set(window.variables)
            wanted = shared | plan.body.aggregated(window.window)
            variables = [name for name in window.window.source.variables if name in wanted]
            dtypes = _dtypes(signatures[window.window.source.type])
            source = Source(window.leaf, self.reading, dtypes, variables, frozenset(shared))
            self.sources[source.name] = source
            self.windows.append(Accumulating(window, source, self.finished))
        self.collects = any(window.collects for window in plan.body.windows)
        self.waiting = WaitingRows(self.finished.width)
        self.width = 2 + len(plan.body.columns)

    # -- a step ------------------------------------------------------------------------------------------------------
    def step(self, arrivals: Mapping[str, Arrivals], now: int | None) -> Rows:
        """The derived events (end, begin, attributes) that are known at `now` (None: the input has ended)."""
        if not self.plan.is_possible:
            return np.empty((0, self.width), dtype=np.int64)
        taken: set[str] = set()
        for name in self.sources:
            self._take(name, arrivals, taken)
        finished = self._finish(evaluate(self.root))
        if self.plan.is_delayed:
            self.waiting.add(finished)
            due = now if now is None or not self.collects else now - 1
            finished = self.waiting.take(due)
        nothing = np.empty((0, self.width), dtype=np.int64)
        derived = [self._derive(part) for part in self._cut(finished)] or [nothing]
        for window in self.windows:
            window.finish()
        for relation in self.relations():
            relation.forget(now)
        return derived[0] if len(derived) == 1 else np.concatenate(derived)

    def _cut(self, tuples: Rows) -> Iterator[Rows]:
        """The tuples in parts whose collections can be held at once; those of one moment, so of a group, together."""
        start = 0
        while start < len(tuples):
            stop = len(tuples)
            if self.collects and stop - start > _COLLECTED_AT_ONCE:
                last = tuples[start + _COLLECTED_AT_ONCE, 0]
                stop = int(np.searchsorted(tuples[:, 0], last, side="left"))
                if stop <= start:
                    stop = int(np.searchsorted(tuples[:, 0], last, side="right"))
            yield tuples[start:stop]
            start = stop

    def _derive(self, tuples: Rows) -> Rows:
        """What is derived from tuples whose time has come: without those that an absence forbids."""
        found: list[tuple[Accumulating, Int64s, Int64s]] = []
        for window in self.windows:  # absences come first
            if not len(tuples):
                break
            places, events = window.find(tuples)
            if window.plan.window.collects:
                found.append((window, places, events))
            else:
                absent = np.ones(len(tuples), dtype=np.bool_)
                absent[places] = False
                tuples = tuples[absent]
        return self._head(tuples, found) if len(tuples) else np.empty((0, self.width), dtype=np.int64)

    def _take(self, name: str, arrivals: Mapping[str, Arrivals], taken: set[str]) -> None:
        """Let a source take what is new, after the one without which it need not look."""
        if name in taken:
            return
        taken.add(name)
        source = self.sources[name]
        suppression = source.plan.suppression
        if suppression is not None:
            self._take(suppression.by, arrivals, taken)
        source.take(arrivals.get(source.type), None if suppression is None else self.sources[suppression.by])

    def _finish(self, tuples: Rows) -> Rows:
        """The tuples with the interval of the derived event, in the order of its end."""
        rows = np.empty((len(tuples), self.finished.width), dtype=np.int64)
        if not len(tuples):
            return rows
        rows[:, 1:-1] = tuples[:, 1:]
        layout = self.root.layout
        begins = [at(tuples, layout, begin) for begin, _ in self.body.spans.values()]
        ends = [at(tuples, layout, end) for _, end in self.body.spans.values()]
        rows[:, 0] = np.maximum.reduce(ends)
        rows[:, -1] = np.minimum.reduce(begins)
        return rows

    # -- the head ----------------------------------------------------------------------------------------------------
    def _head(self, tuples: Rows, found: list[tuple[Accumulating, Int64s, Int64s]]) -> Rows:
        aggregates: dict[Aggregate, Column] = {}
        if self.collects:
            firsts, groups = self._group(tuples)
            for window, places, events in found:
                group = groups[places]
                if len(firsts) < len(tuples):
                    group, events = _once(group, events)
                aggregates |= self._aggregate(window, group, events, len(firsts))
            tuples = tuples[firsts]
        rows = np.empty((len(tuples), self.width), dtype=np.int64)
        rows[:, 0] = tuples[:, 0]
        rows[:, 1] = tuples[:, -1]
        columns = zip(self.body.rule.head, self.body.columns.values(), strict=True)
        for k, (column, dtype) in enumerate(columns):
            value = self.reading.evaluate(column.expression, tuples, self.finished, aggregates)
            rows[:, 2 + k] = to_bits(value, dtype, self.strings)
        return rows

    def _group(self, tuples: Rows) -> tuple[Int64s, Int64s]:
        """The tuples that agree in the interval and in what the head reads besides aggregates: first, and group."""
        columns = [tuples[:, 0], tuples[:, -1]]
        for column in self.body.rule.head:
            for node in walk(column.expression):
                if isinstance(node, Attribute) and node.variable == BARE:
                    columns.append(tuples[:, self.finished.variables[node.name]])
                elif isinstance(node, Attribute):
                    begin, end = self.body.spans[node.variable]
                    columns.append(at(tuples, self.finished, begin if node.name == "begin" else end))
        keys = np.stack(columns, axis=1)
        _, firsts, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if len(firsts) == len(tuples):  # each for itself, in the order in which they are
            return np.arange(len(tuples)), np.arange(len(tuples))
        return firsts, groups.reshape(-1)

    def _aggregate(self, window: Accumulating, groups: Int64s, events: Int64s, count: int) -> dict[Aggregate, Column]:
        """The aggregates over a collection, a value for each group; its events are given group by group."""
        offsets = np.searchsorted(groups, np.arange(count + 1)).astype(np.int64)
        values: dict[Aggregate, Column] = {}
        for column in self.body.rule.head:
            for node in walk(column.expression):
                if not isinstance(node, Aggregate):
                    continue
                if node.name is None:
                    values[node] = Column(Kind.INT, np.diff(offsets))
                elif node.name in window.source.variables:
                    bits = window.kept.rows[events, window.source.layout.variables[node.name]]
                    read = from_bits(bits, self.body.types[node.name], self.strings)
                    values[node] = aggregate(node.function, read, offsets)
        return values

    # -- what is kept ------------------------------------------------------------------------------------------------
    def relations(self) -> list[Relation]:
        """All that is kept for joins and windows, in a fixed order."""
        kept = [relation for node in joinings_of(self.root) for relation in node.kept]
        return [*kept, *(window.kept for window in self.windows)]

    @property
    def stored(self) -> int:
        """How many tuples are kept, those that wait included."""
        return sum(map(len, self.relations())) + len(self.waiting)

    def live(self, now: int) -> int:
        """How many of them can still matter."""
        return sum(relation.live(now) for relation in self.relations()) + len(self.waiting)

    @property
    def skipped(self) -> int:
        """Events that were passed over because of the order of time."""
        return sum(source.skipped for source in self.sources.values())

    @property
    def nbytes(self) -> int:
        """Memory of what is kept."""
        return sum(relation.nbytes for relation in self.relations()) + self.waiting.nbytes

    @property
    def next_due(self) -> int | None:
        """The time at which the first waiting tuple is known."""
        first = self.waiting.first
        return None if first is None else first + self.collects

    def live_strings(self) -> Iterable[Int64s]:
        """The codes of strings in what is kept."""
        types = self.body.types
        for relation in self.relations():
            for name, place in relation.layout.variables.items():
                if types.get(name) is DType.STRING:
                    yield relation.rows[: relation.count, place]
        for name, place in self.finished.variables.items():
            if types.get(name) is DType.STRING:
                yield self.waiting.rows[:, place]

    # -- another order of joins --------------------------------------------------------------------------------------
    def with_plan(self, plan: RulePlan) -> tuple[RuleEvaluator, int]:
        """An evaluator of the same rule by other joins that goes on from here; and how many rows were joined anew.

        All rows that a derived event may still need are kept, by themselves or as parts of tuples: a join lets
        nothing go that could have a partner yet. They are taken out and joined by the new tree; what comes out at its
        root has been derived before.
        """
        other = RuleEvaluator(plan, self._signatures, self._schema, self.strings)
        count = 0
        for name, mine in self.sources.items():
            its = other.sources[name]
            its.latest, its.skipped = mine.latest, mine.skipped
        for leaf in leaves_of(plan.root):
            source = other.sources[leaf.source.name]
            source.new = other.reading.keep(leaf.conditions, self._rows_of(source), source.layout)
            count += len(source.new)
        evaluate(other.root)
        for source in other.sources.values():
            source.new = source.new[:0]
        waiting = np.empty_like(self.waiting.rows)
        waiting[:, 0] = self.waiting.rows[:, 0]
        for place, column in other.finished.places_of(self.finished):
            waiting[:, place] = self.waiting.rows[:, column]
        other.waiting.add(waiting)
        for window, own in zip(self.windows, other.windows, strict=True):
            own.kept.replace(window.kept.rows[: window.kept.count])
        return other, count

    def _rows_of(self, source: Source) -> Rows:
        """The rows of a source that are kept somewhere in the joins, in the order of time."""
        parts = [np.empty((0, source.layout.width), dtype=np.int64)]
        for joining in joinings_of(self.root):
            for relation in joining.kept:
                if (source.name, "end") not in relation.layout.points:
                    continue
                rows = np.empty((relation.count, source.layout.width), dtype=np.int64)
                rows[:, 0] = relation.rows[: relation.count, relation.layout.points[source.name, "end"]]
                for place, column in source.layout.places_of(relation.layout):
                    rows[:, place] = relation.rows[: relation.count, column]
                parts.append(rows)
        whole = np.concatenate(parts)
        whole = whole[mark_distinct(whole)]
        return whole[np.argsort(whole[:, 0], kind="stable")]

    # -- saving ------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[list[list[int | None]], list[Int64s]]:
        """What it has seen and what it keeps, for `load`."""
        seen: list[list[int | None]] = [[s.latest, s.skipped] for s in self.sources.values()]
        arrays = [relation.rows[: relation.count] for relation in self.relations()]
        return seen, [*arrays, self.waiting.rows]

    def load(self, seen: list[list[int | None]], arrays: list[Int64s]) -> None:
        """Go on from what `dump` gave."""
        for source, (latest, skipped) in zip(self.sources.values(), seen, strict=True):
            source.latest, source.skipped = latest, skipped or 0
        *kept, waiting = arrays
        for relation, rows in zip(self.relations(), kept, strict=True):
            relation.replace(rows.reshape(-1, relation.layout.width))
        self.waiting = WaitingRows(self.finished.width)
        self.waiting.add(waiting.reshape(-1, self.finished.width))


def _dtypes(signature: Signature) -> dict[str, DType]:
    return {name: dtype for name, dtype in signature.items() if dtype is not None}


def _once(groups: Int64s, events: Int64s) -> tuple[Int64s, Int64s]:
    """The pairs of a group and an event, each once, group by group."""
    order = np.lexsort((events, groups))
    groups, events = groups[order], events[order]
    first = np.ones(len(groups), dtype=np.bool_)
    first[1:] = (groups[1:] != groups[:-1]) | (events[1:] != events[:-1])
    return groups[first], events[first]
