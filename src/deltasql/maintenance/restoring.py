"""Restore: the files and the metadata of an older version, as a new commit.

As in stock Delta's RESTORE, files added since are removed, and removed ones are added again. What a
table can't undo stays as it is now: the protocol, in-commit timestamps, row tracking, column
mapping, and how far identity columns have got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from deltasql.log.removal import every_row, removes
from deltasql.log.state import TableState
from deltasql.maintenance.altering.mapping import named_as_in_files
from deltasql.showing.report import Report
from deltasql.spec.actions import Action, AddFile, DomainMetadata
from deltasql.spec.column_mapping import max_column_id
from deltasql.spec.properties import (
    CLUSTERING_DOMAIN,
    COLUMN_MAPPING_MODE,
    FENCE,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_STEP,
    MAX_COLUMN_ID,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING,
    TIMESTAMPS,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_TIME,
)
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import StructField, StructType, parse_schema, render_schema

_KEPT: Final = (
    FENCE,
    COLUMN_MAPPING_MODE,
    TIMESTAMPS,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_TIME,
    ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RestoreReport(Report):
    """What a restore did; `metrics` are those of stock Delta's RESTORE."""

    version: int
    restored_version: int
    metrics: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The actions that make a table what it was, and their metrics."""

    actions: tuple[Action, ...]
    added: tuple[AddFile, ...]
    metrics: Mapping[str, int]


def plan(
    *,
    now: TableState,
    then: TableState,
    files_now: Iterable[AddFile],
    files_then: Iterable[AddFile],
    domains_now: Mapping[str, str],
    domains_then: Mapping[str, str],
    deletion_timestamp: int,
) -> Restoration:
    """What turns the table as it is into what it was."""
    current = {(add.path, add.dv_id): add for add in files_now}
    wanted = {(add.path, add.dv_id): add for add in files_then}
    added = tuple(
        replace(add, data_change=True) for key, add in wanted.items() if key not in current
    )
    gone = [add for key, add in current.items() if key not in wanted]
    metrics = {
        "numRestoredFiles": len(added),
        "restoredFilesSize": sum(add.size for add in added),
        "numRemovedFiles": len(gone),
        "removedFilesSize": sum(add.size for add in gone),
        "numOfFilesAfterRestore": len(wanted),
        "tableSizeAfterRestore": sum(add.size for add in wanted.values()),
    }
    actions: list[Action] = [
        *_metadata(now, then),
        *_clustering(domains_now, domains_then),
        *removes(every_row(gone), deletion_timestamp=deletion_timestamp),
        *added,
    ]
    return Restoration(actions=tuple(actions), added=added, metrics=metrics)


def _metadata(now: TableState, then: TableState) -> list[Action]:
    configuration = {key: value for key, value in then.properties.items() if key not in _KEPT} | {
        key: now.properties[key] for key in _KEPT if key in now.properties
    }
    schema_text = then.metadata.schema_string
    if now.column_mapping != "none":
        highest = max(max_column_id(now.properties), max_column_id(then.properties))
        if then.column_mapping == "none":
            mapped, highest = named_as_in_files(then.schema, known=now.schema, highest=highest)
            schema_text = render_schema(mapped)
        configuration[MAX_COLUMN_ID] = str(highest)
    schema_text = _with_marks(schema_text, now.schema)
    metadata = replace(then.metadata, schema_string=schema_text, configuration=configuration)
    if metadata == now.metadata:
        return []
    protocol = upgraded(now.protocol, parse_schema(schema_text), configuration)
    found: list[Action] = [metadata]
    return found if protocol is None else [*found, protocol]


def _with_marks(text: str, now: StructType) -> str:
    """The schema with identity columns that continue from now: no value is used twice."""
    schema = parse_schema(text)
    known = {item.physical_name: item for item in now.fields}
    fields = tuple(_with_mark(item, known.get(item.physical_name)) for item in schema.fields)
    return text if fields == schema.fields else render_schema(StructType(fields))


def _with_mark(item: StructField, now: StructField | None) -> StructField:
    step = item.metadata.get(IDENTITY_STEP)
    newest = None if now is None else now.metadata.get(IDENTITY_HIGH_WATER_MARK)
    if step is None or newest is None:
        return item
    known = item.metadata.get(IDENTITY_HIGH_WATER_MARK)
    further = max if int(step) > 0 else min
    mark = newest if known is None else further(int(known), int(newest))
    return replace(item, metadata={**item.metadata, IDENTITY_HIGH_WATER_MARK: mark})


def _clustering(now: Mapping[str, str], then: Mapping[str, str]) -> list[DomainMetadata]:
    if now.get(CLUSTERING_DOMAIN) == then.get(CLUSTERING_DOMAIN):
        return []
    if CLUSTERING_DOMAIN in then:
        return [DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=then[CLUSTERING_DOMAIN])]
    return [
        DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=now[CLUSTERING_DOMAIN], removed=True)
    ]
