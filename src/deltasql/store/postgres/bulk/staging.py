"""Large commits: what takes long is sent before the head is locked.

A client may be slow, or stop, while it sends, and the server waits for it; so only short statements
may follow the lock. Everything else of a large commit is sent before it, in the same transaction,
so that the server cleans up after a client that is gone. Files go straight to their place, under
the version that comes next if nobody else commits in the meantime; if somebody did, they are staged
in a temporary table and moved under the lock. Removes and the commit file always wait in a
temporary table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from psycopg import errors

from deltasql.store import rows
from deltasql.store.bodies import PackedTemplate
from deltasql.store.embedded.committing import added_twice, doubled_path
from deltasql.store.interface import Head, Proposal
from deltasql.store.postgres.bulk.copy_text import copy_chunks
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.payload import json_rows, other_rows
from deltasql.store.postgres.reader import SQL

# From this many on, COPY beats INSERT.
COPY_FROM: Final = 1_000


def is_large(proposal: Proposal) -> bool:
    """Whether sending it takes so long that nobody should wait for it."""
    return len(proposal.rows.adds) + len(proposal.rows.removes) >= COPY_FROM


class StagedCommit:
    """A commit that the server has received but not yet written.

    `version` is that of its files, if they are in the log already.
    """

    def __init__(self, proposal: Proposal, body: PackedTemplate, version: int | None) -> None:
        self.proposal = proposal
        self.body = body
        self.version = version


class Staging:
    """The commits that a transaction has staged."""

    def __init__(self, found: Iterable[StagedCommit] = ()) -> None:
        self._found = {staged.proposal.commit_id: staged for staged in found}

    def fits(self, heads: Mapping[int, Head]) -> bool:
        """Whether the versions that files were copied for are still free."""
        return all(
            head is not None and head.version + 1 == staged.version
            for staged in self._found.values()
            for head in [heads.get(staged.proposal.table_id)]
        )

    def take(self, connection: LogConnection, proposal: Proposal) -> StagedCommit | None:
        """What was staged for a proposal that is written now; None if it was staged differently or
        not at all. Anything else that was copied for the same version is removed.
        """
        staged = self._found.get(proposal.commit_id)
        if staged is not None and staged.proposal.rows is proposal.rows:
            return self._found.pop(proposal.commit_id)
        self.forget(connection, proposal.table_id)
        return None

    def forget(self, connection: LogConnection, table_id: int | None = None) -> None:
        """Remove what was not written, before it becomes part of a version, or visible."""
        for staged in list(self._found.values()):
            if table_id in (None, staged.proposal.table_id):
                if staged.version is not None:
                    place = {"table_id": staged.proposal.table_id, "version": staged.version}
                    connection.execute(SQL["staged_files_forget"], place)
                del self._found[staged.proposal.commit_id]


def copy_ahead(
    connection: LogConnection, proposals: Sequence[Proposal], heads: Mapping[int, Head]
) -> Staging | None:
    """Send proposals, their files straight to their final place if nobody else commits in the
    meantime.

    Proposals that are refused already are left out. Returns None if files are already live, or if
    the role may not stage: the transaction must start again.
    """
    wanted = [item for item in proposals if _may_follow(item, heads.get(item.table_id))]
    if len({item.table_id for item in wanted}) < len(wanted) or not _may_stage(connection):
        return None
    found = []
    connection.execute(SQL["staging_create"])
    for proposal in wanted:
        version = heads[proposal.table_id].version + 1
        try:
            with _packing(proposal) as packing:
                _copy(connection, "adds_copy", proposal, version)
        except errors.UniqueViolation:
            return None
        found.append(_sent(connection, proposal, packing.result(), version))
    return Staging(found)


def stage(connection: LogConnection, proposals: Sequence[Proposal]) -> Staging:
    """Send proposals, to be moved to their places under the lock."""
    if not _may_stage(connection):
        return Staging()
    found = []
    connection.execute(SQL["staging_create"])
    connection.execute(SQL["staging_create_files"])
    for proposal in proposals:
        with _packing(proposal) as packing:
            _copy(connection, "staging_copy", proposal, 0)
        found.append(_sent(connection, proposal, packing.result(), None))
    return Staging(found)


def write_files(
    connection: LogConnection, staged: StagedCommit, *, table_id: int, version: int
) -> None:
    """Write the rows of a staged commit, now that its version is settled."""
    place = {"table_id": table_id, "version": version}
    commit_id = staged.proposal.commit_id
    # Removes first: a file may be removed under one deletion vector and added under another.
    connection.execute(SQL["staged_rows_write"], {**place, "commit_id": commit_id})
    if staged.version is None:
        _move(connection, staged.proposal, place)
    if staged.proposal.may_have_vectors:
        check_doubled(connection, place)


def _move(connection: LogConnection, proposal: Proposal, place: dict[str, int]) -> None:
    place = {**place, "staged_as": proposal.table_id}
    moved = connection.execute(SQL["staged_files_move"], place).rowcount
    if moved == len(proposal.rows.adds):
        return
    twice = connection.execute(SQL["staged_files_twice"], place).fetchone()
    if twice is not None:
        raise added_twice(twice[0])
    connection.execute(SQL["staged_files_restate"], place)
    connection.execute(SQL["staged_files_move"], place)


def check_doubled(connection: LogConnection, place: Mapping[str, int]) -> None:
    """Raise `ValidationError` if a file of the version is also live with another vector."""
    doubled = connection.execute(SQL["files_doubled"], place).fetchone()
    if doubled is not None:
        raise doubled_path(doubled[0])


def _may_follow(proposal: Proposal, head: Head | None) -> bool:
    if head is None or proposal.expected_head not in (None, head.version):
        return False
    checked = (proposal.metadata_version, proposal.protocol_version)
    return checked == (head.metadata_version, head.protocol_version)


def _may_stage(connection: LogConnection) -> bool:
    row = connection.execute(SQL["staging_allowed"]).fetchone()
    return row is not None and bool(row[0])


def _copy(connection: LogConnection, name: str, proposal: Proposal, version: int) -> None:
    if proposal.rows.adds:
        with connection.cursor() as cursor, cursor.copy(SQL[name]) as copy:
            for chunk in copy_chunks(proposal.table_id, version, proposal.rows.adds):
                copy.write(chunk)


@contextmanager
def _packing(proposal: Proposal) -> Iterator[Future[PackedTemplate]]:
    """Compresses the commit file in another thread, while this one prepares the rows."""
    with ThreadPoolExecutor(1) as aside:
        yield aside.submit(PackedTemplate, proposal.body)


def _sent(
    connection: LogConnection, proposal: Proposal, body: PackedTemplate, version: int | None
) -> StagedCommit:
    sent = {
        "commit_id": proposal.commit_id,
        "removes": json_rows(rows.REMOVE_COLUMNS, proposal.rows.removes),
        "txns": json_rows(rows.TXN_COLUMNS, proposal.rows.txns),
        "other": other_rows(proposal.rows),
        "body_end": body.end,
    }
    connection.execute(SQL["staging_commit"], sent, binary=True)
    return StagedCommit(proposal, body, version)
