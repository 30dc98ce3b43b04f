"""How plans are shown. To write the snapshots anew: ENSUE_WRITE_SNAPSHOTS=1 pytest tests/planning/test_explain.py."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import ensue
from ensue.cli.explain import explain_command
from ensue.errors import PlanError
from ensue.events.schema import Schema
from ensue.language import parse
from ensue.pattern.normalize import normalize
from ensue.planning.default import default_plan
from ensue.planning.explain import explain
from ensue.planning.explanation import describe
from ensue.planning.plan import Join, Leaf, Plan, left_deep, variables_of
from ensue.testing.random_queries import Shape, random_case
from tests.planning.showing import SCHEMA, SNAPSHOTS, assert_as_before

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
    assert_as_before(f"{name}.txt", shown(name) + "\n")


def test_each_snapshot_has_a_query() -> None:
    assert {path.name for path in SNAPSHOTS.glob("*.*")} == {f"{name}.txt" for name in SHOWN}


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
