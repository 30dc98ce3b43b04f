"""Case files of rules: a program, its events and what they must derive, in one text that people can read.

```
# rule: an order is overdue if it has not been shipped in time (semantics §4)
program:
  EVENT order(id: int);
  EVENT shipped(id: int);
  RULE overdue(id) <- o: order(id), w: EXTEND(o, 6), WHILE w: NOT shipped(id);
events:
     type    ts id
  o1 order   1  7
derived:
  overdue [1, 7] {"id": 7}
```

`options:`, `events:` and `error:` are those of `ensue.testing.cases`, and so are the usual columns. `derived:` has one
event a line: its type, its interval, and its attributes as JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensue.errors import InputError
from ensue.events.schema import DType, Schema
from ensue.testing.cases import ExpectedError, read_parts
from ensue.testing.rule_oracle import DerivedEvent

_LINE = re.compile(r"(\S+) \[(-?\d+), (-?\d+)\]\s*(\{.*\})?")
_DECLARED = re.compile(r"(\w+)\s*:\s*(bool|int|float|string|timestamp)\b")
_DTYPES = {
    "bool": DType.BOOL,
    "int": DType.INT,
    "float": DType.FLOAT,
    "string": DType.STRING,
    "timestamp": DType.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One case: what it is about, and all that is needed to run it."""

    name: str
    rule: str
    text: str
    events: tuple[dict[str, Any], ...]
    schema: Schema
    expected: tuple[DerivedEvent, ...] | ExpectedError


def load_rule_cases(path: str | Path) -> list[RuleCase]:
    """The cases of all `.rules` files below a folder, by name."""
    files = sorted(Path(path).rglob("*.rules"))
    return [parse_rule_case(file.read_text(encoding="utf-8"), f"{file.parent.name}/{file.stem}") for file in files]


def parse_rule_case(text: str, name: str = "case") -> RuleCase:
    """The case that a text describes; InputError if it cannot be read.

    >>> case = parse_rule_case('''# rule: one event
    ... program:
    ...   EVENT a(x: int);
    ...   RULE b(x) <- i: a(x);
    ... events:
    ...      type ts x
    ...   a1 a    1  7
    ... derived:
    ...   b [1, 1] {"x": 7}
    ... ''')
    >>> case.expected
    (DerivedEvent(type='b', begin=1, end=1, values=(('x', 7),)),)
    """
    declared = {column: _DTYPES[kind] for column, kind in _DECLARED.findall(text)}
    try:
        rule, sections, _, events, schema = read_parts(text, "program", ("derived",), declared)
        expected: tuple[DerivedEvent, ...] | ExpectedError
        if "error" in sections:
            kind, _, message = sections["error"].strip().partition(":")
            expected = ExpectedError(kind.strip(), message.strip())
        else:
            lines = [line for line in sections["derived"].splitlines() if line.strip()]
            expected = tuple(map(_read_derived, lines))
        return RuleCase(name, rule, sections["program"].strip("\n"), events, schema, expected)
    except (ValueError, KeyError) as error:
        raise InputError(f"case {name}: {error}") from error


def _read_derived(line: str) -> DerivedEvent:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"cannot read the derived event {line.strip()!r}")
    values = json.loads(found[4] or "{}")
    return DerivedEvent(found[1], int(found[2]), int(found[3]), tuple(values.items()))
