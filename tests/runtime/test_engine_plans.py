"""Plans change the cost, never the answer: every order and every tree of joins, whatever it stores."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import factorial, prod

import pytest

import ensue
from ensue.errors import PlanError
from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Policy
from ensue.planning.eager_lazy import Candidate, find_candidates
from ensue.planning.figures import Figures, rate_name, selectivity_name
from ensue.planning.figures import shape_of as branch_shape
from ensue.planning.latency import Timings
from ensue.planning.plan import Join, Leaf, Plan, Tree, every_order, every_tree, left_deep, variables_of
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE

from .agreement import Case, make_case, run_whole, show_failure

WIDE = replace(DEFAULT_SHAPE, policies=(Policy.ANY,), events=13, work=20_000)
FLAT = replace(WIDE, disjunction=False, kleene=0.1)

# How many cases of each number of variables; the trees of five variables are many, so their cases are few.
AMOUNTS = [(2, 60, 0), (3, 35, 0), (3, 35, 1), (4, 14, 0), (4, 14, 1), (5, 4, 0), (5, 4, 1), (5, 4, 2)]


def find_cases(variables: int, count: int, part: int) -> Iterator[tuple[int, Case, list[OracleMatch]]]:
    """Cases whose largest branch has so many variables; two of three have matches."""
    shape = FLAT if variables >= 4 else WIDE
    found, seed = 0, 1_000_000 * (part + 1)
    while found < count:
        seed += 1
        query, events, schema = make_case(seed, replace(shape, variables=variables))
        if max(len(branch.variables) for branch in normalize(query)) != variables:
            continue
        expected = find_matches(events, query, schema)
        if not expected and found % 3:
            continue
        found += 1
        yield seed, (query, events, schema), expected


def flip(tree: Tree, rng: random.Random, stored: float) -> Tree:
    """The tree with sides swapped and partial matches stored at random."""
    if isinstance(tree, Leaf):
        return tree
    sides = [flip(tree.left, rng, stored), flip(tree.right, rng, stored)]
    rng.shuffle(sides)
    return Join(sides[0], sides[1], rng.random() < stored)


def every_plan(branches: Sequence[Branch], rng: random.Random) -> Iterator[Plan]:
    """Every order, stored and not, every tree likewise, and every tree with stored joins here and there."""
    trees: list[list[Tree]] = []
    for branch in branches:
        names = branch.names
        trees.append(
            [
                *every_order(names),
                *every_order(names, stored=True),
                *every_tree(names),
                *every_tree(names, stored=True),
                *(flip(tree, rng, 0.5) for tree in every_tree(names)),
                *(one.tree for one in eager_lazy(branch, rng)),
            ]
        )
    for k in range(max(map(len, trees))):
        yield Plan(tuple(choice[k % len(choice)] for choice in trees), index=rng.random() < 0.7)


def eager_lazy(branch: Branch, rng: random.Random) -> tuple[Candidate, ...]:
    """All ways to part the variables into eager and lazy ones, for a stream of any kind."""
    rates = {rate_name(v.type): rng.lognormvariate(0, 1) for v in branch.variables}
    pairs = {selectivity_name(x, y): rng.random() for x in branch.names for y in branch.names if x < y}
    figures = Figures(branch_shape(branch), 5.0, rates | pairs)
    return find_candidates(figures, Timings(1e-6, rng.choice([1e-7, 1e-5]), 1e-3))


def shape_of(tree: Tree) -> object:
    """A tree without its flags and without telling left from right."""
    if isinstance(tree, Leaf):
        return tree.variable
    return frozenset((shape_of(tree.left), shape_of(tree.right)))


@pytest.mark.parametrize(("variables", "count", "part"), AMOUNTS)
def test_every_plan_gives_the_answer(variables: int, count: int, part: int) -> None:
    for seed, (query, events, schema), expected in find_cases(variables, count, part):
        rng = random.Random(seed)
        branches = normalize(query)
        largest = max(range(len(branches)), key=lambda k: len(branches[k].variables))
        orders, shapes = set(), set()
        for plan in every_plan(branches, rng):
            tree = plan.trees[largest]
            shapes.add(shape_of(tree))
            orders.add(variables_of(tree) if is_left_deep(tree) else None)
            try:
                difference = describe_difference(run_whole(query, events, schema, plan=plan), expected)
            except Exception as error:
                difference = [f"{type(error).__name__}: {error}"]
            assert not difference, show_failure(f"seed {seed}\n{plan}", query, events, difference)
        assert len(orders - {None}) == factorial(variables)
        assert len(shapes) == prod(range(1, 2 * variables - 2, 2))  # (2n - 3)!!: all trees over n leaves


def is_left_deep(tree: Tree) -> bool:
    return isinstance(tree, Leaf) or (isinstance(tree.right, Leaf) and is_left_deep(tree.left))


def test_some_cases_make_use_of_stored_joins() -> None:
    """Stored partial matches are really kept and read: else the comparison above would be of one plan with itself."""
    events = [{"type": kind, "ts": 10 * place} for place, kind in enumerate("ABABCC")]
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 1000"
    engine = ensue.compile(query, plan=Plan((left_deep(["a", "b", "c"], stored=True),)))
    found = [len(engine.push([event])) for event in events]
    assert found == [0, 0, 0, 0, 3, 3]
    held = [e.partial_matches(s) for e, s in engine._pairs()]
    assert held == [3]
    lazy = ensue.compile(query, plan=Plan((left_deep(["c", "b", "a"]),)))
    assert sum(len(lazy.push([event])) for event in events) == 6
    assert [e.partial_matches(s) for e, s in lazy._pairs()] == [0]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan((left_deep(["a", "b"]), left_deep(["a", "b"]))), "2 trees"),
        (Plan((left_deep(["a", "c"]),)), "a, c"),
        (Plan((left_deep(["a"]),)), "a, b"),
        (Plan((left_deep(["a", "b", "a"]),)), "a, b, a"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        ensue.run([{"type": "A", "ts": 1}], "PATTERN SEQ(A a, B b)", plan=plan)


def test_plans_by_name() -> None:
    events = [{"type": "A", "ts": 1}, {"type": "B", "ts": 2}]
    queries = "QUERY one PATTERN SEQ(A a, B b); QUERY two PATTERN AND(A a, B b)"
    plan = {"two": Plan((left_deep(["b", "a"], stored=True),))}
    assert len(ensue.run(events, queries, plan=plan)) == 2
    with pytest.raises(PlanError, match="three"):
        ensue.run(events, queries, plan={"three": plan["two"]})
    with pytest.raises(PlanError, match="by name"):
        ensue.run(events, queries, plan=plan["two"])


@pytest.mark.parametrize("window", ["300", "300 EVENTS"])
@pytest.mark.parametrize("key", ["", " PARTITION BY k"], ids=["one", "keys"])
def test_stored_partial_matches_that_come_and_go_by_thousands(window: str, key: str) -> None:
    rng = random.Random(5)
    events = [{"type": rng.choice("AABBC"), "ts": k, "x": rng.random(), "k": rng.randrange(2)} for k in range(4000)]
    query = f"PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x - 0.8{key} WITHIN {window}"
    storing = Plan((Join(Join(Leaf("a"), Leaf("b"), stored=True), Leaf("c")),))
    found = []
    for plan in (None, storing):
        matches = ensue.run(events, query, plan=plan).to_arrow()
        found.append(sorted(matches["match_id"].to_pylist()))
    assert len(found[0]) > 1000
    assert found[0] == found[1]
