"""Repair: compare the mirror's objects with SQL, and fix them without losing anybody else's.

Missing objects are written with the committed bytes. An object that is a prefix of our bytes is an
interrupted upload, and is written again in full. Everything else is foreign: it is reported, and
moved aside only by force. Without force, nothing is written beside it: a log that is not all ours
may be another table's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from deltasql.commit.loop import CommitLoop
from deltasql.delta_log.listing import ASIDE, list_log
from deltasql.delta_log.names import LOG, commit_name, crc_name
from deltasql.errors import (
    DeltaSqlError,
    LogFormatError,
    MirrorError,
    TableNotFoundError,
    VersionNotFoundError,
)
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.checkpoints.soundness import must_be_sound
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.leases import LeaseLostError, Leases, held_leases, is_held
from deltasql.mirror.missing import Missing, missing_in
from deltasql.mirror.publishing.commit_files import must_be_as_committed, publish
from deltasql.mirror.publishing.conflicts import Conflict, conflicts
from deltasql.mirror.publishing.publish_run import PublishRun
from deltasql.mirror.released import is_released
from deltasql.mirror.repairing.checkpoints import (
    delete_with_checksum,
    forget_lost_checkpoints,
    point_at_newest,
)
from deltasql.mirror.repairing.report import RepairReport
from deltasql.mirror.retained import first_kept
from deltasql.mirror.statuses import statuses
from deltasql.mirror.take_back import take_back
from deltasql.mirror.validation.checksums import is_wrong
from deltasql.mirror.validation.digests import Advance, commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.names import checksum_name
from deltasql.store.interface import CommitRecord, LogStore


def repair(
    engine: MirrorEngine,
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    *,
    version: int | None = None,
    force: bool = False,
    taking_back: CommitLoop | None = None,
    progress: Advance | None = None,
) -> RepairReport:
    """Repair a table's mirror: one version alone, or all of it, commit files read and compared.

    With `taking_back`, versions that only the mirror has are committed to SQL. Raises
    `DamagedLogError`, with nothing touched, if the rows in SQL disagree with its commits. A table
    that others write, such as a released one, is not touched either.
    """
    with held_leases(engine, log, target) as leases:
        if (reason := log.read_only_reason(target.table_id)) is not None:
            return RepairReport(table=target.name, errors=[f"nothing was repaired: {reason}"])
        run = _Repair(engine, log, objects, target, leases, force=force)
        run.must_be_sound()
        try:
            run.versions_ahead(version, taking_back=taking_back)
            if not is_released(log.read_only_reason(target.table_id)):
                run.commit_files(version, progress)
                run.checksums(version)
                run.publish_pending(version)
        except LeaseLostError:
            run.report.errors.append("the lease was lost to another process: repair again")
    engine.forget(target)
    return run.report


class _Repair:
    """One run, while the lease is held."""

    def __init__(
        self,
        engine: MirrorEngine,
        log: LogStore,
        objects: ObjectStore,
        target: Target,
        leases: Leases,
        *,
        force: bool,
    ) -> None:
        self._engine = engine
        self._log = log
        self._objects = objects
        self._target = target
        self._lease = leases.commits
        self._checkpoint_lease = leases.checkpoints
        self._force = force
        self._listing = list_log(objects)
        # After the listing: SQL by now knows everything of ours that was listed.
        self._head = self._read_head()
        self._first = self._earliest
        self._rewritten: set[int] = set()
        self._bodiless: set[int] = set()
        # Versions whose checksum file was moved aside.
        self._bare: set[int] = set()
        self._missing = Missing(self._head)
        # Whether the requested version is only in the mirror.
        self._is_foreign = False
        self._is_stopped = False
        self.report = RepairReport(table=target.name)

    def _read_head(self) -> int:
        head = self._log.head(self._target.table_id)
        if head is None:
            raise TableNotFoundError.named(self._target.name)
        self._earliest = head.earliest_version
        return head.version

    def must_be_sound(self) -> None:
        """Readers trust what repair writes, so it must not come from damaged rows."""
        # An unreadable commit is reported with its version, and no checkpoint depends on it.
        with suppress(LogFormatError):
            must_be_sound(self._log, self._target.table_id, self._head)

    # --- versions that SQL does not know --------------------------------------------------

    def versions_ahead(self, version: int | None, *, taking_back: CommitLoop | None) -> None:
        """Report them, take them back into SQL, or by force move them aside: all, or one."""
        ahead = self._listing.commits.after(self._head)
        if ahead and taking_back is not None:
            self.report.taken_back = take_back(
                taking_back, self._log, self._objects, self._target, self._listing
            )
            self._head = self._read_head()
            if is_released(self._log.read_only_reason(self._target.table_id)):
                return  # what comes after belongs to others, and is right where it is
        beyond = self._listing.beyond(self._head)
        if version is not None:
            ahead = [found for found in ahead if found == version]
            beyond = [name for name in beyond if name.version == version]
            self._is_foreign = bool(beyond)
        if not beyond:
            return
        if self._force:
            for name in beyond:
                self._move_aside(name.name)
            self._listing = list_log(self._objects)
        else:
            self.report.ahead = ahead
            self.report.conflicts += [name.name for name in beyond]

    def _must_hold(self) -> None:
        """Only the holder of the lease may take an object away."""
        if not is_held(self._log, self._lease):
            raise LeaseLostError

    def _move_aside(self, name: str) -> None:
        self._must_hold()
        stamp = self._log.clock_ms()
        while True:
            aside = f"{ASIDE}/{name.replace('/', '-')}.{stamp}"
            if self._objects.move_aside(LOG + name, LOG + aside):
                break
            stamp += 1
        # Hadoop's checksum of it would be wrong for our bytes (rule 36).
        self._objects.delete([checksum_name(LOG + name)])
        self.report.moved_aside[name] = aside

    # --- commit files ---------------------------------------------------------------------

    def commit_files(self, version: int | None, progress: Advance | None = None) -> None:
        """Compare them with SQL in order, and write what is missing or incomplete."""
        first = first_kept(self._log, self._target.table_id, self._listing, self._head)
        self._first = first
        self.report.cleaned_up = first - self._earliest
        if version is not None:
            self._must_know(version)
            if version > self._head:
                return
        after = first - 1 if version is None else version - 1
        if version is not None and version < first:
            return
        self._missing = missing_in(self._log, self._target.table_id, self._head)
        digests = commit_digests(self._log, self._target.table_id)
        last = self._head if version is None else version
        present = (v for v in self._listing.commits if after < v <= last and v in digests)
        others = set(differing(self._objects, digests, present, progress))
        if self._must_stop(digests, others, version):
            return
        for record in self._log.commits(self._target.table_id, after=after, upto=version):
            if record.version in self._listing.commits:
                if record.version in others:
                    self._commit_file(record, digests[record.version], first)
            elif not record.body:
                # Adopted from its checkpoint alone: it never had a commit file, and needs none.
                self._bodiless.add(record.version)
            elif record.version not in self._missing:
                # Otherwise it is not lost but pending: the publish run writes it.
                self._commit_file(record, digests[record.version], first)

    def _must_stop(
        self, digests: Mapping[int, bytes], others: set[int], version: int | None
    ) -> bool:
        """Whether the log has foreign commits, which are reported: nothing of ours is written
        beside them.
        """
        table_id, force = self._target.table_id, self._force
        found = [] if force else conflicts(self._log, self._objects, table_id, digests, others)
        for conflict in found:
            if conflict.problem is not None:
                self._failed(conflict.problem)
            else:
                self.report.conflicts.append(conflict.name)
        # For a single version, nothing else checks the one before it or moves it aside.
        is_written = version in self._listing.commits and version not in others
        before = set() if version is None or is_written else {version - 1}
        before &= digests.keys() & self._listing.commits.keys()
        if before and differing(self._objects, digests, before):
            found.append(Conflict(commit_name(before.pop())))
            self.report.errors.append(
                f"{found[-1].name} differs from what SQL has: repair that one first"
            )
        self._is_stopped = bool(found)
        return self._is_stopped

    def _must_know(self, version: int) -> None:
        if not 0 <= version <= self._head and not self._is_foreign:
            raise VersionNotFoundError(
                f"{self._target.name} has no version {version}",
                cause=f"its newest is {self._head}",
                remedy="ask for one of those, or leave the version out",
            )

    def _commit_file(self, record: CommitRecord, digest: bytes, first: int) -> None:
        """Write a commit file that is missing or differs from what was committed."""
        name = commit_name(record.version)
        try:
            must_be_as_committed(record.version, record.body, digest)
        except MirrorError as error:
            self._failed(error)
            return
        if record.version in self._listing.commits:
            content = self._objects.read(LOG + name)
            if record.body.startswith(content):
                self._must_hold()
                delete_with_checksum(self._objects, name)
            else:
                assert self._force, "who is not forced has looked for conflicts first"
                self._move_aside(name)
                if record.version in self._listing.checksums:
                    # It is that commit's, and would stay beside ours.
                    self._move_aside(crc_name(record.version))
                    self._bare.add(record.version)
        is_first = record.version == first or record.version - 1 in self._bodiless
        is_first |= self._missing.is_bridged(record.version - 1)
        before = None if is_first else commit_name(record.version - 1)
        if before is not None and self._objects.head(LOG + before) is None:
            self.report.errors.append(f"{name} has to wait for {before}: repair that one first")
            return
        publish(self._objects, LOG + name, record.body)
        self._rewritten.add(record.version)
        self.report.restored.append(record.version)

    # --- checksum files ---------------------------------------------------------------------

    def checksums(self, version: int | None) -> None:
        """Delete those that are wrong, from the newest back to one that is right: the publish run
        writes them again. Sums that the lease has are derived from in turn, and checked as well.
        """
        if self._is_stopped or self.report.conflicts or self._is_foreign:
            return
        table_id, newest = self._target.table_id, self._missing.newest
        wrong = []
        for number in range(newest if version is None else version, self._first - 1, -1):
            if number in self._bodiless or not is_wrong(
                self._log, self._objects, self._listing, table_id, number
            ):
                break
            wrong.append(number)
            if version is not None:
                break
        for number in wrong:
            self._must_hold()
            delete_with_checksum(self._objects, crc_name(number))
            self._log.forget_mirrored(table_id, first=number, last=number)
        self.report.checksums = sorted(wrong)
        if version is None and not wrong and self._misleads(newest):
            self._log.forget_mirrored(table_id, first=newest, last=newest)

    def _misleads(self, newest: int) -> bool:
        """Whether the next checksum would be derived from sums that are wrong."""
        known = self._lease.totals
        if known is None or known.version != newest or newest in self._bodiless:
            return False
        return known != self._log.totals(self._target.table_id, newest)

    # --- what publish runs do --------------------------------------------------------------------

    def publish_pending(self, version: int | None) -> None:
        """Retry the versions that failed to be mirrored, and write missing checkpoints."""
        if version is not None and version > self._head:
            return
        if self._is_stopped or self.report.conflicts:
            return
        first, last = (0, self._head) if version is None else (version, version)
        self._reset_statuses(first, last)
        settings = self._engine.settings
        try:
            commits = PublishRun(
                self._log,
                self._objects,
                self._lease,
                default_interval=settings.mirror_checkpoint_interval,
                checkpoint_rate=settings.mirror_checkpoint_rate,
                max_attempts=settings.mirror_max_retry_attempts,
                # A single version is written whatever the one before it contains.
                own=-1 if version is None else version - 1,
            )
            self.report.mirrored = commits.run() if version is None else commits.run_one(version)
        except DeltaSqlError as error:
            self._failed(error)
        try:
            self._checkpoints(max(first, self._first), last, version)
            if version is None:
                self.report.pointer_rewritten = point_at_newest(self._objects, upto=self._head)
        except DeltaSqlError as error:
            self._failed(error)

    def _failed(self, error: DeltaSqlError) -> None:
        path = (error.path or "") if isinstance(error, MirrorError) else ""
        if path.removeprefix(LOG) not in self.report.conflicts:
            self.report.errors.append(f"{error.problem}: {error.cause}")

    def _reset_statuses(self, first: int, last: int) -> None:
        """Reset what FAILED, and versions whose checksum file is gone or never existed."""
        checksums = self._listing.checksums
        table_id = self._target.table_id
        for record in statuses(self._log, table_id, first=first, last=last):
            if self._first > self._earliest and record.version <= self._first:
                continue
            is_bare = record.version in self._rewritten and (
                record.version not in checksums or record.version in self._bare
            )
            if (record.status == "FAILED" and not record.json_written) or (
                is_bare and record.json_written
            ):
                self._log.forget_mirrored(table_id, first=record.version, last=record.version)
            elif record.status == "FAILED":
                self._log.forget_checkpoint(table_id, record.version)

    def _checkpoints(self, first: int, last: int, only: int | None) -> None:
        sound = forget_lost_checkpoints(
            self._log,
            self._objects,
            self._listing,
            self._target.table_id,
            first=first,
            last=last,
            move_aside=self._move_aside,
        )
        due = {item.version for item in self._log.due_checkpoints(self._target.table_id)}
        for version in due.intersection(sound if only is None else sound & {only}):
            # Only its commit file was mirrored again; the checkpoint was there all the time.
            if not self._log.record_checkpoint(self._checkpoint_lease, version):
                raise LeaseLostError
        publish_run = CheckpointRun(
            self._log,
            self._objects,
            self._checkpoint_lease,
            max_attempts=self._engine.settings.mirror_max_retry_attempts,
        )
        if only is None:
            publish_run.run()
        else:
            publish_run.run_one(only)
        now = list_log(self._objects).checkpoints
        self.report.checkpoints = sorted(v for v in now if first <= v <= last and v not in sound)
