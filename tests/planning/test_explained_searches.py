"""What explain shows of searches and inputs is what the runtime is given."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from ensue.events.schema import Schema
from ensue.language import parse
from ensue.pattern.expressions import Attribute, Comparison, Logical, conjuncts_of
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Policy, Query
from ensue.planning.conditions import Column, analyze
from ensue.planning.explanation import NodeExplanation, describe
from ensue.planning.plan import Join, Leaf, Plan, Tree, every_tree
from ensue.planning.searches import Check, Decision, How, Search, When, trace_searches
from ensue.runtime import layout as at
from ensue.runtime.assemble import Assembler, BranchParts
from ensue.runtime.programs import ProgramAssembler
from ensue.runtime.strings import StringTable
from ensue.testing.random_queries import POINT_SCHEMA, Shape, random_case


def random_tree(rng: random.Random, names: tuple[str, ...]) -> Tree:
    trees = list(every_tree(list(names)))
    return _stored_at_random(rng, rng.choice(trees))


def _stored_at_random(rng: random.Random, tree: Tree) -> Tree:
    if isinstance(tree, Leaf):
        return tree
    sides = [_stored_at_random(rng, tree.left), _stored_at_random(rng, tree.right)]
    rng.shuffle(sides)
    return Join(sides[0], sides[1], rng.random() < 0.6)


def read_steps(assembler: Assembler, program: int) -> list[dict[str, object]]:
    """What the steps of an assembled program hold, as far as an explanation speaks of it."""
    words = assembler.words
    found = []
    for k in range(words[program + at.G_STEPS] + 1):
        step = words[program + at.G_STEP_TABLE] + k * at.STEP_RECORD
        found.append(
            {
                **read_lookup(assembler, step),
                "bound": words[step + at.ST_AFTERS] + words[step + at.ST_LATE_AFTERS],
                "pairs": words[step + at.ST_ADJACENTS] + words[step + at.ST_PAIRS],
                "stores": words[step + at.ST_INSERTS],
                "checks": read_checks(assembler, step, at.ST_NEGATION, at.ST_NEGATIONS),
                "late checks": read_checks(assembler, step, at.ST_LATE, at.ST_LATES),
            }
        )
    return found


def read_checks(assembler: Assembler, step: int, table: int, count: int) -> list[dict[str, object]]:
    words = assembler.words
    return [read_lookup(assembler, words[step + table] + k * at.STEP_RECORD) for k in range(words[step + count])]


def read_lookup(assembler: Assembler, step: int) -> dict[str, object]:
    words = assembler.words
    store = words[step + at.ST_STORE]
    found: dict[str, object] = {
        "index": assembler.stores[store].key if words[step + at.ST_MODE] == at.MODE_CHAIN else None,
        "list": words[step + at.ST_MODE] == at.MODE_KLEENE,
        "codes": words[step + at.ST_CODES],
    }
    if store >= 0 and assembler.stores[store].kind == at.KIND_LEAF:
        # of the comparisons those on attributes and on identity are a query's; the others are order, window, partition
        columns = [
            words[words[step + at.ST_PREDICATE] + k * at.PREDICATE_RECORD + 1]
            for k in range(words[step + at.ST_PREDICATES])
        ]
        first = at.C_FIRST + len(assembler.partition)
        found["comparisons"] = sum(c >= first or c == at.LEAF_SEQ for c in columns)
    return found


def tell_steps(search: Search, parts: BranchParts, assembler: Assembler) -> list[dict[str, object]]:
    """The same, as the traced search has it."""
    told = []
    for k, step in enumerate(search.steps):
        decided = [(d.how, d.when) for d in step.decisions]
        one: dict[str, object] = {
            "index": tell_index(step.decisions, step.by_partition, step.step.variables, parts, assembler),
            "list": step.step.is_list and k > 0,
            "codes": sum(
                how is How.CODE and when in (When.CANDIDATE, When.NEWEST, When.ELEMENT) for how, when in decided
            ),
            "bound": sum(when is When.BOUND for _, when in decided),
            "pairs": sum(when is When.PAIR for _, when in decided),
            "stores": len(step.stores),
            "checks": [tell_check(c, parts, assembler) for c in step.checks if not c.late],
            "late checks": [tell_check(c, parts, assembler) for c in step.checks if c.late],
        }
        if k > 0 and not step.step.is_node:
            one["comparisons"] = sum(how is How.COMPARISON and when is not When.PAIR for how, when in decided)
        told.append(one)
    return told


def tell_check(check: Check, parts: BranchParts, assembler: Assembler) -> dict[str, object]:
    decided = [d.how for d in check.decisions]
    return {
        "index": tell_index(check.decisions, check.by_partition, (check.negation.name,), parts, assembler),
        "list": False,
        "codes": decided.count(How.CODE),
        "comparisons": decided.count(How.COMPARISON),
    }


def tell_index(
    decisions: tuple[Decision, ...],
    by_partition: bool,
    names: tuple[str, ...],
    parts: BranchParts,
    assembler: Assembler,
) -> int | None:
    """The column of the store that candidates are looked up by."""
    served = [d.condition for d in decisions if d.how is How.INDEX]
    if by_partition:
        assert not served
        return at.C_KEY
    if not served:
        return None
    (condition,) = served
    assert condition.comparison is not None
    (load,) = [load for load in condition.comparison[1:] if load.variable in names]
    if len(names) > 1:
        return parts.node_places[frozenset(names)][load.variable, load.column]
    assert isinstance(load.column, Column)
    return parts.leaves[load.variable].place(load.column, len(assembler.partition))


SHAPE = Shape(policies=(Policy.ANY,), intervals=0.0, kleene=0.2, conditions=5)


def with_equalities(rng: random.Random, query: Query) -> Query:
    """The query with some more equalities: of integers and texts, which an index may serve, and of floats."""
    negated = {item.variable for item in query.items if item.negated}
    names = [item.variable for item in query.items]
    conjuncts = list(conjuncts_of(query.where))
    for _ in range(rng.randrange(5)):
        one, other = rng.choice(names), rng.choice(names)
        if one != other and not {one, other} <= negated:
            column = rng.choice(("x", "x", "k", "y", "s"))
            conjuncts.append(Comparison((Attribute(one, column), Attribute(other, column)), ("=",)))
    where = Logical("AND", tuple(conjuncts)) if len(conjuncts) > 1 else next(iter(conjuncts), None)
    return replace(query, where=where)


CRAFTED = (
    "PATTERN SEQ(A a, !B n, C b, D* c[]) WHERE n.x > COUNT(c) WITHIN 10",
    "PATTERN SEQ(A a, !B n, C b, !B m, D d, !B o) WHERE m.k = d.k AND n.x = b.x AND o.x = a.x WITHIN 10",
    "PATTERN AND(!A n, A a, A b, C? c[]) WHERE n.x = a.x AND c.k = b.k WITHIN 10",
    "PATTERN AND(A a, A b, B c) WHERE a.x = b.x AND b.x = c.x WITHIN 10",
    "PATTERN AND(A a, B b, C c, D d) WHERE a.x = c.x AND b.x = d.x WITHIN 10",
    "PATTERN SEQ(!B n, A a, B b, !B m, C c) WHERE m.x = c.x AND n.x = a.x AND n.k = c.k WITHIN 10",
)


def compare_searches(query: Query, plan: Plan, schema: Schema) -> Counter[str]:
    """Check that the programs of the runtime are the searches that are told of; what they did, counted."""
    branches = normalize(query)
    traced = trace_searches(query, branches, [analyze(query, b, schema) for b in branches], plan)
    assembler = Assembler(query, branches, schema, StringTable())
    parts = assembler.prepare(plan)
    programs = ProgramAssembler(assembler, parts)
    programs.put_all()
    seen: Counter[str] = Counter()
    for number, leaf in enumerate(assembler.leaves):
        records = [r for r in programs.by_leaf[number] if r[at.G_COMPLETE] != at.COMPLETE_KILL]
        searches = [
            (part, search)
            for part, one in zip(parts, traced, strict=True)
            for search in one.searches
            if one.source(search.program.trigger) == (leaf.type, leaf.filter, leaf.negated)
        ]
        assert len(records) == len(searches)
        for record, (part, search) in zip(records, searches, strict=True):
            outcome = at.COMPLETE_EMIT if search.program.completes else at.COMPLETE_NOTHING
            assert record[at.G_COMPLETE] == (at.COMPLETE_WAIT if search.waits else outcome)
            told = tell_steps(search, part, assembler)
            assert read_steps(assembler, assembler.put(record)) == told, f"{query}\n{plan}"
            for step in told:
                seen.update(key for key, value in step.items() if value)
            seen["waits"] += search.waits
    return seen


@pytest.mark.parametrize("block", range(8))
def test_searches_are_those_of_the_runtime(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 50, block * 50 + 50):
        rng = random.Random(seed)
        query, _, schema = random_case(rng, SHAPE)
        query = with_equalities(rng, query)
        trees = tuple(random_tree(rng, branch.names) for branch in normalize(query))
        seen += compare_searches(query, Plan(trees, index=rng.random() < 0.9), schema)
    expected = {"index", "list", "codes", "bound", "pairs", "stores", "checks", "late checks", "comparisons", "waits"}
    assert expected - seen.keys() <= {"pairs"}


@pytest.mark.parametrize("text", CRAFTED)
def test_crafted_searches_are_those_of_the_runtime(text: str) -> None:
    (query,) = parse(text)
    (branch,) = normalize(query)
    rng = random.Random(7)
    for tree in every_tree(list(branch.names), stored=True):
        for one in (tree, *(_stored_at_random(rng, tree) for _ in range(6))):
            assert compare_searches(query, Plan((one,)), POINT_SCHEMA)


@pytest.mark.parametrize("block", range(4))
def test_inputs_are_those_of_the_runtime(block: int) -> None:
    passed_over = streamed = 0
    for seed in range(block * 50, block * 50 + 50):
        rng = random.Random(seed)
        query, _, schema = random_case(rng, SHAPE)
        branches = normalize(query)
        plan = Plan(tuple(random_tree(rng, b.names) for b in branches))
        explanation = describe(query, branches, plan, schema)
        assembler = Assembler(query, branches, schema, StringTable())
        parts = assembler.prepare(plan, with_marks=True)
        programs = ProgramAssembler(assembler, parts)
        programs.put_all()
        for part, branch in zip(parts, explanation.branches, strict=True):
            assert branch.tree is not None
            inputs = [node.input for node in nodes_of(branch.tree) if node.input is not None]
            for given in (*inputs, *branch.absence_inputs):
                leaf = part.leaves[given.variable]
                alike = [(other, name) for other in parts for name in other.leaves if other.leaves[name] is leaf]
                assert set(given.shares) == {name for _, name in alike} - {given.variable}
                if given.stored:
                    assert leaf.store is not None
                    uses = programs._uses(leaf)
                    assert bool(given.while_held) == all(uses)
                elif not given.shares:
                    assert leaf.store is None
                passed_over += bool(given.while_held)
                streamed += not given.stored
            kept = {frozenset(node.variables) for node in nodes_of(branch.tree) if node.stored}
            assert kept == set(part.nodes)
    assert passed_over and streamed


def nodes_of(node: NodeExplanation) -> list[NodeExplanation]:
    return [node, *(found for child in node.children for found in nodes_of(child))]


def test_every_condition_has_one_place_in_the_tree() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        query, _, schema = random_case(rng, SHAPE)
        branches = normalize(query)
        plan = Plan(tuple(random_tree(rng, b.names) for b in branches))
        explanation = describe(query, branches, plan, schema)
        for branch, told in zip(branches, explanation.branches, strict=True):
            assert told.tree is not None
            placed = [text for node in nodes_of(told.tree) for text in node.conditions if " is not " not in text]
            assert sorted(placed) == sorted(c.text for c in analyze(query, branch, schema).conditions)
            absences = [absence.variable for node in nodes_of(told.tree) for absence in node.absences]
            assert sorted(absences) == sorted(n.name for n in branch.negations)
