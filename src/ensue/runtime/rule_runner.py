"""All rules of a program: strata in order within a step, equal derivations once, derived events handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ensue.errors import LimitError, PlanError
from ensue.events.batch import EventBatch
from ensue.events.schema import DType, Schema
from ensue.options import Options
from ensue.planning.plan import dump_tree, load_tree
from ensue.planning.rule_programs import plan_program
from ensue.planning.rules import Optimizations, RulePlan
from ensue.rules.program import Program
from ensue.rules.signatures import Signature
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.arrivals import Arrivals, BatchReader, DerivedArrivals
from ensue.runtime.bits import Int64s
from ensue.runtime.journal import Entry
from ensue.runtime.relations import Rows, mark_distinct
from ensue.runtime.rule_adapting import RuleAdapter
from ensue.runtime.rule_evaluator import RuleEvaluator
from ensue.runtime.strings import StringTable


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Events of one type that a step derived, in the order of their ends: rows of end, begin and attributes."""

    type: str
    rows: Rows


class RuleRunner:
    """The rules of a program with their state."""

    def __init__(
        self,
        program: Program,
        schema: Schema,
        strings: StringTable,
        options: Options,
        optimizations: Optimizations = Optimizations(),  # noqa: B008  (immutable)
        adaptation: Adaptation | None = None,
    ) -> None:
        if options.on_limit == "shed":
            raise PlanError(
                "on_limit='shed' cannot go with rules: dropping what was seen could turn into events that are not there"
            )
        self.program, self.schema, self.strings, self.options = program, schema, strings, options
        self.signatures, self.plans = plan_program(program, schema, optimizations)
        self.evaluators = {
            name: [RuleEvaluator(plan, self.signatures, schema, strings) for plan in plans]
            for name, plans in self.plans.items()
        }
        self.adapters: dict[tuple[str, int], RuleAdapter] = {}  # by the derived type, and which of its rules it is
        for place, evaluator in self._numbered() if adaptation is not None else ():
            if adaptation is not None and RuleAdapter.fits(evaluator.plan):
                self.adapters[place] = RuleAdapter(self._label(place), evaluator, adaptation)
        derived = set(program.derived)
        self.inputs = frozenset(kind for rule in program.rules for kind in rule.types if kind not in derived)
        self._tidied = 1024  # strings up to which it is not worth a look
        self._recent: dict[str, Rows] = {name: _nothing(self.signatures[name]) for name in self.plans}

    def columns(self, name: str) -> dict[str, DType]:
        """The attributes of a derived type, in the order of its rows from the third value on."""
        return {key: dtype for key, dtype in self.signatures[name].items() if dtype is not None}

    def step(self, batch: EventBatch, now: int | None) -> list[Derived]:
        """Take a batch in and let time reach `now` (None: the input has ended); the events that are known by that."""
        reader = BatchReader(batch, self.schema, self.strings)
        arrivals: dict[str, Arrivals] = {}
        for name in self.inputs:
            found = reader.of_type(name)
            if found is not None:
                arrivals[name] = found
        derived: list[Derived] = []
        for name, evaluators in self.evaluators.items():
            parts = [evaluator.step(arrivals, now) for evaluator in evaluators]
            self._check_limit(name, evaluators)
            rows = self._distinct(name, parts[0] if len(parts) == 1 else np.concatenate(parts), now)
            if not len(rows):
                continue
            columns = {key: 2 + k for k, key in enumerate(self.columns(name))}
            arrivals[name] = DerivedArrivals(rows, columns)
            derived.append(Derived(name, rows))
        for (name, place), adapter in self.adapters.items():
            adapter.observe(self.evaluators[name][place])
        return derived

    def _distinct(self, name: str, rows: Rows, now: int | None) -> Rows:
        """The rows that are new, in order; those that could be derived again are remembered."""
        if not len(rows):
            return rows
        recent = self._recent[name]
        whole = np.concatenate([recent, rows]) if len(recent) else np.ascontiguousarray(rows)
        is_new = mark_distinct(whole)
        rows = whole[len(recent) :][is_new[len(recent) :]]
        if len(rows) > 1 and (rows[1:, 0] < rows[:-1, 0]).any():
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        self._recent[name] = recent[:0] if now is None else whole[is_new][whole[is_new][:, 0] >= now]
        return rows

    def _check_limit(self, name: str, evaluators: Sequence[RuleEvaluator]) -> None:
        most = self.options.max_partial_matches
        for evaluator in evaluators:
            if most is not None and evaluator.stored > most:
                raise LimitError(
                    f"rule `{name}` keeps {evaluator.stored:,} tuples, more than the {most:,} of max_partial_matches; "
                    "bound how far apart its events may be, or raise max_partial_matches"
                )

    # -- the order of joins ------------------------------------------------------------------------------------------
    def _numbered(self) -> list[tuple[tuple[str, int], RuleEvaluator]]:
        return [((name, k), one) for name, own in self.evaluators.items() for k, one in enumerate(own)]

    def _label(self, place: tuple[str, int]) -> str:
        """What a rule is called in the journal: by its derived type, and by its number if that has several."""
        name, number = place
        return name if len(self.evaluators[name]) == 1 else f"{name} ({number + 1})"

    def adapt(self) -> list[Entry]:
        """Let the joins of each rule be checked; what was decided about them."""
        entries = [adapter.check(partial(self.replace_plan, *place)) for place, adapter in self.adapters.items()]
        return [entry for entry in entries if entry is not None]

    def replace_plan(self, name: str, place: int, plan: RulePlan) -> int:
        """Let a rule go on by other joins; how many rows were joined anew."""
        self.evaluators[name][place], count = self.evaluators[name][place].with_plan(plan)
        self.plans[name][place] = plan
        return count

    # -- what is kept ------------------------------------------------------------------------------------------------
    def all(self) -> list[RuleEvaluator]:
        """The evaluators in order."""
        return [evaluator for own in self.evaluators.values() for evaluator in own]

    @property
    def nbytes(self) -> int:
        """Memory of what is kept."""
        return sum(evaluator.nbytes for evaluator in self.all())

    @property
    def stored(self) -> int:
        """How many tuples are kept."""
        return sum(evaluator.stored for evaluator in self.all())

    @property
    def next_due(self) -> int | None:
        """The time at which the first waiting tuple is known."""
        return min((due for e in self.all() if (due := e.next_due) is not None), default=None)

    def tidy(self) -> None:
        """Forget the strings that nothing holds any more."""
        if len(self.strings) <= self._tidied:
            return
        live = [codes for evaluator in self.all() for codes in evaluator.live_strings()]
        for name, rows in self._recent.items():
            for k, dtype in enumerate(self.columns(name).values()):
                if dtype is DType.STRING:
                    live.append(rows[:, 2 + k])
        for place, adapter in self.adapters.items():
            types = self.evaluators[place[0]][place[1]].body.types
            for layout, rows in adapter.watcher.rows():
                live += [rows[:, k] for key, k in layout.variables.items() if types.get(key) is DType.STRING]
        codes = np.concatenate(live) if live else np.empty(0, dtype=np.int64)
        if len(self.strings) > 2 * len(codes) + 1024:
            self.strings.retain(codes)
        self._tidied = 2 * len(self.strings) + 1024

    def dump(self) -> tuple[dict[str, Any], list[Int64s]]:
        """The state as JSON-able values and arrays, for `load`."""
        rules, adapters = [], []
        arrays: list[Int64s] = []
        for evaluator in self.all():
            seen, own = evaluator.dump()
            rules.append({"tree": dump_tree(evaluator.plan.tree), "seen": seen, "arrays": len(own)})
            arrays += own
        for place, adapter in self.adapters.items():
            told, own = adapter.dump()
            adapters.append({"rule": place, "state": told, "arrays": len(own)})
            arrays += own
        return {"rules": rules, "adapters": adapters}, [*arrays, *self._recent.values()]

    def load(self, state: Mapping[str, Any], arrays: Sequence[Int64s]) -> None:
        """Go on from what `dump` gave, by the joins of that moment."""
        rest = list(arrays)

        def take(count: int) -> list[Int64s]:
            taken, rest[:] = rest[:count], rest[count:]
            return taken

        for ((name, place), evaluator), part in zip(self._numbered(), state["rules"], strict=True):
            tree = load_tree(part["tree"])
            if tree != evaluator.plan.tree:
                self.replace_plan(name, place, evaluator.plan.with_tree(tree))
            self.evaluators[name][place].load(list(part["seen"]), take(part["arrays"]))
        for part in state["adapters"]:
            name, place = part["rule"]
            own, adapter = take(part["arrays"]), self.adapters.get((name, place))
            if adapter is not None:
                adapter.load(part["state"], own, self.plans[name][place])
        for name, rows in zip(self._recent, rest, strict=True):
            self._recent[name] = rows.reshape(-1, 2 + len(self.columns(name)))


def _nothing(signature: Signature) -> Rows:
    return np.empty((0, 2 + len(signature)), dtype=np.int64)
