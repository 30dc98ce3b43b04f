"""Kafka for real: a broker, Spark's connector, and `ensue run` between two topics, as a batch and as a stream."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ensue
from ensue.testing.generators import stock_like
from tests.connectors.artifacts import find_connector
from tests.connectors.broker import Broker
from tests.spark.killing import ROOT, Victim
from tests.spark.ordeal import LATENESS, QUERIES, ROWS, SCHEMA, Answer, describe_difference, expect, make_files

BAD = ('{"type": ', None, "[1]", '{"type": "A", "ts": "soon"}')
"""Values that no row can be read from."""

_PATIENCE = 900.0  # seconds for what takes one on a machine with nothing else to do


class Topics:
    """A pipeline between topics of their own, and what it has to find."""

    def __init__(self, broker: Broker, folder: Path, partitions: int = 1) -> None:
        self.broker, self.folder, self.partitions = broker, folder, partitions
        name = re.sub(r"\W", "-", folder.name)
        self.events, self.alerts, self.aside = (f"{name}-{kind}" for kind in ("events", "alerts", "aside"))
        broker.create({self.events: partitions, self.alerts: 2, self.aside: 1})

    def send(self, rows: list[dict[str, Any]]) -> None:
        """Send rows as JSON."""
        self.broker.send(self.events, [json.dumps(row) for row in rows], self.partitions)

    def write_pipeline(self, stream: str = "", events: str | None = None) -> Path:
        """A pipeline file; `stream` is the text of its table [stream]."""
        lateness = f"[detect]\nlateness = {LATENESS}\n[stream]\n{stream}" if stream else ""
        file = self.folder / f"pipeline{len(list(self.folder.glob('*.toml')))}.toml"
        file.write_text(f"""
queries = '''{QUERIES}'''

[source]
format = "kafka"
schema = {{ type = "string", ts = "int64", user = "int64", price = "int64", id = "int64" }}

[source.options]
"kafka.bootstrap.servers" = "{self.broker.servers}"
subscribe = "{events or self.events}"
startingOffsets = "earliest"
{f"maxOffsetsPerTrigger = {ROWS}" if stream else ""}

[sink]
format = "kafka"
servers = "{self.broker.servers}"
topic = "{self.alerts}"

[aside]
format = "kafka"
servers = "{self.broker.servers}"
topic = "{self.aside}"

{lateness}

[spark]
master = "local[2]"

[spark.config]
{spark_config(self.folder)}
""")
        return file

    def read_matches(self) -> list[tuple[str | None, dict[str, Any]]]:
        """The matches on the topic, each with its record's key."""
        return [(key, json.loads(value or "")) for key, value in self.broker.read(self.alerts)]

    def read_answer(self) -> Answer:
        """How often each match and each row set aside is there, one that could not be read by its text."""
        found: Answer = Counter(("match", match["match_id"]) for _, match in self.read_matches())
        for _, value in self.broker.read(self.aside):
            row = json.loads(value or "")
            found[row["kind"], str(row["reason"] if row["id"] is None else row["id"])] += 1
        return found


def spark_config(folder: Path) -> str:
    """Settings that have the connector's jars and keep what Spark writes in a folder."""
    connector = find_connector()
    assert connector is not None
    settings = {
        "spark.jars": ",".join(map(str, connector.jars())),
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
    }
    return "\n".join(f'"{name}" = "{value}"' for name, value in settings.items())


def run(pipeline: Path, status: int = 0) -> str:
    """Run a pipeline file to its end; what was said on standard error."""
    command = [sys.executable, "-m", "ensue", "run", str(pipeline)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False, cwd=pipeline.parent)
    assert done.returncode == status, done.stderr[-4000:]
    return done.stderr


def expect_bad(topic: str, first: int) -> Answer:
    """The rows set aside for the values in `BAD`, which are the records of partition 0 from an offset on."""
    beginning = "the row cannot be read, or a value does not fit its column: "
    shown = ("no value" if value is None else value for value in BAD)
    return Counter(
        ("rejected", f"{beginning}{value} (topic {topic}, partition 0, offset {offset})")
        for offset, value in enumerate(shown, first)
    )


@pytest.mark.slow
def test_a_stream_from_topic_to_topic(broker: Broker, tmp_path: Path) -> None:
    files = make_files(3, 6)
    topics = Topics(broker, tmp_path)
    broker.send(topics.events, BAD)
    for rows in files:
        topics.send(rows)
    said = run(topics.write_pipeline('checkpoint = "state"\ntrigger = "available-now"\n'))
    expected = expect(files) + expect_bad(topics.events, 0)
    assert describe_difference(topics.read_answer(), expected) is None
    sums = Counter(kind for kind, _ in expected.elements())
    assert all(sums[kind] for kind in ("match", "late", "rejected"))
    received = len(BAD) + sum(map(len, files))
    processed = received - sums["late"] - sums["rejected"]
    assert f"{received:,} events in: {processed:,} processed or held, {sums['late']} late" in said
    assert f"{sums['rejected']} rejected\n{sums['match']:,} matches" in said
    in_time = [row for rows in files for row in rows if row["id"] < 1_000_000]
    objects = {one["match_id"]: one for one in ensue.run(pa.Table.from_pylist(in_time, SCHEMA), QUERIES).to_pylist()}
    for key, match in topics.read_matches():
        assert key == match["match_id"]
        assert match == objects[key]


@pytest.mark.connectors
def test_a_batch_from_topic_to_topic(broker: Broker, tmp_path: Path) -> None:
    topics = Topics(broker, tmp_path, partitions=3)
    rows = [row for rows in make_files(4, 5) for row in rows]
    random.Random(1).shuffle(rows)
    topics.send(rows)
    said = run(topics.write_pipeline())
    readable = [row for row in rows if row["ts"] is not None]
    matches = ensue.run(pa.Table.from_pylist(readable, SCHEMA), QUERIES).to_pylist()  # in a batch nothing is late
    assert sorted(match["match_id"] for _, match in topics.read_matches()) == sorted(m["match_id"] for m in matches)
    assert f"{len(rows):,} events in: {len(readable):,} processed, 0 late, {len(rows) - len(readable)} rejected" in said
    assert broker.count(topics.aside) == len(rows) - len(readable)


@pytest.mark.connectors
def test_a_killed_stream_loses_nothing_and_what_is_doubled_can_be_told(broker: Broker, tmp_path: Path) -> None:
    moments = ["start", "sink", "batch", "sink", "state", "commit", "sink"]
    files = make_files(5, 3 * len(moments))
    topics, rng, waiting = Topics(broker, tmp_path), random.Random(2), list(files)
    checkpoint = 'checkpoint = "state"\n'
    going_on = topics.write_pipeline(checkpoint)
    kills = []
    for moment in moments:
        for rows in waiting[:3]:
            topics.send(rows)
        del waiting[:3]
        command = ["ensue", "run", str(going_on)]
        victim = Victim(command, tmp_path, tmp_path / "state" / "spark", lambda: broker.count(topics.alerts))
        kills.append(victim.kill(moment, rng.uniform(1, 10) if moment == "start" else rng.uniform(0, 0.05)))
    for rows in waiting:
        topics.send(rows)
    run(topics.write_pipeline(checkpoint + 'trigger = "available-now"\n'))
    assert any(kill.planned > kill.done for kill in kills), "no kill fell into a micro-batch"
    found, expected = topics.read_answer(), expect(files)
    assert set(found) == set(expected)
    by_key: dict[str | None, list[dict[str, Any]]] = {}
    for key, match in topics.read_matches():
        by_key.setdefault(key, []).append(match)
    assert all(twin == twins[0] and twin["match_id"] == key for key, twins in by_key.items() for twin in twins)
    assert found.total() > expected.total(), "nothing was doubled, so that nothing is known of doubles"


@pytest.mark.connectors
def test_the_example_and_an_orderly_stop(broker: Broker, tmp_path: Path) -> None:
    broker.create({"trades": 3, "alerts": 1, "set-aside": 1})
    trades = stock_like(20_000, 1)
    renamed = trades.rename_columns({"type": "symbol", "ts": "at"}).to_pylist()
    broker.send("trades", [json.dumps(trade, default=str) for trade in renamed], 3)
    examples = ROOT / "examples" / "pipelines"
    text = (examples / "kafka.toml").read_text().replace("localhost:9092", broker.servers)
    text = text.replace("../../results/pipelines/", f"{tmp_path}/").replace('packages = ["kafka"]', "")
    (tmp_path / "kafka.toml").write_text(f"{text}\n[spark.config]\n{spark_config(tmp_path)}\n")
    (tmp_path / "queries.ensue").write_text((examples / "queries.ensue").read_text())
    command = [sys.executable, "-m", "ensue", "run", "kafka.toml"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + _PATIENCE
        # In the second micro-batch the watermark of the first is known, and what waited for it is decided.
        while not (tmp_path / "kafka-state" / "spark" / "commits" / "1").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=_PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "20,000 events in: 20,000 processed or held, 0 late, 0 rejected" in said
    found = {key: json.loads(value or "")["query"] for key, value in broker.read("alerts")}
    assert set(found.values()) == {"rising", "lonely"}
    assert f"{len(found):,} matches" in said
    matches = ensue.run(trades, (examples / "queries.ensue").read_text()).to_pylist()
    decided = trades["ts"][-1].as_py() - timedelta(seconds=10)
    assert found.keys() >= {match["match_id"] for match in matches if match["detected_at"] < decided}
    assert found.keys() <= {match["match_id"] for match in matches}


@pytest.mark.connectors
@pytest.mark.parametrize("stream", ["", 'checkpoint = "state"\ntrigger = "available-now"\n'])
def test_a_topic_that_is_not_there(broker: Broker, tmp_path: Path, stream: str) -> None:
    pipeline = Topics(broker, tmp_path).write_pipeline(stream, events="nothing")
    said = run(pipeline, 1)
    assert "error: Kafka has no topic of the name that is read or written" in said
    assert "Traceback" not in said
