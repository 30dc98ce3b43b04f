"""A Kafka broker for tests: one node, on the loopback interface, with its data in a folder of the test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ensue.spark.java import find_java
from tests.connectors.artifacts import BROKER

_PATIENCE = 300.0  # seconds for a start on a machine that is busy
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

Record = tuple[str | None, str | None]
"""The key and the value of a record."""


class Broker:
    """Runs from `with` to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Broker:
        port, other = _free_ports()
        self.servers = f"127.0.0.1:{port}"
        self._admin = AdminClient(self._settings)
        settings = self.folder / "server.properties"
        settings.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{other}\n"
            f"listeners=PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{other}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={self.folder / 'data'}\n"
            "auto.create.topics.enable=false\n"
            "offsets.topic.replication.factor=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        cluster = "AAAAAAAAAAAAAAAAAAAAAA"
        formatting = _command("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
        subprocess.run(formatting, check=True, capture_output=True, timeout=_PATIENCE)
        with (self.folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                _command("kafka.Kafka", str(settings)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; what it holds is of no use any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker does not start:\n{(self.folder / 'log.txt').read_text()[-4000:]}")
            try:
                self._admin.list_topics(timeout=5)
            except KafkaException:
                time.sleep(0.1)
            else:
                return

    @property
    def _settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers, "log_level": "0"}

    def create(self, topics: Mapping[str, int]) -> None:
        """Make topics with so many partitions."""
        made = self._admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()])
        for one in made.values():
            one.result(timeout=_PATIENCE)

    def send(self, topic: str, values: Iterable[str | None], partitions: int = 1) -> None:
        """Send records without keys, to one partition after the other."""
        producer = Producer(self._settings)
        for place, value in enumerate(values):
            producer.produce(topic, value, partition=place % partitions)
        assert producer.flush(_PATIENCE) == 0, f"not all records have come to {topic}"

    def count(self, topic: str) -> int:
        """How many records a topic has."""
        return sum(end for end in self._ends(topic).values())

    def read(self, topic: str) -> list[Record]:
        """All the records of a topic."""
        consumer = Consumer({**self._settings, "group.id": "tests", "enable.auto.commit": "false"})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in self._ends(topic)])
        wanted, found = self.count(topic), []
        while len(found) < wanted:
            for message in consumer.consume(wanted - len(found), timeout=5):
                assert message.error() is None, message.error()
                found.append((_text(message.key()), _text(message.value())))
        consumer.close()
        return found

    def _ends(self, topic: str) -> dict[int, int]:
        """The offset at which each partition ends."""
        partitions = self._admin.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        answers = self._admin.list_offsets(asked)
        return {place.partition: answer.result(timeout=_PATIENCE).offset for place, answer in answers.items()}


def _command(main: str, *arguments: str) -> list[str]:
    jars = os.pathsep.join(map(str, BROKER.jars()))
    return [str(find_java().home / "bin" / "java"), *_JAVA, "-cp", jars, main, *arguments]


def _free_ports() -> tuple[int, int]:
    """Two ports that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
