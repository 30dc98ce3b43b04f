"""Conditions as the runtime takes them: what they speak of, and how they are decided.

A part of a condition that speaks of one event only becomes a column, computed once when the event comes in. So `a.x +
1 < 2 * b.y`
is a comparison of two columns, which kernels decide for 64 candidates at a time; whatever is left (arithmetic over
several events, OR, aggregates) is code for the stack machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias, assert_never

from ensue.errors import InternalError
from ensue.events.schema import DType, Schema
from ensue.events.times import MICROSECONDS, parse_time
from ensue.pattern.expressions import (
    UNITS,
    Aggregate,
    Arithmetic,
    At,
    Attribute,
    Between,
    Call,
    Comparison,
    Duration,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
    rewrite,
    variables_of,
    walk,
)
from ensue.pattern.format import format_expression
from ensue.pattern.implications import MIRRORED, implied_comparisons
from ensue.pattern.like import compile_like
from ensue.pattern.normalize import Branch, Negation
from ensue.pattern.query import Item, Policy, Query
from ensue.pattern.types import ValueType, attribute_type, fold_duration, infer

EVENT = "_"
"""The variable that columns' expressions use for the one event they speak of."""


class Time(Enum):
    """What every event has besides its attributes."""

    END = "end"
    BEGIN = "begin"
    SEQ = "sequence number"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class Column:
    """A value computed from one event: an expression over EVENT, held as float64 or int64."""

    expression: Expression
    is_float: bool
    is_string: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """A column (or time) of a variable's event; of a Kleene variable, of the one that `at` says (EACH: in hand)."""

    variable: str
    column: Column | Time
    at: At = At.EACH

    @property
    def is_float(self) -> bool:
        """Whether the value is held as float64."""
        return isinstance(self.column, Column) and self.column.is_float


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; a string stands for its code."""

    value: int | float | str | None
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate over a Kleene list."""

    function: str
    variable: str
    column: Column | None


@dataclass(frozen=True, slots=True)
class Operate:
    """An instruction on the top of the stack, by its name in the layout, with an operator's number where it has one."""

    name: str
    operator: str | None = None


Instruction: TypeAlias = Load | Constant | Fold | Operate


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition over the variables of a branch.

    `each` are the Kleene variables of which it must hold for each element, `pairs` those for each adjacent pair,
    `whole` those whose list it speaks of. `comparison` is set where it just compares two columns of two events;
    `guarded` are then the variables whose filter lets no null come to it. A condition that others imply names in `via`
    the variables between: once they are bound too, it says nothing new.
    """

    text: str
    variables: frozenset[str]
    code: tuple[Instruction, ...]
    each: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    comparison: tuple[str, Load, Load] | None = None
    guarded: frozenset[str] = frozenset()
    via: frozenset[str] = frozenset()
    loads: tuple[tuple[str, Column], ...] = field(init=False, repr=False, compare=False)  # what it reads of whom

    def __post_init__(self) -> None:
        reading = (one for one in self.code if isinstance(one, Load | Fold))
        loads = {(one.variable, one.column): None for one in reading if isinstance(one.column, Column)}
        object.__setattr__(self, "loads", tuple(loads))

    @property
    def lists(self) -> frozenset[str]:
        """The Kleene variables it speaks of."""
        return self.each | self.pairs | self.whole


@dataclass(frozen=True, slots=True)
class Filter:
    """What an event must satisfy by itself to be a variable's event: expressions over EVENT."""

    expressions: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Absence:
    """A negation with its conditions: local ones in `filter`, those against the match in `conditions`."""

    negation: Negation
    filter: Filter
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """All conditions of a branch, taken apart."""

    filters: dict[str, Filter] = field(hash=False)
    conditions: tuple[Condition, ...] = ()
    absences: tuple[Absence, ...] = ()


_COMPARE = {"=": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}


def analyze(query: Query, branch: Branch, schema: Schema | None) -> Conditions:
    """Take a branch's conjuncts apart: local filters, comparisons of columns, and code for the rest.

    Without a schema the result is good for looking at, not for running: every attribute is taken for a number.
    """
    filters: dict[str, list[Expression]] = {v.name: [] for v in branch.variables}
    conditions: list[Condition] = []
    lists = frozenset(v.name for v in branch.variables if v.kleene)
    compiler = _Compiler(query.items, schema, lists)
    for conjunct in branch.conjuncts:
        variables = variables_of(conjunct)
        if not variables:  # a constant: no event passes if it is not true
            for expressions in filters.values():
                expressions.append(conjunct)
        elif is_local(conjunct):
            filters[next(iter(variables))].append(about_event(conjunct))
        else:
            conditions.append(compiler.condition(conjunct))
    absences = []
    for negation in branch.negations:
        local: list[Expression] = []
        against: list[Condition] = []
        for conjunct in negation.conjuncts:
            if is_local(conjunct):
                local.append(about_event(conjunct))
            else:
                against.append(compiler.condition(conjunct))
        for k, condition in enumerate(against):
            if _can_guard(condition, negation.name, branch):
                local += _not_null(condition, negation.name)
                against[k] = replace(condition, guarded=frozenset((negation.name,)))
        absences.append(Absence(negation, Filter(_distinct(local)), tuple(against)))
    for k, condition in enumerate(conditions):
        if query.policy is not Policy.ANY:
            break  # a run takes an event by what is bound so far; what comes later must not filter it
        guarded = frozenset(name for name in condition.variables if _can_guard(condition, name, branch))
        for name in sorted(guarded):
            filters[name] += _not_null(condition, name)
        conditions[k] = replace(condition, guarded=guarded)
    if query.policy is Policy.ANY:
        conditions += implied(conditions)
    return Conditions({k: Filter(_distinct(v)) for k, v in filters.items()}, tuple(conditions), tuple(absences))


def implied(conditions: Sequence[Condition]) -> list[Condition]:
    """The comparisons that follow from others: from a.x < b.x and b.x < c.x that a.x < c.x.

    They let a search drop candidates before the variable in between is bound, and find equal keys in any order.
    """
    compared = []
    for condition in conditions:
        if condition.comparison is not None and not condition.lists and condition.guarded == condition.variables:
            symbol, left, right = condition.comparison
            compared.append((left, symbol, right))
    found: list[Condition] = []
    for left, symbol, right, via in implied_comparisons(compared, lambda load: load.variable):
        condition = _compare(f"{_show(left)} {symbol} {_show(right)}", symbol, left, right)
        found.append(replace(condition, via=via))
    return found


def _show(load: Load) -> str:
    if not isinstance(load.column, Column):
        return f"{load.variable}.{load.column.value}"
    return format_expression(speak_of(load.variable, load.column.expression))


def _distinct(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(expressions))


def _can_guard(condition: Condition, name: str, branch: Branch) -> bool:
    """Whether an event with a null in a comparison is no use to a variable, so that its filter can drop it.

    Not where another variable of the comparison may be an empty list, which makes it true whatever this one is.
    """
    others = condition.variables - {name}
    return condition.comparison is not None and not any(v.name in others and v.minimum == 0 for v in branch.variables)


def _not_null(condition: Condition, name: str) -> list[Expression]:
    """That a variable's compared columns are not null: kernels compare without looking for nulls."""
    assert condition.comparison is not None
    return [
        IsNull(load.column.expression, negated=True)
        for load in condition.comparison[1:]
        if isinstance(load, Load) and load.variable == name and isinstance(load.column, Column)
    ]


def is_local(conjunct: Expression) -> bool:
    """Whether a conjunct speaks of one event alone (each element of a list counts as one)."""
    if len(variables_of(conjunct)) > 1:
        return False
    return all(
        isinstance(n, Attribute) and n.at in (At.EACH, At.CURRENT)
        for n in walk(conjunct)
        if isinstance(n, Attribute | Aggregate)
    )


def about_event(expression: Expression) -> Expression:
    """The same expression with EVENT for its variable."""
    return speak_of(EVENT, expression)


def speak_of(variable: str, expression: Expression) -> Expression:
    """The same expression with this variable in place of its own."""
    return rewrite(expression, lambda leaf: Attribute(variable, leaf.name or ""))


def compared_pair(condition: Condition) -> tuple[str, Load, Load] | None:
    """A condition on x[i] and x[i-1] as a plain comparison: operator, the later element's value, the earlier's."""
    match condition.code:
        case (Load() as left, Load() as right, Operate(operator=str(name))):
            symbol = next(s for s, word in _COMPARE.items() if word == name)
            if (left.at, right.at) == (At.EACH, At.PREVIOUS):
                return symbol, left, right
            if (left.at, right.at) == (At.PREVIOUS, At.EACH):
                return MIRRORED[symbol], right, left
    return None


def compared_with(condition: Condition, candidate: str) -> tuple[str, Load, Load] | None:
    """A condition as a plain comparison of a candidate's value: operator, that value, the other one.

    None if it is none, or if a null of the candidate's, which is kept as a number, could compare true.
    """
    if condition.comparison is None:
        return None
    symbol, left, right = condition.comparison
    if right.variable == candidate:
        symbol, left, right = MIRRORED[symbol], right, left
    if left.variable != candidate:
        return None
    if candidate not in condition.guarded and (symbol != "=" or left.is_float):
        return None
    return symbol, left, right


def order(earlier: Load, later: Load) -> Condition:
    """`earlier < later`, two times."""
    text = f"{earlier.variable} before {later.variable}"
    return _compare(text, "<", earlier, later)


def different(left: str, right: str, lists: frozenset[str]) -> Condition:
    """That two variables' events are not the same one."""
    condition = _compare(f"{left} is not {right}", "!=", Load(left, Time.SEQ), Load(right, Time.SEQ))
    return replace(condition, each=frozenset((left, right)) & lists)


def is_empty(name: str) -> Condition:
    """That a Kleene variable's list is empty."""
    code = (Fold("COUNT", name, None), Constant(0), Operate("I_COMPARE", "EQ"))
    return Condition(f"COUNT({name}) = 0", frozenset((name,)), code, whole=frozenset((name,)))


def _compare(text: str, operator: str, left: Load, right: Load) -> Condition:
    return Condition(
        text,
        frozenset((left.variable, right.variable)),
        (left, right, Operate("F_COMPARE" if left.is_float else "I_COMPARE", _COMPARE[operator])),
        comparison=(operator, left, right),
        guarded=frozenset((left.variable, right.variable)),
    )


def plain_column(name: str, schema: Schema) -> Column:
    """An attribute of an event as a column."""
    kind = attribute_type(name, schema)
    return Column(Attribute(EVENT, name), kind is ValueType.FLOAT, kind is ValueType.STRING)


def columns_in(conditions: Iterable[Condition], name: str) -> list[Column]:
    """The columns of a variable that conditions use."""
    used: dict[Column, None] = {}
    for condition in conditions:
        for variable, column in condition.loads:
            if variable == name:
                used[column] = None
    return list(used)


_Value: TypeAlias = tuple[list[Instruction], ValueType, bool]
"""Code, the value's type, and whether it is held as float64."""


class _Compiler:
    """Compiles conjuncts to conditions, for the items of one query."""

    def __init__(self, items: tuple[Item, ...], schema: Schema | None, lists: frozenset[str]) -> None:
        self.items = (*items, Item(EVENT, EVENT))
        self.schema = schema
        self.times = schema or Schema({"ts": DType.INT})
        self.lists = lists

    def condition(self, conjunct: Expression) -> Condition:
        code, _, _ = self.value(conjunct)
        loads = [i for i in code if isinstance(i, Load)]
        each = frozenset(i.variable for i in loads if i.at is At.EACH) & self.lists
        pairs = frozenset(i.variable for i in loads if i.at is At.PREVIOUS)
        whole = frozenset(i.variable for i in loads if i.at in (At.FIRST, At.LAST))
        whole |= frozenset(i.variable for i in code if isinstance(i, Fold))
        comparison = None
        last = code[-1]
        of_two = len(code) == 3 and len(loads) == 2 and loads[0].variable != loads[1].variable
        if of_two and not pairs | whole and isinstance(last, Operate) and last.operator is not None:
            symbol = next(s for s, name in _COMPARE.items() if name == last.operator)
            comparison = (symbol, loads[0], loads[1])
        return Condition(
            format_expression(conjunct),
            variables_of(conjunct),
            tuple(code),
            each - pairs,
            pairs,
            whole,
            comparison,
        )

    # -- values ------------------------------------------------------------------------------------------------------
    def value(self, e: Expression) -> _Value:
        """Code that leaves the value of an expression on the stack."""
        at = _one_event(e)
        if at is not None:
            variable, place = at
            expression = about_event(e)
            kind = infer(expression, self.items, self.schema)
            column = Column(expression, kind is ValueType.FLOAT, kind is ValueType.STRING)
            return [Load(variable, column, place)], kind, column.is_float
        match e:
            case Literal(value=value):
                return self._literal(value)
            case Attribute():
                raise InternalError("an attribute is always about one event")
            case Aggregate(function=function, variable=variable, name=name):
                return self._aggregate(function, variable, name)
            case Negate(operand=x):
                code, kind, is_float = self.value(x)
                return [*code, Operate("F_NEGATE" if is_float else "I_NEGATE")], kind, is_float
            case Arithmetic():
                return self._arithmetic(e)
            case Comparison(operands=parts, operators=operators):
                codes = [self._compared(parts[k], operators[k], parts[k + 1]) for k in range(len(operators))]
                return self._joined(codes, "B_AND")
            case Logical(operator=operator, operands=parts):
                return self._joined([self.value(part)[0] for part in parts], f"B_{operator}")
            case Not(operand=x):
                return self._truth([*self.value(x)[0], Operate("B_NOT")])
            case InList(operand=x, items=items, negated=negated):
                return self._negated(self._joined([self._compared(x, "=", i) for i in items], "B_OR"), negated)
            case Between(operand=x, low=low, high=high, negated=negated):
                inside = self._joined([self._compared(x, ">=", low), self._compared(x, "<=", high)], "B_AND")
                return self._negated(inside, negated)
            case IsNull(operand=x, negated=negated):
                code, _, is_float = self.value(x)
                return self._negated(self._truth([*code, Operate("F_IS_NULL" if is_float else "I_IS_NULL")]), negated)
            case Like() | Call(function="lower" | "upper" | "length"):
                return self.value(_outward(e))
            case Call(function=function, arguments=arguments):
                return self._call(function, arguments)
            case _:
                assert_never(e)

    def _literal(self, value: bool | int | float | str | Duration | None) -> _Value:
        match value:
            case None:
                return [Constant(None)], ValueType.NULL, False
            case bool():
                return self._truth([Constant(int(value))])
            case int():
                return [Constant(value)], ValueType.INT, False
            case float():
                return [Constant(value, True)], ValueType.FLOAT, True
            case str():
                return [Constant(value)], ValueType.STRING, False
            case Duration(amount=amount, unit=unit):
                length = amount * UNITS[unit] if unit is not None else fold_duration(value, self.times)
                whole = int(length) if length == int(length) else length
                is_float = isinstance(whole, float)
                return [Constant(whole, is_float)], ValueType.DURATION, is_float
            case _:
                assert_never(value)

    def _aggregate(self, function: str, variable: str, name: str | None) -> _Value:
        if name is None:
            return [Fold("COUNT", variable, None)], ValueType.INT, False
        attribute = Attribute(EVENT, name)
        kind = infer(attribute, self.items, self.schema)
        column = Column(attribute, kind is ValueType.FLOAT, kind is ValueType.STRING)
        fold = Fold(function, variable, column)
        if function == "COUNT":
            return [fold], ValueType.INT, False
        if function == "AVG":
            return [fold], ValueType.FLOAT, True
        return [fold], kind, kind is ValueType.FLOAT

    def _truth(self, code: list[Instruction]) -> _Value:
        return code, ValueType.BOOL, False

    def _negated(self, value: _Value, negated: bool) -> _Value:
        return self._truth([*value[0], Operate("B_NOT")]) if negated else value

    def _joined(self, codes: list[list[Instruction]], name: str) -> _Value:
        joined = list(codes[0])
        for code in codes[1:]:
            joined += [*code, Operate(name)]
        return self._truth(joined)

    def _pair(self, left: Expression, right: Expression) -> tuple[_Value, _Value]:
        """Two operands in the same terms: durations as numbers next to numbers, texts as times next to times."""
        a, b = self.value(left), self.value(right)
        return self._in_terms_of(left, a, b[1]), self._in_terms_of(right, b, a[1])

    def _in_terms_of(self, expression: Expression, value: _Value, other: ValueType) -> _Value:
        code, kind, is_float = value
        if kind is ValueType.DURATION and other in (ValueType.INT, ValueType.FLOAT):
            if isinstance(expression, Literal) and isinstance(expression.value, Duration):
                length = fold_duration(expression.value, self.times)
                return [Constant(length, isinstance(length, float))], other, isinstance(length, float)
            unit = Constant(float(MICROSECONDS[self.times.unit]), True)
            return [*_floated(code, is_float), unit, Operate("F_DIVIDE")], ValueType.FLOAT, True
        if kind is ValueType.STRING and other is ValueType.TIMESTAMP and isinstance(expression, Literal):
            return [Constant(parse_time(str(expression.value)))], ValueType.TIMESTAMP, False
        return value

    def _compared(self, left: Expression, operator: str, right: Expression) -> list[Instruction]:
        (a, left_kind, left_float), (b, right_kind, right_float) = self._pair(left, right)
        if left_float or right_float:
            return [*_floated(a, left_float), *_floated(b, right_float), Operate("F_COMPARE", _COMPARE[operator])]
        if ValueType.STRING in (left_kind, right_kind) and operator not in ("=", "!="):
            return [*a, Operate("I_RANK"), *b, Operate("I_RANK"), Operate("I_COMPARE", _COMPARE[operator])]
        return [*a, *b, Operate("I_COMPARE", _COMPARE[operator])]

    def _arithmetic(self, e: Arithmetic) -> _Value:
        time_product = e.operator in ("*", "/") and not (isinstance(e.left, Literal) and isinstance(e.right, Literal))
        kind = infer(e, self.items, self.schema)
        if time_product and kind is ValueType.DURATION:
            (a, _, a_float), (b, _, b_float) = self.value(e.left), self.value(e.right)
        else:
            (a, _, a_float), (b, _, b_float) = self._pair(e.left, e.right)
        is_float = a_float or b_float or e.operator == "/"
        names = {"+": "ADD", "-": "SUBTRACT", "*": "MULTIPLY", "/": "DIVIDE", "%": "REMAINDER"}
        if is_float:
            return [*_floated(a, a_float), *_floated(b, b_float), Operate(f"F_{names[e.operator]}")], kind, True
        return [*a, *b, Operate(f"I_{names[e.operator]}")], kind, False

    def _call(self, function: str, arguments: tuple[Expression, ...]) -> _Value:
        match function:
            case "coalesce":
                values = [self.value(argument) for argument in arguments]
                is_float = any(v[2] for v in values)
                kind = next((v[1] for v in values if v[1] is not ValueType.NULL), ValueType.NULL)
                code: list[Instruction] = []
                for k, (part, _, part_float) in enumerate(values):
                    code += _floated(part, part_float) if is_float else part
                    if k:
                        code.append(Operate("F_COALESCE" if is_float else "I_COALESCE"))
                return code, ValueType.FLOAT if is_float and kind is ValueType.INT else kind, is_float
            case "round":
                code, kind, is_float = self.value(arguments[0])
                digits = self.value(arguments[1])[0] if len(arguments) > 1 else [Constant(0)]
                return [*code, *digits, Operate("F_ROUND" if is_float else "I_ROUND")], kind, is_float
            case "abs":
                code, kind, is_float = self.value(arguments[0])
                return [*code, Operate("F_ABS" if is_float else "I_ABS")], kind, is_float
            case _:  # floor and ceil leave an int as it is
                code, kind, is_float = self.value(arguments[0])
                return ([*code, Operate(f"F_{function.upper()}")] if is_float else code), kind, is_float


def _outward(e: Like | Call) -> Expression:
    """A function of one text with `coalesce` taken to the outside, so that each function is about one event.

    A text over several events can only come from coalesce, and f(coalesce(x, y)) is coalesce(f(x), f(y)): f of null
    is null.
    """
    inner = e.operand if isinstance(e, Like) else e.arguments[0]
    if isinstance(inner, Literal):
        return _folded(e, inner.value)
    if isinstance(inner, Like) or not isinstance(inner, Call):
        raise InternalError(f"a text over several events: {format_expression(e)}")
    if inner.function != "coalesce":
        return _applied(e, _outward(inner))
    return Call("coalesce", tuple(_applied(e, part) for part in inner.arguments))


def _applied(e: Like | Call, operand: Expression) -> Expression:
    return replace(e, operand=operand) if isinstance(e, Like) else replace(e, arguments=(operand,))


def _folded(e: Like | Call, text: object) -> Literal:
    """A function of a constant text."""
    if not isinstance(text, str):
        return Literal(None)
    if isinstance(e, Like):
        return Literal((compile_like(e.pattern).fullmatch(text) is not None) != e.negated)
    return Literal(len(text)) if e.function == "length" else Literal(getattr(text, e.function)())


def _floated(code: list[Instruction], is_float: bool) -> list[Instruction]:
    """Code whose value is a float: a column is held as one from the start, a constant is one."""
    if is_float:
        return code
    if len(code) == 1:
        match code[0]:
            case Load(column=Column() as column) as load:
                return [replace(load, column=replace(column, is_float=True))]
            case Constant(value=int(number)):
                return [Constant(float(number), True)]
            case Constant(value=None):
                return [Constant(None, True)]
    return [*code, Operate("I_TO_FLOAT")]


def _one_event(e: Expression) -> tuple[str, At] | None:
    """The variable, and which of its events, if the expression speaks of exactly one event."""
    found: set[tuple[str, At]] = set()
    for node in walk(e):
        if isinstance(node, Aggregate):
            return None
        if isinstance(node, Attribute):
            found.add((node.variable, At.EACH if node.at is At.CURRENT else node.at))
    return found.pop() if len(found) == 1 else None
