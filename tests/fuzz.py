"""`make fuzz`: the engine against the oracle on random cases that the test suite has not seen, for as long as wanted.

Not collected by pytest. Each case has a number; the same number is the same case, so what is printed can be run again:

    python -m tests.fuzz --cases 20000 --jobs 2      # or --seconds 60, or both: whichever comes first
    python -m tests.fuzz --first 4711 --cases 1

Cases that differ are printed with their number, query and events; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import count

from ensue.pattern.normalize import Branch, normalize
from ensue.pattern.query import Policy
from ensue.planning.plan import Join, Leaf, Plan, Tree
from ensue.runtime.engine import Engine
from ensue.testing.harness import describe_difference
from ensue.testing.oracle import OracleMatch, find_matches
from ensue.testing.random_queries import DEFAULT_SHAPE, Shape
from tests.runtime.agreement import Case, make_case, push_pieces, run_whole, show_failure, time_order, to_oracle

ROUND = 500  # cases between two looks at the clock

SHAPES: tuple[Shape, ...] = (
    DEFAULT_SHAPE,
    replace(DEFAULT_SHAPE, unsorted=1.0),
    replace(DEFAULT_SHAPE, policies=(Policy.ANY,), kleene=0.7, negation=0.4, variables=3),
    replace(DEFAULT_SHAPE, negation=0.8, windows=("time", "count"), intervals=0.4),
    replace(DEFAULT_SHAPE, policies=(Policy.NEXT, Policy.STRICT), kleene=0.4, intervals=0.25),
    replace(DEFAULT_SHAPE, policies=(Policy.ANY,), kleene=0.1, events=20, work=30_000),
)
"""What the cases are made of; the kinds take turns."""


def draw_tree(names: Sequence[str], rng: random.Random) -> Tree:
    """Any tree over the variables, joins stored or not."""
    trees: list[Tree] = [Leaf(name) for name in names]
    while len(trees) > 1:
        rng.shuffle(trees)
        trees.append(Join(trees.pop(), trees.pop(), rng.random() < 0.5))
    return trees[0]


def draw_plan(case: Case, rng: random.Random) -> Plan:
    """Any plan for a query."""
    branches: tuple[Branch, ...] = normalize(case[0])
    return Plan(tuple(draw_tree(branch.names, rng) for branch in branches), index=rng.random() < 0.7)


def in_order(case: Case) -> Case:
    """The case with its events in the order of time, as a stream brings them."""
    query, events, schema = case
    return query, [events[place] for place in time_order(events, schema)], schema


def run_plain(case: Case, rng: random.Random) -> list[OracleMatch]:
    """All at once, with the plan that is taken by default."""
    return run_whole(*case)


def run_planned(case: Case, rng: random.Random) -> list[OracleMatch]:
    """All at once, with any plan."""
    return run_whole(*case, plan=draw_plan(case, rng))


def run_cut(case: Case, rng: random.Random) -> list[OracleMatch]:
    """In pieces, with any plan."""
    query, events, schema = in_order(case)
    engine = Engine(query, schema, plan=draw_plan(case, rng))
    sizes = [rng.randrange(4) for _ in events]
    return to_oracle(push_pieces(engine, events, sizes), time_order(case[1], schema))


def run_interrupted(case: Case, rng: random.Random) -> list[OracleMatch]:
    """In two pieces, the second by another engine that goes on from a snapshot."""
    query, events, schema = in_order(case)
    plan, place = draw_plan(case, rng), rng.randrange(len(events) + 1)
    first, second = (Engine(query, schema, plan=plan) for _ in range(2))
    found = [first.push(events[:place])]
    second.restore(first.snapshot())
    found += [second.push(events[place:]), second.flush()]
    return to_oracle(found, time_order(case[1], schema))


WAYS: tuple[Callable[[Case, random.Random], list[OracleMatch]], ...] = (
    run_plain,
    run_planned,
    run_cut,
    run_interrupted,
)


def run_case(number: int) -> str | None:
    """What is wrong with the case of this number, as a text that tells all of it; None if nothing is."""
    case = query, events, schema = make_case(number, SHAPES[number % len(SHAPES)])
    expected = find_matches(events, query, schema)
    for way in WAYS:
        try:
            difference = describe_difference(way(case, random.Random(number)), expected)
        except Exception as error:
            difference = [f"{type(error).__name__}: {error}"]
        if difference:
            return show_failure(f"case {number}, {way.__name__}", query, events, difference)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(description="Compare the engine with the oracle on random cases.")
    parser.add_argument("--cases", type=int, default=None, help="how many at most (20,000 if --seconds is not given)")
    parser.add_argument("--seconds", type=float, default=None, help="how long at most")
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    cases = given.cases if given.cases is not None or given.seconds is not None else 20_000
    started = time.monotonic()
    done = failures = 0
    print(f"cases from {given.first}", flush=True)
    with ProcessPoolExecutor(given.jobs) as pool:
        for start in count(given.first, ROUND):
            size = ROUND if cases is None else min(ROUND, cases - done)
            if size <= 0 or (given.seconds is not None and time.monotonic() - started > given.seconds):
                break
            for failure in pool.map(run_case, range(start, start + size), chunksize=25):
                if failure is not None:
                    failures += 1
                    print(f"\n{failure}\n", flush=True)
            done += size
            print(f"{done:,} cases, {failures:,} differ from the oracle", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
