"""The queries of `make bench-peers` in each peer's own words."""

import pytest

from benchmarks.peers.cells import Job
from benchmarks.peers.engines import esper, flink, siddhi, sql
from benchmarks.peers.queries import QUERIES, find
from ensue.language import parse_query


def job(query: str, *, live: int = 100, has_ties: bool = False) -> Job:
    return Job("e", query, "s", live, "p", 1000, 0.5, has_ties, 10, 1.0, 1.0, 1)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_every_query_is_one_that_ensue_reads(query):
    parsed = parse_query(query.text(1000, 0.5))
    assert set(parsed.types) == set(query.named)


def test_texts_of_ensue():
    assert find("Q3").text(9, 0) == (
        "PATTERN SEQ(A a, !N n, B b, C c) WHERE a.diff < b.diff AND b.diff < c.diff AND n.k = a.k WITHIN 9 ms"
    )
    assert find("Q4").text(9, 0.25) == (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.diff + 0.25 < b.diff AND b[i-1].diff + 0.25 < b[i].diff "
        "AND b.diff + 0.25 < c.diff WITHIN 9 ms"
    )
    assert find("Q7").text(9, 0) == "PATTERN SEQ(A a, B b, C c) WITHIN 9 ms AGG COUNT(*)"


def test_esper_puts_the_window_around_what_follows_a():
    assert esper.statement(job("Q1")) == (
        "select * from pattern [every a=A -> (every b=B(diff > a.diff) -> every c=C(diff > b.diff)) "
        "where timer:within(1000 milliseconds)]"
    )
    assert "(every b=B(diff > a.diff) and not N(k = a.k)) -> " in esper.statement(job("Q3"))
    assert esper.statement(job("Q2")).count("#time(1000 milliseconds)") == 3


def test_many_live_events_of_a_key_are_kept_apart():
    assert "k = a.k" in esper.statement(job("Q6", live=25)) and "context" not in esper.statement(job("Q6", live=25))
    assert esper.statement(job("Q6", live=400)).startswith("create context ByKey partition by k from A, k from B")
    assert "k == a.k" in siddhi.statement(job("Q6", live=25))
    assert "partition with (k of A, k of B, k of C)" in siddhi.statement(job("Q6", live=400))


def test_siddhi_asks_for_the_window_again_and_lets_nothing_in_that_is_as_old_as_it():
    text = siddhi.statement(job("Q1"))
    assert "every c=C[diff > b.diff and ts - a.ts < 1000L] within 999 milliseconds" in text
    assert "define stream D" not in text


@pytest.mark.parametrize("engine", [esper, siddhi])
def test_events_of_one_time_are_not_in_sequence(engine):
    assert "ts > a.ts" in engine.statement(job("Q1", has_ties=True))
    assert "ts > a.ts" not in engine.statement(job("Q1"))


def test_what_cannot_be_said_is_left_out_with_a_reason():
    assert "sequence" in (flink.lacks(find("Q2")) or "")
    assert siddhi.lacks(find("Q3")) and siddhi.lacks(find("Q4")) and esper.lacks(find("Q4"))
    assert not any(engine.lacks(find("Q1")) for engine in (flink, esper, siddhi))


def test_joins_go_by_slices_and_only_a_count_is_made():
    for query in QUERIES:
        text = sql.select(job(query.name))
        assert ".slice = " in text and text.count("SELECT") >= 1
        assert ("sum(a.until - c.nth)" in text) == query.is_counted
    assert "b.ts <= a.stop" in sql.select(job("Q3"))
    assert sql.select(job("Q5"), materialized="MATERIALIZED").count("AS MATERIALIZED (") == 3
