"""Checksum files compared with SQL: readers take sums, schema and protocol from them."""

from __future__ import annotations

from typing import Any

from deltasql.delta_log.listing import LogListing
from deltasql.delta_log.names import LOG, crc_name
from deltasql.errors import LogFormatError
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.content import restated_metadata, restated_protocol
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Metadata, Protocol
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Totals

# Sums, schema and protocol are a few kilobytes; others list files as well.
_LARGEST = 64 * 1024 * 1024


def is_wrong(
    log: LogStore, objects: ObjectStore, listing: LogListing, table_id: int, version: int
) -> bool:
    """Whether a version's checksum file says something else than SQL; it may be absent."""
    if version not in listing.checksums:
        return False
    path = LOG + crc_name(version)
    record = log.state(table_id, version)
    if record is None:
        return False
    try:
        if objects.size(path) > _LARGEST:
            return True
        found = codec.loads(objects.read(path))
    except FileNotFoundError:
        return False
    except (ValueError, RecursionError, LogFormatError):
        return True
    return not _agrees(found, record.parsed(), log.totals(table_id, version))


def _agrees(found: Any, state: TableState, totals: Totals) -> bool:
    if not isinstance(found, dict):
        return False
    sums = found.get("numFiles"), found.get("tableSizeBytes")
    if sums != (totals.files, totals.size_bytes):
        return False
    told = found.get("inCommitTimestampOpt")
    if told is not None and told != state.in_commit_timestamp:
        return False
    # Writers of other checksums leave out what they do not know.
    for key, kind in (("metadata", "metaData"), ("protocol", "protocol")):
        if found.get(key) is not None and not _is_same(kind, found[key], state):
            return False
    return True


def _is_same(kind: str, told: Any, state: TableState) -> bool:
    try:
        action = codec.decode(codec.dumps({kind: told}))
    except LogFormatError:
        return False
    if isinstance(action, Metadata):
        return restated_metadata(action) == restated_metadata(state.metadata)
    if isinstance(action, Protocol):
        return restated_protocol(action) == restated_protocol(state.protocol)
    return False
