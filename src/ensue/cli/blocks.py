"""Bytes as they come in, cut where a record ends."""

from __future__ import annotations

import gzip
import io
import os
import select
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

GZIP_MAGIC = b"\x1f\x8b"


def is_packed(path: str) -> bool:
    """Whether a file is gzip, told by its first bytes, not by its name."""
    with open(path, "rb") as raw:
        return raw.read(2) == GZIP_MAGIC


def open_file(path: str) -> BinaryIO:
    """A file for reading, unpacked on the way if it is gzip."""
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed(path) else open(path, "rb")


class Pipe:
    """A stream that cannot be read twice, taken as it comes: a read waits for the first byte only."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.ahead = b""

    def peek(self, size: int) -> bytes:
        """What is there now, which stays to be read."""
        if not self.ahead:
            self.ahead = read_pipe(self.stream, size)
        return self.ahead

    def read(self, size: int) -> bytes:
        """Up to `size` bytes (or those peeked at); empty at the end."""
        data, self.ahead = self.ahead, b""
        return data or read_pipe(self.stream, size)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def read_pipe(stream: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes of what is there now; waits for the first byte only. Empty at the end."""
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return stream.read(size)
    pieces = [os.read(descriptor, size)]
    total = len(pieces[0])
    while pieces[-1] and total < size and select.select([descriptor], [], [], 0)[0]:
        pieces.append(os.read(descriptor, size - total))
        total += len(pieces[-1])
    return b"".join(pieces)


def whole_records(data: bytes, quote: bytes | None) -> int:
    """How many of the bytes are whole lines; a line end between two `quote`s is part of a value.

    >>> whole_records(b'1,2\\n3,"a\\nb', b'"')
    4
    """
    at = data.rfind(b"\n")
    if quote is None or at < 0:
        return at + 1
    quotes = data.count(quote, 0, at)
    while quotes % 2 and at >= 0:
        before = data.rfind(b"\n", 0, at)
        quotes -= data.count(quote, before + 1, at)
        at = before
    return at + 1


def cut_blocks(read: Callable[[int], bytes], size: int, quote: bytes | None) -> Iterator[bytes]:
    """Blocks of about `size` bytes that end where a record ends; the last one may lack its line end."""
    rest = b""
    while piece := read(size):
        rest += piece
        end = whole_records(rest, quote)
        if end == 0 and len(rest) > 8 * size:
            end = whole_records(rest, None)  # a stray quote must not swallow the whole stream
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest
