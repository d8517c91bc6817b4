"""The interface for optimize: bins that processes share, and where rows went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from deltasql.store.interface import LockedLog

# How long a bin is claimed, and keeps its place in the queue, in seconds; see `renew_bin`.
CLAIM_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class PlannedBin:
    """Files of one partition to be written together; paths as in the log."""

    paths: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class ClaimedBin:
    """A bin that nobody else works on while the claim lasts."""

    bin_id: str
    paths: tuple[str, ...]


class OptimizeLog(Protocol):
    """Bins of optimize, and moved rows. Calls with the same `settings` share bins."""

    def queue_bins(
        self, table_id: int, plan_id: str, settings: str, bins: Sequence[PlannedBin]
    ) -> int:
        """Queue bins, except those that share a file with one already queued; returns how many."""

    def claim_bin(self, table_id: int, settings: str, claimed_by: str) -> ClaimedBin | None:
        """The next bin that nobody works on; None if there is none."""

    def renew_bin(self, bin_id: str, claimed_by: str) -> bool:
        """Report that a bin is still being worked on; False if it was taken away."""

    def end_bin(self, bin_id: str, claimed_by: str) -> None:
        """Remove a bin from the queue."""

    def write_moved_rows(self, log: LockedLog, table_id: int, row_counts: Sequence[int]) -> None:
        """Record, beside the commit that `log` has just written, how many rows were live in each
        file that it removed, by path: they are the rows of the files it added, by path.
        """

    def moved_rows(
        self, table_id: int, version: int, log: LockedLog | None = None
    ) -> list[int] | None:
        """What was recorded beside a version; asked on `log` if heads are locked."""

    def write_sorted_rows(
        self, log: LockedLog, table_id: int, row_counts: Sequence[int], row_order: bytes
    ) -> None:
        """The same for rows that were sorted: `row_order` is their position, packed."""

    def sorted_rows(
        self, table_id: int, version: int, log: LockedLog | None = None
    ) -> tuple[list[int], bytes] | None:
        """What was recorded about sorted rows beside a version: their counts and their order."""

    def expire_moved_rows(self, table_id: int, *, milliseconds: int) -> None:
        """Forget what was recorded longer ago than this."""
