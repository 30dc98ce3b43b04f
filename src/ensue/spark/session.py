"""Spark sessions as ensue needs them: a Java that runs, this Python in the workers, checkpoints with checksums."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ensue.spark.java import find_java
from ensue.spark.packages import find_packages, package_settings
from ensue.spark.quiet import LOG_OPTION, launch_quietly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")

STREAMING_CONFIG: dict[str, str] = {
    # State in RocksDB, of which a micro-batch writes the changes alone.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Format 2 has checksums of files too, but Spark's file sink cannot go on from it after a kill between the entry of
    # a micro-batch in the sink's log and that in the commit log: the ids of its state are then unknown.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    # A damaged checkpoint is refused, never read as another state.
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "true",
    "spark.sql.streaming.checkpoint.verifyMetadataExists.enabled": "true",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "true",
    # stop() waits for the micro-batch that runs, but not for ever.
    "spark.sql.streaming.stopTimeout": "120s",
    # Times of events are read and shown in UTC, wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What a streaming run wants to be set, for sessions that are made elsewhere; all of it can be set while one runs."""

_PRELOADING = {
    "spark.python.daemon.module": "ensue.spark.daemon",
    # Of what is loaded, this alone would start a thread, which must not be there when workers are forked.
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Spark sets this for some workers and not for others, which would then be forked from two such processes.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
}
"""Workers with the engine loaded: where this Python is that of the workers, and a fork of so much is safe."""


def make_session(
    app_name: str = "ensue",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    packages: Iterable[str] = (),
    quiet: bool = True,
) -> SparkSession:
    """A Spark session with the settings that ensue wants; `config` has the last word.

    Without `master` it runs on this machine with all cores, or where `spark-submit` says. `packages` are what sources
    and sinks need: `kafka`, `delta`, or Maven coordinates. A quiet session logs errors alone.

    Example::

        spark = make_session(master="local[2]", config={"spark.driver.memory": "4g"})
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    asked = dict(config or {})
    master = master or asked.get("spark.master") or (None if submitted else "local[*]")
    settings = dict(STREAMING_CONFIG)
    settings["spark.ui.showConsoleProgress"] = "false"
    if master is not None:
        settings |= _local_settings(master)
        settings["spark.master"] = master
    if coordinates := ",".join(find_packages(packages)):
        settings["spark.jars.packages"] = coordinates
    settings |= package_settings(
        [coordinates, *(asked.get(name, "") for name in ("spark.jars", "spark.jars.packages"))]
    )
    settings |= asked

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not submitted and SparkContext._gateway is None:  # else the JVM runs already
        os.environ["JAVA_HOME"] = str(find_java().home)
        if quiet:
            _silence(settings)
            gateway = launch_quietly(SparkConf(loadDefaults=False).setAll(list(settings.items())))
            SparkContext._ensure_initialized(gateway=gateway)
    spark = SparkSession.builder.appName(app_name).config(map=dict(settings)).getOrCreate()
    if quiet and submitted:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def configure(spark: SparkSession) -> SparkSession:
    """Set on a session that was made elsewhere what a streaming run of ensue wants; gives the session back.

    Example::

        configure(spark).readStream.format("rate").load()
    """
    for name, value in STREAMING_CONFIG.items():
        spark.conf.set(name, value)
    return spark


def _local_settings(master: str) -> dict[str, str]:
    """What suits a run on one machine: no web page, no other host, as many partitions as cores."""
    if not master.startswith("local"):
        return {}
    cores = _cores(master)
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        **(_PRELOADING if sys.platform == "linux" and not master.startswith("local-cluster") else {}),
        # Spark's usual way to a checkpoint on a local disk does not look at the checksums beside the files.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.default.parallelism": str(max(2, cores)),
    }


def _cores(master: str) -> int:
    """How many tasks a local master runs at a time.

    >>> _cores("local"), _cores("local[4]"), _cores("local-cluster[2,3,1024]")
    (1, 4, 6)
    """
    if cluster := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(cluster[1]) * int(cluster[2])
    if threads := re.fullmatch(r"local\[\s*(\d+|\*)\s*(?:,.*)?\]", master):
        return (os.cpu_count() or 1) if threads[1] == "*" else int(threads[1])
    return 1


def _silence(settings: dict[str, str]) -> None:
    """Let the JVMs that are started here log errors alone; executors of a real cluster have a log of their own."""
    local = settings["spark.master"].startswith("local")
    for name in _JAVA_OPTIONS if local else _JAVA_OPTIONS[:1]:
        settings[name] = f"{LOG_OPTION} {settings.get(name, '')}".strip()
