"""Reads that go to a replica while it is new enough, and to the primary otherwise.

Which version a table is at decides: an answer counts if the replica, seen together with it, has
what this client has committed or seen, with the same in-commit times. So the commit path pays
nothing. What it has beyond that is asked of the primary once: after a failover, a standby of the
old primary may have versions that were lost.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from deltasql.errors import StoreError, VersionNotFoundError
from deltasql.log.pruning.partition_ranges import PartitionRanges
from deltasql.log.pruning.ranges import Ranges
from deltasql.store import range_sql
from deltasql.store.embedded.reading import QueryReader
from deltasql.store.expiring.expired import unexpired
from deltasql.store.partition_sql import partitions_query
from deltasql.store.postgres.reader import SQL
from deltasql.store.postgres.replicas.known import Known
from deltasql.store.rows import FILES_SCHEMA, Row

if TYPE_CHECKING:
    from deltasql.store.postgres.replicas.replica import Answer, Replica
    from deltasql.store.postgres.store import PostgresStore

# How long a read waits for the replica to catch up: replay usually takes milliseconds.
_PATIENCE: Final = 0.1
_LOOK_EVERY: Final = 0.005
# What a replica may answer: all about one table, and nothing that decides about commits.
_FROM_REPLICA: Final = frozenset(
    {
        "commits_page",
        "domains_at",
        "partitions_all",
        "state_get",
        "state_get_current",
        "txns_at",
        "version_at",
        "versions_history",
    }
)
# Of these, having found nothing may only mean that it has not arrived yet.
_MAY_MISS: Final = frozenset({"state_get", "state_get_current", "version_at"})
# The answers that are about a given version, however old.
_OF_A_VERSION: Final = frozenset({"state_get", "txns_at", "domains_at"})
_IN_MEMORY: Final = 4 * 1024 * 1024


class ReplicaReads(QueryReader):
    """Snapshots, files and history from a replica or from the primary; everything else from the
    primary.
    """

    dialect = "postgres"

    def __init__(
        self, primary: PostgresStore, replica: Replica, known: Known, *, max_age: float
    ) -> None:
        self._primary = primary
        self._replica = replica
        self._known = known
        self._max_age = max_age

    def _text(self, name: str) -> str:
        return SQL[name]

    def _table_ids(self, table_ids: Collection[int]) -> list[int]:
        return list(table_ids)

    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        return self._primary._stream(query, schema)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        if name in _FROM_REPLICA:
            version = parameters["version"] if name in _OF_A_VERSION else None
            found = self._asked(parameters["table_id"], version, SQL[name], parameters)
            if found or (found is not None and name not in _MAY_MISS):
                return found
        return self._primary._rows(name, **parameters)

    def partitions(
        self, table_id: int, ranges: PartitionRanges | None = None
    ) -> list[tuple[int, str]]:
        if ranges is None:
            return super().partitions(table_id)
        query = partitions_query(self._text, self.dialect, table_id, ranges)
        # Of the version that the caller has seen: which partitions came later matters to nobody.
        found = self._asked(table_id, self._known.version(table_id), query, {})
        if found is None:
            return self._primary.partitions(table_id, ranges)
        return [(row[0], row[1]) for row in found]

    def files(
        self,
        table_id: int,
        version: int,
        *,
        partition_keys: Sequence[int] | None = None,
        ranges: Ranges | None = None,
    ) -> pa.RecordBatchReader:
        if self._may_ask(table_id, version):
            condition = range_sql.file_filter(partition_keys, ranges, "postgres")
            place = {"table_id": int(table_id), "version": int(version)}
            files = SQL["files_at"].format(**place, filter=condition)
            pairs = self._known.times(table_id).items()
            known = ", ".join(f"({int(v)}::bigint, {int(at)}::bigint)" for v, at in pairs)
            query = SQL["replica_files"].format(**place, files=files, known=known)
            try:
                batches = self._replica.batches(query, FILES_SCHEMA)
                # Recovery may cancel the query at any row: nothing is handed out before the last.
                whole = _spooled(unexpired(batches, version))
            except VersionNotFoundError:
                # Expired, or not there yet: the primary knows.
                pass
            except StoreError as error:
                self._replica.rest("failed", f"failed: {error}")
            else:
                self._replica.worked()
                return whole
        return self._primary.files(table_id, version, partition_keys=partition_keys, ranges=ranges)

    # --- which of the two -----------------------------------------------------------------

    def _asked(
        self, table_id: int, version: int | None, query: str, parameters: Mapping[str, Any]
    ) -> list[Row] | None:
        """The replica's answer, of a given version or of the newest; None if the primary has to
        answer.
        """
        if not self._may_ask(table_id, version):
            return None
        deadline = time.monotonic() + _PATIENCE
        while True:
            newest, times = self._known.version(table_id), self._known.times(table_id)
            needed = newest if version is None else version
            try:
                answer = self._replica.at_head(table_id, times, query, parameters)
            except StoreError as error:
                self._replica.rest("failed", f"failed: {error}")
                return None
            is_newest = version is None
            if answer.is_astray or (is_newest and not self._is_ours(table_id, answer, newest)):
                self._replica.rest("astray", "follows another history than the server in url")
                return None
            if answer.proven is not None and answer.proven >= needed:
                self._replica.worked()
                return answer.rows
            if needed > newest or needed < 0:
                # Nobody says that there is such a version, or such a table.
                return None
            if time.monotonic() > deadline:
                self._replica.rest("behind", f"is behind: it has not replayed version {needed}")
                return None
            time.sleep(_LOOK_EVERY)

    def _is_ours(self, table_id: int, answer: Answer, newest: int) -> bool:
        """Whether the primary has the replica's head too, if that is newer than what we know."""
        head = answer.head
        if head is None or head <= newest:
            return True
        found = self._primary._rows("replica_known", table_id=table_id, version=head)
        if not found or found[0][0] != answer.in_commit_timestamp:
            return False
        self._known.saw(table_id, head, answer.in_commit_timestamp)
        return True

    def _may_ask(self, table_id: int, version: int | None) -> bool:
        if self._replica.is_resting or not self._known.is_trusted(table_id):
            return False
        is_old = version is None and self._known.age(table_id) > self._max_age
        if is_old or self._known.version(table_id) not in self._known.times(table_id):
            # A replica that has lost its primary does not know how old it is.
            return self._primary.head(table_id) is not None
        return True


def _spooled(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The same batches, all of them received; what is large waits in a temporary file."""
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="deltasql-")  # noqa: SIM115
    try:
        with batches, pa.ipc.new_stream(file, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.seek(0)
    except BaseException:
        file.close()
        raise

    def replayed() -> Iterator[pa.RecordBatch]:
        with file, pa.ipc.open_stream(file) as reader:
            yield from reader

    return pa.RecordBatchReader.from_batches(batches.schema, replayed())
