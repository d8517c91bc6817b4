"""The interface between deltasql and a SQL database: what a log store answers and takes.

A log store is both a `TxnLogReader` and a `TxnLogWriter`. Expected outcomes are values; failures
are `StoreError`s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from deltasql.log.pruning.partition_ranges import PartitionRanges
from deltasql.log.pruning.ranges import Ranges
from deltasql.log.state import TableState
from deltasql.store.browsing.audit_place import BEFORE_ALL, AuditPlace
from deltasql.store.browsing.interface import BrowseLog
from deltasql.store.checking.interface import TrustLog
from deltasql.store.claims import NO_SOURCES, ClaimLog, Sources
from deltasql.store.history import HistoryLog
from deltasql.store.mirroring.interface import MirrorLog
from deltasql.store.rows import CommitRows
from deltasql.store.servers import ServerLog
from deltasql.store.upkeep.interface import UpkeepLog

# --- what is in the log ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of the lake."""

    table_id: int
    name: str
    location: str
    read_only_reason: str | None = None
    mirror_paused: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a table, and where its metadata and protocol come from."""

    table_id: int
    version: int
    last_ict: int
    earliest_version: int
    metadata_version: int
    protocol_version: int


@dataclass(frozen=True, slots=True)
class StateRecord:
    """Metadata and protocol that are current at a version, as the JSON of their actions."""

    version: int
    in_commit_timestamp: int
    metadata_version: int
    metadata: str
    stats_columns: str
    protocol_version: int
    protocol: str

    def parsed(self) -> TableState:
        """The state, parsed from the texts."""
        return TableState.from_json(
            version=self.version,
            in_commit_timestamp=self.in_commit_timestamp,
            metadata=self.metadata,
            metadata_version=self.metadata_version,
            protocol=self.protocol,
            protocol_version=self.protocol_version,
            stats_columns=self.stats_columns,
        )


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A committed version without its actions: one row of history."""

    table_id: int
    version: int
    commit_id: str
    in_commit_timestamp: int
    committer: str | None
    operation: str | None
    operation_params: str | None
    transaction_id: str | None
    is_blind_append: bool
    digest: bytes


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A committed version with the bytes of its commit file."""

    version: int
    in_commit_timestamp: int
    body: bytes


@dataclass(frozen=True, slots=True)
class TxnRecord:
    """How far an application got, and the version that says so."""

    app_id: str
    txn_version: int
    last_updated: int | None
    version: int


# --- what goes in ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BodyTemplate:
    """A commit file with two gaps for the in-commit timestamp, which the database sets."""

    start: bytes
    middle: bytes
    end: bytes

    def fill(self, in_commit_timestamp: int) -> bytes:
        """The commit file."""
        stamp = b"%d" % in_commit_timestamp
        return b"".join((self.start, stamp, self.middle, stamp, self.end))


@dataclass(frozen=True, slots=True)
class ExactBody(BodyTemplate):
    """A commit file whose bytes are final, including its time: for `LockedLog.take`."""

    @classmethod
    def of(cls, body: bytes) -> ExactBody:
        """The template of these bytes."""
        return cls(b"", b"", body)

    def fill(self, in_commit_timestamp: int) -> bytes:  # noqa: ARG002
        """The commit file as it came."""
        return self.end


# Not frozen: such a constructor takes five times as long, and each small commit runs it.
@dataclass(slots=True, kw_only=True)
class Proposal:
    """A commit that lacks only what the database decides: its version and its time.

    `metadata_version` and `protocol_version` name what the actions were checked against; the store
    refuses the commit if the table has moved on. `expected_head`, if set, is the version that the
    commit must follow.
    """

    table_id: int
    commit_id: str
    metadata_version: int
    protocol_version: int
    expected_head: int | None
    body: BodyTemplate
    rows: CommitRows
    committer: str | None
    operation: str | None
    operation_params: str
    transaction_id: str | None
    is_blind_append: bool
    # False saves bulk writes the search for files that are live with another vector.
    may_have_vectors: bool = True


# --- what comes out -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit is version `version`, also if it was sent before."""

    version: int
    in_commit_timestamp: int

    @property
    def is_new(self) -> bool:
        """Whether the commit's files belong to the table now."""
        return True


@dataclass(frozen=True, slots=True)
class VersionTaken:
    """Nothing written: the table is not at the version that the proposal expected."""

    head: Head


@dataclass(frozen=True, slots=True)
class TxnSeen:
    """Nothing written: version `version` already contains this application transaction."""

    version: int

    @property
    def is_new(self) -> bool:
        """Whether the commit's files belong to the table now."""
        return False


@dataclass(frozen=True, slots=True)
class NoTable:
    """Nothing written: the table is gone."""


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Nothing written: a live table has that name."""


Outcome: TypeAlias = Committed | VersionTaken | TxnSeen | NoTable


class TxnLogReader(Protocol):
    """Answers about the log. Every method is one statement, so its answer is consistent."""

    def table(self, name: str) -> TableRecord | None:
        """The live table of that name."""

    def tables(self) -> list[TableRecord]:
        """All live tables, by name."""

    def file_counts(self) -> dict[str, int]:
        """Live files of every live table that has any, by name."""

    def head(self, table_id: int) -> Head | None:
        """The head of one table."""

    def heads(self, table_ids: Collection[int] | None = None) -> dict[int, Head]:
        """The heads of several tables, by default of all, at one instant: a consistent cut."""

    def state(self, table_id: int, version: int | None = None) -> StateRecord | None:
        """What is current at `version`, by default at the head; None if there is none such."""

    def version_at(self, table_id: int, timestamp_ms: int) -> int | None:
        """The newest version that was committed at or before `timestamp_ms`."""

    def txns(self, table_id: int, version: int) -> list[TxnRecord]:
        """The latest txn of every application at `version`."""

    def domains(self, table_id: int, version: int) -> dict[str, str]:
        """The configuration of every domain that is not removed at `version`."""

    def partitions(
        self, table_id: int, ranges: PartitionRanges | None = None
    ) -> list[tuple[int, str]]:
        """Key and values (JSON) of partitions that ever had files: in the ranges, or all."""

    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        """The files live at `version` (schema: `rows.FILES_SCHEMA`), in bounded memory.

        Files that both filters exclude are left out inside the database.
        """

    def commits(
        self, table_id: int, *, after: int, upto: int | None = None
    ) -> Iterator[CommitRecord]:
        """The commits with after < version <= upto, in order."""

    def history(self, table_id: int, *, limit: int | None = None) -> list[VersionRecord]:
        """Versions, newest first."""

    def audit(
        self, start_ms: int, end_ms: int, *, after: AuditPlace = BEFORE_ALL, most: int = 1_000
    ) -> list[tuple[str, VersionRecord]]:
        """Table name and version of what was committed with start <= time < end, by time.

        At most so many, those after a place: for the next page, that of the last one.
        """

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        """The version that `commit_id` became."""

    def find_created(self, commit_id: str) -> int | None:
        """The table whose version 0 is `commit_id`, whatever its name is now, even if dropped."""


class LockedLog(Protocol):
    """Heads under lock, inside one database transaction: see `TxnLogWriter.locked`."""

    @property
    def heads(self) -> Mapping[int, Head]:
        """The current heads; only this block's own writes move them."""

    def commits(self, table_id: int, *, after: int) -> list[CommitRecord]:
        """The commits with version > after."""

    def state(self, table_id: int) -> StateRecord:
        """What is current at the head."""

    def domains(self, table_id: int) -> dict[str, str]:
        """Domains at the head."""

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        """The version that `commit_id` became."""

    def known_files(
        self, table_id: int, paths: Collection[str], *, after: int
    ) -> set[tuple[bytes, bytes]]:
        """Which of these files the log knows, as keys of path and deletion vector (`key_of`).

        That is, files that are live, that were removed in a version after `after`, or that are
        change files of such a version.
        """

    def write(self, proposal: Proposal) -> Outcome:
        """Write the next version of a locked table (visible when the block ends)."""

    def take(self, proposal: Proposal, *, in_commit_timestamp: int) -> Outcome:
        """Write a version that was committed elsewhere, with its own time, as the next one.

        Its txns are taken whatever was recorded before: in a foreign log, the last one counts. The
        time must be after the head's.
        """

    def read_only_reason(self, table_id: int) -> str | None:
        """Why deltasql may not write the table; None if it may."""

    def set_read_only(self, table_id: int, reason: str) -> None:
        """Forbid writing a locked table, from the end of the block on."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one of the application's own statements inside the same transaction."""


class TxnLogWriter(Protocol):
    """Takes commits. What it returns as `Committed` is durable."""

    def create_table(
        self, name: str, location: str, proposal: Proposal, *, is_retry: bool = False,
        sources: Sources = NO_SOURCES,
    ) -> int | NameTaken:  # fmt: skip
        """Register a table with its version 0; returns the table id.

        The proposal's own table id and expected version are ignored. `is_retry` says that the same
        request may have been sent before: then the answer is the table it created, see
        `find_created`. Raises `LocationTakenError` if another table holds the place of the
        location, or one around or within it; `TableNotFoundError` if one of its sources was
        dropped.
        """

    def rename_table(self, table_id: int, name: str) -> bool | NameTaken:
        """Give a table another name; False if it is gone."""

    def drop_table(self, table_id: int) -> bool:
        """Mark a table dropped and free its name; its log stays. False if it is gone."""

    def purge_table(self, table_id: int) -> None:
        """Delete every row of a dropped table."""

    def commit(self, proposal: Proposal, *, is_retry: bool = False) -> Outcome:
        """Commit one version of one table, in one round trip if the database allows it.

        `is_retry` says that the same commit may have been sent before.
        """

    def locked(
        self, table_ids: Collection[int], *, drafts: Sequence[Proposal] = ()
    ) -> AbstractContextManager[LockedLog]:
        """Lock the heads of tables, in id order; commit at the end, roll back on error.

        `drafts` are what the block will probably write; the slow work on their rows and bodies is
        done before the lock is taken.
        """


class LogStore(
    TxnLogReader, TxnLogWriter, MirrorLog, HistoryLog, TrustLog, ClaimLog, UpkeepLog, BrowseLog,
    ServerLog, Protocol,
):  # fmt: skip
    """A SQL database that holds the log of a lake.

    `locks_tables_apart` says whether a `locked` block holds up only the writers of its own tables
    (docs/stores.md). `commits_arrive_late` says whether a `commit` sent over a connection that
    broke may still be executed after others have found it absent.
    """

    locks_tables_apart: bool
    commits_arrive_late: bool

    def close(self) -> None:
        """Give back connections and locks."""
