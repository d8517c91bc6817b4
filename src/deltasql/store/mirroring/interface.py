"""The interface between the mirror and a SQL database: leases, and the status of versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from threading import Event
from typing import Final, Protocol

import pyarrow as pa

from deltasql.log.checkpoint_rule import Growth

# The interval of a record that marks no checkpoints by number.
NO_INTERVAL: Final = 2**62
# In seconds. A lease that claims to end later than this is ignored by those who want it.
LONGEST_LEASE: Final = 60.0


class Work(StrEnum):
    """What a lease is for: commit files and checkpoints don't wait for each other."""

    COMMITS = "COMMITS"
    CHECKPOINTS = "CHECKPOINTS"


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the files that are live at a version."""

    version: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to one kind of work on one table, until a deadline by the database's clock.

    Every status write presents the token, and is refused once another process has taken the lease
    over. `totals` are those of the newest mirrored version, and `growth` is how much the log had
    grown by then, as the previous holder left them; `checkpoint_actions` are in the newest
    checkpoint.
    """

    table_id: int
    holder: str
    token: int
    totals: Totals | None = None
    work: Work = Work.COMMITS
    growth: Growth | None = None
    checkpoint_actions: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What a writer waiting for a version sees: is it mirrored, and may anybody mirror it?"""

    is_mirrored: bool
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVersion:
    """A version whose commit file is not known to be in the mirror.

    `body` is the file, or None if SQL has lost it, which is a gap. `age_ms` is how long ago the
    last attempt was; `is_paused` and `earliest`, the oldest version, concern the whole table.
    `gone_files` were removed or restated by the version, with `gone_bytes`.
    """

    version: int
    in_commit_timestamp: int | None
    digest: bytes
    retry_count: int
    age_ms: int | None
    is_paused: bool
    earliest: int
    gone_files: int
    gone_bytes: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class DueCheckpoint:
    """A version whose checkpoint is due but not written; times are epoch milliseconds."""

    version: int
    retry_count: int
    last_attempt_at: int | None


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
class Reached:
    """The newest version that the mirror has, and the newest that it had at a time (-1: none)."""

    newest: int
    then: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """A table and what its mirror lacks; times are epoch milliseconds.

    `versions` after the newest in the mirror lack their commit file, the first of them,
    `first_version`, since `oldest`; `gap_versions` lack it below that, where a checkpoint stands in
    for them. Retries and errors are those of the very first one. `checkpoints` counts those due but
    not written. `properties` are the table's, as JSON.
    """

    table_id: int
    name: str
    location: str
    is_paused: bool
    head: int
    versions: int
    first_version: int | None
    oldest: int | None
    retry_count: int
    last_attempt_at: int | None
    is_failed: bool
    error_message: str | None
    checkpoints: int
    first_checkpoint: int | None
    checkpoint_retry_count: int
    checkpoint_attempt_at: int | None
    properties: str = "{}"
    gap_versions: int = 0


class MirrorLog(Protocol):
    """What the mirror asks of a log store. Times are the database's."""

    def acquire_lease(
        self, table_id: int, holder: str, seconds: float, work: Work = Work.COMMITS
    ) -> Lease | None:
        """The lease on a table, unless another process has it."""

    def renew_lease(self, lease: Lease, seconds: float) -> bool:
        """Extend a lease; False if it was lost."""

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""

    def pending(self, table_id: int, *, most: int, after: int = -1) -> list[PendingVersion]:
        """The first versions after a given one that have no commit file, in order."""

    def look(self, table_id: int, version: int) -> Look:
        """Whether a version is mirrored, and whether anybody may mirror it; takes no lock."""

    def due_checkpoints(self, table_id: int) -> list[DueCheckpoint]:
        """Checkpoints that are due, in order."""

    def record_mirrored(
        self,
        lease: Lease,
        totals: Totals,
        *,
        first: int,
        interval: int,
        seconds: float,
        last: int | None = None,
        due: int | None = None,
        growth: Growth | None = None,
    ) -> bool:
        """Record that the commit files from `first` to `last` are there, by default up to the
        newest, which the totals describe; the lease keeps these and the growth. They become
        SUCCESS, except for multiples of `interval`, for `due`, and for those that had a checkpoint
        before they were forgotten, which wait for one. The lease is extended; False says that it
        was lost. A crash of the database may lose the record.
        """

    def note_checkpoint(self, table_id: int, actions: int) -> None:
        """Record how many actions the newest checkpoint has, to decide when the next one pays."""

    def has_lost_files(self, table_id: int, version: int, later: int) -> bool:
        """Whether a file that was live at a version is not at a later one."""

    def record_checkpoint(self, lease: Lease, version: int) -> bool:
        """Record that the checkpoint of a version is there. False if the lease was lost."""

    def record_failure(self, lease: Lease, version: int, message: str, *, is_final: bool) -> bool:
        """Count a failed attempt; the version is FAILED if `is_final`."""

    def forget_mirrored(self, table_id: int, *, first: int, last: int) -> int:
        """Mark versions to be mirrored again, from their commit file on."""

    def forget_checkpoint(self, table_id: int, version: int) -> bool:
        """Mark a checkpoint to be written again."""

    def fill_status(self, table_id: int) -> int:
        """Add the missing status rows, as PENDING; returns how many."""

    def fill_all_statuses(self, *, only_new: bool) -> int:
        """The same for every table; of new versions, those that no publish run has reached."""

    def gaps(self, table_id: int) -> list[tuple[int, int]]:
        """The first and the last of each run of versions that lack their commit file, in order:
        except for the last run, the mirror has newer versions.
        """

    def mirror_status(self, table_id: int, *, first: int, last: int) -> list[MirrorRecord]:
        """The status of versions, in order."""

    def mirror_reached(self, table_id: int, *, upto: int, by: int) -> Reached | None:
        """How far the mirror has got, and had by a time (epoch milliseconds), of the versions up
        to one; None if it has none of them.
        """

    def backlog(self) -> list[Backlog]:
        """Every live table, including those whose mirror lacks nothing."""

    def open_backlog(self) -> list[Backlog]:
        """The live tables whose mirror lacks something."""

    def backlog_of(self, table_id: int) -> Backlog | None:
        """One table; None if it is gone."""

    def mirror_heads(self, *, since: int) -> list[tuple[int, int, int]]:
        """Table, version and in-commit timestamp of those committed to after a time; -1 for all."""

    def set_mirror_paused(self, table_id: int, *, paused: bool) -> bool:
        """Pause or resume a table's mirror; False if it is gone."""

    def tombstones(self, table_id: int, version: int, *, newer_than: int) -> pa.RecordBatchReader:
        """Removes (one column `action`, JSON) that hold at `version` and whose deletionTimestamp is
        above `newer_than`, in bounded memory.
        """

    def added_keys(self, table_id: int, version: int) -> Iterator[tuple[int, bytes]]:
        """Of each file that is live at a version, the version that added it, and its key."""

    def totals(self, table_id: int, version: int) -> Totals:
        """Sums over the files that are live at a version."""

    def wake_mirror(self) -> None:
        """Tell workers, if the database can, that there is work; cheap, but may get lost."""

    def wait_for_work(self, seconds: float, stop: Event) -> None:
        """Sleep until there may be work, at most this long, or until `stop` is set."""

    def clock_ms(self) -> int:
        """The database's clock."""
