"""The interface for retention: versions that leave the history, and later their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltasql.store.checking.interface import TrustedVersion


@dataclass(frozen=True, slots=True)
class ExpirationRecord:
    """Versions from `first_version` to just before `horizon` that expired; times are epoch
    milliseconds by the database's clock. `ended_at` is when their rows were gone.
    """

    table_id: int
    table: str | None
    horizon: int
    first_version: int
    committer: str | None
    host: str
    started_at: int
    ended_at: int | None


class ExpiryLog(Protocol):
    """What retention asks of a log store."""

    def horizon(self, table_id: int, *, upto: int) -> int | None:
        """The newest version, at or before a given one, before which versions may expire: the
        mirror has its checkpoint, and all commit files up to it.
        """

    def advance_horizon(
        self, first: TrustedVersion, *, committer: str | None, host: str, before: int
    ) -> bool:
        """Expire everything before a version, in one transaction. `first` is what is proven about
        it, without what later actions up to it have replaced, which is deleted at once.

        Returns False, with nothing done, if the oldest version is no longer `before`, or if an
        older one is pinned.
        """

    def drop_versions(self, table_id: int, *, most: int) -> int:
        """Delete the rows of the oldest expired versions, up to `most`; returns how many."""

    def drop_files(
        self, table_id: int, *, after: int, most: int, tombstones: int
    ) -> tuple[int, int] | None:
        """Delete the rows of files that ended in the `most` versions after a given one; returns the
        last of these versions and how many rows went, or None if there are no more.

        Files removed after `tombstones`, in epoch milliseconds, keep their rows, and so do those
        that vacuum has not deleted.
        """

    def drop_changes(self, table_id: int) -> int:
        """Delete the rows of change files that vacuum has deleted; returns how many."""

    def drop_deletions(self, table_id: int, *, seconds: float, most: int) -> int:
        """Delete up to `most` records of files that vacuum deleted longer than `seconds` ago and
        that no row names any more; returns how many. After the last ones, those of their vacuums.
        """

    def end_expiration(self, table_id: int) -> None:
        """Record that the rows of what expired are gone."""

    def expirations(self) -> list[ExpirationRecord]:
        """What has expired, in order."""
