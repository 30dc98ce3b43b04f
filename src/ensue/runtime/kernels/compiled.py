"""How kernels are compiled: cached on disk where a folder can be written, without a cache where none can."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_cache() -> bool:
    """Whether kernels can be cached; points Numba at a temporary folder when the package's own is read only.

    Numba raises at import when no cache folder can be written (executors, read-only installs), so that is tried first.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or _writable(Path(__file__).parent / "__pycache__"):
        return True
    folder = Path(tempfile.gettempdir()) / f"ensue-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    if _writable(folder):
        numba.config.CACHE_DIR = str(folder)
        return True
    return False


CACHE = _choose_cache()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop with the GIL released; division follows C, since kernels test for zero themselves."""
    compiled: Callable[..., Any] = numba.njit(cache=CACHE, nogil=True, error_model="numpy")(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A small helper that is compiled into each kernel which calls it."""
    compiled: Callable[..., Any] = numba.njit(cache=CACHE, nogil=True, error_model="numpy", inline="always")(function)
    return compiled
