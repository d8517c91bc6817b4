"""The connection for writing to DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import Any

import duckdb
import pyarrow as pa

from deltasql.store import queries
from deltasql.store.duckdb.failures import full, translate, translated
from deltasql.store.embedded.committing import added_twice, doubled_path
from deltasql.store.rows import (
    ADD_COLUMNS,
    CDC_COLUMNS,
    DOMAIN_COLUMNS,
    METADATA_COLUMNS,
    PARTITION_COLUMNS,
    PROTOCOL_COLUMNS,
    REMOVE_COLUMNS,
    TXN_COLUMNS,
    AddRow,
    CommitRows,
    Row,
)

SQL = queries.load("duckdb")
# Up to this many, rows bound one by one are quicker than an Arrow table.
FEW = 3
# Below this many free bytes nothing is committed: where DuckDB can't write to the end it may abort
# the process.
ROOM = 16 << 20

TYPES = {
    **dict.fromkeys(("path_key", "dv_key", "app_key", "domain_key"), pa.binary()),
    **dict.fromkeys(("data_change", "removed"), pa.bool_()),
    **dict.fromkeys(("min_keys", "max_keys"), pa.list_(pa.float64())),
    "null_counts": pa.list_(pa.int64()),
    **dict.fromkeys(
        (
            "partition_key",
            "size_bytes",
            "modification_time",
            "num_records",
            "base_row_id",
            "default_row_commit_version",
            "deletion_timestamp",
            "txn_version",
            "last_updated",
            "min_reader_version",
            "min_writer_version",
        ),
        pa.int64(),
    ),
}


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """A commit's rows as Arrow tables, None if there are none; a few adds are no table either."""

    adds: Sequence[Row]
    add_table: pa.Table | None
    removes: pa.Table | None
    others: Sequence[tuple[str, pa.Table]]


class DuckdbSession:
    """Transactions, named queries and Arrow tables over the connection for writing."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._doing = ""
        self.is_spent = False

    def begin(self, doing: str) -> None:
        """Begin a transaction; `doing` is for messages."""
        self._doing = doing
        self.execute("BEGIN")

    def commit(self) -> None:
        """End the transaction; if anything goes wrong here, it may still have been committed."""
        free = disk_usage(Path(self._path).parent).free
        if free < ROOM:
            raise full(self._doing, self._path, free)
        self.execute("COMMIT", at_commit=True)

    def rollback(self) -> None:
        try:
            self._connection.rollback()
        except duckdb.Error:
            # The original failure may have ended the transaction itself, or the instance; that is
            # the failure to report.
            return

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        return self.execute(SQL[name], parameters)

    def execute(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        at_commit: bool = False,
    ) -> list[Row]:
        try:
            return self._connection.execute(statement, parameters or None).fetchall()
        except duckdb.Error as error:
            raise translate(error, self._doing, self._path, at_commit=at_commit) from None

    def transaction(self) -> int:
        ((number,),) = self.rows("transaction_id")
        return int(number)

    def key_list(self, keys: Collection[bytes]) -> list[bytes]:
        return list(keys)

    def text_list(self, texts: Collection[str]) -> list[str]:
        return list(texts)

    def prepare(self, rows: CommitRows) -> PreparedRows:
        return prepare(rows)

    def write_rows(self, table_id: int, version: int, prepared: PreparedRows) -> None:
        place = {"table_id": table_id, "version": version}
        # Removes first: a file may be removed under one deletion vector and added under another.
        if prepared.removes is not None:
            with self._incoming(prepared.removes):
                self.rows("removed_unknown", **place)
                self.rows("removed_keep", **place)
                self.rows("incoming_delete", table_id=table_id)
        if prepared.adds:
            self._write_adds(place, prepared)
        for name, table in prepared.others:
            with self._incoming(table):
                self.rows(name, **_taken_by(name, place))

    def _write_adds(self, place: Mapping[str, int], prepared: PreparedRows) -> None:
        done = 0
        if prepared.add_table is None:
            for row in prepared.adds:
                bound = dict(zip(ADD_COLUMNS, row, strict=True))
                if not self.rows("add_insert", **place, **bound):
                    break
                done += 1
        if done == len(prepared.adds):
            return
        table = prepared.add_table
        if table is None:
            # Rare: one of a few files is already live.
            table = _to_table(ADD_COLUMNS, prepared.adds[done:])
        with self._incoming(table):
            ((live, clash),) = self.rows("adds_live", table_id=place["table_id"])
            if clash is not None:
                raise doubled_path(clash)
            if live:
                # Files that are already live: the old rows become history.
                self.rows("restated_keep", **place)
                self.rows("incoming_delete", table_id=place["table_id"])
            self.rows("adds_insert", **place)

    def write_incoming(self, names: Sequence[str], table: pa.Table, **parameters: Any) -> None:
        """Run statements that take their rows from a table."""
        with self._incoming(table):
            for name in names:
                self.rows(name, **parameters)

    @contextmanager
    def _incoming(self, table: pa.Table) -> Iterator[None]:
        with translated(self._doing, self._path):
            self._connection.register("dl_incoming", table)
        try:
            yield
        finally:
            self._connection.unregister("dl_incoming")


def prepare(rows: CommitRows) -> PreparedRows:
    """The rows in the form that DuckDB takes."""
    _check_added_once(rows.adds)
    others = (
        ("partitions_insert", PARTITION_COLUMNS, rows.partitions),
        ("txns_insert", TXN_COLUMNS, rows.txns),
        ("domains_insert", DOMAIN_COLUMNS, rows.domains),
        ("cdc_insert", CDC_COLUMNS, rows.cdc),
        ("metadata_insert", METADATA_COLUMNS, rows.metadata),
        ("protocol_insert", PROTOCOL_COLUMNS, rows.protocol),
    )
    return PreparedRows(
        adds=rows.adds,
        add_table=_to_table(ADD_COLUMNS, rows.adds) if len(rows.adds) > FEW else None,
        removes=_to_table(REMOVE_COLUMNS, rows.removes) if rows.removes else None,
        others=[(name, _to_table(columns, found)) for name, columns, found in others if found],
    )


def _check_added_once(adds: Sequence[AddRow]) -> None:
    """Check it here, because no index would notice."""
    seen = set()
    for row in adds:
        if row.path_key in seen:
            raise added_twice(row.path)
        seen.add(row.path_key)


def _to_table(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    values = zip(*rows, strict=True) if rows else [[] for _ in columns]
    arrays = [
        pa.array(column, TYPES.get(name, pa.string()))
        for name, column in zip(columns, values, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _taken_by(name: str, place: Mapping[str, int]) -> Mapping[str, int]:
    """Only the parameters that the statement has: DuckDB refuses others."""
    return {key: value for key, value in place.items() if f"${key}" in SQL[name]}
