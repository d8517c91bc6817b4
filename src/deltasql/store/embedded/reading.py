"""Reading the log with the named queries, for databases in our own process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from deltasql.log.pruning.partition_ranges import PartitionRanges
from deltasql.log.pruning.ranges import Ranges
from deltasql.store.bodies import unpack
from deltasql.store.browsing.audit_place import BEFORE_ALL, AuditPlace
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    StateRecord,
    TableRecord,
    TxnLogReader,
    TxnRecord,
    VersionRecord,
)
from deltasql.store.partition_sql import partitions_query
from deltasql.store.rows import Row

NO_LIMIT = 2**63 - 1
# Commits are fetched in pages, so that no transaction outlives a fetch.
_PAGE = 64
_PARTITIONS = pa.schema([("partition_key", pa.int64()), ("partition_values", pa.string())])


class QueryReader(ABC):
    """Answers from named queries; a dialect says how to run one."""

    dialect: ClassVar[str]

    @abstractmethod
    def _text(self, name: str) -> str:
        """A named query whose placeholders are still to be filled."""

    @abstractmethod
    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """The answer to a query assembled from texts."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _table_ids(self, table_ids: Collection[int]) -> Any:
        """Table ids as the parameter that `heads_get` takes."""

    @abstractmethod
    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        """See `TxnLogReader.files`."""

    def table(self, name: str) -> TableRecord | None:
        found = self._rows("table_by_name", name=name)
        return to_table(found[0]) if found else None

    def tables(self) -> list[TableRecord]:
        return [to_table(row) for row in self._rows("tables_all")]

    def file_counts(self) -> dict[str, int]:
        return dict(self._rows("files_count"))

    @property
    def reads(self) -> TxnLogReader:
        """Itself: a database in our own process has no replica."""
        return self

    def replica(self) -> tuple[str, str] | None:
        """None, for the same reason."""
        return None

    @property
    def takeovers(self) -> int:
        """Zero: no other process serves a database in our own."""
        return 0

    def pool_usage(self) -> tuple[int, int]:
        """Zeros: a database in our own process has no pool."""
        return 0, 0

    def head(self, table_id: int) -> Head | None:
        found = self._rows("head_get", table_id=table_id)
        return Head(*found[0]) if found else None

    def heads(self, table_ids: Collection[int] | None = None) -> dict[int, Head]:
        if table_ids is None:
            found = self._rows("heads_all")
        else:
            found = self._rows("heads_get", table_ids=self._table_ids(table_ids))
        return {row[0]: Head(*row) for row in found}

    def state(self, table_id: int, version: int | None = None) -> StateRecord | None:
        if version is None:
            found = self._rows("state_get_current", table_id=table_id)
        else:
            found = self._rows("state_get", table_id=table_id, version=version)
        return StateRecord(*found[0]) if found else None

    def version_at(self, table_id: int, timestamp_ms: int) -> int | None:
        found = self._rows("version_at", table_id=table_id, timestamp=timestamp_ms)
        return int(found[0][0]) if found else None

    def txns(self, table_id: int, version: int) -> list[TxnRecord]:
        found = self._rows("txns_at", table_id=table_id, version=version)
        return [TxnRecord(*row) for row in found]

    def domains(self, table_id: int, version: int) -> dict[str, str]:
        found = self._rows("domains_at", table_id=table_id, version=version)
        return dict(found)

    def partitions(
        self, table_id: int, ranges: PartitionRanges | None = None
    ) -> list[tuple[int, str]]:
        if ranges is None:
            found = self._rows("partitions_all", table_id=table_id)
            return [(row[0], row[1]) for row in found]
        query = partitions_query(self._text, self.dialect, table_id, ranges)
        return [(row[0], row[1]) for row in self._listed(query, _PARTITIONS)]

    def _listed(self, query: str, schema: pa.Schema) -> list[Row]:
        """The rows of a query assembled from texts."""
        found = self._stream(query, schema).read_all()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def commits(
        self, table_id: int, *, after: int, upto: int | None = None
    ) -> Iterator[CommitRecord]:
        last = NO_LIMIT if upto is None else upto
        while True:
            page = self._rows("commits_page", table_id=table_id, after=after, upto=last, most=_PAGE)
            for row in page:
                yield to_commit(row)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def history(self, table_id: int, *, limit: int | None = None) -> list[VersionRecord]:
        most = NO_LIMIT if limit is None else limit
        found = self._rows("versions_history", table_id=table_id, most=most)
        return [to_version(row) for row in found]

    def audit(
        self, start_ms: int, end_ms: int, *, after: AuditPlace = BEFORE_ALL, most: int = 1_000
    ) -> list[tuple[str, VersionRecord]]:
        time, table_id, version = after
        found = self._rows(
            "versions_audit",
            # The index is over times: what is before the place need not be looked at.
            start=max(start_ms, time),
            stop=end_ms,
            after_time=time,
            after_table=table_id,
            after_version=version,
            most=most,
        )
        return [(row[0], to_version(row[1:])) for row in found]

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        found = self._rows("commit_find", table_id=table_id, commit_id=commit_id)
        return Committed(*found[0]) if found else None

    def find_created(self, commit_id: str) -> int | None:
        found = self._rows("created_find", commit_id=commit_id)
        return int(found[0][0]) if found else None


def to_table(row: Row) -> TableRecord:
    """A table from a row of `table_by_name`."""
    table_id, name, location, reason, is_paused = row
    return TableRecord(table_id, name, location, reason, bool(is_paused))


def to_version(row: Row) -> VersionRecord:
    """A version from a row of `versions_history`."""
    return VersionRecord(*(*row[:8], bool(row[8]), bytes(row[9])))


def to_commit(row: Row) -> CommitRecord:
    """A commit from a row of `commits_page`."""
    version, timestamp, encoding, body = row
    return CommitRecord(version, timestamp, unpack(encoding, bytes(body)))
