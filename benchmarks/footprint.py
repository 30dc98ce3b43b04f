"""What a whole process costs: memory over a long stream, the time of one event, and the start.

Run as a script it is the process that is measured: `footprint.py memory kernel-0.2 1000000` or
`footprint.py latency kernel-0.2 200000`; it prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workloads import Workload, find

REPEATS = 5


def peak_bytes() -> int:
    """The most memory that this process has had resident."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # elsewhere than on Linux; there the figure may be in bytes, as on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # Not getrusage: its figure outlives exec, so a small process would report the large one that started it.
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def watch_memory(workload: Workload, events: int) -> dict[str, Any]:
    """Push a stream that is made block by block and never kept; peak memory, and the engine's state where it says."""
    from ensue_engine import count_matches, open_engine

    count_matches(workload, workload.tables(1_000))  # loads compiled code
    engine = open_engine(workload)
    before = peak_bytes()
    matches = 0
    for table in workload.tables(events):
        matches += len(engine.push(table))
    state = getattr(engine, "state_bytes", None)
    rest = engine.flush()
    matches += len(rest) if rest is not None else 0
    return {
        "events": events,
        "matches": matches,
        "before": before,
        "peak": peak_bytes(),
        "state": state() if callable(state) else state,
    }


def watch_latency(workload: Workload, events: int) -> dict[str, Any]:
    """Push events one by one as dicts; nanoseconds of those calls that found no match, once the window is full.

    By `push_event` where the engine has it, else by `push` of a list of one.
    """
    from ensue_engine import count_matches, open_engine

    count_matches(workload, workload.tables(1_000))  # loads compiled code
    engine = open_engine(workload)
    one = getattr(engine, "push_event", None)
    push = one or (lambda event: engine.push([event]))
    full = workload.types * workload.live
    taken: list[int] = []
    matches = 0
    for table in workload.tables(full + events):
        for event in table.to_pylist():
            start = time.perf_counter_ns()
            found = push(event)
            stop = time.perf_counter_ns()
            many = len(found) if found is not None else 0
            matches += many
            full -= 1
            if full < 0 and not many:
                taken.append(stop - start)
    taken.sort()
    return {
        "call": "push_event(event)" if one else "push([event])",
        "events": len(taken),
        "matches": matches,
        "median": taken[len(taken) // 2],
        "p99": taken[len(taken) * 99 // 100],
        "most": taken[-1],
    }


def measure_apart(what: str, workload: Workload, events: int) -> dict[str, Any]:
    """Run one of the two in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, what, workload.name, str(events)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"measuring {what} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def children_seconds() -> float:
    """CPU seconds of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_start(query: str) -> dict[str, tuple[float, float]]:
    """Median seconds, wall and CPU, of Python doing nothing, importing ensue, and of `ensue check` with one query.

    The three take turns, so that a machine that gets busier meanwhile does not make one of them look slow.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "query.ensue"
        file.write_text(query + ";\n")
        commands = {
            "nothing": [sys.executable, "-c", "pass"],
            "import": [sys.executable, "-c", "import ensue"],
            "check": [sys.executable, "-m", "ensue", "check", str(file)],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(REPEATS + 1):
            for name, command in commands.items():
                start, used = time.perf_counter(), children_seconds()
                subprocess.run(command, check=True, capture_output=True)
                taken[name].append((time.perf_counter() - start, children_seconds() - used))
    # the first round fills the caches of the disk
    return {
        name: (statistics.median(wall for wall, _ in runs[1:]), statistics.median(cpu for _, cpu in runs[1:]))
        for name, runs in taken.items()
    }


if __name__ == "__main__":
    what, name, events = sys.argv[1:]
    watch = {"memory": watch_memory, "latency": watch_latency}[what]
    print(json.dumps(watch(find(name), int(events))))
