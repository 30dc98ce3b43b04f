"""Five hundred random queries through Spark, as finite inputs and as streams: what the oracle finds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ensue.pattern.query import Policy
from ensue.testing.random_queries import random_case

from .agreement import Bundle, aside_in, make_bundles, make_part, matches_in, run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(200_000, 200_500)
CASES = [(seed, random_case(random.Random(seed))) for seed in SEEDS]
BUNDLES = make_bundles((make_part(seed, f"seed {seed}", *case) for seed, case in CASES), most=250)
STRICT = [(seed, case) for seed, case in CASES if case[0].policy is Policy.STRICT and not case[0].partition_by]
ALONE = [Bundle((make_part(seed, f"seed {seed}", *case, alone=True),)) for seed, case in STRICT[:8]]


def name_bundle(bundle: Bundle) -> str:
    return f"{len(bundle.parts)} {'points' if bundle.schema.begin is None else 'intervals'}"


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_bundle)
def test_queries_over_a_finite_input(bundle: Bundle, spark: SparkSession, tmp_path: Path) -> None:
    """The rows come in any order, those of one time in theirs."""
    rows = bundle.shuffled(random.Random(1), lateness=1_000)
    found = run_batch(spark, bundle, rows, tmp_path / "rows")
    assert bundle.check(matches_in(found), stream=False) > len(bundle.parts)
    assert not list(aside_in(found))


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_bundle)
def test_queries_over_a_stream(bundle: Bundle, spark: SparkSession, tmp_path: Path) -> None:
    """Cut anywhere; all but the first input come out of order, within the lateness."""
    rng = random.Random(len(bundle.parts))
    lateness = 0 if bundle is BUNDLES[0] else rng.randint(3, 9)
    rows = bundle.shuffled(rng, lateness)
    cuts = rng.sample(range(1, len(rows)), 4)
    found = run_stream(spark, bundle, rows, cuts, tmp_path, lateness=lateness)
    assert bundle.check(matches_in(found), stream=True) > len(bundle.parts)
    assert not list(aside_in(found))


def test_strict_queries_alone(spark: SparkSession, tmp_path: Path) -> None:
    """USING STRICT without PARTITION BY counts all that comes: such a query has an input of its own."""
    for number, bundle in enumerate(ALONE):
        found = run_batch(spark, bundle, bundle.in_order(), tmp_path / str(number))
        bundle.check(matches_in(found), stream=False)


def test_a_strict_query_alone_over_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    for number, bundle in enumerate(ALONE[:3]):
        rows = bundle.in_order()
        cuts = range(1, len(rows), 4)
        found = run_stream(spark, bundle, rows, cuts, tmp_path / str(number))
        bundle.check(matches_in(found), stream=True)
