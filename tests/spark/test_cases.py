"""Every case file through Spark, as a finite input and as a stream cut anywhere."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import ensue.errors
from ensue.pattern.query import Policy
from ensue.runtime.engine import Engine
from ensue.spark import detect
from ensue.testing.cases import Case, ExpectedError, ExpectedMatches, load_cases

from .agreement import Bundle, aside_in, make_bundles, make_part, matches_in, run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = load_cases(Path(__file__).parents[1] / "cases")
WITH_MATCHES = [case for case in CASES if isinstance(case.expected, ExpectedMatches)]
WITH_ERROR = [case for case in CASES if isinstance(case.expected, ExpectedError)]
BUNDLES = make_bundles(
    (make_part(number, case.name, case.parse(), case.events, case.schema) for number, case in enumerate(WITH_MATCHES)),
    most=400,
)
STRICT = [case for case in WITH_MATCHES if case.parse().policy is Policy.STRICT and not case.parse().partition_by]
ALONE = [
    Bundle((make_part(number, case.name, case.parse(), case.events, case.schema, alone=True),))
    for number, case in enumerate(STRICT)
]


def name_bundle(bundle: Bundle) -> str:
    schema = bundle.schema
    begin = "" if schema.begin is None else " intervals"
    time = f"{schema.time}:{schema.columns[schema.time].value}"
    return f"{len(bundle.parts)} {schema.type} {time}{begin} {schema.unit.value}"


def test_every_case_is_in_a_bundle() -> None:
    assert sum(len(bundle.parts) for bundle in BUNDLES) == len(WITH_MATCHES) > 250
    assert len(WITH_ERROR) > 40
    assert len(ALONE) > 10


def test_cases_mean_the_same_together_and_a_difference_is_seen() -> None:
    """Without Spark: what one engine finds for all cases at once is what each is expected to give."""
    bundle = max(BUNDLES, key=lambda bundle: len(bundle.parts))
    roles = {**bundle.roles}
    found = Engine(bundle.queries, **roles).push_sorted(bundle.table(bundle.in_order())).to_arrow()
    assert bundle.check(found, stream=False) == found.num_rows > 400
    for wrong in (found.slice(1), found.take([0, *range(found.num_rows)])):
        with pytest.raises(AssertionError, match="1 of"):
            bundle.check(wrong, stream=False)


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_bundle)
def test_cases_in_a_finite_input(bundle: Bundle, spark: SparkSession, tmp_path: Path) -> None:
    found = run_batch(spark, bundle, bundle.in_order(), tmp_path / "rows")
    assert bundle.check(matches_in(found), stream=False)
    assert Counter(row["kind"] for row in aside_in(found)) == Counter(rejected=bundle.unreadable())


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_bundle)
def test_cases_in_a_stream(bundle: Bundle, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(len(bundle.parts))
    rows = bundle.in_order()
    cuts = {rng.randrange(1, len(rows)) for _ in range(4 if len(rows) > 100 else 1)}
    found = run_stream(spark, bundle, rows, cuts, tmp_path)
    assert bundle.check(matches_in(found), stream=True)
    assert Counter(row["kind"] for row in aside_in(found)) == Counter(rejected=bundle.unreadable())


def test_strict_cases_alone_in_a_finite_input(spark: SparkSession, tmp_path: Path) -> None:
    """USING STRICT without PARTITION BY counts all that comes: such a case has an input of its own."""
    total = 0
    for number, bundle in enumerate(ALONE):
        found = run_batch(spark, bundle, bundle.in_order(), tmp_path / str(number))
        total += bundle.check(matches_in(found), stream=False)
    assert total > len(ALONE)


def test_strict_cases_alone_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    for number, bundle in enumerate(ALONE[::6]):
        rows = bundle.in_order()
        found = run_stream(spark, bundle, rows, [len(rows) // 2], tmp_path / str(number))
        bundle.check(matches_in(found), stream=True)


@pytest.mark.parametrize("case", WITH_ERROR, ids=lambda case: case.name)
def test_case_with_error(case: Case, spark: SparkSession) -> None:
    assert isinstance(case.expected, ExpectedError)
    schema = case.schema
    part = Bundle((make_part(0, case.name, WITH_MATCHES[0].parse(), (), schema),))
    events = spark.createDataFrame([], from_arrow_schema(part.table([]).schema))
    with pytest.raises(getattr(ensue.errors, case.expected.name)) as caught:
        detect(events, case.query_text, **part.roles)
    assert case.expected.message in str(caught.value)
