"""`make fuzz`: the engine against the oracle on random cases that the test suite has not seen, for as long as wanted.

Not collected by pytest. Each case has a number; the same number is the same case, so what is printed can be run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from ensue.pattern.query import Policy
from ensue.testing.random_queries import DEFAULT_SHAPE
from tests.runtime.agreement import describe_disagreement

SHAPES = (
    DEFAULT_SHAPE,
    replace(DEFAULT_SHAPE, unsorted=1.0),
    replace(DEFAULT_SHAPE, policies=(Policy.ANY,), kleene=0.7, negation=0.4, variables=3),
    replace(DEFAULT_SHAPE, negation=0.8, windows=("time", "count"), intervals=0.4),
    replace(DEFAULT_SHAPE, policies=(Policy.NEXT, Policy.STRICT), kleene=0.4, intervals=0.25),
)


def run_case(number: int) -> str | None:
    """What is wrong with the case of this number; the kinds of cases take turns."""
    return describe_disagreement(number, SHAPES[number % len(SHAPES)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.cases)
    print(f"cases {numbers[0]} to {numbers[-1]}", flush=True)
    failures = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for done, failure in enumerate(pool.map(run_case, numbers, chunksize=50), 1):
            if failure is not None:
                failures += 1
                print(f"\n{failure}\n", flush=True)
            if done % 1000 == 0 or done == given.cases:
                print(f"{done:,} cases, {failures:,} differ from the oracle", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
