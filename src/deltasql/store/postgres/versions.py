"""Writes a version at a settled place, inside a transaction: from what was staged, or else with the
functions below `dl_commit`, which itself can neither create a table nor be given a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasql.store import rows
from deltasql.store.bodies import StoredBody, stored_body
from deltasql.store.interface import Proposal
from deltasql.store.postgres.bulk.staging import (
    COPY_FROM,
    StagedCommit,
    check_doubled,
    write_files,
)
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.payload import added_files, json_rows, other_rows
from deltasql.store.postgres.reader import SQL


def write_version(
    connection: LogConnection,
    proposal: Proposal,
    staged: StagedCommit | None,
    *,
    table_id: int,
    version: int,
    ict: int,
) -> None:
    """Write a version whose number and time are settled, and move the head to it."""
    place = {"table_id": table_id, "version": version}
    if staged is None:
        stored = stored_body(proposal.body.fill(ict))
        _write_itself(connection, "version_write", proposal, stored, ict, place)
        # Rows only after their version: the database accepts none for any other.
        _write_rows(connection, proposal, place)
        return
    write_files(connection, staged, **place)
    stored = staged.body.fill_start(ict)
    query = "version_write" if staged.body.end is None else "staged_version_write"
    _write_itself(connection, query, proposal, stored, ict, place)


def _write_itself(
    connection: LogConnection,
    query: str,
    proposal: Proposal,
    stored: StoredBody,
    ict: int,
    place: Mapping[str, int],
) -> None:
    connection.execute(
        SQL[query],
        {
            **place,
            "ict": ict,
            "commit_id": proposal.commit_id,
            "digest": stored.digest,
            "encoding": stored.encoding,
            "body": stored.data,
            "body_start": stored.data,
            "transaction_id": proposal.transaction_id,
            **who(proposal),
        },
        binary=True,
    )


def _write_rows(connection: LogConnection, proposal: Proposal, place: Mapping[str, int]) -> None:
    """Write the rows in chunks. Nothing is streamed under a lock, because the server ends the
    session of a client that falls silent between statements, but not during a COPY.
    """
    adds = proposal.rows.adds
    is_bulk = len(adds) >= COPY_FROM
    none = {"adds": None, "removes": None, "txns": None, "other": None, "may_have_vectors": False}
    # Removes first: a file may be removed under one deletion vector and added under another.
    connection.execute(
        SQL["rows_write"],
        {
            **place,
            "adds": None if is_bulk else added_files(adds),
            "removes": json_rows(rows.REMOVE_COLUMNS, proposal.rows.removes),
            "txns": txns(proposal),
            "other": other_rows(proposal.rows),
            "may_have_vectors": proposal.may_have_vectors,
        },
    )
    if is_bulk:
        for start in range(0, len(adds), COPY_FROM):
            part = added_files(adds[start : start + COPY_FROM])
            connection.execute(SQL["rows_write"], {**place, **none, "adds": part})
        if proposal.may_have_vectors:
            check_doubled(connection, place)


def who(proposal: Proposal) -> dict[str, Any]:
    """Who committed, and what: the columns of the version that say so."""
    return {
        "committer": proposal.committer,
        "operation": proposal.operation,
        "operation_params": proposal.operation_params,
        "is_blind_append": proposal.is_blind_append,
    }


def txns(proposal: Proposal) -> str | None:
    """The application transactions, as JSON."""
    return json_rows(rows.TXN_COLUMNS, proposal.rows.txns)
