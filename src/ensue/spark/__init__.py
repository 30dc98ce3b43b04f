"""Detection on Apache Spark: finite and streaming DataFrames, pipelines, sources and sinks."""

from ensue.spark.counts import RunCounts
from ensue.spark.detection import aside_of, detect, detect_with_aside, matches_of
from ensue.spark.logs import check_logs
from ensue.spark.session import configure, make_session

__all__ = [
    "RunCounts",
    "aside_of",
    "check_logs",
    "configure",
    "detect",
    "detect_with_aside",
    "make_session",
    "matches_of",
]
