"""How a rule is evaluated: the tree of joins, and by the order of time what is kept, how long, and what is passed over.

Bry and Eckert, "Temporal Order Optimizations of Incremental Joins", section 5. An input of a join is kept for as long
as something that joins with it may still come. If the conditions say that all of the other side must have come before,
that is no time at all: the input streams past (section 5.1). Their future work, removing events that have timed out, is
the same computation. An event that some other one has to precede is not looked at while there is none (section 5.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ensue.pattern.expressions import Expression
from ensue.planning.plan import Leaf, Tree, left_deep, variables_of
from ensue.rules.lowering import Body, Moment, Source, Window, condition_events, condition_variables
from ensue.rules.reasoner import Closure, Constraint, Point, close


@dataclass(frozen=True, slots=True)
class Optimizations:
    """Which of the optimisations a plan uses; all, but for measurements."""

    streaming: bool = True
    suppressing: bool = True
    forgetting: bool = True


@dataclass(frozen=True, slots=True)
class Extent:
    """How long the events of a type last: at least and at most; None if there is no telling."""

    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Until when a tuple is of use: the latest over `needs` (what may still come) of the earliest of its moments.

    A need is the end of an event on the other side, with what bounds it: `end <= point + offset` for a point of the
    tuple. `needs` is None if something is not bounded: the tuple is kept for ever.
    """

    needs: tuple[tuple[Moment, ...], ...] | None
    unbounded: str | None = None

    @property
    def longest(self) -> int | None:
        """How long at most after its last event a tuple is of use; None: for ever."""
        if self.needs is None:
            return None
        return max((min(moment.offset for moment in need) for need in self.needs), default=0)


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a join: whether its tuples are kept, how long, and what says so."""

    names: tuple[str, ...]
    is_stored: bool
    lifetime: Lifetime
    why: str


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """A join: its inputs, the variables that are equal, the constraints and conditions that it decides."""

    left: Node
    right: Node
    sides: tuple[Side, Side]
    variables: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Suppression:
    """Events are passed over unless one of `by` has ended before they begin, no longer than `within` ago."""

    by: str
    within: int | None


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """A source: the conditions that its events decide alone, and what makes them useless."""

    source: Source
    constraints: tuple[Constraint, ...]
    conditions: tuple[Expression, ...]
    suppression: Suppression | None


Node = LeafPlan | JoinPlan


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """An absence or a collection: what of its events is kept, and what ties them to the body."""

    window: Window
    leaf: LeafPlan
    side: Side
    variables: tuple[str, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class RulePlan:
    """All decisions about a rule. `is_delayed`: a tuple may be complete before the derived event's end.

    `closure` is what follows from the conditions on time.
    """

    body: Body
    root: Node
    windows: tuple[WindowPlan, ...]
    extent: Extent
    is_delayed: bool
    closure: Closure
    tree: Tree = field(compare=False)
    extents: Mapping[str, Extent] = field(compare=False, repr=False)
    optimizations: Optimizations = field(compare=False, repr=False)

    def with_tree(self, tree: Tree) -> RulePlan:
        """The plan of the same rule with other joins."""
        return plan_rule(self.body, self.extents, tree, self.optimizations)

    @property
    def is_possible(self) -> bool:
        """Whether the conditions on time do not contradict each other."""
        return self.closure.is_possible

    @property
    def unbounded(self) -> str | None:
        """Why the rule's state would grow for ever on a stream; None if it does not."""
        sides = [side for node in joins_of(self.root) for side in node.sides] + [w.side for w in self.windows]
        return next((s.lifetime.unbounded for s in sides if s.is_stored and s.lifetime.needs is None), None)


def joins_of(node: Node) -> list[JoinPlan]:
    """The joins of a plan, the inner before the outer."""
    if isinstance(node, LeafPlan):
        return []
    return [*joins_of(node.left), *joins_of(node.right), node]


def leaves_of(node: Node) -> list[LeafPlan]:
    """The leaves of a plan, left to right."""
    return [node] if isinstance(node, LeafPlan) else [*leaves_of(node.left), *leaves_of(node.right)]


def plan_rule(
    body: Body,
    extents: Mapping[str, Extent],
    tree: Tree | None = None,
    optimizations: Optimizations = Optimizations(),  # noqa: B008  (immutable)
) -> RulePlan:
    """Plan a rule; `extents` are those of the types that it reads, `tree` joins the names of its events."""
    facts = [*body.constraints, *(f for source in body.sources for f in _facts(source, extents))]
    closure = close(facts)
    tree = tree or default_tree(body)
    planning = _Planning(body, closure, extents, optimizations)
    root = planning.node(tree)
    windows = tuple(planning.window(window, facts) for window in body.windows)
    is_delayed = len(body.spans) > len(body.sources) or any(w.collects for w in body.windows)
    return RulePlan(body, root, windows, planning.extent(), is_delayed, closure, tree, extents, optimizations)


def default_tree(body: Body) -> Tree:
    """An order without statistics: as the rule is written, but what shares a variable with what is bound goes first."""
    rest = list(body.sources)
    order = [rest.pop(0)]
    while rest:
        bound = {name for source in order for name in source.variables}
        chosen = next((s for s in rest if bound & s.variables.keys()), rest[0])
        rest.remove(chosen)
        order.append(chosen)
    return left_deep([source.name for source in order])


def _facts(source: Source, extents: Mapping[str, Extent]) -> list[Constraint]:
    """What is known of every event of a source: it does not end before it begins, and how long it may last."""
    begin, end = (source.name, "begin"), (source.name, "end")
    extent = extents.get(source.type, Extent())
    facts = [Constraint(begin, end, -extent.least)]
    if extent.most is not None:
        facts.append(Constraint(end, begin, extent.most))
    return facts


class _Planning:
    """The decisions about one rule, from what follows from its conditions."""

    def __init__(
        self, body: Body, closure: Closure, extents: Mapping[str, Extent], optimizations: Optimizations
    ) -> None:
        self.body, self.closure, self.extents, self.use = body, closure, extents, optimizations
        self.by_name = {source.name: source for source in body.sources}
        self.open_conditions = list(body.rule.conditions)
        self.open_constraints = [c for c in body.constraints if c.left != c.right]
        self.names = tuple(self.by_name)

    # -- nodes -------------------------------------------------------------------------------------------------------
    def node(self, tree: Tree) -> Node:
        """The plan of a subtree; conditions are decided as soon as what they speak of is there."""
        if isinstance(tree, Leaf):
            return self.leaf(self.by_name[tree.variable], self.closure)
        left, right = self.node(tree.left), self.node(tree.right)
        a, b = variables_of(tree.left), variables_of(tree.right)
        shared = self._variables(a) & self._variables(b)
        sides = (self.side(a, b, self.closure), self.side(b, a, self.closure))
        return JoinPlan(left, right, sides, tuple(sorted(shared)), *self._decide((*a, *b)))

    def leaf(self, source: Source, closure: Closure) -> LeafPlan:
        """The plan of a source of the body."""
        constraints, conditions = self._decide((source.name,))
        return LeafPlan(source, constraints, conditions, self.suppression(source.name, closure))

    def _variables(self, names: Iterable[str]) -> set[str]:
        return {variable for name in names for variable in self.by_name[name].variables}

    def _decide(self, names: Sequence[str]) -> tuple[tuple[Constraint, ...], tuple[Expression, ...]]:
        """Take the constraints and conditions that speak of these events alone."""
        known, variables = set(names), self._variables(names)
        constraints = tuple(c for c in self.open_constraints if {c.left[0], c.right[0]} <= known)
        self.open_constraints = [c for c in self.open_constraints if c not in constraints]
        conditions = tuple(
            c
            for c in self.open_conditions
            if condition_variables(c) <= variables and condition_events(c, self.body) <= known
        )
        self.open_conditions = [c for c in self.open_conditions if c not in conditions]
        return constraints, conditions

    # -- what is kept ------------------------------------------------------------------------------------------------
    def side(self, own: Sequence[str], other: Sequence[str], closure: Closure) -> Side:
        """What is kept of an input, given what stands on the other side."""
        ends = [Moment((name, "end")) for name in other]
        last = self._last(own, ends, closure)
        lifetime = self.lifetime(own, ends, closure)
        if last is not None and self.use.streaming:
            before = ", ".join(f"{name}.end" for name in other)
            return Side(tuple(own), False, lifetime, f"{before} < {last}.end")
        return Side(tuple(own), True, lifetime, "")

    def _last(self, own: Sequence[str], ends: Sequence[Moment], closure: Closure) -> str | None:
        """An event of the input that surely ends after all those ends; None if there is no such one."""
        for name in own:
            if all(self._before(moment, (name, "end"), closure) for moment in ends):
                return name
        return None

    def _before(self, moment: Moment, point: Point, closure: Closure) -> bool:
        difference = closure.difference(moment.point, point)
        return difference is not None and difference + moment.offset < 0

    def lifetime(self, own: Sequence[str], ends: Sequence[Moment], closure: Closure) -> Lifetime:
        """Until when a tuple of an input is of use: something of these ends must be yet to come."""
        needs: list[tuple[Moment, ...]] = []
        for end in ends:
            bounds = []
            for point in [(name, kind) for name in own for kind in ("begin", "end")]:
                difference = closure.difference(end.point, point)
                if difference is not None:
                    bounds.append(Moment(point, difference + end.offset))
            if not bounds or not self.use.forgetting:
                mine, its = " and ".join(f"`{name}`" for name in own), end.point[0]
                return Lifetime(None, f"nothing says how long after {mine} `{its}` may come")
            needs.append(tuple(_strongest(bounds, closure)))
        return Lifetime(tuple(needs))

    # -- what is passed over -----------------------------------------------------------------------------------------
    def suppression(self, name: str, closure: Closure) -> Suppression | None:
        """The event that has to have ended before one of this source begins, the one least long ago."""
        if not self.use.suppressing:
            return None
        found = []
        for other in self.names:
            if other != name and closure.is_before((other, "end"), (name, "begin")):
                found.append(Suppression(other, closure.difference((name, "end"), (other, "end"))))
        return min(found, key=lambda s: (s.within is None, s.within), default=None)

    # -- windows -----------------------------------------------------------------------------------------------------
    def window(self, window: Window, facts: Sequence[Constraint]) -> WindowPlan:
        """What of an absence's or a collection's events is kept: the body decides when its last moment has come."""
        source = window.source
        closure = close([*facts, *_facts(source, self.extents), *window.constraints])
        ends = [end for _, end in self.body.spans.values()]
        lifetime = self.lifetime((source.name,), ends, closure)
        side = Side((source.name,), True, lifetime, "")
        leaf = LeafPlan(source, (), (), self.suppression(source.name, closure))
        shared = self._variables(self.names) & source.variables.keys()
        return WindowPlan(window, leaf, side, tuple(sorted(shared)), window.constraints)

    # -- the derived event -------------------------------------------------------------------------------------------
    def extent(self) -> Extent:
        """How long the derived events may last."""
        lengths = []
        least = 0
        for begin, _ in self.body.spans.values():
            for _, end in self.body.spans.values():
                difference = self.closure.difference(end.point, begin.point)
                lengths.append(None if difference is None else difference + end.offset - begin.offset)
                shortest = self.closure.difference(begin.point, end.point)
                if shortest is not None:
                    least = max(least, -(shortest + begin.offset - end.offset))
        known = [length for length in lengths if length is not None]
        return Extent(least, max(known) if len(known) == len(lengths) else None)


def _strongest(bounds: Sequence[Moment], closure: Closure) -> list[Moment]:
    """The bounds that no other one makes superfluous."""
    kept: list[Moment] = []
    for moment in bounds:
        weaker = False
        for other in bounds:
            if other is moment:
                continue
            difference = closure.difference(other.point, moment.point)
            if difference is None or difference + other.offset > moment.offset:
                continue
            back = closure.difference(moment.point, other.point)
            mutual = back is not None and back + moment.offset <= other.offset
            if not mutual or bounds.index(other) < bounds.index(moment):
                weaker = True
        if not weaker:
            kept.append(moment)
    return kept
