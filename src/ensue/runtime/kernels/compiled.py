"""How kernels are compiled: cached on disk where a folder can be written, without a cache where none can."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config

_KERNELS = Path(__file__).parent


def _digest() -> str:
    """A name for the kernels as they are now.

    Numba looks only at the file of the function itself, but kernels are compiled into one another: a change to any of
    them must leave all that were compiled before aside.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in (*sorted(_KERNELS.glob("*.py")), _KERNELS.parent / "layout.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_folder() -> str | None:
    """A folder for compiled kernels: beside the package, else (read-only installs, executors) a temporary one."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    parents = [_KERNELS / "__pycache__", Path(tempfile.gettempdir()) / f"ensue-kernels-{user}"]
    if config.CACHE_DIR:
        parents.insert(0, Path(config.CACHE_DIR) / "ensue")
    return next((str(folder) for parent in parents if _is_writable(folder := parent / _digest())), None)


CACHE_FOLDER = _choose_folder()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that Python calls, GIL released; division follows C, as kernels test for zero themselves."""
    return _compile(function)


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that only kernels call: without the wrappers for Python, which take long too."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compile(function: Callable[..., Any], **options: bool) -> Callable[..., Any]:
    before = config.CACHE_DIR
    config.CACHE_DIR = CACHE_FOLDER or before
    try:
        compiled: Callable[..., Any] = numba.njit(
            cache=CACHE_FOLDER is not None, nogil=True, error_model="numpy", **options
        )(function)
    finally:
        config.CACHE_DIR = before
    return compiled
