"""Two hundred random programs of rules through Spark, as finite inputs and as streams: what the oracle derives.

Programs are put together in one run: each has its own event types and attributes, and its own stretch of time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ensue.errors import LimitError, PlanError, QueryTypeError
from ensue.events.schema import Schema
from ensue.options import Options
from ensue.planning.rule_programs import plan_program
from ensue.planning.rule_spread import find_rule_spread
from ensue.rules.check import check_program
from ensue.rules.program import Program
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.rule_adapting import RuleAdapter
from ensue.spark import detect, detect_with_aside
from ensue.spark import survey as survey_module
from ensue.spark.counts import RunCounts
from ensue.testing.random_programs import RandomProgram, put_together, random_program
from ensue.testing.rule_oracle import DerivedEvent, derive_events

from .agreement import aside_in, drain, matches_in, read_files, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRETCH = 100
ALL = Options(unbounded_rules=True)
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One program with names and times of its own."""

    case: RandomProgram
    derived: tuple[DerivedEvent, ...]


def make_part(number: int, *, keyed: bool) -> Part | None:
    """The part of a seed; None if it derives nothing, or too much for the oracle."""
    case = random_program(number, events=12, keyed=keyed, suffix=f"_{number}")
    start = STRETCH * (number % 1000)
    rows = tuple({**row, **{name: row[name] + start for name in ("ts", "start") if name in row}} for row in case.rows)
    try:
        derived = derive_events(rows, case.program, case.schema, limit=5_000)
    except LimitError:
        return None
    return Part(replace(case, rows=rows), tuple(derived)) if derived else None


@dataclass(frozen=True)
class Bundle:
    """Programs that run together."""

    name: str
    parts: tuple[Part, ...]

    @cached_property
    def whole(self) -> RandomProgram:
        return put_together([part.case for part in self.parts])

    @property
    def schema(self) -> Schema:
        return self.whole.schema

    @property
    def program(self) -> Program:
        return self.whole.program

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.whole.rows

    def table(self, rows: Sequence[Row]) -> pa.Table:
        kinds = {"type": pa.string(), "ts": pa.int64(), "x": pa.int64(), "y": pa.float64(), "s": pa.string()}
        if self.schema.begin is not None:
            kinds["start"] = pa.int64()
        return pa.Table.from_pylist(list(rows), schema=pa.schema(list(kinds.items())))

    def check(self, found: pa.Table) -> None:
        signatures = check_program(self.program, self.schema)
        actual = Counter(
            repr(DerivedEvent(r["rule"], r["begin"], r["end"], tuple((n, r[n]) for n in signatures[r["rule"]])))
            for r in found.to_pylist()
        )
        expected = Counter(repr(event) for part in self.parts for event in part.derived)
        assert actual == expected, "\n".join(
            [f"missing: {e}" for e in (expected - actual)][:5] + [f"surplus: {e}" for e in (actual - expected)][:5]
        )


def is_bounded(part: Part) -> bool:
    program, schema = part.case.program, part.case.schema
    _, plans = plan_program(program, schema)
    window = find_rule_spread(program, plans, schema, schema).window
    return window is not None and window <= 25


KINDS: dict[str, dict[str, Any]] = {
    "points": {"seeds": range(50_000, 51_000), "keyed": False, "lasting": False},
    "intervals": {"seeds": range(51_000, 52_000), "keyed": False, "lasting": True},
    "keyed": {"seeds": range(52_000, 53_000), "keyed": True, "lasting": False},
    "sliced": {"seeds": range(53_000, 54_000), "keyed": False, "lasting": False, "bounded": True},
}


def gather(name: str, count: int = 50) -> Bundle:
    """The first programs of a kind."""
    kind = KINDS[name]
    parts: list[Part] = []
    for seed in kind["seeds"]:
        part = make_part(seed, keyed=kind["keyed"])
        fits = part is not None and (part.case.schema.begin is not None) == kind["lasting"]
        if part is not None and fits and (not kind.get("bounded") or is_bounded(part)):
            parts.append(part)
        if len(parts) == count:
            break
    return Bundle(name, tuple(parts))


def roles(bundle: Bundle) -> Row:
    return {"begin": bundle.schema.begin, "options": ALL}


@pytest.mark.parametrize("name", KINDS)
def test_programs(name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty of each kind: first as a finite input, then as a stream."""
    bundle = gather(name)
    assert len(bundle.parts) == 50
    monkeypatch.setattr(survey_module, "SMALL", 0)
    _check_finite(bundle, spark, tmp_path)
    _check_stream(bundle, spark, tmp_path)


def _check_finite(bundle: Bundle, spark: SparkSession, folder: Path) -> None:
    """In any order; spread over workers where the rules allow it."""
    rows = random.Random(1).sample(bundle.rows, len(bundle.rows))
    pq.write_table(bundle.table(rows), folder / "rows.parquet")
    events = spark.read.parquet(str(folder / "rows.parquet"))
    counts = RunCounts()
    found = detect(events, bundle.program, counts=counts, **roles(bundle)).toArrow()
    bundle.check(found)
    assert counts.get().matches == found.num_rows
    assert counts.get().ignored == sum(row["type"] not in bundle.program.inputs for row in rows)


def _check_stream(bundle: Bundle, spark: SparkSession, folder: Path) -> None:
    """Cut anywhere and out of order, within the lateness; timers fire with the watermark; joins may change."""
    dice = random.Random(2)
    lateness = dice.randint(2, 6)
    rows = sorted(bundle.rows, key=lambda row: row["ts"] + dice.randint(0, lateness))
    cuts = [0, dice.randrange(1, len(rows)), len(rows)]
    last = {"type": "__end", "ts": 10**6, "start": 10**6}
    pieces = [bundle.table(rows[a:b]) for a, b in pairwise(cuts)]
    write_files(folder / "source", [*pieces, bundle.table([last])])
    events = read_files(spark, folder / "source")
    adapt = Adaptation(decision="unconditional", every=60)
    found = detect_with_aside(events, bundle.program, lateness=lateness, buckets=2, adapt=adapt, **roles(bundle))
    table = pa.concat_tables(drain(found, folder / "checkpoint"))
    kinds = Counter(row["kind"] for row in aside_in(table))
    assert not kinds or list(kinds) == ["journal"]
    plans = plan_program(bundle.program, bundle.schema)[1]
    assert (kinds["journal"] > 0) == any(RuleAdapter.fits(plan) for own in plans.values() for plan in own)
    bundle.check(matches_in(table))


def test_spread_is_by_what_rules_join_by() -> None:
    def spread(bundle: Bundle) -> str:
        _, plans = plan_program(bundle.program, bundle.schema)
        return str(find_rule_spread(bundle.program, plans, bundle.schema, bundle.schema))

    assert spread(gather("keyed", 1)).startswith("by x")
    assert spread(gather("sliced", 2)) == "by slices of time; a stream in one place"


def test_what_cannot_run_is_said(spark: SparkSession) -> None:
    events = spark.createDataFrame([("a", 1, 1)], "type string, ts long, x long")
    text = "EVENT a(x: int); RULE b(x) <- i: a(x), j: a(x), i BEFORE j;"
    with pytest.raises(PlanError, match="leave the key out"):
        detect(events, text, key="x")
    stream = spark.readStream.format("rate").load().selectExpr("'a' AS type", "value AS ts", "value AS x")
    with pytest.raises(QueryTypeError, match="for ever"):
        detect(stream, text)
    with pytest.raises(QueryTypeError, match="`x` is declared string"):
        detect(events, text.replace("int", "string"))


def test_rules_with_patterns(spark: SparkSession) -> None:
    """Derived events beside matches; a pattern reads them."""
    rows = [("order", 1, 1), ("order", 20, 2), ("shipped", 3, 1), ("order", 40, 2), ("shipped", 60, 9)]
    events = spark.createDataFrame(rows, "type string, ts long, id long")
    text = """
    EVENT order(id: int); EVENT shipped(id: int);
    RULE overdue(id) <- o: order(id), w: EXTEND(o, 6), WHILE w: NOT shipped(id);
    QUERY twice PATTERN SEQ(overdue a, overdue b) WHERE a.id = b.id WITHIN 50 RETURN a.id, b.end AS until;
    """
    found = [row.asDict() for row in detect(events, text).collect()]
    derived = sorted((row["begin"], row["end"], row["id"]) for row in found if row["rule"] == "overdue")
    assert derived == [(20, 26, 2), (40, 46, 2)]
    (match,) = [row for row in found if row["query"] == "twice"]
    assert (match["a_id"], match["until"]) == (2, 46) and match["match_id"]
