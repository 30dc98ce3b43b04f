"""What `import ensue` brings along, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "pandas", "polars", "pyspark", "lark", "click", "rich", "duckdb")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted(m.partition('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    loaded = modules_after("import ensue")
    assert "ensue" in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["check", "PATTERN SEQ(A a, B b) WITHIN 10s"]])
def test_quick_commands_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(
        f"from ensue.cli.app import run_command\nimport io, contextlib\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    assert run_command({arguments!r}) == 0"
    )
    assert "click" in loaded
    assert not loaded & {"numba", "pandas", "polars", "pyarrow"}


def test_public_names_exist() -> None:
    import ensue

    assert ensue.__all__
    for name in ensue.__all__:
        assert getattr(ensue, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    import ensue

    with pytest.raises(AttributeError):
        ensue.no_such_name  # noqa: B018
