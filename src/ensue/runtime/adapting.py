"""The loop that keeps a plan fit for its stream: watch, decide, plan, replace, and write down what was done.

Kolchinsky and Schuster, Algorithm 1. Statistics come from samples of the events, so that they do not depend on the plan
in use; a decision function says when they call for planning anew; a plan that is cheaper under them takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import pyarrow as pa

from ensue.errors import StateError
from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.pattern.normalize import Branch
from ensue.pattern.query import Policy, Query, TimeWindow
from ensue.planning.comparisons import Planned
from ensue.planning.decisions import Always, Decision, PassedOver, Reason, gain_of, load_decision
from ensue.planning.expectation import Expectation, expect
from ensue.planning.figures import Figures
from ensue.planning.invariants import Violation
from ensue.planning.objectives import Prospect
from ensue.planning.plan import Plan, Tree, dump_plan, load_plan
from ensue.runtime.adaptation import Adaptation, pace_of
from ensue.runtime.cadence import Unevenness
from ensue.runtime.doubts import Doubts
from ensue.runtime.exploring import Explorer, Found
from ensue.runtime.journal import Entry
from ensue.runtime.lanes import Method, Swapped
from ensue.runtime.rows import RowStore
from ensue.runtime.trying import Race
from ensue.runtime.watching import Watcher
from ensue.statistics.collector import query_window
from ensue.statistics.snapshot import Statistics

Look: TypeAlias = Callable[[bool], tuple[Statistics, list[Figures]]]
"""What is known of the stream, and what planners work on; closely or not."""
Replace: TypeAlias = Callable[[Plan, Method], Swapped]
"""Lets a plan take over, and says how."""
Try: TypeAlias = Callable[[Sequence[Plan]], Race | None]
"""Lets plans race over the last events, the one in use first; None if that tells nothing."""
TryOn: TypeAlias = Callable[[Callable[[], list[EventBatch]], Sequence[Plan]], Race | None]
"""The same over events that are given."""


@dataclass(slots=True)
class Spent:
    """Seconds of processor time: into statistics, decisions (D), planning, trying plans, and replacing them."""

    watching: float = 0.0
    deciding: float = 0.0
    planning: float = 0.0
    trying: float = 0.0
    replacing: float = 0.0

    @classmethod
    def total(cls, parts: Iterable[Spent]) -> Spent:
        """All of them together."""
        sums = cls()
        for part in parts:
            sums.watching += part.watching
            sums.deciding += part.deciding
            sums.planning += part.planning
            sums.trying += part.trying
            sums.replacing += part.replacing
        return sums


_EARLY = Always("the plan was made when little was known of what had changed")
_DISPUTED = Always("what statistics spoke for was slower when it was tried at the last check")
_DISPUTES = 3
"""For how many checks it is planned anew after that: what is watched is of a plan that is not in use."""


class Replanner:
    """Decides by statistics whether a plan is still fit, makes another one, lets it take over, and writes it down."""

    def __init__(self, name: str, plan: Plan, adaptation: Adaptation) -> None:
        self.name = name
        self.plan = plan
        self.adaptation = adaptation
        self.spent = Spent()
        self.checks = self.planned = self.replaced = 0
        self._aim = adaptation.aim
        self._known: Statistics | None = None  # at the last check
        self._prospect: Prospect | None = None  # by the figures of the last time that it was planned
        self._explorer = Explorer()
        self._disputes = 0  # checks at which it is to be planned anew
        self._watched: Plan | None = None  # what the planner made last, and decisions watch; not in use if passed over
        self._stored: list[dict[str, Any]] | None = None  # the decisions of a snapshot, until they are asked

    @cached_property
    def _decisions(self) -> list[Decision]:
        if self._stored is not None:
            return [load_decision(one) for one in self._stored]
        return [self.adaptation.function for _ in self.plan.trees]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision functions of the branches, with what they watch."""
        return tuple(self._decisions)

    def consider(
        self,
        look: Look,
        swap: Replace,
        try_plans: Try | None = None,
        *,
        slower: float = 0.0,
        worked: float = 0.0,
        is_settling: bool = False,
        doubt: Callable[[], Doubts] = Doubts,
    ) -> Entry | None:
        """Ask whether what is known of the stream calls for another plan; make it, and let it take over.

        `look` gives what is known by now, and what of it planners work on, of each branch; closely, if it is planned.
        Costs may be wrong: if plans can be tried, it is planned anew, whatever the decisions say, where events have
        become `slower`, by that factor, and now and then, as often as the seconds `worked` allow. So are all branches
        if it `is_settling`: the plan was made too early to know what decisions rest on. `doubt` says how sure costs and
        races are.
        """
        started = time.thread_time()
        self.checks += 1
        if self.adaptation.recalibrate is not None:
            self._aim = self.adaptation.aim
        statistics, figures = look(False)
        self._known = statistics
        watched = time.thread_time()
        reasons: list[Reason | None] = [
            decision.wants(one) for decision, one in zip(self._decisions, figures, strict=True)
        ]
        if all(reason is None for reason in reasons):
            reasons = self._reconsider(figures)
        again = None
        if try_plans is not None:
            again = self._explorer.look(self.plan, self.checks, slower, worked, doubt())
        if all(reason is None for reason in reasons):
            reasons = [again for _ in reasons]
        if is_settling:
            reasons = [reason or _EARLY for reason in reasons]
        if self._disputes:
            self._disputes -= 1
            reasons = [reason or _DISPUTED for reason in reasons]
        decided = time.thread_time()
        self.spent.watching += watched - started
        self.spent.deciding += decided - watched
        if all(reason is None for reason in reasons):
            return None
        self._known, figures = look(True)
        closer = time.thread_time()
        self.spent.watching += closer - decided
        self._prospect = self._aim.prospect(figures)
        return self._plan_anew(self._known, self._prospect, reasons, again, swap, try_plans, doubt, closer)

    def _reconsider(self, figures: Sequence[Figures]) -> list[Reason | None]:
        """Why to plan branches whose plan in use is not what the planner made of them last, if that saves enough now.

        What is watched holds as long as the planner would make the same plan, however dear the one in use has become.
        One that was slower in a race must save so much more: when it races again is the explorer's business.
        """
        old, watched = self.plan, self._watched
        nothing: list[Reason | None] = [None for _ in figures]
        if watched is None or watched.trees == old.trees:
            return nothing
        prospect = self._aim.prospect(figures)
        new = self._with_cheaper(prospect, watched.trees)
        if new == old or not self._is_promising(prospect, new, lasts=True):
            return nothing
        reason = PassedOver(new, prospect.rank(old), prospect.rank(new))
        return [None if one == other else reason for one, other in zip(old.trees, new.trees, strict=True)]

    def _with_cheaper(self, prospect: Prospect, trees: Sequence[Tree]) -> Plan:
        """The plan in use with those of some trees, of each branch, that cost no more than its own."""
        used = prospect.rank(self.plan)
        new = self.plan
        for k, tree in enumerate(trees):
            if tree != self.plan.trees[k] and prospect.rank(self.plan.with_tree(k, tree)) <= used:
                new = new.with_tree(k, tree)
        return new

    @property
    def has_untried(self) -> bool:
        """Whether there are plans that are worth while trying before the next check."""
        return self.adaptation.tries and self._prospect is not None and self._explorer.has_untried

    def try_more(self, swap: Replace, try_plans: Try, worked: float, doubt: Callable[[], Doubts]) -> Entry | None:
        """Try more plans, by what was known when it was planned last."""
        again = self._explorer.look_between(self.plan, self.checks, worked, doubt())
        if again is None or self._known is None or self._prospect is None:
            return None
        nothing = [None for _ in self._prospect.figures]
        return self._plan_anew(self._known, self._prospect, nothing, again, swap, try_plans, doubt, time.thread_time())

    def _plan_anew(
        self,
        statistics: Statistics,
        prospect: Prospect,
        reasons: Sequence[Reason | None],
        again: Reason | None,
        swap: Replace,
        try_plans: Try | None,
        doubt: Callable[[], Doubts],
        started: float,
    ) -> Entry | None:
        """Plan the branches for which there is a reason; let the plan take over if it is better.

        If plans are tried, it races with the one in use and with others, and the quickest takes over.
        """
        old, figures = self.plan, prospect.figures
        planned = [
            None if reason is None else self._aim.plan(one) for reason, one in zip(reasons, figures, strict=True)
        ]
        made = [
            tree if one is None else self._aim.ready(one.tree) for one, tree in zip(planned, old.trees, strict=True)
        ]
        new = self._with_cheaper(prospect, made)
        is_promising = self._is_promising(prospect, new)
        passed_over = old if is_promising or self._watched is None else self._watched
        reasons = [
            None if isinstance(reason, Violation) and reason.hint and tree in known else reason
            for reason, tree, *known in zip(reasons, made, old.trees, passed_over.trees, strict=True)
        ]
        chosen = time.thread_time()
        found: Found | None = None
        races = self._explorer.races
        asked = new if is_promising and new != old else None
        others_wait = asked is None and again is None and all(one in (None, _DISPUTED) for one in reasons)
        if try_plans is not None and not others_wait:
            about = self._aim, prospect, old, asked, self.checks, try_plans, doubt()
            found = self._explorer.explore(*about, is_asked=again is not None)
        tried = time.thread_time() if self._explorer.races > races else chosen
        shown = Plan(tuple(made), old.index) if new == old else new
        used = new if is_promising else old
        if found is not None:
            shown, used = found.plan, found.plan if found.is_quicker else old
        old_cost, new_cost = self._aim.cost(figures, old), self._aim.cost(figures, shown)
        is_lighter = new_cost <= old_cost if found is None else True  # what is tried takes over only if it is quicker
        switching = time.thread_time()
        method, replayed = (None, 0) if used == old else self._take_over(used, is_lighter, swap, doubt)
        switched = time.thread_time()
        is_refused = used != old and method is None
        self._arm(old, prospect, planned, reasons, None if found is None else found.planned, learns=not is_refused)
        self._watched = self._watched or old
        for k, one in enumerate(planned):
            if one is not None:
                self._watched = self._watched.with_tree(k, made[k])
        if used == old and asked is not None and found is not None:
            self._disputes = _DISPUTES
        armed = time.thread_time()
        self.spent.planning += chosen - started + switching - tried + armed - switched
        self.spent.trying += tried - chosen
        self.spent.replacing += switched - switching
        known = [one for one in (*reasons, again) if one is not None]
        reason = known[0] if known else None
        if reason in (None, again, _EARLY, _DISPUTED) and found is None and used == old:
            return None  # there is nothing left to try
        assert reason is not None
        self.planned += 1
        values = (reason.left, reason.right) if isinstance(reason, Violation | PassedOver) else (None, None)
        return Entry(
            query=self.name,
            at=statistics.at,
            reason="; ".join(dict.fromkeys(one.text for one in known)),
            left=values[0],
            right=values[1],
            old=str(old),
            new=str(shown),
            old_cost=old_cost,
            new_cost=new_cost,
            method=method,
            seconds=time.thread_time() - started,
            switch_seconds=switched - switching,
            replayed=replayed,
            trial=None if found is None else found.ratio,
            statistics=statistics.to_json(),
        )

    def _is_promising(self, prospect: Prospect, new: Plan, *, lasts: bool = False) -> bool:
        """Whether statistics, and what races have told of late (or what `lasts`), speak for another plan."""
        old = self.plan
        gain = self.adaptation.gain if self.adaptation.objective == "throughput" else 0.0
        old_rank, new_rank = map(prospect.rank, (old, new))
        misled = self._explorer.misled(old, new, self.checks, lasts=lasts)
        is_ready = all(self._aim.ready(tree) == tree for tree in old.trees)
        is_better = misled * new_rank < (1.0 - gain) * old_rank
        return is_better or (new_rank == old_rank and not is_ready and misled <= 1.0)

    def _take_over(self, new: Plan, is_lighter: bool, swap: Replace, doubt: Callable[[], Doubts]) -> Swapped:
        """Let a plan take over, or remember that it could not."""
        old, swapped = self.plan, swap(new, self._choose(is_lighter))
        if swapped.method is None:
            self._explorer.note_refused(old, new, self.checks)
        else:
            self._explorer.note_former(old, doubt().lately)
            self.plan = new
            self.replaced += 1
            self._disputes = 0
        return swapped

    def _choose(self, is_lighter: bool) -> Method:
        """How the new plan takes over: by going through a window again, or by running both for a window."""
        if self.adaptation.method != "auto":
            return self.adaptation.method
        return "replay" if is_lighter else "side by side"

    def _arm(
        self,
        old: Plan,
        prospect: Prospect,
        planned: Sequence[Planned | None],
        reasons: Sequence[Reason | None],
        ratio: float | None,
        *,
        learns: bool,
    ) -> None:
        """Let the decisions learn from what came of planning, and watch what the new plan rests on.

        `ratio` is how many times as long as the old plan the new one took. From one that could not take over nothing is
        to be learned, nor from a hint that nothing came of, for which there is no reason left.
        """
        for k, (one, found, reason) in enumerate(zip(prospect.figures, planned, reasons, strict=True)):
            if found is None:
                continue
            learned = self._decisions[k]
            if learns and reason is not None and ratio is None:
                learned = learned.after(reason, gain_of(one, self._aim.bare(old.trees[k]), found.tree, found.measure))
            elif learns and reason is not None and ratio is not None and ratio < 1.0:
                # a plan that is slower has its verdict: the comparison was right to break
                learned = learned.after(reason, 1.0 - ratio)
            self._decisions[k] = learned.armed(one, found)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump_decisions(self) -> dict[str, Any]:
        """What was decided so far as JSON-able values, for `load_decisions`."""
        asked = self._stored is None or "_decisions" in self.__dict__
        return {
            "decisions": [decision.dump() for decision in self._decisions] if asked else self._stored,
            "counts": [self.checks, self.planned, self.replaced],
            "explored": self._explorer.dump(),
            "disputes": self._disputes,
            "watched_plan": None if self._watched is None else dump_plan(self._watched),
            "rule": self._rule(),
        }

    def _rule(self) -> list[Any]:
        """What makes plans and says when: what is watched is of no use to another rule."""
        adaptation = self.adaptation
        planner = adaptation.planner if adaptation.objective == "throughput" else adaptation.objective
        return [planner, adaptation.stored, adaptation.function.dump()]

    def load_decisions(self, state: Mapping[str, Any], *, is_known: bool) -> None:
        """Take up what `dump_decisions` gave; by another rule, or from unknown statistics, it is planned anew."""
        self.checks, self.planned, self.replaced = state["counts"]
        if is_known and state["rule"] == self._rule():
            self._stored = list(state["decisions"])
            self._disputes = state.get("disputes", 0)
            watched = state.get("watched_plan")
            self._watched = None if watched is None else load_plan(watched)
            if "explored" in state:
                self._explorer = Explorer.load(state["explored"])


class Adapter(Replanner):
    """The loop for one query."""

    def __init__(
        self, query: Query, branches: Sequence[Branch], plan: Plan, schema: Schema, adaptation: Adaptation
    ) -> None:
        super().__init__(query.name or "", plan, adaptation)
        self.query = query
        self.branches = tuple(branches)
        self._schema = schema
        self._window = query_window(query, schema)
        self.pace = pace_of(schema)  # of the stream's time, in units a second
        self.is_alone = False  # in its engine: what events take is for this query
        self.watcher = Watcher(query, schema, adaptation.windows, tries=adaptation.tries)

    @staticmethod
    def fits(query: Query) -> bool:
        """Whether a query can be adapted: a plan runs it, and a window of time bounds what a new plan needs."""
        return query.policy is Policy.ANY and isinstance(query.within, TimeWindow)

    def check(
        self,
        rows: RowStore,
        next_event: int,
        swap: Replace,
        try_plans: TryOn,
        *,
        slower: float = 0.0,
        worked: float = 0.0,
        is_settling: bool = False,
        unevenness: Unevenness | None = None,
    ) -> Entry | None:
        """Ask whether the stream calls for another plan, once the events before that number have been looked at."""
        recent = self.watcher.recent(rows, next_event) if self.adaptation.tries else None

        def look(closely: bool) -> tuple[Statistics, list[Figures]]:
            statistics = self.watcher.look_closely() if closely else self.watcher.look(rows, next_event)
            return statistics, self.figures(statistics)

        if slower:
            self.watcher.turn(just_now=True)
        tries = None if recent is None else partial(try_plans, recent)
        doubt = partial(self._doubt, unevenness)
        entry = self.consider(look, swap, tries, slower=slower, worked=worked, is_settling=is_settling, doubt=doubt)
        if entry is not None and entry.replaced:
            self.watcher.turn()
        return entry

    def explore(
        self,
        rows: RowStore,
        next_event: int,
        swap: Replace,
        try_plans: TryOn,
        *,
        worked: float,
        unevenness: Unevenness | None = None,
    ) -> Entry | None:
        """Try the plans that were left when it was planned, on the events before that number."""
        recent = partial(try_plans, self.watcher.recent(rows, next_event))
        return self.try_more(swap, recent, worked, partial(self._doubt, unevenness))

    def _doubt(self, unevenness: Unevenness | None) -> Doubts:
        """How sure costs and races are by now; `unevenness` is of what events took for all queries."""
        events = float(max(1, self.watcher.window_events))
        bursts = (unevenness or Unevenness()).over(events)
        return Doubts(self.watcher.windows, events, bursts, unevenness if self.is_alone else None)

    def figures(self, statistics: Statistics) -> list[Figures]:
        """What planners work on, of each branch."""
        return self.adaptation.figures(self.query, self.branches, statistics, self._window, self.pace)

    def expect(self) -> Expectation | None:
        """What the plan is expected to cost by what was known at the last check; None before the first."""
        if self._known is None:
            return None
        figures = self.figures(self._known)
        about = (self.query, self.branches, self._schema, self.plan)
        passed_over = None if self._watched is None or self._watched.trees == self.plan.trees else self._watched
        return expect(*about, figures, self._known, self._decisions, self._aim, passed_over)

    # -- state -------------------------------------------------------------------------------------------------------
    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`; the plan is the lane's to keep."""
        watched, tables = self.watcher.dump()
        return {"watched": watched, "windows": self.adaptation.windows, **self.dump_decisions()}, tables

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table], plan: Plan) -> None:
        """Take up what `dump` gave; by another rule it is planned anew at the next check."""
        if len(state["decisions"]) != len(self.branches):
            raise StateError(f"the state of query `{self.query.name}` is of another pattern")
        self.plan = plan
        is_known = state["windows"] == self.adaptation.windows
        if is_known:
            self.watcher.load(state["watched"], tables)
        self.load_decisions(state, is_known=is_known)
