"""The order of a rule's joins by statistics: the loop of `ensue.runtime.adapting` over rows of the rule's events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ensue.planning.cost import Costs
from ensue.planning.figures import Figures
from ensue.planning.plan import Plan
from ensue.planning.rule_figures import find_ties, longest_reach, rule_figures
from ensue.planning.rules import RulePlan, default_tree
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.adapting import Replanner
from ensue.runtime.journal import Entry
from ensue.runtime.lanes import Method, Swapped
from ensue.runtime.relations import Rows
from ensue.runtime.rule_evaluator import RuleEvaluator
from ensue.runtime.rule_watching import RowWatcher
from ensue.statistics.snapshot import Statistics


class RuleAdapter(Replanner):
    """The loop for one rule."""

    def __init__(self, name: str, evaluator: RuleEvaluator, adaptation: Adaptation) -> None:
        plan = evaluator.plan
        how = replace(adaptation, stored=False, method="replay", objective="throughput")
        super().__init__(name, Plan((plan.tree,)), how)
        self._rule_plan = plan
        names = [source.name for source in plan.body.sources]
        reach = longest_reach(plan)
        self.watcher = RowWatcher(
            {name: evaluator.sources[name].layout for name in names},
            find_ties(plan.body),
            evaluator.reading,
            None if reach is None else math.ceil(adaptation.windows * reach),
        )

    @staticmethod
    def fits(plan: RulePlan) -> bool:
        """Whether there is anything to choose: two events have one join."""
        return plan.is_possible and len(plan.body.sources) > 2

    def observe(self, evaluator: RuleEvaluator) -> None:
        """Note the rows of the last step."""
        for name in self.watcher.layouts:
            self.watcher.observe(name, evaluator.sources[name].new)
        self.watcher.settle()

    def check(self, take_over: Callable[[RulePlan], int]) -> Entry | None:
        """Ask whether other joins would be better; `take_over` lets a plan, and says how many rows it joined anew."""

        def look(_closely: bool) -> tuple[Statistics, list[Figures]]:
            statistics = self.watcher.statistics()
            return statistics, [rule_figures(self._rule_plan, statistics)]

        def swap(plan: Plan, method: Method) -> Swapped:
            return Swapped(method, take_over(self._rule_plan.with_tree(plan.trees[0])))

        return self.consider(look, swap)

    def describe(self) -> dict[str, Any] | None:
        """What the order in use rests on, as JSON-able values; None before the first check."""
        if self._known is None:
            return None
        figures = rule_figures(self._rule_plan, self._known)
        costs = Costs(figures)
        written = default_tree(self._rule_plan.body)
        pairs = {name: value for name, value in figures.values.items() if "," in name}
        return {
            "order": str(self.plan),
            "tuples": costs.parts(self.plan.trees[0]),
            "written": str(Plan((written,))),
            "written_tuples": costs.parts(written),
            "window": figures.window,
            "rows": {name: figures.window * figures.arrivals(name) for name in figures.shape.names},
            "pairs": pairs,
        }

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[Rows]]:
        """The state as JSON-able values and arrays, for `load`; the tree is the evaluator's to keep."""
        watched, arrays = self.watcher.dump()
        state = {"watched": watched, "windows": self.adaptation.windows, **self.dump_decisions()}
        return state, arrays

    def load(self, state: Mapping[str, Any], arrays: Sequence[Rows], plan: RulePlan) -> None:
        """Take up what `dump` gave; the rule is run by that plan."""
        self.plan = Plan((plan.tree,))
        is_known = state["windows"] == self.adaptation.windows
        if is_known:
            self.watcher.load(state["watched"], arrays)
        self.load_decisions(state, is_known=is_known)
