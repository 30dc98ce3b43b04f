"""The nodes of a rule's evaluation: sources, joins, windows. Each takes what is new and gives what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import BARE, Aggregate, Attribute, Comparison, Expression
from ensue.planning.rules import JoinPlan, LeafPlan, Lifetime, Node, WindowPlan
from ensue.rules.lowering import Body, Moment
from ensue.runtime.arrivals import Arrivals
from ensue.runtime.bits import Int64s, from_bits, is_missing, to_bits
from ensue.runtime.columns import evaluate_column, time_kind, time_step
from ensue.runtime.relations import Layout, Pairing, Pasting, Relation, Rows, find_pairs, join
from ensue.runtime.strings import StringTable
from ensue.runtime.values import Column

Mask = npt.NDArray[np.bool_]


class Reading:
    """Evaluates the expressions of a rule on rows of tuples."""

    def __init__(self, body: Body, schema: Schema, strings: StringTable) -> None:
        self.body, self.schema, self.strings = body, schema, strings
        self._step = time_step(schema)

    def evaluate(
        self, expression: Expression, rows: Rows, layout: Layout, aggregates: Mapping[Aggregate, Column] | None = None
    ) -> Column:
        """The value of an expression for each row."""

        def look_up(node: Attribute | Aggregate) -> Column:
            if isinstance(node, Aggregate):
                assert aggregates is not None
                return aggregates[node]
            if node.variable == BARE:
                return from_bits(rows[:, layout.variables[node.name]], self.body.types[node.name], self.strings)
            begin, end = self.body.spans[node.variable]
            return Column(time_kind(self.schema), at(rows, layout, begin if node.name == "begin" else end))

        return evaluate_column(expression, look_up, self._step).stretch(len(rows))

    def keep(self, conditions: Sequence[Expression], rows: Rows, layout: Layout) -> Rows:
        """The rows for which all conditions are true."""
        for condition in conditions:
            if len(rows):
                column = self.evaluate(condition, rows, layout)
                rows = rows[column.encode() == 1]
        return rows

    def holds(self, expression: Expression, arrivals: Arrivals, dtypes: Mapping[str, DType]) -> Mask:
        """Whether a condition on attributes is true of each event that comes."""

        def look_up(node: Attribute | Aggregate) -> Column:
            assert isinstance(node, Attribute)
            return from_bits(arrivals.read(node.name), dtypes[node.name], self.strings)

        truth = evaluate_column(expression, look_up, self._step).stretch(len(arrivals.end)).encode() == 1
        return np.ascontiguousarray(truth)


def at(rows: Rows, layout: Layout, moment: Moment) -> Int64s:
    """The time of a moment in each row."""
    times: Int64s = rows[:, layout.points[moment.point]] + moment.offset
    return times


class Source:
    """The events of an atom: those that may matter, as rows of their times and variables."""

    def __init__(
        self,
        plan: LeafPlan,
        reading: Reading,
        dtypes: Mapping[str, DType],
        variables: Sequence[str],
        joined: frozenset[str],
    ) -> None:
        self.plan, self.reading, self.dtypes = plan, reading, dtypes
        self.name, self.type = plan.source.name, plan.source.type
        self.variables = tuple(variables)
        self.joined = joined
        self.layout = Layout.of([self.name], variables)
        self.latest: int | None = None  # the last end of an event that was taken
        self.before: int | None = None  # that before this step
        self.skipped = 0  # events that were not looked at
        self.new = np.empty((0, self.layout.width), dtype=np.int64)

    def take(self, arrivals: Arrivals | None, by: Source | None) -> None:
        """Take what is new; `by` is the source without whose events these do not matter, which has taken its own."""
        self.before = self.latest
        self.new = self._read(arrivals, by)
        if len(self.new):
            self.latest = int(self.new[-1, 0])

    def _read(self, arrivals: Arrivals | None, by: Source | None) -> Rows:
        if arrivals is None:
            return np.empty((0, self.layout.width), dtype=np.int64)
        chosen = self._in_time(arrivals, by)
        useful = int(chosen.sum())
        self.skipped += len(chosen) - useful
        if not useful:
            return np.empty((0, self.layout.width), dtype=np.int64)
        source = self.plan.source
        for attribute, constant in source.constants:
            equal = Comparison((Attribute("", attribute), constant), ("=",))
            chosen &= self.reading.holds(equal, arrivals, self.dtypes)
        for one, other in source.equal:
            equal = Comparison((Attribute("", one), Attribute("", other)), ("=",))
            chosen &= self.reading.holds(equal, arrivals, self.dtypes)
        values: list[Int64s] = []
        for name in self.variables:
            attribute = source.variables[name]
            bits, dtype = arrivals.read(attribute), self.dtypes[attribute]
            if name in self.joined:
                chosen &= ~is_missing(bits, dtype)
            wanted = self.reading.body.types.get(name, dtype)
            if wanted is DType.FLOAT and dtype is DType.INT:
                bits = to_bits(from_bits(bits, dtype, self.reading.strings), wanted, self.reading.strings)
            elif wanted is DType.INT and dtype is DType.FLOAT:  # in a window: what is not whole equals no int
                numbers = np.ascontiguousarray(bits).view(np.float64)
                whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63)
                chosen &= whole
                bits = np.where(whole, numbers, 0).astype(np.int64)
            values.append(bits)
        rows = np.empty((int(chosen.sum()), self.layout.width), dtype=np.int64)
        end = arrivals.end[chosen]
        rows[:, 0] = end
        rows[:, 1] = arrivals.begin[chosen]
        rows[:, 2] = end
        for k, bits in enumerate(values):
            rows[:, 3 + k] = bits[chosen]
        return self.reading.keep(self.plan.conditions, rows, self.layout)

    def _in_time(self, arrivals: Arrivals, by: Source | None) -> Mask:
        """Which events may matter by their times."""
        begin, end = arrivals.begin, arrivals.end
        chosen = np.ones(len(end), dtype=np.bool_)
        for one in self.plan.constraints:
            a, b = (begin if point[1] == "begin" else end for point in (one.left, one.right))
            chosen &= a - b <= one.most
        if by is not None:
            suppression = self.plan.suppression
            assert suppression is not None
            chosen &= by.precedes(begin, end, suppression.within)
        return chosen

    def precedes(self, begin: Int64s, end: Int64s, within: int | None) -> Mask:
        """For each interval, whether an event of this source may have ended before its begin and not too long before.

        Of events of earlier steps only the last end is known: what begins before it may have had others.
        """
        known: Int64s = self.new[:, 0]
        places = np.searchsorted(known, begin, side="left") - 1
        if self.before is None:
            if not len(known):
                return np.zeros(len(begin), dtype=np.bool_)
            latest = known[np.maximum(places, 0)]
            there = places >= 0
        else:
            latest = np.where(places >= 0, known[np.maximum(places, 0)] if len(known) else self.before, self.before)
            there = (places >= 0) | (self.before < begin)
        if within is not None:
            there &= latest >= end - within
        if self.before is not None:
            there |= begin <= self.before
        return there


class Joining:
    """A join: what is kept of its inputs, and the tuples that new ones make."""

    layout: Layout

    def __init__(self, plan: JoinPlan, left: Source | Joining, right: Source | Joining, reading: Reading) -> None:
        self.plan, self.left, self.right, self.reading = plan, left, right, reading
        a, b = plan.sides
        key = plan.variables
        self.kept = (
            Relation(left.layout, key, a.lifetime, is_stored=a.is_stored),
            Relation(right.layout, key, b.lifetime, is_stored=b.is_stored),
        )
        self.pairing = Pairing.of(left.layout, right.layout, key, plan.constraints)
        self._pasting = Pasting(left.layout, right.layout)
        self.layout = self._pasting.layout

    def evaluate(self) -> Rows:
        """The tuples that the new ones of both inputs make."""
        left_new, right_new = evaluate(self.left), evaluate(self.right)
        left, right = self.kept
        if not len(left_new) and not len(right_new):
            return np.empty((0, self.layout.width), dtype=np.int64)
        a, b = join(left, left_new, right, right_new, self.pairing)
        return self.reading.keep(self.plan.conditions, self._pasting.paste(a, b), self.layout)


def evaluate(node: Source | Joining) -> Rows:
    """The new tuples of a node."""
    return node.new if isinstance(node, Source) else node.evaluate()


class Accumulating:
    """An absence or a collection: the events of its window that are kept, and which of them lie in those of tuples."""

    def __init__(self, plan: WindowPlan, source: Source, finished: Layout) -> None:
        self.plan, self.source = plan, source
        self.kept = Relation(source.layout, plan.variables, plan.side.lifetime, is_stored=True)
        self._tuples = Relation(finished, plan.variables, Lifetime(()), is_stored=False)
        self.pairing = Pairing.of(finished, source.layout, plan.variables, plan.constraints)
        self._first = 0  # of the source's new events, the first that is not kept yet

    def find(self, tuples: Rows) -> tuple[Int64s, Int64s]:
        """The events in the windows of tuples: the tuple's place, in order, and the event's in `kept`, for each pair.

        Of an absence one event a tuple is enough. The new events up to the last tuple's time are kept.
        """
        new = self._take(int(tuples[-1, 0]))
        first_only = not self.plan.window.collects
        pairs = find_pairs(self._tuples, tuples, self.kept, new, self.pairing, first_only=first_only)
        return pairs[:, 0], pairs[:, 1]

    def finish(self) -> None:
        """Keep the rest of the new events."""
        self.kept.add(self._take(None))
        self._first = 0

    def _take(self, until: int | None) -> Rows:
        new = self.source.new
        stop = len(new) if until is None else int(np.searchsorted(new[:, 0], until, side="right"))
        taken, self._first = new[self._first : stop], stop
        return taken


def make_node(plan: Node, sources: Mapping[str, Source], reading: Reading) -> Source | Joining:
    """The node of a plan."""
    if isinstance(plan, LeafPlan):
        return sources[plan.source.name]
    left, right = make_node(plan.left, sources, reading), make_node(plan.right, sources, reading)
    return Joining(plan, left, right, reading)


def joinings_of(node: Source | Joining) -> list[Joining]:
    """The joins below a node, the inner before the outer."""
    return [] if isinstance(node, Source) else [*joinings_of(node.left), *joinings_of(node.right), node]
