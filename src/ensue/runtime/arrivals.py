"""Events of one type as they come to rules: their times, and their attributes when someone asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ensue.events.batch import EventBatch
from ensue.events.schema import Schema
from ensue.runtime.bits import Int64s, to_bits
from ensue.runtime.columns import read_column
from ensue.runtime.strings import StringTable


class Arrivals(Protocol):
    """Events in the order of their ends."""

    begin: Int64s
    end: Int64s

    def read(self, attribute: str) -> Int64s:
        """The values of an attribute, as bits."""


class BatchReader:
    """Reads the columns of a batch, each once, for all types and rules."""

    def __init__(self, batch: EventBatch, schema: Schema, strings: StringTable) -> None:
        self.batch, self._schema, self._strings = batch, schema, strings
        self._columns: dict[str, Int64s] = {}

    def read(self, attribute: str) -> Int64s:
        """The values of an attribute for all events."""
        if attribute not in self._columns:
            dtype = self._schema.columns[attribute]
            column = read_column(self.batch.table.column(attribute), dtype)
            self._columns[attribute] = to_bits(column, dtype, self._strings)
        return self._columns[attribute]

    def of_type(self, name: str) -> Arrivals | None:
        """The events of a type; None if there are none."""
        if name not in self.batch.type_names:
            return None
        places = np.flatnonzero(self.batch.type_codes == self.batch.type_names.index(name))
        return _FromBatch(self, places) if len(places) else None


class _FromBatch:
    """The events of one type in a batch."""

    def __init__(self, reader: BatchReader, places: Int64s) -> None:
        self._reader, self._places = reader, places
        self.begin: Int64s = reader.batch.begin[places]
        self.end: Int64s = reader.batch.end[places]

    def read(self, attribute: str) -> Int64s:
        return self._reader.read(attribute)[self._places]


class DerivedArrivals:
    """Derived events: rows of end, begin and attributes."""

    def __init__(self, rows: Int64s, places: Mapping[str, int]) -> None:
        self._rows, self._places = rows, places
        self.begin: Int64s = rows[:, 1]
        self.end: Int64s = rows[:, 0]

    def read(self, attribute: str) -> Int64s:
        """The values of an attribute, as bits."""
        column: Int64s = self._rows[:, self._places[attribute]]
        return column
