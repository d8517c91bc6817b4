"""Which versions of a table the mirror lacks, as far as SQL knows."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.store.interface import LogStore


@dataclass(frozen=True, slots=True)
class Missing:
    """Versions without a commit file. `newest` is the newest version that readers see, and
    `bridged` the first and the last of the consecutive versions missing below it.
    """

    newest: int
    bridged: tuple[tuple[int, int], ...] = ()

    def __contains__(self, version: object) -> bool:
        if not isinstance(version, int):
            return False
        return version > self.newest or self.is_bridged(version)

    def is_bridged(self, version: int) -> bool:
        """Whether a newer checkpoint stands in for the version for now."""
        return any(first <= version <= last for first, last in self.bridged)


def missing_in(log: LogStore, table_id: int, head: int) -> Missing:
    """What the mirror of a table lacks, up to its newest version."""
    gaps = log.gaps(table_id)
    newest = head
    if gaps and gaps[-1][1] >= head:
        newest = gaps.pop()[0] - 1
    return Missing(newest, tuple(gaps))
