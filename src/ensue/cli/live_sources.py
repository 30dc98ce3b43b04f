"""Events as they come: lines of JSON or CSV from standard input, a socket on this machine or a file, each as a dict.

Lines are taken as soon as they are there and read one by one, which is quicker for few events than the way of blocks.
"""

from __future__ import annotations

import csv
import json
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import click
import pyarrow as pa

from ensue.cli.blocks import open_file, read_pipe
from ensue.cli.rows import CsvRows, JsonRows, Unreadable, read_value
from ensue.errors import InputError
from ensue.events.casting import arrow_type
from ensue.events.schema import DType

Event: TypeAlias = dict[str, Any]
CHUNK = 1 << 16
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NULLS = ("", "null", "NULL")


class Feed(Protocol):
    """Where bytes come from. `chunks` gives what is there, each time of a new sender from its start."""

    def chunks(self) -> Iterator[Iterator[bytes]]:
        """For each sender, pieces of bytes as they come."""

    def stop(self) -> None:
        """Let `chunks` end soon, from another thread."""


@dataclass(slots=True)
class PipeFeed:
    """Standard input, or a file."""

    path: str

    def chunks(self) -> Iterator[Iterator[bytes]]:
        """One sender."""
        if self.path == "-":
            yield iter(lambda: read_pipe(sys.stdin.buffer, CHUNK), b"")
            return
        with open_file(self.path) as stream:
            yield iter(lambda: stream.read(CHUNK), b"")

    def stop(self) -> None:
        """Nothing to do: whoever waits for a pipe is not asked to go on."""


class SocketFeed:
    """Whoever connects to a port of this machine, one after the other."""

    def __init__(self, host: str, port: int, *, keep_listening: bool) -> None:
        self.keep_listening = keep_listening
        self._open: list[socket.socket] = []
        try:
            self.listener = socket.create_server((host, port), family=_family(host))
        except OSError as error:
            raise InputError(f"cannot listen on tcp://{host}:{port}: {error.strerror or error}") from error
        self.port = int(self.listener.getsockname()[1])

    def chunks(self) -> Iterator[Iterator[bytes]]:
        """A sender for each connection; the first only, unless it keeps listening."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # stopped
            self._open.append(connection)
            with connection:
                yield _received(connection)
            if not self.keep_listening:
                return

    def stop(self) -> None:
        """Close what is open, so that whoever waits for it goes on."""
        for one in (self.listener, *self._open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was not connected, or is closed already
        self.listener.close()


def _received(connection: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = connection.recv(CHUNK)
        except OSError:
            return
        if not data:
            return
        yield data


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def open_feed(source: str, *, keep_listening: bool) -> Feed:
    """The feed that `--input` names: `-`, `tcp://127.0.0.1:PORT` or a file."""
    if not source.startswith("tcp://"):
        if source != "-" and not Path(source).is_file():
            raise click.UsageError(f"no such file: {source}; give a file, - or tcp://127.0.0.1:PORT")
        return PipeFeed(source)
    try:
        host, port = urlsplit(source).hostname, urlsplit(source).port
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from error
    if host not in LOOPBACK or port is None:
        raise click.UsageError(f"{source} is not tcp://127.0.0.1:PORT: it listens on this machine only")
    return SocketFeed(host, port, keep_listening=keep_listening)


def lines_of(chunks: Iterator[bytes]) -> Iterator[bytes]:
    r"""The lines in pieces of bytes, as soon as each is whole; the last needs no line end.

    >>> list(lines_of(iter([b"a\nb", b"c\n", b"d"])))
    [b'a', b'bc', b'd']
    """
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        yield from whole
    if rest:
        yield rest


@dataclass(slots=True)
class LineReader:
    """Makes events of lines. What the first of them hold settles the types, unless they are given.

    `started` is told the columns before the first event, so that the engine knows them.
    """

    started: Callable[[pa.Schema], object]
    unreadable: Callable[[Unreadable], object]
    format: str | None = None
    fixed: Mapping[str, DType] = field(default_factory=dict)
    numeric: Collection[str] = ()
    text: Collection[str] = ()
    types: dict[str, pa.DataType] = field(default_factory=dict)

    def events(self, chunks: Iterator[bytes]) -> Iterator[Event]:
        """The events of a sender."""
        first = b""
        while not _can_start(first) and (more := next(chunks, b"")):
            first = (first + more).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not first:
            return
        kind = self.format or ("jsonl" if first.startswith(b"{") else "csv")
        lines = lines_of(_chain(first, chunks))
        yield from self._read_json(lines, first) if kind == "jsonl" else self._read_csv(lines, first, kind)

    def _settle(self, found: dict[str, pa.DataType]) -> None:
        if not self.types:
            given = {name: arrow_type(dtype) for name, dtype in self.fixed.items()}
            self.types = found | given | dict.fromkeys(self.text, pa.string())
            self.started(pa.schema(list(self.types.items())))

    def _read_json(self, lines: Iterator[bytes], first: bytes) -> Iterator[Event]:
        self._settle(JsonRows().infer(first[: first.rfind(b"\n") + 1] or first, self.numeric))
        floats = [name for name, kind in self.types.items() if pa.types.is_floating(kind)]
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                if line.strip():
                    self._refuse(line, f"not JSON: {error}")
                continue
            if not isinstance(event, dict):
                self._refuse(line, "not a JSON object")
                continue
            for name in floats:
                if type(event.get(name)) is int:
                    event[name] = float(event[name])
            yield event

    def _read_csv(self, lines: Iterator[bytes], first: bytes, kind: str) -> Iterator[Event]:
        delimiter = "\t" if kind == "tsv" else ","
        rows = CsvRows(delimiter)
        body = rows.take_header(first)
        self._settle(rows.infer(body[: body.rfind(b"\n") + 1] or body, self.numeric))
        next(lines)
        names = rows.names
        kinds = [self.types.get(name, pa.string()) for name in names]
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")
            if not text:
                continue
            values = next(csv.reader([text], delimiter=delimiter), [])
            if len(values) != len(names):
                self._refuse(line, f"{len(values)} values, but the header names {len(names)} columns")
                continue
            cells = zip(names, values, kinds, strict=True)
            yield {name: None if text in NULLS else read_value(text, kind) for name, text, kind in cells}

    def _refuse(self, line: bytes, reason: str) -> None:
        self.unreadable(Unreadable(line.decode(errors="replace").strip(), reason))


def _can_start(first: bytes) -> bool:
    """Whether there is a whole object, or a header and a row."""
    return first.count(b"\n") >= (1 if first.startswith(b"{") else 2)


def _chain(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from chunks
