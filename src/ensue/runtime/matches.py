"""What a run found: matches that look like a list of dicts, and leave as Arrow, pandas or polars."""

from __future__ import annotations

import html
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa

from ensue.errors import EnsueError, InternalError, QueryTypeError
from ensue.events.schema import Schema
from ensue.pattern.columns import group_name
from ensue.runtime.aggregate_rows import AggregateBlock, make_columns, to_dicts
from ensue.runtime.blocks import EventLists, MatchBlock, identify, last_events
from ensue.runtime.derived import DerivedPart
from ensue.runtime.results import make_partition, make_return, make_times, make_variable, name_return, time_type
from ensue.runtime.rows import RowView

__all__ = ["EventLists", "MatchBlock", "Matches"]

HEAD = ("match_id", "query", "begin", "end", "detected_at")
_SHOWN = 10  # rows of the table that a notebook shows
_AT_ONCE = 1024  # matches that iteration makes at a time


class Matches:
    """Matches of one or several queries, in the order in which they were found, query by query; and derived events.

    `len`, iteration and `[0]` speak of matches as dicts; `["name"]` gives those of one query, or one rule's events.
    """

    def __init__(
        self,
        blocks: Sequence[MatchBlock | AggregateBlock],
        rows: RowView | None,
        schema: Schema | None = None,
        explanation: str | Callable[[], str] = "",
        journal: Callable[[], list[Any]] = list,
    ) -> None:
        """Take blocks whose events are in `rows`; nothing is made of them before someone looks.

        Give an empty block for a query without matches, so that its name and columns are known.
        """
        if blocks and rows is None:
            raise InternalError("matches without the rows that they speak of")
        self.schema = schema if schema is not None or rows is None else rows.schema
        self._parts: list[_Part | _Rows | DerivedPart] = []
        if rows is not None:
            self._parts = [_Rows(b, rows) if isinstance(b, AggregateBlock) else _Part(b, rows) for b in blocks]
        self._explanation = explanation
        self._journal = journal

    @classmethod
    def of_derived(cls, parts: Sequence[DerivedPart], schema: Schema | None, explanation: Callable[[], str]) -> Matches:
        """Derived events in place of matches, a part for each rule's events."""
        found = cls([], None, schema, explanation)
        found._parts = list(parts)
        return found

    @classmethod
    def concat(cls, results: Iterable[Matches]) -> Matches:
        """The matches of several results, one after the other."""
        results = list(results)
        joined = cls([], None, next((r.schema for r in results if r.schema is not None), None))
        joined._parts = [part for result in results for part in result._parts]
        joined._explanation = next((r._explanation for r in results if r._explanation), "")
        joined._journal = next((r._journal for r in results if r._journal is not list), list)
        return joined

    def last_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Of each AGG query the last row of each group.

        >>> import ensue
        >>> events = [{"type": kind, "ts": n, "k": k} for n, (kind, k) in enumerate(("A1", "B1", "A2", "B2", "B1"))]
        >>> ensue.run(events, "PATTERN SEQ(A a, B b) WITHIN 10 AGG COUNT(*) GROUP BY k").last_rows()["q1"]
        [{'query': 'q1', 'time': 4, 'k': '1', 'count': 2}, {'query': 'q1', 'time': 3, 'k': '2', 'count': 1}]
        """
        found: dict[str, dict[Any, dict[str, Any]]] = {}
        for part in self._parts:
            if isinstance(part, _Rows):
                found.setdefault(part.name, {}).update(part.last_rows())
        return {name: list(rows.values()) for name, rows in found.items()}

    @property
    def names(self) -> list[str]:
        """The names of the queries."""
        return list(dict.fromkeys(part.name for part in self._parts))

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self._parts:
            for start in range(0, len(part), _AT_ONCE):
                yield from part.to_pylist(start, min(start + _AT_ONCE, len(part)))

    @overload
    def __getitem__(self, key: str) -> Matches: ...

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...

    def __getitem__(self, key: str | int) -> Matches | dict[str, Any]:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no query is called `{key}`; there are {', '.join(self.names) or 'none'}")
            only = Matches([], None, self.schema, self._explanation, self._journal)
            only._parts = [part for part in self._parts if part.name == key]
            return only
        place = key + len(self) if key < 0 else key
        for part in self._parts:
            if 0 <= place < len(part):
                return part.to_pylist(place, place + 1)[0]
            place -= len(part)
        raise IndexError(f"there are {len(self)} matches; [{key}] is not one of them")

    def explain(self) -> str:
        """How the matches were found: the plan, in words."""
        return self._explanation if isinstance(self._explanation, str) else self._explanation()

    @property
    def journal(self) -> list[Any]:
        """What the engine has decided about plans up to now, and why (`ensue.runtime.journal.Entry`)."""
        return self._journal()

    def to_arrow(self) -> pa.Table:
        """One row a match; the columns of several queries side by side, null where a query does not have them."""
        kinds: dict[str, pa.DataType] = {}
        if not self._parts or any(isinstance(part, _Part) for part in self._parts):
            kinds |= _EMPTY
        fixed = set(kinds)
        tables = [part.columns() for part in self._parts]
        for part, columns in zip(self._parts, tables, strict=True):
            for name, array in columns.items():
                if name not in kinds or name in fixed:
                    kinds[name] = array.type
                    fixed.discard(name)
                    continue
                merged = merge_types(kinds[name], array.type)
                if merged is None:
                    raise QueryTypeError(
                        f"column `{name}` is {_short(array.type)} in query `{part.name}` and "
                        f"{_short(kinds[name])} in another one",
                        hint=f'take the queries one by one: matches["{part.name}"].to_arrow()',
                    )
                kinds[name] = merged
        schema = pa.schema(list(kinds.items()))
        if not tables:
            return schema.empty_table()
        return pa.concat_tables(
            pa.table([conform(columns.get(f.name), f.type, len(part)) for f in schema], schema=schema)
            for part, columns in zip(self._parts, tables, strict=True)
        )

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `to_arrow()`."""
        _need("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame of `to_arrow()`."""
        return _need("polars").from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """A dict a match: `match_id`, `query`, `begin`, `end`, `detected_at`, then `events` or the RETURN columns."""
        return list(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for part in self._parts:
            counts[part.name] = counts.get(part.name, 0) + len(part)
        shown = ", ".join(f"{name}: {count}" for name, count in counts.items())
        what = "match" + ("" if len(self) == 1 else "es")
        if any(isinstance(part, _Rows) for part in self._parts):
            what = "row" + ("" if len(self) == 1 else "s")
        return f"<{len(self)} {what}{f' ({shown})' if shown else ''}>"

    def _repr_html_(self) -> str:
        lines = []
        for match, _ in zip(self, range(_SHOWN), strict=False):
            rest = match.get("events", {k: v for k, v in match.items() if k not in (*HEAD, "partition")})
            cells = [match.get("query", match.get("rule")), match.get("begin", ""), match.get("end", ""), rest]
            lines.append("<tr>" + "".join(f"<td>{html.escape(_brief(cell))}</td>" for cell in cells) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in ("query", "begin", "end", "found"))
        more = f"<p>{len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        title = html.escape(repr(self)[1:-1])
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"

    def last_events(self) -> Iterator[tuple[int | None, int]]:
        """The numbers of the events that complete matches, and how many each; None for what has no such event."""
        for part in self._parts:
            if isinstance(part, _Part):
                numbers, counts = np.unique(last_events(part.block), return_counts=True)
                yield from zip(numbers.tolist(), counts.tolist(), strict=True)
            elif len(part):
                yield None, len(part)


class _Part:
    """A block and the rows it speaks of; its columns are made once."""

    __slots__ = ("_block", "_columns", "name", "rows")

    def __init__(self, block: MatchBlock, rows: RowView) -> None:
        self._block = block
        self.name = block.name
        self.rows = rows
        self._columns: dict[str, pa.Array] | None = None

    def __len__(self) -> int:
        return len(self._block)

    @property
    def block(self) -> MatchBlock:
        """The block with its times, which are looked up when someone asks."""
        self._block = self._block.timed(self.rows)
        return self._block

    def columns(self) -> dict[str, pa.Array]:
        if self._columns is None:
            self._columns = self._make_columns()
        return self._columns

    def _make_columns(self) -> dict[str, pa.Array]:
        block, rows = self.block, self.rows
        times = time_type(rows)
        columns: dict[str, pa.Array] = {
            "match_id": identify(block, rows),
            "query": pa.array([block.name], pa.string()).take(pa.array(np.zeros(len(block), dtype=np.int64))),
            "begin": make_times(block.begin, times),
            "end": make_times(block.end, times),
            "detected_at": make_times(block.detected, times),
            "partition": make_partition(block, rows),
        }
        made: dict[str, pa.Array] = {}
        for place, item in enumerate(block.query.returns, start=1):
            made[name_return(item, place)] = make_return(item.expression, block, rows)
        if not block.query.returns:
            made = {name: make_variable(bound, len(block), rows) for name, bound in block.variables.items()}
        twice = sorted(made.keys() & columns.keys())
        if twice:
            raise QueryTypeError(
                f"`{twice[0]}` is a column of every result, and cannot be a name in query `{block.name}` too",
                hint="call the variable otherwise, or give the RETURN column a name with AS",
            )
        return columns | made

    def to_pylist(self, start: int, stop: int) -> list[dict[str, Any]]:
        columns = {name: array.slice(start, stop - start).to_pylist() for name, array in self.columns().items()}
        if not self.block.query.partition_by:
            del columns["partition"]
        own = [name for name in columns if name not in HEAD and name != "partition"]
        head = [name for name in columns if name not in own]
        rows: list[dict[str, Any]] = []
        for i in range(stop - start):
            row = {name: columns[name][i] for name in head}
            values = {name: columns[name][i] for name in own}
            rows.append(row | values if self.block.query.returns else row | {"events": values})
        return rows


class _Rows:
    """A block of rows of AGG; its columns are made once."""

    __slots__ = ("_block", "_columns", "name", "rows")

    def __init__(self, block: AggregateBlock, rows: RowView) -> None:
        self._block = block
        self.name = block.name
        self.rows = rows
        self._columns: dict[str, pa.Array] | None = None

    def __len__(self) -> int:
        return len(self._block)

    def columns(self) -> dict[str, pa.Array]:
        if self._columns is None:
            self._columns = make_columns(self._block, self.rows)
        return self._columns

    def to_pylist(self, start: int, stop: int) -> list[dict[str, Any]]:
        return to_dicts(self.columns(), start, stop)

    def last_rows(self) -> dict[Any, dict[str, Any]]:
        """The last row of each group, by the group's values."""
        groups = [self.columns()[group_name(key)].to_pylist() for key in self._block.query.group_by]
        if not groups:
            return {(): self.to_pylist(len(self) - 1, len(self))[0]} if len(self) else {}
        places = dict(zip(zip(*groups, strict=True), range(len(self)), strict=True))
        return {group: self.to_pylist(place, place + 1)[0] for group, place in places.items()}


_EMPTY: dict[str, pa.DataType] = {
    "match_id": pa.string(),
    "query": pa.string(),
    "begin": pa.int64(),
    "end": pa.int64(),
    "detected_at": pa.int64(),
    "partition": pa.null(),
}


def merge_types(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """A type that holds the values of both: fields of structs are put together; None where there is none."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        fields: dict[str, pa.DataType] = {f.name: f.type for f in a}
        for field in b:
            merged = merge_types(fields.get(field.name, field.type), field.type)
            if merged is None:
                return None
            fields[field.name] = merged
        return pa.struct(list(fields.items()))
    if pa.types.is_list(a) and pa.types.is_list(b):
        merged = merge_types(a.value_type, b.value_type)
        return None if merged is None else pa.list_(merged)
    return None


def conform(array: pa.Array | None, kind: pa.DataType, length: int) -> pa.Array:
    """An array as a type that `merge_types` gave; nulls for what is not there."""
    if array is None or pa.types.is_null(array.type):
        return pa.nulls(length, kind)
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        names = {f.name: i for i, f in enumerate(array.type)}
        parts = [conform(array.field(names[f.name]) if f.name in names else None, f.type, length) for f in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = conform(array.values, kind.value_type, len(array.values))
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    return array.cast(kind)


def _short(kind: pa.DataType) -> str:
    return "a struct" if pa.types.is_struct(kind) else "a list" if pa.types.is_list(kind) else str(kind)


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_brief(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        return f"[{', '.join(_brief(part) for part in value[:3])}{', …' if len(value) > 3 else ''}]"
    return str(value)


def _need(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise EnsueError(f"{library} is not installed; `pip install {library}` gives it to you") from error
