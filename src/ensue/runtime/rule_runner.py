"""All rules of a program: strata in order within a step, equal derivations once, derived events handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensue.errors import LimitError, PlanError
from ensue.events.batch import EventBatch
from ensue.events.schema import DType, Schema
from ensue.options import Options
from ensue.planning.plan import Tree
from ensue.planning.rule_programs import plan_program
from ensue.planning.rules import Optimizations
from ensue.rules.program import Program
from ensue.rules.signatures import Signature
from ensue.runtime.arrivals import Arrivals, BatchReader, DerivedArrivals
from ensue.runtime.bits import Int64s
from ensue.runtime.relations import Rows
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
        trees: Mapping[int, Tree] | None = None,
        optimizations: Optimizations = Optimizations(),  # noqa: B008  (immutable)
    ) -> None:
        if options.on_limit == "shed":
            raise PlanError(
                "on_limit='shed' cannot go with rules: dropping what was seen could turn into events that are not there"
            )
        self.program, self.schema, self.strings, self.options = program, schema, strings, options
        self.signatures, self.plans = plan_program(program, schema, trees, optimizations)
        self.evaluators = {
            name: [RuleEvaluator(plan, self.signatures, schema, strings) for plan in plans]
            for name, plans in self.plans.items()
        }
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
        return derived

    def _distinct(self, name: str, rows: Rows, now: int | None) -> Rows:
        """The rows that are new, in order; those that could be derived again are remembered."""
        if not len(rows):
            return rows
        recent = self._recent[name]
        whole = np.concatenate([recent, rows]) if len(recent) else np.ascontiguousarray(rows)
        is_new = _mark_distinct(whole)
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
        codes = np.concatenate(live) if live else np.empty(0, dtype=np.int64)
        if len(self.strings) > 2 * len(codes) + 1024:
            self.strings.retain(codes)
        self._tidied = 2 * len(self.strings) + 1024

    def dump(self) -> tuple[list[Any], list[Int64s]]:
        """The state as JSON-able values and arrays, for `load`."""
        parts = [evaluator.dump() for evaluator in self.all()]
        arrays = [array for _, own in parts for array in own]
        state = [{"seen": seen, "arrays": len(own)} for seen, own in parts]
        return state, [*arrays, *self._recent.values()]

    def load(self, state: Sequence[Mapping[str, Any]], arrays: Sequence[Int64s]) -> None:
        """Go on from what `dump` gave."""
        rest = list(arrays)
        for evaluator, part in zip(self.all(), state, strict=True):
            count = int(part["arrays"])
            evaluator.load(list(part["seen"]), rest[:count])
            rest = rest[count:]
        for name, rows in zip(self._recent, rest, strict=True):
            self._recent[name] = rows.reshape(-1, 2 + len(self.columns(name)))


def _nothing(signature: Signature) -> Rows:
    return np.empty((0, 2 + len(signature)), dtype=np.int64)


def _mark_distinct(rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    from ensue.runtime.kernels.relations import mark_distinct

    head = np.full(1 << int(2 * len(rows)).bit_length(), -1, dtype=np.int64)
    previous = np.empty(len(rows), dtype=np.int64)
    is_new = np.empty(len(rows), dtype=np.bool_)
    mark_distinct(rows, np.arange(rows.shape[1]), head, previous, is_new)
    return is_new
