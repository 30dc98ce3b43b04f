"""Where events come in: read, cast to the schema, checked, put in order, numbered; the rest is set aside."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import InputError, StateError
from ensue.events.aside import Aside
from ensue.events.batch import EventBatch, Int64s, encode_types, plain_text
from ensue.events.casting import arrow_type, cast_column, infer_aware, infer_dtype
from ensue.events.readers import RawColumn, RawTable, read_table, to_json
from ensue.events.schema import DType, Schema, TimeUnit, dump_schema, load_schema
from ensue.events.times import NULL
from ensue.events.waiting import Piece, WaitingRoom, sort_piece

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the events that came in: `received = processed + late + rejected + held`."""

    received: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0

    @property
    def held(self) -> int:
        """Events that wait for the watermark."""
        return self.received - self.processed - self.late - self.rejected


class Intake:
    """Turns what users have into ordered, checked batches of events.

    Without a `schema` the first input decides which columns there are and of what type. An event is late if its end is
    before the greatest end that came before it, less `lateness`; the others are held until the watermark (the greatest
    end less `lateness`) reaches them. How the input is cut into pushes makes no difference to what comes out.

    A later input may lack columns (they are null). A new column is an error, but in rows (a list of dicts), where it is
    carried along in results from then on; queries cannot name it.

    >>> intake = Intake(lateness=5)
    >>> len(intake.push([{"type": "A", "ts": 3}, {"type": "B", "ts": 9}, {"type": "A", "ts": 4}]))
    2
    >>> intake.drain().table["ts"].to_pylist(), intake.counts.processed
    ([9], 3)
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        type: str = "type",
        ts: str = "ts",
        begin: str | None = None,
        unit: TimeUnit = TimeUnit.MS,
        lateness: int | Callable[[Schema], int] = 0,
        strict: bool = False,
        declared: Mapping[str, DType] | None = None,
    ) -> None:
        """Take roles and types from `schema`, or from the first input, where `declared` columns have their type."""
        if not callable(lateness) and lateness < 0:
            raise InputError(f"the allowed lateness is {lateness}; it must not be negative")
        self.schema = schema
        self._lateness = lateness
        self.strict = strict
        self.layout: pa.Schema | None = None
        self._roles = (type, ts, begin, unit)
        if schema is not None:
            self._roles = (schema.type, schema.time, schema.begin, schema.unit)
        self._declared = {name: dtype for name, dtype in (declared or {}).items() if name not in self._roles}
        self._counts = Counts()
        self._max_end: int | None = None
        self._clock: int | None = None  # the time that `advance` was told
        self._singles = 0
        self._waiting = WaitingRoom()
        self._late = Aside()
        self._rejected = Aside()

    @property
    def counts(self) -> Counts:
        """What became of the events so far."""
        self._count_singles()
        return self._counts

    @property
    def lateness(self) -> int:
        """The allowed lateness in the time column's units; one that depends on the schema needs to know it."""
        if callable(self._lateness):
            if self.schema is None:
                return 0
            self._lateness = self._lateness(self.schema)
        return self._lateness

    @property
    def watermark(self) -> int | None:
        """The time up to which all events are released; None before the first event."""
        if self._max_end is None:
            return self._clock
        reached = max(self._max_end - self.lateness, NULL + 1)
        return reached if self._clock is None else max(reached, self._clock)

    @property
    def first_held(self) -> int | None:
        """The earliest end of an event that waits for the watermark; None if none does."""
        return self._waiting.first_end

    def take_late(self) -> pa.Table | None:
        """The late events since the last call, with a column `reason`; None if there were none."""
        return self._late.take()

    def take_rejected(self) -> pa.Table | None:
        """The rejected rows since the last call, as they came, with a column `reason`; None if there were none."""
        return self._rejected.take()

    def push(self, data: object, *, together: bool = False) -> EventBatch:
        """Take events in; give those that can be released now.

        With `together` they count as come at one moment: none is late because of another one of them.
        """
        piece, _ = self.read(data)
        piece = self._set_aside_before(piece, self.watermark) if together else self._set_late_aside(piece)
        if len(piece.end):
            greatest = int(piece.end.max())
            self._max_end = greatest if self._max_end is None else max(self._max_end, greatest)
            self._waiting.add(sort_piece(piece))
        return self._release(self.watermark)

    def advance(self, now: int) -> EventBatch:
        """Let time reach `now` without an event: give what that releases; what is before it is late from now on."""
        self._clock = now if self._clock is None else max(self._clock, now)
        return self._release(self.watermark)

    def take_one(self, end: int) -> int | None:
        """Count one event, read and checked by the caller, as processed; its number, or None if it must be pushed.

        That is so where events may come out of order, or it is late.
        """
        if self._max_end is None or end < self._max_end or self._lateness != 0:
            return None
        if self._clock is not None and end < self._clock:
            return None
        self._max_end = end
        self._singles += 1
        return self._counts.processed + self._singles - 1

    def _count_singles(self) -> None:
        """Put events that came one by one, counted apart because that is quicker, to the others."""
        if self._singles:
            received, processed = self._counts.received + self._singles, self._counts.processed + self._singles
            self._counts = replace(self._counts, received=received, processed=processed)
            self._singles = 0

    def drain(self) -> EventBatch:
        """All events that are still held: the input has ended."""
        return self._release(None if self._max_end is None else self._max_end)

    def sort_all(self, data: object) -> EventBatch:
        """Take in a whole input at once: everything is sorted, nothing is late."""
        piece, _ = self.read(data)
        if len(piece.end):
            greatest = int(piece.end.max())
            self._max_end = greatest if self._max_end is None else max(self._max_end, greatest)
            self._waiting.add(sort_piece(piece))
        return self.drain()

    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`."""
        self._count_singles()
        held = self._waiting.tables()
        late, rejected = self._late.peek(), self._rejected.peek()
        tables = [t for t in (late, rejected) if t is not None] + held
        kind, time, begin, unit = self._roles
        state = {
            "format": _FORMAT,
            "roles": [kind, time, begin, unit.value],
            "schema": None if self.schema is None else dump_schema(self.schema),
            "lateness": None if self.schema is None else self.lateness,
            "strict": self.strict,
            "counts": [self._counts.received, self._counts.processed, self._counts.late, self._counts.rejected],
            "max_end": self._max_end,
            "clock": self._clock,
            "layout": self.layout is not None,
            "late": late is not None,
            "rejected": rejected is not None,
        }
        if self.layout is not None:
            tables.insert(0, self.layout.empty_table())
        return state, tables

    @classmethod
    def load(
        cls,
        state: Mapping[str, Any],
        tables: Sequence[pa.Table],
        lateness: int | Callable[[Schema], int] = 0,
    ) -> Intake:
        """An intake in the state that `dump` gave; `lateness` is that of a state from before the columns were known."""
        if state.get("format") != _FORMAT:
            raise StateError(f"the intake's state has format {state.get('format')!r}; this version reads {_FORMAT}")
        kind, time, begin, unit = state["roles"]
        schema = None if state["schema"] is None else load_schema(state["schema"])
        intake = cls(
            schema,
            type=kind,
            ts=time,
            begin=begin,
            unit=TimeUnit(unit),
            lateness=lateness if state["lateness"] is None else state["lateness"],
            strict=state["strict"],
        )
        intake._counts = Counts(*state["counts"])
        intake._max_end, intake._clock = state["max_end"], state["clock"]
        rest = list(tables)
        if state["layout"]:
            intake.layout = rest.pop(0).schema
        if state["late"]:
            intake._late.restore(rest.pop(0))
        if state["rejected"]:
            intake._rejected.restore(rest.pop(0))
        if schema is not None:
            for table in rest:
                intake._waiting.add(Piece(table, *event_times(table, schema)))
        return intake

    def _release(self, until: int | None) -> EventBatch:
        self._count_singles()
        piece = self._waiting.release(until)
        first = self._counts.processed
        if piece is None:
            nothing = np.empty(0, dtype=np.int64)
            table = pa.table({}) if self.layout is None else self.layout.empty_table()
            return EventBatch(table, nothing, nothing, np.empty(0, dtype=np.int32), [], first)
        self._counts = replace(self._counts, processed=first + len(piece.end))
        codes, names = encode_types(piece.table.column(self._roles[0]))
        return EventBatch(piece.table, piece.end, piece.begin, codes, names, first)

    def _set_late_aside(self, piece: Piece) -> Piece:
        """Set those aside that are before the watermark that the events before them made."""
        end = piece.end
        previous = NULL if self._max_end is None else self._max_end
        clock = NULL if self._clock is None else self._clock
        in_time = len(end) == 0 or (end[0] >= clock and (end[0] >= previous or end[0] >= previous - self.lateness))
        if in_time and _is_sorted(end):
            return piece
        before = np.empty_like(end)
        before[0] = previous
        np.maximum(np.maximum.accumulate(end[:-1]), previous, out=before[1:])
        slack = min(self.lateness, 2**63 - 1)
        return self._set_aside_before(piece, np.maximum(np.maximum(before, NULL + slack) - slack, clock))

    def _set_aside_before(self, piece: Piece, watermark: Int64s | int | None) -> Piece:
        """Set those aside that are before a watermark, one for all or one for each."""
        end = piece.end
        if watermark is None or not len(end):
            return piece
        late = end < watermark
        if not late.any():
            return piece
        passed = np.broadcast_to(watermark, end.shape)[late]
        reasons = [f"its end {e} is before the watermark {w}" for e, w in zip(end[late], passed, strict=True)]
        self._late.add(plain_text(piece.table.filter(pa.array(late))), reasons)
        self._counts = replace(self._counts, late=self._counts.late + len(reasons))
        return piece.filter(~late)

    def read(self, data: object) -> tuple[Piece, npt.NDArray[np.bool_] | None]:
        """The readable rows of some input, in arrival order, and which they are (None: all).

        The others are set aside, or an error under `strict`. What is read is taken no further than that: `push` and its
        like do it by themselves.
        """
        raw = read_table(data)
        if raw.by_row and (not raw.rows or not raw.columns) and self.schema is None:
            return self._reject_all(raw), np.zeros(raw.rows, dtype=np.bool_)
        schema, layout = self._fit_layout(raw)
        table, reasons = cast_table(raw, schema, layout)
        try:
            end, begin = event_times(table, schema)
        except _Unreadable as error:
            for position in np.flatnonzero(error.rows):
                reasons.setdefault(int(position), error.reason(raw, int(position)))
            end, begin = error.end, error.begin
        if reasons and self.strict:
            row = min(reasons)
            raise InputError(f"row {self._counts.received + row + 1} of the input: {reasons[row]}")
        self.schema, self.layout = schema, layout
        piece = Piece(table, end, begin)
        keep = None
        if reasons:
            positions = sorted(reasons)
            self._rejected.add(raw.rows_at(positions), [reasons[p] for p in positions])
            keep = np.ones(raw.rows, dtype=np.bool_)
            keep[positions] = False
            piece = piece.filter(keep)
        self._count(raw.rows, len(reasons))
        return piece, keep

    def _count(self, received: int, rejected: int) -> None:
        counts = self._counts
        self._counts = replace(counts, received=counts.received + received, rejected=counts.rejected + rejected)

    def _reject_all(self, raw: RawTable) -> Piece:
        """Rows without a single column, before any schema is known."""
        reasons = [raw.unreadable.get(i, "the row is empty") for i in range(raw.rows)]
        if reasons and self.strict:
            raise InputError(f"row {self._counts.received + 1} of the input: {reasons[0]}")
        if reasons:
            self._rejected.add(pa.table({"row": pa.nulls(raw.rows, pa.string())}), reasons)
        self._count(raw.rows, raw.rows)
        nothing = np.empty(0, dtype=np.int64)
        return Piece(pa.table({}), nothing, nothing)

    def _fit_layout(self, raw: RawTable) -> tuple[Schema, pa.Schema]:
        """The schema and the layout of tables, made from the first input and grown by new columns of rows."""
        kind, time, begin, unit = self._roles
        schema = self.schema
        roles = [role for role in (kind, time, begin) if role is not None]
        if not raw.by_row or schema is None:
            for role in roles:
                if role not in raw.columns:
                    raise InputError(_missing(role, list(raw.columns)))
        if schema is None:
            columns = infer_columns(raw, kind, (time, begin))
            columns |= {n: d for n, d in self._declared.items() if _can_become(columns.get(n), d)}
            schema = Schema(columns, kind, time, begin, unit)
        check_roles(schema)
        fields: dict[str, pa.DataType] = {}
        if self.layout is not None:
            fields = {f.name: f.type for f in self.layout}
        else:
            for name, dtype in schema.columns.items():
                # what a given schema leaves open must not depend on which input happens to come first
                aware = self.schema is not None or name not in raw.columns or infer_aware(raw.columns[name])
                fields[name] = arrow_type(dtype, aware=aware)
        new = [name for name in raw.columns if name not in fields]
        if new and self.schema is not None and not raw.by_row:
            shown = ", ".join(f"`{name}`" for name in new)
            raise InputError(f"the input has columns that the schema does not name: {shown}")
        for name in new:
            column = raw.columns[name]
            inferred = infer_dtype(column)
            if inferred is not None:
                fields[name] = arrow_type(inferred, aware=infer_aware(column))
            elif isinstance(column, list):
                fields[name] = pa.string()
            else:
                fields[name] = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if self.schema is None:  # columns that queries cannot name stand where the input has them
            ordered = [n for n in raw.columns if n in fields] + [n for n in fields if n not in raw.columns]
            fields = {name: fields[name] for name in ordered}
        if self.layout is not None and not new:
            return schema, self.layout
        return schema, pa.schema(list(fields.items()))


def _can_become(inferred: DType | None, declared: DType) -> bool:
    """Whether a column that looks like one type may be read as another: else the difference is for checks to tell."""
    numbers = {DType.INT, DType.FLOAT}
    if inferred is None or (inferred in numbers and declared in numbers):
        return True
    return inferred is DType.STRING and declared is DType.TIMESTAMP


def infer_columns(raw: RawTable, kind: str, times: tuple[str, str | None]) -> dict[str, DType]:
    """The types of the columns that queries can name; text in a time column is a timestamp, a whole float an int."""
    columns = {}
    for name, column in raw.columns.items():
        dtype = infer_dtype(column)
        if name in times and dtype in (DType.STRING, DType.FLOAT):
            dtype = DType.TIMESTAMP if dtype is DType.STRING else DType.INT
        if name == kind and not isinstance(column, list) and pa.types.is_null(column.type):
            dtype = DType.STRING
        if dtype is not None:
            columns[name] = dtype
    return columns


def check_roles(schema: Schema) -> None:
    """That the type and time columns are there and of a type that fits their part. Raises InputError."""
    fitting = {DType.INT, DType.TIMESTAMP, DType.STRING}
    for role, name, allowed in (
        ("type", schema.type, {DType.STRING, DType.INT}),
        ("time", schema.time, fitting),
        ("begin", schema.begin, fitting),
    ):
        if name is None:
            continue
        dtype = schema.columns.get(name)
        if dtype is None:
            raise InputError(_missing(name, list(schema.columns)))
        if dtype not in allowed:
            shown = " or ".join(sorted(d.value for d in allowed))
            raise InputError(f"column `{name}` cannot be the {role} column: it is {dtype.value}, not {shown}")
    if schema.begin is not None:
        end, begin = schema.columns[schema.time], schema.columns[schema.begin]
        if (end is DType.INT) != (begin is DType.INT):
            raise InputError(
                f"column `{schema.begin}` is {begin.value} and column `{schema.time}` is {end.value}: "
                "the begin and the end of an event must be of one kind"
            )


def cast_table(raw: RawTable, schema: Schema, layout: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """The columns of `layout`, cast, and for each row that cannot be read the reason."""
    reasons = dict(raw.unreadable)
    columns = []
    for field in layout:
        column = raw.columns.get(field.name)
        dtype = schema.columns.get(field.name)
        if column is None:
            columns.append(pa.chunked_array([pa.nulls(raw.rows, field.type)]))
            continue
        if dtype is None:
            cast, bad = _carry(column, field.type)
        else:
            cast, bad = cast_column(column, dtype, field.type)
        columns.append(cast)
        if bad is not None:
            what = str(field.type) if dtype is None else dtype.value
            for position in np.flatnonzero(bad).tolist():
                reasons.setdefault(position, f"column `{field.name}`: {_show(column, position)} is not a {what}")
    table = pa.table(dict(zip(layout.names, columns, strict=True)))
    for name, what in ((schema.type, "type"), (schema.time, "time"), (schema.begin, "begin")):
        if name is not None and table.column(name).null_count:
            for position in np.flatnonzero(table.column(name).is_null().to_numpy()).tolist():
                reasons.setdefault(position, f"column `{name}`: the {what} is null")
    return table, reasons


class _Unreadable(Exception):
    """Some rows have no time that can be used."""

    def __init__(
        self, end: Int64s, begin: Int64s, rows: npt.NDArray[np.bool_], reason: Callable[[RawTable, int], str]
    ) -> None:
        super().__init__("unreadable times")
        self.end, self.begin, self.rows, self.reason = end, begin, rows, reason


def event_times(table: pa.Table, schema: Schema) -> tuple[Int64s, Int64s]:
    """The ends and begins of a cast table's rows as int64, one and the same array for points in time."""
    end, bad_end = _read_times(table, schema.time, schema)
    if schema.begin is None:
        if bad_end is not None:
            raise _Unreadable(end, end, bad_end, lambda raw, i: _not_a_time(raw, schema.time, i))
        return end, end
    begin, bad_begin = _read_times(table, schema.begin, schema)
    nothing = np.zeros(len(end), dtype=np.bool_)
    first, second = (nothing if b is None else b for b in (bad_end, bad_begin))
    # a null has its reason already; it stands here as NULL and compares as it likes
    after = begin > end
    wrong = first | second | after
    if wrong.any():

        def explain(raw: RawTable, i: int) -> str:
            if first[i] or second[i]:
                return _not_a_time(raw, schema.time if first[i] else str(schema.begin), i)
            return f"its begin {begin[i]} is after its end {end[i]}"

        raise _Unreadable(end, begin, wrong, explain)
    return end, begin


def _read_times(table: pa.Table, name: str, schema: Schema) -> tuple[Int64s, npt.NDArray[np.bool_] | None]:
    column, bad = table.column(name), None
    match schema.columns[name]:
        case DType.TIMESTAMP:
            column = column.cast(pa.int64())
        case DType.STRING:  # a schema may keep the text as it is
            column, bad = cast_column(column, DType.TIMESTAMP, arrow_type(DType.TIMESTAMP))
            column = column.cast(pa.int64())
        case _:
            pass
    values = (column.fill_null(NULL) if column.null_count else column).to_numpy()
    return values, bad


def _carry(column: RawColumn, kind: pa.DataType) -> tuple[pa.ChunkedArray, npt.NDArray[np.bool_] | None]:
    """A column that queries cannot name, in the type that it had at first."""
    if isinstance(column, list):
        column = pa.chunked_array([pa.array([v if isinstance(v, str) else to_json(v) for v in column], pa.string())])
    if column.type == kind:
        return column, None
    try:
        return column.cast(kind), None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        bad = column.is_valid().to_numpy()
        return pa.chunked_array([pa.nulls(len(column), kind)]), bad if bad.any() else None


def _show(column: RawColumn, position: int) -> str:
    value = column[position]
    try:
        value = value.as_py() if isinstance(value, pa.Scalar) else value
    except (OverflowError, ValueError):  # a timestamp beyond what Python's datetime holds
        value = value.value
    return (str(value) if isinstance(value, date) else repr(value))[:80]


def _not_a_time(raw: RawTable, name: str, position: int) -> str:
    return f"column `{name}`: {_show(raw.columns[name], position)} is not a time"


def _missing(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else f" (it has {', '.join(f'`{n}`' for n in names) or 'no columns'})"
    return f"the input has no column `{name}`{hint}"


def _is_sorted(values: Int64s) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))
