"""Case files: a query, its events and what they must give, in one text that people can read.

```
# rule: SEQ is strict: two events of one timestamp are never in sequence
query:
  PATTERN SEQ(A a, B b)
events:
       type ts
  a1   A    1
  b1   B    1
  b2   B    2
matches:
  a=a1 b=b2
```

- `# rule:` names the rule that the case is about; other lines that begin with `#` are remarks.
- `options:` (if any) sets `begin`, `time`, `type`, `unit` and `schema`: `name = value`, one a line; the schema as
  `column:dtype …` for columns beyond the usual `type ts start x y k s b due`.
- `events:` is a table: a line of column names, then one line an event, its label first. `-` is null; text with blanks
  stands in single quotes.
- `matches:` one match a line: `variable=label`, `variable=[label label]` for a list, `variable=null` for a variable of
  another OR branch. `begin`, `end` and `detected_at` follow from the events (a match is known with its last
  event) unless given after a bar: `a=a1 | detected_at=11`, `detected_at=null`. RETURN columns follow an arrow, as JSON:
  `a=a1 => {"a_x": 1}`. No line: no match.
- `rows:` in place of matches, for AGG: one row a line, its time and its columns as JSON: `3 => {"count": 2}`.
- `error:` in place of events and matches: the class of the error, and a piece of its message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensue.errors import InputError
from ensue.events.schema import DType, Schema, TimeUnit
from ensue.testing.oracle import OracleMatch
from ensue.testing.values import Event, Unreadable, read_event

if TYPE_CHECKING:
    from ensue.pattern.query import Query

USUAL_COLUMNS: Mapping[str, DType] = {
    "type": DType.STRING,
    "ts": DType.INT,
    "start": DType.INT,
    "x": DType.INT,
    "y": DType.FLOAT,
    "k": DType.INT,
    "s": DType.STRING,
    "b": DType.BOOL,
    "due": DType.TIMESTAMP,
}
"""The columns that a case may have without saying their types."""

_SECTIONS = ("options", "events", "error")
_CELL = re.compile(r"'(?:[^']|'')*'|\S+")


@dataclass(frozen=True, slots=True)
class ExpectedMatches:
    """The matches that a case must give, and their RETURN columns if the case says them."""

    matches: tuple[OracleMatch, ...]
    returns: tuple[Mapping[str, Any] | None, ...]


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The rows of AGG that a case must give: each with its time and its other columns."""

    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The error that a case must give: its class by name, and a piece of its message."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the rule that it is about, and all that is needed to run it."""

    name: str  # area/name
    rule: str
    query_text: str
    events: tuple[dict[str, Any], ...]
    labels: tuple[str, ...]
    schema: Schema
    expected: ExpectedMatches | ExpectedRows | ExpectedError

    def parse(self) -> Query:
        """The query of the case; raises what a wrong query raises."""
        from ensue.language import parse_query

        return parse_query(self.query_text)


def load_cases(path: str | Path) -> list[Case]:
    """The cases of a file, or of all `.case` files below a folder, by name."""
    path = Path(path)
    if path.is_file():
        return [parse_case(path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.stem}")]
    return [case for file in sorted(path.rglob("*.case")) for case in load_cases(file)]


def parse_case(text: str, name: str = "case") -> Case:
    """The case that a text describes; InputError if it cannot be read.

    >>> case = parse_case('''# rule: one event
    ... query:
    ...   PATTERN A a
    ... events:
    ...      type ts
    ...   a1 A    1
    ... matches:
    ...   a=a1
    ... ''')
    >>> case.expected.matches
    (OracleMatch(begin=1, end=1, detected_at=1, assignment={'a': 0}),)
    """
    try:
        rule, sections, labels, events, schema = read_parts(text, "query", ("matches", "rows"))
        expected: ExpectedMatches | ExpectedRows | ExpectedError
        if "error" in sections:
            expected = ExpectedError(*_split_once(sections["error"].strip(), ":"))
        elif "rows" in sections:
            expected = ExpectedRows(tuple(_read_row(line) for line in sections["rows"].splitlines() if line.strip()))
        else:
            expected = _read_matches(sections["matches"], labels, events, schema)
        return Case(name, rule, sections["query"].strip("\n"), events, labels, schema, expected)
    except (ValueError, KeyError) as error:
        raise InputError(f"case {name}: {error}") from error


def read_parts(
    text: str, asked: str, wanted: tuple[str, ...], types: Mapping[str, DType] | None = None
) -> tuple[str, dict[str, str], tuple[str, ...], tuple[dict[str, Any], ...], Schema]:
    """What every kind of case has: its rule, its sections, the labels of events, the events, their columns.

    `asked` is the section of what is asked, `wanted` those one of which tells what must come of it, `types` those of
    columns that have no usual one.
    """
    rule, sections = _split_sections(text, asked, wanted)
    options = dict(_split_once(line, "=") for line in sections.get("options", "").splitlines() if line.strip())
    labels, columns, rows = _split_table(sections.get("events", ""))
    schema = _read_schema(options, columns, types or {})
    events = tuple(
        {column: _read_cell(cell, schema.columns[column]) for column, cell in zip(columns, row, strict=True)}
        for row in rows
    )
    return rule, sections, labels, events, schema


def _split_sections(text: str, asked: str, wanted: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    rule, current = "", None
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        heading = re.fullmatch(r"(\w+):\s*(.*)", line)
        if line.startswith("# rule:"):
            rule = line.removeprefix("# rule:").strip()
        elif line.startswith("#"):
            continue
        elif heading:
            current = heading[1]
            if current not in (*_SECTIONS, asked, *wanted) or current in sections:
                raise ValueError(f"unexpected section {current!r}")
            sections[current] = [heading[2]] if heading[2] else []
        elif current is not None:
            sections[current].append(line)
        elif line.strip():
            raise ValueError(f"line outside of any section: {line!r}")
    if not rule or asked not in sections or sum(name in sections for name in (*wanted, "error")) != 1:
        raise ValueError(f"a case has a rule, a {asked}, and either {', '.join(wanted)} or an error")
    return rule, {name: _dedent(lines) for name, lines in sections.items()}


def _dedent(lines: list[str]) -> str:
    """The lines without the two blanks that set them off."""
    return "\n".join(line.removeprefix("  ").rstrip() for line in lines)


def _split_table(text: str) -> tuple[tuple[str, ...], list[str], list[list[str]]]:
    lines = [_CELL.findall(line) for line in text.splitlines() if line.strip()]
    if not lines:
        return (), [], []
    columns, *rows = lines
    for row in rows:
        if len(row) != len(columns) + 1:
            raise ValueError(f"event {row[0]} has {len(row) - 1} values for {len(columns)} columns")
    labels = tuple(row[0] for row in rows)
    if len(set(labels)) < len(labels):
        raise ValueError("two events have one label")
    return labels, columns, [row[1:] for row in rows]


def _read_schema(options: Mapping[str, str], columns: list[str], types: Mapping[str, DType]) -> Schema:
    unknown = options.keys() - {"begin", "time", "type", "unit", "schema"}
    if unknown:
        raise ValueError(f"unknown options {sorted(unknown)}")
    declared = dict(types) | {
        column: DType(dtype) for column, dtype in (_split_once(part, ":") for part in options.get("schema", "").split())
    }
    named = dict.fromkeys((*(columns or ("type", "ts", "x", "y", "k", "s", "b", "due")), *declared))
    return Schema(
        {column: declared.get(column) or USUAL_COLUMNS[column] for column in named},
        type=options.get("type", "type"),
        time=options.get("time", "ts"),
        begin=options.get("begin"),
        unit=TimeUnit(options.get("unit", "ms")),
    )


def _read_cell(cell: str, dtype: DType) -> Any:
    if cell == "-":
        return None
    if cell.startswith("'"):
        return cell[1:-1].replace("''", "'")
    match dtype:
        case DType.INT:
            return int(cell)
        case DType.FLOAT:
            return float(cell)
        case DType.BOOL:
            return {"true": True, "false": False}[cell]
        case _:
            return cell


def _read_row(line: str) -> dict[str, Any]:
    time, columns = _split_once(line, "=>")
    return {"time": int(time), **json.loads(columns)}


def _read_matches(
    text: str, labels: tuple[str, ...], events: tuple[dict[str, Any], ...], schema: Schema
) -> ExpectedMatches:
    positions = {label: position for position, label in enumerate(labels)}
    readable: dict[int, Event] = {}
    for position, row in enumerate(events):
        try:
            readable[position] = read_event(position, row, schema)
        except Unreadable:  # no match can name it
            continue
    matches, returns = [], []
    for line in text.splitlines():
        if not line.strip():
            continue
        line, _, columns = line.partition("=>")
        bindings, _, times = line.partition("|")
        assignment = {name: _read_binding(value, positions) for name, value in _read_pairs(bindings)}
        given = {key: None if value == "null" else int(value) for key, value in _read_pairs(times)}
        if not assignment or given.keys() - {"begin", "end", "detected_at"}:
            raise ValueError(f"cannot read the match {line.strip()!r}")
        used = [readable[p] for places in assignment.values() for p in _places(places)]
        end = max(event.end for event in used)
        begin = min(event.begin for event in used)
        for key, value in (("begin", begin), ("end", end)):
            if given.get(key, value) != value:
                raise ValueError(f"{key} of {line.strip()!r} does not follow from its events")
        matches.append(OracleMatch(begin, end, given.get("detected_at", end), assignment))
        returns.append(json.loads(columns) if columns.strip() else None)
    return ExpectedMatches(tuple(matches), tuple(returns))


def _read_pairs(text: str) -> list[tuple[str, str]]:
    pairs = re.findall(r"([^\s=]+)=(\[[^\]]*\]|\S+)", text)
    if re.sub(r"([^\s=]+)=(\[[^\]]*\]|\S+)", "", text).strip():
        raise ValueError(f"cannot read {text.strip()!r}")
    return pairs


def _read_binding(value: str, positions: Mapping[str, int]) -> int | tuple[int, ...] | None:
    if value == "null":
        return None
    if value.startswith("["):
        return tuple(positions[label] for label in value[1:-1].split())
    return positions[value]


def _places(places: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if places is None else places if isinstance(places, tuple) else (places,)


def _split_once(text: str, mark: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not found:
        raise ValueError(f"expected {mark!r} in {text!r}")
    return left.strip(), right.strip()
