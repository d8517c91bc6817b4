"""The content of a checkpoint in the mirror, compared with what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltasql.delta_log.listing import FoundCheckpoint
from deltasql.delta_log.reading import checkpoint_actions
from deltasql.errors import LogFormatError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.log.retention import txn_ms
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile, DomainMetadata, Metadata, Protocol, Txn
from deltasql.store.checking.content import compact, hashes_of_add

# Tombstones are left out: they expire, so two checkpoints of a version may differ in them.
_COMPARED = ("protocol", "metaData", "txn", "domainMetadata", "add")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContent:
    """A table at a version: what a checkpoint must contain. Metadata and protocol may be unknown.

    `txns` maps applications to version and time, `domains` maps domains to their configuration.
    """

    sums: FileSums
    metadata: Metadata | None
    protocol: Protocol | None
    txns: Mapping[str, tuple[int, int | None]]
    domains: Mapping[str, str]


def checkpoint_difference(
    objects: ObjectStore, found: FoundCheckpoint, truth: TableContent
) -> str | None:
    """What is wrong in a readable checkpoint; None if it is correct."""
    try:
        told = _read(objects, found)
    except LogFormatError as error:
        return f"it can't be understood: {error.cause}"
    if not told.sums.has_files_of(truth.sums):
        return "its files, or what it says about them, differ from the commits"
    if truth.metadata is not None and (
        told.metadata is None
        or restated_metadata(told.metadata) != restated_metadata(truth.metadata)
    ):
        return "its metadata differs from the commits"
    if truth.protocol is not None and (
        told.protocol is None
        or restated_protocol(told.protocol) != restated_protocol(truth.protocol)
    ):
        return "its protocol differs from the commits"
    if not _same_txns(told, truth):
        return "its application transactions differ from the commits"
    if told.domains != truth.domains:
        return "its domains differ from the commits"
    return None


def _read(objects: ObjectStore, found: FoundCheckpoint) -> TableContent:
    sums = FileSum()
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txns: dict[str, tuple[int, int | None]] = {}
    domains: dict[str, str] = {}
    for action in checkpoint_actions(objects, found, kinds=_COMPARED):
        match action:
            case AddFile():
                sums.add(hashes_of_add(action))
            case Metadata():
                metadata = action
            case Protocol():
                protocol = action
            case Txn():
                txns[action.app_id] = (action.version, action.last_updated)
            case DomainMetadata() if not action.removed:
                domains[action.domain] = action.configuration
            case _:
                pass
    return TableContent(
        sums=sums.value(), metadata=metadata, protocol=protocol, txns=txns, domains=domains
    )


def _same_txns(told: TableContent, truth: TableContent) -> bool:
    """Transactions that the table does not keep for ever may be gone from its checkpoints."""
    may_expire = truth.metadata is None or txn_ms(truth.metadata.configuration) is not None
    if not may_expire:
        return dict(told.txns) == dict(truth.txns)
    return all(truth.txns.get(name) == txn for name, txn in told.txns.items())


def restated_metadata(metadata: Metadata) -> Metadata:
    """The metadata that commit files and checkpoints share: checkpoints don't repeat fields that
    the spec does not know, and may space the schema's text anew.
    """
    return replace(
        metadata,
        extra={},
        format=replace(metadata.format, extra={}),
        schema_string=compact(metadata.schema_string),
    )


def restated_protocol(protocol: Protocol) -> tuple[Any, ...]:
    """The protocol as commit files and checkpoints share it; features are a set (rule 38)."""
    features = (protocol.reader_features, protocol.writer_features)
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        *(None if names is None else frozenset(names) for names in features),
    )
