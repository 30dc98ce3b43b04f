"""The yardstick: `c/kernel.c`, compiled with the system's compiler for this machine and called over NumPy arrays."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from workloads import BLOCK, Columns, Workload

SOURCE = Path(__file__).parent / "c" / "kernel.c"
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")
ROOM = 1 << 16
"""Rows of the block that matches are written to."""


class Order(IntEnum):
    """The order in which the search from `d` binds the other variables."""

    ABC = 0
    ACB = 1
    CBA = 2


def find_compiler() -> str | None:
    """The C compiler of this machine, if it has one (`CC` in the environment goes first)."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    return None


@cache
def load() -> ctypes.CDLL | None:
    """Compile and load the kernel; None where there is no compiler or it does not know the flags."""
    compiler = find_compiler()
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernel.so"
        done = subprocess.run([compiler, *FLAGS, "-o", str(library), str(SOURCE)], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        kernel = ctypes.CDLL(str(library))
    kernel.kernel_open.restype = ctypes.c_void_p
    kernel.kernel_open.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
    kernel.kernel_close.restype = None
    kernel.kernel_close.argtypes = [ctypes.c_void_p]
    kernel.kernel_rows.restype = ctypes.POINTER(ctypes.c_int64)
    kernel.kernel_rows.argtypes = [ctypes.c_void_p]
    kernel.kernel_push.restype = ctypes.c_int64
    kernel.kernel_push.argtypes = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 4]
    return kernel


@contextmanager
def opened(window: int, room: int, order: Order) -> Iterator[tuple[ctypes.CDLL, int]]:
    kernel = load()
    if kernel is None:
        raise RuntimeError("the C kernel needs a C compiler")
    handle = kernel.kernel_open(window, room, int(order))
    try:
        yield kernel, handle
    finally:
        kernel.kernel_close(handle)


def push(kernel: ctypes.CDLL, handle: int, columns: Columns) -> int:
    """Take in a stretch of the stream; the number of matches so far."""
    found: int = kernel.kernel_push(
        handle,
        len(columns),
        columns.type.ctypes.data,
        columns.ts.ctypes.data,
        columns.diff.ctypes.data,
        columns.key.ctypes.data,
    )
    return found


def count_matches(workload: Workload, columns: Columns, order: Order = Order.ABC) -> int:
    """Run the kernel over a stretch of the workload's stream; the number of matches, each of which is written out."""
    total = 0
    with opened(workload.window, ROOM, order) as (kernel, handle):
        for start in range(0, len(columns), BLOCK):
            total = push(kernel, handle, columns.part(start, start + BLOCK))
    return total


def find_matches(workload: Workload, columns: Columns, order: Order = Order.ABC) -> npt.NDArray[np.int64]:
    """The sequence numbers of a, b, c and d of every match, sorted; for checks on short streams."""
    found = count_matches(workload, columns, order)
    room = found + 64
    with opened(workload.window, room, order) as (kernel, handle):
        push(kernel, handle, columns)
        rows = (
            np.ctypeslib.as_array(kernel.kernel_rows(handle), (found, 4)).copy()
            if found
            else np.empty((0, 4), np.int64)
        )
    return rows[np.lexsort(rows.T[::-1])]
