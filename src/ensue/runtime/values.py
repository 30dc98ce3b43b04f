"""Typed columns of values, and the rules by which they are calculated with and compared, for a whole batch at a time.

Every value may be null: a column has a mask of nulls beside its values (None: no nulls), and what the values are at
those places means nothing. A column of length one stands for a constant and is stretched to fit by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ensue.errors import QueryTypeError
from ensue.events.times import LARGEST, NULL, parse_time
from ensue.pattern.expressions import UNITS, Duration

Mask = npt.NDArray[np.bool_]


class Kind(Enum):
    """The type of a value while it is calculated with."""

    BOOL = "bool"
    INT = "int64"
    FLOAT = "float64"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    NULL = "null"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one kind: bool, float64 or int64; for strings the places in `words`, which holds each string once.

    Durations are int64, or float64 where parts of a microsecond came about.
    """

    kind: Kind
    values: npt.NDArray[Any]
    null: Mask | None = None
    words: tuple[str, ...] = ()

    def stretch(self, length: int) -> Column:
        """The column at this length; a constant is repeated."""
        if len(self.values) == length and (self.null is None or len(self.null) == length):
            return self
        null = None if self.null is None else np.broadcast_to(self.null, length)
        return replace(self, values=np.broadcast_to(self.values, length), null=null)

    def nulls(self) -> Mask:
        """The mask of nulls, of the values' length."""
        if self.null is None:
            return np.zeros(len(self.values), dtype=np.bool_)
        return np.broadcast_to(self.null, len(self.values))

    def encode(self) -> npt.NDArray[Any]:
        """int64 with null as -2^63, or float64 with null as NaN; strings stay places in `words`."""
        match self.kind:
            case Kind.NULL:
                return np.full(len(self.values), NULL, dtype=np.int64)
            case Kind.FLOAT:
                return self.values if self.null is None else np.where(self.null, np.nan, self.values)
            case _:
                values = whole_numbers(self.values)
                return values if self.null is None else np.where(self.null, NULL, values)


def constant(value: bool | int | float | str | Duration | None) -> Column:
    """A literal as a column of length one; a duration in microseconds, or a bare number if it has no unit."""
    match value:
        case None:
            return Column(Kind.NULL, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_))
        case bool():
            return Column(Kind.BOOL, np.array([value]))
        case int():
            if abs(value) > LARGEST:
                raise QueryTypeError(f"{value} does not fit in an int64")
            return Column(Kind.INT, np.array([value], dtype=np.int64))
        case float():
            return floats(np.array([value]))
        case str():
            return Column(Kind.STRING, np.zeros(1, dtype=np.int64), None, (value,))
        case Duration(amount=amount, unit=None):
            return constant(amount)
        case Duration(amount=amount, unit=unit):
            length = Fraction(repr(amount)) * UNITS[str(unit)]
            if abs(length) > LARGEST:
                raise QueryTypeError(f"{amount} {unit} does not fit in an int64 of microseconds")
            whole = length.denominator == 1
            return Column(
                Kind.DURATION, np.array([int(length)], dtype=np.int64) if whole else np.array([float(length)])
            )


def whole_numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Values as int64; parts of a microsecond are rounded off."""
    if values.dtype == np.float64:
        with np.errstate(invalid="ignore"):
            values = np.rint(values)
    return values.astype(np.int64, copy=False)


def floats(values: npt.NDArray[np.float64], null: Mask | None = None) -> Column:
    """A column of float64, in which NaN is null."""
    missing = np.isnan(values)
    return Column(Kind.FLOAT, values, either(null, missing if missing.any() else None))


def common_length(columns: Sequence[Column]) -> int:
    """The length of columns together; constants fit any, also none at all."""
    return int(np.broadcast_shapes(*(column.values.shape for column in columns))[0])


def either(*masks: Mask | None) -> Mask | None:
    """Null where any of the masks says so."""
    known = [mask for mask in masks if mask is not None]
    if not known:
        return None
    total = known[0]
    for mask in known[1:]:
        total = total | mask
    return total


def adopt(null: Column, kind: Kind) -> Column:
    """A column of nothing but nulls as one of this kind."""
    if kind is Kind.STRING:
        return replace(null, kind=kind, words=("",))
    dtype = {Kind.FLOAT: np.float64, Kind.BOOL: np.bool_}.get(kind, np.int64)
    return replace(null, kind=kind, values=np.zeros(len(null.values), dtype=dtype))


def as_float(column: Column) -> npt.NDArray[np.float64]:
    """The values of a number as float64."""
    return column.values.astype(np.float64, copy=False)


# -- arithmetic --------------------------------------------------------------------------------------------------------


def calculate(operator: str, left: Column, right: Column, unit: int) -> Column:
    """`left operator right`; `unit` is the length in microseconds of one step of the time column."""
    left, right = _settle_nulls(left, right)
    times = (Kind.TIMESTAMP, Kind.DURATION)
    a, b = left.kind, right.kind
    if a is Kind.NULL:
        return left
    if a not in times and b not in times:
        return _numbers(operator, left, right)
    if a is Kind.TIMESTAMP and b is Kind.TIMESTAMP and operator == "-":
        return replace(_whole(operator, left, right), kind=Kind.DURATION)
    if a is Kind.TIMESTAMP and b is Kind.DURATION and operator in "+-":
        return replace(_whole(operator, left, _rounded(right)), kind=Kind.TIMESTAMP)
    if a is Kind.DURATION and b is Kind.TIMESTAMP and operator == "+":
        return replace(_whole(operator, _rounded(left), right), kind=Kind.TIMESTAMP)
    if Kind.TIMESTAMP in (a, b):
        raise QueryTypeError(f"cannot calculate {a.value} {operator} {b.value}")
    if a is b:
        result = _numbers(operator, _ticks(left), _ticks(right))
        return replace(result, kind=Kind.DURATION) if operator in "+-" else result
    if operator == "*" or (operator == "/" and a is Kind.DURATION):
        return replace(_numbers(operator, _ticks(left), _ticks(right)), kind=Kind.DURATION)
    return _numbers(operator, in_steps(left, unit), in_steps(right, unit))


def _ticks(column: Column) -> Column:
    """A duration as the number of its microseconds; a number as it is."""
    if column.kind is not Kind.DURATION:
        return column
    return replace(column, kind=Kind.FLOAT if column.values.dtype == np.float64 else Kind.INT)


def _rounded(column: Column) -> Column:
    return replace(column, values=whole_numbers(column.values))


def in_steps(column: Column, unit: int) -> Column:
    """A duration as a number of the time column's steps (an int if all are whole); other numbers as they are."""
    if column.kind is not Kind.DURATION:
        return column
    if column.values.dtype == np.int64 and not (column.values % unit).any():
        return Column(Kind.INT, column.values // unit, column.null)
    return Column(Kind.FLOAT, column.values / unit, column.null)


def negate(column: Column) -> Column:
    """`-column`."""
    return column if column.kind is Kind.NULL else replace(column, values=-column.values)


def _settle_nulls(left: Column, right: Column) -> tuple[Column, Column]:
    """NULL takes the kind of what stands beside it; next to a timestamp it may be that or a duration."""
    if left.kind is Kind.NULL and right.kind is not Kind.NULL:
        left = adopt(left, right.kind)
    elif right.kind is Kind.NULL and left.kind is not Kind.NULL:
        right = adopt(right, Kind.DURATION if left.kind is Kind.TIMESTAMP else left.kind)
    return left, right


def _numbers(operator: str, left: Column, right: Column) -> Column:
    for column in (left, right):
        if column.kind not in (Kind.INT, Kind.FLOAT):
            raise QueryTypeError(f"cannot calculate with a {column.kind.value}")
    if left.kind is Kind.INT and right.kind is Kind.INT and operator != "/":
        return _whole(operator, left, right)
    null = either(left.null, right.null)
    x, y = as_float(left), as_float(right)
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                return floats(x + y, null)
            case "-":
                return floats(x - y, null)
            case "*":
                return floats(x * y, null)
            case "/":
                zero = y == 0
                return floats(x / np.where(zero, 1.0, y), either(null, zero if zero.any() else None))
            case _:
                zero = y == 0
                return floats(np.fmod(x, np.where(zero, 1.0, y)), either(null, zero if zero.any() else None))


def _whole(operator: str, left: Column, right: Column) -> Column:
    """int64 arithmetic; null where the result does not fit."""
    a, b = left.values, right.values
    null = either(left.null, right.null)
    unfit: Mask
    with np.errstate(over="ignore"):
        match operator:
            case "+":
                result = a + b
                unfit = ((a ^ result) & (b ^ result)) < 0
            case "-":
                result = a - b
                unfit = ((a ^ b) & (a ^ result)) < 0
            case "*":
                result = a * b
                unfit = _product_unfit(a, b, result)
            case _:
                zero = b == 0
                divisor = np.where(zero, 1, b)
                return Column(Kind.INT, np.fmod(a, divisor), either(null, zero if zero.any() else None))
        unfit = unfit | (result == NULL)
    return Column(Kind.INT, result, either(null, unfit if unfit.any() else None))


def _product_unfit(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], result: npt.NDArray[np.int64]) -> Mask:
    if not len(a) or not len(b):
        return np.zeros(len(result), dtype=np.bool_)
    bound = max(abs(int(a.min())), abs(int(a.max()))) * max(abs(int(b.min())), abs(int(b.max())))
    if bound <= LARGEST:
        return np.zeros(len(result), dtype=np.bool_)
    # NULL at a masked place may stand in for a value: the quotient then means nothing, and is masked as well
    safe = np.where((a == 0) | (a == -1), 1, a)
    wrapped = (result // safe != b) | (result % safe != 0)
    return np.where((a == 0) | (a == -1), False, wrapped)


# -- comparison --------------------------------------------------------------------------------------------------------

Comparing: TypeAlias = Mapping[str, Callable[[Any, Any], Any]]
"""How arrays of values are compared, by operator."""

NUMPY: Comparing = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def compare(operator: str, left: Column, right: Column, unit: int, by: Comparing = NUMPY) -> Column:
    """`left operator right`, null where either is null."""
    null = either(left.null, right.null)
    if Kind.NULL in (left.kind, right.kind):
        length = common_length((left, right))
        return Column(Kind.BOOL, np.zeros(length, dtype=np.bool_), np.ones(length, dtype=np.bool_))
    a, b = _comparable(left, right, unit)
    return Column(Kind.BOOL, by[operator](a, b), null)


def _comparable(left: Column, right: Column, unit: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two columns as arrays that NumPy compares as the language does."""
    if left.kind is Kind.STRING and right.kind is Kind.STRING:
        return _in_order(left, right)
    if left.kind is Kind.STRING and right.kind is Kind.TIMESTAMP:
        left = read_times(left)
    elif right.kind is Kind.STRING and left.kind is Kind.TIMESTAMP:
        right = read_times(right)
    numbers = (Kind.INT, Kind.FLOAT)
    if left.kind is Kind.DURATION and right.kind in numbers:
        left = in_steps(left, unit)
    elif right.kind is Kind.DURATION and left.kind in numbers:
        right = in_steps(right, unit)
    if left.kind is right.kind:
        return left.values, right.values
    if left.kind in numbers and right.kind in numbers:
        return as_float(left), as_float(right)
    raise QueryTypeError(f"cannot compare a {left.kind.value} with a {right.kind.value}")


def read_times(column: Column) -> Column:
    """Strings as the timestamps that they write."""
    try:
        times = np.array([parse_time(word) for word in column.words], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise QueryTypeError(f"not a time in ISO-8601: {error}") from error
    return Column(Kind.TIMESTAMP, times[column.values], column.null)


def _in_order(left: Column, right: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    place = {word: i for i, word in enumerate(sorted({*left.words, *right.words}))}
    a = np.array([place[word] for word in left.words], dtype=np.int64)
    b = np.array([place[word] for word in right.words], dtype=np.int64)
    return a[left.values], b[right.values]


# -- logic -------------------------------------------------------------------------------------------------------------


def all_true(columns: Sequence[Column]) -> Column:
    """AND in three-valued logic."""
    value, unknown = _truth(columns[0])
    for column in columns[1:]:
        other, other_unknown = _truth(column)
        false = (~value & ~unknown) | (~other & ~other_unknown)
        unknown = (unknown | other_unknown) & ~false
        value = ~false
    return Column(Kind.BOOL, value & ~unknown, unknown if unknown.any() else None)


def any_true(columns: Sequence[Column]) -> Column:
    """OR in three-valued logic."""
    return invert(all_true([invert(column) for column in columns]))


def invert(column: Column) -> Column:
    """NOT in three-valued logic."""
    value, unknown = _truth(column)
    return Column(Kind.BOOL, ~value, unknown if unknown.any() else None)


def _truth(column: Column) -> tuple[Mask, Mask]:
    if column.kind is Kind.NULL:
        column = adopt(column, Kind.BOOL)
    if column.kind is not Kind.BOOL:
        raise QueryTypeError(f"a condition is needed, not a {column.kind.value}")
    return column.values, column.nulls()
