"""From sequence numbers to result columns: events as structs, RETURN expressions, partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ensue.errors import InternalError, QueryTypeError
from ensue.events.batch import Int64s
from ensue.events.schema import DType, Schema
from ensue.events.times import NULL
from ensue.pattern.expressions import TIME_ATTRIBUTES, Aggregate, At, Attribute, Expression
from ensue.pattern.query import Return
from ensue.runtime.blocks import Bound, EventLists, MatchBlock, edge_events, one_of_each
from ensue.runtime.columns import KINDS, evaluate_column, read_attribute, time_kind, time_step
from ensue.runtime.lists import aggregate
from ensue.runtime.rows import RowView
from ensue.runtime.values import Column, Kind, adopt, constant, whole_numbers


def name_return(item: Return, place: int) -> str:
    """The name of a RETURN column; `place` counts from 1.

    >>> name_return(Return(Attribute("a", "price", At.FIRST)), 1), name_return(Return(Aggregate("COUNT", "b")), 2)
    ('first_a_price', 'count_b')
    """
    if item.name is not None:
        return item.name
    match item.expression:
        case Attribute(variable=variable, name=name, at=at):
            return f"{at.value}_{variable}_{name}" if at in (At.FIRST, At.LAST) else f"{variable}_{name}"
        case Aggregate(function=function, variable=variable, name=None):
            return f"{function.lower()}_{variable}"
        case Aggregate(function=function, variable=variable, name=attribute):
            return f"{function.lower()}_{variable}_{attribute}"
        case _:
            return f"column{place}"


def time_type(rows: RowView) -> pa.DataType:
    """The Arrow type of begin, end and detected_at: that of the time column."""
    dtype = rows.schema.columns[rows.schema.time]
    if dtype is DType.INT:
        return pa.int64()
    layout = rows.layout()
    known = dtype is DType.TIMESTAMP and rows.schema.time in layout.names
    return layout.field(rows.schema.time).type if known else pa.timestamp("us", "UTC")


def make_times(values: Int64s, kind: pa.DataType) -> pa.Array:
    """Internal times as an Arrow array; -2^63 is null."""
    missing = values == NULL
    return pa.array(values, mask=missing if missing.any() else None).cast(kind)


def make_variable(bound: Bound, length: int, rows: RowView) -> pa.Array:
    """A variable's events: structs, lists of structs, or nulls."""
    layout = rows.layout()
    if bound is None:
        return pa.nulls(length, pa.struct(list(layout)))
    if isinstance(bound, EventLists):
        return _list_array(bound, _structs(bound.seqs, layout, rows))
    return _structs(bound, layout, rows)


def make_partition(block: MatchBlock, rows: RowView) -> pa.Array:
    """The PARTITION BY values of each match, as structs; nulls without the clause."""
    names = block.query.partition_by
    if not names:
        return pa.nulls(len(block))
    seqs = one_of_each(block)
    columns = [_attribute_array(name, seqs, rows) for name in names]
    return pa.StructArray.from_arrays(columns, names=list(names))


def make_return(expression: Expression, block: MatchBlock, rows: RowView) -> pa.Array:
    """The value of a RETURN expression for each match."""
    if isinstance(expression, Attribute):
        bound = _bound(block, expression.variable)
        if isinstance(bound, EventLists):
            if expression.at in (At.EACH, At.CURRENT):
                return _list_array(bound, _attribute_array(expression.name, bound.seqs, rows))
            bound = edge_events(bound, last=expression.at is At.LAST)
        missing = np.full(len(block), -1, dtype=np.int64)
        return _attribute_array(expression.name, missing if bound is None else bound, rows)
    schema = rows.schema

    def look_up(node: Attribute | Aggregate) -> Column:
        bound = _bound(block, node.variable)
        if isinstance(node, Aggregate):
            return _aggregate(node, bound, rows)
        if isinstance(bound, EventLists):
            if node.at in (At.EACH, At.CURRENT, At.PREVIOUS):
                raise QueryTypeError(f"`{node.variable}.{node.name}` is a list: RETURN it alone, or an aggregate of it")
            bound = edge_events(bound, last=node.at is At.LAST)
        missing = np.full(len(block), -1, dtype=np.int64)
        return _attribute_column(node.name, missing if bound is None else bound, rows)

    column = evaluate_column(expression, look_up, time_step(schema)).stretch(len(block))
    return _to_arrow(column, rows)


def _bound(block: MatchBlock, variable: str) -> Bound:
    if variable not in block.variables:
        raise InternalError(f"the matches of `{block.name}` have no variable `{variable}`")
    return block.variables[variable]


def _aggregate(node: Aggregate, bound: Bound, rows: RowView) -> Column:
    if not isinstance(bound, EventLists):
        return constant(None)  # a variable that no match binds
    if node.name is None:
        result = Column(Kind.INT, np.diff(bound.offsets))
    else:
        result = aggregate(node.function, _attribute_column(node.name, bound.seqs, rows), bound.offsets)
    if bound.null is None:
        return result
    return Column(result.kind, result.values, bound.null | result.nulls(), result.words)


def attribute_kind(name: str, schema: Schema) -> Kind:
    """The kind of an attribute's values."""
    if name in TIME_ATTRIBUTES or name in (schema.time, schema.begin):
        return time_kind(schema)
    return KINDS[schema.columns[name]]


def _attribute_column(name: str, seqs: Int64s, rows: RowView) -> Column:
    """An attribute of some events; null where there is no event (-1)."""
    missing = seqs < 0
    if missing.all():
        nothing = Column(Kind.NULL, np.zeros(len(seqs), dtype=np.int64), np.ones(len(seqs), dtype=np.bool_))
        return adopt(nothing, attribute_kind(name, rows.schema))
    table, begin, end = rows.take_timed(_fill(seqs, missing))
    column = read_attribute(name, table, begin, end, rows.schema)
    if not missing.any():
        return column
    return Column(column.kind, column.values, missing | column.nulls(), column.words)


def _attribute_array(name: str, seqs: Int64s, rows: RowView) -> pa.Array:
    """As `_attribute_column`, in the Arrow type that the column has."""
    schema = rows.schema
    if name in TIME_ATTRIBUTES or name in (schema.time, schema.begin):
        column = _attribute_column(name, seqs, rows)
        return make_times(column.encode(), time_type(rows))
    missing = seqs < 0
    kind = rows.layout().field(name).type
    if missing.all():
        return pa.nulls(len(seqs), kind)
    values = _whole(rows.take(_fill(seqs, missing))[name])
    if not missing.any():
        return values
    return values.take(pa.array(np.arange(len(seqs)), mask=missing))


def _fill(seqs: Int64s, missing: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Int64s:
    """Sequence numbers with some event in the place of none, so that they can be looked up."""
    if not missing.any():
        return seqs
    return np.where(missing, seqs[int(np.argmin(missing))], seqs)


def _structs(seqs: Int64s, layout: pa.Schema, rows: RowView) -> pa.Array:
    missing = seqs < 0
    if missing.all():
        return pa.nulls(len(seqs), pa.struct(list(layout)))
    table = rows.take(_fill(seqs, missing))
    arrays = [_whole(column) for column in table.columns]
    mask = pa.array(missing) if missing.any() else None
    return pa.StructArray.from_arrays(arrays, fields=list(layout), mask=mask)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _list_array(lists: EventLists, values: pa.Array) -> pa.Array:
    mask = None if lists.null is None else pa.array(lists.null)
    offsets = pa.array(lists.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=mask)


def _to_arrow(column: Column, rows: RowView) -> pa.Array:
    null = None if column.null is None else np.ascontiguousarray(column.null)
    values = np.ascontiguousarray(column.values)
    match column.kind:
        case Kind.NULL:
            return pa.nulls(len(values))
        case Kind.STRING:
            return pa.array(column.words, pa.string()).take(pa.array(values, mask=null))
        case Kind.TIMESTAMP:
            kind = time_type(rows)
            return pa.array(values, mask=null).cast(pa.timestamp("us", "UTC") if kind == pa.int64() else kind)
        case Kind.DURATION:
            return pa.array(whole_numbers(values), mask=null).cast(pa.duration("us"))
        case _:
            return pa.array(values, mask=null)
