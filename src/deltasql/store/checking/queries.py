"""What checks ask, with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import pyarrow as pa

from deltasql.errors import DatabaseError
from deltasql.log.file_sums import FileSums
from deltasql.store.bodies import unpack
from deltasql.store.checking.content import CONTENT_COLUMNS, ContentRow
from deltasql.store.checking.interface import (
    FileRow,
    Origin,
    Removal,
    StoredCommit,
    TableColumns,
    TrustedVersion,
)
from deltasql.store.rows import (
    ADD_COLUMNS,
    CDC_COLUMNS,
    DOMAIN_COLUMNS,
    METADATA_COLUMNS,
    PROTOCOL_COLUMNS,
    TXN_COLUMNS,
    AddRow,
    Row,
)

_NUMBERS: Final = {
    "version", "partition_key", "size_bytes", "modification_time", "num_records", "base_row_id",
    "default_row_commit_version", "data_change", "removed_version", "deletion_timestamp",
    "remove_data_change", "txn_version", "last_updated", "removed", "min_reader_version",
    "min_writer_version", "in_commit_timestamp", "is_blind_append",
}  # fmt: skip
_BYTES: Final = {"path_key", "dv_key", "app_key", "domain_key"}
KEYS_SCHEMA: Final = pa.schema(
    [
        pa.field(
            name,
            pa.binary() if name in _BYTES else pa.int64() if name in _NUMBERS else pa.string(),
        )
        for name in CONTENT_COLUMNS
    ]
)
SIZES_SCHEMA: Final = pa.schema([("path", pa.string()), ("size", pa.int64())])
_PAGE: Final = 64
_DIGESTS: Final = 10_000
_REMOVAL: Final = ("removed_version", "deletion_timestamp", "remove_data_change", "remove_action")
VERSION_COLUMNS: Final = (
    "in_commit_timestamp",
    "commit_id",
    "committer",
    "operation",
    "operation_params",
    "transaction_id",
    "is_blind_append",
)
_OTHERS: Final = {
    "txns": TXN_COLUMNS,
    "domains": DOMAIN_COLUMNS,
    "cdc": CDC_COLUMNS,
    "metadata": METADATA_COLUMNS,
    "protocol": PROTOCOL_COLUMNS,
    "versions": VERSION_COLUMNS,
}


class TrustQueries(ABC):
    """The reading half of `TrustLog`; a dialect says how to run a query."""

    # Whether the database has lists; otherwise keys are JSON.
    _lists: ClassVar[bool] = True

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    @abstractmethod
    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The rows of a query without parameters, in bounded memory."""

    @abstractmethod
    def _text(self, name: str) -> str:
        """The text of a named query."""

    def live_keys(self, table_id: int, version: int) -> pa.RecordBatchReader:
        return self._at("keys_at", table_id, version, KEYS_SCHEMA)

    def live_sizes(self, table_id: int, version: int) -> pa.RecordBatchReader:
        return self._at("sizes_at", table_id, version, SIZES_SCHEMA)

    def ended_keys(self, table_id: int, *, after: int, upto: int) -> pa.RecordBatchReader:
        query = self._text("keys_ended").format(
            table_id=int(table_id), after=int(after), upto=int(upto)
        )
        return self._stream(query, KEYS_SCHEMA)

    def file_rows(self, table_id: int, version: int) -> Iterator[FileRow]:
        schema = self._schema("version", *ADD_COLUMNS, *_REMOVAL)
        removal = 1 + len(ADD_COLUMNS)
        for row in _tuples(self._at("rows_files", table_id, version, schema)):
            yield FileRow(row[0], AddRow(*row[1:removal]), Removal(*row[removal:]))

    def other_rows(self, table_id: int, kind: str, version: int) -> Iterator[Row]:
        schema = self._schema("version", *_OTHERS[kind])
        return _tuples(self._at(f"rows_{kind}", table_id, version, schema))

    def digests(self, table_id: int) -> Iterator[tuple[int, bytes]]:
        after = -1
        while True:
            page = self._rows("versions_digests", table_id=table_id, after=after, most=_DIGESTS)
            for version, digest in page:
                yield version, bytes(digest)
            if len(page) < _DIGESTS:
                return
            after = page[-1][0]

    def partition_values(self, table_id: int) -> list[Row]:
        return self._rows("partition_values_all", table_id=table_id)

    def stored_commits(self, table_id: int, *, after: int, upto: int) -> Iterator[StoredCommit]:
        return commit_pages(self._rows, table_id, after=after, upto=upto)

    def table_columns(self, table_id: int) -> TableColumns | None:
        found = self._rows("table_columns", table_id=table_id)
        return TableColumns(*found[0]) if found else None

    def trusted(self, table_id: int) -> list[TrustedVersion]:
        return [
            TrustedVersion(
                table_id,
                Origin(origin),
                version,
                FileSums(files, size, bytes(digest)),
                None if rows_digest is None else bytes(rows_digest),
            )
            for origin, version, files, size, digest, rows_digest in self._rows(
                "trusted_get", table_id=table_id
            )
        ]

    def trust(self, proven: TrustedVersion) -> None:
        self._change("trusted_set", **trusted_values(proven))

    def _at(
        self, name: str, table_id: int, version: int, schema: pa.Schema
    ) -> pa.RecordBatchReader:
        query = self._text(name).format(table_id=int(table_id), version=int(version))
        return self._stream(query, schema)

    def _schema(self, *names: str) -> pa.Schema:
        return pa.schema([pa.field(name, self._type(name)) for name in names])

    def _type(self, name: str) -> pa.DataType:
        if name in _NUMBERS:
            return pa.int64()
        if name in _BYTES:
            return pa.binary()
        if name in ("min_keys", "max_keys") and self._lists:
            return pa.list_(pa.float64())
        if name == "null_counts" and self._lists:
            return pa.list_(pa.int64())
        return pa.string()


def trusted_values(proven: TrustedVersion) -> dict[str, Any]:
    """The parameters of `trusted_set`."""
    return {
        "table_id": proven.table_id,
        "origin": proven.origin.value,
        "version": proven.version,
        "files": proven.sums.files,
        "size_bytes": proven.sums.size_bytes,
        "digest": proven.sums.digest,
        "rows_digest": proven.rows_digest,
    }


def commit_pages(
    run: Callable[..., list[Row]], table_id: int, *, after: int, upto: int
) -> Iterator[StoredCommit]:
    """Commits in pages, so that no statement outlives a fetch."""
    while True:
        page = run("commits_stored", table_id=table_id, after=after, upto=upto, most=_PAGE)
        for version, timestamp, digest, encoding, body, *columns in page:
            commit_id, committer, operation, params, transaction_id, is_blind_append = columns
            yield StoredCommit(
                version,
                timestamp,
                bytes(digest),
                _unpacked(encoding, bytes(body)),
                commit_id,
                committer,
                operation,
                params,
                transaction_id,
                bool(is_blind_append),
            )
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _unpacked(encoding: str, body: bytes) -> bytes:
    """The commit file; if it can't be unpacked, an empty one, which does not match its digest."""
    try:
        return unpack(encoding, body)
    except DatabaseError:
        return b""


def content_rows(batches: pa.RecordBatchReader) -> Iterator[ContentRow]:
    """The rows of a stream of `CONTENT_COLUMNS`."""
    return map(ContentRow._make, _tuples(batches))


def _tuples(batches: pa.RecordBatchReader) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
