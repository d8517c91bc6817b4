"""The mirror as users see it: `lake.mirror` and `table.mirror`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltasql.errors import TableNotFoundError
from deltasql.mirror.worker import Worker

if TYPE_CHECKING:
    from deltasql.catalog import Lake
    from deltasql.store.mirror_log import Backlog
    from deltasql.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """How far a table's mirror is.

    `mirrored_version` is the newest version whose commit file is in the object store, None
    before the first; the mirror is `lag_versions` and `lag_seconds` behind SQL.
    """

    table: str
    version: int
    mirrored_version: int | None
    lag_versions: int
    lag_seconds: float
    pending_checkpoints: int
    is_paused: bool
    is_failed: bool
    error_message: str | None


class LakeMirror:
    """The mirror of every table of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, once: bool = False, stop: threading.Event | None = None) -> int:  # noqa: FBT001, FBT002
        """Be the worker until SIGTERM; `once` drains what is pending, checkpoints too.

        Returns how many versions and checkpoints were written by `once`.
        """
        worker = Worker(self._lake.engine, self._lake.store)
        if once:
            return worker.drain()
        worker.run(stop)
        return 0

    def status(self) -> list[MirrorStatus]:
        """How far the mirror of each table is."""
        now = self._lake.store.clock_ms()
        return [_status(item, now) for item in self._lake.store.backlog()]


class TableMirror:
    """The mirror of one table."""

    def __init__(self, lake: Lake, table: Table) -> None:
        self._lake = lake
        self._table = table

    def status(self) -> MirrorStatus:
        """How far the mirror is."""
        now = self._lake.store.clock_ms()
        for item in self._lake.store.backlog():
            if item.table_id == self._table.table_id:
                return _status(item, now)
        raise TableNotFoundError(
            f"there is no table {self._table.name}",
            cause="it was dropped",
            remedy="see lake.tables()",
        )

    def pause(self) -> None:
        """Stop mirroring the table; commits go on, and wait in SQL."""
        self._lake.store.set_mirror_paused(self._table.table_id, paused=True)

    def resume(self) -> None:
        """Mirror the table again, from where it stopped."""
        self._lake.store.set_mirror_paused(self._table.table_id, paused=False)


def _status(item: Backlog, now: int) -> MirrorStatus:
    mirrored = item.head if item.first_version is None else item.first_version - 1
    return MirrorStatus(
        table=item.name,
        version=item.head,
        mirrored_version=mirrored if mirrored >= 0 else None,
        lag_versions=item.versions,
        lag_seconds=max(0.0, (now - item.oldest) / 1000) if item.oldest is not None else 0.0,
        pending_checkpoints=item.checkpoints,
        is_paused=item.is_paused,
        is_failed=item.is_failed,
        error_message=item.error_message,
    )
