"""The functions of the language and LIKE, on typed columns; those of strings look at each distinct string once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ensue.errors import QueryTypeError
from ensue.events.times import LARGEST
from ensue.pattern.like import compile_like
from ensue.runtime.values import Column, Kind, Mask, adopt, as_float, common_length, either, floats, in_steps


def call(function: str, arguments: Sequence[Column], unit: int) -> Column:
    """`function(arguments)`; null if an argument is null, but for coalesce."""
    first = arguments[0]
    if function == "coalesce":
        return _coalesce(arguments, unit)
    if any(argument.kind is Kind.NULL for argument in arguments):
        return adopt(_all_null(arguments), _result_kind(function, first.kind))
    match function:
        case "lower":
            return _map_words(first, str.lower)
        case "upper":
            return _map_words(first, str.upper)
        case "length":
            lengths = np.array([len(word) for word in _words(first)], dtype=np.int64)
            return Column(Kind.INT, lengths[first.values], first.null)
        case "abs":
            return Column(first.kind, np.abs(first.values), first.null)
        case "floor" | "ceil":
            if first.kind is not Kind.FLOAT:
                return first
            return Column(Kind.FLOAT, (np.floor if function == "floor" else np.ceil)(first.values), first.null)
        case "round":
            return _round(first, arguments[1] if len(arguments) > 1 else None)
        case _:
            raise QueryTypeError(f"there is no function `{function}`")


def like(column: Column, pattern: str) -> Column:
    """Whether strings are like a pattern of `%`, `_` and `\\` to escape."""
    if column.kind is Kind.NULL:
        return adopt(column, Kind.BOOL)
    found = compile_like(pattern)
    alike = np.array([found.fullmatch(word) is not None for word in _words(column)], dtype=np.bool_)
    return Column(Kind.BOOL, alike[column.values], column.null)


def _result_kind(function: str, first: Kind) -> Kind:
    if function == "length":
        return Kind.INT
    return first


def _all_null(arguments: Sequence[Column]) -> Column:
    length = common_length(arguments)
    return Column(Kind.NULL, np.zeros(length, dtype=np.int64), np.ones(length, dtype=np.bool_))


def _words(column: Column) -> tuple[str, ...]:
    if column.kind is not Kind.STRING:
        raise QueryTypeError(f"a string is needed, not a {column.kind.value}")
    return column.words


def _map_words(column: Column, change: Callable[[str], str]) -> Column:
    places: dict[str, int] = {}
    codes = [places.setdefault(change(word), len(places)) for word in _words(column)]
    return Column(Kind.STRING, np.array(codes, dtype=np.int64)[column.values], column.null, tuple(places))


def _coalesce(arguments: Sequence[Column], unit: int) -> Column:
    known = [argument for argument in arguments if argument.kind is not Kind.NULL]
    if not known:
        return _all_null(arguments)
    kinds = {argument.kind for argument in known}
    length = common_length(arguments)
    if len(kinds) > 1 and Kind.DURATION in kinds:
        known = [in_steps(argument, unit) for argument in known]
        kinds = {argument.kind for argument in known}
    if kinds == {Kind.INT, Kind.FLOAT}:
        known = [Column(Kind.FLOAT, as_float(argument), argument.null) for argument in known]
    elif len(kinds) > 1:
        raise QueryTypeError("coalesce needs values of one type, not " + ", ".join(sorted(k.value for k in kinds)))
    if known[0].kind is Kind.STRING:
        known = _share_words(known)
    result = known[0].stretch(length)
    for argument in known[1:]:
        if result.null is None:
            break
        other = argument.stretch(length)
        values = np.where(result.null, other.values, result.values)
        null = result.null & other.nulls()
        result = Column(result.kind, values, null if null.any() else None, result.words)
    return result


def _share_words(columns: Sequence[Column]) -> list[Column]:
    places: dict[str, int] = {}
    shared = []
    for column in columns:
        codes = np.array([places.setdefault(w, len(places)) for w in column.words], dtype=np.int64)
        shared.append((codes[column.values], column.null))
    return [Column(Kind.STRING, values, null, tuple(places)) for values, null in shared]


def _round(column: Column, digits: Column | None) -> Column:
    """Halves away from zero; a float is scaled by the power of ten in float64 first."""
    if digits is None:
        return _round_to(column, 0)
    if len(digits.values) == 1:
        return _with_null(_round_to(column, int(digits.values[0])), digits.null)
    column = column.stretch(len(digits.values))
    values = column.values.copy()
    null = np.array(column.nulls())
    for number in np.unique(digits.values).tolist():
        here = digits.values == number
        rounded = _round_to(column, number)
        values[here] = rounded.values[here]
        null[here] = rounded.nulls()[here]
    return _with_null(Column(column.kind, values, null if null.any() else None), digits.null)


def _with_null(column: Column, null: Mask | None) -> Column:
    return Column(column.kind, column.values, either(column.null, null))


def _round_to(column: Column, digits: int) -> Column:
    if column.kind is Kind.FLOAT:
        return floats(_round_floats(column.values, digits), column.null)
    if digits >= 0:
        return column
    if digits < -19:
        return Column(column.kind, np.zeros_like(column.values), column.null)
    step = 10**-digits
    size = np.abs(column.values)
    if step > LARGEST:  # 10^19: every int64 is less than half of it, but for those above 5 * 10^18, which do not fit
        unfit = size >= step // 2
        return Column(column.kind, np.zeros_like(size), either(column.null, unfit if unfit.any() else None))
    whole, rest = np.divmod(size, step)
    whole = whole + (rest >= step - rest)
    unfit = whole > LARGEST // step
    result = np.sign(column.values) * np.where(unfit, 0, whole) * step
    return Column(column.kind, result, either(column.null, unfit if unfit.any() else None))


def _round_floats(values: npt.NDArray[np.float64], digits: int) -> npt.NDArray[np.float64]:
    if digits > 308:
        return values
    if digits < -308:
        return np.where(np.isinf(values) | np.isnan(values), values, 0.0)
    power = 10.0 ** abs(digits)
    with np.errstate(all="ignore"):
        scaled = np.abs(values) * power if digits >= 0 else np.abs(values) / power
        whole = np.floor(scaled)
        whole = whole + (scaled - whole >= 0.5)
        result = np.copysign(whole / power if digits >= 0 else whole * power, values)
    return np.where(np.isinf(scaled), values, result)
