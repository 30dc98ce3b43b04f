"""What the report says of readings."""

import re
from dataclasses import replace

from benchmarks.peers import report
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.figures import Table
from benchmarks.peers.measuring import Entry, read_log


def entry(engine, rate, *, query="Q1", live=100, events=1000, found=5, expected=5, reason="", note="", stream="stock"):
    job = Job(engine, query, stream, live, "p", 1000, 0.5, False, 1000, 1.0, 1.0, 1)
    if reason:
        return Entry(job, None, reason)
    return Entry(job, Reading(events, found, events / rate, events / rate, note, 10**8, None, "1.2"), expected=expected)


def test_the_best_peer_of_a_cell_is_named():
    table = Table([entry("ensue", 1e6), entry("esper", 1e4), entry("flink", 1e3), entry("duckdb", 4e5)])
    row = report.summary(table).rows[0]
    assert row[2:6] == ("1M", "100x Esper", "2.5x", "–") and row[-1] == "equal"


def test_a_peer_that_wins_is_shown_winning():
    table = Table([entry("ensue", 1e6), entry("duckdb", 4e6)])
    assert "**0.25x**" in report.summary(table).rows[0]
    assert table.behind()[0].startswith("stock Q1, 100 live: DuckDB is 4 times as fast: ")
    assert "**4M**" in report.rates(table).rows[0]


def test_a_count_that_differs_is_a_fault_and_its_rate_is_not_trusted():
    table = Table([entry("ensue", 1e6), entry("esper", 5e5, found=4), entry("siddhi", 1e4)])
    assert table.faults == ["esper in Q1 on stock, 100 live: found 4 in 1,000 events, ensue 5"]
    row = report.summary(table).rows[0]
    assert row[3] == "100x Siddhi" and row[-1] == "**differ**"


def test_failures_are_told():
    table = Table([entry("ensue", 1e6), entry("esper", 1.0, events=0, found=None, note="failed: no answer")])
    assert table.faults == ["esper in Q1 on stock, 100 live: failed: no answer"]
    assert report.rates(table).rows[0][-1] == "failed: no answer"


def test_a_run_that_was_cut_short_is_marked():
    table = Table([entry("ensue", 1e6), entry("flink", 1e3, events=250)])
    assert report.summary(table).rows[0][3] == "1000x* Flink CEP"
    assert report.rates(table).rows[0][-1] == "1k (first 250)"


def test_who_was_cut_short_is_compared_over_the_same_events():
    short = replace(entry("flink", 1e3, events=250), own_cpu=0.005)  # 250 events in 0.25 s
    assert report.summary(Table([entry("ensue", 1e6), short])).rows[0][3] == "50x* Flink CEP"
    assert Entry.from_json(short.to_json()) == short


def test_a_match_is_shown_beside_the_writing_of_it():
    table = Table([entry(name, rate, found=100, expected=100) for name, rate in (("ensue", 1e6), ("esper", 1e4))])
    (row,) = report.bounds(table, 1e-10).rows
    assert row == ("Q1", "stock", "100", "10,000", "", "2.4", "1,000,000 Esper")


def test_growth_needs_several_windows():
    entries = [entry("ensue", 1e6, live=live) for live in (25, 100)]
    entries += [entry("duckdb", rate, live=live) for live, rate in ((25, 5e5), (100, 1e5))]
    grid = report.growth(Table(entries))
    assert ("Q1", "stock", "DuckDB", "2x", "10x") in grid.rows
    assert not report.growth(Table([entry("ensue", 1e6), entry("duckdb", 1e5)])).rows


def test_engines_that_are_left_out_are_listed_once_with_all_queries():
    reason = "no lists"
    table = Table(
        [entry("siddhi", 0, query=query, live=live, reason=reason) for query in ("Q3", "Q4") for live in (25, 100)]
    )
    assert report.left_out(table).rows == (("Siddhi", "Q3, Q4", reason),)


def test_both_files_are_written_and_the_page_needs_nothing_else(tmp_path):
    entries = [
        entry(name, rate, live=live) for name, rate in (("ensue", 1e6), ("esper", 1e4)) for live in (25, 100, 400)
    ]
    report.write(tmp_path, Table(entries), "make bench-peers <now>", ["a note"], 1e-10)
    text = (tmp_path / "peers.md").read_text()
    assert "Made by `make bench-peers <now>`." in text and "- a note" in text and "Esper 1.2" in text
    page = (tmp_path / "peers.html").read_text()
    assert page.count("<svg") == 2 and "make bench-peers &lt;now&gt;" in page
    assert not re.search(r"(src|href)=|@import|url\(", page)


def test_entries_come_back_from_a_log_and_the_last_of_a_cell_counts(tmp_path):
    log = tmp_path / "log.jsonl"
    kept = [entry("ensue", 1e6), entry("flink", 0, reason="no"), entry("ensue", 2e6)]
    log.write_text("".join(one.to_json() + "\n" for one in kept))
    assert read_log(log) == [kept[2], kept[1]]
