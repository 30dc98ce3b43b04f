"""The engines, in the order in which tables show them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine: how it is called, whose it is, where its module is and which process runs it."""

    name: str
    title: str
    family: str  # "ensue"; "stream", engines of patterns over streams; "table", engines that see their input whole
    module: str
    process: str = ""  # engines with the same name here share a process, which lives on; else one a job

    @property
    def is_java(self) -> bool:
        """Whether the process is a JVM of the harness."""
        return self.process == "java"

    def load(self) -> Any:
        """The module."""
        return importlib.import_module(f"benchmarks.peers.engines.{self.module}")


ENGINES: tuple[Engine, ...] = (
    Engine("ensue", "ensue, one core", "ensue", "ensue_local"),
    Engine("ensue-spark-1", "ensue, Spark local[1]", "ensue", "ensue_spark", "spark-1"),
    Engine("ensue-spark-2", "ensue, Spark local[2]", "ensue", "ensue_spark", "spark-2"),
    Engine("ensue-stream", "ensue, micro-batches", "ensue", "ensue_stream", "spark-2"),
    Engine("flink", "Flink CEP", "stream", "flink", "java"),
    Engine("esper", "Esper", "stream", "esper", "java"),
    Engine("siddhi", "Siddhi", "stream", "siddhi", "java"),
    Engine("duckdb", "DuckDB", "table", "duckdb_join"),
    Engine("spark-sql", "Spark SQL", "table", "spark_sql", "spark-2"),
    Engine("pandas", "pandas", "table", "pandas_join"),
)


def find(name: str) -> Engine:
    """The engine of a name."""
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise KeyError(f"no engine {name!r}; there are {', '.join(engine.name for engine in ENGINES)}")
