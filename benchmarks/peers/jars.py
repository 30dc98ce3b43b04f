"""The Java peers: their jars by Maven coordinates, and the harness compiled against them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "java"
SHARED = ("Stream.java", "Job.java", "Tally.java", "Harness.java")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
TIME_LIMIT = 900
"""Seconds that Maven may take to fetch the jars of one peer."""


@dataclass(frozen=True, slots=True)
class Jars:
    """What a peer needs: the harness's class, and coordinates; without `transitive`, these are all there is."""

    peer: str
    coordinates: tuple[str, ...]
    transitive: bool = True

    @property
    def version(self) -> str:
        """The version of the peer itself."""
        return self.coordinates[0].rsplit(":", 1)[1]

    def pom(self) -> str:
        """A project with the jars as its dependencies."""
        nothing = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        wanted = []
        for coordinate in self.coordinates:
            group, artifact, version = coordinate.split(":")
            wanted.append(
                f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
                f"{'' if self.transitive else nothing}</dependency>"
            )
        return (
            "<project><modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>peer</artifactId>"
            f"<version>1</version><dependencies>\n{chr(10).join(wanted)}\n</dependencies></project>\n"
        )


FLINK = Jars(
    "FlinkPeer",
    (
        "org.apache.flink:flink-cep:2.3.0",
        "org.apache.flink:flink-streaming-java:2.3.0",
        "org.apache.flink:flink-clients:2.3.0",
        "org.apache.flink:flink-connector-datagen:2.3.0",
    ),
)
ESPER = Jars("EsperPeer", ("com.espertech:esper-runtime:9.0.0", "com.espertech:esper-compiler:9.0.0"))
# Siddhi's own list names jars that only its maker's repository has; these are the same libraries, all from one place.
SIDDHI = Jars(
    "SiddhiPeer",
    (
        "io.siddhi:siddhi-core:5.1.30",
        "io.siddhi:siddhi-query-api:5.1.30",
        "io.siddhi:siddhi-query-compiler:5.1.30",
        "io.siddhi:siddhi-annotations:5.1.30",
        "com.lmax:disruptor:3.4.4",
        "org.antlr:antlr4-runtime:4.11.1",
        "com.google.guava:guava:33.0.0-jre",
        "com.google.code.gson:gson:2.10.1",
        "io.dropwizard.metrics:metrics-core:3.1.0",
        "org.apache.logging.log4j:log4j-api:2.22.1",
        "org.apache.logging.log4j:log4j-core:2.22.1",
        "org.osgi:org.osgi.core:6.0.0",
        "org.quartz-scheduler:quartz:2.3.2",
        "org.slf4j:slf4j-api:2.0.11",
        "org.yaml:snakeyaml:2.2",
    ),
    transitive=False,
)


class NotHereError(Exception):
    """A peer that cannot be run on this machine, with the reason."""


def prepare(jars: Jars, folder: Path) -> str:
    """Fetch a peer's jars and compile its harness, unless that has been done; the class path."""
    for tool, what in (("mvn", "Maven"), ("javac", "a Java compiler"), ("java", "Java")):
        if shutil.which(tool) is None:
            raise NotHereError(f"needs {what} (`{tool}` is not on the PATH)")
    home = folder / jars.peer
    libraries, classes = home / "lib", home / "classes"
    pom = home / "pom.xml"
    if not pom.exists() or pom.read_text() != jars.pom() or not libraries.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "pom.new").write_text(jars.pom())
        run(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(home / "pom.new"),
                COPY,
                f"-DoutputDirectory={libraries}",
                "-DincludeScope=runtime",
            ]
        )
        (home / "pom.new").rename(pom)
    path = f"{libraries}/*"
    sources = [SOURCES / name for name in (*SHARED, f"{jars.peer}.java")]
    stamp = classes / f"{jars.peer}.class"
    if not stamp.exists() or any(source.stat().st_mtime > stamp.stat().st_mtime for source in sources):
        run(["javac", "-proc:none", "-d", str(classes), "-cp", path, *map(str, sources)])
    return f"{classes}:{path}"


def run(command: list[str]) -> None:
    """Run a tool; a failure is told in its last lines."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise NotHereError(f"{command[0]} did not end within {TIME_LIMIT} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NotHereError(f"{command[0]} failed: {' '.join(said[:1])[:300]}")
