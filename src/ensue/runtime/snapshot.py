"""Snapshots: an engine's state as bytes with a version and a checksum. Nothing in it is executed when it is read."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import StateError

MAGIC = b"ENSUE\x00"
VERSION = 1
_HEAD = struct.Struct("<6sHQ16s")  # magic, version, length of what follows, its checksum


def pack(state: Mapping[str, Any], arrays: Sequence[npt.NDArray[np.int64]], tables: Sequence[pa.Table]) -> bytes:
    """Bytes of JSON-able values, arrays of int64 and Arrow tables."""
    parts = [json.dumps(state).encode()]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays]
    parts += [_write_table(table) for table in tables]
    sizes = struct.pack(f"<III{len(parts)}Q", 1, len(arrays), len(tables), *map(len, parts))
    body = b"".join([sizes, *parts])
    return _HEAD.pack(MAGIC, VERSION, len(body), _checksum(body)) + body


def unpack(data: bytes) -> tuple[dict[str, Any], list[npt.NDArray[np.int64]], list[pa.Table]]:
    """What `pack` was given; raises StateError for bytes that are not a whole snapshot of this version."""
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise StateError("this is not a snapshot of ensue")
    _, version, length, checksum = _HEAD.unpack_from(data)
    if version != VERSION:
        raise StateError(f"the snapshot has version {version}; this version of ensue reads version {VERSION}")
    body = data[_HEAD.size :]
    if len(body) != length:
        raise StateError(f"the snapshot is damaged: {len(body):,} bytes where it should have {length:,}")
    if _checksum(body) != checksum:
        raise StateError("the snapshot is damaged: its checksum does not fit its content")
    _, arrays, tables = struct.unpack_from("<III", body)
    sizes = struct.unpack_from(f"<{1 + arrays + tables}Q", body, 12)
    place = 12 + 8 * len(sizes)
    parts = []
    for size in sizes:
        parts.append(body[place : place + size])
        place += size
    state: dict[str, Any] = json.loads(parts[0])
    return (
        state,
        [np.frombuffer(part, dtype=np.int64).copy() for part in parts[1 : 1 + arrays]],
        [_read_table(part) for part in parts[1 + arrays :]],
    )


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _write_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _read_table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
