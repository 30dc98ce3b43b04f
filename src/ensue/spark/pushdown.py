"""Which rows Spark may leave out by itself: queries' relevance (see `planning.relevance`) as one condition of Spark.

The condition may let too much through, never too little: what is left is decided again where the events are matched.
So every translation below is a pair of questions, when an expression can be true and when it can be false, answered by
a condition that holds at least then; None says that Spark cannot tell. Two questions, because NOT turns one into the
other, and a null is neither. Nothing is translated unless Spark means just the same by it: no arithmetic (here an
overflow or a division by zero is null), no functions, no times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ensue.events.times import NULL
from ensue.pattern.expressions import (
    TIME_ATTRIBUTES,
    Attribute,
    Between,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from ensue.pattern.implications import MIRRORED
from ensue.planning.relevance import Alternatives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ALTERNATIVES = 64
"""A type with more alternatives goes on whole: to test them all would cost more than it saves."""

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
_INTEGERS: dict[type[DataType], int] = {
    ByteType: -(2**7),
    ShortType: -(2**15),
    IntegerType: -(2**31),
    LongType: -(2**63),
}
_TIMES: dict[type[DataType], str] = {
    TimestampType: "TIMESTAMP '0001-01-01 00:00:00'",
    TimestampNTZType: "TIMESTAMP_NTZ '0001-01-01 00:00:00'",
    DateType: "DATE '0001-01-01'",
}
# Texts that surely are times (the last days of months are not looked at: they go on).
_CLEAR_TIME = (
    r"^[12]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
    r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.(\d{3}|\d{6}))?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$"
)


def relevance_filter(
    events: DataFrame | StructType,
    alternatives: Mapping[str, Alternatives] | None,
    type: str = "type",
    ts: str = "ts",
    begin: str | None = None,
) -> Column | None:
    """The condition of the rows that must go on; None if that is all of them.

    Those are the rows whose type has an alternative that they can satisfy, and the rows that will be rejected, with a
    reason, whatever their type: without a type or a time, with a begin after the end, with an integer that is -2^63.

    The condition is one OR that speaks of the column `ts` in a way that no simplification takes away. So Spark keeps it
    after a watermark on that column, which must see the times of all events; and it moves it down to the files of a
    batch.
    """
    schema = events if isinstance(events, StructType) else events.schema
    kinds = {field.name: field.dataType for field in schema.fields}
    unreadable = _unreadable(kinds, type, ts, begin)
    if alternatives is None or unreadable is None:
        return None
    attributes = {name: kind for name, kind in kinds.items() if name not in (*TIME_ATTRIBUTES, ts, begin)}
    whole: list[str] = []
    partly: list[Column] = []
    for name, ways in alternatives.items():
        few = len(ways) <= MOST_ALTERNATIVES
        condition = _any(_can_satisfy(way, attributes) for way in ways) if few else None
        if condition is None:
            whole.append(name)
        elif (of_type := _is_type(kinds[type], type, [name])) is not None:
            partly.append(of_type & condition)
    of_types = _is_type(kinds[type], type, whole)
    return _join(or_, [*([] if of_types is None else [of_types]), *partly, *unreadable])


# -- rows -----------------------------------------------------------------------------------------------------------


def _unreadable(kinds: Mapping[str, DataType], kind: str, ts: str, begin: str | None) -> list[Column] | None:
    """Conditions of which each row that will be rejected satisfies one; None if Spark cannot tell."""
    if not _is_text(kinds[kind]) and type(kinds[kind]) not in _INTEGERS:
        return None
    found = [_column(kind).isNull(), _column(ts).isNull()]
    time = kinds[ts]
    # Where Spark knows that the column has no nulls it drops IS NULL: something else has to speak of the time then.
    if type(time) in _INTEGERS:
        found.append(_column(ts) == sf.lit(_INTEGERS[type(time)]).cast(time))
    elif type(time) in _TIMES:
        found.append(_column(ts) < sf.expr(_TIMES[type(time)]))
    elif _is_text(time) and begin is None:
        found.append(~_column(ts).rlike(_CLEAR_TIME))
    else:
        return None
    if begin is not None:
        pair = {type(time), type(kinds[begin])}
        if len(pair) > 1 and not pair <= _INTEGERS.keys():
            return None
        found += [_column(begin).isNull(), _column(begin) > _column(ts)]
    longs = [name for name, dtype in kinds.items() if isinstance(dtype, LongType) and name != ts]
    return [*found, *(_column(name) == sf.lit(NULL) for name in longs)]


def _is_type(kind: DataType, column: str, names: list[str]) -> Column | None:
    """That a row is of one of these types; None if no row can be. Integers are types by their decimal text."""
    if _is_text(kind):
        names = [name for name in names if _is_encodable(name)]
        return _column(column).isin(names) if names else None
    numbers = [int(name) for name in names if _is_decimal(name)]
    return _column(column).cast("long").isin(numbers) if numbers else None


def _is_decimal(text: str) -> bool:
    """Whether a text is what an int64 is written as."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and abs(int(text)) < 2**63


def _can_satisfy(conjuncts: Iterable[Expression], attributes: Mapping[str, DataType]) -> Column | None:
    return _all(can_be(conjunct, True, attributes) for conjunct in conjuncts)


# -- expressions ------------------------------------------------------------------------------------------------------


def can_be(expression: Expression, wanted: bool, attributes: Mapping[str, DataType]) -> Column | None:
    """A condition that holds at least where an expression over EVENT is `wanted`; None if Spark cannot tell.

    `attributes` are the columns that names may stand for.
    """
    match expression:
        case Literal(value=value):
            return sf.lit(value is wanted) if value is None or isinstance(value, bool) else None
        case Attribute(name=name) if isinstance(attributes.get(name), BooleanType):
            return _column(name) if wanted else ~_column(name)
        case Not(operand=operand):
            return can_be(operand, not wanted, attributes)
        case Logical(operator=operator, operands=operands):
            parts = [can_be(operand, wanted, attributes) for operand in operands]
            return _all(parts) if (operator == "AND") is wanted else _any(parts)
        case Comparison(operands=operands, operators=operators):
            pairs = zip(operators, operands[:-1], operands[1:], strict=True)
            parts = [_compare(op, left, right, wanted, attributes) for op, left, right in pairs]
            return _all(parts) if wanted else _any(parts)
        case Between(operand=operand, low=low, high=high, negated=negated):
            inside = wanted is not negated
            ends = [
                _compare("<=", low, operand, inside, attributes),
                _compare("<=", operand, high, inside, attributes),
            ]
            return _all(ends) if inside else _any(ends)
        case InList(operand=operand, items=items, negated=negated):
            return _among(operand, items, wanted is not negated, attributes)
        case Like(operand=Attribute(name=name), pattern=pattern, negated=negated) if _is_text(attributes.get(name)):
            return _like(name, pattern, wanted is not negated)
        case IsNull(operand=Attribute(name=name), negated=negated):
            return _is_null(name, attributes.get(name), wanted is not negated)
        case _:
            return None


def _compare(
    operator: str, left: Expression, right: Expression, wanted: bool, attributes: Mapping[str, DataType]
) -> Column | None:
    """When a comparison of an attribute with a constant, on either side, can be `wanted`."""
    left, right = _folded(left), _folded(right)
    if isinstance(left, Literal):
        operator, left, right = MIRRORED[operator], right, left
    if not isinstance(left, Attribute) or not isinstance(right, Literal):
        return None
    kind, value = attributes.get(left.name), right.value
    if kind is None:
        return None
    if value is None or value != value:  # NaN is null
        return sf.lit(False)
    operator = operator if wanted else _OPPOSITE[operator]
    column = _column(left.name)
    match value:
        case bool() if isinstance(kind, BooleanType):
            return _apply(operator, column, sf.lit(value))
        case bool():
            return None
        case int() if type(kind) in _INTEGERS and abs(value) < 2**63:
            return _apply(operator, column.cast("long"), sf.lit(value).cast("long"))
        case int() | float() if _is_number(kind):
            return _compare_floats(operator, column.cast("double"), float(value))
        case str() if _is_text(kind) and _is_encodable(value):
            return _apply(operator, column, sf.lit(value))
        case _:
            return None


def _among(
    operand: Expression, items: Iterable[Expression], wanted: bool, attributes: Mapping[str, DataType]
) -> Column | None:
    """When IN can be `wanted`: by Spark's IN for constants, else by a comparison for each item."""
    folded = [_folded(item) for item in items]
    values = [item.value for item in folded if isinstance(item, Literal)]
    if isinstance(operand, Attribute) and len(values) == len(folded):
        there = [value for value in values if value is not None and value == value]  # NaN is null
        tests = _is_in(operand.name, attributes.get(operand.name), there)
        if tests is not None and wanted:
            return _any(tests)
        if tests is not None:
            return _all(~test for test in tests) if len(there) == len(values) else sf.lit(False)
    parts = [_compare("=", operand, item, wanted, attributes) for item in folded]
    return _any(parts) if wanted else _all(parts)


def _is_in(name: str, kind: DataType | None, values: Sequence[object]) -> list[Column] | None:
    """Tests of which one holds where a column is one of some texts or numbers; None if the two do not go together."""
    column = _column(name)
    if _is_text(kind):
        texts = [value for value in values if isinstance(value, str) and _is_encodable(value)]
        if len(texts) < len(values):
            return None
        return [column.isin(texts)] if texts else []
    integers = [value for value in values if type(value) is int and abs(value) < 2**63]
    floats = [value for value in values if type(value) is float]
    if not _is_number(kind) or len(integers) + len(floats) < len(values):
        return None
    if type(kind) not in _INTEGERS:
        integers, floats = [], [*floats, *map(float, integers)]
    if 0.0 in floats:
        floats += [0.0, -0.0]  # see `_compare_floats`
    tests = [column.cast("long").isin(integers)] if integers else []
    return [*tests, column.cast("double").isin(floats)] if floats else tests


def _compare_floats(operator: str, column: Column, value: float) -> Column:
    """A comparison of floats; a NaN, which is greatest for Spark and null here, may go on.

    -0.0 equals 0.0 in Spark's comparisons, not in those that readers of files make with the values of a dictionary or
    the ends of a block, where it is smaller: so a range that has one zero in it is made to have both.
    """
    if value == 0 and operator == "=":
        return (column >= sf.lit(-0.0)) & (column <= sf.lit(0.0))
    if value == 0:
        value = -0.0 if operator == ">=" else 0.0
    return _apply(operator, column, sf.lit(value))


def _apply(operator: str, left: Column, right: Column) -> Column:
    match operator:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _folded(expression: Expression) -> Expression:
    """A constant with a minus before it as one constant."""
    match expression:
        case Negate(operand=operand):
            match _folded(operand):
                case Literal(value=int(value) | float(value)) if not isinstance(value, bool):
                    return Literal(-value)
    return expression


def _is_null(name: str, kind: DataType | None, wanted: bool) -> Column | None:
    column = _column(name)
    if isinstance(kind, FloatType | DoubleType):
        return column.isNull() | sf.isnan(column) if wanted else column.isNotNull() & ~sf.isnan(column)
    if isinstance(kind, BooleanType) or _is_text(kind) or type(kind) in _INTEGERS:
        return column.isNull() if wanted else column.isNotNull()
    return None


def _like(name: str, pattern: str, wanted: bool) -> Column | None:
    """LIKE with a pattern that Spark reads as we do: it refuses a backslash before what needs none.

    Characters beyond 16 bits are left: Spark takes a pattern apart by halves of them.
    """
    if not _is_encodable(pattern) or any(ord(character) > 0xFFFF for character in pattern):
        return None
    parts, escaped = [], False
    for character in pattern:
        if character == "\\" and not escaped:
            escaped = True
            continue
        needs_escape = character == "\\" or (escaped and character in "%_")
        parts.append(f"\\{character}" if needs_escape else character)
        escaped = False
    if escaped:  # nothing follows to be escaped
        parts.append("\\\\")
    alike = _column(name).like("".join(parts))
    return alike if wanted else ~alike


# -- small parts ------------------------------------------------------------------------------------------------------


def _all(parts: Iterable[Column | None]) -> Column | None:
    """All of some conditions, as far as they are known."""
    known = [part for part in parts if part is not None]
    return _join(and_, known) if known else None


def _any(parts: Iterable[Column | None]) -> Column | None:
    """One of some conditions; unknown if one of them is."""
    known: list[Column] = []
    for part in parts:
        if part is None:
            return None
        known.append(part)
    return _join(or_, known) if known else sf.lit(False)


def _join(operator: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """Conditions joined as a tree of little depth: Spark walks it recursively."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operator(_join(operator, parts[:middle]), _join(operator, parts[middle:]))


def _column(name: str) -> Column:
    """A column by its name, whatever characters it has."""
    return sf.col("`" + name.replace("`", "``") + "`")


def _is_text(kind: DataType | None) -> bool:
    """Whether a column holds texts that compare by their bytes, which is the order of code points."""
    return isinstance(kind, StringType) and kind.isUTF8BinaryCollation()


def _is_number(kind: DataType | None) -> bool:
    return type(kind) in _INTEGERS or isinstance(kind, FloatType | DoubleType)


def _is_encodable(text: str) -> bool:
    """Whether a text can be given to Spark: no half of a surrogate pair is in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
