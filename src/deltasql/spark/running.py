"""What Spark reads at this moment: each heartbeat asks, so that vacuum spares it.

A frame reads nothing until a query runs, and may be queried as often as its owner likes: only Spark
knows when. Its list of the queries under way says which tables they scan, and at which version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from py4j.java_gateway import is_instance_of

from deltasql.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasql.store.interface import LogStore

_SPARK = "org.apache.spark.sql"
_SCAN = f"{_SPARK}.execution.datasources.LogicalRelation"
_FILES = f"{_SPARK}.execution.datasources.HadoopFsRelation"
_DELTA_FILES = f"{_SPARK}.delta.files.TahoeFileIndex"


class Running:
    """The queries under way in Spark, as far as they read a lake."""

    def __init__(self, spark: SparkSession, store: LogStore) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._gateway = cast("Any", spark.sparkContext._gateway)
        self._store = store
        executions = getattr(self._jvm.org.apache.spark.sql.execution, "SQLExecution$")
        self._executions = getattr(executions, "MODULE$")

    def reads(self) -> set[tuple[int, int]]:
        """Tables, by their ids, and versions that are being read."""
        found = {
            read
            # Not `values()`: Py4J would look each of them up by an int, and the keys are longs.
            for execution in self._executions.executionIdToQueryExecution().entrySet()
            for read in self._scans(execution.getValue().analyzed())
        }
        if not found:
            return set()
        tables = {place_of(record.location): record.table_id for record in self._store.tables()}
        return {(tables[place], version) for place, version in found if place in tables}

    def _scans(self, plan: Any) -> Iterator[tuple[str, int]]:
        """The places of the tables that a plan scans by Delta's reader, and the versions."""
        leaves = plan.collectLeaves()
        for number in range(leaves.size()):
            leaf = leaves.apply(number)
            if not self._is(leaf, _SCAN) or not self._is(leaf.relation(), _FILES):
                continue
            files = leaf.relation().location()
            if self._is(files, _DELTA_FILES):
                yield place_of(str(files.path().toString())), self._version(files)

    def _version(self, files: Any) -> int:
        version = int(files.version())
        if version >= 0:
            return version
        # A frame of ours: see `native/gateway.py`.
        log = PurePosixPath(str(files.deltaLog().logPath().toString()))
        return int(log.parent.name)

    def _is(self, found: Any, name: str) -> bool:
        return bool(is_instance_of(self._gateway, found, name))
