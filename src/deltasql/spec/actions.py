"""The actions of a Delta log as frozen values.

Attribute names are Python's, wire names Delta's; `codec` maps one to the other. Fields that the
spec does not know are kept in `extra`, actions that it does not know as `UnknownAction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PartitionValues: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """Where the deleted rows of a file are recorded."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    max_row_index: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unique_id(self) -> str:
        """The id that is half of a file's key; an absent offset differs from `@0`."""
        base = self.storage_type + self.path_or_inline_dv
        return base if self.offset is None else f"{base}@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """A data file joins the table, or one that is already live is restated."""

    path: str
    size: int
    modification_time: int
    partition_values: PartitionValues = field(default_factory=dict)
    data_change: bool = True
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dv_id(self) -> str:
        return "" if self.deletion_vector is None else self.deletion_vector.unique_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """A data file leaves the table; the action stays as its tombstone."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: PartitionValues | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dv_id(self) -> str:
        return "" if self.deletion_vector is None else self.deletion_vector.unique_id

    @classmethod
    def of(cls, add: AddFile, *, deletion_timestamp: int, data_change: bool = True) -> RemoveFile:
        """The remove of `add`, with the extended metadata that the spec asks for."""
        return cls(
            path=add.path,
            deletion_timestamp=deletion_timestamp,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=add.partition_values,
            size=add.size,
            deletion_vector=add.deletion_vector,
            base_row_id=add.base_row_id,
            default_row_commit_version=add.default_row_commit_version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcFile:
    """A file of row changes, for the change data feed."""

    path: str
    size: int
    partition_values: PartitionValues = field(default_factory=dict)
    data_change: bool = False
    tags: Mapping[str, str | None] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How data files are encoded."""

    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The table's schema, partitioning and properties; replaces the previous one entirely."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    format: Format = field(default_factory=Format)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What a client must know to read and to write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """How far an application got: the basis of exactly-once writes."""

    app_id: str
    version: int
    last_updated: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """A named piece of configuration; `removed` hides it."""

    domain: str
    configuration: str
    removed: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """Who did what and when; all but the known fields are in `extra`."""

    in_commit_timestamp: int | None = None
    timestamp: int | None = None
    operation: str | None = None
    operation_parameters: Mapping[str, Any] | None = None
    engine_info: str | None = None
    is_blind_append: bool | None = None
    read_version: int | None = None
    isolation_level: str | None = None
    txn_id: str | None = None
    user_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnknownAction:
    """An action of a later spec, or a private one: passed through unchanged."""

    name: str
    value: Any


Action: TypeAlias = (
    AddFile
    | RemoveFile
    | Metadata
    | Protocol
    | Txn
    | DomainMetadata
    | CdcFile
    | CommitInfo
    | UnknownAction
)
