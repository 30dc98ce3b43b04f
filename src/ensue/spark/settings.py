"""What a pipeline is: where events come from, what is looked for, where matches go. Plain values, made by anyone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ensue.errors import PlanError
from ensue.options import Options
from ensue.pattern.nearest import did_you_mean
from ensue.pattern.query import Query
from ensue.rules.program import Program, Statement
from ensue.runtime.adaptation import Adaptation
from ensue.runtime.compiling import require_windows

SOURCE_FORMATS = ("parquet", "csv", "json", "delta", "kafka", "generator")
FILE_FORMATS = ("parquet", "csv", "json")
SINK_FORMATS = (*FILE_FORMATS, "console", "kafka", "jdbc", "webhook")
ASIDE_FORMATS = (*FILE_FORMATS, "console", "kafka")

FileFormat = Literal["parquet", "csv", "json"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where events come from. `schema` gives columns their types (`{"price": "float64"}`), all or some.

    `type`, `ts` and `begin` name the columns of an event's type, end and begin; `unit` is a step of an integer time.
    `options` go to Spark's reader as they are.
    """

    format: str
    path: str | None = None
    schema: Mapping[str, str] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    type: str = "type"
    ts: str = "ts"
    begin: str | None = None
    unit: str = "ms"

    def __post_init__(self) -> None:
        require_choice("the source's format", self.format, SOURCE_FORMATS)
        require_choice("the unit of time", self.unit, ("us", "ms", "s"))
        if self.path is None and self.format not in ("kafka", "generator"):
            raise PlanError(f"a source of format {self.format} needs a path: a file, or a folder of files")


@dataclass(frozen=True, slots=True)
class Detection:
    """How matches are looked for: the arguments of `ensue.spark.detect` of the same names."""

    lateness: int | str = 0
    key: str | None = None
    strict: bool = False
    buckets: int | None = None
    options: Options = field(default_factory=Options)
    adapt: Adaptation | None = None


@dataclass(frozen=True, slots=True)
class FileSink:
    """Files in the folder `path`; with `single_file`, which a batch alone can have, `path` is one file.

    A stream writes each micro-batch to a folder of its own, `batch=<number>`, which a repeated micro-batch replaces.
    """

    format: FileFormat
    path: str
    single_file: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """Standard output: JSON lines, CSV, or the first `rows` as a table for the eye."""

    style: Literal["json", "csv", "table"] = "json"
    rows: int = 20

    def __post_init__(self) -> None:
        require_choice("the console's style", self.style, ("json", "csv", "table"))


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """Records of a topic: the key is the match_id, the value the match as JSON."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JdbcSink:
    """Rows of a database table, which is made if it is not there; what is no plain value is JSON text in it."""

    url: str
    table: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebhookSink:
    """A POST for each match, or for each `batch` of them as a JSON array.

    A request that fails is tried again `retries` times, after waits that double from `backoff` seconds on.
    """

    url: str
    batch: int = 1
    timeout: float = 10.0
    retries: int = 5
    backoff: float = 0.5
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise PlanError(f"the webhook's url is {self.url!r}; it has to begin with http:// or https://")
        for name, least in (("batch", 1), ("retries", 0), ("timeout", 0.001), ("backoff", 0)):
            if getattr(self, name) < least:
                raise PlanError(f"the webhook's {name} is {getattr(self, name)}; it is {least} at least")


Sink = FileSink | ConsoleSink | KafkaSink | JdbcSink | WebhookSink


@dataclass(frozen=True, slots=True)
class Stream:
    """Run for as long as events come. `trigger` is how often: `10 seconds`, `available-now` (what is there, then stop).

    None is a micro-batch after the other. The folder `checkpoint` holds how far the run has come.
    """

    checkpoint: str
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark session: its master, settings by name, and the Maven coordinates of packages."""

    master: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Events in, matches out. `aside` is where late and rejected rows go, `journal` what was decided about plans.

    With `stream` it runs until it is stopped. `rules` are declarations and rules beside the queries.
    """

    queries: tuple[Query, ...]
    source: Source
    sink: Sink
    detection: Detection = field(default_factory=Detection)
    aside: Sink | None = None
    stream: Stream | None = None
    spark: SparkSettings = field(default_factory=SparkSettings)
    rules: tuple[Statement, ...] = ()
    journal: Sink | None = None

    @property
    def program(self) -> Program:
        """The rules and the queries."""
        return Program((*self.rules, *self.queries))

    def __post_init__(self) -> None:
        if self.rules and isinstance(self.sink, JdbcSink | WebhookSink):
            raise PlanError(
                f"derived events cannot go to a {sink_format(self.sink)}: they have no match_id that would tell a "
                "repeated one; write them to files or to Kafka"
            )
        for name, what, sink in (
            ("aside", "late and rejected rows", self.aside),
            ("journal", "entries of the journal", self.journal),
        ):
            if isinstance(sink, JdbcSink | WebhookSink):
                raise PlanError(
                    f"{what} cannot go to a {sink_format(sink)}: they have no match_id that would tell a repeated one; "
                    f"the formats of [{name}] are {', '.join(ASIDE_FORMATS)}"
                )
        if self.journal is not None and self.detection.adapt is None:
            raise PlanError("the journal tells how plans are adapted, and they are not: ask for adapt too")
        paths = [sink.path for sink in (self.sink, self.aside, self.journal) if isinstance(sink, FileSink)]
        for path in paths:
            if paths.count(path) > 1:
                raise PlanError(
                    f"matches, rows set aside and the journal cannot share {path}; give each its own folder"
                )
        if self.stream is not None:
            self._check_stream()
        elif self.detection.lateness != 0:
            raise PlanError(
                "a lateness is for streams, which cannot wait for ever; a batch sorts all its events, so that none is "
                "late: leave the lateness out, or ask for a stream"
            )

    def _check_stream(self) -> None:
        require_windows(self.queries)
        for sink in (self.sink, self.aside, self.journal):
            if isinstance(sink, FileSink) and sink.single_file:
                raise PlanError(
                    f"a stream writes a folder for each micro-batch and cannot write the one file {sink.path}; "
                    "give it a folder"
                )


def sink_format(sink: Sink) -> str:
    """The name of a sink's format, as a pipeline file gives it."""
    match sink:
        case FileSink(format=format):
            return format
        case ConsoleSink():
            return "console"
        case KafkaSink():
            return "kafka"
        case JdbcSink():
            return "jdbc"
        case WebhookSink():
            return "webhook"


def require_choice(what: str, given: str, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the choices, with the nearest one."""
    if given not in choices:
        hint = did_you_mean(given, choices)
        raise PlanError(f"{what} is {given!r}; {f'{hint} There' if hint else 'there'} are {', '.join(choices)}")
