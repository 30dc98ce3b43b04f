"""How plans are shown. To write the snapshots anew: ENSUE_WRITE_SNAPSHOTS=1 pytest tests/planning/test_explain.py."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import ensue
from ensue.cli.app import cli
from ensue.cli.explain import explain_command
from ensue.errors import PlanError
from ensue.events.schema import DType, Schema
from ensue.language import parse
from ensue.pattern.expressions import Attribute, Comparison, Logical, conjuncts_of
from ensue.pattern.normalize import normalize
from ensue.pattern.query import Policy, Query
from ensue.planning.conditions import Column, analyze
from ensue.planning.decisions import ByInvariants
from ensue.planning.default import default_plan
from ensue.planning.explain import explain
from ensue.planning.explanation import NodeExplanation, describe
from ensue.planning.invariants import Watch
from ensue.planning.latency import Timings
from ensue.planning.plan import Join, Leaf, Plan, Tree, every_tree, left_deep, variables_of
from ensue.planning.planners import PLANNERS
from ensue.planning.searches import Check, Decision, How, Search, When, trace_searches
from ensue.runtime import layout as at
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.assemble import Assembler, BranchParts
from ensue.runtime.programs import ProgramAssembler
from ensue.runtime.strings import StringTable
from ensue.statistics.snapshot import Statistics
from ensue.testing.random_queries import POINT_SCHEMA, Shape, random_case

SNAPSHOTS = Path(__file__).parent / "snapshots"
SCHEMA = Schema(
    {
        "type": DType.STRING,
        "ts": DType.TIMESTAMP,
        "id": DType.INT,
        "price": DType.FLOAT,
        "size": DType.INT,
        "name": DType.STRING,
    }
)
STORED = Plan((Join(Join(Leaf("a"), Leaf("b"), stored=True), Join(Leaf("c"), Leaf("d"), stored=True)),))

# name: query, plan, schema
SHOWN: dict[str, tuple[str, Plan | None, Schema | None]] = {
    "seq": (
        "PATTERN SEQ(A a, B b, C c) WHERE a.price < b.price AND b.id = c.id AND a.size + b.size > c.size "
        "AND a.name LIKE 'x%' WITHIN 10 minutes",
        None,
        SCHEMA,
    ),
    "seq_without_schema": (
        "PATTERN SEQ(A a, B b, C c) WHERE a.name < b.name AND b.id = c.id AND a.size > 3 WITHIN 10 minutes",
        None,
        None,
    ),
    "and_same_types": (
        "QUERY twins PATTERN AND(A a, A b, B c) WHERE a.id = b.id AND b.id = c.id WITHIN 1h",
        None,
        SCHEMA,
    ),
    "negation": (
        "PATTERN SEQ(!N n, A a, !M m, B b, !O o) WHERE m.id = a.id AND o.size > a.size + b.size WITHIN 10s",
        None,
        SCHEMA,
    ),
    "kleene": (
        "PATTERN SEQ(A a, B+ b[], C* c[]) WHERE b.price > a.price AND b[i].price > b[i-1].price "
        "AND SUM(b.size) > 10 AND c.id = a.id WITHIN 10s",
        None,
        SCHEMA,
    ),
    "or_branches": (
        "PATTERN SEQ(A a, OR(B b, C c)) WHERE a.id = b.id AND a.price < c.price WITHIN 10s",
        None,
        SCHEMA,
    ),
    "nested": (
        "PATTERN SEQ(A a, AND(B b, SEQ(C c, !N n, D d)), E e) WHERE a.id = b.id AND n.id = b.id WITHIN 10s",
        None,
        SCHEMA,
    ),
    "stored_tree": (
        "PATTERN SEQ(A a, B b, C c, D d) WHERE a.id = b.id AND c.price < d.price AND b.size = c.size WITHIN 10s",
        STORED,
        SCHEMA,
    ),
    "partition_by": (
        "PATTERN SEQ(A a, B b) WHERE a.id = b.id PARTITION BY name WITHIN 10s",
        None,
        SCHEMA,
    ),
    "count_window": ("PATTERN SEQ(A a, !N n, B b) WITHIN 100 EVENTS", None, SCHEMA),
    "next": (
        "PATTERN SEQ(A a, B{2,} b[], !N n, C c) WHERE b.price > a.price AND SUM(b.size) > 5 AND c.id = a.id "
        "WITHIN 10s USING NEXT",
        None,
        SCHEMA,
    ),
    "strict": ("PATTERN SEQ(A a, B? b[], C+ c[]) WHERE COUNT(c) > 2 USING STRICT", None, SCHEMA),
    "counted": (
        "QUERY plain PATTERN SEQ(A a, B b, C c) WITHIN 10s AGG COUNT(*);"
        "QUERY absence PATTERN SEQ(A a, B b, !N n, C c) WHERE n.size > 3 WITHIN 10s AGG COUNT(*), SUM(a.size);"
        "QUERY absences PATTERN SEQ(A a, !M m, B b, !N n, C c) WITHIN 10s AGG COUNT(*);"
        "QUERY ever PATTERN SEQ(A a, !M m, B b, !N n, C c) WITHIN UNBOUNDED AGG COUNT(*);"
        "QUERY least PATTERN SEQ(A a, B b) WITHIN 10s AGG MIN(a.price) GROUP BY id;"
        "QUERY optional PATTERN SEQ(A a, B? b[], C c) WITHIN 10s AGG COUNT(*);"
        "QUERY rising PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 10s AGG COUNT(*);"
        "QUERY apart PATTERN SEQ(A a, B b, C c) WHERE a.price < c.price WITHIN 10s AGG COUNT(*)",
        None,
        SCHEMA,
    ),
}


def shown(name: str, format: str = "text") -> str:
    text, plan, schema = SHOWN[name]
    return explain([(query, plan, schema) for query in parse(text)], format)


@pytest.mark.parametrize("name", SHOWN)
def test_text_is_as_it_was(name: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    found = shown(name) + "\n"
    if os.environ.get("ENSUE_WRITE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_each_snapshot_has_a_query() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.*")} == {*SHOWN, *(f"expected_{name}" for name in EXPECTED)}


# -- what plans are expected to cost ---------------------------------------------------------------------------------
# name: query, statistics as `ensue stats` saves them, how it adapts, format
EXPECTED: dict[str, tuple[str, dict[str, object], Adaptation, str]] = {
    "order": (
        "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id AND b.price < c.price AND a.size > 3 WITHIN 10s",
        {
            "rates": {"A": [40e-6], "B": [2e-6], "C": [1e-6]},
            "local": {"a": [0.25]},
            "pairs": [["a", "b", 0.01], ["b", "c", 0.5]],
        },
        Adaptation(),
        "text",
    ),
    "tree": (
        "PATTERN SEQ(A a, !N n, B b, C+ c[], D d) WHERE b.id = d.id WITHIN 10s",
        {"rates": {"A": [3e-6], "B": [2e-6], "C": [0.5e-6], "D": [1e-6]}, "local": {}, "pairs": [["b", "d", 0.1]]},
        Adaptation(planner="zstream", decision=ByInvariants(Watch(None))),
        "text",
    ),
    "branches": (
        "PATTERN OR(SEQ(A a, B b), SEQ(C c, D d, A e)) WHERE a.id = b.id WITHIN 10s",
        {"rates": {"A": [3e-6], "B": [2e-6], "C": [1e-6], "D": [1e-6]}, "local": {}, "pairs": [["a", "b", 0.1]]},
        Adaptation(decision="threshold"),
        "json",
    ),
    "latency": (
        "PATTERN SEQ(A a, B b, C c) WHERE a.price < b.price AND b.size < c.size WITHIN 10s",
        {
            "rates": {"A": [3e-4], "B": [2e-4], "C": [1e-4]},
            "local": {},
            "pairs": [["a", "b", 0.02], ["b", "c", 0.001]],
        },
        Adaptation(objective="latency", timings=Timings(1e-8, 1e-6, 1e-3, 1e-4)),
        "text",
    ),
}


def expected(name: str) -> str:
    text, numbers, adaptation, format = EXPECTED[name]
    (query,) = parse(text)
    query = replace(query, name="q1")
    known = Statistics.from_json({"format": 1, "window": 6e7, "at": 1_704_205_800_000_000, **numbers})
    plan, found = adaptation.plan(query, SCHEMA, known)
    return explain([(query, plan, SCHEMA)], format, {"q1": found}) + "\n"


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_costs_are_as_they_were(name: str) -> None:
    path = SNAPSHOTS / f"expected_{name}.{'txt' if EXPECTED[name][3] == 'text' else 'json'}"
    found = expected(name)
    if os.environ.get("ENSUE_WRITE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_the_command_plans_for_a_file_or_for_saved_statistics(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    rows = "".join(f"{'ABC'[k % 9 // 4]},{k},{k % 7}\n" for k in range(900))  # 4 A, 4 B, 1 C in 9
    events.write_text("type,ts,x\n" + rows)
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 90"
    saved = tmp_path / "stats.json"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    run("stats", query, "--input", events, "--output", saved)
    measured = run("explain", query, "--input", events)
    assert measured == run("explain", query, "--stats", saved)
    assert "40 of a, 40 of b, 10 of c" in measured and "1: c: events(c) < events(a): 10 and 40" in measured
    (told,) = json.loads(run("explain", query, "--stats", saved, "--planner", "zstream", "--format", "json"))
    assert [one["planner"] for one in told["expected"]["alternatives"]] == ["default", *PLANNERS]
    chosen = next(one for one in told["expected"]["alternatives"] if one["planner"] == "zstream")
    assert chosen["cost"] == told["expected"]["cost"] and chosen["plan"] == told["plan"].replace("*", "")
    assert "expected" not in run("explain", query, "--stats", saved, "--format", "mermaid")
    assert "expected" not in run("explain", f"{query} USING NEXT", "--stats", saved)
    (told,) = json.loads(run("explain", query, "--stats", saved, "--objective", "latency", "--format", "json"))
    candidates = told["expected"]["branches"][0]["candidates"]  # by the timings of this machine, whatever they are
    assert len(candidates) == 4 and [one["plan"] for one in candidates if one["chosen"]] == [told["plan"]]


@pytest.mark.parametrize(
    ("query", "arguments", "said"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 9", ["--stats", "none.json"], "cannot read"),
        ("PATTERN SEQ(A a, B b) WITHIN 9", ["--stats", "bad.json"], "does not hold statistics"),
        ("PATTERN SEQ(A a, B b) WITHIN 9", ["--stats", "ok.json", "--input", "x"], "give one of them"),
        ("PATTERN SEQ(A a, C c) WITHIN 9", ["--stats", "ok.json"], "say nothing of type `C`"),
        ("QUERY q2 PATTERN SEQ(A a, B b) WITHIN 9", ["--stats", "ok.json"], "did you mean `q1`?"),
    ],
)
def test_statistics_that_do_not_fit(tmp_path: Path, query: str, arguments: list[str], said: str) -> None:
    (tmp_path / "bad.json").write_text('{"q1": {"format": 1}}')
    schema = {"columns": [["type", "string"], ["ts", "int64"]], "type": "type", "time": "ts", "begin": None}
    numbers = {"format": 1, "window": 9, "rates": {"A": [1], "B": [2]}, "local": {}, "pairs": []}
    known = {"q1": {**numbers, "schema": {**schema, "unit": "ms", "event_types": None}}}
    (tmp_path / "ok.json").write_text(json.dumps(known))
    paths = [str(tmp_path / one) if one.endswith(".json") else one for one in arguments]
    result = CliRunner().invoke(cli, ["explain", query, *paths])
    assert result.exit_code != 0
    assert said in result.output or said in str(result.exception)


def test_an_adaptive_engine_explains_what_it_expects() -> None:
    engine = ensue.compile("PATTERN SEQ(A a, B b, C c) WITHIN 100", adapt=Adaptation(every=1_000))
    assert "expected" not in engine.explain()
    engine.push([{"type": "ABBCCCCC"[k % 8], "ts": k} for k in range(3_000)])
    told = engine.explain()
    assert f"plan {engine.plan_of('q1')}" in told
    assert "expected cost" in told
    assert re.search(r"1: a: events\(a\) ≤ events\(b\): 12\.\d+ and 2[456].*, d = 0.1", told)
    before = len(engine.journal)
    assert engine.explain() == told and len(engine.journal) == before, "looking changes nothing"


# -- what is shown is what is run ------------------------------------------------------------------------------------
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


# -- without a schema ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("block", range(4))
def test_no_schema_is_needed(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        query, _, schema = random_case(random.Random(seed), Shape(conditions=5))
        assert "columns are not known yet" in explain([(query, None, None)])
        branches = normalize(query)
        known = describe(query, branches, None, schema)
        unknown = describe(query, branches, None, None)
        # types decide how, not what: same plan, same order of steps, same stores
        assert unknown.plan == known.plan
        for one, other in zip(unknown.branches, known.branches, strict=True):
            assert one.order == other.order
            assert [[s.variables for s in t.steps] for t in one.triggers] == [
                [s.variables for s in t.steps] for t in other.triggers
            ]


def test_durations_need_no_schema() -> None:
    (query,) = parse("PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 5s AND a.x * (2s + 1s) < b.n + 1 WITHIN 10s")
    assert "b.ts - a.ts < 5s" in explain([(query, None, None)])


def test_without_types_no_means_are_named() -> None:
    text = shown("seq_without_schema")
    assert "(by " not in text and "index" not in text and "IS NOT NULL" not in text


# -- Mermaid ---------------------------------------------------------------------------------------------------------
_LABEL = r'"(?:[^"<>#`&]|<br/>|#\d+;)*"'
_LINES = [
    re.compile(r"flowchart BT"),
    re.compile(rf"  subgraph s\d+\[{_LABEL}\]"),
    re.compile(r"  end"),
    re.compile(rf"    n\d+(?:\[{_LABEL}\]|\[\({_LABEL}\)\]|\(\[{_LABEL}\]\)|\{{\{{{_LABEL}\}}\}})"),
    re.compile(rf"    n\d+ (?:-->|-\.->)(?:\|{_LABEL}\|)? n\d+"),
]


def check_mermaid(text: str) -> None:
    declared: set[str] = set()
    depth = 0
    for line in text.split("\n"):
        assert any(pattern.fullmatch(line) for pattern in _LINES), line
        depth += line.startswith("  subgraph") - (line == "  end")
        assert depth in (0, 1)
        node = re.match(r"    (n\d+)[\[({]", line)
        if node:
            assert node[1] not in declared
            declared.add(node[1])
        edge = re.match(r"    (n\d+) .* (n\d+)$", line) if not node else None
        if edge:
            assert edge[1] in declared and edge[2] in declared
    assert depth == 0 and declared


@pytest.mark.parametrize("name", SHOWN)
def test_mermaid_is_well_formed(name: str) -> None:
    check_mermaid(shown(name, "mermaid"))


def test_mermaid_labels_are_escaped() -> None:
    (query,) = parse("PATTERN SEQ(`A\"b` a, B b) WHERE a.s = '<b>`#;|\n' AND a.x < b.x WITHIN 10s")
    text = explain([(query, None, None)], "mermaid")
    check_mermaid(text)
    assert "a.x #60; b.x" in text and "#34;" in text


def test_line_breaks_do_not_break_the_tree() -> None:
    (query,) = parse("PATTERN SEQ(A a, B b) WHERE a.s = 'x\ny' WITHIN 10s")
    for line in explain([(query, None, None)]).split("\n")[1:]:
        assert line[0] in "│├└ "


# -- JSON ------------------------------------------------------------------------------------------------------------
def test_json_holds_what_the_text_says() -> None:
    (told,) = json.loads(shown("seq", "json"))
    assert told["query"] == "q1" and told["plan"] == "((c ⋈ b) ⋈ a)" and told["types_known"] is True
    (branch,) = told["branches"]
    assert branch["order"] == ["a → b → c"]
    (trigger,) = branch["triggers"]
    assert trigger["variable"] == "c" and trigger["gives"] == "match"
    assert [step["variables"] for step in trigger["steps"]] == [["b"], ["a"]]
    assert trigger["steps"][0]["index"] == "b.id = c.id"
    assert trigger["steps"][1]["conditions"] == [
        {"text": "a.price < b.price", "by": "comparison", "on": "candidate"},
        {"text": "a.size + b.size > c.size", "by": "code", "on": "candidate"},
    ]


# -- the rest --------------------------------------------------------------------------------------------------------
def test_several_queries() -> None:
    first, second = parse("PATTERN SEQ(A a, B b) WITHIN 10s; QUERY two PATTERN SEQ(C c, D d) WITHIN 10s")
    plans = [(replace(first, name="one"), None, SCHEMA), (second, None, SCHEMA)]
    one, two = explain(plans).split("\n\n")
    assert one.startswith("one: PATTERN SEQ(A a, B b)") and two.startswith("two: PATTERN SEQ(C c, D d)")
    assert [told["query"] for told in json.loads(explain(plans, "json"))] == ["one", "two"]
    text = explain(plans, "mermaid")
    check_mermaid(text)
    assert text.count("subgraph") == 2


def test_events_that_queries_have_in_common() -> None:
    one = "QUERY one PATTERN SEQ(A a, B b) WHERE a.price > 2 WITHIN 10s"
    two = "QUERY two PATTERN SEQ(C c, A x) WHERE x.price > 2 WITHIN 1m"
    queries = parse(f"{one}; {two}")
    plans = [(query, None, SCHEMA) for query in queries]
    one, two = explain(plans).split("\n\n")
    assert "A events with A.price > 2 are stored once, with two" in one
    assert "A events with A.price > 2 are stored once, with one" in two
    told = [{"type": "A", "filters": ["A.price > 2"], "queries": ["one", "two"]}]
    assert [one["common"] for one in json.loads(explain(plans, "json"))] == [told, told]
    assert "stored once" not in explain(plans[:1])


def test_unknown_format() -> None:
    with pytest.raises(PlanError, match="no format `html`"):
        explain([], "html")


def test_a_plan_must_fit() -> None:
    (query,) = parse("PATTERN SEQ(A a, B b) WITHIN 10s")
    with pytest.raises(PlanError, match="the branch has a, b"):
        explain([(query, Plan((left_deep(["a", "c"]),)), SCHEMA)])


def test_a_plan_in_one_line() -> None:
    assert str(STORED) == "((a ⋈ b)* ⋈ (c ⋈ d)*)"
    assert str(Plan((Leaf("a"), left_deep(["c", "b"], stored=True)))) == "a | (c ⋈ b)"
    assert Plan((Leaf("a<b"),))._repr_html_() == "<pre>a&lt;b</pre>"


def test_an_engine_explains_its_plan() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id WITHIN 10s"
    plan = Plan((left_deep(["a", "b", "c"], stored=True),))
    engine = ensue.compile(text, SCHEMA, plan=plan)
    told = engine.explain()
    assert "plan ((a ⋈ b)* ⋈ c)" in told and "store the partial match of a, b" in told
    (query,) = parse(text)
    query = replace(query, name="q1")
    assert ensue.compile(text, SCHEMA).explain() == explain(
        [(query, default_plan(query, normalize(query), SCHEMA), SCHEMA)]
    )
    assert "columns are not known yet" in ensue.compile(text).explain()


def test_variables_of_a_plan_are_all_shown() -> None:
    for name in ("stored_tree", "nested", "kleene"):
        text, plan, schema = SHOWN[name]
        (query,) = parse(text)
        branches = normalize(query)
        told = describe(query, branches, plan, schema)
        for branch, shown_branch in zip(branches, told.branches, strict=True):
            assert shown_branch.tree is not None
            assert sorted(shown_branch.tree.variables) == sorted(branch.names)
            tree = (plan or default_plan(query, branches, schema)).trees[0]
            assert shown_branch.tree.variables == variables_of(tree)


@pytest.mark.parametrize("format", ["text", "mermaid", "json"])
@pytest.mark.parametrize("with_schema", [False, True])
def test_the_command_shows_a_file_of_queries(tmp_path: Path, format: str, with_schema: bool) -> None:
    queries = tmp_path / "two.ensue"
    queries.write_text(
        "QUERY rising PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10s; PATTERN SEQ(A a, !N n, B+ b[]) WITHIN 5s;"
    )
    events = tmp_path / "events.csv"
    events.write_text("type,ts,x\nA,1,2\nB,2,3\n")
    arguments = [str(queries), "--format", format, *(["--schema", str(events)] if with_schema else [])]
    result = CliRunner().invoke(explain_command, arguments)
    assert result.exit_code == 0, result.output
    match format:
        case "text":
            rising, second = result.output.rstrip("\n").split("\n\n")
            assert rising.startswith("rising: PATTERN SEQ(A a, B b)") and second.startswith("q2: PATTERN")
            assert ("a.x < b.x (by comparison)" in rising) == with_schema
        case "mermaid":
            check_mermaid(result.output.rstrip("\n"))
            assert result.output.count("subgraph") == 2
        case _:
            told = json.loads(result.output)
            assert [(one["query"], one["types_known"]) for one in told] == [
                ("rising", with_schema),
                ("q2", with_schema),
            ]
