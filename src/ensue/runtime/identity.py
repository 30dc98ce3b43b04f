"""The identity of a match: a 128-bit hash of the query's name and of the content of its events.

It does not depend on how the input was cut, on the order of columns, on the width of integers, on columns that are
null, or on the order in which variables are listed. A hash is two lanes of 64 bits, each with its own seed.

- A value is mixed with its column's name; a whole float counts as the int. Text goes in by BLAKE2b, once for each
  distinct string. The type, begin and end of an event count under fixed names.
- An event's hash is the sum over its non-null columns, mixed with its number among the rows equal in all of them. For
  a query with RETURN only the columns that the query needs count, so that whoever was never given the others finds the
  same identities.
- A match's hash is the sum over its variables of name and event (for a list: name, and each place with its event), plus
  the query's name.

The mixing step is the finalizer of SplitMix64.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import InternalError
from ensue.events.batch import Int64s
from ensue.events.casting import is_text
from ensue.runtime.rows import RowView, find_places, group_places

Hashes = npt.NDArray[np.uint64]

_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_ROLE = "\0"  # before the fixed names: no column has such a name


def mix(values: Hashes) -> Hashes:
    """SplitMix64's finalizer, for each value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_text(text: str) -> int:
    """64 bits of a string."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def mix_name(name: str, lane: int) -> np.uint64:
    """64 bits of a name, in one lane."""
    return np.uint64(mix(np.array([hash_text(name) ^ _SEEDS[lane]], dtype=np.uint64))[0])


class EventHashes:
    """The hashes of stored events, each worked out once for a view of the rows."""

    def __init__(self, rows: RowView, seqs: Int64s, columns: Collection[str] | None = None) -> None:
        """Work out the hashes of these events (ascending sequence numbers, each once) over `columns` (None: all)."""
        self._seqs = seqs
        self._index: Int64s | None = None
        if len(seqs) and int(seqs[-1]) - int(seqs[0]) < 8 * len(seqs):  # a table to look in beats a search
            self._index = np.zeros(int(seqs[-1]) - int(seqs[0]) + 1, dtype=np.int64)
            self._index[seqs - seqs[0]] = np.arange(len(seqs))
        lanes = hash_rows(rows, seqs, columns)
        number = number_among_equals(rows, seqs, columns).astype(np.uint64)
        self._lanes = tuple(mix(lane + number * np.uint64(_SEEDS[0])) for lane in lanes)

    def lane(self, lane: int, seqs: Int64s) -> Hashes:
        """One lane of the hashes of these events."""
        places = np.searchsorted(self._seqs, seqs) if self._index is None else self._index[seqs - self._seqs[0]]
        hashes: Hashes = self._lanes[lane][places]
        return hashes


def hash_rows(rows: RowView, seqs: Int64s, columns: Collection[str] | None = None) -> tuple[Hashes, Hashes]:
    """The content hashes of rows over `columns` (None: all), in two lanes; equal rows have equal ones.

    The type and the times always count.
    """
    table, begin, end = rows.take_timed(seqs)
    schema = rows.schema
    roles = {schema.type, schema.time, schema.begin}
    lanes = (np.zeros(len(seqs), dtype=np.uint64), np.zeros(len(seqs), dtype=np.uint64))

    def add(name: str, bits: Hashes, there: npt.NDArray[np.bool_] | None) -> None:
        for lane, total in enumerate(lanes):
            mixed = mix(mix(bits ^ np.uint64(_SEEDS[lane])) + mix_name(name, lane))
            total += mixed if there is None else np.where(there, mixed, np.uint64(0))

    add(_ROLE + "begin", begin.view(np.uint64), None)
    add(_ROLE + "end", end.view(np.uint64), None)
    kinds = table.column(schema.type)
    add(_ROLE + "type", _text_bits(kinds if is_text(kinds.type) else kinds.cast(pa.string())), None)
    for name in table.column_names:
        if name not in roles and (columns is None or name in columns):
            bits, there = _bits(table.column(name))
            add(name, bits, there)
    return lanes


def number_among_equals(rows: RowView, seqs: Int64s, columns: Collection[str] | None = None) -> Int64s:
    """For each of these rows, how many rows before it are equal to it in `columns` (None: all), type and times."""
    numbers = np.zeros(len(seqs), dtype=np.int64)
    if not len(seqs):
        return numbers
    which, places = rows.locate(seqs)
    # only a row whose predecessor has the same time can have an equal before it
    tied = np.zeros(len(seqs), dtype=np.bool_)
    for chunk_number, here in group_places(which):
        end = rows.chunks[chunk_number].times()[1]
        inside = here[places[here] > 0]
        tied[inside] = end[places[inside]] == end[places[inside] - 1]
        if chunk_number:
            last = rows.chunks[chunk_number - 1].times()[1][-1]
            outside = here[places[here] == 0]
            tied[outside] = end[0] == last
    if not tied.any():
        return numbers
    wanted = np.flatnonzero(tied)
    low, high = int(which[wanted].min()), int(which[wanted].max())
    first = rows.chunks[low].times()[1][0]
    while low and rows.chunks[low - 1].times()[1][-1] == first:
        low -= 1
        first = rows.chunks[low].times()[1][0]
    span = rows.chunks[low : high + 1]
    end = np.concatenate([chunk.times()[1] for chunk in span])
    numbered = np.concatenate([chunk.seqs for chunk in span])
    at = find_places(numbered, seqs[wanted])
    if at is None:
        raise InternalError("a row has no place among the stored rows")
    starts = np.searchsorted(end, end[at], side="left")
    marks = np.bincount(starts, minlength=len(end) + 1) - np.bincount(at + 1, minlength=len(end) + 1)
    group = np.flatnonzero(np.cumsum(marks)[:-1] > 0)
    left, right = hash_rows(rows, numbered[group], columns)
    order = np.lexsort((group, right, left))
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (left[order][1:] != left[order][:-1]) | (right[order][1:] != right[order][:-1])
    run_start = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - run_start
    numbers[wanted] = rank[np.searchsorted(group, at)]
    return numbers


def to_hex(left: Hashes, right: Hashes) -> pa.Array:
    """128-bit hashes as 32 hexadecimal digits each."""
    digits = np.stack([left, right], axis=1).astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(left) + 1, dtype=np.int32) * 32
    return pa.Array.from_buffers(pa.string(), len(left), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _bits(column: pa.ChunkedArray) -> tuple[Hashes, npt.NDArray[np.bool_] | None]:
    """64 bits for each value of a column, and which values are there (None: all)."""
    there = column.is_valid().to_numpy() if column.null_count else None
    kind = column.type
    if is_text(kind):
        return _text_bits(column), there
    if pa.types.is_floating(kind):
        values = (column.fill_null(np.nan) if there is not None else column).cast(pa.float64()).to_numpy()
        number = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
        as_int = np.where(whole, values, 0.0).astype(np.int64)
        bits = np.where(whole, as_int.view(np.uint64), mix(values.view(np.uint64) + np.uint64(1)))
        return bits, None if number.all() else number
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        numbers = column.cast(pa.int64())
        return (numbers.fill_null(0) if there is not None else numbers).to_numpy().view(np.uint64), there
    if pa.types.is_boolean(kind):
        flags = (column.fill_null(False) if there is not None else column).to_numpy()
        return np.where(flags, np.uint64(hash_text("\0true")), np.uint64(hash_text("\0false"))), there
    texts = pa.chunked_array([pa.array([_canonical(value) for value in column.to_pylist()], pa.string())])
    return _text_bits(texts), there


def _text_bits(column: pa.ChunkedArray) -> Hashes:
    parts = []
    for chunk in column.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = np.array([hash_text(w) for w in encoded.dictionary.to_pylist()] or [0], dtype=np.uint64)
        indices = encoded.indices
        parts.append(words[(indices.fill_null(0) if indices.null_count else indices).to_numpy()])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _canonical(value: Any) -> str:
    """A nested value as text that does not depend on the order of fields, nor on fields that are null."""

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return {str(k): plain(v) for k, v in part.items() if v is not None}
        if isinstance(part, list | tuple):
            return [plain(v) for v in part]
        if isinstance(part, float) and part.is_integer():
            return int(part)
        return part

    return json.dumps(plain(value), sort_keys=True, default=repr)
