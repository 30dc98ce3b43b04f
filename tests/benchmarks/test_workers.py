"""Processes that benchmarks hand their cells to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

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
