"""`ensue_match`: queries over a table, in SQL.

    SELECT * FROM ensue_match(TABLE(events), 'PATTERN SEQ(A a, B b) WITHIN 10 minutes')

The planner's key tells Spark which events to bring together; without one, all go to one place. Spark hands rows to a
table function one by one, so `detect` is far quicker for much data, and streams need it: Spark refuses table functions
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.udtf import (
    AnalyzeArgument,
    AnalyzeResult,
    PartitioningColumn,
    SelectedColumn,
    UserDefinedTableFunction,
)

from ensue.errors import PlanError
from ensue.options import Options
from ensue.planning.spread import find_spread
from ensue.runtime.compiling import read_queries
from ensue.spark.batch import ROWS_AT_ONCE
from ensue.spark.recipe import Recipe, plain_types
from ensue.spark.routing import microseconds, quote

_PLACES = 64
"""Into how many parts keys are put together, so that a part is worth a call."""

_SETTINGS = {"type": "type", "ts": "ts", "begin": None, "unit": "ms", "strict": True}


def register(spark: SparkSession, name: str = "ensue_match") -> None:
    """Make the table function known to a session.

    Example::

        register(spark)
        spark.sql("SELECT * FROM ensue_match(TABLE(events), 'PATTERN SEQ(A a, B b) WITHIN 10 minutes')")
    """
    spark.udtf.register(name, cast(UserDefinedTableFunction, F.udtf(EnsueMatch, useArrow=True)))


class EnsueMatch:
    """The table function: of a table, queries, and by name `type`, `ts`, `begin`, `unit`, `strict`.

    A result of SQL has no side table, so a row that cannot be read is an error, unless `strict => false` says to pass
    over it.
    """

    def __init__(self, plan: _Plan) -> None:
        self._recipe = plan.recipe
        self._rows: list[tuple[Any, ...]] = []

    @staticmethod
    def analyze(events: AnalyzeArgument, queries: AnalyzeArgument, **settings: AnalyzeArgument) -> AnalyzeResult:
        """The columns of the result, and how Spark is to bring the rows together."""
        if not events.isTable or not isinstance(events.dataType, T.StructType):
            raise PlanError("the first argument of ensue_match is a table: ensue_match(TABLE(events), '…')")
        recipe = _recipe(events.dataType, queries.value, {name: given.value for name, given in settings.items()})
        found = recipe.bind(recipe.make_engine()).to_arrow().schema
        schema = from_arrow_schema(pa.schema([(field.name, plain_types(field.type)) for field in found]))
        keys = {find_spread(query, recipe.schema).key for query in recipe.queries}
        key = keys.pop() if len(keys) == 1 else None
        columns = [_as_numbers(field) for field in events.dataType]
        if key is None or not key.every:
            return _Plan(schema, withSinglePartition=True, select=columns, recipe=recipe)
        hashed = f"pmod(xxhash64({', '.join(quote(name) for name in key.every)}), {_PLACES})"
        return _Plan(schema, partitionBy=[PartitioningColumn(hashed)], select=columns, recipe=recipe)

    def eval(self, events: Row, queries: str, **settings: Any) -> None:
        """Take a row in; what is found is told at the end."""
        self._rows.append(tuple(events))

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """The matches in the rows."""
        layout = self._recipe.layout
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(layout)
        arrays = [_from_numbers(column, field.type) for column, field in zip(columns, layout, strict=False)]
        engine = self._recipe.make_engine()
        for matches in engine.run_sorted(pa.table(arrays, schema=layout), ROWS_AT_ONCE):
            for row in matches.to_arrow().to_pylist():
                yield tuple(row.values())


@dataclass
class _Plan(AnalyzeResult):
    """What the analysis found out; Spark hands it to each worker."""

    recipe: Recipe = field(kw_only=True)


def _as_numbers(column: T.StructField) -> SelectedColumn:
    """A column as Spark is to pass it: times as microseconds, which no time zone changes on the way to Python."""
    if isinstance(column.dataType, T.TimestampType | T.TimestampNTZType):
        return SelectedColumn(microseconds(column), alias=column.name)
    return SelectedColumn(quote(column.name))


def _from_numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us")).cast(kind)
    return pa.array(values, kind)


def _recipe(columns: T.StructType, queries: Any, settings: dict[str, Any]) -> Recipe:
    unknown = sorted(settings.keys() - _SETTINGS.keys())
    if unknown:
        raise PlanError(f"ensue_match has no argument `{unknown[0]}`; there are {', '.join(_SETTINGS)}")
    if not isinstance(queries, str):
        raise PlanError("the second argument of ensue_match is the text of a query, a constant")
    chosen = _SETTINGS | {name: value for name, value in settings.items() if value is not None}
    layout = to_arrow_schema(columns, timezone="UTC")
    return Recipe(read_queries(queries), layout, **chosen, lateness=0, options=Options())
