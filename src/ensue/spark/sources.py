"""Where a pipeline's events come from: files, Delta tables, Kafka topics, the generator; as a batch or as a stream.

No row vanishes. A row of CSV or JSON that cannot be read, or that holds a value which does not fit its column, comes
through with its text in the column `UNREADABLE` and without a type, so that detection rejects it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from ensue.errors import InputError, PlanError
from ensue.pattern.nearest import did_you_mean
from ensue.spark.columns import found_types, given_types, make_schema, quote
from ensue.spark.generator import NAME as GENERATOR
from ensue.spark.generator import register_generator
from ensue.spark.kafka import require_server
from ensue.spark.packages import explain_missing
from ensue.spark.settings import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREADABLE = "_unreadable"
_CSV = {"header": "true", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE, "enforceSchema": "false"}
_RECORD = "_record"
_RECORD_FIELDS = ("topic", "partition", "offset")
_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}


def read_events(
    spark: SparkSession, source: Source, *, stream: bool = False, numeric: Collection[str] = ()
) -> DataFrame:
    """The events of a source as a DataFrame, streaming if asked for.

    `numeric` are columns that queries take for numbers: a text among them is a row to reject, not a column of texts.
    """
    with explained(source.format, source.path):
        match source.format:
            case "csv":
                events = _read_csv(spark, source, stream, {*numeric, source.ts, source.begin or source.ts})
            case "json":
                events = _read_json(spark, source, stream, {*numeric, source.ts, source.begin or source.ts})
            case "kafka":
                events = _read_kafka(spark, source, stream)
            case "parquet":
                events = _read_parquet(spark, source, stream)
            case "generator":
                register_generator(spark)
                events = _reader(spark, source, stream).format(GENERATOR).load()
            case _:
                events = _reader(spark, source, stream).format(source.format).load(source.path)
    _require_columns(source, events.columns)
    if UNREADABLE not in events.columns:
        return events
    # Naming every column makes Spark read whole rows: otherwise it would not notice, in columns that no one asks for,
    # the values that do not fit. Where all are null the type is too, so the second condition changes nothing.
    columns = [F.col(quote(name)) for name in events.columns if name != UNREADABLE]
    empty = reduce(and_, (column.isNull() for column in columns))
    readable = F.col(UNREADABLE).isNull() & ~empty
    return events.withColumn(source.type, F.when(readable, F.col(quote(source.type))))


@contextmanager
def explained(format: str, path: str | None = None) -> Iterator[None]:
    """Say in our words what Spark says at length: that a package or a path is not there, that a file is another's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find data source" in text:
            raise InputError(explain_missing(format)) from error
        if "[PATH_NOT_FOUND]" in text:
            raise InputError(f"there is no file or folder {path}") from error
        if "[UNABLE_TO_INFER_SCHEMA]" in text:
            raise InputError(f"{path} holds no {format} files") from error
        if "is not a Parquet file" in text:
            raise InputError(f"{path} is not, or not only, of Parquet files; give the format that it has") from error
        reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"cannot read {path or format}: {reason}") from error


def _reader(spark: SparkSession, source: Source, stream: bool) -> Any:
    reader: Any = spark.readStream if stream else spark.read
    return reader.options(**source.options)


def _read_csv(spark: SparkSession, source: Source, stream: bool, numeric: Collection[str]) -> DataFrame:
    options = {"header": "true", **source.options}
    given = given_types(source.schema, source.type)
    header = _look(spark.read.options(**options), "csv", source.path, stream)
    if header is None:
        types = _require_types(source, given)
    elif all(name in given for name in header.columns):
        types = {name: given[name] for name in header.columns}
    else:
        # A time without a zone stays one, and is read as UTC.
        found = {"inferSchema": "true", "preferTimestampNTZ": "true", **options}
        sample = spark.read.options(**found).csv(source.path or "")
        types = {name: given.get(name, kind) for name, kind in found_types(sample, numeric).items()}
    types[UNREADABLE] = StringType()
    reader = _reader(spark, source, stream).options(**_CSV | dict(source.options))
    events: DataFrame = reader.schema(make_schema(types)).csv(_stream_path(source.path, stream))
    return events


def _read_json(spark: SparkSession, source: Source, stream: bool, numeric: Collection[str]) -> DataFrame:
    given = given_types(source.schema, source.type)
    if source.ts in given:
        types = given
    else:
        sample = _look(spark.read.options(**source.options), "json", source.path, stream)
        if sample is None:
            types = _require_types(source, given)
        else:
            found = found_types(sample.drop("_corrupt_record"), numeric)
            types = found | {name: kind for name, kind in given.items() if name in found or name != source.type}
    lines: DataFrame = _reader(spark, source, stream).text(_stream_path(source.path, stream))
    return _parse_json(lines.where(F.length(F.trim("value")) > 0), types)


def _read_kafka(spark: SparkSession, source: Source, stream: bool) -> DataFrame:
    types = _require_types(source, given_types(source.schema, source.type))
    records: DataFrame = _reader(spark, source, stream).format("kafka").load()
    if servers := source.options.get("kafka.bootstrap.servers"):
        require_server(servers)
    record = F.struct(*_RECORD_FIELDS).alias(_RECORD)
    return _parse_json(records.select(F.col("value").cast("string"), record), types)


def _read_parquet(spark: SparkSession, source: Source, stream: bool) -> DataFrame:
    given = given_types(source.schema, source.type)
    sample = _look(spark.read.options(**source.options), "parquet", source.path, stream)
    schema = make_schema(_require_types(source, given)) if sample is None else sample.schema
    events: DataFrame = _reader(spark, source, stream).schema(schema).parquet(_stream_path(source.path, stream))
    wanted = {field.name: given[field.name] for field in schema if field.name in given}
    return events.withColumns({name: F.col(quote(name)).cast(kind) for name, kind in wanted.items()})


def _parse_json(lines: DataFrame, types: dict[str, DataType]) -> DataFrame:
    """The rows whose JSON is in the column `value`, beside the other columns that there are."""
    schema = make_schema({**types, UNREADABLE: StringType()})
    hidden = [name for name in (_RECORD,) if name in lines.columns]
    others = [F.col(quote(name)) for name in lines.columns if name not in ("value", *hidden, *types)]
    parsed = lines.select(F.from_json("value", schema, _JSON).alias("row"), "value", *hidden, *others)
    own = [F.col(f"row.{quote(name)}").alias(name) for name in types]
    # What is no object at all gives neither values nor, always, its text.
    nothing = F.col("row").isNull() | F.forall(F.array(*[c.isNull() for c in own]), lambda null: null)
    empty = nothing & (F.coalesce(F.trim("value"), F.lit("")) != "{}")
    text = F.col("value")
    if hidden:
        parts = [F.coalesce(text, F.lit("no value")), *(F.col(f"{_RECORD}.{name}") for name in _RECORD_FIELDS)]
        text = F.format_string("%s (topic %s, partition %d, offset %d)", *parts)
    unreadable = F.col(f"row.{UNREADABLE}").isNotNull() | empty
    return parsed.select(*own, *others, F.when(unreadable, text).alias(UNREADABLE))


def _look(reader: Any, format: str, path: str | None, stream: bool) -> DataFrame | None:
    """What is there now, to see its columns; None if it is a stream of which nothing is there yet."""
    try:
        found: DataFrame = reader.format(format).load(path)
    except AnalysisException as error:
        if stream and error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return None
        raise
    return found if found.columns else None


def _stream_path(path: str | None, stream: bool) -> str:
    """The path for a reader; of a stream's single file a pattern, since Spark's streams read folders and patterns."""
    if stream and path is not None and Path(path).is_file():
        return str(Path(path).parent / f"{{{Path(path).name}}}")
    return path or ""


def _require_types(source: Source, given: dict[str, DataType]) -> dict[str, DataType]:
    """The given types, which have to do where nothing can be read yet."""
    if source.ts not in given:
        place = (
            "Kafka does not say which columns its records have"
            if source.format == "kafka"
            else (f"there is nothing in {source.path} yet that would tell which columns there are")
        )
        raise PlanError(
            f"{place}: give the schema, every column with its type (--schema FILE, or [source.schema] in a pipeline "
            f'file, such as {source.ts} = "timestamp")'
        )
    return given


def _require_columns(source: Source, columns: Collection[str]) -> None:
    for name, key in ((source.type, "type"), (source.ts, "ts"), (source.begin, "begin")):
        if name is not None and name not in columns:
            shown = [column for column in columns if column != UNREADABLE]
            hint = did_you_mean(name, shown) or f"it has {', '.join(f'`{column}`' for column in shown)}"
            raise InputError(
                f"the input has no column `{name}`; {hint} (see --type-column, --time-column, --begin-column; "
                f"in a pipeline file [source] {key})"
            )
