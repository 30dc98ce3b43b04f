"""Pipelines as TOML files: what a file says, checked key by key, becomes a `Pipeline`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ensue.errors import EnsueError, PlanError
from ensue.language import parse_program
from ensue.options import Options
from ensue.pattern.nearest import did_you_mean
from ensue.rules.check import check_program
from ensue.rules.program import Program
from ensue.runtime.adaptation import Adaptation, read_adapt
from ensue.runtime.compiling import read_program
from ensue.spark.settings import (
    FILE_FORMATS,
    SINK_FORMATS,
    ConsoleSink,
    Detection,
    FileFormat,
    FileSink,
    JdbcSink,
    KafkaSink,
    Pipeline,
    Sink,
    Source,
    SparkSettings,
    Stream,
    WebhookSink,
    require_choice,
)

T = TypeVar("T")
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list"}


class Table:
    """A table of the file: gives the values of keys, each of the kind asked for, and knows which no one asked for."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = dict(values)
        self._asked: list[str] = []

    def get(self, key: str, kinds: type | tuple[type, ...], default: Any = None) -> Any:
        """The value of a key, which has to be of one of these kinds; the default if it is not there."""
        self._asked.append(key)
        value = self._values.get(key)
        if value is None:
            return default
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if float in kinds and type(value) is int:
            value = float(value)
        if type(value) not in kinds:
            raise PlanError(f"{self.place(key)} is {value!r}; it has to be {' or '.join(_KINDS[k] for k in kinds)}")
        return value

    def require(self, key: str, kind: type[T], meaning: str) -> T:
        """The value of a key that has to be there; `meaning` says what it is for."""
        value = self.get(key, kind)
        if value is None:
            raise PlanError(f"{self.place(key)} is missing: {meaning}")
        return cast(T, value)

    def texts(self, key: str) -> dict[str, str]:
        """A table of plain values, all as text."""
        found: dict[str, str] = {}
        for name, value in self.get(key, dict, {}).items():
            if isinstance(value, dict | list):
                raise PlanError(f"{self.place(key)}: {name} is {value!r}; it has to be text, a number, true or false")
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def place(self, key: str) -> str:
        """How messages call a key."""
        return f"[{self.name}] {key}" if self.name else key

    def finish(self) -> None:
        """Refuse keys that nothing has asked for."""
        for key in self._values:
            if key not in self._asked:
                hint = did_you_mean(key, self._asked) or ""
                known = ", ".join(dict.fromkeys(self._asked))
                raise PlanError(f"{self.place(key)} is not known. {f'{hint} ' if hint else ''}The keys are {known}")


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline in a TOML file. Paths in it are relative to the file; an error names the file and the key."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot read the pipeline {path}: {error}") from error
    try:
        return read_pipeline(tomllib.loads(text), file.parent)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path} is not TOML: {error}") from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def read_pipeline(values: Mapping[str, Any], folder: Path) -> Pipeline:
    """The pipeline that the values of a TOML file describe; its relative paths start in `folder`.

    >>> made = read_pipeline({
    ...     "queries": "PATTERN SEQ(A a, B b) WITHIN 10s",
    ...     "source": {"format": "csv", "path": "trades.csv"},
    ...     "sink": {"format": "parquet", "path": "matches"},
    ... }, Path("/data"))
    >>> made.source.path, made.stream
    ('/data/trades.csv', None)
    """
    top = Table("", values)
    program = _read_queries(top.require("queries", str, "the file of the queries, or their text"), folder)
    source = _read(top, "source", lambda table: _read_source(table, folder), "where events come from")
    sink = _read(top, "sink", lambda table: _read_sink(table, folder), "where matches go")
    detection = _read(top, "detect", _read_detection) or Detection()
    aside = _read(top, "aside", lambda table: _read_sink(table, folder))
    journal = _read(top, "journal", lambda table: _read_sink(table, folder))
    stream = _read(top, "stream", lambda table: _read_stream(table, folder))
    spark = _read(top, "spark", _read_spark) or SparkSettings()
    top.finish()
    assert source is not None
    assert sink is not None
    return Pipeline(program.queries, source, sink, detection, aside, stream, spark, program.definitions, journal)


def _read(top: Table, name: str, read: Callable[[Table], T], missing: str | None = None) -> T | None:
    """A table of the file by its own reader, and no key of it left over; None if it is not there."""
    values = top.get(name, dict)
    if values is None:
        if missing is not None:
            raise PlanError(f"the table [{name}] is missing: {missing}")
        return None
    table = Table(f"{top.name}.{name}" if top.name else name, values)
    found = read(table)
    table.finish()
    return found


def _read_queries(given: str, folder: Path) -> Program:
    file = None if "\n" in given or len(given) > 255 else folder / given
    if file is not None and file.is_file():
        program = parse_program(file.read_text(encoding="utf-8"))
    elif "PATTERN" in given.upper() or "RULE" in given.upper():
        program = parse_program(given)
    else:
        raise PlanError(f"queries: there is no file {folder / given}, and it is not a query either (no PATTERN clause)")
    if not program.queries and not program.rules:
        raise PlanError("queries: there is no query in it")
    check_program(program)
    return read_program(program)


def _read_source(table: Table, folder: Path) -> Source:
    return Source(
        format=table.require("format", str, "such as parquet, csv or kafka"),
        path=_resolve(table.get("path", str), folder),
        schema=_read_schema(table, folder),
        options=table.texts("options"),
        type=table.get("type", str, "type"),
        ts=table.get("ts", str, "ts"),
        begin=table.get("begin", str),
        unit=table.get("unit", str, "ms"),
    )


def _read_schema(table: Table, folder: Path) -> dict[str, str] | None:
    """The columns and their types: a table, or the name of a TOML file of that table."""
    given = table.get("schema", (dict, str))
    if given is None:
        return None
    if isinstance(given, dict):
        return table.texts("schema")
    file = folder / given
    try:
        return Table("schema", {"schema": tomllib.loads(file.read_text(encoding="utf-8"))}).texts("schema")
    except (OSError, ValueError) as error:
        raise PlanError(f"{table.place('schema')}: cannot read {file}: {error}") from error


def _read_sink(table: Table, folder: Path) -> Sink:
    format_ = table.require("format", str, "such as parquet, json or console")
    require_choice(table.place("format"), format_, SINK_FORMATS)
    if format_ in FILE_FORMATS:
        return FileSink(
            cast(FileFormat, format_),
            cast(str, _resolve(table.require("path", str, "the folder that is written"), folder)),
            table.get("single_file", bool, False),
            table.texts("options"),
        )
    match format_:
        case "console":
            return ConsoleSink(table.get("style", str, "json"), table.get("rows", int, 20))
        case "kafka":
            return KafkaSink(
                table.require("servers", str, "the brokers, such as localhost:9092"),
                table.require("topic", str, "the topic that is written to"),
                table.texts("options"),
            )
        case "jdbc":
            return JdbcSink(
                table.require("url", str, "the database, such as jdbc:postgresql://localhost/alerts"),
                table.require("table", str, "the table that is written to"),
                table.texts("options"),
            )
        case _:
            defaults = WebhookSink("http://localhost")
            return WebhookSink(
                table.require("url", str, "where matches are posted to"),
                table.get("batch", int, defaults.batch),
                table.get("timeout", float, defaults.timeout),
                table.get("retries", int, defaults.retries),
                table.get("backoff", float, defaults.backoff),
                table.texts("headers"),
            )


def _read_detection(table: Table) -> Detection:
    return Detection(
        lateness=table.get("lateness", (int, str), 0),
        key=table.get("key", str),
        strict=table.get("strict", bool, False),
        buckets=table.get("buckets", int),
        options=_read(table, "limits", _read_limits) or Options(),
        adapt=_read_adapt(table),
    )


def _read_adapt(table: Table) -> Adaptation | None:
    """How plans are adapted, true, the name of a decision, or a table; and what for."""
    given = table.get("adapt", (bool, str, dict), False)
    try:
        found = _read(table, "adapt", _read_adaptation) if isinstance(given, dict) else read_adapt(given)
    except PlanError as error:
        raise PlanError(str(error) if str(error).startswith("[") else f"{table.place('adapt')}: {error}") from error
    try:
        return read_adapt(found, table.get("objective", str, "throughput"))
    except PlanError as error:
        raise PlanError(f"{table.place('objective')}: {error}") from error


def _read_adaptation(table: Table) -> Adaptation:
    given = {
        "decision": table.get("decision", str),
        "planner": table.get("planner", str),
        "every": table.get("every", int),
        "budget": table.get("budget", float),
        "windows": table.get("windows", float),
        "gain": table.get("gain", float),
        "tried": table.get("tried", bool),
        "method": table.get("method", str),
        "stored": table.get("stored", bool),
    }
    return Adaptation(**{name: value for name, value in given.items() if value is not None})


def _read_limits(table: Table) -> Options:
    given = {
        "max_matches": table.get("max_matches", int),
        "max_partial_matches": table.get("max_partial_matches", int),
        "memory_budget": table.get("memory_budget", int),
        "on_limit": table.get("on_limit", str),
        "unbounded_rules": table.get("unbounded_rules", bool),
    }
    try:
        return replace(Options(), **{name: value for name, value in given.items() if value is not None})
    except EnsueError as error:
        raise PlanError(f"[detect.limits] {error}") from error


def _read_stream(table: Table, folder: Path) -> Stream:
    checkpoint = table.require("checkpoint", str, "the folder that says how far the run has come")
    return Stream(cast(str, _resolve(checkpoint, folder)), table.get("trigger", str))


def _read_spark(table: Table) -> SparkSettings:
    packages = table.get("packages", list, [])
    if not all(isinstance(package, str) for package in packages):
        raise PlanError(f"{table.place('packages')} has to be a list of Maven coordinates, each a text")
    return SparkSettings(table.get("master", str), table.texts("config"), tuple(packages))


def _resolve(path: str | None, folder: Path) -> str | None:
    """A path of the file: as it is with a scheme (`s3a://…`), else from the file's folder on."""
    if path is None or "://" in path:
        return path
    return os.path.normpath(folder.absolute() / path)
