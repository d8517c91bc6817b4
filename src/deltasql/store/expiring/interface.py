"""The seam for retention: versions that leave the history, and their rows after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltasql.store.checking.interface import TrustedVersion


@dataclass(frozen=True, slots=True)
class ExpirationRecord:
    """Versions from `first_version` up to before `horizon` that expired; times are in epoch
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
        """The newest version up to one before which versions may expire: the mirror has a
        checkpoint of it, and all commit files up to there.
        """

    def advance_horizon(
        self, first: TrustedVersion, *, committer: str | None, host: str, before: int
    ) -> bool:
        """Let everything before a version expire, in one transaction; `first` is what is proven of
        it, without what later actions up to there have replaced, which goes at once.

        False, and nothing is done, if the oldest version is no longer `before`, or if somebody
        holds an older one.
        """

    def drop_versions(self, table_id: int, *, most: int) -> int:
        """Delete the rows of the oldest versions that have expired, a stretch of `most`; returns
        how many versions went.
        """

    def drop_files(
        self, table_id: int, *, after: int, most: int, tombstones: int
    ) -> tuple[int, int] | None:
        """Delete rows of files that ended in a stretch of `most` versions after one; returns the
        last of these versions, and how many rows went, None when there are no more.

        Files whose removal is younger than `tombstones`, epoch milliseconds, keep their rows, and
        so do those that vacuum has not deleted.
        """

    def drop_changes(self, table_id: int) -> int:
        """Delete the rows of files of changes that vacuum has deleted; returns how many."""

    def end_expiration(self, table_id: int) -> None:
        """Write down that the rows of what expired are gone."""

    def expirations(self) -> list[ExpirationRecord]:
        """What has expired, in order."""
