"""A process that runs jobs: one a line on its standard input, one reading a line on its standard output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.registry import find


def main() -> None:
    """Serve until the input ends. What engines print goes to the standard error."""
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        job = Job.from_json(line)
        try:
            reading = find(job.engine).load().measure(job)
        except MemoryError:
            reading = Reading(note="out of memory")
        except Exception as error:
            reading = Reading(note=f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}")
        answers.write(json.dumps(asdict(reading)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
