"""A damaged checkpoint is refused, or what it goes on to give is the same: never another answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.damaging import Patient, choose_damages, count_verdicts, find_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_damaged_checkpoints_never_give_another_answer(spark: SparkSession, tmp_path: Path) -> None:
    patient = Patient(spark, tmp_path, seed=1)
    assert patient.try_out(None).verdict == "recovered"
    kinds = " ".join(find_files(patient.kept))
    assert all(part in kinds for part in ("metadata", "offsets", "commits", "sources", "changelog", "_stateSchema"))
    damages = list(choose_damages(patient.kept, random.Random(2), all_files=False))
    outcomes = [patient.try_out(damage) for damage in damages]
    assert [(str(outcome.damage), outcome.difference) for outcome in outcomes if outcome.verdict == "SILENT"] == []
    assert count_verdicts(outcomes)["refused"] >= len(outcomes) // 3
