"""Every form in which users hold events gives the same columns."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ensue.errors import InputError
from ensue.events.intake import Intake
from ensue.events.readers import read_table
from ensue.events.schema import DType

ROWS = [{"type": "A", "ts": 1, "price": 1.5}, {"type": "B", "ts": 2, "price": None}]
TABLE = pa.Table.from_pylist(ROWS)


class Stream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


FORMS: dict[str, Any] = {
    "table": TABLE,
    "record batch": TABLE.to_batches()[0],
    "reader": pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
    "pandas": pd.DataFrame(ROWS),
    "pandas with a time index": pd.DataFrame(ROWS).set_index("ts"),
    "pandas of objects": pd.DataFrame({k: pd.Series([r[k] for r in ROWS], dtype=object) for k in ROWS[0]}),
    "polars": pl.DataFrame(ROWS),
    "polars, lazy": pl.DataFrame(ROWS).lazy(),
    "polars categorical": pl.DataFrame(ROWS).with_columns(pl.col("type").cast(pl.Categorical)),
    "rows": ROWS,
    "tuple of rows": tuple(ROWS),
    "generator of rows": (row for row in ROWS),
    "columns": {"type": ["A", "B"], "ts": np.array([1, 2]), "price": pa.array([1.5, None])},
    "arrow stream": Stream(),
    "arrow array": Array(),
    "dictionary text": TABLE.set_column(0, "type", TABLE["type"].dictionary_encode()),
    "large text": TABLE.set_column(0, "type", TABLE["type"].cast(pa.large_string())),
    "text views": TABLE.set_column(0, "type", TABLE["type"].cast(pa.string_view())),
    "narrow ints": TABLE.set_column(1, "ts", TABLE["ts"].cast(pa.uint8())),
    "decimals": TABLE.set_column(2, "price", pa.array([Decimal("1.5"), None])),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_events(form: str) -> None:
    intake = Intake()
    batch = intake.push(FORMS[form])
    assert intake.schema is not None
    assert intake.schema.columns == {"type": DType.STRING, "ts": DType.INT, "price": DType.FLOAT}
    rows = [{name: row[name] for name in ("type", "ts", "price")} for row in batch.table.to_pylist()]
    assert rows == ROWS
    assert [batch.type_names[c] for c in batch.type_codes] == ["A", "B"]
    assert batch.end.tolist() == [1, 2]
    assert batch.begin is batch.end


def test_one_event_as_a_dict() -> None:
    assert Intake().push({"type": "A", "ts": 1}).end.tolist() == [1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "cannot read events from a int"),
        ("events.csv", "cannot read events from a str"),
        ({"type": ["A"], "ts": [1, 2]}, "differ in length"),
        ({"type": ["A"], "ts": 1}, "single int"),
        (pa.table([pa.array([1]), pa.array([1])], names=["ts", "ts"]), "two columns called `ts`"),
        ([{"type": "A", "tss": 1}], "no column `ts`; did you mean `tss`"),
        ({"type": ["A"], "ts": [True]}, "cannot be the time column"),
        (pa.chunked_array([[1]]), "cannot read events from|does not hold a table"),
    ],
)
def test_what_holds_no_events_is_an_error(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Intake().push(data)


def test_types_are_inferred_by_arrow_type() -> None:
    table = pa.table(
        {
            "type": ["A"],
            "ts": pa.array([1], pa.int32()),
            "day": pa.array([dt.date(2024, 1, 2)]),
            "at": pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("ns")),
            "flag": [True],
            "half": pa.array([1.5], pa.float16()),
            "money": pa.array([Decimal("1.25")]),
            "nothing": pa.nulls(1),
            "tags": [["x"]],
            "raw": [b"x"],
            "kind": pa.array(["u"]).dictionary_encode(),
            "code": pa.array([7]).dictionary_encode(),
        }
    )
    intake = Intake()
    batch = intake.push(table)
    assert intake.schema is not None
    assert {name: dtype.name for name, dtype in intake.schema.columns.items()} == {
        "type": "STRING",
        "ts": "INT",
        "day": "TIMESTAMP",
        "at": "TIMESTAMP",
        "flag": "BOOL",
        "half": "FLOAT",
        "money": "FLOAT",
        "nothing": "FLOAT",
        "kind": "STRING",
        "code": "INT",
    }
    assert batch.table.column_names == table.column_names
    assert batch.table["tags"].to_pylist() == [["x"]]
    assert batch.table["money"].to_pylist() == [1.25]
    assert batch.table["day"].to_pylist() == [dt.datetime(2024, 1, 2)]


def test_rows_that_are_no_rows_are_marked() -> None:
    raw = read_table([{"type": "A"}, 5, {"type": "B"}])
    assert raw.unreadable == {1: "5 is not a row (a dict of columns)"}


WITHOUT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars", "numba"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from ensue.events.intake import Intake
import ensue.runtime.matches
sys.exit(len(Intake().push([{"type": "A", "ts": 1}])) != 1)
"""


def test_neither_pandas_nor_polars_is_needed() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT], check=False).returncode == 0


def test_importing_loads_neither_pandas_nor_polars() -> None:
    code = (
        "import sys, ensue.events.intake, ensue.runtime.matches; "
        "sys.exit(any(name in sys.modules for name in ('pandas', 'polars', 'numba')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
