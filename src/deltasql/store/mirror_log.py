"""The seam between the mirror and a SQL database: leases, and the status of versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to mirror one table, until a deadline of the database's clock.

    Every status write shows the token; once somebody else took the lease over, it is refused.
    """

    table_id: int
    holder: str
    token: int


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """A version whose commit file is not known to be in the mirror, with the file's bytes."""

    version: int
    in_commit_timestamp: int
    digest: bytes
    body: bytes
    retry_count: int


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """One row of `dl_mirror_status`; times are epoch milliseconds."""

    version: int
    status: str
    json_written: bool
    checkpoint_written: bool
    error_message: str | None
    retry_count: int
    last_attempt_at: int | None
    mirrored_at: int | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """A table with work for the mirror.

    `versions` lack their commit file, the first of them since `oldest` (epoch milliseconds);
    `checkpoints` are due and not written. `retry_at` is when the next attempt is due, None
    for at once.
    """

    table_id: int
    name: str
    location: str
    head: int
    first_version: int | None
    versions: int
    oldest: int | None
    checkpoints: int
    retry_count: int
    last_attempt_at: int | None
    is_paused: bool


class MirrorLog(Protocol):
    """What the mirror asks of a log store. Times are the database's."""

    def acquire_lease(self, table_id: int, holder: str, seconds: float) -> Lease | None:
        """The lease on a table, unless somebody else has it."""

    def renew_lease(self, lease: Lease, seconds: float) -> bool:
        """Extend a lease; False when it was lost."""

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""

    def pending(self, table_id: int, *, most: int) -> list[PendingVersion]:
        """The first versions without a commit file, in order."""

    def is_mirrored(self, table_id: int, version: int) -> bool:
        """Whether a version's commit file is in the mirror."""

    def due_checkpoints(self, table_id: int) -> list[int]:
        """Versions whose checkpoint is due and not written, in order."""

    def record_mirrored(self, lease: Lease, versions: Sequence[int], *, due: Sequence[int]) -> bool:
        """The commit files of `versions` are there: SUCCESS, but for those in `due`, which
        wait for their checkpoint. False when the lease was lost.
        """

    def record_checkpoint(self, lease: Lease, version: int) -> bool:
        """The checkpoint of a version is there, and with it all that was due before."""

    def record_failure(self, lease: Lease, version: int, message: str, *, is_final: bool) -> bool:
        """An attempt failed: counted, and FAILED when `is_final`."""

    def reset_mirrored(self, table_id: int, versions: Sequence[int]) -> None:
        """Forget that the commit files of `versions` are in the mirror: they are PENDING."""

    def fill_status(self, table_id: int) -> int:
        """Add the status rows that are missing, as PENDING; returns how many."""

    def mirror_status(self, table_id: int, *, first: int, last: int) -> list[MirrorRecord]:
        """The status of versions, in order."""

    def backlog(self) -> list[Backlog]:
        """Every live table with its lag; tables without any come too, with zeros."""

    def set_mirror_paused(self, table_id: int, *, paused: bool) -> bool:
        """Pause or resume a table's mirror; False if it is gone."""

    def tombstones(self, table_id: int, version: int, *, newer_than: int) -> pa.RecordBatchReader:
        """Remove actions (one column `action`, JSON) in force at `version` whose
        deletionTimestamp is above `newer_than`, in bounded memory.
        """

    def totals(self, table_id: int, version: int) -> Totals:
        """Sums over the files that are live at a version."""

    def clock_ms(self) -> int:
        """The database's clock."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the live files of a version."""

    files: int
    size_bytes: int
    files_with_vectors: int
