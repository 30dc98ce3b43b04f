"""Plans that change while Spark runs: the same matches, a journal of what was decided, and state that goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.errors import PlanError
from ensue.runtime.adapting import Adapter
from ensue.spark import RunCounts, aside_of, detect_with_aside, journal_of, matches_of
from ensue.spark.pipeline_file import read_pipeline
from ensue.spark.settings import FileSink
from ensue.testing.oracle import find_matches
from ensue.testing.random_queries import random_case

from .agreement import drain, make_bundles, make_part, matches_in, read_files, run_batch, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [(seed, random_case(random.Random(seed))) for seed in range(210_000, 211_000)]
PARTS = [
    make_part(seed, f"seed {seed}", query, events, schema)
    for seed, (query, events, schema) in CASES
    if Adapter.fits(query) and len(query.items) > 2 and not query.partition_by and schema.begin is None
    if len(find_matches(events, query, schema)) > 1
]
(BUNDLE,) = make_bundles(PARTS, most=len(PARTS))


def entries_in(found: pa.Table) -> list[dict[str, Any]]:
    """The journal among output rows."""
    return [json.loads(row["reason"]) for row in found.to_pylist() if row["kind"] == "journal"]


def test_random_queries_over_a_finite_input(spark: SparkSession, tmp_path: Path) -> None:
    adapt = ensue.Adaptation(decision="unconditional", every=15, method="replay")
    found = run_batch(spark, BUNDLE, BUNDLE.in_order(), tmp_path / "rows", adapt=adapt, objective="latency")
    assert BUNDLE.check(matches_in(found), stream=False) > 100
    assert sum(entry["method"] == "replay" for entry in entries_in(found)) > 5


def test_random_queries_over_a_stream_that_is_restarted(spark: SparkSession, tmp_path: Path) -> None:
    """Cut anywhere, out of order, and stopped in the middle while old and new plans run side by side."""
    rng = random.Random(1)
    rows = BUNDLE.shuffled(rng, lateness=4)
    edges = [0, *sorted(rng.sample(range(1, len(rows)), 2)), len(rows)]
    pieces = [rows[start:stop] for start, stop in pairwise(edges)] + [[BUNDLE.last_row()]]
    tables = []
    for first, stop in ((0, 2), (2, 4)):
        write_files(tmp_path / "in", [BUNDLE.table(piece) for piece in pieces[first:stop]], first)
        adapt = ensue.Adaptation(decision="unconditional", every=15, method="side by side")
        events = read_files(spark, tmp_path / "in")
        found = detect_with_aside(events, BUNDLE.queries, **BUNDLE.roles, lateness=4, adapt=adapt)
        tables += drain(found, tmp_path / "checkpoint")
    assert BUNDLE.check(matches_in(pa.concat_tables(tables)), stream=True) > 100
    assert sum(entry["method"] == "side by side" for entry in entries_in(pa.concat_tables(tables))) > 5


QUERIES = """
QUERY keyed PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k = c.k AND a.x < b.x AND b.x < c.x WITHIN 150 ms;
QUERY alone PATTERN SEQ(A a, !D n, C c) WHERE a.x < c.x AND a.y < c.y AND n.x < a.x WITHIN 40 ms
"""
EVERY = ensue.Adaptation(every=150)


def drifting(rows: int) -> pa.Table:
    """Rare As and many Cs, and after a third the other way round."""
    dice = np.random.default_rng(1)
    some = rows // 3
    kinds = [
        dice.choice(4, n, p=p) for n, p in ((some, (0.02, 0.2, 0.73, 0.05)), (rows - some, (0.73, 0.2, 0.02, 0.05)))
    ]
    return pa.table(
        {
            "type": np.array(list("ABCD"))[np.concatenate(kinds)],
            "ts": pa.array(np.arange(rows) * 1000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
            "k": dice.integers(0, 8, rows),
            "x": dice.random(rows),
            "y": dice.integers(0, 9, rows),
        }
    )


def run_parts(spark: SparkSession, tables: list[pa.Table], folder: Path, turns: list[tuple[int, Any]]) -> pa.Table:
    """What a stream over files gives that is stopped before each turn and goes on with another adaptation."""
    found, first, metrics = [], 0, Counter[str]()
    for stop, adapt in turns:
        write_files(folder / "in", tables[first:stop], first)
        events = read_files(spark, folder / "in")

        def add(query: Any) -> None:
            for progress in query.recentProgress:
                metrics.update(progress.observedMetrics["ensue"].asDict() if progress.observedMetrics else {})

        detected = detect_with_aside(events, QUERIES, buckets=2, adapt=adapt)
        found += drain(detected, folder / "checkpoint", add)
        first = stop
    rows = pa.concat_tables(found)
    entries = entries_in(rows)
    replaced = sum(entry["method"] is not None for entry in entries)
    assert (metrics["planned"], metrics["replaced"]) == (len(entries), replaced)
    return rows


def test_statistics_plans_and_invariants_outlive_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """With and without a restart the same is decided; another adaptation goes on from there."""
    events = drifting(4_500)
    tables = [events.slice(start, 1_500) for start in range(0, 4_500, 1_500)]
    last = events["ts"][3_000].value
    parts = run_parts(spark, tables, tmp_path / "parts", [(1, EVERY), (2, EVERY)])
    other = ensue.Adaptation(planner="zstream", every=150)
    whole = run_parts(spark, tables, tmp_path / "whole", [(2, EVERY), (3, other)])

    before = [entry for entry in entries_in(whole) if entry["at"] < last]
    assert by_bucket(before) == by_bucket(entries_in(parts))
    assert by_bucket(before).keys() == {("keyed", 0), ("keyed", 1), ("alone", 0)}
    for entries in by_bucket(before).values():
        assert any("no longer holds" in entry["reason"] for entry in entries[1:])
        replaced = [entry for entry in entries if entry["method"] is not None]
        assert all(one["new"] == two["old"] for one, two in pairwise(replaced))
        assert len(replaced) > 1 or entries[0]["query"] == "alone", "with two variables both orders cost the same"
    for entries in by_bucket(entry for entry in entries_in(whole) if entry["at"] >= last).values():
        assert entries[0]["reason"] == "no plan has been made from statistics yet"

    expected = ensue.run(events, QUERIES)
    assert sorted(matches_in(whole)["match_id"].to_pylist()) == sorted(match["match_id"] for match in expected)


def by_bucket(entries: Iterable[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What is the same in every run of the journal, in order, for each plan that is kept."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for entry in sorted(entries, key=lambda entry: entry["at"]):
        found.setdefault((entry["query"], entry["bucket"]), []).append(
            {**entry, "seconds": None, "switch_seconds": None}
        )
    return found


def test_the_journal_of_a_finite_input(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the journal are no others' rows; each shard has its own plan."""
    monkeypatch.setattr("ensue.spark.survey.SMALL", 1_000)
    table = drifting(4_500)
    pq.write_table(table, tmp_path / "rows.parquet")
    events = spark.read.parquet(str(tmp_path / "rows.parquet"))
    counts = RunCounts()
    detected = detect_with_aside(events, QUERIES, adapt=EVERY, counts=counts).persist()
    matches = ensue.run(table, QUERIES)
    assert matches_of(detected).count() == len(matches)
    assert aside_of(detected).count() == 0
    rows = journal_of(detected).collect()
    assert (counts.get().planned, counts.get().replaced) == (len(rows), sum(row.method is not None for row in rows))
    assert len({row.bucket for row in rows if row["query"] == "keyed"}) > 1
    assert {row["query"] for row in rows} == {"keyed", "alone"}
    first, last = table["ts"][0].as_py(), table["ts"][-1].as_py()
    for row in rows:
        assert first <= row["at"].astimezone(first.tzinfo) <= last
        assert json.loads(row.statistics)["rates"]["A"][0] > 0
        assert row.method is None or row.new_cost <= row.old_cost


def test_what_a_pipeline_says_of_adaptation(tmp_path: Path) -> None:
    base = {
        "queries": "PATTERN SEQ(A a, B b) WITHIN 10s",
        "source": {"format": "csv", "path": "in"},
        "sink": {"format": "parquet", "path": "out"},
    }
    table = {"decision": "threshold", "planner": "zstream", "every": 500, "windows": 4, "method": "replay"}
    for given, wanted in (
        (True, ensue.Adaptation()),
        (False, None),
        ("unconditional", ensue.Adaptation(decision="unconditional")),
        (table, ensue.Adaptation(**table)),  # type: ignore[arg-type]
        ({}, ensue.Adaptation()),
    ):
        made = read_pipeline({**base, "detect": {"adapt": given}}, tmp_path)
        assert made.detection.adapt == wanted
    journal = {"format": "json", "path": "plans"}
    made = read_pipeline({**base, "detect": {"objective": "latency"}}, tmp_path)
    assert made.detection.adapt == ensue.Adaptation(objective="latency")
    made = read_pipeline({**base, "detect": {"adapt": True}, "journal": journal}, tmp_path)
    assert made.journal == FileSink("json", str(tmp_path / "plans"))
    for wrong, message in (
        ({"journal": journal}, "ask for adapt too"),
        ({"detect": {"adapt": "sometimes"}}, r"\[detect\] adapt: there is no decision 'sometimes'"),
        ({"detect": {"adapt": {"evry": 3}}}, r"\[detect.adapt\] evry is not known. did you mean"),
        ({"detect": {"adapt": {"every": 0}}}, r"\[detect\] adapt: a check every 0 events"),
        ({"detect": {"objective": "speed"}}, r"\[detect\] objective: there is no objective 'speed'"),
        ({"detect": {"adapt": True}, "journal": {"format": "webhook", "url": "http://x"}}, "formats of .journal."),
        ({"detect": {"adapt": True}, "journal": {"format": "json", "path": "out"}}, "cannot share"),
    ):
        with pytest.raises(PlanError, match=message):
            read_pipeline({**base, **wrong}, tmp_path)
