"""Pipelines as TOML files: what they mean, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ensue.errors import EnsueError, PlanError, QueryError
from ensue.options import Options
from ensue.pattern.check import check
from ensue.spark.pipeline import read_trigger
from ensue.spark.pipeline_file import load_pipeline, read_pipeline
from ensue.spark.settings import ConsoleSink, Detection, FileSink, JdbcSink, KafkaSink, Source, Stream, WebhookSink

QUERY = "PATTERN SEQ(A a, B b) WITHIN 10s"
SMALL: dict[str, Any] = {
    "queries": QUERY,
    "source": {"format": "csv", "path": "in.csv"},
    "sink": {"format": "console"},
}


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "q.ensue").write_text(f"QUERY first {QUERY};\n{QUERY};")
    (tmp_path / "columns.toml").write_text('type = "string"\nts = "timestamp"\n')
    (tmp_path / "p.toml").write_text("""
        queries = "q.ensue"
        [source]
        format = "json"
        path = "in"
        schema = "columns.toml"
        ts = "ts"
        options = { maxFilesPerTrigger = 1, recursiveFileLookup = true }
        [detect]
        lateness = "10 seconds"
        key = "k"
        strict = true
        buckets = 8
        limits = { max_matches = 7, on_limit = "shed" }
        [sink]
        format = "parquet"
        path = "s3a://bucket/out"
        [aside]
        format = "json"
        path = "/elsewhere/aside"
        [stream]
        trigger = "10 seconds"
        checkpoint = "state"
        [spark]
        master = "local[2]"
        packages = ["a:b:1"]
        config = { "spark.driver.memory" = "2g" }
    """)
    made = load_pipeline(tmp_path / "p.toml")
    assert [query.name for query in made.queries] == ["first", "q2"]
    options = {"maxFilesPerTrigger": "1", "recursiveFileLookup": "true"}
    assert made.source == Source("json", str(tmp_path / "in"), {"type": "string", "ts": "timestamp"}, options)
    assert made.detection == Detection("10 seconds", "k", True, 8, Options(max_matches=7, on_limit="shed"))
    assert made.sink == FileSink("parquet", "s3a://bucket/out")
    assert made.aside == FileSink("json", "/elsewhere/aside")
    assert made.stream == Stream(str(tmp_path / "state"), "10 seconds")
    assert (made.spark.master, made.spark.packages) == ("local[2]", ("a:b:1",))
    assert made.spark.config == {"spark.driver.memory": "2g"}


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ({"format": "console", "style": "table"}, ConsoleSink("table")),
        ({"format": "kafka", "servers": "h:1", "topic": "t"}, KafkaSink("h:1", "t")),
        ({"format": "jdbc", "url": "jdbc:x", "table": "t"}, JdbcSink("jdbc:x", "t")),
        ({"format": "webhook", "url": "http://h", "timeout": 3}, WebhookSink("http://h", timeout=3.0)),
        ({"format": "csv", "path": "o.csv", "single_file": True}, FileSink("csv", "/w/o.csv", True)),
    ],
)
def test_every_sink(sink: dict[str, Any], expected: object) -> None:
    assert read_pipeline({**SMALL, "sink": sink}, Path("/w")).sink == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sorce": {}}, "sorce is not known. did you mean `source`?"),
        ({"source": {"format": "csv", "pth": "x"}}, "needs a path"),
        ({"source": {"format": "csv", "path": "x", "tpye": "k"}}, "[source] tpye is not known. did you mean `type`?"),
        ({"source": {"format": "cvs", "path": "x"}}, "did you mean `csv`?"),
        ({"source": {"path": "x"}}, "[source] format is missing"),
        ({"source": {"format": "csv", "path": 7}}, "[source] path is 7; it has to be text"),
        ({"source": "in.csv"}, "source is 'in.csv'; it has to be a table"),
        ({"sink": {"format": "jdbc", "url": "jdbc:x"}}, "[sink] table is missing"),
        ({"sink": {"format": "webhook", "url": "ftp://x"}}, "has to begin with http"),
        ({"sink": {"format": "console", "style": "xml"}}, "the console's style"),
        ({"aside": {"format": "webhook", "url": "http://x"}}, "cannot go to a webhook"),
        ({"detect": {"lateness": "5s"}}, "a lateness is for streams"),
        ({"detect": {"limits": {"max_matchs": 1}}}, "[detect.limits] max_matchs is not known"),
        ({"detect": {"limits": {"max_matches": 0}}}, "max_matches is 0"),
        ({"stream": {}}, "[stream] checkpoint is missing"),
        ({"stream": {"checkpoint": "c"}, "queries": "PATTERN SEQ(A a, B b)"}, "has no window"),
        (
            {"stream": {"checkpoint": "c"}, "sink": {"format": "csv", "path": "x", "single_file": True}},
            "cannot write the one file",
        ),
        ({"sink": {"format": "csv", "path": "x"}, "aside": {"format": "json", "path": "x"}}, "cannot share"),
        ({"queries": "nowhere.ensue"}, "there is no file"),
        ({"spark": {"packages": [1]}}, "Maven coordinates"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EnsueError) as caught:
        read_pipeline({**SMALL, **change}, Path("/w"))
    assert message in str(caught.value)


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("queries = \n")
    with pytest.raises(PlanError, match=r"p\.toml is not TOML: .*line 1"):
        load_pipeline(path)
    path.write_text(f'queries = "{QUERY}"\n')
    with pytest.raises(PlanError, match=r"p\.toml: the table \[source\] is missing"):
        load_pipeline(path)
    with pytest.raises(PlanError, match="cannot read the pipeline"):
        load_pipeline(tmp_path / "other.toml")


def test_a_wrong_query_is_shown() -> None:
    with pytest.raises(QueryError, match="unknown variable `c`"):
        check(read_pipeline({**SMALL, "queries": "PATTERN SEQ(A a) WHERE c.x = 1"}, Path("/")).queries[0])


def test_a_trigger_that_is_none() -> None:
    with pytest.raises(PlanError, match="'often'"):
        read_trigger("often")
