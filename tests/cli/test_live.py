"""`ensue live` with real pipes and sockets."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ensue.cli.live_sources import LineReader, lines_of

from .conftest import Shell

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10"
EVENTS = [("A", 1, 1), ("B", 2, 5), ("A", 3, 4), ("B", 4, 2), ("B", 13, 9), ("A", 14, 1)]
PAIRS = [(1, 2), (1, 4)]  # 3 and 13 are a window apart
JSON = "".join(json.dumps({"type": kind, "ts": ts, "x": x}) + "\n" for kind, ts, x in EVENTS)
CSV = "type,ts,x\n" + "".join(f"{kind},{ts},{x}\n" for kind, ts, x in EVENTS)


def pairs_in(text: str) -> list[tuple[int, int]]:
    rows = map(json.loads, text.splitlines())
    return [(row["events"]["a"]["ts"], row["events"]["b"]["ts"]) for row in rows]


@pytest.mark.parametrize(("text", "name"), [(JSON, "events.jsonl"), (CSV, "events.csv"), (CSV.replace(",", "\t"), "t")])
def test_files_and_standard_input(shell: Shell, tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    more = ["--input-format", "tsv"] if name == "t" else []
    code, out, err = shell("live", QUERY, "-i", path, *more)
    assert code == 0 and pairs_in(out) == PAIRS
    assert "6 events in: 6 processed, 0 late, 0 rejected, 0 held; 2 matches" in err
    assert all(word in err for word in ("queue", "service", "latency", "99.9 %"))
    code, out, err = shell("live", QUERY, *more, "--quiet", stdin=text)
    assert code == 0 and pairs_in(out) == PAIRS and err == ""


def test_a_pipe_gets_each_match_at_once_and_ctrl_c_ends_it() -> None:
    command = [sys.executable, "-m", "ensue", "live", QUERY + " USING ANY", "--objective", "latency"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin and process.stdout and process.stderr
        for line in JSON.splitlines()[:2]:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
        assert pairs_in(process.stdout.readline().decode()) == [(1, 2)]  # while the input is open
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert b"2 events in: 2 processed" in process.stderr.read()


def test_a_socket_takes_one_sender_after_the_other(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = tmp_path / "matches.jsonl"
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "ensue", "live", QUERY, "-i", address, "-o", out, "--keep-listening"]
    lines = JSON.encode().splitlines(keepends=True)
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        send(port, b"".join(lines[:3]) + b"what?\n", process)
        send(port, lines[3][:9], process, lines[3][9:])  # a line in two pieces
        deadline = time.monotonic() + 60
        while out_lines(out) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert b"5 events in: 4 processed, 0 late, 1 rejected" in process.stderr.read()
    assert pairs_in(out.read_text()) == [(1, 2), (1, 4)]


def out_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def send(port: int, data: bytes, process: subprocess.Popen[bytes], *more: bytes) -> None:
    """Connect, as soon as somebody listens, and send pieces one after the other."""
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None and time.monotonic() < deadline
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    with connection:
        for piece in (data, *more):
            connection.sendall(piece)
            time.sleep(0.02)


def test_what_cannot_be_read_is_kept_and_counted(shell: Shell, tmp_path: Path) -> None:
    rejects, late = tmp_path / "rejects.jsonl", tmp_path / "late.jsonl"
    bad = 'nothing\n[1]\n\n{"type": "A", "ts": null, "x": 1}\n{"type": "A", "ts": 2, "x": 1}\n'
    code, out, err = shell("live", QUERY, "--rejects", rejects, "--late", late, stdin=JSON + bad)
    assert code == 0 and pairs_in(out) == PAIRS
    assert "10 events in: 6 processed, 1 late, 3 rejected" in err and "first rejected: not JSON" in err
    assert len(rejects.read_text().splitlines()) == 3 and len(late.read_text().splitlines()) == 1
    code, _, err = shell("live", QUERY, stdin=CSV + "A,15\n")
    assert code == 0 and "first rejected: 2 values, but the header names 3 columns" in err


def test_lateness_puts_events_in_order(shell: Shell) -> None:
    lines = JSON.splitlines(keepends=True)
    code, out, err = shell("live", QUERY, "--lateness", "20", stdin="".join(reversed(lines)))
    assert code == 0 and sorted(pairs_in(out)) == PAIRS and "0 late" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "tcp://example.org:80"], "listens on this machine only"),
        (["-i", "tcp://127.0.0.1"], "is not tcp://127.0.0.1:PORT"),
        (["-i", "tcp://127.0.0.1:99999"], "out of range"),
        (["-i", "nowhere.jsonl"], "no such file"),
        (["--queue", "0"], "--queue"),
    ],
)
def test_what_is_refused(shell: Shell, arguments: list[str], message: str) -> None:
    code, _, err = shell("live", QUERY, *arguments)
    assert code == 2 and message in err
    code, _, err = shell("live", QUERY.replace(" WITHIN 10", ""), stdin=JSON)
    assert code == 2 and "has no window" in err


def test_a_port_that_is_taken(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, _, err = shell("live", QUERY, "-i", f"tcp://127.0.0.1:{other.getsockname()[1]}")
    assert code == 1 and "cannot listen on tcp://127.0.0.1" in err


def test_lines_come_as_soon_as_they_are_whole() -> None:
    """The first event does not wait for the second, nor a row for the next."""
    told: list[str] = []

    def chunks():  # type: ignore[no-untyped-def]
        for piece in (b'{"type": "A", ', b'"ts": 1, "x": 1}\n', b'{"type": "B", "ts": 2, "x": 2.5}\n{"ty'):
            told.append("read")
            yield piece

    reader = LineReader(lambda schema: None, lambda row: told.append(row.reason))
    events = reader.events(chunks())
    assert next(events)["ts"] == 1 and told == ["read"] * 2
    assert next(events)["x"] == 2.5 and told == ["read"] * 3
    assert list(events) == [] and "not JSON" in told[-1]
    assert list(lines_of(iter([]))) == []


def test_integers_in_a_column_of_numbers(shell: Shell, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "string", "ts": "int64", "x": "float64"}))
    mixed = JSON.replace('"x": 5', '"x": 5.5')
    code, out, err = shell("live", QUERY, "--schema", schema, stdin=mixed)
    assert code == 0 and pairs_in(out) == PAIRS and "0 rejected" in err
    assert "5.5" in out
