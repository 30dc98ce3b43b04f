"""The logs in which Spark keeps how far a stream has come, looked through before a stream goes on from them.

Spark believes what it finds there. An entry of a source's log that is gone, or whose text has changed, would have it
read files twice or leave them out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from ensue.errors import StateError
from ensue.spark.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENTRY = re.compile(r"(\d+)(?:\.compact)?")


def check_logs(spark: SparkSession, checkpoint: str) -> None:
    """Refuse a checkpoint of Spark whose logs are damaged: `checkpoint` is what `checkpointLocation` is given.

    Entries that still matter are read through the file system's checksums, and those of sources have to be there as far
    as the stream has come. A folder that is not there yet is fine.

    Example::

        check_logs(spark, "state")
        alerts.writeStream.format("parquet").option("checkpointLocation", "state").start("alerts")
    """
    folder = Folder(spark, checkpoint)
    offsets, commits = _entries(folder, "offsets"), _entries(folder, "commits")
    if not offsets:
        if commits:
            raise _damaged(checkpoint, "it has commits, but no offsets")
        return
    latest = max(offsets)
    done = max(commits, default=-1)
    if done not in (latest, latest - 1):
        raise _damaged(checkpoint, f"the newest entry of offsets is {latest}, that of commits {done}")
    for entries in (commits, offsets):
        for number in sorted(entries)[-2:]:
            text = _read(folder, checkpoint, entries[number])
    for number, line in enumerate(text.splitlines()[2:]):  # of the newest offsets: one for each source
        _check_source(folder, checkpoint, number, line)


def _check_source(folder: Folder, checkpoint: str, number: int, offset: str) -> None:
    """See that the log of a source of files, if it is one, reaches the offset."""
    found = re.fullmatch(r'\s*\{"logOffset":(\d+)\}\s*', offset)
    if found is None:
        return
    entries = _entries(folder, f"sources/{number}")
    if max(entries, default=-1) < int(found[1]):
        raise _damaged(checkpoint, f"sources/{number} has no entry {found[1]}, which the stream has read")
    start = max((entry for entry in entries if entries[entry].endswith(".compact")), default=0)
    for entry in range(start, int(found[1]) + 1):
        if entry not in entries:
            raise _damaged(checkpoint, f"sources/{number} has no entry {entry}")
        for line in _read(folder, checkpoint, entries[entry]).splitlines()[1:]:
            try:
                json.loads(line)
            except ValueError as error:
                raise _damaged(checkpoint, f"{entries[entry]} cannot be read") from error


def _entries(folder: Folder, log: str) -> dict[int, str]:
    """The entries of a log by their number."""
    matches = ((_ENTRY.fullmatch(name), name) for name in folder.names(log))
    return {int(match[1]): f"{log}/{name}" for match, name in matches if match}


def _read(folder: Folder, checkpoint: str, name: str) -> str:
    try:
        text = folder.read_text(name)
    except Py4JError as error:
        raise _damaged(checkpoint, f"{name} cannot be read") from error
    if not text.startswith("v"):
        raise _damaged(checkpoint, f"{name} is not whole")
    return text


def _damaged(checkpoint: str, what: str) -> StateError:
    return StateError(
        f"the checkpoint {checkpoint} is damaged: {what}. Bring it back from a copy, or start anew with another "
        "checkpoint folder and another output folder"
    )
