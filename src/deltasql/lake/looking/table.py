"""Questions that people ask about one table: how big, of what kind, how it grew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from deltasql.errors import DeltaSqlError
from deltasql.lake.looking import plotting
from deltasql.lake.looking.details import detail_of, kind_of
from deltasql.lake.looking.public import TABLE
from deltasql.showing.html import failed, html_record, schema_html
from deltasql.store.browsing.sums import TableSums

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from deltasql.lake.table import Table


class TableLooks:
    """Looking at a table."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return sorted(TABLE)

    def _repr_html_(self) -> str:
        table = cast("Table", self)
        try:
            snapshot, sums = table.snapshot(table.version), self.size
        except DeltaSqlError as error:
            return failed(table.name, error)
        told = {
            "kind": self.kind,
            "version": snapshot.version,
            "committed": snapshot.timestamp,
            "location": table.location,
            "partitioned by": ", ".join(snapshot.metadata.partition_columns),
            "rows": sums.rows,
            "files": sums.files,
            "bytes": sums.size_bytes,
            "old bytes": sums.old_bytes,
        }
        return html_record(table.name, told) + schema_html(snapshot.schema)

    @property
    def kind(self) -> str:
        """`live`, `released` for a table handed back to plain Delta, or `read-only`."""
        return kind_of(cast("Table", self).read_only)

    @property
    def size(self) -> TableSums:
        """The newest version in numbers: rows, files, bytes, partitions, and old files."""
        table = cast("Table", self)
        return table._lake.store.table_sums(table.table_id)

    def head(self, rows: int = 5) -> pa.Table:
        """Some rows, to see what they look like; reads no more files than that takes."""
        return cast("Table", self).scan(limit=rows).to_arrow()

    def count(self, where: str | None = None) -> int:
        """How many rows there are; from the log alone where that is exact."""
        return cast("Table", self).snapshot().count(where)

    def min_max(self, column: str, where: str | None = None) -> tuple[Any, Any]:
        """The least and the greatest value of a column; from the log alone where that is exact."""
        return cast("Table", self).snapshot().min_max(column, where)

    def partitions(self) -> list[dict[str, str | None]]:
        """The values of the partition columns that have rows, as the log writes them."""
        return cast("Table", self).snapshot().partitions()

    def detail(self) -> dict[str, Any]:
        """What the table is, at a glance, as in Delta's DESCRIBE DETAIL."""
        table = cast("Table", self)
        return detail_of(table.snapshot(), table.name, table.location, table.sources)

    def plot(self, limit: int | None = 1000) -> Figure:
        """Live files, their bytes, and commits over time, as a matplotlib figure.

        `limit` is how many versions to go back at most. Files that were vacuumed and have left the
        log are not counted for the versions that had them. `ConfigError` without matplotlib.
        """
        return plotting.plot(cast("Table", self), limit)
