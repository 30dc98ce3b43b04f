"""`make chaos`: streams killed at random moments, checkpoints damaged file by file; all compared with what batch gives.

Not collected by pytest. The same seed draws the same events, moments and damages:

    python -m tests.spark.chaos --kills 40 --seed 7       # 20 with Spark's file sink, 20 with that of pipelines
    python -m tests.spark.chaos --only damage --seed 7    # every file of a checkpoint

A table tells what happened; the exit code is 1 if a match was lost or doubled, or a damage gave another answer.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ensue.spark.session import make_session
from tests.spark.chaos_driver import CONFIG, SINKS
from tests.spark.damaging import Patient, choose_damages, count_verdicts
from tests.spark.killing import FILES_A_START, MOMENTS, Kill, count_entries, read_result, run_with_kills
from tests.spark.ordeal import Rows, describe_difference, expect, make_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS_A_RUN = 10
"""After so many kills a stream is let through to its end, and its result compared."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(description="Kill streams and damage checkpoints; compare with batch.")
    parser.add_argument("--kills", type=int, default=40, help="how many kills in all (40)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn from (the time)")
    parser.add_argument("--only", choices=("kill", "damage"), help="one of the two parts")
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="ensue-chaos-"))
    failures = 0
    if given.only != "damage":
        failures += kill_streams(folder / "kill", given.kills, random.Random(given.seed))
    if given.only != "kill":
        failures += damage_checkpoints(folder / "damage", random.Random(given.seed))
    if failures:
        print(f"{failures} failed; what was written is in {folder}")
        return 1
    shutil.rmtree(folder)
    print("all results were right")
    return 0


def kill_streams(folder: Path, kills: int, rng: random.Random) -> int:
    """Kill streams of each sink by turns; how many results were wrong."""
    done: list[tuple[str, Kill]] = []
    runs: list[tuple[str, Path, list[Rows]]] = []
    while len(done) < kills:
        sink = SINKS[len(runs) % len(SINKS)]
        wanted = min(KILLS_A_RUN, kills - len(done))
        files = make_files(rng.randrange(1_000_000), FILES_A_START * wanted)
        place = folder / str(len(runs))
        done += [(sink, kill) for kill in run_with_kills(place, sink, files, wanted, rng)]
        runs.append((sink, place, files))
        print(f"{len(done)} kills", flush=True)
    spark = _session(folder)
    failures = 0
    for sink, place, files in runs:
        difference = describe_difference(read_result(spark, place, sink), expect(files))
        if difference is None and set(count_entries(spark, place, sink).values()) != {1}:
            difference = "the journal tells of a check twice, or of none"
        if difference is not None:
            failures += 1
            print(f"{sink} sink, {place}: {difference}")
    spark.stop()
    _show_kills(done)
    return failures


def damage_checkpoints(folder: Path, rng: random.Random) -> int:
    """Damage every file of a checkpoint, one by one; how many gave another answer."""
    spark = _session(folder)
    patient = Patient(spark, folder / "stream", rng.randrange(1_000_000))
    outcomes = [patient.try_out(None)]
    assert outcomes[0].verdict == "recovered", outcomes[0].error or outcomes[0].difference
    for damage in list(choose_damages(patient.kept, rng, all_files=True)):
        outcome = patient.try_out(damage)
        outcomes.append(outcome)
        why = (outcome.error or outcome.difference or "").partition("terminated with exception: ")
        print(f"{outcome.verdict:10} {damage}  {' '.join((why[2] or why[0]).split())[:120]}", flush=True)
    spark.stop()
    counts = count_verdicts(outcomes[1:])
    print("\n" + "  ".join(f"{verdict}: {count}" for verdict, count in counts.items()))
    return counts["SILENT"]


def _session(folder: Path) -> SparkSession:
    return make_session("chaos", master="local[2]", config={**CONFIG, "spark.local.dir": str(folder / "local")})


def _show_kills(done: Sequence[tuple[str, Kill]]) -> None:
    print(f"\n{'sink':10} {'killed at':10} {'times':>6} {'of these within a micro-batch':>30}")
    times = Counter((sink, kill.moment) for sink, kill in done)
    within = Counter((sink, kill.moment) for sink, kill in done if kill.planned > kill.done)
    for sink in SINKS:
        for moment in MOMENTS:
            print(f"{sink:10} {moment:10} {times[sink, moment]:6} {within[sink, moment]:30}")


if __name__ == "__main__":
    sys.exit(main())
