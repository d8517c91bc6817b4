"""Several tables in one transaction from PySpark: reads of one cut, writes seen all at once."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltasql.spark.options import write_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from deltasql.spark.database import Database


class SparkTransaction:
    """Commits at the end of its block, and leaves nothing behind when the block raises."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._inner = db.lake.transaction()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    @property
    def versions(self) -> Mapping[str, int]:
        """What the tables' versions are, once it is committed."""
        return self._inner.versions

    def read(self, name: str, where: str | None = None) -> DataFrame:
        """The rows at the cut, with this transaction's own writes; part of the conflict check."""
        table = self._inner.table(name)
        snapshot = table.snapshot()
        self._db.grant(table.location)
        predicate = None
        if where is not None:
            predicate = self._db.reader.condition(where, snapshot.state).predicate
        table.has_read(predicate)
        return self._db.reader.frame(table.location, snapshot, where)

    def write(self, df: DataFrame, name: str, mode: str = "append", **options: Any) -> None:
        """Write rows when the transaction commits; options as in `db.write`."""
        table = self._inner.table(name)
        self._db.grant(table.location)
        wanted = write_options(mode, options)
        table.take(self._db.writer.prepare(table.location, table.snapshot(), df, wanted))
