"""The engines that run in this process find the same in a small stream; what is missing on a machine is said."""

import shutil

import pytest

from benchmarks.peers import jars
from benchmarks.peers.cells import Effort, make_job
from benchmarks.peers.engines import duckdb_join, ensue_local, pandas_join
from benchmarks.peers.processes import to_properties
from benchmarks.peers.queries import QUERIES, find
from benchmarks.peers.streams import open_stream

EFFORT = Effort(events=1_200, budget=30.0, warm_up=0.1, repeats=1)


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    return [open_stream(name, EFFORT.events, folder) for name in ("stock", "traffic")]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_counts_agree(streams, query):
    for stream in streams:
        job = make_job("ensue", query, stream, 8, EFFORT)
        readings = [module.measure(job) for module in (ensue_local, duckdb_join, pandas_join)]
        assert {reading.events for reading in readings} == {job.events}
        assert len({reading.matches for reading in readings}) == 1, [reading.matches for reading in readings]
        assert all(reading.cpu > 0 and reading.version for reading in readings)
        assert readings[0].matches or query.has_list or query.is_keyed


def test_a_peer_says_which_tool_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "javac" else f"/bin/{tool}")
    with pytest.raises(jars.NotHereError, match="needs a Java compiler"):
        jars.prepare(jars.ESPER, tmp_path)


def test_coordinates_are_pinned_and_name_no_host():
    for peer in (jars.FLINK, jars.ESPER, jars.SIDDHI):
        assert all(
            coordinate.count(":") == 2 and coordinate.rsplit(":", 1)[1][0].isdigit() for coordinate in peer.coordinates
        )
        assert "http" not in peer.pom()
    assert "<exclusions>" in jars.SIDDHI.pom() and "<exclusions>" not in jars.ESPER.pom()


def test_a_job_as_the_harness_reads_it(streams):
    job = make_job("esper", find("Q7"), streams[1], 25, EFFORT)
    lines = dict(line.split("=", 1) for line in to_properties(job, "a = b").splitlines())
    assert lines["statement"] == "a = b" and lines["has_ties"] == lines["is_counted"] == "true"
    assert lines["stream"].endswith(".columns") and int(lines["window"]) == job.window
