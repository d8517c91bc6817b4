"""Files recorded in SQL, then deleted, then marked: the only way in which vacuum deletes.

What to record is decided under the lock of the table's head, after a last look at everything that
may have changed since the files were found. A vacuum that was killed at any point only has to be
run again: what was recorded and not marked is deleted first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final

from deltasql.errors import StoreError, TableNotFoundError, ValidationError
from deltasql.maintenance.presence import clock
from deltasql.maintenance.vacuuming.elsewhere import Elsewhere
from deltasql.maintenance.vacuuming.keys import Place, vector_file
from deltasql.maintenance.vacuuming.pending import Eligibility
from deltasql.maintenance.vacuuming.report import Candidate
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.names import checksum_name
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CdcFile, RemoveFile
from deltasql.store.interface import LogStore
from deltasql.store.rows import key_of
from deltasql.store.upkeep.interface import Hold, Kind, PendingDelete, VacuumLog

logger = logging.getLogger("deltasql.vacuum")

_BATCH: Final = 1000
_THREADS: Final = 8
# How many files are deleted by one call.
_AT_ONCE: Final = 125
# After how many seconds a vacuum that has not deleted what it recorded is dead for sure: it deletes
# nothing itself that it decided on half as long ago.
_GIVEN_UP: Final = 3600.0
# No version comes after this one.
_NO_VERSION: Final = 2**62


@dataclass(slots=True)
class Journal:
    """The deletes of one vacuum of one table.

    `tables` are all that lie at the place; `seen` is how far the log of each had got when the files
    were searched for. `elsewhere` is what other tables name here.
    """

    store: LogStore
    objects: ObjectStore
    place: Place
    table_id: int
    table: str
    tables: Collection[int]
    horizon: int
    clock_margin_ms: int
    seen: dict[int, int]
    elsewhere: Elsewhere
    batch: int = 0
    _touched: set[str] = field(default_factory=set)

    def begin_at(self, heads: dict[int, int]) -> None:
        """The search for files begins: what the log says up to these versions is known."""
        self.seen = heads
        self._touched.clear()
        self.elsewhere.look(self.store)

    # --- from before --------------------------------------------------------------------

    def pending(self, eligibility: Eligibility) -> list[tuple[PendingDelete, Candidate | None]]:
        """What an earlier vacuum recorded but did not live to delete, as it is found now; None for
        what must stay.
        """
        found = self.store.pending_deletes(self.table_id)
        return (
            list(eligibility.may_go(self.store, self.objects, self.place, found)) if found else []
        )

    def finish_pending(
        self,
        heads: dict[int, int],
        eligibility: Eligibility,
        *,
        progress: Callable[[Sequence[Candidate]], None],
    ) -> None:
        """Delete what an earlier vacuum recorded, as far as this one would record it, too.

        `heads` says how far the logs have got. What is needed stays recorded, so that no commit
        brings it back, until whoever recorded it can't be about to delete it any more.
        """
        self.begin_at(heads)
        for (vacuum_id, batch), group in groupby(
            self.pending(eligibility), key=lambda pair: (pair[0].vacuum_id, pair[0].batch)
        ):
            pairs, begun = list(group), clock()
            with self.store.vacuuming(self.tables) as log:
                self._must_be_ours(log)
                found = [candidate for _, candidate in pairs if candidate is not None]
                going = self.spared_by_none(log, found)
                gone = {candidate.row.path for candidate in going}
                spared = {item.row.path for item, _ in pairs} - gone
                may_go = log.spare(vacuum_id, spared, seconds=_GIVEN_UP)
                if may_go:
                    log.record_again(vacuum_id, batch)
            if spared:
                logger.warning(
                    "%s: %d files that were to be deleted are needed, and stay",
                    self.table,
                    len(spared),
                )
            if not may_go:
                continue
            self._delete((candidate.key for candidate in going), since=begun)
            self.store.mark_deleted(vacuum_id, batch)
            progress(going)

    # --- now ----------------------------------------------------------------------------

    def carry_out(
        self,
        vacuum_id: str,
        candidates: Iterable[Candidate],
        *,
        progress: Callable[[Sequence[Candidate]], None],
    ) -> None:
        """Delete candidates, batch by batch; `progress` gets each batch that is gone."""
        for batch in _batches(candidates):
            begun = clock()
            going = self._write_down(vacuum_id, batch)
            if not going:
                continue
            self._delete((candidate.key for candidate in going), since=begun)
            self.store.mark_deleted(vacuum_id, self.batch)
            self.batch += 1
            progress(going)

    def _write_down(self, vacuum_id: str, batch: Sequence[Candidate]) -> list[Candidate]:
        """Record those of the batch that may be deleted by all that is known, under the lock."""
        with self.store.vacuuming(self.tables) as log:
            self._must_be_ours(log)
            going = self.spared_by_none(log, batch)
            if going:
                rows = [candidate.row for candidate in going]
                log.journal(vacuum_id, self.batch, self.table_id, rows)
        return going

    def spared_by_none(self, log: VacuumLog, batch: Sequence[Candidate]) -> list[Candidate]:
        """The candidates of the batch that nothing needs."""
        self._read_on(log)
        self.elsewhere.read_on(log)
        paths = [candidate.row.path for candidate in batch]
        known = self._live(log, paths, after=self.horizon)
        pins = log.pins(self.table_id)
        writers = log.writers()
        since = writers.may_have_written_since
        youngest = None if since is None else since - self.clock_margin_ms
        return [
            candidate
            for candidate in batch
            if candidate.key not in self._touched
            and candidate.key not in self.elsewhere.keys
            and key_of(candidate.row.path) not in known
            and not is_pinned(candidate, pins)
            and not _is_recent(candidate, youngest)
        ]

    def _must_be_ours(self, log: VacuumLog) -> None:
        if self.table_id not in log.heads:
            raise TableNotFoundError(
                f"{self.table} is gone",
                cause="it was dropped while it was vacuumed",
                remedy="purge it to delete its files",
            )
        reason = log.read_only_reason(self.table_id)
        if reason is not None:
            raise read_only(self.table, reason)

    def _live(self, log: VacuumLog, paths: Collection[str], *, after: int) -> set[bytes]:
        """The keys of the paths that are live in any table here, or were after a version."""
        found: set[bytes] = set()
        for table_id in self.tables:
            last = after if table_id == self.table_id else _NO_VERSION
            found |= {key for key, _ in log.known_files(table_id, paths, after=last)}
        return found

    def _read_on(self, log: VacuumLog) -> None:
        """Add what commits name that came after the search for files."""
        for table_id, head in log.heads.items():
            after = self.seen.get(table_id, -1)
            if head.version > after:
                for commit in log.commits(table_id, after=after):
                    self._touched |= self._named(commit.body)
                self.seen[table_id] = head.version

    def _named(self, body: bytes) -> set[str]:
        found = set()
        for action in codec.decode_commit(body):
            if isinstance(action, AddFile | RemoveFile | CdcFile):
                found.add(action.path)
            if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
                found.add(vector_file(action.deletion_vector) or "")
        return {key for path in found if path and (key := self.place.key_of(path)) is not None}

    def _delete(self, keys: Iterable[str], *, since: float) -> None:
        """Delete what was decided on at `since`; raises if that is too long ago."""
        wanted = list(keys)
        if self.objects.is_local:
            wanted += [checksum_name(key) for key in wanted]
        if not wanted:
            return

        def delete(keys: Sequence[str]) -> None:
            # Others may think that whoever slept for so long is dead, and bring files back.
            if clock() - since > _GIVEN_UP / 2:
                raise StoreError(
                    f"{self.table}: the vacuum paused for too long, and deletes nothing more",
                    cause="files that it was about to delete may be needed by now",
                    remedy="run it again: it continues where this one ended",
                )
            self.objects.delete(keys)

        shares = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(delete, shares))


def _batches(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    rest = iter(candidates)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def is_pinned(candidate: Candidate, pins: Collection[Hold]) -> bool:
    """Whether a pinned version needs the file."""
    if candidate.row.kind is Kind.CHANGE:
        # Whoever pins a version may read the changes since.
        return any(hold.version <= first for hold in pins for first, _ in candidate.lives)
    return any(
        hold.version < end and (hold.keeps_later or first <= hold.version)
        for hold in pins
        for first, end in candidate.lives
    )


def _is_recent(candidate: Candidate, youngest: int | None) -> bool:
    """Whether an orphan may belong to a write that is under way."""
    return (
        candidate.modified is not None and youngest is not None and candidate.modified >= youngest
    )


def read_only(table: str, reason: str) -> ValidationError:
    """The error for a table whose files are not ours to delete."""
    return ValidationError(
        f"{table} can't be vacuumed",
        cause=reason,
        remedy="vacuum it with a client that can write it; docs/adopting.md explains how to get "
        "it back",
    )
