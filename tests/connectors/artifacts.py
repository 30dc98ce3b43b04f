"""The jars that the tests of connectors need: a Kafka broker, Spark's connector for Kafka, Delta Lake.

    python -m tests.connectors.artifacts kafka|delta

fetches by their names those that are not here yet, with Ivy, which Spark brings along, and says what there is. They are
kept in the user's cache folder, for all clones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from ensue.errors import PlanError
from ensue.spark.java import find_java
from ensue.spark.packages import find_package

ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "ensue" / "jars"
_PATIENCE = 600.0  # seconds for a package with all that it needs


@dataclass(frozen=True, slots=True)
class Artifact:
    """Jars by their Maven coordinates, each with all that it needs or, if not `whole`, alone."""

    coordinates: tuple[str, ...]
    whole: bool = True

    @property
    def name(self) -> str:
        """The name of the artifact and its version."""
        return "-".join(self.coordinates[0].split(":")[1:])

    @property
    def folder(self) -> Path:
        """Where the jars are, once they are all there."""
        return ROOT / self.name

    def jars(self) -> list[Path]:
        """The jars, none if they are not here."""
        return sorted(self.folder.glob("*.jar"))

    def fetch(self) -> None:
        """Have the jars here; a RuntimeError says why they cannot be had."""
        if self.jars():
            return
        part = ROOT / f".{self.name}.{os.getpid()}"
        for coordinates in self.coordinates:
            self._fetch(coordinates, part)
        part.rename(self.folder)

    def _fetch(self, coordinates: str, folder: Path) -> None:
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        command = [str(find_java().home / "bin" / "java"), "-jar", str(ivy), "-cache", str(ROOT / "ivy")]
        command += ["-dependency", *coordinates.split(":"), "-confs", "default"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
        command += [] if self.whole else ["-notransitive"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        if done.returncode:
            reasons = [line.strip(": \t") for line in done.stdout.splitlines() if line.startswith("\t\t:: ")]
            raise RuntimeError(f"{coordinates}: {'; '.join(line for line in reasons if '#' in line) or done.stderr}")


BROKER = Artifact(("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"))

CONNECTORS = (
    Artifact((find_package("kafka"),)),
    # For a Maven repository that does not have this Spark's yet: an older one does too, piece by piece since a piece
    # of the same version may be missing as well.
    Artifact(
        (
            find_package("kafka", "4.2.0"),
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ),
        whole=False,
    ),
)
"""Best first."""


def delta() -> Artifact:
    """Delta Lake for this Spark; a PlanError if there is none."""
    return Artifact((find_package("delta"),))


def find_connector() -> Artifact | None:
    """The best of the connectors that are here."""
    return next((one for one in CONNECTORS if one.jars()), None)


def fetch_kafka() -> list[Artifact]:
    """Have a broker here, and the best connector that can be had."""
    BROKER.fetch()
    faults = []
    for connector in CONNECTORS:
        try:
            connector.fetch()
        except RuntimeError as error:
            faults.append(str(error))
        else:
            return [BROKER, connector]
    raise RuntimeError("\n".join(faults))


def fetch_delta() -> list[Artifact]:
    """Have Delta Lake here."""
    delta().fetch()
    return [delta()]


if __name__ == "__main__":
    try:
        for got in fetch_kafka() if sys.argv[1] == "kafka" else fetch_delta():
            print(f"{got.name}: {len(got.jars())} jars in {got.folder}")
    except (RuntimeError, PlanError, subprocess.TimeoutExpired) as error:
        sys.exit(f"cannot be fetched: {error}")
