"""What plans are expected to cost, as explain shows it.

To write the snapshots anew: ENSUE_WRITE_SNAPSHOTS=1 pytest tests/planning/test_explained_costs.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import ensue
from ensue.cli.app import cli
from ensue.language import parse
from ensue.planning.decisions import ByInvariants
from ensue.planning.explain import explain
from ensue.planning.invariants import Watch
from ensue.planning.latency import Timings
from ensue.planning.planners import PLANNERS
from ensue.runtime.adaptation import Adaptation
from ensue.statistics.snapshot import Statistics
from tests.planning.showing import SCHEMA, SNAPSHOTS, assert_as_before

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


def snapshot_of(name: str) -> str:
    return f"expected/{name}.{'txt' if EXPECTED[name][3] == 'text' else 'json'}"


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_costs_are_as_they_were(name: str) -> None:
    assert_as_before(snapshot_of(name), expected(name))


def test_each_snapshot_has_a_query() -> None:
    found = {str(path.relative_to(SNAPSHOTS)) for path in (SNAPSHOTS / "expected").iterdir()}
    assert found == set(map(snapshot_of, EXPECTED))


def test_what_holds_of_many_sets_is_counted_not_listed() -> None:
    (query,) = parse("QUERY q1 PATTERN SEQ(A a, B b, C c, D d) WHERE a.id = b.id WITHIN 10s")
    numbers = {"rates": {name: [1e-6] for name in "ABCD"}, "local": {}, "pairs": [["a", "b", 0.1]]}
    sets = [[list("abc"), 0.5], [list("abd"), 2.0]]
    known = Statistics.from_json({"format": 1, "window": 6e7, **numbers, "together": sets})
    plan, found = Adaptation().plan(query, SCHEMA, known)
    told = explain([(query, plan, SCHEMA)], "text", {"q1": found})
    assert "sel(a, b) 0.1, and how often all holds in 2 sets of three and more" in told and "together" not in told
    assert "together(a, b, c)" in explain([(query, plan, SCHEMA)], "json", {"q1": found})


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
