"""Runs of the adaptive experiment: a query over a stream by several methods at once, and what each of them took."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from adaptive_cells import EVENTS, Dataset, Pattern

import ensue
from ensue.errors import LimitError
from ensue.events.intake import Intake
from ensue.options import Options
from ensue.planning.decisions import ByInvariants, Decision, Threshold, Unconditional
from ensue.planning.distances import AverageDistance, ConstantDistance, Distance, TunedDistance
from ensue.planning.plan import Plan
from ensue.runtime.adaptation import WATCHED
from ensue.runtime.blocks import EventLists
from ensue.runtime.sampled import evaluating
from ensue.statistics.collector import Collector

BATCH, TURN = 4096, 16
"""Events of a batch, and batches that a method takes in before it is another one's turn: with fewer, each of them finds
in the processor's caches what the others left there; with more, what else the machine does hits one and not another."""
MOST_RUNS = 10.0
"""How many times as long as one run should take all methods together may, of the processor's time."""
HOPELESS, HOPELESS_SECONDS = 3.0, 4.0
"""A method is stopped that has taken so many times as long as the fastest, and so many seconds."""
STUCK = 20.0
"""So many seconds of one turn, too: until it is over it is not known what the others take for these batches."""
REPEATS = 2
"""How often a pattern is run, with new engines, of which the faster run counts: one and the same plan may be 5 % slower
where it lies in memory, and the first to use a kernel loads it. So the methods also change places."""
SUMMED = 8
"""Of one batch in so many the matches of all methods are compared; of the others their number."""
OPTIONS = Options(max_matches=None, max_partial_matches=3_000_000)
"""A method whose plan holds more partial matches is stopped too, and counts as no faster than the slowest other one."""


@dataclass(frozen=True)
class Outcome:
    """A run: CPU seconds, what it found, and what adapting took of them.

    `again` is what the slower one of several runs took. One that `is_stopped` before the end would have taken longer
    than its seconds say.
    """

    method: str
    seconds: float
    events: int
    matches: int
    checksum: int
    planned: float = 0  # journal entries, and plans that took over: of several streams in the mean
    replaced: float = 0
    watching: float = 0.0
    deciding: float = 0.0
    planning: float = 0.0
    trying: float = 0.0
    replacing: float = 0.0
    distance: float | None = None
    again: float = 0.0
    is_stopped: bool = False

    @property
    def rate(self) -> float:
        """Events a second; of a method that was stopped, more than it has."""
        return self.events / self.seconds


def invariants(distance: Distance) -> Decision:
    """Invariants as the engine has them, with some distance."""
    return ByInvariants(WATCHED, distance, sure=1.0)


def methods(t: float, d: float) -> dict[str, Decision | None]:
    """The methods that are compared; None is a plan that stays. The default has a twin: chance tells them apart."""
    return {
        "static": None,
        "unconditional": Unconditional(),
        "threshold": Threshold(t),
        "invariant": invariants(ConstantDistance(d)),
        "invariant, d_avg": invariants(AverageDistance()),
        "invariant, tuned": invariants(TunedDistance(start=0.1)),
        "invariant, tuned, twin": invariants(TunedDistance(start=0.1)),
    }


def first_plan(query: str, table: pa.Table, planner: str) -> Plan:
    """The plan that a planner makes from some events."""
    intake = Intake(ts="ts")
    batch = intake.push(table)
    assert intake.schema is not None
    (parsed,) = ensue.compile(query).queries
    collector = Collector(parsed, intake.schema, evaluating(intake.schema), window=float("inf"))
    collector.observe(batch)
    return ensue.Adaptation(planner=planner).plan(parsed, intake.schema, collector.snapshot())[0]


def warm_up() -> None:
    """Load compiled code and imports, which the first run of a process would be charged with otherwise."""
    rows = pa.table({"type": ["A", "B", "C"] * 3000, "ts": range(9000), "x": range(9000), "y": np.arange(9000.0)})
    for query in (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x WITHIN 5",
        "PATTERN SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND b.x < c.x AND c.y < d.y WITHIN 5",
    ):
        ensue.run(rows, query, adapt=ensue.Adaptation(every=1000, decision=Unconditional()))


class Runner:
    """One method at work: an engine, and what it has taken so far."""

    def __init__(
        self, method: str, query: str, plan: Plan, planner: str, decision: Decision | None, every: int | None = None
    ) -> None:
        self.method = method
        adapt = None if decision is None else ensue.Adaptation(planner=planner, decision=decision, every=every)
        self.engine = ensue.compile(query, plan=plan, adapt=adapt, options=OPTIONS)
        self.seconds = 0.0
        self.is_stopped = False
        self.is_broken = False  # it held too many partial matches
        self.batches = self.events = self.matches = self.checksum = 0

    def push(self, part: pa.Table) -> None:
        started = time.process_time()
        try:
            found = self.engine.push(part)
        except LimitError:
            self.is_stopped = self.is_broken = True
            self.skip(part)
        else:
            self._add(found, started, part.num_rows)

    def skip(self, part: pa.Table) -> None:
        """Count events that a method which was stopped would have had to take in."""
        self.events += part.num_rows

    def finish(self) -> Outcome:
        if not self.is_stopped:
            started = time.process_time()
            found = self.engine.flush()
            self._add(found, started, 0)
        spent = self.engine.adapting_seconds
        decisions = [one for adapter in self.engine._loop.adapters.values() for one in adapter.decisions]
        known = [one.distance.d for one in decisions if isinstance(getattr(one, "distance", None), AverageDistance)]
        averages = [d for d in known if d is not None]
        return Outcome(
            self.method,
            self.seconds,
            self.events,
            self.matches,
            self.checksum,
            len(self.engine.journal),
            sum(entry.replaced for entry in self.engine.journal),
            spent.watching,
            spent.deciding,
            spent.planning,
            spent.trying,
            spent.replacing,
            sum(averages) / len(averages) if averages else None,
            self.seconds,
            self.is_stopped,
        )

    def _add(self, found: ensue.Matches, started: float, events: int) -> None:
        self.seconds += time.process_time() - started
        self.events += events
        self.matches += len(found)
        if self.batches % SUMMED == 0:
            self.checksum = (self.checksum + sum_up(found)) % (1 << 61)
        self.batches += 1


def sum_up(matches: ensue.Matches) -> int:
    """A number that tells sets of matches apart, in whatever order they come."""
    total = 0
    for part in matches._parts:
        for k, bound in enumerate(part.block.variables.values()):  # type: ignore[union-attr]
            if bound is not None:
                numbers = bound.seqs if isinstance(bound, EventLists) else bound
                squares = numbers.astype(np.uint64) * numbers.astype(np.uint64)
                total += int((squares * np.uint64(2 * k + 1)).sum())
    return total


def pick_faster(outcomes: Sequence[Outcome]) -> Outcome:
    """Of the runs of a method over the same events the fastest, with what the slowest took."""
    return replace(min(outcomes, key=lambda one: one.seconds), again=max(one.seconds for one in outcomes))


@dataclass(frozen=True)
class Cell:
    """A pattern over a stream, with its window (in microseconds).

    Methods look at the stream each so many events, and let costs alone decide, or as the engine does by itself (None).
    """

    dataset: Dataset
    pattern: Pattern
    window: int
    table: pa.Table
    every: int | None = None

    @property
    def query(self) -> str:
        """The query."""
        return self.pattern.query(self.window)

    def run(
        self,
        planner: str,
        tried: Mapping[str, Decision | None],
        repeats: int = REPEATS,
        most_seconds: float = math.inf,
    ) -> list[Outcome]:
        """All methods over the stream, some batches each in turn: what else the machine does hits them alike.

        They start from one plan, made from the first of the stream, and all must find the same. One that falls far
        behind is stopped; after so many seconds all stop where they are. All of it is done so many times, and of each
        method the faster run counts.
        """
        plan = first_plan(self.query, self.table.slice(0, self.table.num_rows // 16), planner)
        names = list(tried)
        rounds = []
        for turn in range(repeats):
            order = names[turn:] + names[:turn] if turn % 2 == 0 else names[::-1]
            found = self._run_once(planner, plan, {name: tried[name] for name in order}, most_seconds)
            rounds.append({one.method: one for one in found})
        most = max(outcomes[names[0]].events for outcomes in rounds)  # one may have had to stop before
        whole = [outcomes for outcomes in rounds if outcomes[names[0]].events == most]
        return [pick_faster([outcomes[name] for outcomes in whole]) for name in names]

    def _run_once(
        self, planner: str, plan: Plan, tried: Mapping[str, Decision | None], most_seconds: float
    ) -> list[Outcome]:
        size = self.table.num_rows
        runners = [Runner(name, self.query, plan, planner, one, self.every) for name, one in tried.items()]
        gc.collect()
        gc.freeze()  # what all runs have in common is not looked through again, in the time of one of them
        for number, start in enumerate(range(0, size, TURN * BATCH)):
            turn = number % len(runners)
            parts = [self.table.slice(k, BATCH) for k in range(start, min(start + TURN * BATCH, size), BATCH)]
            for runner in (*runners[turn:], *runners[:turn]):
                before = runner.seconds
                for part in parts:
                    runner.is_stopped |= runner.seconds > before + STUCK
                    (runner.skip if runner.is_stopped else runner.push)(part)
            self._stop_hopeless(runners)
            if sum(runner.seconds for runner in runners if not runner.is_stopped) > most_seconds:
                break
        slowest = max((runner.seconds for runner in runners if not runner.is_broken), default=0.0)
        for runner in runners:
            runner.seconds = max(runner.seconds, slowest) if runner.is_broken else runner.seconds
        found = [runner.finish() for runner in runners]
        gc.unfreeze()
        self._compare([(one.matches, one.checksum) for one in found if not one.is_stopped])
        return found

    def _stop_hopeless(self, runners: Sequence[Runner]) -> None:
        least = min((runner.seconds for runner in runners if not runner.is_stopped), default=0.0)
        for runner in runners:
            if not runner.is_stopped and runner.seconds > max(HOPELESS_SECONDS, HOPELESS * least):
                running = [one for one in runners if not one.is_stopped]
                self._compare([(one.matches, one.checksum) for one in running])
                runner.is_stopped = True

    def _compare(self, found: Sequence[tuple[int, int]]) -> None:
        if len(set(found)) > 1:
            raise SystemExit(f"the methods find different matches: {self.query}, {found}")


# -- how long a window ------------------------------------------------------------------------------------------------
DEAREST = 8e-6
"""CPU seconds an event that a good plan may take: the window is as long as that allows."""
MOST_MATCHES = 8
"""Matches an event: more, and finding them is all that is measured."""
LEAST_WINDOWS = 48
"""That a stream spans: what changes must outlast a window, or no plan is made for it in time."""
SLICES, SLICE = 6, 2 * BATCH
RUN = 10.0
"""Seconds that a run should take: long enough for what happens at three shifts to be a small part of it."""
FITTED = 6.0
"""Seconds after which it is known how long events take."""
MOST_TIMES = 96
"""How many times as many events as windows are fitted to a stream has at most."""


def fit_window(dataset: Dataset, pattern: Pattern, events: int, seed: int) -> int:
    """The longest window of a row, each longer by half, that stretches from all over the stream allow."""
    table = dataset.make(pattern.types, events, seed)
    slices = _stretches(table)
    span = int(pc.max(table["ts"]).cast(pa.int64()).as_py() - pc.min(table["ts"]).cast(pa.int64()).as_py())
    best = window = int(dataset.minutes * 60e6)
    while window < span / LEAST_WINDOWS and _is_light(pattern.query(window), slices):
        best, window = window, int(window * 1.5)
    return best


def fit_length(dataset: Dataset, pattern: Pattern, window: int, seed: int, run: float = RUN) -> int:
    """How many events a run of so many seconds takes if the engine adapts by default.

    At least as many as windows are fitted to. The tenth of the batches that took longest is left out: those after a
    shift take many times as long, and are as many in a long stream as in a short one. It is asked of both planners, of
    which one may have been unlucky.
    """
    table = dataset.make(pattern.types, EVENTS, seed)
    least = min(_usual_seconds(pattern.query(window), table, planner) for planner in ("greedy", "zstream"))
    times = run / least / EVENTS
    return EVENTS // 2 * max(2, min(2 * MOST_TIMES, round(2 * times)))


def _usual_seconds(query: str, table: pa.Table, planner: str) -> float:
    """What an event takes, the tenth of the batches that took longest left out."""
    plan = first_plan(query, table.slice(0, table.num_rows // 16), planner)
    runner = Runner("adaptive", query, plan, planner, invariants(TunedDistance(start=0.1)))
    took = []
    for start in range(0, table.num_rows, BATCH):
        before = runner.seconds
        runner.push(table.slice(start, BATCH))
        took.append(runner.seconds - before)
        if runner.seconds > FITTED:
            break
    usual = sorted(took)[: math.ceil(0.9 * len(took))]
    return sum(usual) / (len(usual) * BATCH)


def _stretches(table: pa.Table) -> list[pa.Table]:
    starts = [max(0, table.num_rows - SLICE) * k // (SLICES - 1) for k in range(SLICES)]
    return [table.slice(start, SLICE) for start in starts]


def _is_light(query: str, slices: Sequence[pa.Table]) -> bool:
    """Whether a plan that is made for all of the stretches has neither too much to do nor finds too much."""
    plan = first_plan(query, pa.concat_tables(slices).combine_chunks(), "greedy")
    runner = Runner("static", query, plan, "", None)
    whole = sum(table.num_rows for table in slices)
    for table in slices:
        for start in range(0, table.num_rows, 512):
            runner.push(table.slice(start, 512))
            if runner.seconds > DEAREST * whole or runner.matches > MOST_MATCHES * whole:
                return False
    return True
