"""Errors that were raised in a worker or in a micro-batch, brought back from the depth of Spark's stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ensue import errors
from ensue.errors import EnsueError

_OURS = re.compile(r"^(?:\s*(?:[\w.]+Exception: )?)ensue\.[\w.]*?(\w+): ", re.MULTILINE)
_TRACE = re.compile(r"^\s*(?:at [\w.$/<>]+\(|File \"|Traceback|\.\.\. \d+ more|Caused by: |=== |\tat )", re.MULTILINE)


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
        reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        return SparkFailure(f"Spark has failed: {reason.strip()}")
    message = text[found.end() :]
    end = _TRACE.search(message)
    message = (message if end is None else message[: end.start()]).strip()
    kind = getattr(errors, found[1], SparkFailure)
    if not (isinstance(kind, type) and issubclass(kind, EnsueError)):
        kind = SparkFailure
    return kind(message)
