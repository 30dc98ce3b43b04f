"""Events in columns: an Arrow table in event order, with the arrays that evaluation works on beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Accepted events, ordered by (end, arrival).

    `table` holds all columns, those of the schema cast to their types. `begin` is the very array `end` where events are
    points. `type_names[type_codes[i]]` is the type of row i; its sequence number is `first + i`, or `seqs[i]` of rows
    that were picked out of a stream.
    """

    table: pa.Table
    end: Int64s
    begin: Int64s
    type_codes: Int32s
    type_names: list[str]
    first: int
    seqs: Int64s | None = None

    def __len__(self) -> int:
        return len(self.end)

    def number(self, row: int) -> int:
        """The sequence number of a row."""
        return self.first + row if self.seqs is None else int(self.seqs[row])

    def place(self, number: int) -> int:
        """The row of the first event that has this sequence number, or a greater one."""
        return number - self.first if self.seqs is None else int(self.seqs.searchsorted(number))

    def slice(self, start: int, stop: int) -> EventBatch:
        """The events from `start` to before `stop`; nothing is copied."""
        end = self.end[start:stop]
        begin = end if self.begin is self.end else self.begin[start:stop]
        table = self.table.slice(start, stop - start)
        seqs = None if self.seqs is None else self.seqs[start:stop]
        return EventBatch(table, end, begin, self.type_codes[start:stop], self.type_names, self.first + start, seqs)


def encode_types(column: pa.ChunkedArray) -> tuple[Int32s, list[str]]:
    """The event types of a column without nulls as codes and names; an integer type is named by its digits.

    >>> codes, names = encode_types(pa.chunked_array([["A", "B"], ["B"]]))
    >>> codes.tolist(), names
    ([0, 1, 1], ['A', 'B'])
    """
    known: dict[str, int] = {}
    parts: list[Int32s] = []
    for chunk in column.chunks:
        if not len(chunk):
            continue
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        codes = [known.setdefault(str(word), len(known)) for word in encoded.dictionary.to_pylist()]
        indices = encoded.indices.to_numpy()
        if codes == list(range(len(codes))) and indices.dtype == np.int32:
            parts.append(indices)
        else:
            parts.append(np.array(codes, dtype=np.int32)[indices])
    if not parts:
        return np.empty(0, dtype=np.int32), []
    return (parts[0] if len(parts) == 1 else np.concatenate(parts)), list(known)


def plain_text(table: pa.Table) -> pa.Table:
    """The table with text out of dictionaries, so that tables of several batches have one layout."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table
