"""`db.table(name).optimize()` with delta-spark's methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from deltasql.errors import ConfigError, ValidationError
from deltasql.lake.table import Table
from deltasql.lake.upkeep.optimizing import OptimizeReport
from deltasql.spark.dml.assignments import quoted

if TYPE_CHECKING:
    from deltasql.spark.database import Database

# What writes the files: the driver, from Arrow, or Delta's own OPTIMIZE on the executors.
Engine = Literal["arrow", "spark"]


@dataclass(frozen=True, slots=True)
class OptimizeBuilder:
    """Which files are optimized, and how."""

    _database: Database
    _table: Table
    _target_size: int | str | None = None
    _engine: Engine = "arrow"
    _where: str | None = None

    def where(self, partition_filter: str) -> OptimizeBuilder:
        """Restrict it to the partitions of a condition."""
        return replace(self, _where=partition_filter)

    def executeCompaction(self) -> OptimizeReport:  # noqa: N802 - delta-spark's name
        """Combine small files."""
        return self._run(())

    def executeZOrderBy(self, *columns: str) -> OptimizeReport:  # noqa: N802 - delta-spark's name
        """Order the rows of all files by columns."""
        return self._run(columns)

    def _run(self, columns: Sequence[str]) -> OptimizeReport:
        if self._engine == "arrow":
            return self._table.optimize(self._where, self._target_size, columns)
        if self._engine != "spark":
            raise ValidationError(
                f"there is no engine {self._engine!r:.40}", remedy="give arrow or spark"
            )
        if self._target_size is not None:
            raise ValidationError(
                "target_size is for the engine arrow",
                cause="Delta's own OPTIMIZE goes by the table's properties",
                remedy="set delta.targetFileSize on the table",
            )
        return self._on_executors(columns)

    def _on_executors(self, columns: Sequence[str]) -> OptimizeReport:
        """Delta's own OPTIMIZE with our commit; concurrent writers can't find the rows it moves."""
        catalog = self._database.catalog
        if catalog is None:
            raise ConfigError(
                "OPTIMIZE on Spark's executors needs the lake as a catalog",
                cause="it was attached without one",
                remedy='attach(spark, lake, catalog="lake")',
            )
        name = ".".join(map(quoted, (catalog, *self._table.name.split("."))))
        statement = f"OPTIMIZE {name}"
        if self._where is not None:
            statement += f" WHERE {self._where}"
        if columns:
            statement += f" ZORDER BY ({', '.join(map(quoted, columns))})"
        before = self._table.version
        (row,) = self._database.spark.sql(statement).collect()
        entries = [entry for entry in self._table.history() if entry.version > before]
        found = [entry.version for entry in entries if entry.operation == "OPTIMIZE"]
        return OptimizeReport(
            table=self._table.name,
            version=self._table.version,
            versions=tuple(sorted(found)),
            skipped=0,
            metrics=_metrics(row["metrics"].asDict(recursive=True)),
        )


def _metrics(told: Mapping[str, Any]) -> dict[str, int]:
    """The result of Delta's OPTIMIZE, under the names of its operationMetrics."""
    added, removed = told.get("filesAdded") or {}, told.get("filesRemoved") or {}
    return {
        "numRemovedFiles": told.get("numFilesRemoved") or 0,
        "numRemovedBytes": removed.get("totalSize") or 0,
        "numAddedFiles": told.get("numFilesAdded") or 0,
        "numAddedBytes": added.get("totalSize") or 0,
        "minFileSize": added.get("min") or 0,
        "maxFileSize": added.get("max") or 0,
    }
