"""Questions that people ask about a whole lake: which tables, what changed, what was dropped."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from deltasql.errors import DeltaSqlError
from deltasql.lake import new_table
from deltasql.lake.looking import auditing
from deltasql.lake.looking.auditing import AuditEntry
from deltasql.lake.looking.public import LAKE
from deltasql.lake.table import Table
from deltasql.lake.upkeep import purging
from deltasql.log.timestamps import Timestamp, from_ms
from deltasql.showing.html import Listing, failed, html_table, more

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class LakeLooks:
    """Looking at a lake."""

    def __dir__(self) -> list[str]:
        return sorted(LAKE)

    def tables(self, pattern: str | None = None) -> list[Table]:
        """The tables, by name; with a pattern such as `silver.*`, those whose names match it.

        `table.kind` tells which are read-only or released; `dropped` lists those that are gone.
        """
        lake = cast("Lake", self)
        return Listing(
            Table(lake, record)
            for record in lake.store.tables()
            if pattern is None or fnmatchcase(record.name, pattern)
        )

    def audit(
        self,
        start: Timestamp | None = None,
        end: Timestamp | None = None,
        *,
        since: timedelta | str | None = None,
        table: str | None = None,
        changes: bool = False,
        limit: int | None = None,
        after: AuditEntry | None = None,
    ) -> list[AuditEntry]:
        """What was committed from `start` up to `end`, by whom, across all tables, in order.

        `since` says instead how long ago to begin, such as `1d`; `table` is a pattern of names,
        such as `sales.*`. With `changes`, each entry has the files, bytes and rows that it added
        and removed. A long audit is read in pages: `limit` is how many entries at most, and the
        next page comes `after` the last entry of this one.
        """
        return auditing.audit(
            cast("Lake", self),
            start=start,
            end=end,
            since=since,
            table=table,
            changes=changes,
            limit=limit,
            after=after,
        )

    def _repr_html_(self) -> str:
        lake = cast("Lake", self)
        try:
            listed = lake.store.browse_tables(most=20)
            total = lake.store.summary().tables
        except DeltaSqlError as error:
            return failed(repr(self), error)
        rows = [(item.name, item.version, from_ms(item.last_ict), item.location) for item in listed]
        columns = ("table", "version", "last commit", "location")
        return html_table(columns, rows, title=lake.url, note=more(total))

    def undrop(self, table: str | int, *, new_name: str | None = None) -> Table:
        """Bring back a table that was dropped and not purged, by its name or id.

        It returns to its place with all its versions; use `new_name` if its name is taken by now.
        """
        lake = cast("Lake", self)
        if new_name is not None:
            new_table.check_name(new_name)
        return Table(lake, purging.undrop(lake, table, new_name))
