"""All keys: of table properties, with their allowed values, and of columns.

No other module spells one out, since a misspelt key is a property that is silently off.

The `delta.*` keys are those that Delta Spark knows, with its rules, and a few that related projects
write. A `delta.*` key that is not here is unknown: most often a misspelt one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from deltasql.spec.intervals import parse_interval

DELTA_PREFIX: Final = "delta."
CONSTRAINT_PREFIX: Final = "delta.constraints."
FEATURE_PREFIX: Final = "delta.feature."

APPEND_ONLY: Final = "delta.appendOnly"
CHANGE_FEED: Final = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
CHECKPOINT_POLICY: Final = "delta.checkpointPolicy"
COLUMN_MAPPING_MODE: Final = "delta.columnMapping.mode"
COMMIT_COORDINATOR: Final = "delta.coordinatedCommits.commitCoordinator-preview"
DELETED_FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
DELETION_VECTORS: Final = "delta.enableDeletionVectors"
EXPIRED_LOG_CLEANUP: Final = "delta.enableExpiredLogCleanup"
ICEBERG_COMPAT_V1: Final = "delta.enableIcebergCompatV1"
ICEBERG_COMPAT_V2: Final = "delta.enableIcebergCompatV2"
ICEBERG_COMPAT_V3: Final = "delta.enableIcebergCompatV3"
ISOLATION_LEVEL: Final = "delta.isolationLevel"
LOG_RETENTION: Final = "delta.logRetentionDuration"
TRUNCATED_LOG_RETENTION: Final = "delta.dropFeatureTruncateHistory.retentionDuration"
MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"
MIN_READER_VERSION: Final = "delta.minReaderVersion"
MIN_WRITER_VERSION: Final = "delta.minWriterVersion"
NUM_INDEXED_COLUMNS: Final = "delta.dataSkippingNumIndexedCols"
RANDOM_PREFIX_LENGTH: Final = "delta.randomPrefixLength"
ROW_COMMIT_VERSION_COLUMN: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"
ROW_ID_COLUMN: Final = "delta.rowTracking.materializedRowIdColumnName"
ROW_TRACKING: Final = "delta.enableRowTracking"
ROW_TRACKING_SUSPENDED: Final = "delta.rowTrackingSuspended"
STATS_AS_JSON: Final = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT: Final = "delta.checkpoint.writeStatsAsStruct"
STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
TARGET_FILE_SIZE: Final = "delta.targetFileSize"
TIMESTAMPS: Final = "delta.enableInCommitTimestamps"
TIMESTAMPS_SINCE: Final = "delta.inCommitTimestampEnablementVersion"
TIMESTAMPS_SINCE_TIME: Final = "delta.inCommitTimestampEnablementTimestamp"
TXN_RETENTION: Final = "delta.setTransactionRetentionDuration"
TYPE_WIDENING: Final = "delta.enableTypeWidening"
VARIANT_SHREDDING: Final = "delta.enableVariantShredding"

# Our own properties.
FENCE: Final = "deltasql.fence"
MIRROR_CHECKPOINT_INTERVAL: Final = "mirror.checkpoint_interval"
MIRROR_MODE: Final = "mirror.mode"
SYNC, ASYNC, OFF = "sync", "async", "off"

# Metadata of columns.
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
FIELD_ID: Final = "delta.columnMapping.id"
GENERATION_EXPRESSION: Final = "delta.generationExpression"
IDENTITY_ALLOWS_EXPLICIT: Final = "delta.identity.allowExplicitInsert"
IDENTITY_HIGH_WATER_MARK: Final = "delta.identity.highWaterMark"
IDENTITY_START: Final = "delta.identity.start"
IDENTITY_STEP: Final = "delta.identity.step"
INVARIANTS: Final = "delta.invariants"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
TYPE_CHANGES: Final = "delta.typeChanges"

# Tags of files that were ordered together along a curve.
ZCUBE_ID: Final = "ZCUBE_ID"
ZCUBE_COLUMNS: Final = "ZCUBE_ZORDER_BY"
ZCUBE_CURVE: Final = "ZCUBE_ZORDER_CURVE"

# Domains of domainMetadata.
CLUSTERING_DOMAIN: Final = "delta.clustering"
ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"

_FREE_PREFIXES = (CONSTRAINT_PREFIX, FEATURE_PREFIX, "delta.universalformat.config.")
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_INT32, _INT64 = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be: in words, and as a parser that returns None for anything else."""

    words: str
    parse: Callable[[str], bool | int | str | None]


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _integer(lowest: int, highest: int = _INT32, words: str | None = None) -> Kind:
    def parse(text: str) -> int | None:
        number = int(text) if _INTEGER.fullmatch(text) else None
        return number if number is not None and lowest <= number <= highest else None

    return Kind(words or f"an integer of at least {lowest}", parse)


def _one_of(*names: str, exactly: bool = False) -> Kind:
    by_text = {name if exactly else name.lower(): name for name in names}

    def parse(text: str) -> str | None:
        return by_text.get(text if exactly else text.lower())

    return Kind(f"{', '.join(names[:-1])} or {names[-1]}", parse)


def _formats(text: str) -> str | None:
    names = text.split(",") if text else []
    known = len(set(names)) == len(names) and {"iceberg", "hudi"}.issuperset(names)
    return text if known else None


BOOLEAN: Final = Kind("true or false", _boolean)
POSITIVE: Final = _integer(1, words="a positive integer")
INTERVAL: Final = Kind("a duration such as 'interval 30 days' or '12 hours'", parse_interval)
TEXT: Final = Kind("a text", lambda text: text)
_LONG = _integer(0, _INT64)

PROPERTIES: Final[Mapping[str, Kind]] = {
    APPEND_ONLY: BOOLEAN,
    "delta.autoOptimize": BOOLEAN,
    "delta.autoOptimize.autoCompact": _one_of("true", "false", "auto", "legacy"),
    "delta.autoOptimize.optimizeWrite": BOOLEAN,
    "delta.castIcebergTimeType": BOOLEAN,
    STATS_AS_JSON: BOOLEAN,
    STATS_AS_STRUCT: BOOLEAN,
    CHECKPOINT_INTERVAL: POSITIVE,
    CHECKPOINT_POLICY: _one_of("classic", "v2"),
    "delta.checkpointRetentionDuration": INTERVAL,
    # Checked together with the ids of the columns, if there are any.
    MAX_COLUMN_ID: TEXT,
    COLUMN_MAPPING_MODE: _one_of("none", "name", "id"),
    COMMIT_COORDINATOR: TEXT,
    "delta.coordinatedCommits.commitCoordinatorConf-preview": TEXT,
    "delta.coordinatedCommits.tableConf-preview": TEXT,
    NUM_INDEXED_COLUMNS: _integer(-1),
    STATS_COLUMNS: TEXT,
    "delta.dataSkippingStringPrefixLength": _integer(0),
    DELETED_FILE_RETENTION: INTERVAL,
    TRUNCATED_LOG_RETENTION: INTERVAL,
    "delta.enableChangeDataCapture": BOOLEAN,
    CHANGE_FEED: BOOLEAN,
    DELETION_VECTORS: BOOLEAN,
    EXPIRED_LOG_CLEANUP: BOOLEAN,
    "delta.enableFullRetentionRollback": BOOLEAN,
    ICEBERG_COMPAT_V1: BOOLEAN,
    ICEBERG_COMPAT_V2: BOOLEAN,
    ICEBERG_COMPAT_V3: BOOLEAN,
    TIMESTAMPS: BOOLEAN,
    "delta.enableMaterializePartitionColumnsFeature": BOOLEAN,
    ROW_TRACKING: BOOLEAN,
    TYPE_WIDENING: BOOLEAN,
    VARIANT_SHREDDING: BOOLEAN,
    "delta.ignoreIcebergBucketPartition": BOOLEAN,
    "delta.ignoreProtocolDefaults": BOOLEAN,
    TIMESTAMPS_SINCE_TIME: _LONG,
    TIMESTAMPS_SINCE: _LONG,
    # Delta Spark has the strictest level only; the other one is Databricks', and our default.
    ISOLATION_LEVEL: _one_of("WriteSerializable", "Serializable", exactly=True),
    "delta.lastCommitTimestamp": _LONG,
    "delta.lastUpdateVersion": _LONG,
    LOG_RETENTION: INTERVAL,
    MIN_READER_VERSION: _integer(1, 3, words="an integer from 1 to 3"),
    MIN_WRITER_VERSION: _integer(1, 7, words="an integer from 1 to 7"),
    "delta.parquet.compression.codec": TEXT,
    "delta.parquet.format.version": TEXT,
    "delta.parquet.vorder.enabled": BOOLEAN,
    RANDOM_PREFIX_LENGTH: POSITIVE,
    "delta.randomizeFilePrefixes": BOOLEAN,
    "delta.redirectReaderWriter-preview": TEXT,
    "delta.redirectWriterOnly-preview": TEXT,
    "delta.requireCheckpointProtectionBeforeVersion": _LONG,
    ROW_COMMIT_VERSION_COLUMN: TEXT,
    ROW_ID_COLUMN: TEXT,
    ROW_TRACKING_SUSPENDED: BOOLEAN,
    "delta.sampleRetentionDuration": INTERVAL,
    TXN_RETENTION: INTERVAL,
    "delta.symlinkFormatManifest.enabled": BOOLEAN,
    TARGET_FILE_SIZE: TEXT,
    "delta.tuneFileSizesForRewrites": BOOLEAN,
    "delta.universalFormat.enabledFormats": Kind("a list of iceberg and hudi", _formats),
    "delta.universalFormat.iceberg.atomicConversion.supported": BOOLEAN,
    "delta.writePartitionColumnsToParquet": BOOLEAN,
    FENCE: BOOLEAN,
    MIRROR_CHECKPOINT_INTERVAL: POSITIVE,
    MIRROR_MODE: _one_of(SYNC, ASYNC, OFF, exactly=True),
}
_BY_LOWER_KEY = {key.lower(): key for key in PROPERTIES}


def fault_of(key: str, value: str) -> str:
    """What the value of a property fails to be, in words; '' if it is valid."""
    kind = PROPERTIES.get(key)
    if kind is None or kind.parse(value) is not None:
        return ""
    return f"{key} must be {kind.words}"


def is_unknown(key: str) -> bool:
    """Whether a key has Delta's prefix but is not one of Delta's."""
    return (
        key.startswith(DELTA_PREFIX)
        and key not in PROPERTIES
        and not key.lower().startswith(_FREE_PREFIXES)
    )


def closest_key(key: str) -> str | None:
    """The known key that an unknown one was perhaps meant to be."""
    found = difflib.get_close_matches(key.lower(), _BY_LOWER_KEY, n=1, cutoff=0.8)
    return _BY_LOWER_KEY[found[0]] if found else None


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with their keys, and their enumerated values, as Delta spells them."""
    return canonical_values(
        {_BY_LOWER_KEY.get(key.lower(), key): value for key, value in properties.items()}
    )


def canonical_values(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with enumerated values as Delta spells them: true, name, v2."""
    return {key: _canonical_value(key, value) for key, value in properties.items()}


def _canonical_value(key: str, value: str) -> str:
    kind = PROPERTIES.get(key)
    # Values that are not text are refused elsewhere.
    found = kind.parse(value) if kind is not None and isinstance(value, str) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return found if isinstance(found, str) else value


def is_true(properties: Mapping[str, str], key: str) -> bool:
    """Whether a flag is on; it is off by default."""
    return properties.get(key, "").lower() == "true"
