"""The interface for checks: the rows of a table as they are, and what was proven before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from deltasql.log.file_sums import FileSums
from deltasql.store.history import HistoryRows
from deltasql.store.rows import AddRow, Row

if TYPE_CHECKING:
    from deltasql.store.interface import Head


class Origin(StrEnum):
    """Why a version is trusted; at most one of each is kept per table."""

    ADOPTED = "ADOPTED"
    CHECKED = "CHECKED"
    CHECKPOINT = "CHECKPOINT"


@dataclass(frozen=True, slots=True)
class TrustedVersion:
    """What was proven about a version: its live files, and perhaps every row up to it."""

    table_id: int
    origin: Origin
    version: int
    sums: FileSums
    rows_digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What `dl_tables` repeats of a table's metadata and protocol."""

    properties: str
    min_reader: int
    min_writer: int


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """A version's commit file, the digest it was committed with, and what its row repeats."""

    version: int
    in_commit_timestamp: int
    digest: bytes
    body: bytes
    commit_id: str
    committer: str | None
    operation: str | None
    operation_params: str | None
    transaction_id: str | None
    is_blind_append: bool


@dataclass(frozen=True, slots=True)
class RebuiltHead:
    """The head of a rebuilt table, and what its metadata and protocol say."""

    version: int
    last_ict: int
    metadata_version: int
    protocol_version: int
    columns: TableColumns


# The rows of actions other than files; their columns follow `version`. `other_rows` also takes
# "versions": what the rows of versions repeat from their commits.
OTHERS = ("txns", "domains", "cdc", "metadata", "protocol")


class RebuildLog(Protocol):
    """A table's head under lock while its rows are rebuilt: see `TrustLog.rebuilding`."""

    @property
    def head(self) -> Head:
        """The head as it is."""

    def commits(self, *, after: int) -> Iterator[StoredCommit]:
        """The commits after a version, in order."""

    def clear(self, *, after: int) -> None:
        """Undo what versions after a given one did; files that they ended are live again."""

    def clear_files(self) -> None:
        """Delete every remaining file and partition."""

    def mend(self, commit: StoredCommit) -> None:
        """Make the row of a version repeat what its commit says; the commit is unchanged."""

    def live_sums(self) -> FileSums:
        """Sums over the files that are live now."""

    def write(self, rows: HistoryRows) -> None:
        """Write some more rows, as `HistoryLog.load_history` does."""

    def finish(self, head: RebuiltHead) -> None:
        """Set the head and `dl_tables` to what the commits say."""


class Removal(NamedTuple):
    """How a file ended. Without an action, an add restated it. A live file has no removal."""

    version: int | None
    deletion_timestamp: int | None
    data_change: bool | None
    action: str | None


class FileRow(NamedTuple):
    """A live or dead file; `version` is that of its add, None if unknown."""

    version: int | None
    add: AddRow
    removal: Removal

    @property
    def key(self) -> bytes:
        """The key that the file is found by."""
        return self.add.path_key + self.add.dv_key


class TrustLog(Protocol):
    """What a check asks of a log store. Each stream is one statement, in bounded memory."""

    def live_keys(self, table_id: int, version: int) -> pa.RecordBatchReader:
        """`CONTENT_COLUMNS` of the files live at `version`."""

    def live_sizes(self, table_id: int, version: int) -> pa.RecordBatchReader:
        """Path and size of the files live at `version`."""

    def ended_keys(self, table_id: int, *, after: int, upto: int) -> pa.RecordBatchReader:
        """`CONTENT_COLUMNS` of the files that, by the rows, were live at `after` and ended by
        `upto`.
        """

    def file_rows(self, table_id: int, version: int) -> Iterator[FileRow]:
        """Every row of a file that was added or removed up to a version: version, `ADD_COLUMNS`,
        removed_version, deletion_timestamp, remove_data_change, remove_action.
        """

    def other_rows(self, table_id: int, kind: str, version: int) -> Iterator[Row]:
        """The rows of one of `OTHERS` up to a version: version, then its columns."""

    def digests(self, table_id: int) -> Iterator[tuple[int, bytes]]:
        """Every version and the digest of its commit file, in order, in bounded memory."""

    def partition_values(self, table_id: int) -> list[Row]:
        """What partitions are found by: partition, column, the value's form, and its beginning."""

    def stored_commits(self, table_id: int, *, after: int, upto: int) -> Iterator[StoredCommit]:
        """The commits with after < version <= upto, in order."""

    def table_columns(self, table_id: int) -> TableColumns | None:
        """What `dl_tables` says of a table."""

    def trusted(self, table_id: int) -> list[TrustedVersion]:
        """What was proven about a table, newest first."""

    def trust(self, proven: TrustedVersion) -> None:
        """Record what was proven, replacing what the same origin had recorded."""

    def rebuilding(self, table_id: int) -> AbstractContextManager[RebuildLog]:
        """Lock the head of a table, and commit at the end; roll back on error."""
