"""From actions to the rows of the SQL schema, the same for every dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from typing import Any, TypeAlias, overload

import pyarrow as pa

from deltasql.log.pruning.stats_columns import StatsColumn, dump_stats_columns
from deltasql.log.pruning.stats_keys import FileKeys, key_maker
from deltasql.log.pruning.stats_keys_many import ManyKeysMaker
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)

Row: TypeAlias = tuple[Any, ...]
# As many rows are made together where all of them are wanted.
_AT_ONCE = 64

ADD_COLUMNS = (
    "path_key",
    "dv_key",
    "partition_key",
    "size_bytes",
    "modification_time",
    "num_records",
    "base_row_id",
    "default_row_commit_version",
    "data_change",
    "min_keys",
    "max_keys",
    "null_counts",
    "path",
    "partition_values",
    "stats",
    "tags",
    "deletion_vector",
    "clustering_provider",
    "extra",
)
REMOVE_COLUMNS = (
    "path_key",
    "dv_key",
    "path",
    "deletion_timestamp",
    "data_change",
    "deletion_vector",
    "action",
)
TXN_COLUMNS = ("app_key", "app_id", "txn_version", "last_updated")
DOMAIN_COLUMNS = ("domain_key", "domain", "configuration", "removed")
CDC_COLUMNS = ("path", "size_bytes", "partition_values", "action")
METADATA_COLUMNS = (
    "schema_json",
    "partition_columns",
    "table_properties",
    "stats_columns",
    "action",
)
PROTOCOL_COLUMNS = ("min_reader_version", "min_writer_version", "action")
PARTITION_COLUMNS = ("partition_key", "partition_values")

# What a snapshot hands out of each live file; JSON columns are text, verbatim.
FILES_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64(), nullable=False),
        pa.field("partition_values", pa.string(), nullable=False),
        pa.field("stats", pa.string()),
        pa.field("deletion_vector", pa.string()),
        pa.field("num_records", pa.int64()),
        pa.field("data_change", pa.bool_(), nullable=False),
        pa.field("tags", pa.string()),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
        pa.field("clustering_provider", pa.string()),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("extra", pa.string()),
    ]
)


# Not frozen: that constructor would take five times as long, and each small commit runs it.
@dataclass(slots=True, kw_only=True)
class CommitRows:
    """The rows of one commit, each a tuple in the order of its `*_COLUMNS`."""

    adds: Sequence[Row] = ()
    removes: Sequence[Row] = ()
    txns: Sequence[Row] = ()
    domains: Sequence[Row] = ()
    cdc: Sequence[Row] = ()
    metadata: Sequence[Row] = ()
    protocol: Sequence[Row] = ()
    partitions: Sequence[Row] = field(default=())


def key_of(text: str) -> bytes:
    """The 16 bytes that stand for a text in an index; empty for the empty text."""
    return sha256(text.encode()).digest()[:16] if text else b""


def partition_key_of(partition_values: str) -> int:
    """The 64-bit key of a partition, from its canonical JSON."""
    return int.from_bytes(sha256(partition_values.encode()).digest()[:8], signed=True)


_UNPARTITIONED = (partition_key_of("{}"), "{}")


class AddRows(Sequence[Row]):
    """The rows of adds in the order of `ADD_COLUMNS`, each made when it is asked for.

    So the client makes the rows of a large commit while the database writes those before.
    """

    __slots__ = ("_adds", "_columns", "_many")

    def __init__(
        self, adds: Sequence[tuple[int, str, AddFile]], stats_columns: tuple[StatsColumn, ...]
    ) -> None:
        self._adds = adds
        self._columns = stats_columns
        self._many: ManyKeysMaker | None = None

    def __len__(self) -> int:
        return len(self._adds)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if not isinstance(place, slice):
            item = self._adds[place]
            return _add_row(*item, key_maker(self._columns).keys(item[2].stats))
        if self._many is None:
            self._many = ManyKeysMaker(self._columns)
        items = self._adds[place]
        keys = self._many.keys([add.stats for _, _, add in items])
        return [_add_row(*item, found) for item, found in zip(items, keys, strict=True)]

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self._adds), _AT_ONCE):
            yield from self[start : start + _AT_ONCE]


def _add_row(partition_key: int, partition: str, add: AddFile, keys: FileKeys) -> Row:
    records, min_keys, max_keys, null_counts = keys
    vector = add.deletion_vector
    return (
        key_of(add.path),
        b"" if vector is None else key_of(vector.unique_id),
        partition_key,
        add.size,
        add.modification_time,
        records,
        add.base_row_id,
        add.default_row_commit_version,
        add.data_change,
        min_keys,
        max_keys,
        null_counts,
        add.path,
        partition,
        add.stats,
        None if add.tags is None else _json(add.tags),
        None if vector is None else _vector(vector),
        add.clustering_provider,
        _json(add.extra) if add.extra else None,
    )


def to_rows(actions: Iterable[Action], stats_columns: tuple[StatsColumn, ...]) -> CommitRows:
    """The rows of a commit; `stats_columns` are those of the metadata it leaves current.

    Adds are sorted by partition, so that a partition's files lie together on disk.
    """
    adds: list[tuple[int, str, AddFile]] = []
    partitions: dict[int, str] = {}
    # Files are many, partitions few: the text and key of each are made once.
    known: dict[tuple[tuple[str, str | None], ...], tuple[int, str]] = {(): _UNPARTITIONED}
    found: dict[type, list[Row]] = {}
    for action in actions:
        if type(action) is AddFile:
            values = tuple(action.partition_values.items())
            partition = known.get(values)
            if partition is None:
                text = codec.dumps(action.partition_values).decode()
                partition = known[values] = partition_key_of(text), text
                partitions[partition[0]] = text
            adds.append((*partition, action))
        elif type(action) is Metadata:
            found[Metadata] = [_metadata_row(action, stats_columns)]
        elif type(action) in _ROW_MAKERS:
            found.setdefault(type(action), []).append(_ROW_MAKERS[type(action)](action))
    if len(partitions) > 1:
        adds.sort(key=itemgetter(0))
    rows = CommitRows(adds=AddRows(adds, stats_columns), partitions=sorted(partitions.items()))
    if found:
        rows.removes = found.get(RemoveFile, ())
        rows.txns = found.get(Txn, ())
        rows.domains = found.get(DomainMetadata, ())
        rows.cdc = found.get(CdcFile, ())
        rows.metadata = found.get(Metadata, ())
        rows.protocol = found.get(Protocol, ())
    return rows


def _remove_row(remove: RemoveFile) -> Row:
    return (
        key_of(remove.path),
        key_of(remove.dv_id),
        remove.path,
        remove.deletion_timestamp,
        remove.data_change,
        _vector(remove.deletion_vector),
        _action_json(remove),
    )


def _txn_row(txn: Txn) -> Row:
    return key_of(txn.app_id), txn.app_id, txn.version, txn.last_updated


def _domain_row(domain: DomainMetadata) -> Row:
    return key_of(domain.domain), domain.domain, domain.configuration, domain.removed


def _cdc_row(cdc: CdcFile) -> Row:
    return cdc.path, cdc.size, codec.dumps(cdc.partition_values).decode(), _action_json(cdc)


def _metadata_row(metadata: Metadata, stats_columns: Sequence[StatsColumn]) -> Row:
    return (
        metadata.schema_string,
        codec.dumps(list(metadata.partition_columns)).decode(),
        codec.dumps(metadata.configuration).decode(),
        dump_stats_columns(stats_columns),
        _action_json(metadata),
    )


def _protocol_row(protocol: Protocol) -> Row:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        _action_json(protocol),
    )


_ROW_MAKERS: Mapping[type, Any] = {
    RemoveFile: _remove_row,
    Txn: _txn_row,
    DomainMetadata: _domain_row,
    CdcFile: _cdc_row,
    Protocol: _protocol_row,
}


def _json(value: Any) -> str | None:
    return None if value is None else codec.dumps(value).decode()


def _vector(vector: DeletionVector | None) -> str | None:
    return None if vector is None else codec.dumps(codec.wire_fields(vector)).decode()


def _action_json(action: Action) -> str:
    """The action's own object, without the name of its kind around it."""
    return codec.dumps(codec.wire_fields(action)).decode()
