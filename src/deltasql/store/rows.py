"""From actions to the rows of the SQL schema, the same for every dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, overload

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
# How many rows are made together if all of them are wanted.
_AT_ONCE = 64


class AddRow(NamedTuple):
    """A file that is added; little is known about one that is only removed."""

    path_key: bytes
    dv_key: bytes
    partition_key: int
    size_bytes: int
    modification_time: int
    num_records: int | None
    base_row_id: int | None
    default_row_commit_version: int | None
    data_change: bool | None
    min_keys: Any
    max_keys: Any
    null_counts: Any
    path: str
    partition_values: str
    stats: str | None
    tags: str | None
    deletion_vector: str | None
    clustering_provider: str | None
    extra: str | None


class RemoveRow(NamedTuple):
    """A file that is removed; `action` is the remove itself."""

    path_key: bytes
    dv_key: bytes
    path: str
    deletion_timestamp: int | None
    data_change: bool
    deletion_vector: str | None
    action: str


class TxnRow(NamedTuple):
    """What an application committed last."""

    app_key: bytes
    app_id: str
    txn_version: int
    last_updated: int | None


class DomainRow(NamedTuple):
    """A domain and its configuration, or that it was removed."""

    domain_key: bytes
    domain: str
    configuration: str
    removed: bool


class CdcRow(NamedTuple):
    """A file of row changes."""

    path: str
    size_bytes: int
    partition_values: str
    action: str


class MetadataRow(NamedTuple):
    """The metadata of a table; texts are JSON."""

    schema_json: str
    partition_columns: str
    table_properties: str
    stats_columns: str | None
    action: str


class ProtocolRow(NamedTuple):
    """The protocol of a table."""

    min_reader_version: int
    min_writer_version: int
    action: str


ADD_COLUMNS = AddRow._fields
REMOVE_COLUMNS = RemoveRow._fields
TXN_COLUMNS = TxnRow._fields
DOMAIN_COLUMNS = DomainRow._fields
CDC_COLUMNS = CdcRow._fields
METADATA_COLUMNS = MetadataRow._fields
PROTOCOL_COLUMNS = ProtocolRow._fields
PARTITION_COLUMNS = ("partition_key", "partition_values")

# The columns of each live file in a snapshot; JSON columns are text, verbatim.
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


# Not frozen: such a constructor takes five times as long, and each small commit runs it.
@dataclass(slots=True, kw_only=True)
class CommitRows:
    """The rows of one commit."""

    adds: Sequence[AddRow] = ()
    removes: Sequence[RemoveRow] = ()
    txns: Sequence[TxnRow] = ()
    domains: Sequence[DomainRow] = ()
    cdc: Sequence[CdcRow] = ()
    metadata: Sequence[MetadataRow] = ()
    protocol: Sequence[ProtocolRow] = ()
    partitions: Sequence[Row] = field(default=())


def key_of(text: str) -> bytes:
    """The 16 bytes that stand for a text in an index; empty for the empty text."""
    return sha256(text.encode()).digest()[:16] if text else b""


def partition_key_of(partition_values: str) -> int:
    """The 64-bit key of a partition, from its canonical JSON."""
    return int.from_bytes(sha256(partition_values.encode()).digest()[:8], signed=True)


_UNPARTITIONED = (partition_key_of("{}"), "{}")


class AddRows(Sequence[AddRow]):
    """The rows of adds, each made when it is asked for.

    So the client makes the rows of a large commit while the database writes the previous ones.
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
    def __getitem__(self, place: int) -> AddRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[AddRow]: ...
    def __getitem__(self, place: int | slice) -> AddRow | list[AddRow]:
        if not isinstance(place, slice):
            item = self._adds[place]
            return _add_row(*item, key_maker(self._columns).keys(item[2].stats))
        if self._many is None:
            self._many = ManyKeysMaker(self._columns)
        items = self._adds[place]
        keys = self._many.keys([add.stats for _, _, add in items])
        return [_add_row(*item, found) for item, found in zip(items, keys, strict=True)]

    def __iter__(self) -> Iterator[AddRow]:
        if len(self._adds) == 1:
            yield self[0]
            return
        for start in range(0, len(self._adds), _AT_ONCE):
            yield from self[start : start + _AT_ONCE]


def _add_row(partition_key: int, partition: str, add: AddFile, keys: FileKeys) -> AddRow:
    records, min_keys, max_keys, null_counts = keys
    vector = add.deletion_vector
    return AddRow(
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
    """The rows of a commit; `stats_columns` are those of the metadata that it leaves current.

    Adds are sorted by partition, so that a partition's files lie together on disk.
    """
    adds: list[tuple[int, str, AddFile]] = []
    partitions: dict[int, str] = {}
    # There are many files but few partitions: text and key are made once per partition.
    known: dict[tuple[tuple[str, str | None], ...], tuple[int, str]] = {(): _UNPARTITIONED}
    found: dict[type, list[Any]] = {}
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


def _remove_row(remove: RemoveFile) -> RemoveRow:
    return RemoveRow(
        key_of(remove.path),
        key_of(remove.dv_id),
        remove.path,
        remove.deletion_timestamp,
        remove.data_change,
        _vector(remove.deletion_vector),
        _action_json(remove),
    )


def _txn_row(txn: Txn) -> TxnRow:
    return TxnRow(key_of(txn.app_id), txn.app_id, txn.version, txn.last_updated)


def _domain_row(domain: DomainMetadata) -> DomainRow:
    return DomainRow(key_of(domain.domain), domain.domain, domain.configuration, domain.removed)


def _cdc_row(cdc: CdcFile) -> CdcRow:
    values = codec.dumps(cdc.partition_values).decode()
    return CdcRow(cdc.path, cdc.size, values, _action_json(cdc))


def _metadata_row(metadata: Metadata, stats_columns: Sequence[StatsColumn]) -> MetadataRow:
    return MetadataRow(
        metadata.schema_string,
        codec.dumps(list(metadata.partition_columns)).decode(),
        codec.dumps(metadata.configuration).decode(),
        dump_stats_columns(stats_columns),
        _action_json(metadata),
    )


def _protocol_row(protocol: Protocol) -> ProtocolRow:
    return ProtocolRow(
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
    """The action's own object, without the wrapper that names its kind."""
    return codec.dumps(codec.wire_fields(action)).decode()
