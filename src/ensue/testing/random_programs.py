"""Random programs of rules, with streams over which they derive something: small domains, ties, intervals, chains.

The program is text, so that the parser and the checks take part. The same seed gives the same program and stream.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensue.errors import QueryError
from ensue.events.schema import DType, Schema
from ensue.language import parse_program
from ensue.rules.allen import RELATIONS
from ensue.rules.check import check_program
from ensue.rules.program import Program

_BASE: Mapping[str, tuple[str, ...]] = {"A": ("x", "s"), "B": ("x", "y"), "C": ("x", "y", "s"), "D": ()}
_TYPES = {"x": "int", "y": "float", "s": "string"}
_VARIABLES = {"int": ("i", "j", "k"), "float": ("f", "g"), "string": ("t", "u"), "bool": ("b",)}
_DTYPES = {"int": DType.INT, "float": DType.FLOAT, "string": DType.STRING}
_TIMERS = ("EXTEND", "EXTEND_BACKWARD", "SHIFT", "FROM_END")


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A program, as a value and as text, and a stream for it."""

    program: Program
    text: str
    rows: tuple[dict[str, Any], ...]
    schema: Schema


def random_program(seed: int, *, events: int = 14, keyed: bool = False, suffix: str = "") -> RandomProgram:
    """A program of one to four rules, and a stream of events in any order.

    With `keyed` every atom has the same first variable, so that the events may be spread by it. `suffix` ends the names
    of all events and of what derived ones have, so that programs can be put together.

    >>> random_program(1).text == random_program(1).text
    True
    """
    dice = random.Random(seed)
    intervals = dice.random() < 0.4
    columns = {"type": DType.STRING, "ts": DType.INT, "x": DType.INT, "y": DType.FLOAT, "s": DType.STRING}
    if intervals:
        columns["start"] = DType.INT
    schema = Schema(columns, begin="start" if intervals else None)
    while True:
        text = _Writing(dice, keyed, suffix).program()
        try:
            program = parse_program(text)
            check_program(program, schema)
            break
        except QueryError:  # types or names that do not go together: another one
            continue
    rows = tuple(_row(dice, intervals, suffix) for _ in range(dice.randint(4, events)))
    return RandomProgram(program, text, rows, schema)


def put_together(cases: Sequence[RandomProgram]) -> RandomProgram:
    """Programs of different suffixes as one, which derives what each of them does: cheaper than one by one."""
    return RandomProgram(
        Program(tuple(statement for case in cases for statement in case.program)),
        "\n".join(case.text for case in cases),
        tuple(row for case in cases for row in case.rows),
        cases[0].schema,
    )


def _row(dice: random.Random, intervals: bool, suffix: str) -> dict[str, Any]:
    kind = dice.choice(("A", "A", "B", "B", "C", "D", "Z")) + suffix
    ts = dice.randint(0, 16)
    row: dict[str, Any] = {"type": kind, "ts": ts}
    if intervals:
        row["start"] = ts - dice.choice((0, 0, 1, 2, 3, 5))
    maybe = dice.random() < 0.9
    row["x"] = dice.randint(0, 1) if maybe else None
    row["y"] = dice.choice((0.0, 0.5, 1.0, 2.0)) if dice.random() < 0.9 else None
    row["s"] = dice.choice(("a", "b", "c")) if dice.random() < 0.9 else None
    return row


class _Writing:
    """Writes one program."""

    def __init__(self, dice: random.Random, keyed: bool, suffix: str) -> None:
        self.dice, self.keyed, self.suffix = dice, keyed, suffix
        self.attributes: dict[str, list[tuple[str, str]]] = {
            name + suffix: [(attribute, _TYPES[attribute]) for attribute in own] for name, own in _BASE.items()
        }

    def program(self) -> str:
        lines = []
        for name, own in _BASE.items():
            lines.append(f"EVENT {name}{self.suffix}({', '.join(f'{a}: {_TYPES[a]}' for a in own)})")
        count = self.dice.randint(1, 4)
        last = ""
        for number in range(count):
            again = bool(last) and self.dice.random() < 0.25
            name = last if again else f"R{number}{self.suffix}"
            lines.append(_Rule(self, name).text())
            last = name
        return ";\n".join(lines) + ";"


class _Rule:
    """Writes one rule."""

    def __init__(self, writing: _Writing, name: str) -> None:
        self.writing, self.name, self.dice = writing, name, writing.dice
        self.bound: dict[str, str] = {}
        self.collected: dict[str, str] = {}
        self.names: list[str] = []
        self.body: list[str] = []

    def text(self) -> str:
        dice = self.dice
        known = [name for name in self.writing.attributes if name != self.name]
        if self.writing.keyed:
            known.remove(f"D{self.writing.suffix}")  # has no attribute that could be a key
        for place in range(dice.choice((1, 1, 2, 2, 2, 3))):
            kind = dice.choice(known[-2:]) if dice.random() < 0.4 else dice.choice(known)
            self.names.append(f"e{place}")
            self.body.append(f"e{place}: {self.atom(kind, self.bound)}")
        for place in range(dice.choice((0, 0, 1, 1, 2))):
            self.timer(f"w{place}")
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            self.window(dice.choice(known))
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            self.relation()
        if dice.random() < 0.35:
            self.condition()
        return f"RULE {self.name}({', '.join(self.head())}) <- {', '.join(self.body)}"

    def atom(self, kind: str, bound: dict[str, str]) -> str:
        dice = self.dice
        arguments, by_name = [], []
        for place, (attribute, dtype) in enumerate(self.writing.attributes[kind]):
            if self.writing.keyed and attribute.startswith(("x", "key")) and place == 0:
                term = "i"
                bound.setdefault("i", "int")
            else:
                term = self.term(dtype, bound)
            arguments.append(term)
            if term != "_":
                by_name.append(f"{attribute} = {term}")
        named = by_name and dice.random() < 0.2
        return f"{kind}({', '.join(by_name if named else arguments)})"

    def term(self, dtype: str, bound: dict[str, str]) -> str:
        dice = self.dice
        chance = dice.random()
        if chance < 0.35:
            return "_"
        if chance < 0.38:
            return {"int": "1", "float": "0.5", "string": "'a'", "bool": "TRUE"}[dtype]
        pool = _VARIABLES[dtype]
        if dtype == "float" and chance < 0.45:
            pool = _VARIABLES["int"]
        variable = dice.choice(pool)
        bound.setdefault(variable, dtype)
        return variable

    def timer(self, name: str) -> None:
        of, kind = self.dice.choice(self.names), self.dice.choice(_TIMERS)
        length = self.dice.randint(-3 if kind == "SHIFT" else 0, 6)
        self.body.append(f"{name}: {kind}({of}, {length})")
        self.names.append(name)

    def window(self, kind: str) -> None:
        collects = self.dice.random() < 0.5
        local: dict[str, str] = dict(self.bound)
        atom = self.atom(kind, local)
        if collects:
            for name, dtype in local.items():
                if name not in self.bound and name in self.collected:
                    return  # two collections of one variable are refused
                self.collected[name] = dtype
        window = self.dice.choice(self.names[-2:])
        self.body.append(f"WHILE {window}: {'COLLECT' if collects else 'NOT'} {atom}")
        self.has_collection = self.has_collection or collects

    has_collection = False

    def relation(self) -> None:
        dice = self.dice
        if dice.random() < 0.3:
            names = dice.sample(self.names, dice.randint(1, min(3, len(self.names))))
            self.body.append(f"{{{', '.join(names)}}} WITHIN {dice.choice((2, 4, 4.5, 8))}")
            return
        allen = dice.choice((*["BEFORE", "AFTER", "DURING", "CONTAINS"] * 3, *RELATIONS))
        left, right = dice.choice(self.names), dice.choice(self.names)
        by = ""
        if RELATIONS[allen].gaps and dice.random() < 0.5:
            by = f" BY {dice.choice(('<', '<=', '>', '>=', '='))} {dice.choice((1, 2, 2.5, 4, 6))}"
        self.body.append(f"{left} {allen} {right}{by}")

    def condition(self) -> None:
        dice = self.dice
        numbers = [name for name, dtype in self.bound.items() if dtype in ("int", "float")]
        texts = [name for name, dtype in self.bound.items() if dtype == "string"]
        choices = [f"{dice.choice(self.names)}.end - {dice.choice(self.names)}.begin < {dice.randint(0, 6)}"]
        if numbers:
            a, b = dice.choice(numbers), dice.choice(numbers)
            choices += [f"{a} < {b} + {dice.choice((0, 1))}", f"{a} != {b}", f"{a} IS NULL OR {a} > 0", f"{a} >= 1"]
        if texts:
            choices += [f"{dice.choice(texts)} < 'c'", f"{dice.choice(texts)} IN ('a', 'c')"]
        self.body.append(dice.choice(choices))

    def head(self) -> list[str]:
        dice = self.dice
        wanted = self.writing.attributes.get(self.name)
        if wanted is None:
            count = dice.randint(0, 3)
            kinds = [dice.choice(("int", "float", "string")) for _ in range(count)]
            prefix = self.name.lower()
            own = [
                (f"{'key' if self.writing.keyed and not k else 'n'}{k}{prefix}", kind) for k, kind in enumerate(kinds)
            ]
            if self.writing.keyed:
                own = [(f"key0{prefix}", "int"), *own[1:]]
            self.writing.attributes[self.name] = own
            wanted = own
        columns = []
        for place, (attribute, dtype) in enumerate(wanted):
            if self.writing.keyed and place == 0:
                columns.append(f"i AS {attribute}")
            else:
                columns.append(f"{self.value(dtype)} AS {attribute}")
        return columns

    def value(self, dtype: str) -> str:
        dice = self.dice
        choices = [name for name, kind in self.bound.items() if kind == dtype]
        numeric = [name for name, kind in self.collected.items() if kind in ("int", "float")]
        if dtype == "int":
            choices += [f"{name} + 1" for name in choices[:1]] + [f"{self.names[0]}.end"]
            if self.has_collection:
                choices += [f"COUNT({name})" for name in self.collected] * 2
        if dtype == "float":
            choices += [f"{name} * 0.5" for name, kind in self.bound.items() if kind == "int"][:1]
            choices += [f"{dice.choice(('SUM', 'AVG', 'MIN', 'MAX'))}({name}) + 0.0" for name in numeric]
        if dtype == "string":
            choices += [f"MAX({name})" for name, kind in self.collected.items() if kind == "string"]
        literal = {"int": "3", "float": "1.5", "string": "'z'"}[dtype]
        return dice.choice(choices) if choices else literal


def describe(case: RandomProgram, rows: Sequence[Mapping[str, Any]] | None = None) -> str:
    """A program and its stream for a message."""
    lines = [case.text, *(" ".join(f"{k}={v}" for k, v in row.items()) for row in (rows or case.rows))]
    return "\n".join(lines)
