"""Reading the log from PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import Event
from typing import Any

import pyarrow as pa

from deltasql.log.pruning.ranges import Ranges
from deltasql.store import queries, range_sql
from deltasql.store.browsing.queries import BrowseQueries
from deltasql.store.checking.queries import TrustQueries
from deltasql.store.claims import ClaimQueries
from deltasql.store.embedded.reading import QueryReader
from deltasql.store.expiring.expired import unexpired
from deltasql.store.mirroring.queries import MirrorQueries
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.connections.wakeup import WakeUp
from deltasql.store.rows import FILES_SCHEMA, Row

SQL = queries.load("postgres")


class PostgresReader(QueryReader, MirrorQueries, TrustQueries, ClaimQueries, BrowseQueries):
    """The reading half of the store: every answer is one statement."""

    dialect = "postgres"

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._wakeup = WakeUp(connections)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        return self._connections.rows(SQL[name], parameters)

    def _table_ids(self, table_ids: Collection[int]) -> list[int]:
        return list(table_ids)

    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        query = SQL["files_at"].format(
            table_id=int(table_id),
            version=int(version),
            filter=range_sql.file_filter(partition_keys, ranges, "postgres"),
        )
        return unexpired(self._stream(query, FILES_SCHEMA), version)

    def _text(self, name: str) -> str:
        return SQL[name]

    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        batches = self._connections.arrow(query)
        # The first batch is empty: taking it here raises the query's errors here.
        next(batches)
        return pa.RecordBatchReader.from_batches(
            schema,
            (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches),
        )

    def _listed(self, query: str, schema: pa.Schema) -> list[Row]:  # noqa: ARG002
        # Not as Arrow: for a few rows, that connection is expensive.
        return self._connections.rows(query, {})

    def may_commit(self) -> bool:
        return bool(self._rows("may_commit")[0][0])

    def may_purge(self) -> bool:
        return bool(self._rows("may_purge")[0][0])

    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        with self._connections.statement("mirroring") as connection:
            return connection.execute(SQL[name], parameters).fetchall()

    def _record_json(self, **parameters: Any) -> bool:
        return bool(self._change("mirror_record", **parameters))

    def wake_mirror(self) -> None:
        self._wakeup.send()

    def wait_for_work(self, seconds: float, stop: Event) -> None:
        self._wakeup.wait(seconds, stop)

    @property
    def takeovers(self) -> int:
        return self._connections.servers.takeovers

    def pool_usage(self) -> tuple[int, int]:
        return self._connections.usage()

    def role(self) -> str | None:
        return self._connections.user

    def describe(self) -> Mapping[str, str]:
        """Server version and durability settings, for reports."""
        ((is_open,),) = self._rows("everybody_may_create")
        return {
            "dialect": "postgresql",
            "everybody_may_create": "on" if is_open else "off",
            **dict(self._rows("server_settings")),
        }
