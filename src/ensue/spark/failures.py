"""Errors that were raised in a worker or in a micro-batch, brought back from the depth of Spark's stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from ensue import errors
from ensue.errors import EnsueError
from ensue.spark.packages import spark_version

_OURS = re.compile(r"^(?:\s*(?:[\w.]+Exception: )?)ensue\.[\w.]*?(\w+): ", re.MULTILINE)
_TRACE = re.compile(r"^\s*(?:at [\w.$/<>]+\(|File \"|Traceback|\.\.\. \d+ more|Caused by: |=== |\tat )", re.MULTILINE)
_MISFIT = re.compile(r"\b(?:NoSuchMethod|NoSuchField|NoClassDefFound|AbstractMethod|IncompatibleClassChange)Error\b.*")
_PREAMBLE = re.compile(
    r"An error occurred while calling \S+\s+: |\[STREAM_FAILED\] Query \[.*?\] terminated with exception: "
)


class SparkFailure(EnsueError):
    """Spark has failed, for a reason that is not ensue's to explain."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn what Spark raises into ensue's own errors: those of ensue's code as they were, the others in brief."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate(error) from error


def translate(error: BaseException) -> EnsueError:
    """The error that lies behind one of Spark's."""
    text = str(error)
    found = next(iter(reversed(list(_OURS.finditer(text)))), None)
    if found is None:
        return SparkFailure(_explain(error, text))
    message = text[found.end() :]
    end = _TRACE.search(message)
    message = (message if end is None else message[: end.start()]).strip()
    kind = getattr(errors, found[1], SparkFailure)
    if not (isinstance(kind, type) and issubclass(kind, EnsueError)):
        kind = SparkFailure
    return kind(message)


def _explain(error: BaseException, text: str) -> str:
    """What can be said of a failure that is not of ensue's code."""
    if isinstance(error, Py4JNetworkError):
        return "the Java process of Spark has ended; a stream goes on from its checkpoint when it is started again"
    if misfit := _MISFIT.search(text):
        return (
            f"a package is made for another version of Spark than this one, {spark_version()} (see --packages, and "
            f"[spark] packages): {misfit[0].strip()}"
        )
    if "UnknownTopicOrPartitionException" in text:
        return "Kafka has no topic of the name that is read or written, or lacks a partition of it that was there"
    reason = next((line for line in _PREAMBLE.sub("", text).splitlines() if line.strip()), type(error).__name__)
    return f"Spark has failed: {reason.strip()}"
