"""The cluster example: executors that are processes of their own find what the engine finds in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ensue
from ensue.testing.generators import stock_like

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"


def submit(tmp_path: Path, *options: str) -> pa.Table:
    """Run the example's job on two executors of this machine and read what it wrote."""
    command = [str(EXAMPLE / "submit.sh"), "--events", str(tmp_path / "events")]
    command += ["--queries", str(EXAMPLE / "rising.ensue"), "--output", str(tmp_path / "matches"), *options]
    environment = os.environ | {"PYTHON": sys.executable, "WORK": str(tmp_path / "work")}
    for name in ("MASTER", "PACK", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "JAVA_HOME"):
        environment.pop(name, None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    executors = {path.name for path in (tmp_path / "work" / "spark" / "work").glob("app-*/*") if path.is_dir()}
    assert executors == {"0", "1"}
    return pq.read_table(tmp_path / "matches")


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["batch", "stream"])
def test_executors_find_what_the_engine_finds(tmp_path: Path, streamed: bool) -> None:
    trades = stock_like(4_000, seed=5)
    (tmp_path / "events").mkdir()
    for number in range(2):
        file = tmp_path / "events" / f"{number}.parquet"
        pq.write_table(trades.slice(number * 2_000, 2_000), file)
        os.utime(file, (number, number))  # a stream takes files by their age
    found = submit(tmp_path, *(["--checkpoint", str(tmp_path / "checkpoint")] if streamed else []))
    expected = ensue.run(trades, (EXAMPLE / "rising.ensue").read_text()).to_pylist()
    assert {match["query"] for match in expected} == {"pair", "fading"}
    assert sorted(found["match_id"].to_pylist()) == sorted(match["match_id"] for match in expected)
