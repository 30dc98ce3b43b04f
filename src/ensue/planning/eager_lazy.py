"""Which types are matched as they come and which wait for the last event of a match: plans for low latency.

Yi, Lee and Whang, sections 3 to 5. The variables stand in the order in which matching costs least. Each place to cut it
gives a plan: what stands before the cut is *eager*, matched on arrival in the order of the pattern, and its partial
matches are stored; the rest is *lazy*, only buffered. The last event of a match merges both, by the cheapest order of
joins. Of these l + 1 plans the one with the least expected latency (see `Latency.rank`) is taken: while there is time
to spare, eager plans, which have little left to do when the last event comes; when there is not, plans that do less
altogether.

On the tree of joins that is an annotation: one stored subtree, and leaves. The last event is never stored for others to
find. So a plan with only one eager variable, or with none but the last one lazy, is the same as its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ensue.planning.comparisons import Block, ExpectedLatency, Planned, choose
from ensue.planning.cost import Costs
from ensue.planning.figures import Figures, Shape
from ensue.planning.latency import Latency, Timings, latency_of, look
from ensue.planning.orders import OptimalOrder
from ensue.planning.plan import Join, Leaf, Tree, left_deep, variables_of

LIMIT = 8
"""The most things to merge whose orders are all compared; with more they are merged in the order of matching."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to part the variables, the tree that follows from it, and what to expect of it."""

    eager: tuple[str, ...]
    lazy: tuple[str, ...]
    tree: Tree
    latency: Latency

    @property
    def name(self) -> str:
        """Both groups as the paper writes them: eager / lazy."""
        return f"{' '.join(self.eager)} / {' '.join(self.lazy)}".strip()


@dataclass(frozen=True, slots=True)
class EagerLazy:
    """The plan of least expected latency among the ways to part the best order of matching."""

    timings: Timings
    name: str = "latency"

    def plan(self, figures: Figures) -> Planned:
        """The tree, with what it stores; of equals the one that stores least."""
        costs = Costs(figures)
        matching = OptimalOrder().plan(figures)
        trees = list(dict.fromkeys(one.tree for one in part(costs, variables_of(matching.tree), self.timings)))
        measure = partial(ExpectedLatency, timings=self.timings)
        best, won = choose(costs, list(map(measure, trees)))
        latency = latency_of(costs, trees[best], self.timings)
        blocks = (*matching.blocks, Block("eager / lazy", won))
        return Planned(self.name, trees[best], latency.rank, blocks, measure=measure)


def find_candidates(figures: Figures, timings: Timings) -> tuple[Candidate, ...]:
    """The l + 1 plans under some figures, from all lazy to all eager."""
    return part(Costs(figures), variables_of(OptimalOrder().plan(figures).tree), timings)


def part(costs: Costs, order: Sequence[str], timings: Timings) -> tuple[Candidate, ...]:
    """The plans of an order of matching, cut at each place."""
    shape = costs.figures.shape
    found = []
    for cut in range(len(order) + 1):
        eager = tuple(name for name in shape.names if name in order[:cut])
        tree = _merge(costs, eager, order[cut:], timings)
        found.append(Candidate(eager, tuple(order[cut:]), tree, latency_of(costs, tree, timings)))
    return tuple(found)


def final_variables(shape: Shape) -> tuple[str, ...]:
    """The variables whose events can be last in a match: nothing has to come after them."""
    needed = {v.name for v in shape.variables if v.minimum > 0}
    return tuple(name for name in shape.names if not any(x == name and y in needed for x, y in shape.before))


def _merge(costs: Costs, eager: tuple[str, ...], lazy: Sequence[str], timings: Timings) -> Tree:
    """The tree of both groups. Where only one variable can be last, it starts the search."""
    finals = final_variables(costs.figures.shape)
    lists = costs.figures.shape.lists
    start = finals[0] if len(finals) == 1 else None
    singles = [name for name in eager if name != start and name not in lists]
    items: list[Tree] = [left_deep(singles, stored=True)] if singles else []
    items += [Leaf(name) for name in lazy if name != start and name not in lists]
    if start is None:
        tree = items[0] if items else None
        items = items[1:]
    else:
        tree = Leaf(start)
        items = _cheapest(costs, start, items, timings) if len(items) <= LIMIT else items
    rest = [name for name in (*eager, *lazy) if name in lists and name != start]
    for item in (*items, *map(Leaf, rest)):
        tree = item if tree is None else Join(tree, item)
    assert tree is not None
    return tree


def _cheapest(costs: Costs, start: str, items: Sequence[Tree], timings: Timings) -> list[Tree]:
    """The order of joins after the last event that takes least time, by dynamic programming over sets of items."""
    names = [frozenset(variables_of(item)) for item in items]
    best: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 1.0, ())]  # seconds, partial matches, order
    for chosen in range(1, 1 << len(items)):
        ways = []
        for k in range(len(items)):
            if chosen >> k & 1:
                seconds, number, order = best[chosen ^ (1 << k)]
                bound = frozenset[str]().union(*(names[other] for other in order))
                one = look(costs, start, bound, names[k], is_list=False)
                seconds += number * (one.predicates * timings.predicate + one.results * timings.result)
                ways.append((seconds, number * one.results, (*order, k)))
        best.append(min(ways, key=lambda way: way[0]))
    return [items[k] for k in best[-1][2]]
