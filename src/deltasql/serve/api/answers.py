"""What the API answers, as OpenAPI describes it. Times are ISO-8601 in UTC."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltasql.lake.history import HistoryEntry
from deltasql.lake.snapshot import Snapshot
from deltasql.log.timestamps import from_ms
from deltasql.objectstore.store import public
from deltasql.spec import codec
from deltasql.store.browsing.interface import ListedFile, ListedVersion, TableListing


@dataclass(frozen=True, slots=True)
class TableItem:
    """A table; files and bytes are those of `mirrored_version`."""

    name: str
    location: str
    version: int
    committed_at: datetime
    mirrored_version: int | None
    files: int | None
    bytes: int | None
    read_only: str | None
    is_paused: bool

    @classmethod
    def of(cls, item: TableListing) -> TableItem:
        """The answer for a listing."""
        return cls(
            name=item.name,
            location=shown_location(item.location),
            version=item.version,
            committed_at=from_ms(item.last_ict),
            mirrored_version=item.mirrored_version,
            files=item.files,
            bytes=item.size_bytes,
            read_only=item.read_only_reason,
            is_paused=item.is_paused,
        )


@dataclass(frozen=True, slots=True)
class TablePage:
    """Tables by name; `next` is the `after` of the page that follows."""

    tables: list[TableItem]
    next: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a schema; its type is Arrow's."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """A table at a version; `schema_string` is Delta's own."""

    table: str
    version: int
    timestamp: datetime
    columns: list[Column]
    schema_string: str
    partition_columns: list[str]
    properties: dict[str, str]
    min_reader_version: int
    min_writer_version: int
    features: list[str]

    @classmethod
    def of(cls, table: str, snapshot: Snapshot) -> SnapshotItem:
        """The answer for a snapshot."""
        protocol = snapshot.protocol
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        return cls(
            table=table,
            version=snapshot.version,
            timestamp=snapshot.timestamp,
            columns=columns_of(snapshot),
            schema_string=snapshot.metadata.schema_string,
            partition_columns=list(snapshot.metadata.partition_columns),
            properties=dict(snapshot.properties),
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            features=sorted(features),
        )


def columns_of(snapshot: Snapshot) -> list[Column]:
    """The columns of a snapshot."""
    return [Column(field.name, str(field.type), field.nullable) for field in snapshot.schema]


@dataclass(frozen=True, slots=True)
class FileItem:
    """A live file."""

    path: str
    size: int
    modification_time: datetime
    partition_values: dict[str, str | None]
    stats: Any
    records: int | None
    has_deletion_vector: bool
    version: int

    @classmethod
    def of(cls, item: ListedFile) -> FileItem:
        """The answer for a file; stats that can't be read are text."""
        return cls(
            path=item.path,
            size=item.size,
            modification_time=from_ms(item.modification_time),
            partition_values=codec.load_partition_values(item.partition_values),
            stats=_stats(item.stats),
            records=item.num_records,
            has_deletion_vector=item.deletion_vector is not None,
            version=item.version,
        )


def _stats(text: str | None) -> Any:
    if text is None:
        return None
    try:
        # Stats may contain NaN, which JSON can't express.
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class FilePage:
    """Files of one version, in a fixed order; `next` is the `after` of the page that follows."""

    version: int
    files: list[FileItem]
    next: str | None


@dataclass(frozen=True, slots=True)
class MirroredVersion:
    """A version, and whether it has reached the object store."""

    version: HistoryEntry
    status: str | None
    has_commit_file: bool
    has_checkpoint: bool
    mirrored_at: datetime | None
    attempts_failed: int
    error_message: str | None

    @classmethod
    def of(cls, item: ListedVersion) -> MirroredVersion:
        """The answer for a listed version."""
        return cls(
            version=HistoryEntry.of(item.record),
            status=item.status,
            has_commit_file=item.json_written,
            has_checkpoint=item.checkpoint_written,
            mirrored_at=None if item.mirrored_at is None else from_ms(item.mirrored_at),
            attempts_failed=item.retry_count,
            error_message=item.error_message,
        )


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Versions, newest first; `next` is the `before` of the page that follows."""

    versions: list[MirroredVersion]
    next: int | None


@dataclass(frozen=True, slots=True)
class AuditItem:
    """A version of some table."""

    table: str
    version: HistoryEntry


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Versions of all tables, newest first; `next` is the `after` of the page that follows."""

    entries: list[AuditItem]
    next: str | None


def shown_location(location: str) -> str:
    """A location without its possible secrets."""
    return public(location) if "://" in location else location
