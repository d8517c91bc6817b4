"""What is current at a version of a table: its metadata and protocol, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

from deltasql.errors import LogFormatError
from deltasql.log.pruning.stats_columns import StatsColumn, load_stats_columns
from deltasql.spec import codec
from deltasql.spec.actions import Metadata, Protocol
from deltasql.spec.properties import (
    APPEND_ONLY,
    CHANGE_FEED,
    COLUMN_MAPPING_MODE,
    DELETION_VECTORS,
    ISOLATION_LEVEL,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    TIMESTAMPS,
    is_true,
)
from deltasql.spec.protocol import implied_features
from deltasql.spec.schema import DeltaType, StructType, parse_schema

Isolation = Literal["WriteSerializable", "Serializable"]
ColumnMapping = Literal["none", "name", "id"]

WRITE_SERIALIZABLE: Final = "WriteSerializable"
SERIALIZABLE: Final = "Serializable"

# Shared by all versions with the same text, and by all tables of the same shape.
_schema = lru_cache(maxsize=256)(parse_schema)
_stats_columns = lru_cache(maxsize=256)(load_stats_columns)


@lru_cache(maxsize=256)
def _metadata(text: str) -> Metadata:
    found = codec.from_wire({"metaData": codec.loads(text, source="metaData")})
    assert isinstance(found, Metadata)
    return found


@lru_cache(maxsize=256)
def _protocol(text: str) -> Protocol:
    found = codec.from_wire({"protocol": codec.loads(text, source="protocol")})
    assert isinstance(found, Protocol)
    return found


# Not slotted: `cached_property` stores its value in the instance.
@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table at a version, without its files."""

    version: int
    in_commit_timestamp: int
    metadata: Metadata
    metadata_version: int
    protocol: Protocol
    protocol_version: int
    stats_columns: tuple[StatsColumn, ...] = ()

    @classmethod
    def from_json(
        cls,
        *,
        version: int,
        in_commit_timestamp: int,
        metadata: str,
        metadata_version: int,
        protocol: str,
        protocol_version: int,
        stats_columns: str = "[]",
    ) -> TableState:
        """The state from what a store keeps: the two actions' own objects as JSON."""
        return cls(
            version=version,
            in_commit_timestamp=in_commit_timestamp,
            metadata=_metadata(metadata),
            metadata_version=metadata_version,
            protocol=_protocol(protocol),
            protocol_version=protocol_version,
            stats_columns=_stats_columns(stats_columns),
        )

    def at(self, version: int, in_commit_timestamp: int) -> TableState:
        """The same metadata and protocol at a later version, with all that is known of them."""
        later = object.__new__(TableState)
        # What is cached here rests on metadata and protocol alone.
        vars(later).update(vars(self), version=version, in_commit_timestamp=in_commit_timestamp)
        return later

    # --- schema -----------------------------------------------------------------------

    @cached_property
    def schema(self) -> StructType:
        """The schema, parsed."""
        return _schema(self.metadata.schema_string)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns by their logical names."""
        return self.metadata.partition_columns

    @cached_property
    def partition_types(self) -> Mapping[str, DeltaType]:
        """The type of each partition column by the name that partition values use."""
        found = {}
        for name in self.metadata.partition_columns:
            field = self.schema.field(name)
            if field is None:
                raise LogFormatError(
                    f"the partition column {name!r:.80} is not in the schema",
                    cause="the table's metaData contradicts itself",
                    remedy="commit a metaData action whose schema has the column",
                )
            mapped = self.column_mapping != "none"
            found[field.physical_name if mapped else field.name] = field.type
        return found

    @cached_property
    def column_mapping(self) -> ColumnMapping:
        """How columns are found in data files; a mode without the feature is ignored."""
        mode = self.properties.get(COLUMN_MAPPING_MODE, "none").lower()
        if "columnMapping" not in self.reader_features:
            return "none"
        return "name" if mode == "name" else "id" if mode == "id" else "none"

    # --- properties -------------------------------------------------------------------

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties as they are written in the log."""
        return self.metadata.configuration

    @cached_property
    def reader_features(self) -> frozenset[str]:
        """The features that readers must know, including those of legacy versions."""
        return implied_features(self.protocol)[0]

    @cached_property
    def writer_features(self) -> frozenset[str]:
        """The features that writers must know, including those of legacy versions."""
        return implied_features(self.protocol)[1]

    @cached_property
    def is_append_only(self) -> bool:
        """Whether rows may be added and rearranged, but never removed."""
        return self._is_on(APPEND_ONLY, "appendOnly")

    @cached_property
    def isolation(self) -> Isolation:
        """The isolation of writers; an unknown level counts as the strictest."""
        level = self.properties.get(ISOLATION_LEVEL, WRITE_SERIALIZABLE)
        return WRITE_SERIALIZABLE if level == WRITE_SERIALIZABLE else SERIALIZABLE

    @cached_property
    def row_tracking(self) -> bool:
        """Whether every commit must number its rows (rule 47): supported and not suspended."""
        suspended = is_true(self.properties, ROW_TRACKING_SUSPENDED)
        return "rowTracking" in self.writer_features and not suspended

    @cached_property
    def has_row_ids(self) -> bool:
        """Whether every row has an id, so that readers may use it."""
        return self.row_tracking and self._is_on(ROW_TRACKING, "rowTracking")

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether files may have deletion vectors, for example old ones."""
        return "deletionVectors" in self.writer_features

    @cached_property
    def writes_deletion_vectors(self) -> bool:
        """Whether the table asks for new deletion vectors."""
        return self._is_on(DELETION_VECTORS, "deletionVectors")

    @cached_property
    def in_commit_timestamps(self) -> bool:
        """Whether the time of a commit is its in-commit timestamp."""
        return self._is_on(TIMESTAMPS, "inCommitTimestamp")

    @cached_property
    def has_change_feed(self) -> bool:
        """Whether changes are recorded row by row."""
        return self._is_on(CHANGE_FEED, "changeDataFeed")

    def _is_on(self, key: str, feature: str) -> bool:
        """Whether a property is on, which counts only together with its feature (rule 41)."""
        on = is_true(self.properties, key)
        return on and feature in self.writer_features
