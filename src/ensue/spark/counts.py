"""What became of the events of a run on Spark: observed by Spark itself while it works, no pass of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ensue.errors import EnsueError
from ensue.events.schema import Schema
from ensue.rules.program import Program
from ensue.runtime.counts import Counts
from ensue.spark.journal import KIND as JOURNAL
from ensue.spark.journal import is_replacement
from ensue.spark.routing import quote


class RunCounts:
    """The counts of one finite run: give it to `detect`, compute the result, then ask `get`.

    Example::

        counts = RunCounts()
        detect(events, queries, counts=counts).write.parquet("alerts")
        print(counts.get().rejected)
    """

    def __init__(self) -> None:
        self._input: Observation | None = None
        self._output: Observation | None = None

    def watch_input(self, events: DataFrame, schema: Schema, program: Program) -> DataFrame:
        """The same events, counted on their way."""
        if self._input is not None:
            raise EnsueError("these counts are of another run; make new ones for each call of detect")
        named = F.col(quote(schema.type)).cast("string").isin(sorted(program.inputs))
        self._input = Observation()
        return events.observe(self._input, F.count(F.lit(1)).alias("received"), F.count_if(~named).alias("ignored"))

    def watch_output(self, found: DataFrame) -> DataFrame:
        """The same output rows, counted on their way."""
        self._output = Observation()
        return found.observe(self._output, *self.found())

    @staticmethod
    def found() -> list[Column]:
        """What is counted of output rows."""
        kinds = {"late": "late", "rejected": "rejected", "matches": "match", "planned": JOURNAL}
        counts = [F.count_if(F.col("kind") == kind).alias(name) for name, kind in kinds.items()]
        return [*counts, F.count_if(is_replacement()).alias("replaced")]

    def get(self) -> Counts:
        """The counts; waits until the result has been computed."""
        if self._input is None or self._output is None:
            raise EnsueError("nothing is counted yet; give these counts to detect first")
        came, found = self._input.get, self._output.get
        return Counts(
            received=came["received"],
            processed=came["received"] - found["rejected"],
            rejected=found["rejected"],
            ignored=came["ignored"],
            matches=found["matches"],
            planned=found["planned"],
            replaced=found["replaced"],
        )
