"""The webhook, against a real HTTP server: every match once with its key, retries, and what ends them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ensue.spark.settings import WebhookSink
from ensue.spark.webhook import WebhookError, post, post_rows


class Receiver:
    """An HTTP server that notes what it gets and answers as it is told: a status for each next request, then 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
                receiver.requests.append((self.headers["Idempotency-Key"], self.headers["X-Own"], json.loads(body)))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"said no" if status >= 400 else b"ok")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/matches"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def matches(count: int) -> list[tuple[str, str]]:
    return [(f"id{i}", json.dumps({"match_id": f"id{i}", "text": "é"})) for i in range(count)]


def test_a_post_for_each_match(receiver: Receiver) -> None:
    post_rows(matches(3), WebhookSink(receiver.url, headers={"X-Own": "yes"}))
    assert [(key, own, body["match_id"]) for key, own, body in receiver.requests] == [
        ("id0", "yes", "id0"),
        ("id1", "yes", "id1"),
        ("id2", "yes", "id2"),
    ]
    assert receiver.requests[0][2]["text"] == "é"


def test_several_matches_in_a_post(receiver: Receiver) -> None:
    sink = WebhookSink(receiver.url, batch=2)
    post_rows(matches(3), sink)
    post_rows(matches(3), sink)
    assert [[one["match_id"] for one in body] for _, _, body in receiver.requests] == [["id0", "id1"], ["id2"]] * 2
    assert sorted(Counter(key for key, _, _ in receiver.requests).values()) == [2, 2]  # the same key when repeated


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_what_may_pass_is_tried_again(receiver: Receiver, status: int) -> None:
    receiver.answers = [(status, {}), (status, {"Retry-After": "7"})]
    waits: list[float] = []
    post("{}", "id", WebhookSink(receiver.url, backoff=1.0), waits.append)
    assert len(receiver.requests) == 3
    assert waits == [1.0, 7.0]


def test_it_gives_up_in_the_end(receiver: Receiver) -> None:
    receiver.answers = [(500, {})] * 10
    waits: list[float] = []
    with pytest.raises(WebhookError, match=r"did not take match id in 4 tries; the last one: 500"):
        post("{}", "id", WebhookSink(receiver.url, retries=3, backoff=0.5), waits.append)
    assert waits == [0.5, 1.0, 2.0]


def test_a_refusal_is_final(receiver: Receiver) -> None:
    receiver.answers = [(404, {})]
    with pytest.raises(WebhookError, match="refuses match id: 404 Not Found: said no"):
        post("{}", "id", WebhookSink(receiver.url))
    assert len(receiver.requests) == 1


def test_no_one_is_there() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    url = f"http://127.0.0.1:{server.server_port}/"
    server.server_close()
    waits: list[float] = []
    with pytest.raises(WebhookError, match="Connection refused"):
        post("{}", "id", WebhookSink(url, retries=2), waits.append)
    assert len(waits) == 2
