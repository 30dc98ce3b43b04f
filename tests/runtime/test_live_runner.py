"""Events through a queue: the same matches as without it, bounded, measured from the arrival of the last event."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

import ensue
from ensue.errors import PlanError
from ensue.runtime import live_runner
from ensue.runtime.latencies import Latencies
from ensue.runtime.live_runner import LiveRunner
from ensue.runtime.matches import Matches

QUICK = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20"
SLOW = "PATTERN SEQ(A a, B b) WHERE a.x + 1 < b.x WITHIN 20"  # not plain: it takes the way of batches
RULE = "EVENT A(x: int); EVENT B(x: int); RULE pair(x) <- a: A(x), b: B(x), a BEFORE b, {a, b} WITHIN 20;"


def stream(number: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"type": rng.choice("AB"), "ts": k, "x": rng.randrange(50)} for k in range(number)]


@pytest.mark.parametrize("text", [QUICK, SLOW, f"{QUICK}; PATTERN SEQ(A a, !B b) WITHIN 3", RULE])
def test_what_is_found_is_what_there_is(text: str) -> None:
    events = stream(400)
    found: list[dict[str, Any]] = []
    with LiveRunner(ensue.compile(text), found.extend) as live:
        for event in events:
            assert live.put(event)
    assert live.taken == len(events) and live.waiting == 0 and live.dropped == 0
    assert live.latency.count == len(found) > 20
    found += live.engine.flush()
    expected = ensue.run(events, text)
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_a_full_queue_lets_the_sender_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and never do more wait than may."""
    most = []
    engine = ensue.compile(QUICK)
    live = LiveRunner(engine, lambda matches: None, capacity=3)
    take = engine.push_event

    def watch(event: Mapping[str, Any]) -> Matches:
        most.append(live.waiting)
        return take(event)

    monkeypatch.setattr(engine, "push_event", watch)
    with live:
        for event in stream(300):
            assert live.put(event)
    assert live.taken == 300 and live.dropped == 0
    assert max(most) <= 3


def test_drops_only_if_asked_and_counts_them() -> None:
    live = LiveRunner(ensue.compile(QUICK), lambda matches: None, capacity=5, drop=True)
    events = stream(12)
    assert [live.put(event) for event in events] == [True] * 5 + [False] * 7
    assert (live.waiting, live.dropped) == (5, 7)
    live.close()
    live.run()
    assert live.engine.counts.processed == live.taken == 5
    assert not live.put(events[0])  # it is closed


def test_a_latency_is_that_of_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken in one by one or together, each match counts from its own last event."""
    monkeypatch.setattr(live_runner, "_SLOW", 10.0)
    clock = iter(range(1, 1000))
    monkeypatch.setattr(live_runner.time, "perf_counter", lambda: float(next(clock)))
    a, b, c = ({"type": kind, "ts": ts, "x": ts} for kind, ts in (("A", 1), ("B", 2), ("B", 3)))
    live = LiveRunner(ensue.compile(QUICK), lambda matches: None)
    assert live.put(a) and live.put(b) and live.put(c)  # arrive at 1, 2 and 3
    live.close()
    live.run()  # a: 4 to 5, b: 6 to 7, c: 8 to 9
    assert (live.latency.count, live.latency.total) == (2, (7 - 2) + (9 - 3))
    assert (live.wait.total, live.service.total) == ((6 - 2) + (8 - 3), 2)
    clock = iter(range(1, 1000))
    live = LiveRunner(ensue.compile(SLOW), lambda matches: None)
    live.engine.push([{"type": "A", "ts": 0, "x": -5}])
    live._is_slow = True
    assert live.put(a) and live.put(b) and live.put(c)
    live.close()
    live.run()  # all three: 4 to 5; b completes one match, c two
    assert (live.latency.count, live.latency.total) == (3, (5 - 2) + 2 * (5 - 3))


def test_a_failure_reaches_who_waits() -> None:
    def fail(matches: Matches) -> None:
        raise ValueError("no room on the shelf")

    with pytest.raises(ValueError, match="shelf"), LiveRunner(ensue.compile(QUICK), fail, capacity=2) as live:
        for event in [{"type": "A", "ts": 1, "x": 1}, *({"type": "B", "ts": ts, "x": 2} for ts in range(2, 30))]:
            live.put(event)
    with pytest.raises(PlanError, match="holds none"):
        LiveRunner(ensue.compile(QUICK), fail, capacity=0)


def test_the_pace_of_the_stream_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_runner, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr(live_runner, "_SLOW", 10.0)
    engine = ensue.compile(QUICK, objective="latency")
    live = LiveRunner(engine, lambda matches: None)
    looks: list[float] = []
    monkeypatch.setattr(engine, "set_pace", looks.append)
    for number, event in enumerate(stream(4)):
        live._waiting.append((10.0 + number / 50, event))  # 50 a second, one unit of time apart
    live.close()
    live.run()
    assert looks == pytest.approx([50.0, 50.0, 50.0])


def test_several_senders() -> None:
    live = LiveRunner(ensue.compile("PATTERN A a WITHIN 10", lateness=1_000_000), lambda matches: None, capacity=7)

    def send(first: int) -> None:
        for k in range(200):
            live.put({"type": "A", "ts": first + k})

    with live:
        senders = [threading.Thread(target=send, args=(1000 * k,)) for k in range(3)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    assert live.taken == 600 == live.engine.counts.received
    assert len(live.engine.flush()) == 600


def test_percentiles() -> None:
    rng = random.Random(5)
    times = sorted(rng.lognormvariate(-9, 1.5) for _ in range(5000))
    found = Latencies()
    assert (found.percentile(50), found.mean) == (0.0, 0.0)
    for seconds in times:
        found.add(seconds)
    for percent in (1, 50, 90, 99, 100):
        exact = times[percent * 50 - 1]
        assert found.percentile(percent) == pytest.approx(exact, rel=0.03)
    assert found.most == times[-1] and found.mean == pytest.approx(sum(times) / 5000)
    found.add(time.get_clock_info("perf_counter").resolution / 1e3, 10_000)  # nothing is too short
    assert found.percentile(50) < 1e-6
