"""The columns of text files: their types as they are given, or found out by reading."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ensue.errors import PlanError
from ensue.events.schema import DType
from ensue.events.type_names import TYPE_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_TYPES: dict[DType, DataType] = {
    DType.BOOL: BooleanType(),
    DType.INT: LongType(),
    DType.FLOAT: DoubleType(),
    DType.STRING: StringType(),
    DType.TIMESTAMP: TimestampType(),
}


def given_types(schema: Mapping[str, str] | None, type_column: str) -> dict[str, DataType]:
    """The types that a source's schema gives to columns; the column of the events' type is text in any case."""
    found: dict[str, DataType] = {}
    for name, given in (schema or {}).items():
        dtype = TYPE_NAMES.get(given.lower())
        if dtype is None:
            known = ", ".join(dtype.value for dtype in DType)
            raise PlanError(f"the schema gives column {name!r} the unknown type {given!r}; types are {known}")
        found[name] = _SPARK_TYPES[dtype]
    return found | {type_column: StringType()}


def make_schema(types: Mapping[str, DataType]) -> StructType:
    """A schema of these columns, any of which may be null."""
    return StructType([StructField(name, kind) for name, kind in types.items()])


def found_types(sample: DataFrame, numeric: Collection[str]) -> dict[str, DataType]:
    """The types that Spark has found for the columns of text files, integers and floats in their widest form.

    A column in `numeric` that Spark takes for text because some values are no numbers is a number if others are.
    """
    types = {field.name: widen(field.dataType) for field in sample.schema}
    doubtful = [name for name, kind in types.items() if isinstance(kind, StringType) and name in numeric]
    if not doubtful:
        return types
    counts = [
        F.count(F.expr(f"try_cast({quote(name)} AS {kind})")).alias(f"{place}_{kind}")
        for place, name in enumerate(doubtful)
        for kind in ("bigint", "double")
    ]
    row = sample.agg(*counts).collect()[0]
    for place, name in enumerate(doubtful):
        whole, numbers = row[f"{place}_bigint"], row[f"{place}_double"]
        if numbers:
            types[name] = LongType() if whole == numbers else DoubleType()
    return types


def widen(kind: DataType) -> DataType:
    """The type in which ensue holds the values of a type: every integer is 64 bits long, every float too."""
    match kind:
        case ByteType() | ShortType() | IntegerType():
            return LongType()
        case FloatType():
            return DoubleType()
        case NullType():
            return StringType()
        case _:
            return kind


def quote(name: str) -> str:
    """A column's name as Spark's SQL takes it, whatever is in it.

    >>> quote("a.x"), quote("odd`name")
    ('`a.x`', '`odd``name`')
    """
    return "`" + name.replace("`", "``") + "`"
