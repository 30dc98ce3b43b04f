"""The command line: `ensue run`, `check`, `fmt`, `explain`, `generate`, `demo`.

Each command lives in a module of its own that is imported only when it is called, so that `ensue --help` stays quick.
"""

from __future__ import annotations

from ensue.cli.app import main

__all__ = ["main"]
