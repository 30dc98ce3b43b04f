"""Damaging checkpoints: what is done to which file, and what a stream that is started on it then does."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.chaos_driver import start_native
from tests.spark.ordeal import add_file, count_rows, describe_difference, expect, make_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACTS = ("flip", "truncate", "delete")
_FOLDERS = ("offsets", "commits", "sources", "state", "state/0/0", "state/0/_metadata", "state/0/0/SSTs")
_PARTS = ("checkpoint", "out")
_BEFORE = 4  # files that are read before the damage


@dataclass(frozen=True, slots=True)
class Damage:
    """One change: a bit of a file, its end, or all of it. `place` says where in the file, from 0 to 1."""

    act: str
    path: Path
    place: float = 0.0

    def __str__(self) -> str:
        return f"{self.act} {self.path}"

    def apply(self, checkpoint: Path) -> None:
        """Do it."""
        target = checkpoint / self.path
        if self.act == "delete":
            shutil.rmtree(target) if target.is_dir() else target.unlink()
            return
        data = bytearray(target.read_bytes())
        byte = int(self.place * len(data))
        if self.act == "truncate":
            del data[byte:]
        else:
            data[byte] ^= 1 << int(self.place * 8191) % 8
        target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a damage: the error that refused it, or the difference of the answer; neither, if it was mended."""

    damage: Damage
    error: str | None
    difference: str | None

    @property
    def verdict(self) -> str:
        """One word."""
        return "refused" if self.error is not None else "recovered" if self.difference is None else "SILENT"


class Patient:
    """A stream that was stopped after some micro-batches, whose checkpoint is damaged, tried and restored."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self._spark, self._folder = spark, folder
        self.kept = folder / "kept" / "checkpoint"
        """The checkpoint as it was, to choose damages from."""
        files = make_files(seed, _BEFORE + 1)
        self._expected = expect(files)
        (folder / "in").mkdir(parents=True)
        for number, rows in enumerate(files[:_BEFORE]):
            add_file(folder / "in", number, rows)
        self._run()
        for part in _PARTS:
            shutil.copytree(folder / part, folder / "kept" / part)
        for number, rows in list(enumerate(files))[_BEFORE:]:
            add_file(folder / "in", number, rows)

    def try_out(self, damage: Damage | None) -> Outcome:
        """Go on from the checkpoint as it was, with the damage; whatever comes of it."""
        self._restore()
        if damage is not None:
            damage.apply(self._folder / "checkpoint")
        try:
            self._run()
        except Exception as error:  # any refusal will do
            return Outcome(damage or _NOTHING, str(error), None)
        found = count_rows(self._spark.read.parquet(str(self._folder / "out")))
        return Outcome(damage or _NOTHING, None, describe_difference(found, self._expected))

    def _run(self) -> None:
        query = start_native(self._spark, self._folder, finish=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _restore(self) -> None:
        self._restore_state_stores()
        for part in _PARTS:
            shutil.rmtree(self._folder / part, ignore_errors=True)
            shutil.copytree(self._folder / "kept" / part, self._folder / part)

    def _restore_state_stores(self) -> None:
        """Let Spark forget what it holds in memory, so that state comes from the files, as in a new process."""
        jvm = self._spark._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


_NOTHING = Damage("nothing", Path())


def find_files(checkpoint: Path) -> dict[str, list[Path]]:
    """The files of a checkpoint by kind, oldest first: those that differ in numbers alone are of a kind."""
    kinds: dict[str, list[Path]] = {}
    for path in checkpoint.rglob("*"):
        if path.is_file():
            own = path.relative_to(checkpoint)
            name = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "*", str(own))
            kinds.setdefault(re.sub(r"\d+", "#", name.replace("/_metadata/v2/", "/_metadata/v/")), []).append(own)
    return {kind: sorted(kinds[kind], key=_numbers) for kind in sorted(kinds)}


def choose_damages(checkpoint: Path, rng: random.Random, *, all_files: bool) -> Iterator[Damage]:
    """Every act on the newest file of each kind, or on all files; and folders that are gone.

    Files that only hold the checksum of another are left alone unless all files are wanted.
    """
    for kind, paths in find_files(checkpoint).items():
        if all_files or not kind.endswith(".crc"):
            for path in paths if all_files else paths[-1:]:
                yield from (Damage(act, path, rng.random()) for act in ACTS)
    yield from (Damage("delete", Path(folder)) for folder in _FOLDERS if (checkpoint / folder).exists())


def count_verdicts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many damages came to what."""
    counts = {"refused": 0, "recovered": 0, "SILENT": 0}
    for outcome in outcomes:
        counts[outcome.verdict] += 1
    return counts


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]
