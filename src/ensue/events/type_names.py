"""The names by which a person may call the type of a column."""

from __future__ import annotations

from ensue.events.schema import DType

TYPE_NAMES: dict[str, DType] = {
    **dict.fromkeys(("bool", "boolean"), DType.BOOL),
    **dict.fromkeys(("int64", "int", "integer", "long", "bigint"), DType.INT),
    **dict.fromkeys(("float64", "float", "double", "number"), DType.FLOAT),
    **dict.fromkeys(("string", "str", "text"), DType.STRING),
    **dict.fromkeys(("timestamp", "datetime", "date"), DType.TIMESTAMP),
}
