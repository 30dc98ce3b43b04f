"""A JVM that speaks only when something is wrong: its log shows errors alone, its chatter at the start is dropped."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

LOG_OPTION = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"

# What Java and Spark's Python workers print past the log, whatever its level.
_CHATTER = re.compile(
    rb"WARNING: Using incubator modules: "
    rb"|WARNING: package \S+ not in java\.base"
    rb"|(Starting )?Streaming TransformWithState\w* Python worker"
)


def launch_quietly(conf: SparkConf) -> JavaGateway:
    """Start the JVM of a session and pass on what it writes to standard error, except for its chatter."""
    from pyspark.java_gateway import launch_gateway

    out, into = os.pipe()
    threading.Thread(target=_pass_on, args=(out,), name="ensue-jvm-stderr", daemon=True).start()
    try:
        return launch_gateway(conf, popen_kwargs={"stderr": into})
    finally:
        os.close(into)  # the JVM holds its own copy: when it ends, the thread does


def without_chatter(lines: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines that matter; an empty line goes with the chatter before it.

    >>> list(without_chatter([b"WARNING: Using incubator modules: jdk.incubator.vector\n", b"\n", b"ERROR x\n"]))
    [b'ERROR x\n']
    """
    dropped = False
    for line in lines:
        dropped = _CHATTER.match(line) is not None or (dropped and not line.strip())
        if not dropped:
            yield line


def _pass_on(descriptor: int) -> None:
    with os.fdopen(descriptor, "rb") as lines:
        for line in without_chatter(lines):
            os.write(2, line)
