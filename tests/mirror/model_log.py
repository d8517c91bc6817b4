"""The SQL side of the mirror as a plain model: versions, status, leases, and a clock of its own.

What the publish runs ask of a store, in memory, so that thousands of schedules run in a minute. A
crash of the database loses what was recorded without waiting for the disk, as on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa

from deltasql.log.checkpoint_rule import Growth
from deltasql.log.retention import checkpoint_interval
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, CommitInfo, Metadata, Protocol, RemoveFile
from deltasql.store.checking.interface import TrustedVersion
from deltasql.store.checking.queries import KEYS_SCHEMA
from deltasql.store.interface import CommitRecord, Head
from deltasql.store.mirroring.interface import (
    DueCheckpoint,
    Lease,
    MirrorRecord,
    PendingVersion,
    Totals,
    Work,
)
from deltasql.store.rows import key_of, to_rows

TABLE_ID = 1
DEFAULT_INTERVAL = 10
METADATA = Metadata(
    id="6f3a7a34-0000-4000-8000-000000000001", schema_string='{"type":"struct","fields":[]}'
)
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)


@dataclass
class Version:
    """A committed version, and what it did to the sums."""

    body: bytes
    digest: bytes
    state: TableState
    totals: Totals
    gone: tuple[int, int]
    live: dict[str, int]

    @property
    def interval(self) -> int:
        """Between checkpoints, from this version on."""
        return checkpoint_interval(self.state.properties) or DEFAULT_INTERVAL


@dataclass(frozen=True)
class Status:
    """What SQL says of a version."""

    is_written: bool = False
    has_checkpoint: bool = False
    status: str = "PENDING"
    retries: int = 0
    attempt: int | None = None


@dataclass(frozen=True)
class Held:
    """A lease: its token, its end, and what it keeps: sums, and the log's growth."""

    token: int = 0
    expires: int = 0
    totals: Totals | None = None
    growth: Growth | None = None


@dataclass
class Disk:
    """What the database keeps."""

    statuses: list[Status] = field(default_factory=list)
    leases: dict[Work, Held] = field(default_factory=lambda: {work: Held() for work in Work})

    def copy(self) -> Disk:
        return Disk([*self.statuses], {**self.leases})


class ModelLog:
    """Implements what publish runs ask of a store."""

    def __init__(self) -> None:
        self.now = 1_000
        self.versions: list[Version] = []
        self.is_paused = False
        self.disk = Disk()
        self._safe = Disk()
        self._live: dict[str, int] = {}
        self._metadata = METADATA
        self._trusted: list[TrustedVersion] = []
        self.commit(is_change=True)

    # --- writers --------------------------------------------------------------------------

    def commit(
        self, adds: dict[str, int] | None = None, removes: int = 0, *, is_change: bool = False
    ) -> int:
        """Commit a version that adds files, removes the oldest, or changes the metadata."""
        number = len(self.versions)
        given = adds or {}
        gone = [path for path in [*self._live][:removes] if path not in given]
        restated = [path for path in given if path in self._live]
        sizes = [self._live[path] for path in (*gone, *restated)]
        info = CommitInfo(operation="WRITE", in_commit_timestamp=number, timestamp=number)
        actions: list[Any] = [info]
        if is_change:
            settings = {"delta.checkpointInterval": str(number % 7 + 1)}
            self._metadata = Metadata(
                id=METADATA.id, schema_string=METADATA.schema_string, configuration=settings
            )
            actions += [self._metadata] + ([PROTOCOL] if number == 0 else [])
        actions += [
            AddFile(path=path, size=size, modification_time=1, partition_values={})
            for path, size in given.items()
        ]
        actions += [RemoveFile(path=path, deletion_timestamp=1) for path in gone]
        for path in gone:
            del self._live[path]
        self._live.update(given)
        body = codec.encode_commit(actions)
        state = TableState(
            version=number,
            in_commit_timestamp=number,
            metadata=self._metadata,
            metadata_version=0,
            protocol=PROTOCOL,
            protocol_version=0,
        )
        totals = Totals(number, len(self._live), sum(self._live.values()))
        self.versions.append(
            Version(
                body, sha256(body).digest(), state, totals, (len(sizes), sum(sizes)), {**self._live}
            )
        )
        self.disk.statuses.append(Status())
        self._flush()
        return number

    # --- the database ---------------------------------------------------------------------

    def _flush(self) -> None:
        self._safe = self.disk.copy()

    def crash(self) -> None:
        """Lose what was not waited for."""
        self.disk = self._safe.copy()

    # --- what publish runs ask -----------------------------------------------------------------

    def commits(
        self, table_id: int, *, after: int, upto: int | None = None
    ) -> Iterator[CommitRecord]:
        del table_id  # there is one
        for number, version in enumerate(self.versions[: None if upto is None else upto + 1]):
            if number > after:
                yield CommitRecord(number, number, version.body)

    def head(self, table_id: int) -> Head:
        last = len(self.versions) - 1
        return Head(table_id, last, last, 0, 0, 0)

    def trusted(self, table_id: int) -> list[TrustedVersion]:
        del table_id
        return self._trusted

    def trust(self, proven: TrustedVersion) -> None:
        self._trusted = [proven]

    def live_keys(self, table_id: int, version: int) -> pa.RecordBatchReader:
        del table_id
        return _keys(self.versions[version].live.items())

    def other_rows(self, table_id: int, kind: str, version: int) -> Iterator[tuple[Any, ...]]:
        del table_id
        for number, item in enumerate(self.versions[: version + 1]):
            for row in getattr(to_rows(codec.decode_commit(item.body), ()), kind):
                yield (number, *row)

    def ended_keys(self, table_id: int, *, after: int, upto: int) -> pa.RecordBatchReader:
        del table_id
        live = {} if after < 0 else self.versions[after].live
        touched = {
            action.path
            for version in self.versions[after + 1 : upto + 1]
            for action in codec.decode_commit(version.body)
            if isinstance(action, AddFile | RemoveFile)
        }
        return _keys((path, size) for path, size in live.items() if path in touched)

    def acquire_lease(
        self, table_id: int, holder: str, seconds: float, work: Work = Work.COMMITS
    ) -> Lease | None:
        held = self.disk.leases[work]
        if held.expires > self.now:
            return None
        held = replace(held, token=held.token + 1, expires=self.now + round(seconds * 1000))
        self.disk.leases[work] = held
        self._flush()
        return Lease(table_id, holder, held.token, held.totals, work, held.growth)

    def renew_lease(self, lease: Lease, seconds: float) -> bool:
        if not self._holds(lease):
            return False
        held = self.disk.leases[lease.work]
        self.disk.leases[lease.work] = replace(held, expires=self.now + round(seconds * 1000))
        return True

    def _holds(self, lease: Lease) -> bool:
        held = self.disk.leases[lease.work]
        return held.token == lease.token and held.expires > self.now

    def release_lease(self, lease: Lease) -> None:
        held = self.disk.leases[lease.work]
        if held.token == lease.token:
            self.disk.leases[lease.work] = replace(held, expires=self.now)
            self._flush()

    def pending(
        self,
        table_id: int,  # noqa: ARG002
        *,
        most: int,
        after: int = -1,
    ) -> list[PendingVersion]:
        statuses = enumerate(self.disk.statuses)
        found = [number for number, status in statuses if number > after and not status.is_written]
        return [self._pending(number) for number in found[:most]]

    def _pending(self, number: int) -> PendingVersion:
        version, status = self.versions[number], self.disk.statuses[number]
        return PendingVersion(
            version=number,
            in_commit_timestamp=number,
            digest=version.digest,
            retry_count=status.retries,
            age_ms=None if status.attempt is None else self.now - status.attempt,
            is_paused=self.is_paused,
            earliest=0,
            gone_files=version.gone[0],
            gone_bytes=version.gone[1],
            body=version.body,
        )

    def mirror_status(
        self,
        table_id: int,  # noqa: ARG002
        *,
        first: int,
        last: int,
    ) -> list[MirrorRecord]:
        return [
            MirrorRecord(
                version=number,
                status=status.status,
                json_written=status.is_written,
                checkpoint_written=status.has_checkpoint,
                error_message=None,
                retry_count=status.retries,
                last_attempt_at=status.attempt,
                mirrored_at=None,
                digest=self.versions[number].digest,
            )
            for number, status in enumerate(self.disk.statuses)
            if first <= number <= last
        ]

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
        if not self._holds(lease):
            return False
        for number in range(first, (totals.version if last is None else last) + 1):
            had = self.disk.statuses[number].has_checkpoint
            is_due = number > 0 and (number % interval == 0 or number == due or had)
            found = Status(True, False, "PENDING" if is_due else "SUCCESS", 0, self.now)
            self.disk.statuses[number] = found
        held = Held(lease.token, self.now + round(seconds * 1000), totals, growth)
        self.disk.leases[lease.work] = held
        return True

    def note_checkpoint(self, table_id: int, actions: int) -> None:
        assert table_id == TABLE_ID
        assert actions > 0

    def record_failure(self, lease: Lease, version: int, message: str, *, is_final: bool) -> bool:
        assert message
        if not self._holds(lease):
            return False
        found = self.disk.statuses[version]
        self.disk.statuses[version] = replace(
            found,
            retries=found.retries + 1,
            attempt=self.now,
            status="FAILED" if is_final else "PENDING",
        )
        self._flush()
        return True

    # --- checkpoints ------------------------------------------------------------------------

    def due_checkpoints(self, table_id: int) -> list[DueCheckpoint]:  # noqa: ARG002
        return [
            DueCheckpoint(number, status.retries, status.attempt)
            for number, status in enumerate(self.disk.statuses)
            if status.is_written and not status.has_checkpoint and status.status != "SUCCESS"
        ]

    def record_checkpoint(self, lease: Lease, version: int) -> bool:
        if not self._holds(lease):
            return False
        self.disk.statuses[version] = Status(True, True, "SUCCESS", 0, self.now)
        self._flush()
        return True

    def files(self, table_id: int, version: int) -> list[tuple[str, int]]:  # noqa: ARG002
        return sorted(self.versions[version].live.items())

    def tombstones(self, table_id: int, version: int, *, newer_than: int) -> list[Any]:  # noqa: ARG002
        return []

    def txns(self, table_id: int, version: int) -> list[Any]:  # noqa: ARG002
        return []

    def domains(self, table_id: int, version: int) -> dict[str, str]:  # noqa: ARG002
        return {}

    def clock_ms(self) -> int:
        return self.now

    # --- states -----------------------------------------------------------------------------

    def totals(self, table_id: int, version: int) -> Totals:  # noqa: ARG002
        return self.versions[version].totals

    def state(self, table_id: int, version: int) -> Any:  # noqa: ARG002
        return _Record(self.versions[version].state)


def _keys(files: Iterable[tuple[str, int]]) -> pa.RecordBatchReader:
    rest = dict.fromkeys(KEYS_SCHEMA.names)
    rows = [
        {
            **rest,
            "path_key": key_of(path),
            "dv_key": b"",
            "size_bytes": size,
            "path": path,
            "modification_time": 1,
            "partition_values": "{}",
        }
        for path, size in files
    ]
    return pa.Table.from_pylist(rows, schema=KEYS_SCHEMA).to_reader()


@dataclass
class _Record:
    kept: TableState

    def parsed(self) -> TableState:
        return self.kept
