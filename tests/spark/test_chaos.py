"""A stream that is killed at random moments (`kill -9`) and started again loses no match and doubles none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.killing import FILES_A_START, count_entries, read_result, run_with_kills
from tests.spark.ordeal import describe_difference, expect, make_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize(("sink", "kills"), [("native", 8)])
def test_killed_streams_give_what_batch_gives(spark: SparkSession, tmp_path: Path, sink: str, kills: int) -> None:
    files = make_files(11, FILES_A_START * kills)
    done = run_with_kills(tmp_path, sink, files, kills, random.Random(5))
    assert len(done) == kills
    assert any(kill.planned > kill.done for kill in done), "no kill fell into a micro-batch"
    expected = expect(files)
    assert all(sum(kind == wanted for kind, _ in expected) for wanted in ("match", "late", "rejected"))
    assert describe_difference(read_result(spark, tmp_path, sink), expected) is None
    entries = count_entries(spark, tmp_path, sink)
    assert {query for query, _, _ in entries} == {"rising", "alone", "climb"}
    assert set(entries.values()) == {1}, "what was decided about plans is told once too"
