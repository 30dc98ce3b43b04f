"""The rows that may still be in a result, found by sequence number; results are made from them when someone looks."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import InternalError, StateError
from ensue.events.batch import EventBatch, Int64s, encode_types, plain_text
from ensue.events.casting import arrow_type, infer_aware, infer_dtype
from ensue.events.intake import cast_table, event_times
from ensue.events.readers import read_table
from ensue.events.schema import Schema
from ensue.events.times import NULL, read_time

_FORMAT = 2
_SMALL = 4_096  # chunks below this many rows are merged with their neighbours
_LISTED = 128  # as long a list of dicts is made a table to be merged with one
_LONGEST_LIST = 1_024  # longer lists of dicts are not joined: who looks at one makes a table of all of it
_SPARSE = 4  # a chunk is cut once less than one in this many of its rows is live
_LARGE = 8_192  # and what is left of one with as many rows is copied; of others it takes longer than it is worth


class Chunk:
    """Some rows, by ascending sequence number: an Arrow table, or a list of dicts until someone needs the table."""

    __slots__ = ("_rows", "_schema", "_table", "begin", "end", "seqs")

    def __init__(
        self,
        seqs: Int64s,
        schema: Schema,
        table: pa.Table | None = None,
        times: tuple[Int64s, Int64s] | None = None,
        rows: list[Mapping[str, Any]] | None = None,
    ) -> None:
        self.seqs = seqs
        self._schema = schema
        self._table = table
        self._rows = rows
        self.begin: Int64s | None = None
        self.end: Int64s | None = None
        if times is not None:
            self.begin, self.end = times

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def is_listed(self) -> bool:
        """Whether the rows are still a list of dicts."""
        return self._table is None

    def table(self) -> pa.Table:
        """The rows as an Arrow table, text out of dictionaries; made once."""
        if self._table is None:
            self._table, self.end, self.begin = _tabulate(self._rows or [], self._schema)
            self._rows = None
        return self._table

    def times(self) -> tuple[Int64s, Int64s]:
        """The begins and the ends."""
        if self.begin is None or self.end is None:
            self.table()
        if self.begin is None or self.end is None:
            raise InternalError("a chunk of rows without times")
        return self.begin, self.end

    def end_at(self, place: int) -> int:
        """The end of one row; for a list of dicts without making a table of it."""
        if self._rows is not None:
            return read_time(self._rows[place][self._schema.time])
        return int(self.times()[1][place])

    def first_after(self, time: int) -> int:
        """The place of the first row that ends after a time, the number of rows if there is none."""
        if self._rows is not None:
            return bisect_right(range(len(self)), time, key=self.end_at)
        return int(self.times()[1].searchsorted(time, side="right"))

    def dicts(self, stop: int) -> list[Mapping[str, Any]]:
        """The rows before a place, if they are still a list of dicts; none otherwise."""
        return [] if self._rows is None else self._rows[:stop]

    def cut(self, start: int, *, copy: bool = False) -> Chunk:
        """The rows from `start` on."""
        seqs = self.seqs[start:]
        if self._rows is not None:
            return Chunk(seqs, self._schema, rows=self._rows[start:])
        begin, end = self.times()
        table = self.table()
        kept, heads, tails = table.slice(start), begin[start:], end[start:]
        if copy:
            kept = plain_text(kept).take(pa.array(np.arange(len(seqs))))
            seqs, heads, tails = seqs.copy(), heads.copy(), tails.copy()
        return Chunk(seqs, self._schema, kept, (tails if begin is end else heads, tails))

    def join(self, other: Chunk) -> Chunk:
        """The rows of two neighbours as one chunk."""
        seqs = np.concatenate([self.seqs, other.seqs])
        if self._rows is not None and other._rows is not None:
            return Chunk(seqs, self._schema, rows=self._rows + other._rows)
        mine, others = self.times(), other.times()
        table = join_layouts([self.table(), other.table()]).combine_chunks()
        end = np.concatenate([mine[1], others[1]])
        points = mine[0] is mine[1] and others[0] is others[1]
        return Chunk(seqs, self._schema, table, (end if points else np.concatenate([mine[0], others[0]]), end))

    @property
    def nbytes(self) -> int:
        """How much memory the rows take; an estimate while they are dicts."""
        if self._rows is not None:
            return _guess_bytes(len(self._rows), self._schema)
        return (
            int(self.table().get_total_buffer_size()) + self.seqs.nbytes + (0 if self.end is None else self.end.nbytes)
        )


class Tail:
    """Rows that come one by one: a chunk once someone looks at them; the store then begins another tail."""

    __slots__ = ("chunk", "rows", "seqs")

    def __init__(self) -> None:
        self.seqs = array("q")  # beside the rows, not in pairs with them: pairs would wake the garbage collector
        self.rows: list[Mapping[str, Any]] = []
        self.chunk: Chunk | None = None

    def close(self, schema: Schema) -> Chunk:
        """The rows as a chunk, to which nothing is added any more."""
        if self.chunk is None:
            self.chunk = Chunk(np.array(self.seqs, dtype=np.int64), schema, rows=self.rows)
        return self.chunk


@dataclass(frozen=True, slots=True, eq=False)
class RowView:
    """The rows that a store held at some moment, at least: whatever the store does then, they stay. Cheap to make."""

    settled: tuple[Chunk, ...]
    tail: Tail
    schema: Schema
    base: pa.Schema

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The rows, by ascending sequence number."""
        return (*self.settled, self.tail.close(self.schema)) if self.tail.seqs else self.settled

    def layout(self) -> pa.Schema:
        """The columns of the rows."""
        return union_layout([self.base, *(plain_layout(chunk.table().schema) for chunk in self.chunks)])

    def locate(self, seqs: Int64s) -> tuple[Int64s, Int64s]:
        """For each sequence number its chunk and its place there."""
        starts = np.array([chunk.seqs[0] for chunk in self.chunks], dtype=np.int64)
        which = np.searchsorted(starts, seqs, side="right") - 1
        places = np.empty(len(seqs), dtype=np.int64)
        for number, here in group_places(which):
            wanted = seqs[here]
            found = None if number < 0 else find_places(self.chunks[number].seqs, wanted)
            if found is None:
                raise InternalError("a row that was released, or never stored, is asked for")
            places[here] = found
        return which.astype(np.int64), places

    def take(self, seqs: Int64s) -> pa.Table:
        """The rows with these sequence numbers, in this order."""
        return self.take_timed(seqs)[0]

    def take_timed(self, seqs: Int64s) -> tuple[pa.Table, Int64s, Int64s]:
        """The rows with these sequence numbers, in this order, and their begins and ends."""
        layout = self.layout()
        begin, end = np.empty(len(seqs), dtype=np.int64), np.empty(len(seqs), dtype=np.int64)
        if not len(seqs):
            return layout.empty_table(), begin, end
        which, places = self.locate(seqs)
        parts, order = [], []
        for number, here in group_places(which):
            chunk, local = self.chunks[number], places[here]
            chunk_begin, chunk_end = chunk.times()
            begin[here], end[here] = chunk_begin[local], chunk_end[local]
            parts.append(fill_layout(plain_text(chunk.table().take(pa.array(local))), layout))
            order.append(here)
        if len(parts) == 1:
            return parts[0], begin, end
        back = np.empty(len(seqs), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(seqs))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(back)), begin, end


class RowStore:
    """Keeps rows by sequence number until they are released.

    >>> from ensue.events.intake import Intake
    >>> intake = Intake()
    >>> batch = intake.push([{"type": "A", "ts": 1}, {"type": "B", "ts": 2}])
    >>> store = RowStore(intake.schema)
    >>> store.append(batch)
    >>> store.take(np.array([1, 0, 1]))["type"].to_pylist()
    ['B', 'A', 'B']
    """

    def __init__(self, schema: Schema, layout: pa.Schema | None = None) -> None:
        self.schema = schema
        self._base = plain_layout(layout) if layout is not None else None
        self._chunks: list[Chunk] = []
        self._tail = Tail()
        self.lost = (-1, NULL)  # the number and the end of the last row that was forgotten; all later ones are there
        self._forgotten: list[Mapping[str, Any]] = []  # are freed one by one: all at once keeps an event waiting
        self._is_cut = False  # the memory of the first chunk still has rows in it that were forgotten
        self._unkept: npt.NDArray[np.bool_] | None = None  # rows of the last chunk to keep, once it must stay longer

    def __len__(self) -> int:
        return sum(map(len, self._chunks)) + len(self._tail.seqs)

    def append(self, batch: EventBatch, keep: npt.NDArray[np.bool_] | None = None) -> None:
        """Store the rows of a batch, or those that the mask keeps. Later rows must have greater sequence numbers."""
        self._settle()
        self._thin()
        self._forgotten.clear()
        if self._base is None:
            self._base = plain_layout(batch.table.schema)
        if not len(batch) or (keep is not None and not keep.any()):
            return
        seqs = np.arange(batch.first, batch.first + len(batch), dtype=np.int64)
        self._chunks.append(Chunk(seqs, self.schema, batch.table, (batch.begin, batch.end)))
        if keep is not None and not keep.all():
            self._unkept = keep
        else:
            self._merge()

    def append_one(self, seq: int, row: Mapping[str, Any]) -> None:
        """Store one row that was accepted; the mapping must not be changed afterwards."""
        if self._tail.chunk is not None:
            self._settle()
        self._tail.seqs.append(seq)
        self._tail.rows.append(row)
        if self._forgotten:
            del self._forgotten[-2:]

    def take(self, seqs: Int64s) -> pa.Table:
        """The rows with these sequence numbers, in this order; a number may come more than once."""
        return self.view().take(seqs)

    def view(self) -> RowView:
        """The rows as they are now, for results that are made later."""
        base = self._base
        if base is None:
            base = pa.schema([(name, arrow_type(dtype)) for name, dtype in self.schema.columns.items()])
        return RowView(tuple(self._chunks), self._tail, self.schema, base)

    def first_after(self, time: int) -> int | None:
        """The sequence number of the first row that ends after a time; None if there is none."""
        self._settle()
        for chunk in self._chunks:
            if chunk.end_at(len(chunk) - 1) > time:
                return int(chunk.seqs[chunk.first_after(time)])
        return None

    def batches(self, first: int) -> list[EventBatch]:
        """The rows from a sequence number on, as batches in their order."""
        self._settle()
        self._thin()
        found = []
        for chunk in self._chunks:
            start = int(np.searchsorted(chunk.seqs, first))
            if start < len(chunk.seqs):
                begin, end = chunk.times()
                table, ends, seqs = chunk.table().slice(start), end[start:], chunk.seqs[start:]
                codes, names = encode_types(table.column(self.schema.type))
                begins = ends if begin is end else begin[start:]
                found.append(EventBatch(table, ends, begins, codes, names, int(seqs[0]), seqs))
        return found

    def release(self, before: int) -> None:
        """Forget rows below this sequence number.

        Rows with the same time as the first that stays are kept: they tell equal rows apart (see `identity`).
        """
        self._settle()
        if self._cut_newest(before):
            return
        self._thin()
        chunks = self._chunks
        if not chunks or int(chunks[0].seqs[0]) >= before:
            return
        number = next((i for i, chunk in enumerate(chunks) if chunk.seqs[-1] >= before), len(chunks) - 1)
        place = min(int(chunks[number].seqs.searchsorted(before)), len(chunks[number]) - 1)
        time = chunks[number].end_at(place)
        while True:
            place = self._first_at(chunks[number], place, time)
            if place or not number or chunks[number - 1].end_at(len(chunks[number - 1]) - 1) != time:
                break
            number -= 1
            place = len(chunks[number]) - 1
        first = chunks[number]
        for chunk in chunks[:number]:
            self._lose(chunk, len(chunk))
        if place * _SPARSE > len(first) * (_SPARSE - 1):
            self._lose(first, place)
            self._is_cut = len(first) < _LARGE
            first = first.cut(place, copy=not self._is_cut)
        self._chunks = [first, *chunks[number + 1 :]]

    def free_forgotten(self) -> None:
        """Free the memory of all rows that were forgotten."""
        self._forgotten.clear()
        if self._is_cut:
            self._chunks[:1] = [chunk.cut(0, copy=True) for chunk in self._chunks[:1]]
            self._is_cut = False

    def _lose(self, chunk: Chunk, stop: int) -> None:
        """Note that the rows of a chunk before a place are forgotten."""
        self.lost = (int(chunk.seqs[stop - 1]), chunk.end_at(stop - 1))
        self._forgotten += chunk.dicts(stop)

    def _cut_newest(self, before: int) -> bool:
        """Whether all that stays lies in the newest chunk, still with rows that are not kept: then those go as well.

        So a batch much longer than the window is never filtered as a whole.
        """
        if self._unkept is None:
            return False
        newest = self._chunks[-1]
        place = min(int(newest.seqs.searchsorted(before)), len(newest) - 1)
        place = self._first_at(newest, place, newest.end_at(place))
        if place == 0:
            return False
        self._lose(newest, place)
        self._chunks = [newest.cut(place)]
        self._unkept = self._unkept[place:]
        self._thin()
        return True

    def _thin(self) -> None:
        """Drop the rows of the newest chunk that are not to be kept."""
        if self._unkept is None:
            return
        newest, keep = self._chunks.pop(), self._unkept
        self._unkept = None
        begin, end = newest.times()
        kept = end[keep]
        if len(kept):
            table = newest.table().filter(pa.array(keep))
            times = (kept if begin is end else begin[keep], kept)
            self._chunks.append(Chunk(newest.seqs[keep], self.schema, table, times))
            self._merge()

    @property
    def nbytes(self) -> int:
        """How much memory the rows take, about."""
        self._settle()
        return sum(chunk.nbytes for chunk in self._chunks) + _guess_bytes(len(self._forgotten), self.schema)

    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`."""
        self._settle()
        self._thin()
        view = self.view()
        tables = [view.base.empty_table()]
        for chunk in view.chunks:
            begin, end = chunk.times()
            tables.append(pa.table({"seq": chunk.seqs, "begin": begin, "end": end}))
            tables.append(plain_text(chunk.table()))
        return {"format": _FORMAT, "has_layout": self._base is not None, "lost": self.lost}, tables

    @classmethod
    def load(cls, schema: Schema, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> RowStore:
        """A store in the state that `dump` gave."""
        if state.get("format") != _FORMAT:
            raise StateError(f"the rows' state has format {state.get('format')!r}; this version reads {_FORMAT}")
        store = cls(schema, tables[0].schema if state["has_layout"] else None)
        store.lost = tuple(state["lost"])
        for index in range(1, len(tables), 2):
            numbers = tables[index]
            seqs, begin, end = (numbers[name].to_numpy() for name in ("seq", "begin", "end"))
            store._chunks.append(Chunk(seqs, schema, tables[index + 1], (end if schema.begin is None else begin, end)))
        return store

    @staticmethod
    def _first_at(chunk: Chunk, place: int, time: int) -> int:
        """The first place of the run of rows with this time that `place` is in."""
        if chunk.is_listed:
            while place and chunk.end_at(place - 1) == time:
                place -= 1
            return place
        return int(chunk.times()[1].searchsorted(time))

    def _settle(self) -> None:
        """Rows that came one by one become a chunk."""
        if self._tail.seqs:
            self._thin()
            self._chunks.append(self._tail.close(self.schema))
            self._tail = Tail()
            self._merge()

    def _merge(self) -> None:
        """Merge small neighbours: rows in small batches cost a logarithmic number of copies, and chunks stay few.

        A long list of dicts is not made a table for that, which would keep one event waiting for milliseconds. So the
        chunk before the newest may be one that has become a table since, and can be merged now.
        """
        self._merge_from(len(self._chunks) - 1)
        self._merge_from(len(self._chunks) - 2)

    def _merge_from(self, place: int) -> None:
        chunks = self._chunks
        while place > 0:
            before, here = chunks[place - 1], chunks[place]
            if len(here) >= _SMALL or len(before) >= 2 * len(here):
                return
            if before.is_listed and here.is_listed and len(before) + len(here) > _LONGEST_LIST:
                return
            if before.is_listed != here.is_listed and len(before if before.is_listed else here) > _LISTED:
                return
            chunks[place - 1 : place + 1] = [before.join(here)]
            place -= 1


def _guess_bytes(dicts: int, schema: Schema) -> int:
    """How much memory so many rows take while they are dicts."""
    return dicts * (240 + 40 * len(schema.columns))


def _tabulate(rows: list[Mapping[str, Any]], schema: Schema) -> tuple[pa.Table, Int64s, Int64s]:
    raw = read_table(rows)
    fields = {}
    for name in [*raw.columns, *schema.columns]:
        column = raw.columns.get(name)
        dtype = schema.columns.get(name)
        if dtype is not None:
            fields[name] = arrow_type(dtype, aware=column is None or infer_aware(column))
        elif column is not None:
            dtype = infer_dtype(column)
            plain = pa.string() if isinstance(column, list) else column.type
            fields[name] = plain if dtype is None else arrow_type(dtype, aware=infer_aware(column))
    table, reasons = cast_table(raw, schema, pa.schema(list(fields.items())))
    if reasons:
        raise InternalError(f"a row that was accepted cannot be stored: {next(iter(reasons.values()))}")
    return (table, *event_times(table, schema))


def find_places(held: Int64s, wanted: Int64s) -> Int64s | None:
    """Where numbers stand in an ascending array of numbers, each once; None if one is not there."""
    if int(held[-1]) - int(held[0]) == len(held) - 1:  # no gaps, as most chunks
        found = wanted - held[0]
        return None if ((found < 0) | (found >= len(held))).any() else found
    found = np.searchsorted(held, wanted)
    return None if (held[np.minimum(found, len(held) - 1)] != wanted).any() else found


def group_places(keys: Int64s) -> list[tuple[int, Int64s]]:
    """Each key that occurs, ascending, with the places where it does."""
    if not len(keys):
        return []
    if (keys == keys[0]).all():
        return [(int(keys[0]), np.arange(len(keys), dtype=np.int64))]
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [(int(keys[run[0]]), run) for run in np.split(order, cuts)]


def plain_layout(layout: pa.Schema) -> pa.Schema:
    """A layout with text out of dictionaries, and nothing but names and types."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in layout],
    )


def union_layout(layouts: Sequence[pa.Schema]) -> pa.Schema:
    """All columns of some layouts, each of the type that it has first."""
    first = layouts[0]
    if all(layout == first for layout in layouts[1:]):
        return first
    fields: dict[str, pa.DataType] = {}
    for layout in layouts:
        for field in layout:
            fields.setdefault(field.name, field.type)
    return pa.schema(list(fields.items()))


def fill_layout(table: pa.Table, layout: pa.Schema) -> pa.Table:
    """A table with the columns of a layout; those it lacks are null."""
    if table.schema == layout:
        return table
    names = set(table.column_names)
    columns = [table[f.name].cast(f.type) if f.name in names else pa.nulls(table.num_rows, f.type) for f in layout]
    return pa.table(columns, schema=layout)


def join_layouts(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of rows one after the other, with all their columns."""
    plain = [plain_text(table) for table in tables]
    layout = union_layout([table.schema for table in plain])
    return pa.concat_tables([fill_layout(table, layout) for table in plain])
