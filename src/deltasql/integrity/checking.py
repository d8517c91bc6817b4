"""A table's rows, and its mirror's checkpoints, checked against a replay of its stored commits.

Replay begins at the newest trusted version: where an earlier check ended, if the rows up to there
are unchanged since, else at the very first version, or at the state that the table was adopted
with. What the commits must have left is kept in a scratch database, so that memory stays bounded;
the rows are read in one statement, as of the version that the check began with, so that commits may
go on meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from deltasql.delta_log.listing import LogListing, list_log
from deltasql.delta_log.reading import checkpoint_fault
from deltasql.errors import DamagedLogError, DatabaseError, TableNotFoundError
from deltasql.integrity import version_columns
from deltasql.integrity.commits import CommitReplay, readable_state
from deltasql.integrity.comparing import RowComparison
from deltasql.integrity.expected import OTHERS, ExpectedRows
from deltasql.integrity.findings import CheckProgress, Kind, TableCheck
from deltasql.integrity.fingerprints import other_print
from deltasql.integrity.places import check_place
from deltasql.integrity.version_columns import as_committed, with_next_time
from deltasql.log.file_sums import Digest, FileSums
from deltasql.mirror.checkpoints.content import checkpoint_difference
from deltasql.mirror.checkpoints.soundness import begins_with_state
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.store.checking.interface import Origin, TrustedVersion
from deltasql.store.checking.scratch import Scratch
from deltasql.store.expiring.interface import ExpirationRecord
from deltasql.store.interface import Head, LogStore
from deltasql.store.rows import Row

logger = logging.getLogger("deltasql.integrity")

Progress = Callable[[CheckProgress], None]
_FIRST: Final = -1
# How often a check begins again because versions expired while it ran.
_ATTEMPTS: Final = 3


def check(
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    full: bool = False,
    progress: Progress | None = None,
) -> TableCheck:
    """Check a table; with `full`, nothing that was proven before is taken for granted."""
    for attempt in count(1):
        before = _expired(log, target)
        report = _check_once(log, objects, target, full=full, progress=progress)
        after = _expired(log, target)
        is_quiet = before == after and all(item.ended_at is not None for item in after)
        if report.ok or attempt == _ATTEMPTS or is_quiet:
            return report
        # Versions expired meanwhile: rows that left with them are no finding.
    raise AssertionError("unreachable")


def _expired(log: LogStore, target: Target) -> list[ExpirationRecord]:
    return [item for item in log.expirations() if item.table_id == target.table_id]


def _check_once(
    log: LogStore, objects: ObjectStore, target: Target, *, full: bool, progress: Progress | None
) -> TableCheck:
    listing = list_log(objects)
    newest = log.history(target.table_id, limit=1)
    # Read after the version: whatever is committed, the head is not behind it.
    head = log.head(target.table_id)
    if head is None:
        raise TableNotFoundError.named(target.name)
    for start in _starts(log, head, full=full):
        report = TableCheck(table=target.name, version=head.version, since=start.version)
        with Scratch() as scratch:
            run = _Check(log, objects, listing, head, report, scratch, progress or _quiet)
            if not run.begin(start):
                # The rows are no longer what was proven: the whole replay shows which ones.
                continue
            if newest and newest[0].version > head.version:
                report.found(
                    Kind.HEAD,
                    f"the head is at {head.version}, the newest commit is {newest[0].version}",
                    version=head.version,
                )
            run.replay()
            check_place(log, target, report)
            return report
    raise AssertionError("the last start is always taken")


def _quiet(_: CheckProgress) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Start:
    """Where replay begins: after a version whose files or rows may have known sums."""

    version: int
    sums: FileSums | None = None
    rows_digest: bytes | None = None


def _starts(log: LogStore, head: Head, *, full: bool) -> Iterator[_Start]:
    """Where replay may begin, the newest first; the last one always works."""
    table_id, earliest = head.table_id, head.earliest_version
    known = {item.origin: item for item in log.trusted(table_id)}
    checked = known.get(Origin.CHECKED)
    # A version without a digest of its rows proves nothing.
    is_proven = checked is not None and checked.rows_digest is not None
    if checked is not None and is_proven and not full and checked.version <= head.version:
        yield _Start(checked.version, rows_digest=checked.rows_digest)
    if not begins_with_state(log, table_id, earliest):
        yield _Start(_FIRST)
        return
    adopted = known.get(Origin.ADOPTED)
    # If it was adopted before such sums were recorded, there is nothing to compare with.
    is_known = adopted is not None and adopted.version == earliest
    yield _Start(earliest, adopted.sums if adopted is not None and is_known else None)


class _Check:
    """One run, from one start."""

    def __init__(
        self,
        log: LogStore,
        objects: ObjectStore,
        listing: LogListing,
        head: Head,
        report: TableCheck,
        scratch: Scratch,
        progress: Progress,
    ) -> None:
        self._log = log
        self._objects = objects
        self._listing = listing
        self._head = head
        self._report = report
        self._scratch = scratch
        self._progress = progress
        self._expected = ExpectedRows(scratch)
        self._since = report.since
        self._last_ict: int | None = None

    def begin(self, start: _Start) -> bool:
        """Take the state that replay begins with; False if it differs from what was proven."""
        table_id = self._head.table_id
        if start.version == _FIRST:
            self._replay = CommitReplay(None)
            return True
        found = self._expected.begin_with(
            self._log.file_rows(table_id, start.version), start.version
        )
        digest = Digest(found)
        for kind, row in self._others(start.version):
            digest.add(other_print((kind, *row)))
            self._expected.begin_with_other(kind, row)
        record = self._log.state(table_id, start.version)
        if start.rows_digest is not None:
            if record is None or digest.value() != start.rows_digest:
                return False
        elif start.sums not in (None, self._expected.sums()):
            self._report.found(
                Kind.FIRST_STATE,
                "the state that the table was adopted with has changed",
                version=start.version,
            )
        state = readable_state(record)
        if state is None:
            self._report.found(
                Kind.FIRST_STATE,
                "its metadata or protocol is gone, or can't be read",
                version=start.version,
            )
        else:
            self._last_ict = state.in_commit_timestamp
        self._replay = CommitReplay(state)
        self._checkpoint(start.version)
        return True

    def _with_others(self, files: bytes, version: int) -> bytes:
        """The digest of all rows, including those that don't belong to files."""
        digest = Digest(files)
        for kind, row in self._others(version):
            digest.add(other_print((kind, *row)))
        return digest.value()

    def _others(self, version: int) -> Iterator[tuple[str, Row]]:
        for kind in (*OTHERS, "versions"):
            for row in self._log.other_rows(self._head.table_id, kind, version):
                yield kind, row

    def replay(self) -> None:
        """Follow the commits, then compare what they left with the rows."""
        if not self._commits():
            return
        report, head = self._report, self._head
        report.files = self._expected.sums().files
        rows = RowComparison(self._log, head, report, self._scratch, since=self._since)
        digest = rows.files()
        rows.others()
        rows.partitions(self._expected.partitions)
        rows.head(self._replay, self._last_ict)
        if report.rows_ok:
            self._trust(self._with_others(digest, head.version))

    def _commits(self) -> bool:
        """Replay all commits; False if one is lost, after which nothing can be known."""
        last = self._since
        head = self._head
        stored = self._log.stored_commits(head.table_id, after=last, upto=head.version)
        for commit, next_time in with_next_time(stored):
            if commit.version != last + 1:
                break
            try:
                for rows in self._replay.rows(commit):
                    self._expected.take(commit.version, rows)
            except DamagedLogError as error:
                self._report.found(Kind.COMMIT, error.cause, version=commit.version)
                return False
            last = commit.version
            told = as_committed(
                commit, self._replay.metadata, self._replay.protocol, next_time=next_time
            )
            for name in version_columns.differing(commit, told):
                problem = f"its {name} is not what the commit says"
                self._report.found(Kind.VERSION, problem, version=last)
            self._last_ict = told.in_commit_timestamp
            self._checkpoint(last)
            self._progress(CheckProgress(self._report.table, last, head.version))
        if last != head.version:
            self._report.found(Kind.COMMIT, "the commit is gone", version=last + 1)
            return False
        return True

    def _checkpoint(self, version: int) -> None:
        """Compare the mirror's checkpoints of a version with the files that were live then."""
        for found in self._listing.checkpoints.get(version, ()):
            fault = checkpoint_fault(self._objects, found)
            if fault is not None:
                problem = f"it can't be read: {fault}"
            else:
                truth = self._expected.content(self._replay.metadata, self._replay.protocol)
                difference = checkpoint_difference(self._objects, found, truth)
                if difference is None:
                    continue
                problem = difference
            self._report.found(Kind.CHECKPOINT, problem, version=version, path=found.names[0])

    def _trust(self, digest: bytes) -> None:
        proven = TrustedVersion(
            self._head.table_id,
            Origin.CHECKED,
            self._head.version,
            self._expected.sums(),
            digest,
        )
        try:
            self._log.trust(proven)
        except DatabaseError as error:
            # A reader without write rights finds everything, too; the next check begins where this
            # did.
            logger.info("%s: the check was not recorded: %s", self._report.table, error.cause)
