"""Leases and mirror status with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from threading import Event
from typing import Any

import pyarrow as pa

from deltasql.log.checkpoint_rule import Growth
from deltasql.store.bodies import unpack
from deltasql.store.mirroring.interface import (
    LONGEST_LEASE,
    Backlog,
    DueCheckpoint,
    Lease,
    Look,
    MirrorRecord,
    PendingVersion,
    Reached,
    Totals,
    Work,
)
from deltasql.store.rows import Row

_LONGEST = round(LONGEST_LEASE * 1000)
ADDED_KEYS_SCHEMA = pa.schema(
    [("version", pa.int64()), ("path_key", pa.binary()), ("dv_key", pa.binary())]
)
TOMBSTONES_SCHEMA = pa.schema([pa.field("action", pa.string(), nullable=False)])


class MirrorQueries(ABC):
    """What the mirror asks of a store; a dialect says how to run a query."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    @abstractmethod
    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The rows of a query without parameters, in bounded memory."""

    @abstractmethod
    def _record_json(self, **parameters: Any) -> bool:
        """`lease_keep_totals` and, if the lease holds, `mirror_mark_json`, in one."""

    def acquire_lease(
        self, table_id: int, holder: str, seconds: float, work: Work = Work.COMMITS
    ) -> Lease | None:
        found = self._change(
            "lease_take",
            table_id=table_id,
            work=work.value,
            holder=holder,
            milliseconds=round(seconds * 1000),
            longest=_LONGEST,
        )
        if not found:
            return None
        token, version, files, size, due, actions, checkpoint = found[0]
        known = None if version is None else Totals(version, files, size)
        growth = None if due is None else Growth(due, actions)
        return Lease(table_id, holder, token, known, work, growth, checkpoint or 0)

    def renew_lease(self, lease: Lease, seconds: float) -> bool:
        milliseconds = round(seconds * 1000)
        return bool(self._change("lease_renew", milliseconds=milliseconds, **_place(lease)))

    def release_lease(self, lease: Lease) -> None:
        self._change("lease_end", **_place(lease))

    def pending(self, table_id: int, *, most: int, after: int = -1) -> list[PendingVersion]:
        found = self._rows("mirror_pending", table_id=table_id, most=most, after=after)
        return [_pending(row) for row in found]

    def look(self, table_id: int, version: int) -> Look:
        ((is_written, leases),) = self._rows(
            "mirror_look", table_id=table_id, version=version, longest=_LONGEST
        )
        return Look(bool(is_written), not leases)

    def due_checkpoints(self, table_id: int) -> list[DueCheckpoint]:
        return [DueCheckpoint(*row) for row in self._rows("mirror_due", table_id=table_id)]

    def record_mirrored(
        self,
        lease: Lease,
        totals: Totals,
        *,
        first: int,
        interval: int,
        seconds: float,
        last: int | None = None,
        due: int | None = None,
        growth: Growth | None = None,
    ) -> bool:
        return self._record_json(
            table_id=lease.table_id,
            token=lease.token,
            first_version=first,
            last_version=totals.version if last is None else last,
            newest_version=totals.version,
            interval=interval,
            files=totals.files,
            # What a log of others claims of its files may be more than a column holds.
            bytes=min(totals.size_bytes, 2**63 - 1),
            milliseconds=round(seconds * 1000),
            due=-1 if due is None else due,
            due_version=None if growth is None else growth.due_version,
            actions_since=None if growth is None else growth.actions,
        )

    def note_checkpoint(self, table_id: int, actions: int) -> None:
        self._change("lease_note_checkpoint", table_id=table_id, actions=actions)

    def has_lost_files(self, table_id: int, version: int, later: int) -> bool:
        found = self._rows("mirror_lost", table_id=table_id, version=version, later=later)
        return bool(found)

    def record_checkpoint(self, lease: Lease, version: int) -> bool:
        return bool(self._change("mirror_mark_checkpoint", version=version, **_place(lease)))

    def record_failure(self, lease: Lease, version: int, message: str, *, is_final: bool) -> bool:
        status = "FAILED" if is_final else "PENDING"
        return bool(
            self._change(
                "mirror_mark_failed",
                version=version,
                message=message,
                status=status,
                **_place(lease),
            )
        )

    def forget_mirrored(self, table_id: int, *, first: int, last: int) -> int:
        return len(self._change("mirror_forget", table_id=table_id, first=first, last=last))

    def forget_checkpoint(self, table_id: int, version: int) -> bool:
        return bool(self._change("mirror_forget_checkpoint", table_id=table_id, version=version))

    def fill_status(self, table_id: int) -> int:
        return len(self._change("mirror_fill", table_id=table_id))

    def fill_all_statuses(self, *, only_new: bool) -> int:
        return len(self._change("mirror_fill_new" if only_new else "mirror_fill_all"))

    def gaps(self, table_id: int) -> list[tuple[int, int]]:
        return [(int(row[0]), int(row[1])) for row in self._rows("mirror_gaps", table_id=table_id)]

    def mirror_status(self, table_id: int, *, first: int, last: int) -> list[MirrorRecord]:
        found = self._rows("mirror_status", table_id=table_id, first=first, last=last)
        return [_record(row) for row in found]

    def mirror_reached(self, table_id: int, *, upto: int, by: int) -> Reached | None:
        ((newest, then),) = self._rows("mirror_reached", table_id=table_id, upto=upto, by=by)
        return None if newest is None else Reached(int(newest), -1 if then is None else int(then))

    def backlog(self) -> list[Backlog]:
        return [_backlog(row) for row in self._rows("mirror_backlog")]

    def open_backlog(self) -> list[Backlog]:
        return [_backlog(row) for row in self._rows("mirror_open_backlog")]

    def backlog_of(self, table_id: int) -> Backlog | None:
        found = self._rows("mirror_backlog_of", table_id=table_id)
        return _backlog(found[0]) if found else None

    def mirror_heads(self, *, since: int) -> list[tuple[int, int, int]]:
        return [(row[0], row[1], row[2]) for row in self._rows("mirror_heads", since=since)]

    def set_mirror_paused(self, table_id: int, *, paused: bool) -> bool:
        return bool(self._change("mirror_pause", table_id=table_id, paused=paused))

    def added_keys(self, table_id: int, version: int) -> Iterator[tuple[int, bytes]]:
        query = self._text("live_keys_at").format(table_id=int(table_id), version=int(version))
        for batch in self._stream(query, ADDED_KEYS_SCHEMA):
            columns = (column.to_pylist() for column in batch.columns)
            for added, path_key, dv_key in zip(*columns, strict=True):
                yield added, path_key + dv_key

    def tombstones(self, table_id: int, version: int, *, newer_than: int) -> pa.RecordBatchReader:
        query = self._text("tombstones_at").format(
            table_id=int(table_id), version=int(version), newer_than=int(newer_than)
        )
        return self._stream(query, TOMBSTONES_SCHEMA)

    @abstractmethod
    def _text(self, name: str) -> str:
        """The text of a named query."""

    def totals(self, table_id: int, version: int) -> Totals:
        ((files, size),) = self._rows("totals_at", table_id=table_id, version=version)
        return Totals(version, int(files), int(size))

    def wake_mirror(self) -> None:
        """Nothing to do: nobody else waits on a database in our own process."""
        return

    def wait_for_work(self, seconds: float, stop: Event) -> None:
        stop.wait(seconds)

    def clock_ms(self) -> int:
        ((now,),) = self._rows("clock")
        return int(now)


def _place(lease: Lease) -> dict[str, Any]:
    return {"table_id": lease.table_id, "work": lease.work.value, "token": lease.token}


def _pending(row: Row) -> PendingVersion:
    version, timestamp, digest, retries, age, paused, earliest, files, size, encoding, body = row
    return PendingVersion(
        version=version,
        in_commit_timestamp=timestamp,
        digest=bytes(digest),
        retry_count=retries,
        age_ms=age,
        is_paused=bool(paused),
        earliest=earliest or 0,
        gone_files=files,
        gone_bytes=int(size),
        body=None if body is None else unpack(encoding, bytes(body)),
    )


def _record(row: Row) -> MirrorRecord:
    version, status, is_written, has_checkpoint, message, retries, attempt, done, digest = row
    return MirrorRecord(
        version=version,
        status=status,
        json_written=bool(is_written),
        checkpoint_written=bool(has_checkpoint),
        error_message=message,
        retry_count=retries,
        last_attempt_at=attempt,
        mirrored_at=done,
        digest=bytes(digest),
    )


def _backlog(row: Row) -> Backlog:
    (table_id, name, location, paused, head, versions, first, oldest, retries, attempt) = row[:10]
    status, message, checkpoints, first_due, due_retries, due_attempt, properties, gap = row[10:]
    return Backlog(
        table_id=table_id,
        name=name,
        location=location,
        is_paused=bool(paused),
        head=head,
        versions=versions or 0,
        first_version=first,
        oldest=oldest,
        retry_count=retries or 0,
        last_attempt_at=attempt,
        is_failed=status == "FAILED",
        error_message=message,
        checkpoints=checkpoints or 0,
        first_checkpoint=first_due,
        checkpoint_retry_count=due_retries or 0,
        checkpoint_attempt_at=due_attempt,
        properties=properties or "{}",
        gap_versions=gap or 0,
    )
