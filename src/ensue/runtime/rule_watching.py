"""What is known of the rows that a rule's events give: how often they come, and which share of pairs go together.

The rows are those that the rule's joins are given, whatever their tree: after each event's own conditions, and without
those that are passed over. Until someone looks, a step costs no more than to hold on to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ensue.planning.rule_figures import Tie
from ensue.runtime.bits import Int64s
from ensue.runtime.relations import Layout, Pasting, Rows
from ensue.runtime.rule_nodes import Reading
from ensue.statistics.estimates import Estimate, share
from ensue.statistics.rates import Rates
from ensue.statistics.sampling import WindowSample, draw, spread_pairs
from ensue.statistics.snapshot import Statistics

_SIZE = 1024
"""How many rows of each event are sampled: equal values are counted in all pairs of two samples."""
_PAIRS = 4096
"""How many pairs are asked a condition."""
_MOST_HELD = 1 << 17
"""How many rows are held until someone looks."""


class RowWatcher:
    """Statistics of a rule's rows over the last `window` steps of time (None: since the start)."""

    def __init__(
        self, layouts: Mapping[str, Layout], ties: Iterable[Tie], reading: Reading, window: int | None
    ) -> None:
        self.layouts, self._ties, self._reading = dict(layouts), tuple(ties), reading
        self._names = list(layouts)
        self._rates = Rates(self._names, window)
        self._samples = {name: WindowSample(_SIZE, window) for name in self._names}
        self._rows = {name: np.empty((0, layout.width), dtype=np.int64) for name, layout in self.layouts.items()}
        self._held: dict[str, list[Rows]] = {name: [] for name in self._names}
        self._number = 0  # of rows that are held
        self._looks = 0

    def observe(self, name: str, rows: Rows) -> None:
        """Hold the new rows of an event, in the order of time."""
        if len(rows):
            self._held[name].append(rows)
            self._number += len(rows)

    def settle(self) -> None:
        """Count and sample what is held, if it is much."""
        if self._number > _MOST_HELD:
            self._look()

    def _look(self) -> None:
        """Count and sample what is held."""
        if not self._number:
            return
        random = np.random.default_rng([self._looks])
        self._looks += 1
        ends: list[Int64s] = []
        for name in self._names:
            rows = np.concatenate([self._rows[name][:0], *self._held[name]])
            ends.append(rows[:, 0])
            self._sample(name, rows, random)
            self._held[name] = []
        self._number = 0
        times = np.concatenate(ends)
        codes = np.repeat(np.arange(len(ends), dtype=np.int32), [len(one) for one in ends])
        order = np.argsort(times, kind="stable")
        self._rates.observe(times[order], codes[order], self._names)

    def _sample(self, name: str, rows: Rows, random: np.random.Generator) -> None:
        """Let the sample of an event take some of its new rows, and let go of those that are no longer in it."""
        if not len(rows):
            return
        sample, held = self._samples[name], self._rows[name]
        places, priorities = draw(len(rows), len(rows), _SIZE, random)
        sample.add(len(held) + np.arange(len(places)), rows[places, 0], priorities)
        self._rows[name] = np.concatenate([held, rows[places]])[sample.places]
        sample.places = np.arange(len(sample.places))

    # -- what is known -----------------------------------------------------------------------------------------------
    def statistics(self) -> Statistics:
        """What is known by now; rates by the names of the rule's events."""
        self._look()
        now = self._rates.latest
        if now is None:
            return Statistics(1.0, {}, {}, {})
        pairs = {}
        for tie in self._ties:
            found = self._ask(tie, now)
            if found is not None:
                left, right = sorted((tie.left, tie.right))
                pairs[left, right] = found
        return Statistics(float(self._rates.covered(now)), self._rates.at(now), {}, pairs, now)

    def _ask(self, tie: Tie, now: int) -> Estimate | None:
        """The share of pairs of rows that go together; None if there is none."""
        left, right = (self._rows[name][self._samples[name].at(now)] for name in (tie.left, tie.right))
        if not len(left) or not len(right):
            return None
        ours, theirs = self.layouts[tie.left], self.layouts[tie.right]
        a = left[:, [ours.variables[name] for name in tie.variables]]
        b = right[:, [theirs.variables[name] for name in tie.variables]]
        equal, low, high, order = _compare(a, b)
        if not tie.conditions:
            return equal
        x, y = spread_pairs(low, high, _PAIRS)
        if not len(x):
            return equal
        pasting = Pasting(ours, theirs)
        rows = pasting.paste(left[x], right[order[y]])
        passed = len(self._reading.keep(tie.conditions, rows, pasting.layout))
        held = share(passed, len(x), min(len(left), len(right)))
        value = equal.value * held.value
        relative = equal.variance / equal.value**2 + held.variance / held.value**2
        return Estimate(value, relative * value**2)

    def rows(self) -> Iterator[tuple[Layout, Rows]]:
        """All rows that are held or sampled, with their layouts."""
        for name, layout in self.layouts.items():
            for rows in (self._rows[name], *self._held[name]):
                yield layout, rows

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[Rows]]:
        """The state as JSON-able values and arrays, for `load`."""
        self._look()
        samples = {name: sample.dump() for name, sample in self._samples.items()}
        return {"rates": self._rates.dump(), "samples": samples, "looks": self._looks}, list(self._rows.values())

    def load(self, state: Mapping[str, Any], arrays: Sequence[Rows]) -> None:
        """Take up what `dump` gave."""
        self._rates = Rates.load(state["rates"])
        self._samples = {name: WindowSample.load(one) for name, one in state["samples"].items()}
        self._looks = int(state["looks"])
        for (name, layout), rows in zip(self.layouts.items(), arrays, strict=True):
            self._rows[name] = rows.reshape(-1, layout.width)


def _compare(left: Rows, right: Rows) -> tuple[Estimate, Int64s, Int64s, Int64s]:
    """The share of pairs of rows that are equal; and for each left row where its equals lie in `order`, the last.

    The variance is that of how many partners a left and a right row have.
    """
    if not left.shape[1]:
        low = np.zeros(len(left), dtype=np.int64)
        return Estimate(1.0), low, low + len(right), np.arange(len(right))
    _, numbers = np.unique(np.concatenate([left, right]), axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    mine, theirs = numbers[: len(left)], numbers[len(left) :]
    order = np.argsort(theirs, kind="stable")
    low = np.searchsorted(theirs[order], mine, side="left")
    high = np.searchsorted(theirs[order], mine, side="right")
    partners = np.bincount(mine, minlength=int(numbers.max()) + 1)[theirs]
    total = len(left) * len(right)
    found = share(float((high - low).sum()), total)
    spread = float(np.var(high - low)) * len(left) + float(np.var(partners)) * len(right)
    return Estimate(found.value, max(found.variance, spread / total**2)), low, high, order
