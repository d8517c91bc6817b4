"""The interface for upkeep: who is at work, which versions are held, and what vacuum deletes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from deltasql.store.expiring.interface import ExpiryLog
from deltasql.store.jobs.interface import JobLog
from deltasql.store.namespaces import NamespaceLog
from deltasql.store.optimizing.interface import OptimizeLog
from deltasql.store.rows import Row

if TYPE_CHECKING:
    from deltasql.store.interface import CommitRecord, Head

# In seconds: a process that was silent for longer is taken for dead.
SILENCE: Final = 600.0
# The kind of workers' rows, and after how many seconds of silence a worker counts as gone: it has
# nothing to lose, and others then do its work.
WORKER: Final = "worker"
WORKER_SILENCE: Final = 60.0

# Why a stream's pins are held: it needs the files of all versions from there on.
STREAM: Final = "stream"

DEAD_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("version", pa.int64()),
        ("removed_version", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)
VECTORS_SCHEMA: Final = pa.schema(
    [
        ("deletion_vector", pa.string()),
        ("version", pa.int64()),
        ("removed_version", pa.int64()),
    ]
)
CHANGES_SCHEMA: Final = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("size_bytes", pa.int64())]
)
LIVES_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("deletion_vector", pa.string()),
        ("version", pa.int64()),
        ("removed_version", pa.int64()),
        ("is_change", pa.int64()),
    ]
)
PATHS_SCHEMA: Final = pa.schema([("path", pa.string())])
NAMED_SCHEMA: Final = pa.schema(
    [("path", pa.string()), ("deletion_vector", pa.string()), ("location", pa.string())]
)


class Kind(StrEnum):
    """Why vacuum deletes a file."""

    DEAD = "DEAD"
    VECTOR = "VECTOR"
    CHANGE = "CHANGE"
    ORPHAN = "ORPHAN"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A process that writes; times are in epoch milliseconds by the database's clock."""

    session_id: str
    kind: str
    host: str
    pid: int
    committer: str | None
    started_at: int
    heartbeat_at: int
    writing_since: int | None
    is_alive: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """A version whose files are needed, and with `keeps_later` those of all later ones."""

    version: int
    keeps_later: bool = False

    @classmethod
    def of(cls, version: int, reason: str) -> Hold:
        """What a pin holds: a stream reads on from its version."""
        return cls(version, reason == STREAM)


@dataclass(frozen=True, slots=True)
class PinRecord:
    """A version that is held; times are in epoch milliseconds by the database's clock."""

    pin_id: str
    table_id: int
    table: str | None
    version: int
    reason: str
    session_id: str | None
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Writers:
    """What live sessions allow, in epoch milliseconds by the database's clock, which says `now`.

    A file not older than `may_have_written_since` may belong to an uncommitted write;
    `writing_since` is when the oldest write known to be under way began.
    """

    now: int
    may_have_written_since: int | None
    writing_since: int | None


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A file that vacuum is about to delete; `path` is as the log has it, or would have it."""

    path: str
    kind: Kind
    size: int | None = None


@dataclass(frozen=True, slots=True)
class PendingDelete:
    """A file that was recorded for deletion, and perhaps not deleted."""

    vacuum_id: str
    batch: int
    row: JournalRow


@dataclass(frozen=True, slots=True)
class NamingTable:
    """How far the log of a table has come; `version` is None if it is dropped or being loaded."""

    location: str
    version: int | None
    is_dropped: bool

    @property
    def may_grow_unseen(self) -> bool:
        """Whether rows may appear without the head moving."""
        return self.version is None and not self.is_dropped


class NamingLog(Protocol):
    """Answers which files the tables of a lake name, wherever they are."""

    def naming_tables(self) -> dict[int, NamingTable]:
        """Every table, including dropped ones and those being loaded."""

    def absolute_files_of(self, table_id: int) -> list[tuple[str, str | None]]:
        """Path and deletion vector (JSON) of everything that a table names by an absolute path."""

    def commits_of(self, table_id: int, *, after: int) -> list[CommitRecord]:
        """The commits with version > after."""

    def holders(self, table_id: int) -> list[tuple[int, str]]:
        """The versions of a table that are held, and why."""


class VacuumLog(NamingLog, Protocol):
    """A table's log while vacuum decides what to delete: heads are locked."""

    @property
    def heads(self) -> Mapping[int, Head]:
        """The current heads."""

    def commits(self, table_id: int, *, after: int) -> list[CommitRecord]:
        """The commits with version > after."""

    def known_files(
        self, table_id: int, paths: Collection[str], *, after: int
    ) -> set[tuple[bytes, bytes]]:
        """See `LockedLog.known_files`."""

    def read_only_reason(self, table_id: int) -> str | None:
        """Why deltasql may not write the table; None if it may."""

    def pins(self, table_id: int) -> list[Hold]:
        """What is held of a table."""

    def writers(self) -> Writers:
        """What live sessions allow."""

    def journal(
        self, vacuum_id: str, batch: int, table_id: int, rows: Sequence[JournalRow]
    ) -> None:
        """Record what is about to be deleted."""

    def spare(self, vacuum_id: str, paths: Collection[str], *, seconds: float) -> bool:
        """Take files off the list again if they were recorded so long ago; False if one was not."""

    def record_again(self, vacuum_id: str, batch: int) -> None:
        """Record the rest of a batch as of now."""


class LockedQueries(Protocol):
    """What a locked log runs named queries with."""

    def ask(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query in the transaction."""

    def packed(self, values: Sequence[str] | Sequence[bytes]) -> Any:
        """Several values as one parameter."""


class UpkeepLog(ExpiryLog, JobLog, OptimizeLog, NamespaceLog, Protocol):
    """Sessions, pins, vacuums, the bins of optimize, what expired, jobs, and namespaces."""

    def begin_session(
        self,
        session_id: str,
        *,
        kind: str,
        host: str,
        pid: int,
        committer: str | None,
        age: float,
        writing: float,
    ) -> None:
        """Create the row of a process, `age` seconds old, whose oldest write began `writing`
        seconds ago.
        """

    def beat(self, session_id: str, *, writing: float | None) -> bool:
        """Report that a process lives, and how long ago its oldest write began; False if it was
        silent for so long that others may have taken it for dead, or its row was swept.
        """

    def end_session(self, session_id: str) -> None:
        """Remove the row of a process."""

    def has_worker(self) -> bool:
        """Whether a worker is alive."""

    def sweep(self) -> None:
        """Remove the rows of dead processes, and expired pins."""

    def sessions(self) -> list[SessionRecord]:
        """Everybody at work, and the dead that were not swept yet."""

    def writers(self) -> Writers:
        """What live sessions allow."""

    def pin(
        self,
        pin_id: str,
        table_id: int,
        version: int,
        *,
        seconds: float,
        reason: str,
        session_id: str | None = None,
    ) -> bool:
        """Hold a version: whatever vacuum records for deletion from now on spares its files.

        False if the table is gone.
        """

    def renew_pin(self, pin_id: str, *, seconds: float) -> bool:
        """Hold a version for longer; False if the pin has expired."""

    def unpin(self, pin_id: str) -> None:
        """Hold a version no longer."""

    def pins(self) -> list[PinRecord]:
        """The versions that are held."""

    def same_place(self, table_id: int, location: str) -> set[int]:
        """The tables at the same place as a table, including itself, in whatever state."""

    def dead_files(self, table_id: int, *, horizon: int) -> pa.RecordBatchReader:
        """Rows of data files that no version from `horizon` on has (`DEAD_SCHEMA`), with those of
        one path together; without what vacuum has already deleted.
        """

    def vector_rows(self, table_id: int) -> pa.RecordBatchReader:
        """Every deletion vector that any version has (`VECTORS_SCHEMA`)."""

    def change_rows(self, table_id: int) -> pa.RecordBatchReader:
        """Every change file (`CHANGES_SCHEMA`)."""

    def file_lives(self, table_id: int) -> pa.RecordBatchReader:
        """Every file that any version names, with its vector and the versions that have it
        (`LIVES_SCHEMA`).
        """

    def encoded_paths(self, table_id: int) -> pa.RecordBatchReader:
        """The paths of every data and change file that have percent-escapes (`PATHS_SCHEMA`)."""

    def deleted_paths(self, table_id: int) -> pa.RecordBatchReader:
        """The vectors and changes that vacuum has already deleted (`PATHS_SCHEMA`)."""

    def absolute_files(self, *, but: int = 0) -> pa.RecordBatchReader:
        """Files of any table `but` one whose paths may be absolute (`NAMED_SCHEMA`)."""

    def absolute_files_of(self, table_id: int) -> list[tuple[str, str | None]]:
        """See `NamingLog.absolute_files_of`."""

    def naming_tables(self) -> dict[int, NamingTable]:
        """See `NamingLog.naming_tables`."""

    def begin_vacuum(
        self,
        vacuum_id: str,
        table_id: int,
        *,
        committer: str | None,
        host: str,
        retention_ms: int,
        kept_since: int,
    ) -> None:
        """Record that a vacuum begins."""

    def end_vacuum(self, vacuum_id: str) -> None:
        """Record that a vacuum is done."""

    def vacuuming(self, table_ids: Collection[int]) -> AbstractContextManager[VacuumLog]:
        """Lock heads while vacuum decides; what it recorded takes effect when the block ends."""

    def pending_deletes(self, table_id: int) -> list[PendingDelete]:
        """What was recorded and perhaps not deleted, by vacuum and batch."""

    def mark_deleted(self, vacuum_id: str, batch: int) -> None:
        """Record that a batch is gone."""
