"""Checkpoints: a table's state at a version as one Parquet file.

Written from what SQL selects, row group by row group, so that memory stays bounded however
many files there are. The first row group holds protocol, metaData, txns and domains: readers
that only want those skip the rest by its null counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltasql.delta_log.checkpoint.columns import adds, removes, table_actions
from deltasql.delta_log.checkpoint.file import ActionFile, Sink, portions
from deltasql.delta_log.checkpoint.schema import CheckpointShape, shape_of
from deltasql.log.state import TableState
from deltasql.spec.protocol import check_readable
from deltasql.store.interface import TxnRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSource:
    """A table at a version, as the store selects it.

    `files` has `rows.FILES_SCHEMA`; `tombstones` one column `action` with the JSON of each remove's
    own object, without the expired ones. Both are consumed once.
    """

    state: TableState
    files: Iterable[pa.RecordBatch]
    tombstones: Iterable[pa.RecordBatch]
    txns: Sequence[TxnRecord]
    domains: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSummary:
    """What `_last_checkpoint` says about a checkpoint; `size` counts actions, in sidecars too."""

    version: int
    size: int
    size_in_bytes: int
    num_of_add_files: int


def write_checkpoint(sink: Sink, source: CheckpointSource) -> CheckpointSummary:
    """Write a classic checkpoint; the object must become visible after `V.json` (rule 22).

    Fields that the spec does not know are not repeated here: they are in the commit files.
    """
    state = source.state
    # A checkpoint restates what it read, so its writer must be able to read (rule 39).
    check_readable(state.protocol)
    shape = shape_of(state)
    with ActionFile(sink, shape.classic()) as file:
        file.write(table_actions(state, source.txns, source.domains))
        for column in add_columns(source.files, shape):
            file.write({"add": column})
        for column in remove_columns(source.tombstones):
            file.write({"remove": column})
    return CheckpointSummary(
        version=state.version,
        size=file.actions.total(),
        size_in_bytes=file.size_in_bytes,
        num_of_add_files=file.actions["add"],
    )


def add_columns(files: Iterable[pa.RecordBatch], shape: CheckpointShape) -> Iterator[pa.Array]:
    """The live files in portions of a row group."""
    return (adds(portion, shape) for portion in portions(files))


def remove_columns(tombstones: Iterable[pa.RecordBatch]) -> Iterator[pa.Array]:
    """The tombstones in portions of a row group."""
    return (removes(portion) for portion in portions(tombstones))
