"""The two ways in: `run` for a finite input, `compile` for a stream."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from ensue.events.schema import Schema
from ensue.options import Options
from ensue.pattern.expressions import Duration
from ensue.planning.aggregates import Choice
from ensue.planning.objectives import ObjectiveName
from ensue.runtime.adaptation import Adapt, read_adapt
from ensue.runtime.compiling import Queries, require_windows
from ensue.runtime.engine import Engine
from ensue.runtime.making import make_engine
from ensue.runtime.matches import Matches
from ensue.runtime.rule_engine import RuleEngine


def run(
    events: object,
    queries: Queries,
    *,
    type: str = "type",
    ts: str = "ts",
    begin: str | None = None,
    schema: Schema | None = None,
    unit: str = "ms",
    strict: bool = False,
    options: Options | None = None,
    plan: Choice | Mapping[str, Choice] | None = None,
    adapt: Adapt | bool | None = None,
    objective: ObjectiveName = "throughput",
) -> Matches:
    """All matches of one or several queries in a finite input, which need not be sorted; of rules the derived events.

    `events` is an Arrow table (or anything that gives one), a pandas or polars DataFrame, or a list of dicts; `type`
    and `ts` name its columns of the event's type and time, `begin` that of the begin of events that last. With `adapt`
    plans are kept fit for the stream (see `ensue.Adaptation`), and `matches.journal` tells what was decided; with
    `objective="latency"` so that a match is known soon after its last event, else so that all takes little time.

    >>> import ensue
    >>> events = [{"type": "A", "ts": 1}, {"type": "B", "ts": 3}]
    >>> ensue.run(events, "PATTERN SEQ(A a, B b) WITHIN 10").to_pylist()[0]["events"]["b"]
    {'type': 'B', 'ts': 3}
    """
    engine = make_engine(
        queries,
        schema,
        type=type,
        ts=ts,
        begin=begin,
        unit=unit,
        strict=strict,
        options=options,
        plan=plan,
        adapt=read_adapt(adapt, objective),
    )
    return engine.push_sorted(events)


def compile(
    queries: Queries,
    schema: Schema | None = None,
    *,
    type: str = "type",
    ts: str = "ts",
    begin: str | None = None,
    unit: str = "ms",
    lateness: int | str | timedelta | Duration = 0,
    strict: bool = False,
    options: Options | None = None,
    plan: Choice | Mapping[str, Choice] | None = None,
    adapt: Adapt | bool | None = None,
    objective: ObjectiveName = "throughput",
) -> Engine | RuleEngine:
    """An engine for one or several queries, or a program with rules, to push events into as they come.

    Without a schema the first events tell what columns there are. `lateness` is how far out of order events may come.
    With `adapt` plans are kept fit for the stream: see `ensue.Adaptation`, and `engine.journal` for what was decided.
    `objective="latency"` lets them be chosen for how soon a match is known once its last event is there.
    A stream has no end, so each query needs a window, or says WITHIN UNBOUNDED on purpose; and each rule has to say how
    far apart its events may be, unless `Options(unbounded_rules=True)` allows it not to.

    >>> import ensue
    >>> engine = ensue.compile("PATTERN SEQ(A a, !B b) WITHIN 10", lateness=5)
    >>> len(engine.push([{"type": "A", "ts": 1}])), len(engine.push([{"type": "A", "ts": 20}]))
    (0, 1)
    """
    engine = make_engine(
        queries,
        schema,
        type=type,
        ts=ts,
        begin=begin,
        unit=unit,
        lateness=lateness,
        strict=strict,
        options=options,
        plan=plan,
        adapt=read_adapt(adapt, objective),
        is_stream=True,
    )
    require_windows(engine.queries)
    return engine
