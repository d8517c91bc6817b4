"""A commit, statement by statement, inside a transaction of a database in our own process.

The steps and their order are those of PostgreSQL's `dl_commit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from deltasql.errors import DatabaseError, ValidationError
from deltasql.store.bodies import PackedTemplate
from deltasql.store.embedded.reading import NO_LIMIT, to_commit
from deltasql.store.interface import (
    CommitRecord,
    Committed,
    Head,
    NoTable,
    Outcome,
    Proposal,
    StateRecord,
    TxnSeen,
    VersionTaken,
)
from deltasql.store.rows import CommitRows, Row, key_of


class Session(Protocol):
    """The connection for writing."""

    # Whether the application's own statements ran on it: they may have left session state behind
    # that their text does not show, so the session is not used again.
    is_spent: bool

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query."""

    def execute(self, statement: str, parameters: Sequence[Any]) -> list[Row]:
        """Run one of the application's own statements."""

    def prepare(self, rows: CommitRows) -> Any:
        """Rows in the form that `write_rows` takes, prepared before the lock is taken."""

    def write_rows(self, table_id: int, version: int, prepared: Any) -> None:
        """Write the rows of every kind of action."""

    def transaction(self) -> object:
        """What distinguishes the open transaction from any other."""

    def key_list(self, keys: Collection[bytes]) -> Any:
        """Keys as a parameter of `files_by_key`."""

    def text_list(self, texts: Collection[str]) -> Any:
        """Texts as a parameter of `changes_by_path`."""


class Draft:
    """A proposal with everything done that needs no lock."""

    __slots__ = ("body", "proposal", "rows")

    def __init__(self, proposal: Proposal, prepared_rows: Any) -> None:
        self.proposal = proposal
        self.body = PackedTemplate(proposal.body)
        self.rows = prepared_rows

    def of(self, proposal: Proposal) -> Draft:
        """The same for a proposal with the same rows and body."""
        draft = Draft.__new__(Draft)
        draft.proposal, draft.body, draft.rows = proposal, self.body, self.rows
        return draft


def write(session: Session, draft: Draft, *, is_retry: bool) -> Outcome:
    """Check a proposal and write it as the table's next version."""
    proposal = draft.proposal
    table_id = proposal.table_id
    if is_retry:
        done = session.rows("commit_find", table_id=table_id, commit_id=proposal.commit_id)
        if done:
            return Committed(*done[0])
    if proposal.rows.txns:
        seen = _seen_txn(session, table_id, proposal.rows.txns)
        if seen is not None:
            return TxnSeen(seen)
    return write_next(session, draft, now=now_ms())


def write_next(session: Session, draft: Draft, *, now: int) -> Outcome:
    """Move the head, if it is where the proposal expects it, and write the version."""
    proposal = draft.proposal
    table_id = proposal.table_id
    moved = session.rows(
        "head_move",
        table_id=table_id,
        now=now,
        expected=proposal.expected_head,
        metadata_version=proposal.metadata_version,
        protocol_version=proposal.protocol_version,
    )
    if not moved:
        found = session.rows("head_get", table_id=table_id)
        return VersionTaken(Head(*found[0])) if found else NoTable()
    ((version, ict),) = moved
    write_version(session, draft, table_id=table_id, version=version, ict=ict)
    return Committed(version, ict)


def write_version(session: Session, draft: Draft, *, table_id: int, version: int, ict: int) -> None:
    """Write a version whose number and time are fixed; the head is already there."""
    proposal = draft.proposal
    session.write_rows(table_id, version, draft.rows)
    if proposal.rows.metadata:
        properties = proposal.rows.metadata[0].table_properties
        session.rows("metadata_move", table_id=table_id, version=version)
        session.rows("table_set_properties", table_id=table_id, properties=properties)
    if proposal.rows.protocol:
        reader, writer, _ = proposal.rows.protocol[0]
        session.rows("protocol_move", table_id=table_id, version=version)
        session.rows("table_set_protocol", table_id=table_id, min_reader=reader, min_writer=writer)
    body = draft.body.fill(ict)
    session.rows(
        "version_insert",
        table_id=table_id,
        version=version,
        commit_id=proposal.commit_id,
        ict=ict,
        committer=proposal.committer,
        operation=proposal.operation,
        operation_params=proposal.operation_params,
        transaction_id=proposal.transaction_id,
        is_blind_append=proposal.is_blind_append,
        digest=body.digest,
        encoding=body.encoding,
        body=body.data,
    )
    session.rows("status_insert", table_id=table_id, version=version, digest=body.digest)


def _seen_txn(session: Session, table_id: int, txns: Sequence[Row]) -> int | None:
    """The newest version that already contains one of these transactions, or a later one."""
    seen = []
    for app_key, _, txn_version, _ in txns:
        for latest, version in session.rows("txn_latest", table_id=table_id, app_key=app_key):
            if latest >= txn_version:
                seen.append(version)
    return max(seen, default=None)


class EmbeddedLockedLog:
    """Heads under lock, in a transaction that ends with the caller's block."""

    def __init__(
        self, session: Session, heads: dict[int, Head], ready: Sequence[Draft] = ()
    ) -> None:
        self._session = session
        self._ready = ready
        self.heads = heads
        # If a write fails halfway, a caller that catches the error must not commit it.
        self.failure: BaseException | None = None

    def commits(self, table_id: int, *, after: int) -> list[CommitRecord]:
        found = self._session.rows("commits_between", table_id=table_id, after=after, upto=NO_LIMIT)
        return [to_commit(row) for row in found]

    def state(self, table_id: int) -> StateRecord:
        (row,) = self._session.rows("state_get_current", table_id=table_id)
        return StateRecord(*row)

    def domains(self, table_id: int) -> dict[str, str]:
        version = self.heads[table_id].version
        found = self._session.rows("domains_at", table_id=table_id, version=version)
        return dict(found)

    def find_commit(self, table_id: int, commit_id: str) -> Committed | None:
        found = self._session.rows("commit_find", table_id=table_id, commit_id=commit_id)
        return Committed(*found[0]) if found else None

    def read_only_reason(self, table_id: int) -> str | None:
        found = self._session.rows("read_only_get", table_id=table_id)
        return found[0][0] if found else None

    def known_files(
        self, table_id: int, paths: Collection[str], *, after: int
    ) -> set[tuple[bytes, bytes]]:
        return known_files(
            lambda name, given: self._session.rows(name, **given),
            {"table_id": table_id, "after": after},
            keys=self._session.key_list([key_of(path) for path in paths]),
            paths=self._session.text_list(paths),
        )

    def ask(self, name: str, /, **parameters: Any) -> list[Row]:
        return self._session.rows(name, **parameters)

    def packed(self, values: Sequence[str] | Sequence[bytes]) -> Any:
        keys = [value for value in values if isinstance(value, bytes)]
        if keys:
            return self._session.key_list(keys)
        return self._session.text_list([value for value in values if isinstance(value, str)])

    def set_read_only(self, table_id: int, reason: str) -> None:
        self._session.rows("read_only_set", table_id=table_id, reason=reason)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._session.is_spent = True
        before = self._session.transaction()
        found = self._session.execute(statement, parameters)
        if self._session.transaction() != before:
            raise left_transaction(statement)
        return found

    def write(self, proposal: Proposal) -> Outcome:
        return self._written(proposal, lambda draft: write(self._session, draft, is_retry=False))

    def take(self, proposal: Proposal, *, in_commit_timestamp: int) -> Outcome:
        assert in_commit_timestamp > self.heads[proposal.table_id].last_ict
        return self._written(
            proposal, lambda draft: write_next(self._session, draft, now=in_commit_timestamp)
        )

    def _written(self, proposal: Proposal, write_draft: Callable[[Draft], Outcome]) -> Outcome:
        try:
            outcome = write_draft(self._draft(proposal))
        except BaseException as error:
            self.failure = error
            raise
        if isinstance(outcome, Committed):
            self.heads[proposal.table_id] = _advanced(
                self.heads[proposal.table_id], proposal, outcome
            )
        return outcome

    def _draft(self, proposal: Proposal) -> Draft:
        for draft in self._ready:
            found = draft.proposal
            if found.rows is proposal.rows and found.body is proposal.body:
                return draft.of(proposal)
        return Draft(proposal, self._session.prepare(proposal.rows))


def known_files(
    ask: Callable[[str, Mapping[str, Any]], list[Row]],
    place: Mapping[str, Any],
    *,
    keys: Any,
    paths: Any,
) -> set[tuple[bytes, bytes]]:
    """The answer of `LockedLog.known_files`; `ask` runs a query by its name."""
    files = ask("files_by_key", {**place, "keys": keys})
    changes = ask("changes_by_path", {**place, "paths": paths})
    return {(bytes(row[0]), bytes(row[1])) for row in files} | {
        (key_of(path), b"") for (path,) in changes
    }


def _advanced(head: Head, proposal: Proposal, done: Committed) -> Head:
    version = done.version
    return replace(
        head,
        version=version,
        last_ict=done.in_commit_timestamp,
        metadata_version=version if proposal.rows.metadata else head.metadata_version,
        protocol_version=version if proposal.rows.protocol else head.protocol_version,
    )


def now_ms() -> int:
    """The machine's clock: the database has none of its own."""
    return time.time_ns() // 1_000_000


def doubled_path(path: str) -> ValidationError:
    """The error for a path that would be live twice, with two deletion vectors."""
    return ValidationError(
        f"{path!r} is live with another deletion vector",
        cause="a file may be live once only",
        remedy="remove the old pair of path and deletion vector in the same commit",
    )


def added_twice(path: str) -> ValidationError:
    """The error for a commit that adds one path more than once."""
    return ValidationError(
        f"{path!r} is added twice in one commit",
        cause="a file may be live once only",
        remedy="add it once",
    )


def left_transaction(statement: str) -> DatabaseError:
    """The error for an application's own statement that ended the transaction around it."""
    return DatabaseError(
        f"{statement!r:.80} ended the transaction that it was to be part of",
        cause="a commit and the statements that go with it are one transaction",
        remedy="leave out what ends or begins a transaction",
    )
