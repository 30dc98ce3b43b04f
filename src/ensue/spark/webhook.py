"""Matches by HTTP: a POST for each, sent by the worker that found it, again and again until it is taken.

A request carries `Idempotency-Key`, the match_id (of several matches a hash of theirs), so that a receiver can tell one
that it has had before: after a failure in the middle of a micro-batch all its matches are sent once more.
"""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from itertools import islice
from typing import TYPE_CHECKING, Any

from ensue.errors import EnsueError
from ensue.spark.settings import WebhookSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST_WAIT = 60.0
_TRY_AGAIN = {408, 425, 429}


class WebhookError(EnsueError):
    """The receiver did not take a match."""


def post_matches(objects: DataFrame, sink: WebhookSink) -> None:
    """Send every match; `objects` has the columns `match_id` and `value` (JSON). Returns when all are taken."""
    objects.foreachPartition(lambda rows: post_rows(((row.match_id, row.value) for row in rows), sink))


def post_rows(matches: Iterable[tuple[str, str]], sink: WebhookSink) -> None:
    """Send matches, given as id and JSON, `sink.batch` at a time."""
    remaining = iter(matches)
    while several := list(islice(remaining, sink.batch)):
        if sink.batch == 1:
            key, body = several[0]
        else:
            key = hashlib.sha256("\n".join(match_id for match_id, _ in several).encode()).hexdigest()
            body = f"[{', '.join(text for _, text in several)}]"
        post(body, key, sink)


def post(body: str, key: str, sink: WebhookSink, sleep: Callable[[float], object] = time.sleep) -> None:
    """Send one request; after a failure that may pass, again, with longer and longer waits."""
    headers = {"Content-Type": "application/json", **sink.headers, "Idempotency-Key": key}
    request = urllib.request.Request(sink.url, body.encode("utf-8"), headers, method="POST")
    waits = _waits(sink)
    while True:
        problem, asked = _try_once(request, sink.timeout)
        if problem is None:
            return
        wait = next(waits, None)
        if wait is None:
            raise WebhookError(
                f"{sink.url} did not take match {key} in {sink.retries + 1} tries; the last one: {problem}. The "
                "micro-batch has failed and is sent again when the run is started again; see to the receiver first"
            )
        sleep(wait if asked is None else min(max(asked, wait), LONGEST_WAIT))


def _waits(sink: WebhookSink) -> Iterator[float]:
    for number in range(sink.retries):
        yield min(sink.backoff * 2**number, LONGEST_WAIT)


def _try_once(request: urllib.request.Request, timeout: float) -> tuple[str | None, float | None]:
    """What went wrong (None: nothing), and how many seconds the receiver asks to wait."""
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            response.read()
        return None, None
    except urllib.error.HTTPError as error:
        with error:
            problem = f"{error.code} {error.reason}"
            if error.code < 500 and error.code not in _TRY_AGAIN:
                text = error.read(500).decode("utf-8", "replace").strip()
                raise WebhookError(
                    f"{request.full_url} refuses match {request.get_header('Idempotency-key')}: {problem}"
                    f"{f': {text}' if text else ''}. Trying again would not help: correct the url, the headers or the "
                    "receiver, and start the run again"
                ) from error
            return problem, _seconds(error.headers.get("Retry-After"))
    except (OSError, HTTPException) as error:  # no connection, a timeout, a broken answer
        return str(error) or type(error).__name__, None


def _seconds(text: Any) -> float | None:
    return float(text) if isinstance(text, str) and text.isdecimal() else None
