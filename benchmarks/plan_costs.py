"""What the cost model is worth: expected costs of plans beside the time they take, and the time of planning itself.

PYTHONPATH=src .venv/bin/python benchmarks/plan_costs.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import ensue
from ensue.events.intake import Intake
from ensue.language import parse_query
from ensue.pattern.normalize import normalize
from ensue.planning.bushy import best_tree
from ensue.planning.cost import Costs
from ensue.planning.distances import ConstantDistance
from ensue.planning.figures import LOOK_WEIGHT, Figures, figures_of
from ensue.planning.invariants import Watch, watch
from ensue.planning.plan import Plan, every_order, every_tree
from ensue.planning.planners import PLANNERS, with_storage
from ensue.runtime.sampled import evaluating
from ensue.statistics.collector import Collector, Reach
from ensue.statistics.sampling import Sampling
from ensue.statistics.snapshot import Estimate, Statistics
from ensue.testing.generators import traffic_like

EVENTS = 20_000
READINGS = ("avg_speed", "vehicle_count")
CASES = [
    ("sequence, rare last", "SEQ", [4, 1, 0.3, 0.1], 60),
    ("sequence, rare first", "SEQ", [0.1, 0.3, 1, 4], 40),
    ("sequence, mixed", "SEQ", [1, 0.1, 4, 0.4], 40),
    ("conjunction, mixed", "AND", [1, 0.1, 2, 0.4], 20),
]


def figures_for(text: str, rates: list[float], window: float) -> Figures:
    (branch,) = normalize(parse_query(text))
    names = branch.names
    known = Statistics(
        1.0,
        {v.type: Estimate(rate) for v, rate in zip(branch.variables, rates, strict=True)},
        {},
        {(x, y): Estimate(0.5) for x, y in pairwise(names)},
    )
    return figures_of(branch, window, known).with_looks(LOOK_WEIGHT)


def make_events(rates: list[float]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "type": rng.choice(list("ABCD"), EVENTS, p=np.array(rates) / sum(rates)),
            "ts": np.sort(rng.uniform(0, EVENTS / sum(rates) * 1000, EVENTS).astype(np.int64)),
            "x": rng.random(EVENTS),
        }
    )


def least_time(action: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return min(taken)


def rank_correlation(one: list[float], other: list[float]) -> float:
    return float(np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1])


def compare_plans() -> None:
    print("case                  plans  rank correlation    ms: best  worst  " + "  ".join(f"{p:>7}" for p in PLANNERS))
    for name, operator, rates, window in CASES:
        text = (
            f"PATTERN {operator}(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN {window * 1000}"
        )
        figures = figures_for(text, rates, float(window))
        events = make_events(rates)
        planned = {planner.name: planner.plan(figures).tree for planner in PLANNERS.values()}
        trees = list(dict.fromkeys([*every_order("abcd"), *every_tree("abcd"), *planned.values()]))
        taken = {}
        for tree in trees:
            plan = Plan((with_storage(tree, True),))
            taken[tree] = least_time(partial(ensue.run, events, text, plan=plan)) * 1000
        costs = Costs(figures)
        correlation = rank_correlation([costs.tree(tree) for tree in trees], [taken[tree] for tree in trees])
        chosen = "  ".join(f"{taken[tree]:7.0f}" for tree in planned.values())
        print(
            f"{name:21} {len(trees):5}  {correlation:16.2f}  "
            f"{min(taken.values()):10.0f}  {max(taken.values()):5.0f}  {chosen}"
        )


def rising_query(kinds: Mapping[str, str], window: str) -> str:
    """A sequence of events of these types, by variable, whose readings rise."""
    items = ", ".join(f"`{kind}` {name}" for name, kind in kinds.items())
    rising = [f"{x}.{a} < {y}.{a}" for x, y in pairwise(kinds) for a in READINGS]
    return f"PATTERN SEQ({items}) WHERE {' AND '.join(rising)} WITHIN {window}"


def compare_chains() -> None:
    """Five sensors whose readings rise: all trees, with costs that know more and more of what comparisons imply."""
    events = traffic_like(EVENTS, 11, points=5, skew=10.0)
    variables = [f"x{k}" for k in range(5)]
    kinds = dict(zip(variables, sorted(pc.unique(events["type"]).to_pylist()), strict=True))
    text = rising_query(kinds, "2 days")
    query = parse_query(text)
    (branch,) = normalize(query)
    intake = Intake()
    batch = intake.push(events)
    assert intake.schema is not None
    sampling = Sampling(size=512, pairs=8192)
    collector = Collector(query, intake.schema, evaluating(intake.schema), window=float("inf"), sampling=sampling)
    collector.observe(batch)
    known = collector.snapshot()
    trees = list(every_tree(variables))
    taken = []
    for tree in trees:
        plan = Plan((with_storage(tree, True),))
        taken.append(least_time(partial(ensue.run, events, text, plan=plan), 2) * 1000)
    less = replace(known, together={})
    print("\nrising sequence of 5  plans  rank correlation    ms: best  worst  of least cost")
    for name, statistics, look in (
        ("conditions alone", replace(less, implied={}), 0.0),
        ("what they imply", less, 0.0),
        ("and several at once", known, 0.0),
        ("and looks at pairs", known, LOOK_WEIGHT),
    ):
        costs = Costs(figures_of(branch, 2 * 86_400e6, statistics).with_looks(look))
        expected = [costs.parts(tree) for tree in trees]
        chosen = taken[expected.index(min(expected))]
        correlation = rank_correlation(expected, taken)
        print(f"{name:21} {len(trees):5}  {correlation:16.2f}  {min(taken):10.0f}  {max(taken):5.0f}  {chosen:13.0f}")


class Counted(Costs):
    """Costs by the partial matches that windows of a stream really held, on average."""

    def __init__(self, figures: Figures, cards: Mapping[frozenset[str], float]) -> None:
        super().__init__(figures)
        self._cards.update(cards)


def count_rising(events: pa.Table, kinds: Mapping[str, str], stop: int, window: int) -> dict[frozenset[str], float]:
    """How many partial matches of each set of variables the window before an event held: paths along pairs."""
    ts = events["ts"].cast(pa.int64()).to_numpy()
    recent = events.slice(start := int(np.searchsorted(ts, ts[stop - 1] - window, "right")), stop - start)
    rows = {name: np.flatnonzero(pc.equal(recent["type"], kind)) for name, kind in kinds.items()}
    values = [recent[column].cast(pa.float64()).to_numpy() for column in ("ts_number", *READINGS)]
    pairs = {
        (x, y): np.logical_and.reduce([one[rows[x]][:, None] < one[rows[y]][None, :] for one in values]).astype(float)
        for x, y in combinations(kinds, 2)
    }
    paths = {(name,): np.ones(len(rows[name])) for name in kinds}
    for size in range(2, len(kinds) + 1):
        for some in combinations(kinds, size):
            paths[some] = paths[some[:-1]] @ pairs[some[-2:]]
    return {frozenset(some): float(ends.sum()) for some, ends in paths.items()}


def compare_counts() -> None:
    """Eight sensors whose readings rise: expected partial matches of sets beside those that were there."""
    events = traffic_like(120_000, 11, points=8, skew=10.0)
    events = events.append_column("ts_number", events["ts"].cast(pa.int64()))
    variables = [f"x{k}" for k in range(8)]
    kinds = dict(zip(variables, sorted(pc.unique(events["type"]).to_pylist()), strict=True))
    window = int(pc.max(events["ts_number"]).as_py() - pc.min(events["ts_number"]).as_py()) // 15
    query = parse_query(rising_query(kinds, f"{window} us"))
    (branch,) = normalize(query)
    intake = Intake()
    batch = intake.push(events.drop_columns(["ts_number"]))
    assert intake.schema is not None
    print("\nrising sequence of 8, sets of    2      3      4      5      6      7")
    factors: dict[int, list[float]] = {}
    ranks: dict[int, list[float]] = {}
    regrets = []
    for stop in range(40_000, 120_000, 8_000):
        about = query, intake.schema, evaluating(intake.schema)
        collector = Collector(*about, window=Reach(), sampling=Sampling(size=1024, pairs=8192))
        collector.observe(batch.slice(max(0, stop - 40_000), stop))
        figures = figures_of(branch, float(window), collector.snapshot()).with_looks(LOOK_WEIGHT)
        costs = Costs(figures)
        there = [count_rising(events, kinds, end, window) for end in (stop, min(stop + 4_000, 120_000))]
        cards = {some: sum(one[some] for one in there) / len(there) for some in there[0]}
        counted = Counted(figures, cards)
        for size in range(2, 8):
            sets = [frozenset(some) for some in combinations(variables, size)]
            ranks.setdefault(size, []).append(rank_correlation(list(map(costs.card, sets)), [cards[s] for s in sets]))
            known = [costs.card(some) / cards[some] for some in sets if cards[some] >= 1.0]
            factors.setdefault(size, []).extend(max(one, 1 / one) for one in known)
        best, chosen = best_tree(counted), best_tree(costs)
        assert best is not None and chosen is not None
        regrets.append(counted.parts(chosen) / counted.parts(best))
    shown = ("times off (median)", factors, np.median), ("rank correlation (mean)", ranks, np.mean)
    for name, found, middle in shown:
        print(f"{name:26}" + " ".join(f"{float(middle(one)):6.2f}" for one in found.values()))
    told = f"{np.median(regrets):.2f} times the least that any does (median), {max(regrets):.2f} at most"
    print(f"the tree of least expected cost takes {told}")


def time_planning() -> None:
    rng = random.Random(0)
    print("\nplanner  variables  plan, ms  check K = 1, µs  K = all, µs")
    for count in (4, 8):
        names = "abcdefgh"[:count]
        text = f"PATTERN SEQ({', '.join(f'{name.upper()} {name}' for name in names)}) WITHIN 10"
        figures = figures_for(text, [rng.lognormvariate(0, 1) for _ in names], 10.0)
        for planner in PLANNERS.values():
            planned = planner.plan(figures)
            row = [least_time(partial(planner.plan, figures)) * 1e3]
            for how in (Watch(), Watch(count=None)):
                invariants = watch(planned, figures, how)
                row.append(least_time(partial(invariants.check, figures, ConstantDistance()), 20) * 1e6)
            print(f"{planner.name:7}  {count:9}  {row[0]:8.2f}  {row[1]:15.0f}  {row[2]:11.0f}")


if __name__ == "__main__":
    compare_plans()
    compare_chains()
    compare_counts()
    time_planning()
