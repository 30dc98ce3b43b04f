"""`python -m ensue` is the command `ensue`."""

from __future__ import annotations

from ensue.cli import main

if __name__ == "__main__":
    main()
