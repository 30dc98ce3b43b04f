"""Processes that a benchmark hands its cells to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def make_pool(jobs: int, warm_up: Callable[[], None]) -> ProcessPoolExecutor:
    """So many processes, each warm before its first cell, that end with this one however it ends.

    One that is killed cannot stop them, and what they went on with would disturb whatever is measured next.
    """
    return ProcessPoolExecutor(jobs, get_context("spawn"), _start, (warm_up,))


def results_of(running: Sequence[Future[T]], stop: float) -> Iterator[T]:
    """What jobs find, as they end. After the time `stop` no other begins; what has begun is waited for."""
    waiting = set(running)
    while waiting:
        done, waiting = wait_for(waiting, return_when=FIRST_COMPLETED)
        yield from (one.result() for one in done)
        if time.time() > stop:
            waiting = {one for one in waiting if not one.cancel()}


def _start(warm_up: Callable[[], None]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    warm_up()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
