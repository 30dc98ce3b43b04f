"""How a cell keeps to its time, and what it reports if that was not enough."""

from itertools import pairwise

import pytest

from benchmarks.peers.budget import FIRST, OverBudgetError, drive, grow, repeat, stopping
from benchmarks.peers.cells import Reading


class Clock:
    """CPU time that only goes on when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_pushes_until_all_events_are_in():
    clock = Clock()
    pushed = []

    def push(start, stop):
        pushed.append((start, stop))
        clock.now += 1e-6 * (stop - start)
        return stop - start

    reading = drive(push, 100_000, 1.0, clock)
    assert (reading.events, reading.matches) == (100_000, 100_000)
    assert pushed[0][0] == 0 and pushed[-1][1] == 100_000
    assert all(one[1] == other[0] for one, other in pairwise(pushed))
    assert reading.cpu == pytest.approx(0.1)


def test_a_budget_that_ends_leaves_the_events_that_were_managed():
    clock = Clock()

    def push(start, stop):
        clock.now += 1e-3 * (stop - start)  # a millisecond an event
        return 2 * (stop - start)

    reading = drive(push, 100_000, 5.0, clock)
    assert 5.0 < reading.cpu < 8.0
    assert reading.events == pytest.approx(1000 * reading.cpu)
    assert reading.matches == 2 * reading.events


def test_many_matches_make_pushes_small():
    sizes = []

    def push(start, stop):
        sizes.append(stop - start)
        return 100_000 * (stop - start)

    drive(push, 10_000, 1.0, Clock())
    assert sizes[0] == 256 and sizes[-2] == 64


def linear(clock, seconds, limit=float("inf")):
    """An engine that takes so long an event, and is stopped beyond a limit."""
    lengths = []

    def prepare(length):
        def run():
            lengths.append(length)
            clock.now += min(seconds * length, limit)
            if seconds * length > limit:
                raise OverBudgetError
            return length // 10

        return run

    return prepare, lengths


def test_a_whole_input_is_run_over_in_growing_parts():
    clock = Clock()
    prepare, lengths = linear(clock, 1e-6)
    reading = grow(prepare, 100_000, 1.0, 3, clock)
    assert lengths == [FIRST, 8 * FIRST, 100_000, 100_000, 100_000]
    assert (reading.events, reading.matches) == (100_000, 10_000)


def test_growth_stops_where_the_next_part_would_not_fit():
    clock = Clock()
    prepare, lengths = linear(clock, 1e-4)
    reading = grow(prepare, 100_000, 1.0, 3, clock)
    assert lengths[-1] == reading.events == 9_000


def test_what_a_run_takes_to_start_does_not_stop_the_growth():
    clock = Clock()
    lengths = []

    def prepare(length):
        def run():
            lengths.append(length)
            clock.now += (3.0 if len(lengths) == 1 else 0.7) + 1e-6 * length
            return length // 10

        return run

    reading = grow(prepare, 100_000, 1.0, 1, clock, starts=True)
    assert lengths == [FIRST, FIRST, 8 * FIRST, 100_000]
    assert reading.cpu == pytest.approx(0.8)


def test_a_part_that_was_stopped_does_not_count():
    clock = Clock()
    calls = []

    def prepare(length):
        def run():
            calls.append(length)
            clock.now += 1e-3
            if length > FIRST:
                raise OverBudgetError
            return 7

        return run

    reading = grow(prepare, 100_000, 1.0, 3, clock)
    assert (reading.events, reading.matches) == (FIRST, 7) and len(calls) == 2


def test_nothing_managed_is_said():
    prepare, _ = linear(Clock(), 1.0, limit=0.5)
    reading = grow(prepare, 100_000, 1.0, 3, Clock())
    assert reading.events == 0 and reading.note == "not even the first events"


def test_the_cheapest_of_some_runs_counts():
    costs = iter([0.4, 0.2, 0.3, 0.1])
    best = repeat(lambda: Reading(10, 5, next(costs)), 10, 1.0, 3)
    assert best.cpu == 0.2
    assert repeat(lambda: Reading(9, 5, 0.1), 10, 1.0, 3).events == 9  # cut short: not repeated


def test_runs_that_disagree_are_an_error():
    found = iter([1, 2])
    with pytest.raises(AssertionError, match="found 1 and 2"):
        repeat(lambda: Reading(10, next(found), 0.1), 10, 1.0, 2)


def test_a_watcher_stops_what_takes_too_long():
    clock = Clock()
    stopped = []
    with stopping(lambda: stopped.append(True), 1.0, clock) as over:
        clock.now = 2.0
        assert over.wait(10)
    assert stopped == [True]
