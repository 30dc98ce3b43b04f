"""What the cost model is worth: expected costs of plans beside the time they take, and the time of planning itself.

PYTHONPATH=src .venv/bin/python benchmarks/plan_costs.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow.compute as pc

import ensue
from ensue.events.intake import Intake
from ensue.language import parse_query
from ensue.pattern.normalize import normalize
from ensue.planning.cost import Costs
from ensue.planning.distances import ConstantDistance
from ensue.planning.figures import LOOK_WEIGHT, Figures, figures_of
from ensue.planning.invariants import Watch, watch
from ensue.planning.plan import Plan, every_order, every_tree
from ensue.planning.planners import PLANNERS, with_storage
from ensue.runtime.sampled import evaluating
from ensue.statistics.collector import Collector
from ensue.statistics.sampling import Sampling
from ensue.statistics.snapshot import Estimate, Statistics
from ensue.testing.generators import traffic_like

EVENTS = 20_000
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


def compare_chains() -> None:
    """Five sensors whose readings rise: all trees, with costs that know more and more of what comparisons imply."""
    events = traffic_like(EVENTS, 11, points=5, skew=10.0)
    kinds = sorted(pc.unique(events["type"]).to_pylist())
    variables = [f"x{k}" for k in range(5)]
    items = ", ".join(f"`{kind}` {name}" for kind, name in zip(kinds, variables, strict=True))
    rising = [f"{x}.{a} < {y}.{a}" for x, y in pairwise(variables) for a in ("avg_speed", "vehicle_count")]
    text = f"PATTERN SEQ({items}) WHERE {' AND '.join(rising)} WITHIN 2 days"
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
    time_planning()
