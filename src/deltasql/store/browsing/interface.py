"""The interface for browsing: pages of tables, versions and files, each with a limit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from deltasql.store.browsing.sums import SumLog

if TYPE_CHECKING:
    from deltasql.store.interface import TableRecord, VersionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TableListing:
    """A table in a list.

    `files` and `size_bytes` are sums at `mirrored_version`, the newest version in the mirror;
    None before the first. `properties` are JSON.
    """

    table_id: int
    name: str
    location: str
    read_only_reason: str | None
    is_paused: bool
    properties: str
    version: int
    last_ict: int
    earliest_version: int
    mirrored_version: int | None
    files: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The lake in numbers; files and bytes are those of the newest mirrored versions."""

    tables: int
    versions: int
    files: int
    size_bytes: int
    last_ict: int


@dataclass(frozen=True, slots=True)
class BehindTable:
    """A table whose mirror lacks versions, the first of them committed at `oldest`."""

    name: str
    properties: str
    is_paused: bool
    versions: int
    oldest: int
    is_failed: bool
    error_message: str | None


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version with its state in the mirror; `status` is None until that is known."""

    record: VersionRecord
    status: str | None
    json_written: bool
    checkpoint_written: bool
    error_message: str | None
    retry_count: int
    mirrored_at: int | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What a version did to the live files: which it ended, and its body if that is small."""

    version: int
    body: bytes | None
    gone_files: int
    gone_bytes: int


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A live file; partition values, stats and deletion vector are JSON, verbatim."""

    path: str
    size: int
    modification_time: int
    partition_values: str
    stats: str | None
    num_records: int | None
    deletion_vector: str | None
    version: int


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition with its live files; its values are JSON by physical name."""

    partition_values: str
    files: int
    size_bytes: int


class BrowseLog(SumLog, Protocol):
    """Pages of the log. Each answer is one statement that uses indexes and has a limit."""

    def browse_tables(
        self,
        *,
        search: str = "",
        after: str = "",
        schemas: Collection[str] | None = None,
        most: int = 100,
    ) -> list[TableListing]:
        """Live tables after a name, by name, whose name contains `search` in any case; only those
        of some schemas, if they are given.
        """

    def browse_table(self, name: str) -> TableListing | None:
        """The live table of that name."""

    def newest(self, name: str) -> tuple[TableRecord, int] | None:
        """The live table of that name, and its newest version."""

    def summary(self) -> Summary:
        """The lake in numbers."""

    def behind(
        self, *, name: str = "", schemas: Collection[str] | None = None, most: int = 100
    ) -> list[BehindTable]:
        """Tables whose mirror lacks versions, or failed, the longest wait first.

        Only those of some schemas, or the one of that name, if they are given: a table's schema is
        what stands before the first dot of its name, or `default`.
        """

    def browse_versions(
        self, table_id: int, *, before: int | None = None, most: int = 50
    ) -> list[ListedVersion]:
        """Versions below a given one, newest first."""

    def growth(
        self, table_id: int, *, before: int | None = None, most: int = 50, largest: int = 65_536
    ) -> list[Growth]:
        """What versions did to the live files, newest first; bodies of up to `largest` packed
        bytes.
        """

    def browse_audit(
        self,
        *,
        start: int,
        stop: int,
        below: int = 0,
        schemas: Collection[str] | None = None,
        most: int = 100,
    ) -> list[tuple[str, VersionRecord]]:
        """Versions of all tables, or those of some schemas, with start <= time < stop, newest
        first; those of one time by table, the highest id first, and at `stop` those of tables below
        an id.
        """

    def browse_transaction(
        self,
        transaction_id: str,
        *,
        start: int,
        stop: int,
        schemas: Collection[str] | None = None,
        most: int = 1000,
    ) -> list[tuple[str, VersionRecord]]:
        """The versions of one transaction, by table, within a span of time."""

    def activity(self, *, start: int, stop: int, bucket: int) -> dict[int, int]:
        """How many versions were committed in each interval of `bucket` milliseconds."""

    def browse_files(
        self, table_id: int, version: int, *, after: str = "", most: int = 100
    ) -> list[ListedFile]:
        """Files live at a version, in the order of their keys, after a path."""

    def browse_partitions(
        self, table_id: int, *, most: int = 50
    ) -> tuple[list[ListedPartition], int]:
        """The largest partitions of the newest version, largest first, and how many there are.

        It goes through all live files.
        """

    def landed(
        self, table_id: int, *, after: int, upto: int, most: int = 1000
    ) -> list[tuple[int, int]]:
        """Versions whose commit file is in the mirror, with the milliseconds since their commit."""
