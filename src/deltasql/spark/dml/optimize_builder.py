"""`db.table(name).optimize()` with delta-spark's verbs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltasql.lake.table import Table
from deltasql.lake.upkeep.optimizing import OptimizeReport


@dataclass(frozen=True, slots=True)
class OptimizeBuilder:
    """Which files are optimized, and how; the driver does it, from Arrow."""

    _table: Table
    _where: str | None = None
    _target_size: int | str | None = None

    def where(self, partition_filter: str) -> OptimizeBuilder:
        """Only partitions of a condition."""
        return replace(self, _where=partition_filter)

    def executeCompaction(self) -> OptimizeReport:  # noqa: N802 - delta-spark's name
        """Write small files together."""
        return self._table.optimize(self._where, self._target_size)

    def executeZOrderBy(self, *columns: str) -> OptimizeReport:  # noqa: N802 - delta-spark's name
        """Put the rows of all files in the order of columns."""
        return self._table.optimize(self._where, self._target_size, columns)
