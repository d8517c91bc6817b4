"""Paths as Spark writes them, and the lake's tables at those paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltasql.errors import TableNotFoundError
from deltasql.lake.table import Table
from deltasql.places import place_of
from deltasql.spark.catalog.spelling import meant
from deltasql.spark.native.gateway import hadoop_location
from deltasql.store.interface import TableRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class Places:
    """Which table is at a path; remembered, but verified on each call."""

    def __init__(self, lake: Lake, set_credentials: Callable[[str], None]) -> None:
        self._lake = lake
        self._set_credentials = set_credentials
        self._known: dict[str, TableRecord] = {}
        # Locations of tables to be created, as they were given.
        self._promised: dict[str, str] = {}

    def named(self, name: str, *, any_case: bool) -> TableRecord | None:
        """The table that a session means by a name."""
        store = self._lake.store
        found = store.table(name)
        if found is not None or not any_case:
            return found
        tables = {record.name: record for record in store.tables()}
        spelt = meant(name, tables, any_case=True)
        return None if spelt is None else tables[spelt]

    def at(self, path: str) -> Table | None:
        """The live table at a Spark path.

        None for a table that others write, released or adopted without a fence: its own log is the
        truth.
        """
        found = self.newest_at(path)
        return None if found is None else found[0]

    def newest_at(self, path: str) -> tuple[Table, int] | None:
        """The same, with its newest version."""
        known = self._known.get(path)
        found = None if known is None else self._lake.store.newest(known.name)
        if found is None or known is None or found[0].table_id != known.table_id:
            name = self._claimed(path)
            found = None if name is None else self._lake.store.newest(name)
        if found is None:
            self._known.pop(path, None)
            return None
        record, version = found
        self._known[path] = record
        table = self._ours(record)
        return None if table is None else (table, version)

    def must_be_at(self, path: str) -> Table:
        """The same; raises `TableNotFoundError` if there is none."""
        table = self.at(path)
        if table is None:
            raise TableNotFoundError(
                f"there is no table of the lake at {path}",
                cause="it was dropped or released in the meantime",
                remedy="see lake.tables()",
            )
        return table

    def pinned(self, path: str, table_id: int) -> Table:
        """The table that a snapshot was taken of, whatever is at its path now."""
        known = self._known.get(path)
        if known is not None and known.table_id == table_id:
            return Table(self._lake, known)
        name = self._claimed(path)
        record = None if name is None else self._lake.store.table(name)
        if record is not None and record.table_id == table_id:
            # Another process answered before this one.
            return Table(self._lake, record)
        return Table(self._lake, TableRecord(table_id, path, path))

    def hadoop_path(self, location: str) -> str:
        """A location as Spark names it, which Spark may read and write from now on."""
        self._set_credentials(location)
        return hadoop_location(location)

    def promise(self, location: str) -> str:
        """Remember the spelling of a new table's location; returns it as Spark names it."""
        self._promised[place_of(location)] = location
        return self.hadoop_path(location)

    def promised(self, path: str) -> str:
        """The location that was promised for a path, perhaps by an earlier process."""
        known = self._promised.pop(place_of(plain(path)), None)
        return lake_location(path) if known is None else known

    def _claimed(self, path: str) -> str | None:
        location = plain(path)
        place = place_of(location)
        for claim in self._lake.store.claims(location):
            if claim.place == place and claim.status == "live":
                return claim.name
        return None

    def _ours(self, record: TableRecord) -> Table | None:
        if record.read_only_reason is not None:
            return None
        self._set_credentials(record.location)
        return Table(self._lake, record)


def is_managed(lake: Lake, location: str) -> bool:
    """Whether Spark calls a table at a location managed: it is where the lake puts tables."""
    return lake.location is not None and place_of(location).startswith(place_of(lake.location))


def lake_location(path: str) -> str:
    """A Hadoop path as the lake spells locations: the reverse of `hadoop_location`."""
    location = plain(path)
    return f"s3://{location[6:]}" if location.startswith("s3a://") else location


def plain(path: str) -> str:
    """A Hadoop path as a location: Hadoop encodes nothing, so a local path is no URL."""
    if not path.startswith("file:"):
        return path
    return "/" + path.removeprefix("file:").lstrip("/")
