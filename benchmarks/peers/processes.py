"""Running jobs in other processes: peak memory is watched from here, and none may take for ever."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import psutil

from benchmarks.peers import jars
from benchmarks.peers.cells import Job, Reading, columns_path
from benchmarks.peers.registry import Engine

ROOT = Path(__file__).parent.parent.parent
HEAP = "4g"
JAVA_OPTIONS = (f"-Xmx{HEAP}", "-XX:+UseSerialGC")
GRACE = 180.0
"""Seconds on the clock beyond ten times the budget, for starting and reading on a busy machine."""

SAMPLE = 0.05
"""Seconds between two looks at a process's memory."""


class Workers:
    """The processes that run jobs; those that are shared live until `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared: dict[str, Worker] = {}
        self._paths: dict[str, str] = {}

    def missing(self, engine: Engine) -> str | None:
        """Why an engine cannot be run on this machine."""
        if engine.is_java and engine.name not in self._paths:
            try:
                self._paths[engine.name] = jars.prepare(engine.load().JARS, self._folder / "jars")
            except jars.NotHereError as error:
                return str(error)
        return None

    def run(self, engine: Engine, job: Job) -> Reading:
        """Run a job and wait for its end."""
        limit = 10 * (job.budget * job.repeats + job.warm_up) + GRACE
        if engine.is_java:
            return run_java(engine, job, self._paths[engine.name], limit)
        if not engine.process:
            with Worker() as worker:
                return worker.ask(job, limit)
        worker = self._shared.get(engine.process) or Worker()
        self._shared[engine.process] = worker
        reading = worker.ask(job, limit)
        if not worker.is_alive:
            del self._shared[engine.process]
        return reading

    def close(self) -> None:
        """End the shared processes."""
        for worker in self._shared.values():
            worker.close()
        self._shared.clear()


class Worker:
    """A Python process that takes jobs."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return self._process.poll() is None

    def ask(self, job: Job, limit: float) -> Reading:
        """Run a job; a process that dies or does not answer is told about in the reading's note."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with watching(self._process.pid) as peak:
            try:
                self._process.stdin.write(job.to_json() + "\n")
                self._process.stdin.flush()
                line = read_line(self._process.stdout, limit)
            except TimeoutError as error:  # an engine that sees its input whole cannot be stopped in the middle
                end_tree(self._process.pid)
                self._process.wait()
                return Reading(note=str(error))
            except BrokenPipeError as error:
                line, said = "", str(error)
            else:
                said = "the process ended"
        if not line:
            end_tree(self._process.pid)
            self._process.wait()
            return Reading(note=f"failed: {said}; {last_line(self._errors)}")
        return replace(Reading(**json.loads(line)), memory=peak[0])

    def close(self) -> None:
        """End the process and all it has started."""
        if self.is_alive and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                end_tree(self._process.pid)
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def run_java(engine: Engine, job: Job, path: str, limit: float) -> Reading:
    """Run a job in a JVM of its own."""
    module = engine.load()
    with tempfile.TemporaryDirectory(prefix="ensue-peers-") as folder:
        properties = Path(folder) / "job.properties"
        properties.write_text(to_properties(job, module.statement(job)))
        command = ["java", *JAVA_OPTIONS, "-cp", path, module.JARS.peer, str(properties)]
        with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(command, stdout=output, stderr=errors, text=True, cwd=folder)
            with watching(process.pid) as peak:
                try:
                    process.wait(limit)
                except subprocess.TimeoutExpired:
                    end_tree(process.pid)
                    return Reading(note=f"failed: no answer within {limit:.0f} s", version=module.JARS.version)
            output.seek(0)
            lines = [line for line in output.read().splitlines() if line.startswith("{")]
            if not lines:
                said = last_line(errors)
                note = "out of memory" if "OutOfMemory" in said else f"failed: {said}"
                return Reading(note=note, version=module.JARS.version)
    reading = Reading(**json.loads(lines[-1]), memory=peak[0], version=module.JARS.version)
    return replace(reading, matches=None) if reading.matches == -1 else reading


def to_properties(job: Job, statement: str) -> str:
    """The job as the harness reads it.

    A backslash would be an escape there; no statement has one.
    """
    given = {
        "stream": columns_path(job),
        "query": job.query,
        "statement": statement,
        "window": job.window,
        "rise": job.rise,
        "has_ties": str(job.has_ties).lower(),
        "is_counted": str(job.asked.is_counted).lower(),
        "events": job.events,
        "budget": job.budget,
        "warm_up": job.warm_up,
        "repeats": job.repeats,
    }
    return "".join(f"{name}={value}\n" for name, value in given.items())


def read_line(pipe: IO[str], limit: float) -> str:
    """The next line of a pipe; empty if it ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if not selector.select(limit):
            raise TimeoutError(f"no answer within {limit:.0f} s")
    return pipe.readline()


def last_line(errors: IO[str]) -> str:
    """The line of an error output that tells most: the last exception, or the last line."""
    errors.seek(0)
    lines = [
        line.strip() for line in errors.read().splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or ["nothing was said"])[-1][:300]


@contextmanager
def watching(pid: int) -> Iterator[list[int]]:
    """Watch the resident memory of a process and all it has started; the highest sum seen."""
    peak = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE):
            peak[0] = max(peak[0], resident(pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def resident(pid: int) -> int:
    """The resident memory of a process and all it has started, in bytes."""
    total = 0
    try:
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            try:
                total += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        return 0
    return total


def end_tree(pid: int) -> None:
    """End a process of ours and all it has started."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    for one in [*process.children(recursive=True), process]:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
