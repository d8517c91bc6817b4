"""The mirror of a lake: what happens after a commit, and how a table is caught up."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import DeltaSqlError, MirrorConflictError, MirrorError, StoreError
from deltasql.log.retention import ASYNC, DAY_MS, OFF, SYNC
from deltasql.mirror.ahead import ahead_of
from deltasql.mirror.checkpoints.background import BackgroundCheckpoints
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.mirror.leases import LeaseLostError, try_lease
from deltasql.mirror.publishing.beside import Beside
from deltasql.mirror.publishing.late_checksums import LateChecksums
from deltasql.mirror.publishing.look_backs import LookBacks
from deltasql.mirror.publishing.publish_run import PublishRun
from deltasql.mirror.publishing.publisher import Publisher
from deltasql.mirror.released import is_released, must_be_as_released
from deltasql.mirror.targets import Target
from deltasql.objectstore import ObjectStore
from deltasql.settings.keys import AUTO, Settings
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease, Work
from deltasql.telemetry import metrics

__all__ = ["MirrorEngine", "Target"]

logger = logging.getLogger("deltasql.mirror")

# How long commits go on while it is unknown whether the mirror is ahead.
_LOOK_AGAIN: Final = 30.0
_NEVER: Final = None, -1


class MirrorEngine:
    """Mirrors tables, with one publish run per table at a time across all processes."""

    def __init__(
        self,
        log: LogStore,
        objects: Callable[[str], ObjectStore],
        settings: Settings,
    ) -> None:
        self._log = log
        self._objects = objects
        self.settings = settings
        self.begin()
        _engines.add(self)
        # By table: the target it was last checked as, and how often servers had changed by then.
        self._looked: dict[int, tuple[Target, int]] = {}
        self._look_again: dict[int, float] = {}
        # By table: the newest version that this process published.
        self._published: dict[int, int] = {}

    def begin(self) -> None:
        """Start without threads: a forked child inherits none of its parent's, only their locks."""
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._publishers: dict[int, Publisher] = {}
        self._look_backs = LookBacks(self.settings.mirror_parallelism)
        self._checkpoints = BackgroundCheckpoints(self.write_checkpoints, self._log.has_worker)

    def mode_of(self, target: Target) -> str:
        """How the table is mirrored: its property wins over the lake's setting."""
        return target.mode or self.settings.mirror_mode

    def must_not_be_ahead(self, target: Target) -> None:
        """Raise `MirrorError` if the mirror has versions that SQL does not know.

        That happens after the database was restored to an earlier time: another commit would give a
        second meaning to a version that readers know. Checked once per table and process, and again
        after another server has taken over.
        """
        takeovers = self._log.takeovers
        _, looked = self._looked.get(target.table_id, _NEVER)
        if looked == takeovers or self.mode_of(target) == OFF:
            return
        now = time.monotonic()
        if now < self._look_again.get(target.table_id, now):
            return
        looking = self._threads().submit(self._look_ahead, target)
        try:
            # An object store that is down or hangs stops no commit, and does not delay every one.
            looking.result(timeout=self.settings.mirror_sync_timeout)
        except (StoreError, TimeoutError) as error:
            facts = {"table": target.name, "error": error}
            message = "%s: can't tell whether the mirror is ahead: %s"
            logger.warning(message, target.name, error, extra=facts)
            self._look_again[target.table_id] = time.monotonic() + _LOOK_AGAIN
            return
        self._looked[target.table_id] = target, takeovers

    def _look_ahead(self, target: Target) -> None:
        found = ahead_of(self._log, self._objects(target.location), target.table_id)
        if found is None or self._log.read_only_reason(target.table_id) is not None:
            return  # or others write the table now, and our commits are refused anyway
        raise MirrorError(
            f"{target.name}: the mirror is ahead of SQL",
            cause=f"SQL is at version {found.head}, and {found.path} exists: the database was "
            "restored to an earlier time, or another writer wrote to the table",
            remedy="nothing was committed; look at the versions in the mirror, then take them back "
            "into SQL with mirror.repair(take_back=True), move them aside with "
            "mirror.repair(force=True), or restore a newer database",
            version=found.head,
        )

    def must_still_not_be_ahead(self, table_ids: Iterable[int]) -> None:
        """Check known tables again if another server has taken over since."""
        for table_id in table_ids:
            target, _ = self._looked.get(table_id, _NEVER)
            if target is not None:
                self.must_not_be_ahead(target)

    def forget(self, target: Target) -> None:
        """Check again, before the next commit, whether the mirror is ahead."""
        self._looked.pop(target.table_id, None)

    def look_back(self, target: Target) -> None:
        """While data files are written, check in the background that our newest commit file is
        there; otherwise mirroring the next commit would have to check first.
        """
        own = self._published.get(target.table_id)
        if own is not None and self.mode_of(target) == SYNC:
            objects = self._objects(target.location)
            if not objects.is_local:
                self._look_backs.begin(target.table_id, own, objects)

    def after_commit(self, committed: Sequence[tuple[Target, int]]) -> None:
        """Mirror what was just committed, or leave it to the worker. Never fails."""
        modes = [self.mode_of(target) for target, _ in committed]
        if ASYNC in modes:
            self._log.wake_mirror()
        if SYNC not in modes:
            return
        started = time.monotonic()
        deadline = started + self.settings.mirror_sync_timeout
        asked = [
            (self._publisher(target), version)
            for (target, version), mode in zip(committed, modes, strict=True)
            if mode == SYNC
        ]
        for publisher, version in asked:
            publisher.want(version)
        for publisher, version in asked:
            # What isn't done in time goes on in the background; its versions are PENDING.
            if publisher.wait(version, deadline):
                metrics.MIRROR_LATENCY.observe((time.monotonic() - started) * 1000)

    def _publisher(self, target: Target) -> Publisher:
        with self._lock:
            found = self._publishers.get(target.table_id)
            if found is None:
                objects = partial(self._objects, target.location)
                found = self._publishers[target.table_id] = Publisher(
                    name=target.name,
                    publish_run=lambda: self._publish_run(
                        target, backoff=self.settings.mirror_backoff, is_writers=True
                    ),
                    look=lambda version: self._log.look(target.table_id, version),
                    is_visible=partial(_is_visible, objects) if objects().is_local else None,
                    start=self._threads().submit,
                )
            return found

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self.settings.mirror_parallelism, thread_name_prefix="deltasql-mirror"
            )
        return self._pool

    def catch_up(
        self,
        target: Target,
        is_stopped: Callable[[], bool] = lambda: False,
        *,
        heeds_pauses: bool = True,
    ) -> int | None:
        """Mirror all pending commit files of a table; None if another publish run is under way.
        Failures are recorded, counted, and raised. Of a paused table only those mirror anything
        who don't heed that.
        """
        is_released = self._is_released(target)
        bridged = None if is_released else self.settings.mirror_bridged_after
        with self._publish_run(
            target, bridged_after=bridged, heeds_pauses=heeds_pauses
        ) as publish_run:
            if publish_run is None:
                return None
            try:
                if is_released:
                    publish_run.must_be_as_released()
                publish_run.run(is_stopped=is_stopped)
            except LeaseLostError:
                logger.info("%s: another process now mirrors this table", target.name)
            return publish_run.told

    @contextmanager
    def _publish_run(
        self,
        target: Target,
        *,
        backoff: Callable[[int], float] | None = None,
        is_writers: bool = False,
        bridged_after: float | None = None,
        heeds_pauses: bool = True,
    ) -> Iterator[PublishRun | None]:
        """A publish run with the table's lease, unless another holds it.

        A writer's run also takes care of checkpoints if there is no worker.
        """
        with self._leased(target, Work.COMMITS) as lease:
            if lease is None:
                yield None
                return
            objects = self._objects(target.location)
            late = LateChecksums(objects) if is_writers and not objects.is_local else None
            run = PublishRun(
                self._log,
                objects,
                lease,
                default_interval=self.settings.mirror_checkpoint_interval,
                checkpoint_rate=self.settings.mirror_checkpoint_rate,
                max_attempts=self.settings.mirror_max_retry_attempts,
                backoff=backoff,
                own=self._published.get(target.table_id, -1),
                beside=Beside(
                    partial(self._look_backs.has_seen, target.table_id),
                    partial(self._published.__setitem__, target.table_id),
                    late,
                    bridged_after,
                    heeds_pauses,
                ),
            )
            try:
                yield run
            finally:
                if late is not None:
                    late.close()
                if is_writers and run.wants_checkpoint and self.settings.mirror_checkpoints == AUTO:
                    self._checkpoints.want(target)

    def write_checkpoints(
        self,
        target: Target,
        most: int | None = None,
        is_stopped: Callable[[], bool] | None = None,
    ) -> int | None:
        """Write the due checkpoints of a table, or at most `most`; None if another process is doing
        so.
        """
        with self._leased(target, Work.CHECKPOINTS) as lease:
            if lease is None:
                return None
            objects = self._objects(target.location)
            run = CheckpointRun(
                self._log,
                objects,
                lease,
                max_attempts=self.settings.mirror_max_retry_attempts,
                is_stopped=is_stopped,
            )
            try:
                if self._is_released(target):
                    self._give_up_checkpoints(target, objects, lease)
                run.run(most)
            except LeaseLostError:
                logger.info("%s: another process now mirrors this table", target.name)
            return run.written

    def _is_released(self, target: Target) -> bool:
        return is_released(self._log.read_only_reason(target.table_id))

    def _give_up_checkpoints(self, target: Target, objects: ObjectStore, lease: Lease) -> None:
        """Drop those of a released table once others own its log: nobody waits for them."""
        due = [item.version for item in self._log.due_checkpoints(target.table_id)]
        try:
            if due:
                must_be_as_released(self._log, objects, target.table_id, due)
        except MirrorConflictError as error:
            logger.info("%s: no more checkpoints: %s", target.name, error)
            for version in due:
                if not self._log.record_checkpoint(lease, version):
                    raise LeaseLostError from None

    def remove_stale_temps(self, target: Target) -> int:
        """Remove what publish runs that died left behind; returns how many there were."""
        if self._is_released(target):
            return 0  # nothing there is ours to delete
        return self._objects(target.location).remove_stale_temps(LOG.rstrip("/"), DAY_MS)

    @contextmanager
    def _leased(self, target: Target, work: Work) -> Iterator[Lease | None]:
        lease = try_lease(self._log, target.table_id, self.holder, work)
        if lease is None:
            yield None
            return
        try:
            yield lease
        except DeltaSqlError:
            metrics.MIRROR_FAILURES.labels(target.name).inc()
            raise
        finally:
            self._log.release_lease(lease)

    def close(self) -> None:
        """Let publish runs that are under way finish."""
        with self._lock:
            for publisher in self._publishers.values():
                publisher.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._look_backs.close()
        self._checkpoints.close()


def _is_visible(objects: Callable[[], ObjectStore], version: int) -> bool:
    try:
        return objects().head(LOG + commit_name(version)) is not None
    except StoreError:
        return False


def _begin_anew() -> None:
    for engine in list(_engines):
        engine.begin()


_engines: weakref.WeakSet[MirrorEngine] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_anew)
