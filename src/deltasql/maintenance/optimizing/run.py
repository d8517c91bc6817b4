"""One run of optimize: bins are planned, queued, and worked off by every process that helps.

Every bin is a commit of its own that changes no row. A bin that loses a file to another writer
while it is written is done again, alone, with what is left of it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from deltasql.commit.discarding import Abandon
from deltasql.data.ordering import in_hilbert_order, in_zorder
from deltasql.data.rewriting import ONE_FILE, Rewriter
from deltasql.errors import CommitError, CommitStateUnknownError
from deltasql.log.retention import tombstone_ms
from deltasql.log.state import TableState
from deltasql.maintenance.optimizing.places import packed_places
from deltasql.maintenance.optimizing.planning import (
    LIQUID,
    Wish,
    cube_columns,
    plan,
)
from deltasql.maintenance.optimizing.report import OptimizeReport, metrics_of
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import ZCUBE_COLUMNS, ZCUBE_CURVE, ZCUBE_ID
from deltasql.store.optimizing.interface import CLAIM_SECONDS, ClaimedBin, OptimizeLog, PlannedBin

logger = logging.getLogger("deltasql.optimize")

# How often a bin is tried before it is left to the next run.
TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Files that were rewritten; `row_counts` says how many rows came from each, by path.

    `row_order` says where sorted rows went; without it they can't be found again.
    """

    removed: Sequence[AddFile]
    added: Sequence[AddFile]
    row_counts: Sequence[int]
    is_sorted: bool
    row_order: bytes | None
    read_version: int
    metrics: Mapping[str, int]


class OptimizedTable(Protocol):
    """The table, as far as optimize needs it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def table_id(self) -> int:
        """Its id in SQL."""

    @property
    def objects(self) -> ObjectStore:
        """Where its files are."""

    def state(self) -> TableState:
        """Its state now."""

    def files(self, state: TableState, where: str | None) -> Iterator[AddFile]:
        """The live files, pruned."""

    def held(self, version: int) -> AbstractContextManager[None]:
        """Keeps the files of a version while they are read."""

    def abandon(self, after: int) -> Abandon:
        """A function that deletes files, written from now on, that belong to no commit."""

    def commit(self, move: Move) -> int:
        """Commit a bin; if others were faster, raise `CommitError` after deleting its new files."""

    def new_id(self) -> str:
        """A unique name."""

    def now_ms(self) -> int:
        """This machine's clock."""


@dataclass(slots=True)
class Run:
    """One run on one table."""

    table: OptimizedTable
    store: OptimizeLog
    wish: Wish
    progress: Callable[[int, int], None] | None = None
    _worker: str = field(default_factory=lambda: str(uuid.uuid4()))
    _removed: list[AddFile] = field(default_factory=list)
    _added: list[AddFile] = field(default_factory=list)
    _versions: list[int] = field(default_factory=list)
    _skipped: int = 0
    _planned: int = 0

    def run(self) -> OptimizeReport:
        """Plan, and work until every bin is done or claimed by another process."""
        table, state = self.table, self.table.state()
        self.store.expire_moved_rows(table.table_id, milliseconds=tombstone_ms(state.properties))
        # Fail before anything is queued that could not be done.
        self._rewriter(state)
        known = self._plan(state)
        version = state.version
        done = 0
        while True:
            claimed = self.store.claim_bin(table.table_id, self.wish.settings, self._worker)
            if claimed is None:
                break
            self._work(claimed, state, known)
            done += 1
            if self.progress is not None:
                self.progress(done, max(done, self._planned))
        return OptimizeReport(
            table=table.name,
            version=max([version, *self._versions]),
            versions=tuple(self._versions),
            skipped=self._skipped,
            metrics=metrics_of(self._removed, self._added),
        )

    def _plan(self, state: TableState) -> dict[str, AddFile]:
        bins = plan(self.table.files(state, self.wish.where), self.wish)
        if bins:
            self._planned = self.store.queue_bins(
                self.table.table_id,
                str(uuid.uuid4()),
                self.wish.settings,
                [PlannedBin(tuple(a.path for a in item.files), item.size) for item in bins],
            )
        return {add.path: add for item in bins for add in item.files}

    def _work(self, claimed: ClaimedBin, state: TableState, known: Mapping[str, AddFile]) -> None:
        try:
            files = [known[path] for path in dict.fromkeys(claimed.paths) if path in known]
            if len(files) < len(claimed.paths):
                # Planned by another process.
                state, files = self._as_they_are(claimed)
            for attempt in range(TRIES):
                if attempt:
                    state, files = self._as_they_are(claimed)
                # What the queue says may be old, and any writer may have written it.
                bins = plan(files, self.wish)
                if not bins:
                    return
                try:
                    self._move(claimed, state, bins[0].files)
                except CommitStateUnknownError:
                    raise
                except CommitError as error:
                    logger.info("%s: a bin is retried: %s", self.table.name, error.problem)
                else:
                    return
            self._skipped += 1
        finally:
            self.store.end_bin(claimed.bin_id, self._worker)

    def _as_they_are(self, claimed: ClaimedBin) -> tuple[TableState, list[AddFile]]:
        """What is left of a bin's files by now."""
        state, wanted = self.table.state(), set(claimed.paths)
        found = {
            add.path: add for add in self.table.files(state, self.wish.where) if add.path in wanted
        }
        return state, [found[path] for path in dict.fromkeys(claimed.paths) if path in found]

    def _move(self, claimed: ClaimedBin, state: TableState, files: Sequence[AddFile]) -> None:
        table, columns = self.table, self.wish.order_by
        # The order by which rows are looked up later, see `log/moved_rows.py`.
        files = sorted(files, key=lambda add: add.path)
        sort = in_hilbert_order if self.wish.cluster_by else in_zorder
        with table.held(state.version):
            done = self._rewriter(state).rewrite(
                files,
                order=(lambda rows: sort(rows, columns)) if columns else None,
                target_size=self.wish.target_size if columns else ONE_FILE,
                abandon=table.abandon(state.version),
                progress=self._renewing(claimed),
            )
        added = [replace(add, data_change=False) for add in done.added]
        if self.wish.cluster_by and columns:
            tags = {
                ZCUBE_ID: str(uuid.uuid4()),
                ZCUBE_COLUMNS: cube_columns(self.wish),
                ZCUBE_CURVE: "hilbert",
            }
            added = [replace(add, tags=tags, clustering_provider=LIQUID) for add in added]
        order = done.indices
        version = table.commit(
            Move(
                removed=files,
                added=added,
                row_counts=done.row_counts,
                is_sorted=bool(columns),
                row_order=None if order is None else packed_places(added, order),
                read_version=state.version,
                metrics=metrics_of(files, added),
            )
        )
        self._versions.append(version)
        self._removed += files
        self._added += added

    def _rewriter(self, state: TableState) -> Rewriter:
        table = self.table
        return Rewriter(table.objects, state, new_id=table.new_id, now_ms=table.now_ms)

    def _renewing(self, claimed: ClaimedBin) -> Callable[[], None]:
        """A function that renews the claim on a bin that takes long."""
        due = time.monotonic() + CLAIM_SECONDS / 4

        def renew() -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + CLAIM_SECONDS / 4
                self.store.renew_bin(claimed.bin_id, self._worker)

        return renew
