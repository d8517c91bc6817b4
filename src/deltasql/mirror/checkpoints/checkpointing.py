"""Checkpoints from SQL to the object store, and the pointer to the newest one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from deltasql.delta_log.checkpoint.file import Sink
from deltasql.delta_log.checkpoint.schema import shape_of
from deltasql.delta_log.checkpoint.sidecars import Sidecar, Stretch, plan_stretches
from deltasql.delta_log.checkpoint.v2 import uses_v2, write_v2_checkpoint
from deltasql.delta_log.checkpoint.writing import (
    CheckpointSource,
    CheckpointSummary,
    write_checkpoint,
)
from deltasql.delta_log.last_checkpoint import (
    is_newer,
    parse_last_checkpoint,
    render_last_checkpoint,
)
from deltasql.delta_log.listing import FoundCheckpoint, checkpoints_of, list_log
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG, checkpoint_name, commit_name
from deltasql.delta_log.reading import checkpoint_fault, sidecar_details
from deltasql.errors import DeltaSqlError, MirrorGapError
from deltasql.log.retention import tombstone_ms, txn_ms
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.soundness import SumRows, must_be_sound
from deltasql.mirror.leases import LeaseLostError, kept_alive
from deltasql.mirror.property_faults import warn_of_faults
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.store.checking.interface import TrustedVersion
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import DueCheckpoint, Lease
from deltasql.telemetry import logs

T = TypeVar("T")


class CheckpointStoppedError(Exception):
    """The process is ending: nothing of the unfinished checkpoint is visible."""


class CheckpointRun:
    """Writes the due checkpoints of a table. A failure here never holds up commits."""

    def __init__(
        self,
        log: LogStore,
        objects: ObjectStore,
        lease: Lease,
        *,
        max_attempts: int,
        is_stopped: Callable[[], bool] | None = None,
        sums: SumRows | None = None,
    ) -> None:
        self._log = log
        self._objects = objects
        self._lease = lease
        self._max_attempts = max_attempts
        self._is_stopped = is_stopped
        self._sums = sums
        self._proven: list[TrustedVersion] = []
        # How many were written, even if the run fails.
        self.written = 0

    def run(self, most: int | None = None) -> int:
        """Write all that are due, or `most`; returns how many. A failure is recorded and raised.

        If writers are faster, checkpoints fall behind. Readers start from the newest one, so each
        turn writes that first and then the oldest: all of them are written in the end.
        """
        with kept_alive(self._log, self._lease) as lost:
            due = self._log.due_checkpoints(self._lease.table_id)
            most = min(len(due), most or len(due))
            while due and self.written < most:
                for item in (due[-1], *due[:-1][:1]):
                    try:
                        self._write_one(item, lost, is_newest=item is due[-1])
                    except CheckpointStoppedError:
                        return self.written
                due = self._due() if self.written < most else []
        return self.written

    def _due(self) -> list[DueCheckpoint]:
        is_over = self._is_stopped is not None and self._is_stopped()
        return [] if is_over else self._log.due_checkpoints(self._lease.table_id)

    def run_one(self, version: int) -> None:
        """Write one checkpoint, if it is due."""
        with kept_alive(self._log, self._lease) as lost:
            due = self._log.due_checkpoints(self._lease.table_id)
            for item in due:
                if item.version == version:
                    self._write_one(item, lost, is_newest=item is due[-1])

    def write_now(self, version: int) -> CheckpointSummary:
        """Write the checkpoint of the newest mirrored version, due or not."""
        with kept_alive(self._log, self._lease) as lost:
            summary = self.write(version)
            self._record(summary, lost, is_newest=True)
        return summary

    def _write_one(self, due: DueCheckpoint, lost: threading.Event, *, is_newest: bool) -> None:
        self._record(self._write_recorded(due), lost, is_newest=is_newest)

    def _record(
        self, summary: CheckpointSummary, lost: threading.Event, *, is_newest: bool
    ) -> None:
        if lost.is_set() or not self._log.record_checkpoint(self._lease, summary.version):
            raise LeaseLostError
        self.written += 1
        if is_newest:
            self._log.note_checkpoint(self._lease.table_id, summary.size)

    def _write_recorded(self, due: DueCheckpoint) -> CheckpointSummary:
        try:
            return self.write(due.version)
        except DeltaSqlError as error:
            is_final = due.retry_count + 1 >= self._max_attempts
            message = f"checkpoint: {error.problem}: {error.cause}"[:2000]
            key = f"{self._objects.location.rstrip('/')}/{LOG}{due.version:020}.checkpoint"
            facts = {"version": due.version, "attempt": due.retry_count + 1, "key": key}
            logs.attach(error, {"table_id": self._lease.table_id, **facts})
            self._log.record_failure(self._lease, due.version, message, is_final=is_final)
            raise

    def write(self, version: int) -> CheckpointSummary:
        """Write one checkpoint, and point `_last_checkpoint` at it."""
        if self._objects.head(LOG + commit_name(version)) is None:
            raise MirrorGapError(
                f"version {version} can't have a checkpoint",
                cause=f"{commit_name(version)} is not in the mirror",
                remedy="run mirror.repair(): it writes what is missing",
                version=version,
            )
        summary = self.write_ahead(version)
        self.point_at(summary)
        return summary

    def write_ahead(self, version: int) -> CheckpointSummary:
        """Write one checkpoint before its commit file exists: nothing points at it yet."""
        proven = must_be_sound(
            self._log,
            self._lease.table_id,
            version,
            proven=self._proven,
            sums=self._sums,
            check=self._must_go_on,
        )
        if proven is not None:
            # Late checkpoints are written oldest first, so the next one can start from this proof.
            self._proven = [*self._proven[-1:], proven]
        source = self._source(version)
        if uses_v2(source.state):
            summary = write_v2_checkpoint(
                self._sink,
                source,
                new_uuid=lambda: str(uuid.uuid4()),
                modification_time=self._log.clock_ms(),
                stretches=self._stretches(source.state),
            ).summary
        else:
            # An existing object of that name is complete, whoever wrote it: objects appear whole.
            with self._objects.open_output(LOG + checkpoint_name(version)) as sink:
                summary = write_checkpoint(sink, source)
        return summary

    def _stretches(self, state: TableState) -> list[Stretch]:
        """How the sidecars are cut, and which of the last checkpoint's are kept."""
        known: list[Sidecar] = []
        for found in self._last_checkpoints(state.version):
            if checkpoint_fault(self._objects, found) is None:
                known = sidecar_details(self._objects, found)
                break
        added = self._log.added_keys(self._lease.table_id, state.version)
        return plan_stretches(known, self._until_stopped(added), state.version, shape_of(state))

    def _last_checkpoints(self, version: int) -> Iterable[FoundCheckpoint]:
        """Those that readers start from, or for a late version any before it, the newest first."""
        pointer = self._objects.read_tagged(LOG + LAST_CHECKPOINT)
        last = None if pointer is None else parse_last_checkpoint(pointer[0])
        if last is None:
            return ()
        if last <= version:
            return checkpoints_of(self._objects, last)
        return list_log(self._objects).newest_first(version)

    @contextmanager
    def _sink(self, name: str) -> Iterator[Sink]:
        with self._objects.open_output(LOG + name) as sink:
            yield sink

    def _source(self, version: int) -> CheckpointSource:
        log, table_id = self._log, self._lease.table_id
        record = log.state(table_id, version)
        assert record is not None, "a due version is in SQL"
        state = record.parsed()
        warn_of_faults(log, table_id, state.properties)
        now = log.clock_ms()
        expired = now - tombstone_ms(state.properties)
        kept_for = txn_ms(state.properties)
        return CheckpointSource(
            state=state,
            files=self._until_stopped(log.files(table_id, version)),
            tombstones=self._until_stopped(log.tombstones(table_id, version, newer_than=expired)),
            txns=[
                txn
                for txn in log.txns(table_id, version)
                if kept_for is None or (txn.last_updated or now) >= now - kept_for
            ],
            domains=log.domains(table_id, version),
        )

    def _must_go_on(self) -> None:
        if self._is_stopped is not None and self._is_stopped():
            raise CheckpointStoppedError

    def _until_stopped(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._must_go_on()
            yield item

    def point_at(self, summary: CheckpointSummary) -> None:
        """Point `_last_checkpoint` at a checkpoint, unless it points at a newer one."""
        path, content = LOG + LAST_CHECKPOINT, render_last_checkpoint(summary)
        while True:
            found = self._objects.read_tagged(path)
            if found is not None and parse_last_checkpoint(found[0]) is None:
                # A broken pointer may be replaced; one that was read in part may be newer.
                must_be_whole(self._objects, path, found[0])
            if not is_newer(summary, found[0] if found else None):
                return
            if self._objects.put_if_match(path, content, found[1] if found else None):
                return
