"""One event at a time, as a dict, without the detour over tables: what it needs is written straight into a row.

Only for what is simple enough: an event in order, with all values present and of the right types, for queries whose
columns and filters are plain. Everything else says None here and takes the way of batches, which gives the same answer.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ensue.events.intake import Intake
from ensue.events.schema import DType, Schema
from ensue.pattern.expressions import TIME_ATTRIBUTES, Attribute, Comparison, Expression, IsNull, Literal
from ensue.runtime import layout as at
from ensue.runtime.assembly import Assembly
from ensue.runtime.blocks import MatchBlock
from ensue.runtime.common import NewRows, Reader
from ensue.runtime.evaluator import NO_RANKS, Evaluator, State, one_row_kernel
from ensue.runtime.rows import RowStore
from ensue.runtime.strings import StringTable

Event = Mapping[str, Any]
Test = Callable[[Sequence[Any]], bool]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PYTHON: dict[DType, type] = {DType.INT: int, DType.FLOAT: float, DType.STRING: str, DType.BOOL: bool}


class EventPath:
    """How events of one type are taken in one by one: a row for each query that names it, and a call of its kernel."""

    def __init__(
        self,
        kind: str,
        schema: Schema,
        intake: Intake,
        rows: RowStore,
        strings: StringTable,
        lanes: Sequence[tuple[Evaluator, State]],
        readers: Sequence[Reader] = (),
        store: Callable[[list[NewRows]], None] | None = None,
    ) -> None:
        """Raise ValueError where the type's events cannot be taken so. `store` takes what common leaves read."""
        if schema.columns[schema.time] is not DType.INT or schema.begin is not None:
            raise ValueError("times other than plain integers take the way of batches")
        self.names: list[str] = []
        self.lanes: list[tuple[RowWriter, Evaluator, State]] = []
        self.waiting: list[tuple[Evaluator, State]] = []  # queries for which such an event only lets time pass
        for evaluator, state in lanes:
            assembly = evaluator.assembly
            if assembly.uses_ranks or assembly.policy != "ANY" or len(assembly.partition) > 1:
                raise ValueError("runs, texts in order and keys of several attributes take the way of batches")
            if kind in assembly.types:
                self.lanes.append((RowWriter(assembly, kind, schema, strings, self.names), evaluator, state))
            elif assembly.head:
                self.waiting.append((evaluator, state))
        self.common = [
            (RowWriter(reader.assembly, kind, schema, strings, self.names), reader)
            for reader in readers
            if kind in reader.assembly.types
        ]
        self.store = store
        self.types = tuple(_PYTHON[schema.columns[name]] for name in self.names)
        self.floats = [k for k, kind_ in enumerate(self.types) if kind_ is float]
        self.time = schema.time
        self.is_named = bool(self.lanes)
        self.take_number = intake.take_one
        self.keep = rows.append_one
        self.step = one_row_kernel()

    def take(self, event: Event) -> list[MatchBlock] | None:
        """Take an event in: the matches that it completes; None if it has to take the way of batches."""
        end = event.get(self.time)
        values = tuple(map(event.get, self.names))
        if type(end) is not int or tuple(map(type, values)) != self.types:
            return None
        for k in self.floats:
            if values[k] != values[k]:
                return None
        try:
            takers = [lane for lane in self.lanes if lane[0].write(values, end)]
            common = [pair for pair in self.common if pair[0].write(values, end)]
        except struct.error:  # an integer beyond 64 bits
            return None
        number = self.take_number(end)
        if number is None:
            return None
        for writer, reader in common:
            writer.numbers[at.T_SEQ] = number
            assert self.store is not None
            self.store(reader.rows(writer.row))
        found: list[MatchBlock] = []
        for writer, evaluator, state in takers:
            writer.numbers[at.T_SEQ] = number
            if self.step(writer.program, state.arena, NO_RANKS, writer.row, evaluator.output[0]):
                found += evaluator.resume(state, writer.row)
        for evaluator, state in self.waiting:
            if state.arena[at.S_DEADLINE] <= end:
                found += evaluator.advance(state, end, NO_RANKS, ended=False)
        if self.is_named:
            self.keep(number, event)
        return found


class RowWriter:
    """Writes the row of one event for one query: which leaves take it, and the attributes they need."""

    def __init__(self, assembly: Assembly, kind: str, schema: Schema, strings: StringTable, names: list[str]) -> None:
        """Add the attributes it reads to `names`; raise ValueError where the query is not plain enough."""
        self.program = assembly.program
        self.row: npt.NDArray[np.int64] = np.zeros((at.T_ATTRIBUTES + len(assembly.attributes), 1), dtype=np.int64)
        self.encode = strings.encode_one
        leaves = [(1 << bit, leaf) for bit, leaf in enumerate(assembly.leaves) if leaf.type == kind]
        self.mask = sum(bit for bit, _ in leaves)
        self.tests: list[tuple[int, Test]] = []
        for bit, leaf in leaves:
            for expression in leaf.filter.expressions:
                test = _test(expression, schema, names)
                if test is not None:
                    self.tests.append((bit, test))
        self.counted = 0 if assembly.count_window is None else 1 << at.COUNTED_BIT
        self.is_keyed = bool(assembly.partition)
        if any(column.is_float for column in assembly.partition):
            raise ValueError("float keys take the way of batches")
        # a leaf reads only the columns of its own type's variables; the others may be anything
        needed = {*assembly.partition, *(column for _, leaf in leaves for column in leaf.columns)}
        self.sources: list[int | None] = []
        self.texts: list[int] = []
        for place, column in enumerate(assembly.attributes):
            self.sources.append(_place(column.expression, schema, names) if column in needed else None)
            if column in needed and column.is_string:
                self.texts.append(place)
        kinds = "".join("d" if c.is_float else "q" for c in assembly.attributes)
        self.pack = struct.Struct(f"={at.T_ATTRIBUTES}q{kinds}").pack_into
        self.words = memoryview(self.row.data).cast("B")
        self.numbers = self.words.cast("q")

    def write(self, values: Sequence[Any], end: int) -> bool:
        """Write the row but for the event's number; False if no leaf takes the event."""
        mask = self.mask | self.counted
        for bit, test in self.tests:
            if not test(values):
                mask &= ~bit
        if not mask:
            return False
        chosen: list[Any] = [0 if k is None else values[k] for k in self.sources]
        for place in self.texts:
            chosen[place] = self.encode(chosen[place])
        self.pack(self.words, 0, end, end, 0, mask, chosen[0] if self.is_keyed else 0, 0, 0, 0, *chosen)
        return True


def _place(expression: Expression, schema: Schema, names: list[str]) -> int:
    """Where the value of a plain attribute lies; times and odd types take the way of batches."""
    if not isinstance(expression, Attribute) or expression.name in (*TIME_ATTRIBUTES, schema.time):
        raise ValueError("not a plain attribute")
    if schema.columns.get(expression.name) not in _PYTHON:
        raise ValueError("not a plain type")
    if expression.name not in names:
        names.append(expression.name)
    return names.index(expression.name)


def _test(expression: Expression, schema: Schema, names: list[str]) -> Test | None:
    """A plain filter as a function of the values; None for one that is true of all that come here."""
    match expression:
        case IsNull(operand=Attribute() as attribute, negated=True):
            _place(attribute, schema, names)
            return None
        case Comparison(operands=(Attribute() as attribute, Literal(value=value)), operators=(symbol,)):
            place = _place(attribute, schema, names)
            if type(value) is not _PYTHON[schema.columns[attribute.name]]:
                raise ValueError("a comparison of different types")
            compare = _COMPARE[symbol]
            return lambda values: compare(values[place], value)
        case _:
            raise ValueError("not a plain condition")
