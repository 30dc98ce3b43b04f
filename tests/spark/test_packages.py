"""Packages: which coordinates go with which Spark, and what is said when none do, or when no server answers."""

from __future__ import annotations

import socket

import pytest

from ensue.errors import InputError, PlanError
from ensue.spark.kafka import require_server
from ensue.spark.packages import explain_missing, find_package, find_packages, package_settings, spark_version


def test_names_become_coordinates() -> None:
    own = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version()}"
    assert find_packages(["kafka", "a:b:1"]) == [own, "a:b:1"]
    assert explain_missing("kafka").endswith(own)
    assert find_package("delta", "4.1.3") == "io.delta:delta-spark_4.1_2.13:4.4.0"
    with pytest.raises(PlanError, match=r"'kafak' is not known\. did you mean `kafka`"):
        find_packages(["kafak"])


def test_a_spark_that_delta_lake_is_not_made_for() -> None:
    with pytest.raises(PlanError) as caught:
        find_package("delta", "4.3.0")
    for part in ("made for Spark 4.3.0", "4.4.0 is for Spark 4.1 and 4.2", "pyspark==4.2.0", "delta-spark_4.3_2.13"):
        assert part in str(caught.value)


def test_delta_lake_has_its_settings() -> None:
    assert package_settings(["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"]) == {}
    assert len(package_settings(["io.delta:delta-spark_4.2_2.13:4.4.0"])) == 2
    assert len(package_settings(["/jars/a.jar,/jars/delta-spark_4.2_2.13-4.4.0.jar"])) == 2


def test_one_server_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        require_server(f"nowhere.invalid:1, PLAINTEXT://127.0.0.1:{open_port}")
    with pytest.raises(InputError, match=r"no Kafka server can be reached: 127\.0\.0\.1:\d+ \(.*refused"):
        require_server(f"127.0.0.1:{open_port}")
    with pytest.raises(InputError, match="none is given"):
        require_server(" ")
