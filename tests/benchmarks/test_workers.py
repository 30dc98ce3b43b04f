"""Processes that benchmarks hand their cells to."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
from workers import results_of

PARENT = """
import os, time
from workers import make_pool

def tell() -> None:
    print(os.getpid(), flush=True)

if __name__ == "__main__":
    with make_pool(1, tell) as pool:
        pool.submit(time.sleep, 600).result()
"""


def test_a_worker_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    path = str(Path(__file__).parents[2] / "benchmarks")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert _is_running(worker)
        parent.kill()
    for _ in range(300):
        if not _is_running(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("the worker goes on without the process that started it")


def _is_running(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_when_time_is_up_what_has_begun_still_counts() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def job(number: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return number

    with ThreadPoolExecutor(1) as pool:
        running = [pool.submit(job, number) for number in range(3)]
        begun.wait(60)
        quick: Future[int] = Future()
        quick.set_result(7)
        found = results_of([quick, *running], stop=time.time())
        assert next(found) == 7
        threading.Timer(0.2, go_on.set).start()
        assert list(found) == [0] and [one.cancelled() for one in running] == [False, True, True]


def test_before_that_all_count() -> None:
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(pow, number, 2) for number in range(9)]
        assert sorted(results_of(running, stop=math.inf)) == [number**2 for number in range(9)]
