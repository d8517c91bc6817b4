"""Pages from the named queries, the same for every dialect."""

from __future__ import annotations

from collections.abc import Collection

from deltasql.store.bodies import unpack
from deltasql.store.browsing.interface import (
    BehindTable,
    Growth,
    ListedFile,
    ListedPartition,
    ListedVersion,
    Summary,
    TableListing,
)
from deltasql.store.browsing.sums import SumQueries
from deltasql.store.embedded.reading import NO_LIMIT, to_table, to_version
from deltasql.store.interface import TableRecord, VersionRecord
from deltasql.store.rows import Row, key_of


class BrowseQueries(SumQueries):
    """Answers what people look at; a dialect says how to run a query."""

    def browse_tables(
        self,
        *,
        search: str = "",
        after: str = "",
        schemas: Collection[str] | None = None,
        most: int = 100,
    ) -> list[TableListing]:
        pattern = f"%{_literally(search.lower())}%"
        found = self._rows(
            "browse_tables", pattern=pattern, after=after, schemas=_packed(schemas), most=most
        )
        return [_listing(row) for row in found]

    def browse_table(self, name: str) -> TableListing | None:
        found = self._rows("browse_table", name=name)
        return _listing(found[0]) if found else None

    def newest(self, name: str) -> tuple[TableRecord, int] | None:
        found = self._newest(name)
        return None if found is None else found[:2]

    def _newest(self, name: str) -> tuple[TableRecord, int, int] | None:
        """The same, with the version's in-commit time."""
        found = self._rows("table_newest", name=name)
        if not found:
            return None
        *table, version, in_commit_timestamp = found[0]
        return to_table(tuple(table)), int(version), int(in_commit_timestamp)

    def summary(self) -> Summary:
        return Summary(*map(int, self._rows("browse_summary")[0]))

    def behind(
        self, *, name: str = "", schemas: Collection[str] | None = None, most: int = 100
    ) -> list[BehindTable]:
        return [
            BehindTable(name, properties, bool(paused), versions, oldest, bool(failed), message)
            for name, properties, paused, versions, oldest, failed, message in self._rows(
                "browse_behind", name=name, schemas=_packed(schemas), most=most
            )
        ]

    def browse_versions(
        self, table_id: int, *, before: int | None = None, most: int = 50
    ) -> list[ListedVersion]:
        below = NO_LIMIT if before is None else before
        found = self._rows("browse_versions", table_id=table_id, before=below, most=most)
        return [_version(row) for row in found]

    def growth(
        self, table_id: int, *, before: int | None = None, most: int = 50, largest: int = 65_536
    ) -> list[Growth]:
        below = NO_LIMIT if before is None else before
        found = self._rows(
            "browse_growth", table_id=table_id, before=below, most=most, largest=largest
        )
        return [
            Growth(
                version, None if body is None else unpack(encoding, bytes(body)), files, int(size)
            )
            for version, encoding, body, files, size in found
        ]

    def browse_audit(
        self,
        *,
        start: int,
        stop: int,
        below: int = 0,
        schemas: Collection[str] | None = None,
        most: int = 100,
    ) -> list[tuple[str, VersionRecord]]:
        found = self._rows(
            "browse_audit",
            start=start,
            stop=stop,
            below=below,
            schemas=_packed(schemas),
            most=most,
        )
        return [(row[0], to_version(row[1:])) for row in found]

    def browse_transaction(
        self,
        transaction_id: str,
        *,
        start: int,
        stop: int,
        schemas: Collection[str] | None = None,
        most: int = 1000,
    ) -> list[tuple[str, VersionRecord]]:
        found = self._rows(
            "browse_transaction",
            transaction_id=transaction_id,
            start=start,
            stop=stop,
            schemas=_packed(schemas),
            most=most,
        )
        return [(row[0], to_version(row[1:])) for row in found]

    def activity(self, *, start: int, stop: int, bucket: int) -> dict[int, int]:
        found = self._rows("browse_activity", start=start, stop=stop, bucket=bucket)
        return {int(begin): int(count) for begin, count in found}

    def browse_files(
        self, table_id: int, version: int, *, after: str = "", most: int = 100
    ) -> list[ListedFile]:
        found = self._rows(
            "browse_files", table_id=table_id, version=version, after=key_of(after), most=most
        )
        return [ListedFile(*row) for row in found]

    def browse_partitions(
        self, table_id: int, *, most: int = 50
    ) -> tuple[list[ListedPartition], int]:
        found = self._rows("browse_partitions", table_id=table_id, most=most)
        listed = [ListedPartition(values, files, int(size)) for values, files, size, _ in found]
        return listed, found[0][3] if found else 0

    def landed(
        self, table_id: int, *, after: int, upto: int, most: int = 1000
    ) -> list[tuple[int, int]]:
        found = self._rows("mirror_landed", table_id=table_id, after=after, upto=upto, most=most)
        return [(int(version), int(waited)) for version, waited in found]


def _packed(schemas: Collection[str] | None) -> str:
    """Schemas as the queries take them: `.one.other.`, and nothing for all.

    One with a dot is no table's.
    """
    if schemas is None:
        return ""
    return "".join(["."] + [f"{schema}." for schema in sorted(schemas) if "." not in schema])


def _literally(text: str) -> str:
    """A text escaped so that LIKE takes it literally."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _listing(row: Row) -> TableListing:
    table_id, name, location, reason, paused, properties, version, ict, earliest = row[:9]
    mirrored, files, size = row[9:]
    return TableListing(
        table_id=table_id,
        name=name,
        location=location,
        read_only_reason=reason,
        is_paused=bool(paused),
        properties=properties,
        version=version,
        last_ict=ict,
        earliest_version=earliest,
        mirrored_version=mirrored,
        files=files,
        size_bytes=size,
    )


def _version(row: Row) -> ListedVersion:
    status, is_written, has_checkpoint, message, retries, done = row[10:]
    return ListedVersion(
        to_version(row[:10]),
        status,
        bool(is_written),
        bool(has_checkpoint),
        message,
        retries or 0,
        done,
    )
