"""The code of the README and the docs runs, block after block, and prints what the page says.

A `python` or `shell` block may be followed by an `output` block: what it prints (a shell block: on standard output). A
line `…` there stands for any number of lines, and `…` within a line for any text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ensue.language import parse
from ensue.pattern.check import check

from . import blocks

PAGES = [blocks.ROOT / "README.md", *sorted((blocks.ROOT / "docs").glob("*.md"))]
RUN = ("python", "shell")


def runnable(page: Path) -> bool:
    return any(block.language in RUN for block in blocks.read_blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=lambda page: page.name)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, shims = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    shims.mkdir()
    command = shims / "ensue"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ensue "$@"\n')
    command.chmod(0o755)
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", os.pathsep.join([str(shims), str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(blocks.ROOT / "src"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = blocks.read_blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        where = f"{page.name}, line {block.line}"
        if block.language == "python":
            printed = run_python(block, where, namespace)
        elif block.language == "shell":
            printed = run_shell(block, where)
        else:
            continue
        if after is not None and after.language == "output":
            assert matches(printed, after.text), f"{where} printed:\n{printed}\ninstead of:\n{after.text}"


def run_python(block: blocks.Block, where: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, where, "exec"), namespace)
    return printed.getvalue()


def run_shell(block: blocks.Block, where: str) -> str:
    script = "set -euo pipefail\n" + re.sub(r"^\$ ", "", block.text, flags=re.MULTILINE)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def matches(printed: str, expected: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\n", False),
        ("a 12 s\nb\nc\n", "a … s\n…\n", True),
        ("a\nb\n", "a\nc\n", False),
    ],
)
def test_how_output_is_compared(printed: str, expected: str, same: bool) -> None:
    assert matches(printed, expected) is same


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_queries_on_the_page_are_right(page: Path) -> None:
    for block in blocks.read_blocks(page):
        if block.language == "sql":
            for query in parse(block.text):
                check(query)


@pytest.mark.parametrize("page", [*PAGES, blocks.ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for page_part, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        target_page = page.parent / page_part if page_part else page
        headings = re.findall(r"^#+ (.+)$", target_page.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{page.name} links to {page_part}#{anchor}"


def test_documented_files_exist() -> None:
    """Paths of the source that the docs name in back quotes are there."""
    for page in [*PAGES, blocks.ROOT / "CONTRIBUTING.md"]:
        for path in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", page.read_text(encoding="utf-8")):
            assert (blocks.ROOT / path).exists(), f"{page.name} names {path}"
