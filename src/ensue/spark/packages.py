"""What comes in a package of its own: Kafka's connector and Delta Lake, and which version goes with which Spark."""

from __future__ import annotations

from collections.abc import Iterable

from ensue.errors import PlanError
from ensue.pattern.nearest import did_you_mean

SCALA = "2.13"  # the only one that Spark 4 is made for
DELTA = "4.4.0"
DELTA_SPARKS = ("4.1", "4.2")
"""The versions of Spark that this release of Delta Lake is made for. On 4.3 it was tried, and cannot read a table."""

_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def find_package(name: str, spark: str | None = None) -> str:
    """The Maven coordinates of the package for a format, made for a version of Spark: this one, if none is said.

    >>> find_package("kafka", "4.2.1")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.1'
    >>> find_package("delta", "4.2.0")
    'io.delta:delta-spark_4.2_2.13:4.4.0'
    """
    spark = spark or spark_version()
    if name == "kafka":
        return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{spark}"
    if name != "delta":
        hint = did_you_mean(name, ("kafka", "delta"))
        raise PlanError(
            f"the package {name!r} is not known. {f'{hint} ' if hint else ''}It is kafka, delta, or Maven coordinates, "
            "GROUP:ARTIFACT:VERSION"
        )
    line = ".".join(spark.split(".")[:2])
    if line not in DELTA_SPARKS:
        raise PlanError(
            f"no release of Delta Lake is known here that is made for Spark {spark}: {DELTA} is for Spark "
            f"{' and '.join(DELTA_SPARKS)}, and runs on no other. Install one of these (pip install "
            f"pyspark=={DELTA_SPARKS[-1]}.0); or, once there is a release for Spark {line}, give its coordinates "
            f"(io.delta:delta-spark_{line}_{SCALA}:VERSION)"
        )
    return f"io.delta:delta-spark_{line}_{SCALA}:{DELTA}"


def find_packages(names: Iterable[str]) -> list[str]:
    """Coordinates as they are, and in place of the names `kafka` and `delta` those for this Spark."""
    return [name if ":" in name else find_package(name) for name in names]


def package_settings(packages: Iterable[str]) -> dict[str, str]:
    """What a session has to be set to for these packages (their coordinates, or their jars) to work."""
    return dict(_DELTA_SETTINGS) if any("delta-spark" in name for name in packages) else {}


def explain_missing(format: str) -> str:
    """What to do when Spark does not know a format."""
    missing = f"this Spark does not know the format {format}, which comes in a package of its own"
    try:
        package = find_package(format)
    except PlanError as error:
        return f"{missing}; {error}"
    return (
        f'{missing}; add --packages {format} (in a pipeline file: [spark] packages = ["{format}"]), which is {package}'
    )


def spark_version() -> str:
    """The version of the Spark that runs here."""
    import pyspark

    return str(pyspark.__version__)
