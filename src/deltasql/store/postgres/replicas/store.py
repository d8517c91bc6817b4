"""A PostgreSQL log with a replica to read from."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from deltasql.store.checking.interface import TrustedVersion
from deltasql.store.checking.rebuilding import TableRebuild
from deltasql.store.interface import (
    Committed,
    Head,
    Outcome,
    Proposal,
    StateRecord,
    TableRecord,
    TxnLogReader,
    TxnSeen,
    VersionTaken,
)
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.replicas.known import Known
from deltasql.store.postgres.replicas.reads import ReplicaReads
from deltasql.store.postgres.replicas.replica import Replica
from deltasql.store.postgres.store import PostgresStore
from deltasql.store.postgres.writer import PostgresLockedLog


class ReplicatedStore(PostgresStore):
    """Commits to the primary, and remembers what it was told there for `reads`."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._known = Known()
        self._replica: Replica | None = None
        self._reads: TxnLogReader = self

    def read_from(self, url: str, *, pool_size: int, timeout: float, max_age: float) -> None:
        """Use a replica for `reads`; no answer of it is older than `max_age` seconds."""
        self._replica = Replica.open(
            url, pool_size=pool_size, timeout=timeout, primary=self._connections
        )
        self._reads = ReplicaReads(self, self._replica, self._known, max_age=max_age)

    @property
    def reads(self) -> TxnLogReader:
        return self._reads

    # --- what the primary says ------------------------------------------------------------

    def commit(self, proposal: Proposal, *, is_retry: bool = False) -> Outcome:
        at = time.monotonic()
        outcome = super().commit(proposal, is_retry=is_retry)
        match outcome:
            case Committed(version, in_commit_timestamp):
                self._known.saw(proposal.table_id, version, in_commit_timestamp)
            case TxnSeen(version):
                self._known.saw(proposal.table_id, version, None)
            case VersionTaken(head):
                self._asked(head, at)
        return outcome

    @contextmanager
    def locked(
        self, table_ids: Collection[int], *, drafts: Sequence[Proposal] = ()
    ) -> Iterator[PostgresLockedLog]:
        with super().locked(table_ids, drafts=drafts) as log:
            at = time.monotonic()
            yield log
        for head in log.heads.values():
            self._asked(head, at)

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        found = super().find_commit(table_id, commit_id)
        if found is not None:
            self._known.saw(table_id, found.version, found.in_commit_timestamp)
        return found

    def head(self, table_id: int) -> Head | None:
        at = time.monotonic()
        head = super().head(table_id)
        if head is not None:
            self._asked(head, at)
        return head

    def heads(self, table_ids: Collection[int] | None = None) -> dict[int, Head]:
        at = time.monotonic()
        heads = super().heads(table_ids)
        for head in heads.values():
            self._asked(head, at)
        return heads

    def state(self, table_id: int, version: int | None = None) -> StateRecord | None:
        found = super().state(table_id, version)
        if found is not None:
            self._known.saw(table_id, found.version, found.in_commit_timestamp)
        return found

    def table(self, name: str) -> TableRecord | None:
        # With the head, for the same round trip: who looks a table up sees it at least as it was.
        found = self.newest(name)
        return None if found is None else found[0]

    def newest(self, name: str) -> tuple[TableRecord, int] | None:
        at = time.monotonic()
        found = self._newest(name)
        if found is None:
            return None
        table, version, in_commit_timestamp = found
        self._known.asked(table.table_id, version, in_commit_timestamp, at)
        return table, version

    def _asked(self, head: Head, at: float) -> None:
        self._known.asked(head.table_id, head.version, head.last_ict, at)

    # --- changes that make no version -----------------------------------------------------

    def drop_table(self, table_id: int) -> bool:
        self._known.distrust(table_id)
        return super().drop_table(table_id)

    def purge_table(self, table_id: int) -> None:
        self._known.distrust(table_id)
        super().purge_table(table_id)

    @contextmanager
    def rebuilding(self, table_id: int) -> Iterator[TableRebuild]:
        self._known.distrust(table_id)
        with super().rebuilding(table_id) as rebuild:
            yield rebuild

    def advance_horizon(
        self, first: TrustedVersion, *, committer: str | None, host: str, before: int
    ) -> bool:
        self._known.distrust(first.table_id)
        return super().advance_horizon(first, committer=committer, host=host, before=before)

    # --- reports ----------------------------------------------------------------------------

    def pool_usage(self) -> tuple[int, int]:
        used, waiting = super().pool_usage()
        more, wait = (0, 0) if self._replica is None else self._replica.usage()
        return used + more, waiting + wait

    def replica(self) -> tuple[str, str] | None:
        return None if self._replica is None else (self._replica.shown, self._replica.status())

    def close(self) -> None:
        if self._replica is not None:
            self._replica.close()
        super().close()
