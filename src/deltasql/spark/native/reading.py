"""A snapshot from SQL as a frame: skipped in the database, scanned by Delta's reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltasql.lake.snapshot import Snapshot
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.spark.native.file_transfer import handed_over, with_row_ids
from deltasql.spark.native.gateway import Gateway
from deltasql.spark.native.guard import Guard
from deltasql.spark.native.skipping import decidable
from deltasql.spec.actions import AddFile
from deltasql.spec.protocol import check_readable
from deltasql.store.file_rows import to_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in Spark SQL, and what the database understands of it."""

    text: str
    predicate: Predicate | None
    is_whole: bool


class Reader:
    """Reads tables of a lake through Delta's reader."""

    def __init__(self, spark: SparkSession, gateway: Gateway) -> None:
        self._spark = spark
        self._gateway = gateway
        self._guard = Guard(spark, gateway)

    def condition(self, text: str, state: TableState) -> Condition:
        """A WHERE text, parsed by Spark, so that errors are Spark's."""
        conjuncts = self._gateway.conjuncts(text)
        predicate, is_whole = decidable(conjuncts, state, time_zone=self._zone)
        return Condition(text, predicate, is_whole)

    def understood(self, conjuncts: Sequence[str], state: TableState) -> Predicate | None:
        """What the database understands of a conjunction of conditions."""
        return decidable(conjuncts, state, time_zone=self._zone)[0]

    @property
    def _zone(self) -> str:
        return str(self._spark.conf.get("spark.sql.session.timeZone"))

    def frame(self, location: str, snapshot: Snapshot, where: str | None = None) -> DataFrame:
        """The rows of a snapshot that satisfy `where`."""
        if where is None:
            return self.of_files(location, snapshot.state, snapshot.batches())
        condition = self.condition(where, snapshot.state)
        batches = snapshot.batches(condition.predicate)
        return self.of_files(location, snapshot.state, batches).where(where)

    def of_adds(self, location: str, state: TableState, adds: Iterable[AddFile]) -> DataFrame:
        """The rows of some files of a table."""
        return self.of_files(location, state, to_table(adds).to_batches())

    def of_files(
        self, location: str, state: TableState, batches: Iterable[pa.RecordBatch]
    ) -> DataFrame:
        """The rows of some files of a table, as SQL returned them."""
        check_readable(state.protocol)
        table = self._gateway.table(location, state.metadata, state.protocol, state.version)
        if state.row_tracking:
            # A transaction's own files get their ids when it commits.
            batches = map(with_row_ids, batches)
        with handed_over(batches) as files:
            return self._guard.read_only(self._gateway.frame(table, files))
