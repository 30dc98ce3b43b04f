"""Processes that a benchmark hands its cells to."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread


def make_pool(jobs: int, warm_up: Callable[[], None]) -> ProcessPoolExecutor:
    """So many processes, each warm before its first cell, that end with this one however it ends.

    One that is killed cannot stop them, and what they went on with would disturb whatever is measured next.
    """
    return ProcessPoolExecutor(jobs, get_context("spawn"), _start, (warm_up,))


def _start(warm_up: Callable[[], None]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    warm_up()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
