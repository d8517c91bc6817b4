"""Committing to PostgreSQL.

A small commit is one call of `dl_commit`, one round trip. A commit to several tables locks the
heads first and writes under the lock; so does a large one, most of which is sent before the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import errors

from deltasql.store import rows
from deltasql.store.claims import (
    NO_SOURCES,
    Sources,
    hold_sources,
    inherit_sources,
    take_place,
)
from deltasql.store.embedded.committing import known_files
from deltasql.store.embedded.reading import NO_LIMIT, to_commit
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    NameTaken,
    NoTable,
    Outcome,
    Proposal,
    StateRecord,
    TxnSeen,
    VersionTaken,
)
from deltasql.store.postgres.answers import outcome_of
from deltasql.store.postgres.bulk.staging import (
    COPY_FROM,
    Staging,
    copy_ahead,
    is_large,
    stage,
)
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.history import placing
from deltasql.store.postgres.own_statements import OwnStatements
from deltasql.store.postgres.payload import added_files, json_rows, other_rows
from deltasql.store.postgres.reader import SQL
from deltasql.store.postgres.versions import txns, who, write_version


class PostgresWriter:
    """The writing half of the store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def commit(self, proposal: Proposal, *, is_retry: bool = False) -> Outcome:
        if len(proposal.rows.adds) >= COPY_FROM:
            return self._commit_large(proposal, is_retry=is_retry)
        values = _values(proposal, is_retry=is_retry, lock_timeout=self._connections.lock_timeout)
        answer = self._connections.answer(SQL["commit_one"], values, "committing")
        return outcome_of(proposal.table_id, answer)

    def _commit_large(self, proposal: Proposal, *, is_retry: bool) -> Outcome:
        with self.locked([proposal.table_id], drafts=[proposal]) as log:
            if proposal.table_id not in log.heads:
                return NoTable()
            if is_retry:
                done = log.find_commit(proposal.table_id, proposal.commit_id)
                if done is not None:
                    return done
            return log.write(proposal)

    @contextmanager
    def locked(
        self, table_ids: Collection[int], *, drafts: Sequence[Proposal] = ()
    ) -> Iterator[PostgresLockedLog]:
        large = [proposal for proposal in drafts if is_large(proposal)]
        with self._connections.transaction("committing", is_long=bool(large)) as connection:
            if not large:
                log = PostgresLockedLog(connection, _lock(connection, table_ids), Staging())
                with log.own.left_behind():
                    yield log
                    log.own.end()
                return
            staging, found = self._staged(connection, table_ids, large)
            log = PostgresLockedLog(connection, found, staging)
            with log.own.left_behind():
                yield log
                log.own.end()
                staging.forget(connection)

    def _staged(
        self, connection: LogConnection, table_ids: Collection[int], large: Sequence[Proposal]
    ) -> tuple[Staging, Sequence[tuple[Any, ...]]]:
        """The heads, locked once the proposals have arrived."""
        seen = connection.execute(SQL["heads_get"], {"table_ids": list(table_ids)}).fetchall()
        staging = copy_ahead(connection, large, {row[0]: Head(*row) for row in seen})
        if staging is not None:
            with self._connections.limited(connection):
                found = _lock(connection, table_ids)
            if staging.fits({row[0]: Head(*row[:6]) for row in found}):
                return staging, found
        self._connections.begin_again(connection)
        staging = stage(connection, large)
        with self._connections.limited(connection):
            return staging, _lock(connection, table_ids)

    def create_table(
        self,
        name: str,
        location: str,
        proposal: Proposal,
        *,
        is_retry: bool = False,
        sources: Sources = NO_SOURCES,
    ) -> int | NameTaken:
        (metadata,), (protocol,) = proposal.rows.metadata, proposal.rows.protocol
        large = is_large(proposal)
        with self._connections.transaction("creating a table", is_long=large) as connection:
            # Before taking anything that creators with the same name or place would wait for.
            staging = stage(connection, [proposal] if large else [])
            ask = placing(connection)
            created = connection.execute(
                SQL["table_create"],
                {
                    "name": name,
                    "location": location,
                    "protocol_min_reader": protocol.min_reader_version,
                    "protocol_min_writer": protocol.min_writer_version,
                    "properties": metadata.table_properties,
                },
            ).fetchone()
            if is_retry:
                # Only now: an earlier attempt that was still running held the name, and is over.
                parameters = {"commit_id": proposal.commit_id}
                before = connection.execute(SQL["created_find"], parameters).fetchone()
                if before is not None:
                    connection.execute("ROLLBACK")
                    connection.execute("BEGIN")
                    return int(before[0])
            if created is None:
                return NameTaken()
            table_id, now_ms = created
            hold_sources(ask, sources)
            take_place(ask, location, table_id=table_id)
            inherit_sources(ask, sources, table_id=table_id)
            connection.execute(SQL["head_create"], {"table_id": table_id, "ict": now_ms})
            staged = staging.take(connection, proposal)
            place = {"table_id": table_id, "version": 0, "ict": now_ms}
            write_version(connection, proposal, staged, **place)
            return int(table_id)

    def rename_table(self, table_id: int, name: str) -> bool | NameTaken:
        with self._connections.transaction("renaming a table") as connection:
            try:
                found = connection.execute(
                    SQL["table_rename"], {"table_id": table_id, "name": name}
                ).fetchone()
            except errors.UniqueViolation:
                # Ends the transaction, which did nothing else.
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
                return NameTaken()
        return found is not None

    def drop_table(self, table_id: int) -> bool:
        with self._connections.transaction("dropping a table") as connection:
            found = connection.execute(SQL["table_drop_whole"], {"table_id": table_id}).fetchone()
        return found is not None

    def purge_table(self, table_id: int) -> None:
        with self._connections.transaction("purging a table", is_long=True) as connection:
            for name in sorted(query for query in SQL if query.startswith("purge_")):
                connection.execute(SQL[name], {"table_id": table_id})


class PostgresLockedLog:
    """Heads under lock, in a transaction that ends with the caller's block."""

    def __init__(
        self, connection: LogConnection, found: Sequence[tuple[Any, ...]], staging: Staging
    ) -> None:
        self._connection = connection
        self._staging = staging
        self._heads = {table_id: Head(table_id, *head) for table_id, *head, _ in found}
        self._now = {table_id: now for table_id, *_, now in found}
        self.own = OwnStatements(connection)

    @property
    def heads(self) -> Mapping[int, Head]:
        return self._heads

    def commits(self, table_id: int, *, after: int) -> list[CommitRecord]:
        parameters = {"table_id": table_id, "after": after, "upto": NO_LIMIT}
        found = self._connection.execute(SQL["commits_between"], parameters)
        return [to_commit(row) for row in found]

    def state(self, table_id: int) -> StateRecord:
        found = self._connection.execute(SQL["state_get_current"], {"table_id": table_id})
        row = found.fetchone()
        assert row is not None, "a locked head has a state"
        return StateRecord(*row)

    def domains(self, table_id: int) -> dict[str, str]:
        parameters = {"table_id": table_id, "version": self._heads[table_id].version}
        return dict(self._connection.execute(SQL["domains_at"], parameters).fetchall())

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        parameters = {"table_id": table_id, "commit_id": commit_id}
        row = self._connection.execute(SQL["commit_find"], parameters).fetchone()
        return Committed(*row) if row else None

    def read_only_reason(self, table_id: int) -> str | None:
        found = self._connection.execute(SQL["read_only_get"], {"table_id": table_id})
        row = found.fetchone()
        return row[0] if row else None

    def known_files(
        self, table_id: int, paths: Collection[str], *, after: int
    ) -> set[tuple[bytes, bytes]]:
        return known_files(
            lambda name, given: self._connection.execute(SQL[name], given).fetchall(),
            {"table_id": table_id, "after": after},
            keys=[rows.key_of(path) for path in paths],
            paths=list(paths),
        )

    def ask(self, name: str, /, **parameters: Any) -> list[rows.Row]:
        return self._connection.execute(SQL[name], parameters).fetchall()

    def packed(self, values: Sequence[str] | Sequence[bytes]) -> Any:
        return list(values)

    def set_read_only(self, table_id: int, reason: str) -> None:
        self._connection.execute(SQL["read_only_give"], {"table_id": table_id, "reason": reason})

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.own.execute(statement, parameters)

    def write(self, proposal: Proposal) -> Outcome:
        if not is_large(proposal):
            self._staging.take(self._connection, proposal)
            # The transaction has set its own lock timeout.
            values = _values(proposal, is_retry=False, lock_timeout=None)
            answer = self._connection.answer(SQL["commit_one"], values)
            outcome = outcome_of(proposal.table_id, answer)
        else:
            outcome = self._write_large(proposal)
        if isinstance(outcome, Committed):
            self._advance(proposal, outcome)
        return outcome

    def take(self, proposal: Proposal, *, in_commit_timestamp: int) -> Outcome:
        assert in_commit_timestamp > self._heads[proposal.table_id].last_ict
        outcome = self._write_next(proposal, in_commit_timestamp)
        if isinstance(outcome, Committed):
            self._advance(proposal, outcome)
        return outcome

    def _write_large(self, proposal: Proposal) -> Outcome:
        head = self._heads[proposal.table_id]
        if proposal.rows.txns:
            parameters = {"table_id": proposal.table_id, "txns": txns(proposal)}
            row = self._connection.execute(SQL["txn_seen"], parameters).fetchone()
            if row is not None and row[0] is not None:
                return TxnSeen(row[0])
        return self._write_next(proposal, max(self._now[head.table_id], head.last_ict + 1))

    def _write_next(self, proposal: Proposal, ict: int) -> Outcome:
        head = self._heads[proposal.table_id]
        expected = (
            head.version if proposal.expected_head is None else proposal.expected_head,
            proposal.metadata_version,
            proposal.protocol_version,
        )
        if expected != (head.version, head.metadata_version, head.protocol_version):
            return VersionTaken(head)
        version = head.version + 1
        place = {"table_id": head.table_id, "version": version, "ict": ict}
        staged = self._staging.take(self._connection, proposal)
        write_version(self._connection, proposal, staged, **place)
        return Committed(version, ict)

    def _advance(self, proposal: Proposal, done: Committed) -> None:
        head = self._heads[proposal.table_id]
        self._heads[proposal.table_id] = Head(
            head.table_id,
            done.version,
            done.in_commit_timestamp,
            head.earliest_version,
            done.version if proposal.rows.metadata else head.metadata_version,
            done.version if proposal.rows.protocol else head.protocol_version,
        )


def _lock(connection: LogConnection, table_ids: Collection[int]) -> list[tuple[Any, ...]]:
    if not table_ids:
        return []
    return connection.execute(SQL["heads_lock"], {"table_ids": list(table_ids)}).fetchall()


def _values(proposal: Proposal, *, is_retry: bool, lock_timeout: str | None) -> dict[str, Any]:
    """The parameters of `commit_one`."""
    body, given = proposal.body, proposal.rows
    return {
        "table_id": proposal.table_id,
        "commit_id": proposal.commit_id,
        "is_retry": is_retry,
        "lock_timeout": lock_timeout,
        "expected": proposal.expected_head,
        "metadata_version": proposal.metadata_version,
        "protocol_version": proposal.protocol_version,
        "body_start": body.start,
        "body_middle": body.middle,
        "body_end": body.end,
        "transaction_id": proposal.transaction_id,
        "adds": added_files(given.adds),
        "removes": json_rows(rows.REMOVE_COLUMNS, given.removes),
        "txns": txns(proposal),
        "other": other_rows(given),
        "may_have_vectors": proposal.may_have_vectors,
        **who(proposal),
    }
