"""Reading the log from PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltasql.log.ranges import Ranges
from deltasql.store import queries, range_sql
from deltasql.store.bodies import unpack
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    StateRecord,
    TableRecord,
    TxnRecord,
    VersionRecord,
)
from deltasql.store.postgres.pool import Connections
from deltasql.store.rows import FILES_SCHEMA

SQL = queries.load("postgres")
_NO_LIMIT = 2**63 - 1
_PAGE = 500


class PostgresReader:
    """The reading half of the store: every answer is one statement."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def _rows(self, query: str, doing: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with self._connections.statement(doing) as connection:
            return connection.execute(SQL[query], parameters).fetchall()

    def table(self, name: str) -> TableRecord | None:
        found = self._rows("table_by_name", "looking a table up", name=name)
        return TableRecord(*found[0]) if found else None

    def tables(self) -> list[TableRecord]:
        return [TableRecord(*row) for row in self._rows("tables_all", "listing tables")]

    def head(self, table_id: int) -> Head | None:
        found = self._rows("head_get", "reading a head", table_id=table_id)
        return Head(*found[0]) if found else None

    def heads(self, table_ids: Collection[int] | None = None) -> dict[int, Head]:
        if table_ids is None:
            found = self._rows("heads_all", "reading heads")
        else:
            found = self._rows("heads_get", "reading heads", table_ids=list(table_ids))
        return {row[0]: Head(*row) for row in found}

    def state(self, table_id: int, version: int | None = None) -> StateRecord | None:
        name = "state_get_current" if version is None else "state_get"
        found = self._rows(name, "reading a table's state", table_id=table_id, version=version)
        return StateRecord(*found[0]) if found else None

    def version_at(self, table_id: int, timestamp_ms: int) -> int | None:
        found = self._rows(
            "version_at", "looking a time up", table_id=table_id, timestamp=timestamp_ms
        )
        return found[0][0] if found else None

    def txns(self, table_id: int, version: int) -> list[TxnRecord]:
        found = self._rows("txns_at", "reading txns", table_id=table_id, version=version)
        return [TxnRecord(*row) for row in found]

    def domains(self, table_id: int, version: int) -> dict[str, str]:
        found = self._rows("domains_at", "reading domains", table_id=table_id, version=version)
        return dict(found)

    def partitions(self, table_id: int) -> list[tuple[int, str]]:
        found = self._rows("partitions_all", "reading partitions", table_id=table_id)
        return [(row[0], row[1]) for row in found]

    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        conditions = ["TRUE"]
        if partition_keys is not None:
            conditions.append(range_sql.partition_filter(partition_keys))
        if ranges is not None:
            conditions.append(range_sql.render(ranges, "postgres"))
        query = SQL["files_at"].replace("%%", "%").format(
            table_id=int(table_id), version=int(version), filter=" AND ".join(conditions)
        )
        batches = self._connections.arrow(query)
        # The first batch is empty: taking it here raises here what the query raises.
        next(batches)
        return pa.RecordBatchReader.from_batches(
            FILES_SCHEMA, (_in_schema(batch) for batch in batches)
        )

    def commits(
        self, table_id: int, *, after: int, upto: int | None = None
    ) -> Iterator[CommitRecord]:
        last = _NO_LIMIT if upto is None else upto
        while after < last:
            page = min(after + _PAGE, last)
            found = self._rows(
                "commits_between", "reading commits", table_id=table_id, after=after, upto=page
            )
            yield from (to_commit(row) for row in found)
            if len(found) < page - after:
                return
            after = page

    def history(self, table_id: int, *, limit: int | None = None) -> list[VersionRecord]:
        most = _NO_LIMIT if limit is None else limit
        found = self._rows("versions_history", "reading history", table_id=table_id, most=most)
        return [VersionRecord(*row) for row in found]

    def audit(self, start_ms: int, end_ms: int) -> list[tuple[str, VersionRecord]]:
        found = self._rows("versions_audit", "reading the audit", start=start_ms, stop=end_ms)
        return [(row[0], VersionRecord(*row[1:])) for row in found]

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        found = self._rows(
            "commit_find", "looking a commit up", table_id=table_id, commit_id=commit_id
        )
        return Committed(*found[0]) if found else None

    def describe(self) -> Mapping[str, str]:
        settings = dict(self._rows("server_settings", "reading the server's settings"))
        return {"dialect": "postgresql", **settings}


def to_commit(row: tuple[Any, ...]) -> CommitRecord:
    """A commit from a row of `commits_between`."""
    version, timestamp, encoding, body = row
    return CommitRecord(version, timestamp, unpack(encoding, bytes(body)))


def _in_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=FILES_SCHEMA)
