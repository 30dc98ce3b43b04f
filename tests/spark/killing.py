"""Killing a stream at random moments and starting it again, until all is read."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ensue.spark.journal import journal_of
from tests.spark.ordeal import Answer, Rows, add_file, count_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
FILES_A_START = 3
"""New files before each start: more than are read before most kills, so that the stream seldom runs dry."""

MOMENTS = ("start", "batch", "state", "sink", "commit")
"""What is waited for before a kill: only a while; the plan, the state, the output or the end of a micro-batch."""

_PATIENCE = 600.0  # seconds without a sign of life after which something must be wrong
_LOOK_EVERY = 0.004


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill: what it waited for, how long the process had lived, and the micro-batches planned and done by then."""

    moment: str
    seconds: float
    planned: int
    done: int


class Victim:
    """A process that runs a stream, with Spark's checkpoint in `spark_folder`; `output` counts what it has written."""

    def __init__(self, command: Sequence[str], folder: Path, spark_folder: Path, output: Callable[[], int]) -> None:
        self.folder, self.spark_folder, self._output = folder, spark_folder, output
        self._log = folder / "driver.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        self._before = {moment: self._signs(moment) for moment in MOMENTS}
        self._started = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait for the end; a failure is raised with what the process has written."""
        if self._process.wait():
            raise AssertionError(f"the run on {self.folder} has failed:\n{self._log.read_text()[-4000:]}")

    def kill(self, moment: str, delay: float) -> Kill:
        """Wait for the moment and `delay` seconds more, then kill the process with all that it has started."""
        deadline = time.monotonic() + _PATIENCE
        while moment != "start" and self._signs(moment) <= self._before[moment]:
            self._require_life(deadline)
            time.sleep(_LOOK_EVERY)
        time.sleep(delay)
        self._require_life(deadline)
        seconds = time.monotonic() - self._started
        self._kill_all()
        return Kill(moment, seconds, _count(self.spark_folder / "offsets"), _count(self.spark_folder / "commits"))

    def _require_life(self, deadline: float) -> None:
        if self._process.poll() is not None:
            self.wait()
            raise AssertionError("the run has ended before it was killed")
        if time.monotonic() > deadline:
            self._kill_all()
            raise AssertionError(f"nothing has happened for {_PATIENCE} s:\n{self._log.read_text()[-4000:]}")

    def _kill_all(self) -> None:
        """Kill the session of the process: Python, its JVM, and the workers, which have a group of their own."""
        while victims := _members(self._process.pid):
            for pid in victims:
                _kill(pid)
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()

    def _signs(self, moment: str) -> int:
        """How many files there are of what a moment waits for."""
        match moment:
            case "batch":
                return _count(self.spark_folder / "offsets")
            case "state":
                return len(list(self.spark_folder.glob("state/0/0/*.changelog")))
            case "sink":
                return self._output()
            case _:
                return _count(self.spark_folder / "commits")


def start_driver(folder: Path, sink: str, *, finish: bool = False) -> Victim:
    """Start `tests.spark.chaos_driver` on a folder."""
    command = ["tests.spark.chaos_driver", str(folder), sink, *(["--finish"] if finish else [])]
    checkpoint = folder / "checkpoint"
    if sink == "native":
        return Victim(command, folder, checkpoint, lambda: _count(folder / "out" / "_spark_metadata"))
    return Victim(command, folder, checkpoint / "spark", lambda: len(list(folder.glob("*/batch=*"))))


def run_with_kills(folder: Path, sink: str, files: Sequence[Rows], kills: int, rng: random.Random) -> list[Kill]:
    """Run over the files, killed so many times; what was killed when. The folder then holds the whole result."""
    (folder / "in").mkdir(parents=True)
    waiting = list(enumerate(files))
    moments = [MOMENTS[number % len(MOMENTS)] for number in range(kills)]
    rng.shuffle(moments)
    done = []
    for moment in moments:
        for number, rows in waiting[:FILES_A_START]:
            add_file(folder / "in", number, rows)
        del waiting[:FILES_A_START]
        delay = {"start": rng.uniform(0.5, 12), "batch": rng.uniform(0, 1), "commit": rng.uniform(0, 0.1)}
        done.append(start_driver(folder, sink).kill(moment, delay.get(moment, rng.uniform(0, 0.02))))
    for number, rows in waiting:
        add_file(folder / "in", number, rows)
    start_driver(folder, sink, finish=True).wait()
    return done


def read_result(spark: SparkSession, folder: Path, sink: str) -> Answer:
    """What a run has written, as a reader with Spark sees it."""
    if sink == "native":
        return count_rows(spark.read.parquet(str(folder / "out")))
    matches = spark.read.parquet(str(folder / "out")).selectExpr("'match'", "match_id").collect()
    aside = spark.read.parquet(str(folder / "aside")).selectExpr("kind", "cast(id as string)").collect()
    return Answer((kind, name) for kind, name in [*matches, *aside])


def count_entries(spark: SparkSession, folder: Path, sink: str) -> Counter[tuple[str, int, int]]:
    """How often the journal tells of each check: of a query in a bucket at a time, which is that of one event alone."""
    if sink == "native":
        journal = journal_of(spark.read.parquet(str(folder / "out")))
    else:
        journal = spark.read.parquet(str(folder / "journal"))
    return Counter((row["query"], row["bucket"], row["at"]) for row in journal.collect())


def _count(log: Path) -> int:
    """How many entries one of Spark's logs has."""
    return len([path for path in log.glob("*") if re.fullmatch(r"\d+(\.compact)?", path.name)])


def _members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # gone since
            continue
        if int(owner) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # gone since
        os.kill(pid, signal.SIGKILL)
